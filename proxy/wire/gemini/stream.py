"""A stream of ``generateContent``: chunks -> `StreamPiece`s and an `Answer`, and the chunks that Groundwire itself writes.

A chunk is an answer with some of its parts; there is no end mark: a candidate ends with its ``finishReason``. Parts stand in an order that
clients bring back (thoughts, signatures, calls), so each waits for the text before it. A chunk is written anew only where it is taken
apart, or its text or arguments changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from proxy.errors import ProxyError
from proxy.exchange import Answer
from proxy.wire import sse
from proxy.wire.answers import end_of, number
from proxy.wire.api_errors import error_event, gemini_envelope
from proxy.wire.bodies import exact_object, object_in
from proxy.wire.dialect import Changes, ChunkStream, StreamPiece
from proxy.wire.gemini.answers import (
    USAGE,
    Candidate,
    PartStarts,
    answer_from,
    block_reason,
    call_in,
    candidates_of,
    parts_of,
    relocate_citations,
    unread,
)
from proxy.wire.gemini.fields import is_text

_HEAD = ("modelVersion", "responseId")
_ABOUT_TEXT = frozenset(("groundingMetadata", "citationMetadata", "logprobsResult"))
"""Of a candidate: what tells of places in its text, or repeats it."""
WITHHELD = "The answer was withheld by a policy."


class GeminiStream(ChunkStream):
    """Of Gemini's API."""

    usage_field = USAGE
    choices_field = "candidates"
    _events = "chunks of generateContent"

    def __init__(self, *, separate: bool = False) -> None:
        super().__init__(separate=separate)
        self._candidates: dict[int, Candidate] = {}
        self._head: dict[str, Any] = {}
        self._is_blocked = False
        self._texts_of_choice: dict[int, list[str]] = {}
        """The text that has left, by candidate."""
        self._starts: dict[int, PartStarts] = {}
        self._starts_of_sent: dict[int, PartStarts] = {}
        """Where each part of the text begins that has come, and that has left."""
        self._upto: dict[int, tuple[dict[str, Any], int]] = {}
        """What a chunk has of a candidate and tells of places in its text, by identity, which it keeps as long as it stands here; and how
        long the text was then."""

    @property
    def complete(self) -> bool:
        """Whether a candidate has come and every one has ended, or the prompt was blocked."""
        ended = [one.finish_reason is not None for one in self._candidates.values()]
        return self._is_blocked or (bool(ended) and all(ended))

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""
        return answer_from(self._candidates, self._head.get("modelVersion"), self.usage)

    def finish(self) -> list[StreamPiece]:
        """The API has no end mark: a stream whose candidates have ended is over with its last byte."""
        found = super().finish()
        self.done = self.complete
        return found

    def _pieces(self, event: sse.Event) -> list[StreamPiece]:
        if event.data is None:
            return [StreamPiece(event.raw)]
        payload = object_in(event.data)
        if payload is None or isinstance(payload.get("error"), dict):
            self.error = error_event(event.data) or self.error
            self._strange += self.error is None
            return [StreamPiece(event.raw)]
        self._head = self._head or {name: payload[name] for name in _HEAD if name in payload}
        self.usage = payload[USAGE] if isinstance(payload.get(USAGE), dict) else self.usage
        self._is_blocked = self._is_blocked or bool(block_reason(payload))
        candidates = candidates_of(payload)
        if payload.get("candidates") and not candidates:
            self._strange += 1
        for one in candidates:
            self._miss(unread(one))
            if (known := self._candidates.get(number(one, "index"))) is not None and known.finish_reason is not None and parts_of(one):
                self._miss("what follows the end of a candidate")
        return self._split(event.raw, payload, candidates)

    def _piece(self, raw: bytes, payload: dict[str, Any], candidate: dict[str, Any]) -> StreamPiece:
        index = number(candidate, "index")
        text = self._candidates.setdefault(index, Candidate()).absorb(candidate)
        if candidate.keys() & _ABOUT_TEXT:
            self._upto[id(candidate)] = candidate, sum(map(len, self._candidates[index].text))
        parts = parts_of(candidate)
        self._starts.setdefault(index, PartStarts(joins=True)).add(parts)
        calls, ends = any(call_in(part) for part in parts), end_of(candidate.get("finishReason")) is not None
        words = all(is_text(part) for part in parts)
        whole = len(parts) > 1 or not words or any(len(part) > 1 for part in parts) or bool(candidate.get("logprobsResult"))
        return StreamPiece(
            raw,
            index,
            text,
            ends,
            divisible=not whole,
            waits=not text and not ends,
            parts=calls or not words,
            acts=calls,
            has_call_input=calls,
            payload=payload,
        )

    def _steps(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        """Each of its parts, and its end, or what tells of the text."""
        parts, ends = parts_of(choice), end_of(choice.get("finishReason")) is not None
        if len(parts) + (ends or bool(choice.keys() & _ABOUT_TEXT)) <= 1:
            return [choice]
        index = {"index": choice["index"]} if "index" in choice else {}
        said = [{"content": {**choice["content"], "parts": [part]}, **index} for part in parts]
        rest = {**choice, "content": {**choice["content"], "parts": []}} if parts else choice
        return [*said, rest] if ends or rest.keys() - {"content", "index"} else said

    # ---- leaving ----

    def encode_outgoing(self, piece: StreamPiece) -> bytes:
        """Its own bytes, but for what tells of places in a text that left as another."""
        if piece.choice is None or piece.payload is None:
            return piece.raw
        said = self._texts_of_choice.setdefault(piece.choice, [])
        said.append(piece.text)
        (candidate,) = candidates_of(piece.payload)
        sent = self._starts_of_sent.setdefault(piece.choice, PartStarts(joins=True))
        sent.add(parts_of(candidate))
        if not candidate.keys() & _ABOUT_TEXT:
            return piece.raw
        whole, new = "".join(self._candidates[piece.choice].text), "".join(said)
        _, upto = self._upto.pop(id(candidate), (None, None))
        old = whole[:upto] if upto is not None else new if whole.startswith(new) else whole  # another reader's pieces are as they came
        if new == old:
            return piece.raw
        moved = relocate_citations(candidate, old, new, self._starts[piece.choice].starts, sent.starts)
        return sse.encode_json({**piece.payload, "candidates": [moved]})

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece` as an event that says `text` instead."""
        self._texts_of_choice.setdefault(piece.choice or 0, []).append(text)
        payload = _saying(piece, text)
        (candidate,) = candidates_of(payload)
        self._starts_of_sent.setdefault(piece.choice or 0, PartStarts(joins=True)).add(parts_of(candidate))
        return sse.encode_json(payload)

    def apply_changes(self, pieces: Sequence[StreamPiece], changes: Changes) -> list[StreamPiece]:
        """The first piece with text of a changed candidate, or its end, says all of it; calls get their arguments."""
        out: list[StreamPiece] = []
        said: set[int] = set()
        calls: dict[int, int] = {}
        for piece in pieces:
            choice = piece.choice
            if piece.has_call_input and choice is not None and choice in changes.arguments:
                out.append(self._change_calls(piece, changes.arguments[choice], calls))
            elif choice is None or choice not in changes.texts or not (piece.text or piece.finish):
                out.append(piece)
            elif choice not in said:
                said.add(choice)
                payload = _saying(piece, changes.texts[choice])
                out.append(replace(piece, raw=sse.encode_json(payload), text=changes.texts[choice], payload=payload))
            elif piece.finish:
                out.append(replace(piece, text=""))
        return out

    def _change_calls(self, piece: StreamPiece, arguments: Mapping[int, str], calls: dict[int, int]) -> StreamPiece:
        payload = dict(piece.payload or {})
        (candidate,) = candidates_of(payload)
        index, made = piece.choice or 0, []
        for part in parts_of(candidate):
            if call_in(part) is not None:
                place = calls[index] = calls.get(index, -1) + 1
                if place in arguments:
                    part = {**part, "functionCall": {**part["functionCall"], "args": exact_object(arguments[place]) or {}}}
            made.append(part)
        payload["candidates"] = [{**candidate, "content": {**candidate["content"], "parts": made}}]
        return replace(piece, raw=sse.encode_json(payload), payload=payload)

    # ---- the proxy's own events ----

    def encode_block(self, choices: Sequence[int]) -> bytes:
        """The chunk that ends `choices` with ``finishReason: "SAFETY"``."""
        ended = [
            {"content": {"parts": [], "role": "model"}, "finishReason": "SAFETY", "finishMessage": WITHHELD, "index": i} for i in choices
        ]
        usage = {USAGE: self.usage} if self.usage else {}
        return sse.encode_json({"candidates": ended, **usage, **self._head})

    def encode_failure(self, error: ProxyError) -> bytes:
        """An event with the API's ``error``, which Google's clients raise."""
        return sse.encode_json(gemini_envelope(error))

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """A chunk without candidates whose field ``groundwire`` is the verdict; there is no end mark."""
        return b"" if verdict is None else sse.encode_json({**self._head, "groundwire": verdict})


def _saying(piece: StreamPiece, text: str) -> dict[str, Any]:
    """A piece's chunk with `text` for its words."""
    payload = dict(piece.payload or {})
    (candidate,) = candidates_of(payload)
    made, left = [], text
    for part in parts_of(candidate):
        made.append({**part, "text": left} if is_text(part) else part)
        left = "" if is_text(part) else left
    if left:
        made.insert(0, {"text": left})
    content = candidate.get("content") or {"role": "model"}
    return {**payload, "candidates": [{**candidate, "content": {**content, "parts": made}}]}
