"""What of a Responses answer is recognised (`proxy.wire.shapes`): the tables of its items, parts, events and fields.

Fields in which the API repeats the request (``instructions``, ``tools``, ``metadata``, …) pass as far as they stand in the request. Results
of the provider's own tools (logs, pages, files, what an MCP server said) are text that no check reads: of them figures and names pass.

Reference: https://platform.openai.com/docs/api-reference/responses/object, …/responses-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.exchange import Request, tool_name
from proxy.wire.responses import events
from proxy.wire.shapes import (
    Asked,
    Fields,
    Shape,
    among,
    data,
    either,
    emptied,
    figures,
    flag,
    label,
    listed,
    nothing,
    number,
    padding,
    quoted,
    tagged,
    text,
    titled,
    url,
    word,
)
from proxy.wire.token_shapes import TOKENS


def asked_of(request: Request, body: bytes, tools: object) -> Asked:
    """What a request, sent as `body` with these `tools`, asked for. A stored prompt brings tools that only the provider knows."""
    offered = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list | tuple) else []
    return Asked(
        body,
        functions=[name for tool in offered if tool.get("type") != "custom" and (name := tool_name(tool))] + _inner(offered, "function"),
        customs=[tool_name(tool) for tool in offered if tool.get("type") == "custom"] + _inner(offered, "custom"),
        kinds=[str(tool.get("type")) for tool in offered if tool.get("type") not in ("function", "custom")],
        any_tool=request.params.get("prompt") is not None or any(tool.get("type") == "tool_search" for tool in offered),
    )


def _inner(tools: list[Mapping[str, Any]], kind: str) -> list[str]:
    """The names of tools that stand in a namespace."""
    found = []
    for tool in tools:
        listed_in = tool.get("tools") if tool.get("type") == "namespace" else None
        for one in listed_in if isinstance(listed_in, list) else ():
            if isinstance(one, Mapping) and one.get("type", "function") == kind and isinstance(one.get("name"), str):
                found.append(one["name"])
    return found


_SPAN = {"type": word, "start_index": number, "end_index": number, "index": number}
ANNOTATION = tagged(
    {
        "url_citation": titled(Fields("annotation", {**_SPAN, "url": url, "title": text})),
        "file_citation": Fields("annotation", {**_SPAN, "file_id": word, "filename": either(word, quoted)}),
        "container_file_citation": Fields("annotation", {**_SPAN, "file_id": word, "container_id": word, "filename": either(word, quoted)}),
        "file_path": Fields("annotation", {**_SPAN, "file_id": word}),
    }
)
_PARTS: Mapping[str, Shape] = {
    "output_text": Fields(
        "output_text", {"type": word, "text": text, "annotations": listed(ANNOTATION, "annotations"), "logprobs": TOKENS}
    ),
    "refusal": Fields("refusal", {"type": word, "refusal": text}),
}
_THOUGHT = tagged({"reasoning_text": Fields("reasoning", {"type": word, "text": text})})
_SUMMARY = tagged({"summary_text": Fields("reasoning", {"type": word, "text": text})})
PART = tagged(_PARTS)
_SOURCES = listed(Fields("source", {"type": word, "url": url, "name": word}), "sources")
_SEARCH = Fields(
    "action", {"type": word, "query": text, "queries": listed(text, "queries"), "url": url, "pattern": text, "sources": _SOURCES}
)
_FOUND = Fields(
    "result",
    {
        "file_id": word,
        "filename": either(word, quoted),
        "score": number,
        "text": quoted,
        "attributes": figures,
        "vector_store_id": word,
    },
)
_OUTPUT = tagged({"logs": Fields("output", {"type": word, "logs": quoted}), "image": Fields("output", {"type": word, "url": url})})
_LISTED = Fields("tool", {"name": word, "description": quoted, "input_schema": figures, "annotations": figures})
_CHECK = Fields("safety_check", {"id": word, "code": word, "message": quoted})
_ITEM = {"id": word, "type": word, "status": word, "created_by": word}
_CALL = {**_ITEM, "call_id": word, "caller": figures, "namespace": word}
_MCP = {**_ITEM, "server_label": word, "name": word, "arguments": text, "approval_request_id": word}
ITEMS: Mapping[str, Fields] = {
    "message": Fields("message", {**_ITEM, "role": word, "phase": word, "content": listed(PART, "content")}),
    "reasoning": Fields(
        "reasoning",
        {**_ITEM, "summary": listed(_SUMMARY, "summary"), "content": listed(_THOUGHT, "content"), "encrypted_content": word},
    ),
    "function_call": Fields("function_call", {**_CALL, "name": word, "arguments": text}),
    "custom_tool_call": Fields("custom_tool_call", {**_CALL, "name": word, "input": text}),
    "web_search_call": Fields("web_search_call", {**_ITEM, "action": _SEARCH}),
    "file_search_call": Fields("file_search_call", {**_ITEM, "queries": listed(text, "queries"), "results": listed(_FOUND, "results")}),
    "code_interpreter_call": Fields(
        "code_interpreter_call", {**_ITEM, "code": text, "container_id": word, "outputs": listed(_OUTPUT, "outputs")}
    ),
    "image_generation_call": Fields("image_generation_call", {**_ITEM, "result": nothing}),
    "computer_call": Fields(
        "computer_call",
        {**_CALL, "action": data, "actions": data, "pending_safety_checks": listed(_CHECK, "pending_safety_checks")},
    ),
    "local_shell_call": Fields("local_shell_call", {**_CALL, "action": data}),
    "shell_call": Fields("shell_call", {**_CALL, "action": data, "environment": figures}),
    "apply_patch_call": Fields("apply_patch_call", {**_CALL, "operation": data}),
    "tool_search_call": Fields("tool_search_call", {**_CALL, "arguments": data, "execution": word}),
    "mcp_call": Fields("mcp_call", {**_MCP, "output": quoted, "error": quoted}),
    "mcp_list_tools": Fields("mcp_list_tools", {**_MCP, "tools": listed(_LISTED, "tools"), "error": quoted}),
    "mcp_approval_request": Fields("mcp_approval_request", _MCP),
    "compaction": Fields("compaction", {**_ITEM, "encrypted_content": word}),
}
ITEM = tagged(ITEMS)
_SOME_LATER: Mapping[str, Mapping[str, Shape]] = {
    "message": {"content": emptied([])},
    "reasoning": {"summary": emptied([]), "content": emptied([])},
    "function_call": {"arguments": emptied("")},
    "custom_tool_call": {"input": emptied("")},
    "mcp_call": {"arguments": emptied("")},
    "code_interpreter_call": {"code": emptied("")},
}
ITEM_BEGINS = tagged({kind: shape.but(**_SOME_LATER.get(kind, {})) for kind, shape in ITEMS.items()})
"""An item whose words are still to come."""
PART_BEGINS = tagged(
    {
        "output_text": Fields("output_text", {"type": word, "text": emptied(""), "annotations": emptied([]), "logprobs": emptied([])}),
        "refusal": Fields("refusal", {"type": word, "refusal": emptied("")}),
        "reasoning_text": Fields("reasoning", {"type": word, "text": emptied("")}),
    }
)
NEEDS: Mapping[str, tuple[str, ...]] = {
    "computer_call": ("computer",),
    "local_shell_call": ("local_shell", "shell"),
    "shell_call": ("shell", "local_shell"),
    "apply_patch_call": ("apply_patch",),
    "mcp_approval_request": ("mcp",),
    "mcp_call": ("mcp",),
    "mcp_list_tools": ("mcp",),
    "web_search_call": ("web_search",),
    "file_search_call": ("file_search",),
    "code_interpreter_call": ("code_interpreter",),
    "image_generation_call": ("image_generation",),
    "tool_search_call": ("tool_search",),
}
"""Items that are calls, with the tools of the provider's that they are calls of."""


