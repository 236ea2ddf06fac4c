"""A Messages stream: events -> `StreamPiece`s and an `Answer`, and the events that Groundwire itself writes.

The API's events have an order that clients rely on: blocks open and close one after another, so that whatever follows held text waits for
it. A text block opens for the client with its first text: one that checks have emptied is left out, and the blocks behind it count on
without it. An event is written anew only where its text, arguments, index or usage changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from proxy.errors import ProxyError
from proxy.exchange import Answer, Choice, ToolCall
from proxy.wire import sse
from proxy.wire.answers import added_up, end_of, number, usage_in
from proxy.wire.api_errors import error_event, messages_envelope
from proxy.wire.bodies import object_of, typed_object_in
from proxy.wire.dialect import AnswerStream, Changes, StreamPiece
from proxy.wire.messages import events
from proxy.wire.messages.answers import GAP, PROVIDERS_CALLS, unread, with_arguments, with_texts
from proxy.wire.messages.requests import THINKING
from proxy.wire.shapes import strings


class _Block(Struct):
    """One block, growing."""

    kind: str
    id: str = ""
    name: str = ""
    deltas: list[str] = field(default_factory=list)
    """Its text, thoughts, or arguments as they came."""
    apart: bool = False
    """Whether its text does not follow the text before it."""
    opening: list[bytes] | None = None
    """Of a text block of which no text has left: the events that open it, once they were to leave."""

    @property
    def text(self) -> str:
        return "".join(self.deltas)


class MessagesStream(AnswerStream):
    """Of Messages."""

    _events = "those of a message"

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _Block] = {}
        self._model = ""
        self._final_usage: dict[str, Any] | None = None
        """The usage in ``message_delta``: where a server knows only then what it was asked, ``message_start`` has a guess."""
        self._reason: str | None = None
        self._stop = b""
        self._has_begun = False
        """Whether the client has been told that a message begins."""
        self._latest: _Block | None = None
        """The block of text that was opened last."""
        self._open: int | None = None
        """The block that is open for the client."""
        self._dropped_blocks = 0
        """Blocks that were left out."""

    # ---- reading ----

    @classmethod
    def whole(cls, message: Mapping[str, Any]) -> Answer:
        """A whole message as an answer: as of a stream whose blocks begin with all that they say."""
        stream = cls()
        stream._message({**message, "content": None})
        for index, block in enumerate(message["content"]):
            stream._start_block(StreamPiece(b""), {"index": index, "content_block": block})
        stream._reason = reason if isinstance(reason := message.get("stop_reason"), str) else None
        answer = stream.answer
        return replace(answer, choices=answer.choices or (Choice(0),), unread=stream._problem)

    @property
    def complete(self) -> bool:
        """Whether the message has told why it ends."""
        return self._reason is not None

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""
        blocks = [self._blocks[index] for index in sorted(self._blocks)]
        uses = [block for block in blocks if block.kind == "tool_use"]
        choice = Choice(
            0,
            text="".join((GAP if block.apart else "") + block.text for block in blocks if block.kind == "text"),
            reasoning="".join(block.text for block in blocks if block.kind in THINKING),
            tool_calls=tuple(ToolCall(block.id, block.name, block.text or "{}", i) for i, block in enumerate(uses)),
            finish_reason=end_of(self._reason),
            inputs=tuple(text for block in blocks if block.kind in PROVIDERS_CALLS for text in _texts_in(block.text) if text),
        )
        return Answer((choice,) if self._blocks or self._reason is not None else (), self._model, usage_in("messages", self.usage))

    def _pieces(self, event: sse.Event) -> Iterable[StreamPiece]:
        return (self._piece(event),)

    def _piece(self, event: sse.Event) -> StreamPiece:
        if event.data is None:
            return StreamPiece(event.raw)
        if self.done:  # most clients have stopped reading, and nobody is to read what was not judged
            self._miss("what follows the end mark")
            return StreamPiece(event.raw, done=True)
        payload = typed_object_in(event.data)
        if payload is None:
            if (error := error_event(event.data)) is not None:
                self.error = error
                return self._waiting(StreamPiece(event.raw))
            self._strange += 1
            return StreamPiece(event.raw)
        return self._event(StreamPiece(event.raw, payload=payload), payload)

    def _event(self, piece: StreamPiece, payload: dict[str, Any]) -> StreamPiece:
        kind = payload["type"]
        if kind in ("content_block_start", "content_block_delta", "content_block_stop"):
            if not isinstance(payload.get("index"), int):  # clients may see it in any block
                self._strange += 1
            elif self._reason is not None and kind != "content_block_stop":  # it cannot wait for its checks any more
                self._miss("what follows the stop reason")
        if kind == "message_start":
            self._message(payload.get("message"))
        elif kind == "content_block_start":
            return self._start_block(piece, payload)
        elif kind == "content_block_delta":
            return self._delta(piece, payload)
        elif kind == "message_delta":
            return self._message_delta(piece, payload)
        elif kind == events.STOP:
            self.done, self._stop = True, piece.raw
            return replace(piece, done=True)
        elif kind == "error":
            self.error = object_of(payload.get("error"))
            return self._waiting(piece)
        elif kind != "ping":
            self._miss("" if kind == "content_block_stop" else unread({**payload, "type": f"event {kind}"}))
            return self._waiting(piece)
        return piece

    def _waiting(self, piece: StreamPiece, *, parts: bool = False) -> StreamPiece:
        """A piece that may not leave before the text in front of it."""
        if self._reason is not None:
            return piece
        block = self._blocks.get(number(piece.payload, "index")) if piece.payload is not None and "index" in piece.payload else None
        return replace(piece, choice=0, waits=True, parts=parts, has_call_input=block is not None and block.kind == "tool_use")

    def _message(self, message: object) -> None:
        if isinstance(message, dict):
            self._model = model if isinstance(model := message.get("model"), str) else ""
            self.usage = events.merge_usage(self.usage, message.get("usage"))
            self._miss("message_start" if message.get("content") else "")

    def _start_block(self, piece: StreamPiece, payload: dict[str, Any]) -> StreamPiece:
        block = object_of(payload.get("content_block"))
        kind, index = str(block.get("type")), number(payload, "index")
        before = [self._blocks[i] for i in sorted(self._blocks)]
        spoken = any(b.kind == "text" and (b.text or b.apart) for b in before)
        if index in self._blocks:
            self._miss("a block that begins twice")
        made = self._blocks[index] = _Block(kind, str(block.get("id") or ""), str(block.get("name") or ""))
        self._miss(unread(block))
        if kind != "text":
            first = block.get("thinking") if kind in THINKING else _input(block)
            made.deltas += [first] if isinstance(first, str) and first else []
            return self._waiting(piece, parts=True)
        self._latest = made
        made.apart = spoken and before[-1].kind != "text"
        first = block.get("text") if isinstance(block.get("text"), str) else ""
        made.deltas += [first] if first else []
        return self._waiting(replace(piece, text=(GAP if made.apart else "") + (first or ""), divisible=False))

    def _delta(self, piece: StreamPiece, payload: dict[str, Any]) -> StreamPiece:
        delta = object_of(payload.get("delta"))
        block = self._blocks.get(number(payload, "index"))
        kind = str(delta.get("type"))
        if block is None:
            self._strange += 1
            return piece
        for name, known in (("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")):
            if kind == name and isinstance(said := delta.get(known), str):
                if _belongs(known, block.kind):
                    block.deltas.append(said)
                    if said and known == "text" and block is not self._latest:
                        self._miss("texts that come by turns")
                else:  # clients may leave it out of the block's text, or show it
                    self._miss(f"content.{block.kind[:60]}")
                return self._waiting(replace(piece, text=said) if known == "text" and block.kind == "text" else piece)
        if kind not in ("signature_delta", "citations_delta", "compaction_delta"):
            self._miss(unread({**delta, "type": f"delta {kind}"}))
        return self._waiting(piece)

    def _message_delta(self, piece: StreamPiece, payload: dict[str, Any]) -> StreamPiece:
        self.usage = events.merge_usage(self.usage, payload.get("usage"))
        if isinstance(payload.get("usage"), dict):
            self._final_usage = payload["usage"]
        delta = payload.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if not isinstance(reason, str) or self._reason is not None:
            return self._waiting(piece)
        self._reason = reason
        return replace(piece, choice=0, finish=True)

    # ---- leaving ----

    def encode_outgoing(self, piece: StreamPiece) -> bytes:
        """The bytes of `piece`; none for what opens a text block, which waits for its first text, and for what closes an empty one."""
        payload = piece.payload
        if payload is None:
            return piece.raw
        kind, index = payload["type"], number(payload, "index")
        self._has_begun = self._has_begun or kind == "message_start"
        block = self._blocks.get(index) if str(kind).startswith("content_block_") else None
        if block is None:
            return piece.raw
        if kind == "content_block_start":
            if block.kind == "text" and not _first_text(payload):
                block.opening = [self._shift_index(piece.raw, payload)]
                return b""
            self._open = index
        elif kind == "content_block_stop":
            return self._closing(piece, block, index)
        elif block.opening is not None:
            if not piece.text:
                block.opening.append(self._shift_index(piece.raw, payload))
                return b""
            return self._opening(block, index) + self._shift_index(piece.raw, payload)
        return self._shift_index(piece.raw, payload)

    def _opening(self, block: _Block, index: int) -> bytes:
        lead, block.opening, self._open = b"".join(block.opening or ()), None, index
        return lead

    def _closing(self, piece: StreamPiece, block: _Block, index: int) -> bytes:
        if block.opening is not None and block.text:
            block.opening = None
            self._dropped_blocks += 1
            return b""
        lead = self._opening(block, index) if block.opening is not None else b""
        self._open = None
        return lead + self._shift_index(piece.raw, piece.payload or {})

    def _shift_index(self, raw: bytes, payload: Mapping[str, Any]) -> bytes:
        """An event of a block, at the block's place among those that leave."""
        return raw if not self._dropped_blocks else events.encode({**payload, "index": number(payload, "index") - self._dropped_blocks})

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece` as an event that says `text` instead."""
        payload: dict[str, Any] = dict(piece.payload or {})
        index = number(payload, "index")
        block = self._blocks[index]
        if payload["type"] == "content_block_start":
            empty = {**payload, "content_block": {**payload["content_block"], "text": ""}}
            block.opening = [self._shift_index(piece.raw if not _first_text(payload) else events.encode(empty), payload)]
            text = text.removeprefix(GAP)
            return (
                self._opening(block, index) + events.encode(events.text_delta(index - self._dropped_blocks, text)) if text.strip() else b""
            )
        said = events.encode({**payload, "index": index - self._dropped_blocks, "delta": {**payload["delta"], "text": text}})
        return (self._opening(block, index) if block.opening is not None else b"") + said

    def apply_changes(self, pieces: Sequence[StreamPiece], changes: Changes) -> list[StreamPiece]:
        """A changed text in the blocks that it stood in."""
        pieces = with_arguments(pieces, changes.arguments.get(0, {}))
        return with_texts(pieces, changes.texts[0]) if 0 in changes.texts else pieces

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """The prompt's tokens are told where the message begins, those of the answer where it ends; both may be told there."""
        payload = dict(piece.payload or {})
        message = payload.get("message")
        holder = message if isinstance(message, dict) else payload
        own = holder.get("usage")
        if not isinstance(own, dict) or not others:
            return piece
        told = [key for key in own if key != "output_tokens"] if holder is message else list(own)
        total = added_up([*({key: other[key] for key in told if key in other} for other in others), own])
        changed = {**holder, "usage": total}
        payload = {**payload, "message": changed} if holder is message else changed
        return replace(piece, raw=events.encode(payload), payload=payload)

    # ---- the proxy's own events ----

    def encode_block(self, choices: Sequence[int]) -> bytes:
        """What a classifier of the API's own would send: the open block ends, and the message with ``stop_reason: "refusal"``."""
        found = []
        if not self._has_begun:
            usage = {"input_tokens": 0, "output_tokens": 0, **(self.usage or {})}
            head = {"id": "msg_blocked", "type": "message", "role": "assistant", "model": self._model, "stop_sequence": None}
            found.append({"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "usage": usage}})
        if self._open is not None:
            found.append(events.block_stop(self._open - self._dropped_blocks))
        found.append(events.message_delta("refusal", self._final_usage or {"output_tokens": (self.usage or {}).get("output_tokens", 0)}))
        return b"".join(events.encode(event) for event in found)

    def encode_failure(self, error: ProxyError) -> bytes:
        """The API's ``error`` event, which its clients raise."""
        return events.encode(messages_envelope(error))

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """``message_stop``, unless the stream has ended with an error."""
        if self.error is not None and not self.done:
            return b""
        if verdict is not None:
            return events.stop(verdict)
        return mark or self._stop or events.stop(None)


def _belongs(said: str, kind: str) -> bool:
    """Whether a delta's field is what a block of this kind is made of."""
    if said == "partial_json":
        return kind != "text" and kind not in THINKING
    return kind == "text" if said == "text" else kind in THINKING


def _first_text(payload: Mapping[str, Any]) -> bool:
    """Whether a block opens with text in it."""
    return bool(object_of(payload.get("content_block")).get("text"))


def _input(block: Mapping[str, Any]) -> str:
    """The arguments that a call's block opens with; an empty object means that they are still to come."""
    given = block.get("input")
    return orjson.dumps(given).decode() if given else ""


def _texts_in(given: str) -> Iterable[str]:
    """Every text in a call's arguments; all of them as one where they are no JSON."""
    try:
        return strings(orjson.loads(given))
    except orjson.JSONDecodeError:
        return (given,)
