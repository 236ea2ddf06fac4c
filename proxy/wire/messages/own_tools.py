"""How calls of the proxy's own tools are taken out of messages (`proxy.wire.own_tools`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import end_of, summed
from proxy.wire.bodies import as_raw, raw_items
from proxy.wire.messages import events
from proxy.wire.messages.requests import THINKING, input_of
from proxy.wire.own_tools import AnswerEvent, Fields, Item, OwnToolFilter
from proxy.wire.upstream_errors import envelope, failure_in, is_own


class MessagesFilter(OwnToolFilter):
    """Of Messages."""

    waits_to_begin = False

    def _reset(self) -> None:
        self._growing = events.Blocks()
        self._blocks: dict[int, Item] = {}

    def _read(self, event: sse.Event) -> AnswerEvent:
        payload = events.read(event.data or b"")
        if payload is None:
            return AnswerEvent(event.raw)
        kind = payload["type"]
        if kind == "message_start":
            message = payload.get("message")
            self._count(message.get("usage") if isinstance(message, dict) else None)
            return AnswerEvent(event.raw, payload, kind="begins")
        if kind.startswith("content_block_") and isinstance(payload.get("index"), int):
            self._growing.absorb(payload)
            return AnswerEvent(event.raw, payload, (self._item(payload["index"], begins=kind == "content_block_start"),))
        if kind == "message_delta":
            self._count(payload.get("usage"))
            delta = payload.get("delta")
            self._end = end_of(delta.get("stop_reason") if isinstance(delta, dict) else None) or self._end
            return AnswerEvent(b"" if self._has_own else event.raw, payload, kind="ends")
        self._failed = self._failed or kind == "error"
        return AnswerEvent(event.raw, payload, kind="ends" if kind == events.STOP else "says")

    def _item(self, index: int, *, begins: bool) -> Item:
        if begins:
            block = self._growing.begun.setdefault(index, {})
            item = self._blocks[index] = Item(block.get("type") == "tool_use", index)
            self._decide(item, item.is_call and block.get("name") in self._tools)
        return self._blocks.get(index) or Item(False, index, index, own=False)

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self._usage = {**(self._usage or {}), **{key: value for key, value in usage.items() if value is not None}}

    def _settle(self) -> None:
        """Each is decided as it begins."""

    def _rendered(self, event: AnswerEvent) -> bytes:
        new = payload = event.payload
        if payload is None or new is None:
            return event.raw
        if event.items and event.items[0].place != payload["index"]:
            new = {**payload, "index": event.items[0].place}
        if payload["type"] == "message_delta" and self._before is not None:
            new = {**payload, "usage": summed(self._before, self._usage or {})}
        return event.raw if new is payload and event.raw else events.encode(new)

    def _ended_plainly(self, event: AnswerEvent) -> AnswerEvent:
        payload = event.payload or {}
        delta = payload.get("delta")
        if not isinstance(delta, dict) or delta.get("stop_reason") != "tool_use":
            return event
        return AnswerEvent(b"", {**payload, "delta": {**delta, "stop_reason": "end_turn"}})

    def _read_whole(self, fields: Fields) -> bool:
        content = fields.get("content")
        if not isinstance(content, list):
            return False
        self._growing.begun = {i: block if isinstance(block, dict) else {} for i, block in enumerate(content)}
        for i in self._growing.begun:
            self._item(i, begins=True)
        self._count(fields.get("usage"))
        self._end = end_of(fields.get("stop_reason")) or "stop"
        return True

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        raw["content"] = as_raw([block for i, block in enumerate(raw_items(raw["content"])) if not self._blocks[i].own])
        if not self.turn.mixed and self._end == "tool_calls":
            raw["stop_reason"] = as_raw("end_turn")

    def _items(self) -> Collection[Item]:
        return self._blocks.values()

    def _calls(self) -> Iterator[ToolCall]:
        uses = [(i, block) for i, block in self._growing.whole().items() if block.get("type") == "tool_use"]
        for position, (i, block) in enumerate(uses):
            if self._blocks[i].own:
                given = block.get("input")
                arguments = given if isinstance(given, str) else orjson.dumps(given or {}).decode()
                yield ToolCall(str(block.get("id") or ""), str(block.get("name")), arguments, position)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """With its thoughts."""
        parts = [_whole_block(block) for block in self._growing.whole().values() if block.get("type") != "tool_use"]
        made = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments or "{}"}} for call in calls]
        spoken = [part for part in parts if part.get("type") != "text" or part.get("text")]
        return {"role": "assistant", "content": spoken or None, "tool_calls": made}

    def failed(self, status: int, body: bytes) -> bytes:
        """The API's ``error`` event."""
        fields = events.read(body) if is_own("messages", body) else None
        return events.encode(fields or envelope("messages", failure_in(body), status))


def _whole_block(block: Mapping[str, Any]) -> Fields:
    """A block that has been put together, as a request carries it."""
    made = {key: value for key, value in block.items() if value is not None or block.get("type") in THINKING}
    if isinstance(made.get("input"), str):
        made["input"] = input_of(made["input"])
    return made