ERROR = Fields("error", {"type": word, "code": either(word, number), "message": text, "param": word})
"""Of a response that failed, or of none."""
_RESPONSE = Fields(
    "response",
    {
        "id": label,
        "object": word,
        "created_at": number,
        "completed_at": number,
        "status": word,
        "background": flag,
        "error": ERROR,
        "incomplete_details": Fields("incomplete_details", {"reason": word}),
        "instructions": figures,
        "metadata": figures,
        "model": label,
        "max_output_tokens": number,
        "max_tool_calls": number,
        "output": listed(ITEM, "output"),
        "parallel_tool_calls": flag,
        "previous_response_id": word,
        "conversation": figures,
        "prompt": figures,
        "prompt_cache_key": quoted,
        "prompt_cache_options": figures,
        "prompt_cache_retention": word,
        "reasoning": figures,
        "safety_identifier": quoted,
        "service_tier": word,
        "store": flag,
        "temperature": number,
        "text": figures,
        "tool_choice": either(among("auto", "none", "required"), figures),
        "tools": figures,
        "top_logprobs": number,
        "top_p": number,
        "frequency_penalty": number,
        "presence_penalty": number,
        "truncation": word,
        "usage": figures,
        "user": quoted,
        "content_filters": figures,
        "content_filter_results": figures,
        "moderation": figures,
        "billing": figures,
    },
)
RESPONSE = _RESPONSE
_AT = {"type": word, "item_id": word, "output_index": number, "sequence_number": number, "obfuscation": padding}
_IN = {**_AT, "content_index": number}


