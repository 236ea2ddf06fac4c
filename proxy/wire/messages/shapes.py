"""What of a Messages answer is recognised (`proxy.wire.shapes`), whole and event by event.

In: an upstream's parsed message, or events. Out: the same with the known blocks and fields alone. Blocks that leave are counted anew,
open and close one after another, and hold what a block of their type is made of; a text behind another block begins with a blank line where
clients, which join texts with nothing, would read one word out of two.

Reference: https://docs.anthropic.com/en/api/messages, https://docs.anthropic.com/en/api/messages-streaming
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.config.settings import Api
from proxy.exchange import Request, tool_name
from proxy.wire.messages.answers import PARTED
from proxy.wire.shapes import (
    ABSENT,
    Asked,
    Fields,
    Reading,
    Shape,
    data,
    either,
    emptied,
    figures,
    flag,
    glues,
    label,
    listed,
    number,
    quoted,
    tagged,
    text,
    titled,
    url,
    word,
)


def asked_of(request: Request, body: bytes, tools: object) -> Asked:
    """What a request, sent as `body` with these `tools`, asked for."""
    offered = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list | tuple) else []
    return Asked(
        body,
        functions=[name for tool in offered if (name := tool_name(tool) or str(tool.get("name") or ""))],
        kinds=[str(tool["type"]) for tool in offered if tool.get("type") not in (None, "function", "custom")]
        + ["mcp"] * bool(request.params.get("mcp_servers"))
        + ["code_execution"] * bool(request.params.get("container")),
    )


_SOURCE = {"type": word, "cited_text": quoted}
_DOCUMENT = {**_SOURCE, "document_index": number, "document_title": quoted, "file_id": word}
_CITATION = tagged(
    {
        "char_location": Fields("citation", {**_DOCUMENT, "start_char_index": number, "end_char_index": number}),
        "page_location": Fields("citation", {**_DOCUMENT, "start_page_number": number, "end_page_number": number}),
        "content_block_location": Fields("citation", {**_DOCUMENT, "start_block_index": number, "end_block_index": number}),
        "search_result_location": Fields(
            "citation",
            {
                **_SOURCE,
                "search_result_index": number,
                "source": either(url, quoted),
                "title": quoted,
                "start_block_index": number,
                "end_block_index": number,
            },
        ),
        "web_search_result_location": titled(Fields("citation", {**_SOURCE, "url": url, "title": text, "encrypted_index": word})),
    }
)
_CALL = {"type": word, "id": word, "name": word, "input": data, "caller": figures, "cache_control": figures}
_FAILED = {"type": word, "error_code": word}
_RAN = Fields(
    "result",
    {
        "type": word,
        "stdout": quoted,
        "stderr": quoted,
        "encrypted_stdout": word,
        "return_code": number,
        "content": listed(Fields("file", {"type": word, "file_id": word}), "files"),
        "error_code": word,
        "is_file_update": flag,
        "file_type": word,
        "num_lines": number,
        "start_line": number,
        "total_lines": number,
        "old_start": number,
        "old_lines": number,
        "new_start": number,
        "new_lines": number,
    },
)
_PAGE = titled(Fields("page", {"type": word, "url": url, "title": text, "encrypted_content": word, "page_age": either(word, quoted)}))
_FETCHED = Fields("page", {"type": word, "url": url, "retrieved_at": word, "error_code": word})
_FOUND = Fields(
    "tools", {**_FAILED, "tool_references": listed(Fields("tool", {"type": word, "tool_name": word, "cache_control": figures}), "tools")}
)
_SAID = listed(tagged({"text": Fields("result", {"type": word, "text": quoted})}), "mcp_tool_result")


def _result(content: Shape) -> Fields:
    shapes = {"type": word, "tool_use_id": word, "content": content, "is_error": flag, "caller": figures, "cache_control": figures}
    return Fields("tool_result", shapes)


BLOCKS: Mapping[str, Fields] = {
    "text": Fields("text", {"type": word, "text": text, "citations": listed(_CITATION, "citations"), "cache_control": figures}),
    "thinking": Fields("thinking", {"type": word, "thinking": text, "signature": word}),
    "redacted_thinking": Fields("redacted_thinking", {"type": word, "data": word}),
    "tool_use": Fields("tool_use", {**_CALL, "toolset_name": word}),
    "server_tool_use": Fields("server_tool_use", _CALL),
    "mcp_tool_use": Fields("mcp_tool_use", {**_CALL, "server_name": word}),
    "web_search_tool_result": _result(either(listed(_PAGE, "pages"), Fields("result", _FAILED))),
    "web_fetch_tool_result": _result(_FETCHED),
    "code_execution_tool_result": _result(_RAN),
    "bash_code_execution_tool_result": _result(_RAN),
    "text_editor_code_execution_tool_result": _result(_RAN),
    "tool_search_tool_result": _result(_FOUND),
    "mcp_tool_result": _result(_SAID),
    "container_upload": Fields("container_upload", {"type": word, "file_id": word, "cache_control": figures}),
}
_BLOCK = tagged(BLOCKS)
_NEEDS = {"tool_use": "", "server_tool_use": "server", "mcp_tool_use": "mcp"}
_DELTAS: Mapping[str, Fields] = {
    "text_delta": Fields("delta", {"type": word, "text": text}),
    "thinking_delta": Fields("delta", {"type": word, "thinking": text, "estimated_tokens": number}),
    "signature_delta": Fields("delta", {"type": word, "signature": word}),
    "input_json_delta": Fields("delta", {"type": word, "partial_json": text}),
    "citations_delta": Fields("delta", {"type": word, "citation": _CITATION}),
}
_DELTA = tagged(_DELTAS)
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_MADE_OF = {
    "text": ("text_delta", "citations_delta"),
    "thinking": ("thinking_delta", "signature_delta"),
    **dict.fromkeys(_CALLS, ("input_json_delta",)),
}
_MANAGED = Fields("context_management", {"applied_edits": figures})
_CONTAINER = Fields("container", {"id": word, "expires_at": word, "skills": figures})
_ENDING: Mapping[str, Shape] = {
    "stop_reason": word,
    "stop_sequence": quoted,
    "stop_details": Fields("stop_details", {"type": word, "category": word, "explanation": quoted}),
    "container": _CONTAINER,
}
_MESSAGE = Fields(
    "message",
    {
        "id": label,
        "type": word,
        "role": word,
        "model": label,
        "content": listed(_BLOCK, "content"),
        **_ENDING,
        "usage": figures,
        "context_management": _MANAGED,
        "diagnostics": figures,
    },
)
_ERROR = Fields("error", {"type": word, "message": text, "details": figures})
_FAILURE = Fields("error", {"type": word, "error": _ERROR, "request_id": word})
_EVENT = tagged(
    {
        "message_start": Fields("message_start", {"type": word, "message": _MESSAGE.but(content=emptied([]))}),
        "content_block_start": Fields("content_block_start", {"type": word, "index": number, "content_block": _BLOCK}),
        "content_block_delta": Fields("content_block_delta", {"type": word, "index": number, "delta": _DELTA}),
        "content_block_stop": Fields("content_block_stop", {"type": word, "index": number}),
        "message_delta": Fields(
            "message_delta", {"type": word, "delta": Fields("delta", _ENDING), "usage": figures, "context_management": _MANAGED}
        ),
        "message_stop": Fields("message_stop", {"type": word}),
        "ping": Fields("ping", {"type": word}),
        "error": _FAILURE,
    }
)


class MessagesShapes:
    """Implements `proxy.wire.dialect.Recogniser`."""

    api: Api = "messages"
    end_mark = b""

    def __init__(self, asked: Asked) -> None:
        self.reading = Reading(asked)
        self.says = False
        self._places: dict[int, int] = {}
        """Where blocks of the upstream's stand among those that leave."""
        self._seen: set[int] = set()
        self._open: int | None = None
        """The upstream's index of the block that is open."""
        self._kind = ""
        self._last = ""
        """The end of the text that was said last."""
        self._apart = self._silent = self._ended = self._over = False
        """Whether another block came since; whether the open text block has said nothing yet; whether the message has."""

    def answer(self, fields: Any) -> Any:
        """A message with what is recognised of it."""
        made = _MESSAGE(fields, self.reading)
        if made is ABSENT or not isinstance(made.get("content"), list):
            return made
        made["content"] = [block for block in made["content"] if self._leaves(block)]
        for block in made["content"]:
            if block["type"] == "text":
                block["text"] = self._parted(block.get("text") or "", first=True)
            else:
                self._apart = True
        return made

    def _leaves(self, block: Mapping[str, Any]) -> bool:
        """Whether it is a block that the request could have brought about."""
        kind, asked = block["type"], self.reading.asked
        name = str(block.get("name") or "")
        offered = {
            "tool_use": asked.offers(name) or bool(block.get("toolset_name") and asked.kinds),
            "server_tool_use": asked.offers(name) or bool(asked.kinds),
            "mcp_tool_use": asked.provides("mcp"),
        }.get(kind, True)
        if not offered:
            self.reading.leave_out("a call of a tool that was not offered")
        self.says = self.says or (offered and kind in _CALLS) or bool(block.get("text"))
        return offered

    def _parted(self, said: str, *, first: bool) -> str:
        """A text, or a piece of one, that does not go on with a word of a text that it does not follow."""
        if not said:
            return said
        gap = PARTED if first and self._apart and glues(self._last, said) else ""
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
            self._ended = self._ended or bool((made.get("delta") or {}).get("stop_reason"))
        return [*closing, made]

    def _block(self, kind: str, made: dict[str, Any]) -> list[dict[str, Any]]:
        index = made.get("index")
        if index.__class__ is not int or self._ended:
            self.reading.leave_out(kind, "after the end" if self._ended else "index")
            return []
        if kind == "content_block_start":
            return self._start(index, made)
        if index != self._open:
            if index in self._places or index not in self._seen:
                self.reading.leave_out(kind, "of a block that is not open")
            return []
        if kind == "content_block_stop":
            return self._close()
        delta = made.get("delta")
        if not isinstance(delta, dict) or delta["type"] not in _MADE_OF.get(self._kind, ()):
            self.reading.leave_out("delta")
            return []
        if delta["type"] == "text_delta":
            said = delta.get("text") or ""
            delta["text"], self._silent = self._parted(said, first=self._silent), self._silent and not said
        return [{**made, "index": self._places[index]}]

    def _start(self, index: int, made: dict[str, Any]) -> list[dict[str, Any]]:
        block = made.get("content_block")
        closing = self._close()
        if index in self._seen or not isinstance(block, dict) or not self._leaves(block):
            self.reading.leave_out("content_block_start", "again" if index in self._seen else "content_block")
            self._seen.add(index)
            return closing
        self._seen.add(index)
        self._places[index] = len(self._places)
        self._open, self._kind = index, block["type"]
        if self._kind == "text":
            said = block.get("text") or ""
            block["text"], self._silent = self._parted(said, first=True), not said
        else:
            self._apart = True
        return [*closing, {**made, "index": self._places[index]}]

    def _close(self) -> list[dict[str, Any]]:
        if self._open is None:
            return []
        index, self._open = self._places[self._open], None
        return [{"type": "content_block_stop", "index": index}]

    def end(self) -> list[dict[str, Any]]:
        """Nothing is owed: a stream that broke off is to be seen as one."""
        return []

    def error(self, fields: Any) -> Any:
        """An error of the API."""
        return _FAILURE(fields, self.reading)
