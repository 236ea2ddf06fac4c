"""Messages' answers: read into pieces, and written from them.

Reference: https://docs.anthropic.com/en/api/messages and …/messages-streaming
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.config.settings import Api
from proxy.errors import ContextLengthExceeded
from proxy.exchange import Usage
from proxy.wire.answers import FOR_AN_HOUR, GOOD, end_of, number, usage_in
from proxy.wire.api_errors import messages_words
from proxy.wire.bodies import exact, object_of
from proxy.wire.messages import events
from proxy.wire.messages.answers import GAP
from proxy.wire.messages.shapes import BLOCKS
from proxy.wire.translation import pieces
from proxy.wire.translation.chat_answers import error_of
from proxy.wire.translation.neutral import wrap

_REASONS: Mapping[str, str] = {"length": "max_tokens", "content_filter": "refusal"}
_ERROR_TYPES: Mapping[str, str] = {
    ContextLengthExceeded.code: "invalid_request_error",
    "rate_limit_exceeded": "rate_limit_error",
    "overloaded": "overloaded_error",
}


class MessagesReader:
    """Implements `proxy.wire.translation.pieces.AnswerReader`."""

    def __init__(self) -> None:
        self._usage: dict[str, Any] | None = None
        self._kinds: list[str] = []
        """The types of the blocks so far."""
        self._has_input: dict[int, bool] = {}
        """The calls that have begun, by their block, and whether any of their arguments have come."""

    def payload(self, payload: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """The pieces of an event."""
        kind = payload.get("type")
        if kind == "message_start" and isinstance(payload.get("message"), Mapping):
            yield pieces.AnswerStart(pieces.words(payload["message"].get("id")), pieces.words(payload["message"].get("model")))
            self._usage = events.merge_usage(self._usage, payload["message"].get("usage"))
        elif kind == "content_block_start" and isinstance(payload.get("content_block"), Mapping):
            yield from self._block(number(payload, "index"), payload["content_block"])
        elif kind == "content_block_delta" and isinstance(payload.get("delta"), Mapping):
            yield from self._delta(number(payload, "index"), payload["delta"])
        elif kind == "content_block_stop":
            index = number(payload, "index")
            if self._has_input.get(index) is False:
                yield pieces.CallDelta(index, "{}")
            if index in self._has_input:
                yield pieces.CallEnd(index)
        elif kind == "message_delta":
            yield from self._end(payload.get("delta"), payload.get("usage"))
        elif kind == "message_stop":
            yield pieces.AnswerEnd()
        elif kind == "error":
            yield error_of(payload)

    def _block(self, index: int, block: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        kind, before = pieces.words(block.get("type")), self._kinds[-1] if self._kinds else ""
        self._kinds.append(kind)
        if kind == "text":
            if (text := pieces.words(block.get("text"))) or before not in ("", "text"):
                yield pieces.TextDelta(text, apart=before not in ("", "text"))
        elif kind == "thinking":
            yield pieces.ThinkingDelta(pieces.words(block.get("thinking")), apart=True)
            if signature := pieces.words(block.get("signature")):
                yield pieces.Signature("messages", signature)
        elif kind == "redacted_thinking":
            yield pieces.Signature("redacted", pieces.words(block.get("data")))
        elif kind == "tool_use":
            yield pieces.CallStart(index, pieces.words(block.get("id")), pieces.words(block.get("name")))
            self._has_input[index] = bool(block.get("input"))
            if self._has_input[index]:
                yield pieces.CallDelta(index, orjson.dumps(block.get("input") or {}).decode())
        else:
            raise ValueError(f"a block of {pieces.known_type(kind, BLOCKS)}")

    def _delta(self, index: int, delta: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        kind = delta.get("type")
        if kind == "text_delta":
            yield pieces.TextDelta(pieces.words(delta.get("text")))
        elif kind == "thinking_delta":
            yield pieces.ThinkingDelta(pieces.words(delta.get("thinking")))
        elif kind == "signature_delta":
            yield pieces.Signature("messages", pieces.words(delta.get("signature")))
        elif kind == "input_json_delta" and (given := pieces.words(delta.get("partial_json"))):
            if index not in self._has_input:
                raise ValueError("arguments of a call that has not begun")
            self._has_input[index] = True
            yield pieces.CallDelta(index, given)

    def _end(self, delta: object, usage: object) -> Iterator[pieces.Piece]:
        self._usage = events.merge_usage(self._usage, usage)
        given = object_of(delta)
        if (reason := end_of(given.get("stop_reason"))) is not None:
            yield pieces.Finish(reason, pieces.words(given.get("stop_sequence")) or None)
        yield usage_in("messages", self._usage) or Usage(0, 0)


class MessagesWriter:
    """Implements `proxy.wire.translation.pieces.AnswerWriter`: blocks open and close in order."""

    def __init__(self, asked_tokens: int, origin: Api) -> None:
        """`asked_tokens` estimates the prompt: a stream tells of it first, and the server's own figure comes at the end. `origin` is the
        server's API, to which thoughts without a signature go back.
        """
        self._asked_tokens, self._origin = asked_tokens, origin
        self._message: dict[str, Any] = {}
        self._blocks: list[dict[str, Any]] = []
        self._is_open = False
        """Whether the last block has not ended."""
        self._texts: list[str] = []
        """What it says so far: its words, or its call's arguments."""
        self._calls = False
        """Whether there are any."""
        self._finish = pieces.Finish("stop")
        self._has_refusal = False
        self._usage = Usage(0, 0)

    def feed(self, piece: pieces.Piece) -> bytes:
        """The events for a piece."""
        return b"".join(events.encode(payload) for payload in self._payloads(piece))

    def _payloads(self, piece: pieces.Piece) -> Iterator[dict[str, Any]]:
        if isinstance(piece, pieces.AnswerStart):
            head = {"id": pieces.with_id_prefix(piece.id, "msg_"), "type": "message", "role": "assistant", "model": piece.model}
            usage = _usage(Usage(self._asked_tokens, 0))
            self._message = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            yield {"type": "message_start", "message": self._message}
        elif isinstance(piece, pieces.TextDelta | pieces.RefusalDelta):
            self._has_refusal = self._has_refusal or isinstance(piece, pieces.RefusalDelta)
            if piece.text:
                apart = isinstance(piece, pieces.TextDelta) and piece.apart
                yield from self._more("text", "text_delta", "text", piece.text, apart=apart)
        elif isinstance(piece, pieces.ThinkingDelta):
            if piece.text:
                goes_on = piece.apart and self._is_open and self._blocks[-1]["type"] == "thinking"  # a part of the same, signed with it
                yield from self._more("thinking", "thinking_delta", "thinking", (GAP if goes_on else "") + piece.text)
        elif isinstance(piece, pieces.Signature):
            yield from self._write_signature(piece)
        elif isinstance(piece, pieces.CallStart | pieces.CallDelta):
            yield from self._call(piece)
        elif isinstance(piece, pieces.Finish):
            self._finish = piece
        elif isinstance(piece, Usage):
            self._usage = piece
        elif isinstance(piece, pieces.StreamError):
            message = messages_words(piece.message, long=piece.code == ContextLengthExceeded.code)
            yield {"type": "error", "error": {"type": _error_type(piece.code), "message": message}}
        elif isinstance(piece, pieces.AnswerEnd):
            yield from self._close()
            end = {"stop_reason": self._reason(), "stop_sequence": self._finish.stop}
            self._message |= {**end, "usage": _usage(self._usage)}
            yield {"type": "message_delta", "delta": end, "usage": self._message["usage"]}
            yield {"type": events.STOP}

    def _more(self, kind: str, delta: str, name: str, text: str, *, apart: bool = False) -> Iterator[dict[str, Any]]:
        index = len(self._blocks) - 1
        if apart or not self._is_open or self._blocks[index]["type"] != kind:
            yield from self._close()
            index += 1
            yield self._start({"type": kind, name: ""} | ({"signature": ""} if kind == "thinking" else {}))
        self._texts.append(text)
        yield {"type": "content_block_delta", "index": index, "delta": {"type": delta, name: text}}

    def _start(self, block: dict[str, Any]) -> dict[str, Any]:
        self._blocks.append(block)
        self._is_open, self._texts = True, []
        return events.block_start(len(self._blocks) - 1, dict(block))

    def _write_signature(self, piece: pieces.Signature) -> Iterator[dict[str, Any]]:
        index = len(self._blocks) - 1
        seal = piece.data if piece.kind in ("messages", "redacted") else wrap(piece.kind, piece.data)
        if self._is_open and self._blocks[index]["type"] == "thinking" and piece.kind != "redacted":
            yield self._signature_delta(index, seal)
            yield from self._close()
        else:
            yield from self._close()
            yield self._start({"type": "redacted_thinking", "data": seal})
            yield from self._close()

    def _signature_delta(self, index: int, seal: str) -> dict[str, Any]:
        self._blocks[index]["signature"] = seal
        return {"type": "content_block_delta", "index": index, "delta": {"type": "signature_delta", "signature": seal}}

    def _call(self, piece: pieces.CallStart | pieces.CallDelta) -> Iterator[dict[str, Any]]:
        if isinstance(piece, pieces.CallStart):
            yield from self._close()
            yield self._start({"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}})
            self._calls = True
        else:
            self._texts.append(piece.text)
            delta = {"type": "input_json_delta", "partial_json": piece.text}
            yield {"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta}

    def _close(self) -> Iterator[dict[str, Any]]:
        """End the last block."""
        if not self._is_open:
            return
        index = len(self._blocks) - 1
        block = self._blocks[index]
        said = "".join(self._texts)
        if block["type"] == "tool_use":
            block["input"] = _input(said)
        elif block["type"] in ("text", "thinking"):
            block[block["type"]] = said
        if block["type"] == "thinking" and not block["signature"]:
            yield self._signature_delta(index, wrap(self._origin, ""))
        self._is_open = False
        yield events.block_stop(index)

    def _reason(self) -> str:
        if self._finish.stop is not None:
            return "stop_sequence"
        if self._has_refusal:
            return "refusal"
        if self._finish.reason in GOOD:  # clients wait for calls where one is told of, and act on none where none is
            return "tool_use" if self._calls else "end_turn"
        return _REASONS.get(self._finish.reason, self._finish.reason)

    def whole(self) -> bytes:
        """The message."""
        return orjson.dumps({**self._message, "content": self._blocks})


def _input(given: str) -> Any:
    """Arguments as an object; what is none, as a model may write it, as the text that it is."""
    if not given:
        return {}
    try:
        found = exact(given)
    except ValueError:
        return {"input": given}
    return found if isinstance(found, dict) else {"input": found}


def _usage(used: Usage) -> dict[str, Any]:
    lasting = {FOR_AN_HOUR: used.written_1h_tokens, "ephemeral_5m_input_tokens": max(0, used.written_tokens - used.written_1h_tokens)}
    return {
        "input_tokens": max(0, used.prompt_tokens - used.cached_tokens - used.written_tokens),
        "cache_creation_input_tokens": used.written_tokens,
        "cache_read_input_tokens": used.cached_tokens,
        "output_tokens": used.completion_tokens,
        **({"cache_creation": lasting} if used.written_1h_tokens else {}),
    }


def _error_type(code: str) -> str:
    """The API's own word, as far as it has one."""
    if code.endswith("_error"):
        return "api_error" if code == "server_error" else code
    return _ERROR_TYPES.get(code, "api_error")
