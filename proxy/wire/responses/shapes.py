"""What of a Responses answer is recognised (`proxy.wire.shapes`): the tables of its items, parts, events and fields.

Fields in which the API repeats the request (``instructions``, ``tools``, ``metadata``, …) pass as far as they stand in the request. Results
of the provider's own tools (logs, pages, files, what an MCP server said) are text that no check reads: of them figures and names pass.

Reference: https://platform.openai.com/docs/api-reference/responses/object, …/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping

from proxy.wire.chat.shapes import TOKENS
from proxy.wire.responses import events
from proxy.wire.shapes import Fields, Named, Shape, among, either, emptied, figures, listed, table, tagged, titled

_SPAN = table(word="type", number="start_index end_index index")
ANNOTATION = tagged(
    {
        "url_citation": titled(Fields("annotation", _SPAN, url="url", text="title")),
        "file_citation": Fields("annotation", {**_SPAN, "filename": either("word", "quoted")}, word="file_id"),
        "container_file_citation": Fields("annotation", {**_SPAN, "filename": either("word", "quoted")}, word="file_id container_id"),
        "file_path": Fields("annotation", _SPAN, word="file_id"),
    }
)
_PARTS: Mapping[str, Shape] = {
    "output_text": Fields("output_text", {"annotations": listed(ANNOTATION, "annotations"), "logprobs": TOKENS}, word="type", text="text"),
    "refusal": Fields("refusal", word="type", text="refusal"),
}
_THOUGHT = tagged({"reasoning_text": Fields("reasoning", word="type", text="text")})
_SUMMARY = tagged({"summary_text": Fields("reasoning", word="type", text="text")})
PART = tagged(_PARTS)
_SOURCES = listed(Fields("source", word="type name", url="url"), "sources")
_SEARCH = Fields("action", {"queries": listed("text", "queries"), "sources": _SOURCES}, word="type", text="query pattern", url="url")
_FOUND = Fields(
    "result", {"filename": either("word", "quoted")}, word="file_id vector_store_id", number="score", quoted="text", figures="attributes"
)
_OUTPUT = tagged({"logs": Fields("output", word="type", quoted="logs"), "image": Fields("output", word="type", url="url")})
_LISTED = Fields("tool", word="name", quoted="description", figures="input_schema annotations")
_CHECK = Fields("safety_check", word="id code", quoted="message")
_ITEM = table(word="id type status created_by")
_CALL = table(_ITEM, word="call_id namespace", figures="caller")
_MCP = table(_ITEM, word="server_label name approval_request_id", text="arguments")
ITEMS: Mapping[str, Fields] = {
    "message": Fields("message", {**_ITEM, "content": listed(PART, "content")}, word="role phase"),
    "reasoning": Fields(
        "reasoning", {**_ITEM, "summary": listed(_SUMMARY, "summary"), "content": listed(_THOUGHT, "content")}, word="encrypted_content"
    ),
    "function_call": Fields("function_call", _CALL, word="name", text="arguments"),
    "custom_tool_call": Fields("custom_tool_call", _CALL, word="name", text="input"),
    "web_search_call": Fields("web_search_call", {**_ITEM, "action": _SEARCH}),
    "file_search_call": Fields("file_search_call", {**_ITEM, "queries": listed("text", "queries"), "results": listed(_FOUND, "results")}),
    "code_interpreter_call": Fields(
        "code_interpreter_call", {**_ITEM, "outputs": listed(_OUTPUT, "outputs")}, text="code", word="container_id"
    ),
    "image_generation_call": Fields("image_generation_call", _ITEM, nothing="result"),
    "computer_call": Fields(
        "computer_call", {**_CALL, "pending_safety_checks": listed(_CHECK, "pending_safety_checks")}, data="action actions"
    ),
    "local_shell_call": Fields("local_shell_call", _CALL, data="action"),
    "shell_call": Fields("shell_call", _CALL, data="action", figures="environment"),
    "apply_patch_call": Fields("apply_patch_call", _CALL, data="operation"),
    "tool_search_call": Fields("tool_search_call", _CALL, data="arguments", word="execution"),
    "mcp_call": Fields("mcp_call", _MCP, quoted="output error"),
    "mcp_list_tools": Fields("mcp_list_tools", {**_MCP, "tools": listed(_LISTED, "tools")}, quoted="error"),
    "mcp_approval_request": Fields("mcp_approval_request", _MCP),
    "compaction": Fields("compaction", _ITEM, word="encrypted_content"),
}
ITEM = tagged(ITEMS)
_SOME_LATER: Mapping[str, Mapping[str, Shape]] = {
    "message": {"content": emptied([])},
    "reasoning": {"summary": emptied([]), "content": emptied([])},
    **{begin.removeprefix("response.").rpartition("_")[0]: {field: emptied("")} for begin, field in events.GIVEN.items()},
}
ITEM_BEGINS = tagged({kind: shape.but(**_SOME_LATER.get(kind, {})) for kind, shape in ITEMS.items()})
"""An item whose words are still to come."""
PART_BEGINS = tagged(
    {
        "output_text": Fields("output_text", {"text": emptied(""), "annotations": emptied([]), "logprobs": emptied([])}, word="type"),
        "refusal": Fields("refusal", {"refusal": emptied("")}, word="type"),
        "reasoning_text": Fields("reasoning", {"text": emptied("")}, word="type"),
    }
)
_HOSTED = "computer apply_patch mcp web_search file_search code_interpreter image_generation tool_search"
NEEDS: Mapping[str, tuple[str, ...]] = {
    **{f"{tool}_call": (tool,) for tool in _HOSTED.split()},
    **{f"{shell}_call": ("shell", "local_shell") for shell in ("shell", "local_shell")},
    **{f"mcp_{what}": ("mcp",) for what in ("approval_request", "list_tools")},
}
"""Items that are calls, with the tools of the provider's that they are calls of."""