def _event(**fields: Shape) -> Fields:
    return Fields("event", {**_AT, **fields})


def _steps(kind: str, *steps: str) -> dict[str, Shape]:
    return {f"response.{kind}.{step}": _event() for step in steps}


_RUN = ("in_progress", "searching", "interpreting", "generating", "completed", "failed")
_PIECE = {"summary_index": number, "content_index": number, "status": word}
_BEGINS = Fields("event", {**_AT, "response": _RESPONSE.but(output=emptied([]), output_text=nothing)})
_ENDS = Fields("event", {**_AT, "response": _RESPONSE})
EVENT = tagged(
    {
        **dict.fromkeys(events.BEGINS, _BEGINS),
        **dict.fromkeys(events.ENDS, _ENDS),
        events.ITEM: _event(item=ITEM_BEGINS),
        events.ITEM_DONE: _event(item=ITEM),
        events.PART: Fields("event", {**_IN, "part": PART_BEGINS}),
        events.PART_DONE: Fields("event", {**_IN, "part": either(PART, _THOUGHT)}),
        events.TEXT: Fields("event", {**_IN, "delta": text, "logprobs": TOKENS}),
        events.TEXT_DONE: Fields("event", {**_IN, "text": text, "logprobs": TOKENS}),
        events.REFUSAL: Fields("event", {**_IN, "delta": text}),
        events.REFUSAL_DONE: Fields("event", {**_IN, "refusal": text}),
        events.ANNOTATION: Fields("event", {**_IN, "annotation": ANNOTATION, "annotation_index": number}),
        events.ARGUMENTS: _event(delta=text),
        events.ARGUMENTS_DONE: _event(arguments=text, name=word),
        "response.custom_tool_call_input.delta": _event(delta=text),
        "response.custom_tool_call_input.done": _event(input=text),
        "response.mcp_call_arguments.delta": _event(delta=text),
        "response.mcp_call_arguments.done": _event(arguments=text),
        "response.code_interpreter_call_code.delta": _event(delta=text),
        "response.code_interpreter_call_code.done": _event(code=text),
        "response.reasoning_text.delta": _event(**_PIECE, delta=text),
        "response.reasoning_text.done": _event(**_PIECE, text=text),
        "response.reasoning_summary_text.delta": _event(**_PIECE, delta=text),
        "response.reasoning_summary_text.done": _event(**_PIECE, text=text),
        "response.reasoning_summary_part.added": _event(
            **_PIECE, part=tagged({"summary_text": Fields("reasoning", {"type": word, "text": emptied("")})})
        ),
        "response.reasoning_summary_part.done": _event(**_PIECE, part=_SUMMARY),
        **_steps("web_search_call", *_RUN),
        **_steps("file_search_call", *_RUN),
        **_steps("code_interpreter_call", *_RUN),
        **_steps("image_generation_call", *_RUN),
        **_steps("mcp_call", *_RUN),
        **_steps("mcp_list_tools", *_RUN),
        "error": Fields("error", {**_AT, "code": either(word, number), "message": text, "param": word, "error": ERROR}),
    }
)
CREATED = _BEGINS
