"""What of a Messages answer is recognised (`proxy.wire.shapes`), whole and event by event.

In: an upstream's parsed message, or events. Out: the same with the known blocks and fields alone. Blocks that leave are counted anew,
open and close one after another, and hold what a block of their type is made of; a text behind another block begins with a blank line where
clients, which join texts with nothing, would read one word out of two.

Reference: https://docs.anthropic.com/en/api/messages, https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.wire.dialect import Recogniser
from proxy.wire.messages.answers import GAP
from proxy.wire.shapes import ABSENT, AnswerBounds, Fields, Shape, by_type, either, empty, glues, list_of, table, with_title

_SOURCE = table(word="type", quoted="cited_text")
_DOCUMENT = table(_SOURCE, number="document_index", quoted="document_title", word="file_id")
_CITATION = by_type(
    {
        "char_location": Fields("citation", _DOCUMENT, number="start_char_index end_char_index"),
        "page_location": Fields("citation", _DOCUMENT, number="start_page_number end_page_number"),
        "content_block_location": Fields("citation", _DOCUMENT, number="start_block_index end_block_index"),
        "search_result_location": Fields(
            "citation",
            {**_SOURCE, "source": either("url", "quoted")},
            number="search_result_index start_block_index end_block_index",
            quoted="title",
        ),
        "web_search_result_location": with_title(Fields("citation", _SOURCE, url="url", text="title", word="encrypted_index")),
    }
)
_CALL = table(word="type id name", data="input", figures="caller cache_control")
_FAILED = table(word="type error_code")
_RAN = Fields(
    "result",
    {"content": list_of(Fields("file", word="type file_id"), "files")},
    word="type encrypted_stdout error_code file_type",
    quoted="stdout stderr error_message",
    number="return_code num_lines start_line total_lines old_start old_lines new_start new_lines",
    flag="is_file_update",
)
_PAGE = with_title(Fields("page", {"page_age": either("word", "quoted")}, word="type encrypted_content", url="url", text="title"))
_FETCHED_PAGE = Fields("page", word="type retrieved_at error_code", url="url")
_REFERENCES = list_of(Fields("tool", word="type tool_name", figures="cache_control"), "tools")
_TOOLS = Fields("tools", {**_FAILED, "tool_references": _REFERENCES}, quoted="error_message")
_MCP_TEXTS = either(list_of(by_type({"text": Fields("result", word="type", quoted="text")}), "mcp_tool_result"), "quoted")
_ADVICE = Fields("result", _FAILED, word="encrypted_content stop_reason", quoted="text")
_LISTED_TOOL = Fields("tool", word="name", quoted="description", figures="input_schema")


def _result(content: Shape) -> Fields:
    return Fields("tool_result", {"content": content}, word="type tool_use_id", flag="is_error", figures="caller cache_control")


BLOCKS: Mapping[str, Fields] = {
    "text": Fields("text", {"citations": list_of(_CITATION, "citations")}, word="type", text="text", figures="cache_control"),
    "thinking": Fields("thinking", word="type signature", text="thinking"),
    "redacted_thinking": Fields("redacted_thinking", word="type data"),
    "tool_use": Fields("tool_use", _CALL, word="toolset_name"),
    "server_tool_use": Fields("server_tool_use", _CALL),
    "mcp_tool_use": Fields("mcp_tool_use", _CALL, word="server_name"),
    "web_search_tool_result": _result(either(list_of(_PAGE, "pages"), Fields("result", _FAILED))),
    "web_fetch_tool_result": _result(_FETCHED_PAGE),
    **{f"{kind}code_execution_tool_result": _result(_RAN) for kind in ("", "bash_", "text_editor_")},
    "tool_search_tool_result": _result(_TOOLS),
    "mcp_tool_result": _result(_MCP_TEXTS),
    "mcp_tool_listing": Fields("mcp_tool_listing", {"tools": list_of(_LISTED_TOOL, "tools")}, word="type mcp_server_name"),
    "advisor_tool_result": _result(_ADVICE),
    "container_upload": Fields("container_upload", word="type file_id", figures="cache_control"),
}
_BLOCK = by_type(BLOCKS)
_DELTAS: Mapping[str, Fields] = {
    "text_delta": Fields("delta", word="type", text="text"),
    "thinking_delta": Fields("delta", word="type", text="thinking", number="estimated_tokens"),
    "signature_delta": Fields("delta", word="type signature"),
    "input_json_delta": Fields("delta", word="type", text="partial_json"),
    "citations_delta": Fields("delta", {"citation": _CITATION}, word="type"),
}
_DELTA = by_type(_DELTAS)
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_DELTA_TYPES: dict[str, tuple[str, ...]] = {"text": ("text_delta", "citations_delta"), "thinking": ("thinking_delta", "signature_delta")}
_DELTA_TYPES |= dict.fromkeys(_CALLS, ("input_json_delta",))
_MANAGED = Fields("context_management", figures="applied_edits")
_CONTAINER = Fields("container", word="id expires_at", figures="skills")
_STOP_DETAILS = Fields(
    "stop_details",
    word="type category fallback_credit_token recommended_model",
    flag="fallback_has_prefill_claim",
    quoted="explanation",
)
_TRANSFORMATIONS = list_of(Fields("transformation", word="type reason path"), "input_transformations")
_ENDING: Mapping[str, Shape] = table(
    {"stop_details": _STOP_DETAILS, "container": _CONTAINER},
    word="stop_reason",
    quoted="stop_sequence",
)
_MESSAGE = Fields(
    "message",
    {"content": list_of(_BLOCK, "content"), **_ENDING, "context_management": _MANAGED, "input_transformations": _TRANSFORMATIONS},
    label="id model",
    word="type role",
    figures="usage diagnostics",
)
_ERROR = Fields("error", word="type", text="message", figures="details")
_FAILURE = Fields("error", {"error": _ERROR}, word="type request_id")
_EVENT = by_type(
    {
        **{kind: Fields(kind, word="type") for kind in ("message_stop", "ping")},
        "message_start": Fields("message_start", {"message": _MESSAGE.but(content=empty([]))}, word="type"),
        "content_block_start": Fields("content_block_start", {"content_block": _BLOCK}, word="type", number="index"),
        "content_block_delta": Fields("content_block_delta", {"delta": _DELTA}, word="type", number="index"),
        "content_block_stop": Fields("content_block_stop", word="type", number="index"),
        "message_delta": Fields(
            "message_delta",
            {"delta": Fields("delta", _ENDING), "context_management": _MANAGED, "input_transformations": _TRANSFORMATIONS},
            word="type",
            figures="usage",
        ),
        "error": _FAILURE,
    }
)


class MessagesShapes(Recogniser):
    """Of Messages."""

    api = "messages"
    failure = _FAILURE

    def __init__(self, bounds: AnswerBounds) -> None:
        super().__init__(bounds)
        self._places: dict[int, int] = {}
        """Where blocks of the upstream's stand among those that leave."""
        self._started_indexes: set[int] = set()
        self._open: int | None = None
        """The upstream's index of the block that is open."""
        self._kind = ""
        self._last = ""
        """The end of the text that was said last."""
        self._apart = self._silent = self._has_stop_reason = self._over = False
        """Whether another block came since; whether the open text block has said nothing yet; whether the message has."""

    def answer(self, fields: Any) -> Any:
        """A message with what is recognised of it."""
        made = _MESSAGE(fields, self.reading)
        if made is ABSENT or not isinstance(made.get("content"), list):
            return made
        made["content"] = [block for block in made["content"] if self._may_leave(block)]
        for block in made["content"]:
            if block["type"] == "text":
                block["text"] = self._with_gap(block.get("text") or "", first=True)
            else:
                self._apart = True
        return made

    def _may_leave(self, block: Mapping[str, Any]) -> bool:
        """Whether it is a block that the request could have brought about."""
        kind, bounds = block["type"], self.reading.bounds
        name = str(block.get("name") or "")
        offered = {
            "tool_use": bounds.offers(name) or bool(block.get("toolset_name") and bounds.kinds),
            "server_tool_use": bounds.offers(name) or bool(bounds.kinds),
            "mcp_tool_use": bounds.provides("mcp"),
        }.get(kind, True)
        if not offered:
            self.reading.leave_out("a call of a tool that was not offered")
        self.says = self.says or (offered and kind in _CALLS) or bool(block.get("text"))
        return offered

    def _with_gap(self, said: str, *, first: bool) -> str:
        """A text, or a piece of one, that does not go on with a word of a text that it does not follow."""
        if not said:
            return said
        gap = GAP if first and self._apart and glues(self._last, said) else ""
        self._last, self._apart = (self._last + said)[-24:], False
        self.says = True
        return gap + said

    def events(self, fields: Any) -> list[dict[str, Any]]:
        """An event with what is recognised of it, behind the end of a block that it shows to be over."""
        made = _EVENT(fields, self.reading)
        if made is ABSENT or self._over:
            self.reading.leave_out("event", str(fields.get("type")) if isinstance(fields, dict) else "")
            return []
        kind = made["type"]
        self._over = kind == "message_stop"
        if kind.startswith("content_block_"):
            return self._block(kind, made)
        closing = self._close() if kind in ("message_delta", "message_stop") else []
        if kind == "message_delta":
            self._has_stop_reason = self._has_stop_reason or bool((made.get("delta") or {}).get("stop_reason"))
        return [*closing, made]

    def _block(self, kind: str, made: dict[str, Any]) -> list[dict[str, Any]]:
        index = made.get("index")
        if index.__class__ is not int or self._has_stop_reason:
            self.reading.leave_out(kind, "after the end" if self._has_stop_reason else "index")
            return []
        if kind == "content_block_start":
            return self._start(index, made)
        if index != self._open:
            if index in self._places or index not in self._started_indexes:
                self.reading.leave_out(kind, "of a block that is not open")
            return []
        if kind == "content_block_stop":
            return self._close()
        delta = made.get("delta")
        if not isinstance(delta, dict) or delta["type"] not in _DELTA_TYPES.get(self._kind, ()):
            self.reading.leave_out("delta")
            return []
        if delta["type"] == "text_delta":
            said = delta.get("text") or ""
            delta["text"], self._silent = self._with_gap(said, first=self._silent), self._silent and not said
        return [{**made, "index": self._places[index]}]

    def _start(self, index: int, made: dict[str, Any]) -> list[dict[str, Any]]:
        block = made.get("content_block")
        closing = self._close()
        if index in self._started_indexes or not isinstance(block, dict) or not self._may_leave(block):
            self.reading.leave_out("content_block_start", "again" if index in self._started_indexes else "content_block")
            self._started_indexes.add(index)
            return closing
        self._started_indexes.add(index)
        self._places[index] = len(self._places)
        self._open, self._kind = index, block["type"]
        if self._kind == "text":
            said = block.get("text") or ""
            block["text"], self._silent = self._with_gap(said, first=True), not said
        else:
            self._apart = True
        return [*closing, {**made, "index": self._places[index]}]

    def _close(self) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        index, self._open = self._places[self._open], None
        return [{"type": "content_block_stop", "index": index}]