ERROR = Fields("error", {"code": either("word", "number")}, word="type param", text="message")
"""Of a response that failed, or of none."""
RESPONSE = Fields(
    "response",
    {
        "error": ERROR,
        "incomplete_details": Fields("incomplete_details", word="reason"),
        "output": listed(ITEM, "output"),
        "tool_choice": either(among("auto", "none", "required"), figures),
    },
    label="id model",
    word="object status previous_response_id prompt_cache_retention service_tier truncation",
    number="created_at completed_at max_output_tokens max_tool_calls temperature top_logprobs top_p frequency_penalty presence_penalty",
    flag="background parallel_tool_calls store",
    figures="instructions metadata conversation prompt prompt_cache_options reasoning text tools usage content_filters billing"
    " content_filter_results moderation",
    quoted="prompt_cache_key safety_identifier user",
)
_AT = table(word="type item_id", number="output_index sequence_number", padding="obfuscation")
_IN = table(_AT, number="content_index")


def _event(**fields: Named) -> Fields:
    return Fields("event", {**_AT, **fields})


_RUNNING = ("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_call", "mcp_list_tools")
_STEPS = ("in_progress", "searching", "interpreting", "generating", "completed", "failed")
_PIECE = table(number="summary_index content_index", word="status")
_BEGINS = Fields("event", {**_AT, "response": RESPONSE.but(output=emptied([]), output_text="nothing")})
_ENDS = Fields("event", {**_AT, "response": RESPONSE})
EVENT = tagged(
    {
        **dict.fromkeys(events.BEGINS, _BEGINS),
        **dict.fromkeys(events.ENDS, _ENDS),
        events.ITEM: _event(item=ITEM_BEGINS),
        events.ITEM_DONE: _event(item=ITEM),
        events.PART: Fields("event", {**_IN, "part": PART_BEGINS}),
        events.PART_DONE: Fields("event", {**_IN, "part": either(PART, _THOUGHT)}),
        events.TEXT: Fields("event", {**_IN, "logprobs": TOKENS}, text="delta"),
        events.TEXT_DONE: Fields("event", {**_IN, "logprobs": TOKENS}, text="text"),
        events.REFUSAL: Fields("event", _IN, text="delta"),
        events.REFUSAL_DONE: Fields("event", _IN, text="refusal"),
        events.ANNOTATION: Fields("event", {**_IN, "annotation": ANNOTATION}, number="annotation_index"),
        **{f"{begin}.delta": _event(delta="text") for begin in events.GIVEN},
        **{f"{begin}.done": _event(**{field: "text"}) for begin, field in events.GIVEN.items()},
        events.ARGUMENTS_DONE: _event(arguments="text", name="word"),
        **{f"response.{kind}.delta": _event(**_PIECE, delta="text") for kind in ("reasoning_text", "reasoning_summary_text")},
        **{f"response.{kind}.done": _event(**_PIECE, text="text") for kind in ("reasoning_text", "reasoning_summary_text")},
        "response.reasoning_summary_part.added": _event(
            **_PIECE, part=tagged({"summary_text": Fields("reasoning", {"text": emptied("")}, word="type")})
        ),
        "response.reasoning_summary_part.done": _event(**_PIECE, part=_SUMMARY),
        **{f"response.{kind}.{step}": _event() for kind in _RUNNING for step in _STEPS},
        "error": Fields("error", {**_AT, "code": either("word", "number"), "error": ERROR}, text="message", word="param"),
    }
)
