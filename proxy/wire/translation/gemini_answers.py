"""Answers of Gemini's ``generateContent``: read into pieces, and written from them.

Reference: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from proxy.exchange import Usage
from proxy.wire.answers import end_of, number, usage_in
from proxy.wire.api_errors import Failure, envelope, status_of
from proxy.wire.bodies import exact_object
from proxy.wire.gemini.answers import USAGE, block_reason, call_in, candidates_of, parts_of, to_whole, usage_written
from proxy.wire.gemini.contents import call_part
from proxy.wire.gemini.fields import kind_of
from proxy.wire.sse import encode_json
from proxy.wire.translation import pieces
from proxy.wire.translation.chat_answers import error_of
from proxy.wire.translation.gemini_requests import SIGNED, signature
from proxy.wire.translation.neutral import wrap

_REASONS: Mapping[str, str] = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


class GeminiReader:
    """Implements `proxy.wire.translation.pieces.AnswerReader`."""

    def __init__(self) -> None:
        self._has_begun = False
        self._calls = 0

    def payload(self, payload: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        """The pieces of a chunk, or of a whole answer."""
        if payload.get("error"):
            yield error_of(payload)
            return
        if not self._has_begun:
            self._has_begun = True
            yield pieces.AnswerStart(pieces.words(payload.get("responseId")), pieces.words(payload.get("modelVersion")))
        candidate = next((one for one in candidates_of(payload) if number(one, "index") == 0), {})
        for part in parts_of(candidate):
            yield from self._part(part)
        if (usage := usage_in("gemini", payload.get(USAGE))) is not None:
            yield usage
        if (reason := end_of(candidate.get("finishReason"))) is not None:
            yield pieces.Finish(reason)
        elif block_reason(payload):
            yield pieces.Finish("content_filter")

    def _part(self, part: Mapping[str, Any]) -> Iterator[pieces.Piece]:
        kind, seal = kind_of(part), pieces.words(part.get("thoughtSignature"))
        if seal and kind == "functionCall":  # elsewhere the API does without
            yield pieces.Signature("gemini", seal)
        if kind == "text":
            text = pieces.words(part.get("text"))
            yield pieces.ThinkingDelta(text) if part.get("thought") is True else pieces.TextDelta(text)
        elif (call := call_in(part)) is not None:
            key, self._calls = self._calls, self._calls + 1
            yield pieces.CallStart(key, pieces.words(call.get("id")) or pieces.new_call_id(), pieces.words(call.get("name")))
            yield pieces.CallDelta(key, orjson.dumps(call.get("args") or {}).decode())
            yield pieces.CallEnd(key)
        elif kind:
            raise ValueError(f"a part {pieces.known_type(kind, ('inlineData', 'executableCode', 'codeExecutionResult', 'fileData'))}")


class GeminiWriter:
    """Implements `proxy.wire.translation.pieces.AnswerWriter`: a call leaves when it is whole."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._chunks: list[dict[str, Any]] = []
        self._call: pieces.CallStart | None = None
        self._inputs: list[str] = []
        self._sent_types: set[type] = set()
        self._reason = "STOP"
        self._usage = Usage(0, 0)

    def feed(self, piece: pieces.Piece) -> bytes:
        """The events for a piece."""
        made = [*self._parts(piece)]
        out = [self._chunk({"content": {"parts": [part], "role": "model"}, "index": 0}) for part in made]
        if isinstance(piece, pieces.AnswerEnd):
            end = {"content": {"parts": [], "role": "model"}, "finishReason": self._reason, "index": 0}
            out.append(self._chunk(end, **{USAGE: usage_written(self._usage)}))
        elif isinstance(piece, pieces.StreamError):
            failure = Failure(piece.message, piece.code)
            out.append(encode_json(envelope("gemini", failure, status_of(failure) or 500)))
        return b"".join(out)

    def _parts(self, piece: pieces.Piece) -> Iterator[dict[str, Any]]:
        if isinstance(piece, pieces.CallDelta):
            self._inputs.append(piece.text)
            return
        if self._call is not None and not isinstance(piece, Usage):
            yield call_part(self._call.id, self._call.name, exact_object("".join(self._inputs)) or {})
            self._call, self._inputs = None, []
        if isinstance(piece, pieces.AnswerStart):
            self._head = {"modelVersion": piece.model} | ({"responseId": piece.id} if piece.id else {})
        elif isinstance(piece, pieces.TextDelta | pieces.ThinkingDelta | pieces.RefusalDelta):
            yield from self._words(piece)
        elif isinstance(piece, pieces.Signature):
            yield {"text": SIGNED, "thought": True, "thoughtSignature": signature(wrap(piece.kind, piece.data))}
        elif isinstance(piece, pieces.CallStart):
            self._call = piece
        elif isinstance(piece, pieces.Finish):
            self._reason = self._reason if self._reason == "SAFETY" else _REASONS.get(piece.reason, "OTHER")
        elif isinstance(piece, Usage):
            self._usage = piece

    def _words(self, piece: pieces.TextDelta | pieces.ThinkingDelta | pieces.RefusalDelta) -> Iterator[dict[str, Any]]:
        if isinstance(piece, pieces.RefusalDelta):
            self._reason = "SAFETY"
        apart = not isinstance(piece, pieces.RefusalDelta) and piece.apart and type(piece) in self._sent_types
        if piece.text:
            self._sent_types.add(type(piece))
            thought = {"thought": True} if isinstance(piece, pieces.ThinkingDelta) else {}
            yield {"text": ("\n\n" if apart else "") + piece.text, **thought}

    def _chunk(self, candidate: Mapping[str, Any], **more: Any) -> bytes:
        self._chunks.append({"candidates": [candidate], **more, **self._head})
        return encode_json(self._chunks[-1])

    def whole(self) -> bytes:
        """The answer."""
        return orjson.dumps(to_whole(self._chunks, marked=True) or {"candidates": [], **self._head})
