"""OpenAI's chat completion chunks: events -> `StreamPiece`s and an `Answer`, and the events that Groundwire itself writes.

Reference: https://platform.openai.com/docs/api-reference/chat-streaming. Events pass in their own bytes; one is written anew only
when its text is cut or replaced, or the arguments of a call in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
from msgspec.structs import replace

from proxy.errors import ProxyError
from proxy.exchange import Answer, Usage
from proxy.wire import sse
from proxy.wire.answers import end_of, number, usage_in
from proxy.wire.api_errors import error_event
from proxy.wire.chat.message import CallParts, Calls, ChoiceParts, call_entries, choices_of, delta_of, delta_text, unread
from proxy.wire.dialect import Changes, ChunkStream, StreamPiece


class ChatStream(ChunkStream):
    """Of chat completions."""

    _events = "chat completion chunks"

    def __init__(self, *, separate: bool = False) -> None:
        super().__init__(separate=separate)
        self._choices: dict[int, ChoiceParts] = {}
        self._head: dict[str, Any] = {}
        """id, created, model, … of the first chunk: what events of our own carry."""
        self._usage: Usage | None = None

    @property
    def complete(self) -> bool:
        """Whether a choice has come and every one has ended."""
        return bool(self._choices) and all(c.finish_reason is not None for c in self._choices.values())

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""
        choices = tuple(parts.choice(index) for index, parts in sorted(self._choices.items()))
        model = self._head.get("model")
        return Answer(choices, model if isinstance(model, str) else "", self._usage)

    def _pieces(self, event: sse.Event) -> list[StreamPiece]:
        if event.data is None:
            return [StreamPiece(event.raw)]
        if self.done and not event.done:  # most clients have stopped reading, and nobody is to read what was not judged
            self._miss("what follows the end mark")
        if event.done or self.done:
            self.done = True
            return [StreamPiece(event.raw, done=True)]
        try:
            chunk = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            chunk = None
        if not isinstance(chunk, dict) or not ("choices" in chunk or isinstance(chunk.get("error"), dict)):
            self.error = error_event(event.data) or self.error
        if not isinstance(chunk, dict):
            self._strange += self.error is None
            return [StreamPiece(event.raw)]
        return self._chunk(event.raw, chunk)

    def _chunk(self, raw: bytes, chunk: dict[str, Any]) -> list[StreamPiece]:
        if isinstance(chunk.get("error"), dict):
            self.error = chunk["error"]
        if not self._head.get("id"):  # Azure's first chunk, which tells of the prompt's filter alone, has empty names
            self._head = {k: chunk[k] for k in ("id", "object", "created", "model", "system_fingerprint") if k in chunk}
        if isinstance(chunk.get("usage"), dict):
            self.usage, self._usage = chunk["usage"], usage_in("chat", chunk["usage"], chunk.get("service_tier"))
        given = chunk.get("choices")
        choices = choices_of(chunk)
        if given and not choices:
            self._strange += 1
        elif given:
            self._miss(next((name for c in given if (name := unread(c, streamed=True))), ""))
        return self._split(raw, chunk, choices)

    def _piece(self, raw: bytes, chunk: dict[str, Any], choice: dict[str, Any]) -> StreamPiece:
        index = number(choice, "index")
        parts = self._choices.get(index)
        if parts is None:
            parts = self._choices[index] = ChoiceParts()
        text, finishes = parts.absorb(choice), end_of(choice.get("finish_reason")) is not None
        delta = delta_of(choice)
        refusal, called = bool(delta.get("refusal")), bool(delta.get("tool_calls") or delta.get("function_call"))
        whole = not choice.get("logprobs")
        return StreamPiece(raw, index, text, finishes, divisible=whole, refusal=refusal, has_call_input=called, payload=chunk)

    def _steps(self, choice: dict[str, Any]) -> list[dict[str, Any]]:
        """Other deltas (role, tool calls, reasoning), text, end."""
        delta = delta_of(choice)
        text = delta_text(delta.get("content"))
        has_text = bool(text)
        others = {key: value for key, value in delta.items() if key != "content"}
        has_others = any(value for key, value in others.items() if key != "role")
        ends = end_of(choice.get("finish_reason")) is not None
        if has_text + has_others + ends <= 1:
            return [choice]
        plain = {**choice, "finish_reason": None}
        plain.pop("message", None)  # says the delta once more, where a server has one
        bare = {**plain, "logprobs": None} if "logprobs" in plain else plain
        parts = [{**bare, "delta": others}] if has_others else []
        if has_text:
            parts.append({**plain, "delta": {"content": text} if has_others else {**others, "content": text}})
        if ends:
            parts.append({**bare, "delta": {}, "finish_reason": choice["finish_reason"]})
        return parts

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece` as an event that says `text` instead."""
        return self._saying(piece, "content", text, changed=text != piece.text)

    def with_refusal(self, piece: StreamPiece, text: str) -> bytes:
        """`piece` as an event that refuses with `text` instead."""
        return self._saying(piece, "refusal", text, changed=True)

    def _saying(self, piece: StreamPiece, name: str, text: str, *, changed: bool) -> bytes:
        chunk: dict[str, Any] = dict(piece.payload or {})
        choice = dict(chunk["choices"][0])
        choice.pop("message", None)  # the same once more
        choice["delta"] = {**(choice.get("delta") or {}), name: text}
        if "logprobs" in choice and changed:  # they belong to the words that were replaced
            choice["logprobs"] = None
        return sse.encode_json({**chunk, "choices": [choice]})

    def apply_changes(self, pieces: Sequence[StreamPiece], changes: Changes) -> list[StreamPiece]:
        """The first piece with text of a changed choice, or its end, says all of it."""
        texts, refusals = changes.texts, dict(changes.refusals)
        out: list[StreamPiece] = []
        said: set[int] = set()
        for piece in rewritten(pieces, changes.arguments) if changes.arguments else pieces:
            if piece.refusal and piece.choice in refusals:
                out.append(replace(piece, raw=self.with_refusal(piece, refusals[piece.choice])))
                refusals[piece.choice] = ""
            elif piece.choice is None or piece.choice not in texts or not (piece.text or piece.finish):
                out.append(piece)
            elif piece.choice not in said:
                said.add(piece.choice)
                out.append(replace(piece, raw=self.with_text(piece, texts[piece.choice])))
            elif piece.finish:
                out.append(piece)
        return out

    def encode_block(self, choices: Sequence[int]) -> bytes:
        """The events that end `choices` with ``finish_reason: "content_filter"``."""
        return b"".join(self._own([{"index": i, "delta": {}, "logprobs": None, "finish_reason": "content_filter"}]) for i in choices)

    def encode_failure(self, error: ProxyError) -> bytes:
        """An event with an ``error`` object, which OpenAI's clients raise, and the end mark."""
        return sse.encode_json(error.envelope()) + (b"" if self.done else sse.DONE)

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """A chunk without choices whose field ``groundwire`` is the verdict; ``data: [DONE]``."""
        inline = b"" if verdict is None else self._own([], groundwire=verdict)
        return inline + (mark or sse.DONE)

    def _own(self, choices: list[dict[str, Any]], **more: object) -> bytes:
        head = {"id": "", "object": "chat.completion.chunk", "created": 0, "model": "", **self._head}
        return sse.encode_json({**head, "choices": choices, **more})


