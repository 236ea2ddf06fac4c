"""How calls of the proxy's own tools are taken out of responses (`proxy.wire.own_tools`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import summed
from proxy.wire.bodies import as_raw, raw_items
from proxy.wire.own_tools import AnswerEvent, Fields, Item, OwnToolFilter, legible
from proxy.wire.responses import events
from proxy.wire.responses.events import event_of, index_of, response_of
from proxy.wire.responses.items import chat_call, is_call
from proxy.wire.responses.output import joined, texts_of
from proxy.wire.responses.rendering import OUTPUT_ITEMS
from proxy.wire.upstream_errors import envelope, failure_in


class ResponsesFilter(OwnToolFilter):
    """Of Responses. Reasoning that led to nothing but own calls stays behind, too. The response's id at the end is the last answer's: the
    provider knows the conversation by it."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        self._left: list[Fields] = []
        """Items of earlier answers that the client has seen."""
        self._next: int | None = None
        """The next event's number."""
        self._named = True
        self._by_position: dict[int, Item] = {}
        self._output: dict[int, Fields] = {}
        """The answer's items, as far as they are whole."""
        super().__init__(whole=whole, stored=stored)

    def _reset(self) -> None:
        if self._joins:
            self._left += [self._output[i] for i, item in sorted(self._by_position.items()) if item.own is False and i in self._output]
        self._by_position, self._output = {}, {}

    def _read(self, event: sse.Event) -> AnswerEvent:
        data = event_of(event.data or b"") if not event.done else None
        if data is None:
            return AnswerEvent(event.raw, kind="ends" if event.done else "says")
        kind = data["type"]
        if kind in events.BEGINS:
            self._named = event.raw.startswith(b"event:")
            return AnswerEvent(event.raw, data, kind="begins")
        if kind in events.ENDS:
            self._read_response(response_of(data))
            self._settle()
        self._failed = self._failed or kind in ("error", "response.failed")
        items = [self._item(index_of(data), data.get("item"))] if "output_index" in data else ()
        return AnswerEvent(event.raw, data, items, "ends" if kind in events.ENDS else "says")

    def _item(self, position: int, given: object) -> Item:
        fields = given if isinstance(given, dict) else {}
        item = self._by_position.get(position)
        own = fields.get("type") == "function_call" and fields.get("name") in self._tools
        if fields:
            self._output[position] = fields
        if item is None:
            item = self._by_position[position] = Item(False, position)
            if not own and fields.get("type") != "reasoning":
                for thought in self._by_position.values():  # reasoning that leads to something leaves before it
                    if thought.own is None:
                        self._decide(thought, False)
        item.is_call = item.is_call or own or (bool(fields) and is_call(fields))
        if own and not item.own:
            self._decide(item, True)
        return item

    def _settle(self) -> None:
        for item in self._by_position.values():
            if item.own is None:
                self._decide(item, self._has_own)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        output = response.get("output")
        for i, item in enumerate(output if isinstance(output, list) else ()):
            self._item(i, item)
        self._end = "stop" if str(response.get("status") or "completed") == "completed" else "length"
        self._usage = response["usage"] if isinstance(response.get("usage"), dict) else None

    def _rendered(self, event: AnswerEvent) -> bytes:
        new = data = event.payload
        if data is None or new is None:
            return event.raw
        if event.items and event.items[0].place != data["output_index"]:
            new = {**new, "output_index": event.items[0].place}
        if event.kind == "ends":
            response = self._joined(response_of(data))
            new = new if response == response_of(data) else {**new, "response": response}
        number = data.get("sequence_number")
        if isinstance(number, int):
            self._next = number if self._next is None else self._next
            new = new if number == self._next else {**new, "sequence_number": self._next}
            self._next += 1
        return event.raw if new is data else events.encode(new, named=self._named)

    def _joined(self, response: Fields) -> Fields:
        """The response as the client is to know it: all items that it has seen, and the usage of all answers."""
        new = dict(response)
        if self._left or self._has_own:
            output = response.get("output")
            new["output"] = [
                *self._left,
                *(item for i, item in enumerate(output if isinstance(output, list) else ()) if not self._is_own(i)),
            ]
        if self._before is not None and isinstance(response.get("usage"), dict):
            new["usage"] = summed(self._before, response["usage"])
        return new

    def _is_own(self, position: int) -> bool:
        item = self._by_position.get(position)
        return item is not None and bool(item.own)

    def _read_whole(self, fields: Fields) -> bool:
        if isinstance(fields.get("output"), list):
            self._read_response(fields)
            return True
        return False

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        raw["output"] = as_raw([item for i, item in enumerate(raw_items(raw["output"])) if not self._is_own(i)])

    def _items(self) -> Collection[Item]:
        return self._by_position.values()

    def _own_positions(self) -> list[int]:
        return sorted(i for i, item in self._by_position.items() if item.own and item.is_call)

    def _calls(self) -> Iterator[ToolCall]:
        for index, position in enumerate(self._own_positions()):
            item = self._output[position]
            identity = item.get("call_id") or f"gw{self._answers:03d}{position:04d}"
            yield ToolCall(str(identity), str(item["name"]), str(item.get("arguments") or ""), index)

    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """Reasoning goes back to a provider that keeps nothing only if it is encrypted."""
        given = dict(zip(self._own_positions(), calls, strict=True))
        items = [
            {**item, "call_id": given[i].id, "arguments": legible(given[i])} if i in given else item
            for i, item in sorted(self._output.items())
            if self._stored or item.get("type") != "reasoning" or item.get("encrypted_content")
        ]
        calling = [chat_call(item) for item in items if is_call(item)]
        return {"role": "assistant", "content": joined(texts_of(items)) or None, "tool_calls": calling, OUTPUT_ITEMS: items}

    def failed(self, status: int, body: bytes) -> bytes:
        """The API's ``error`` event."""
        failure = failure_in(body)
        told = {"type": "error", **envelope("responses", failure, status)["error"], "code": failure.code or "server_error"}
        return events.encode({**told, "type": "error", "sequence_number": self._next or 0}, named=self._named)
