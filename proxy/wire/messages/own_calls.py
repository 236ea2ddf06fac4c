"""Takes the calls of the proxy's own tools out of the answers of one exchange, so that its client sees a single message.

In: the upstream's answers, one after another, each as a body or as events. Out: what the client may see, in the upstream's own bytes but
for these: the blocks of such calls; the place of each block behind one that was taken out, and of a later answer's; the beginning of a
later answer, and the end of an earlier one; the usage where the message ends, which counts every answer.

"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import summed
from proxy.wire.bodies import as_raw, raw_items
from proxy.wire.dialect import CallFilter, OwnToolTurn
from proxy.wire.messages import events
from proxy.wire.messages.requests import THINKING, input_of
from proxy.wire.upstream_errors import envelope, failure_in, is_own

_CUT = ("max_tokens", "refusal", "model_context_window_exceeded", "pause_turn")


class MessagesCallFilter(CallFilter):
    """Of Messages."""

    def __init__(self, *, whole: bool) -> None:
        self._joined = False
        """Whether the client has been told that a message begins."""
        self._next = 0
        """Place of the next block that leaves."""
        super().__init__(whole=whole)

    def _reset(self) -> None:
        self._growing = events.Blocks()
        self._places: dict[int, int | None] = {}
        """Where each block stands for the client; None where it does not."""
        self._reason: str | None = None
        self._held: list[bytes] = []
        """With `whole`: everything."""
        self._tail: list[bytes | dict[str, Any]] = []
        """The end of an answer with own calls: it leaves only if no other answer follows."""
        if self._whole:
            self._next, self._joined = 0, False

    # ---- events ----

    def _take(self, event: sse.Event) -> bytes:
        payload = events.read(event.data) if event.data is not None else None
        if payload is None:
            return self._leave(event.raw)
        kind = payload["type"]
        if kind == "message_start":
            return self._start(event.raw, payload)
        if kind.startswith("content_block_") and isinstance(payload.get("index"), int):
            return self._block(event.raw, payload, payload["index"])
        if kind == "message_delta":
            return self._end(event.raw, payload)
        if kind == events.STOP:
            if self._has_own:
                self._tail.append(event.raw)
                return b""
        elif kind == "error":
            self._failed = True
        return self._leave(event.raw)

    def _start(self, raw: bytes, payload: dict[str, Any]) -> bytes:
        message = payload.get("message")
        self._count(message.get("usage") if isinstance(message, dict) else None)
        if self._joined:
            return b""
        self._joined = True
        return self._leave(raw)

    def _block(self, raw: bytes, payload: dict[str, Any], index: int) -> bytes:
        self._growing.absorb(payload)
        if payload["type"] == "content_block_start":
            block = self._growing.begun.setdefault(index, {})
            mine = block.get("type") == "tool_use" and block.get("name") in self._own
            self._places[index] = None if mine else self._next
            self._next += not mine
        place = self._places.get(index, index)
        if place is None:
            return b""
        return self._leave(raw if place == index else events.encode({**payload, "index": place}))

    def _end(self, raw: bytes, payload: dict[str, Any]) -> bytes:
        self._count(payload.get("usage"))
        delta = payload.get("delta")
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        self._reason = reason if isinstance(reason, str) else self._reason
        if self._has_own:
            self._tail.append(payload)
            return b""
        return self._leave(raw if self._before is None else events.encode(self._counted(payload)))

    def _counted(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The message's end with the usage of every answer."""
        return payload if self._before is None else {**payload, "usage": summed(self._before, self._usage or {})}

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage = {**(self._usage or {}), **{key: value for key, value in usage.items() if value is not None}}

    def _leave(self, raw: bytes) -> bytes:
        if self._whole:
            self._held.append(raw)
            return b""
        return raw

    # ---- bodies ----

    def read(self, body: bytes) -> None:
        """A whole answer. Raises `ValueError` when it is no message."""
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not isinstance(fields.get("content"), list):
            raise ValueError("not a message")
        blocks = self._growing.begun = {i: block if isinstance(block, dict) else {} for i, block in enumerate(fields["content"])}
        mine = {i for i, block in blocks.items() if block.get("type") == "tool_use" and block.get("name") in self._own}
        self._places = {i: None if i in mine else i for i in blocks}
        self._count(fields.get("usage"))
        reason = fields.get("stop_reason")
        self._reason, self._body = reason if isinstance(reason, str) else "", body

    # ---- both ----

    @property
    def _has_own(self) -> bool:
        return None in self._places.values()

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to."""
        uses = [(i, block) for i, block in self._growing.whole().items() if block.get("type") == "tool_use"]
        calls = tuple(
            ToolCall(str(block.get("id") or ""), str(block.get("name")), _arguments(block), position)
            for position, (i, block) in enumerate(uses)
            if self._places[i] is None
        )
        whole = self._reason is not None and not self._failed and self._reason not in _CUT
        return OwnToolTurn(calls, mixed=len(calls) < len(uses), whole=whole)

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer, with its thoughts, and the results of its `calls`, as the next request carries them."""
        parts = [_whole_block(block) for block in self._growing.whole().values() if block.get("type") != "tool_use"]
        made = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}} for call in calls]
        spoken = [part for part in parts if part.get("type") != "text" or part.get("text")]
        turn = {"role": "assistant", "content": spoken or None, "tool_calls": made}
        return [turn, *({"role": "tool", "tool_call_id": c.id, "content": r} for c, r in zip(calls, results, strict=True))]

    def _rest(self) -> bytes:
        plainly = not self.turn.mixed
        tail = [end if isinstance(end, bytes) else events.encode(_ended(self._counted(end), plainly)) for end in self._tail]
        return b"".join([*self._held, *tail])

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        raw["content"] = as_raw([block for i, block in enumerate(raw_items(raw["content"])) if self._places[i] is not None])
        if not self.turn.mixed and self._reason == "tool_use":
            raw["stop_reason"] = as_raw("end_turn")

    def failed(self, status: int, body: bytes) -> bytes:
        """An upstream's refusal as the event that tells a client after bytes have left."""
        fields = events.read(body) if is_own("messages", body) else None
        return events.encode(fields or envelope("messages", failure_in(body), status))


def _arguments(block: Mapping[str, Any]) -> str:
    """A call's arguments: as they came in a stream, or an object."""
    given = block.get("input")
    return given if isinstance(given, str) else orjson.dumps(given or {}).decode()


def _whole_block(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block that has been put together, as a request carries it."""
    made = {key: value for key, value in block.items() if value is not None or block.get("type") in THINKING}
    if isinstance(made.get("input"), str):
        made["input"] = input_of(made["input"])
    return made


def _ended(payload: dict[str, Any], plainly: bool) -> dict[str, Any]:
    """The end of a message whose own calls have been taken out, `plainly` where it has made no others."""
    delta = payload.get("delta")
    if not plainly or not isinstance(delta, dict) or delta.get("stop_reason") != "tool_use":
        return payload
    return {**payload, "delta": {**delta, "stop_reason": "end_turn"}}