# ---- other arguments for the calls of an answer that has come whole ----


def rewritten(pieces: Sequence[StreamPiece], changed: Mapping[int, Mapping[int, str]]) -> list[StreamPiece]:
    """A stream's `pieces`, of which the calls of each choice have these arguments, by their index; the others stay as they are."""
    growing: dict[int, Calls] = {}
    by_piece = [
        [
            call
            for one in choices_of(piece.payload or {})
            for call in growing.setdefault(number(one, "index"), Calls()).absorb(delta_of(one))
        ]
        for piece in pieces
    ]
    left: dict[int, str] = {}
    for choice, arguments in changed.items():
        ranked = sorted(growing[choice].parts, key=lambda call: call.index)  # as `ChatStream` counts them
        left |= {id(call): arguments[i] for i, call in enumerate(ranked) if i in arguments}
    return [
        _piece(piece, iter(calls), left) if any(id(call) in left for call in calls) else piece
        for piece, calls in zip(pieces, by_piece, strict=True)
    ]


def _piece(piece: StreamPiece, owners: Iterator[CallParts], left: dict[int, str]) -> StreamPiece:
    """`piece` with new arguments for those of its entries whose calls are in `left`; what has been said there becomes ""."""
    choices = [
        {**choice, "delta": _rewritten_delta(choice["delta"], owners, left)} if delta_of(choice) else choice
        for choice in choices_of(piece.payload or {})
    ]
    payload = {**(piece.payload or {}), "choices": choices}
    if payload == piece.payload:
        return piece
    return replace(piece, raw=sse.encode_json(payload), payload=payload)


def _rewritten_delta(delta: Mapping[str, Any], owners: Iterator[CallParts], left: dict[int, str]) -> dict[str, Any]:
    made = dict(delta)
    functions: dict[int, Any] = {}
    for entry, legacy in call_entries(delta):
        call = next(owners)
        function = entry.get("function")
        if id(call) in left and isinstance(function, dict) and function.get("arguments"):
            function = {**function, "arguments": left[id(call)]}
            left[id(call)] = ""
        if legacy:
            made["function_call"] = function
        elif "function" in entry:
            functions[id(entry)] = function
    if functions:
        listed = delta["tool_calls"]
        made["tool_calls"] = [{**entry, "function": functions[id(entry)]} if id(entry) in functions else entry for entry in listed]
    return made
