"""Takes the calls of the proxy's own tools out of the answers of one exchange, so that its client sees a single response.

In: the upstream's answers, one after another, each as a body or as events. Out: what the client may see, in the upstream's own bytes but
for these: an item that is such a call, and the reasoning that led to nothing else; positions and numbers behind them; once events of an
earlier answer have left, a later one's beginning; and the end, which tells all items that have left and the usage of all answers. The
response's id at the end is the last answer's: the provider knows the conversation by it.

"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import summed
from proxy.wire.bodies import as_raw, raw_items
from proxy.wire.dialect import CallFilter, OwnToolTurn
from proxy.wire.responses import events
from proxy.wire.responses.events import encode, event_of, index_of, response_of
from proxy.wire.responses.items import chat_call, is_call
from proxy.wire.responses.output import joined, texts_of
from proxy.wire.responses.rendering import OUTPUT_ITEMS
from proxy.wire.upstream_errors import envelope, failure_in


class _Event(msgspec.Struct, frozen=True):
    """One event."""

    raw: bytes
    data: dict[str, Any] | None = None
    """None for what is none of this API's."""


class ResponsesCallFilter(CallFilter):
    """Of Responses."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        """`stored` tells whether the provider keeps what it puts out: else reasoning can go back to it only if it is encrypted."""
        self._stored = stored
        self._left: list[dict[str, Any]] = []
        """Items of earlier answers that the client has seen."""
        self._next: int | None = None
        """The next event's number."""
        self._named, self._started = True, False
        self._output: dict[int, dict[str, Any]] = {}
        """The answer's items, by position, as far as they are whole."""
        self._mine: set[int] = set()
        """Calls of own tools."""
        self._thoughts: set[int] = set()
        """Reasoning of which it is not known yet whether it leads to anything that the client sees."""
        self._places: dict[int, int] = {}
        """Positions of the others in what the client sees."""
        super().__init__(whole=whole)

    def _reset(self) -> None:
        if not self._whole:
            self._left += [item for i, item in self._shown().items() if i in self._places]
        self._joins = self._started
        """Whether events of an earlier answer have left."""
        self._output, self._mine, self._thoughts, self._places = {}, set(), set(), {}
        self._lead: list[_Event] = []
        """What begins the response: it leaves with the first event that says something."""
        self._waiting: list[_Event] = []
        """The events of `_thoughts`."""
        self._tail: list[_Event] = []
        """The end of an answer with own calls: it leaves only if no other answer follows."""
        self._held: list[_Event] = []
        """Of an answer that leaves whole: everything."""
        self._status = ""

    def _shown(self) -> dict[int, dict[str, Any]]:
        """The items that the client sees, by position."""
        hidden = self._mine | (self._thoughts if self._mine else set())
        return {i: item for i, item in sorted(self._output.items()) if i not in hidden}

    def _is_own(self, item: Mapping[str, Any]) -> bool:
        return item.get("type") == "function_call" and item.get("name") in self._own

    # ---- events ----

    def finish(self) -> bytes:
        """What waits, too, where nothing of it is the proxy's own."""
        out = super().finish()
        return out if self._mine else out + b"".join(self._show_thoughts())

    def _take(self, event: sse.Event) -> bytes:
        return b"".join(self._pieces(event))

    def _pieces(self, event: sse.Event) -> Iterator[bytes]:
        data = event_of(event.data) if event.data is not None and not event.done else None
        one = _Event(event.raw, data)
        if data is None:
            if event.done and self._mine:
                self._tail.append(one)
            elif event.data is None and not self._started and not self._whole:
                yield event.raw  # a comment keeps the connection alive
            else:
                yield from self._put(one)
        elif data["type"] in events.BEGINS:
            self._named = event.raw.startswith(b"event:")
            if not self._joins:
                self._lead.append(one)
        elif data["type"] in events.ENDS:
            yield from self._ended(one, data)
        elif data["type"] == "error":
            self._failed = True
            yield from self._put(one)
        elif "output_index" in data:
            yield from self._of_item(one, data)
        else:
            yield from self._put(one)

    def _of_item(self, event: _Event, data: dict[str, Any]) -> Iterator[bytes]:
        """To the client, or to what waits, or nowhere."""
        position, item = index_of(data), data.get("item")
        if isinstance(item, dict):
            self._output[position] = item
            self._begun(position, item)
        if position in self._mine:
            return
        if position in self._thoughts:
            self._waiting.append(event)
            return
        if position not in self._places:
            yield from self._show_thoughts()
            self._number(position)
        yield from self._put(event)

    def _begun(self, position: int, item: Mapping[str, Any]) -> None:
        if self._is_own(item):
            self._mine.add(position)
        elif item.get("type") == "reasoning" and position not in self._places:
            self._thoughts.add(position)

    def _number(self, position: int) -> None:
        self._places[position] = len(self._left) + len(self._places)

    def _show_thoughts(self) -> Iterator[bytes]:
        """Reasoning that leads to something leaves before it."""
        for position in sorted(self._thoughts):
            self._number(position)
        self._thoughts.clear()
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            yield from self._put(event)

    def _ended(self, event: _Event, data: dict[str, Any]) -> Iterator[bytes]:
        self._read_response(response_of(data))
        self._failed = self._failed or data["type"] == "response.failed"
        if self._mine:
            self._tail.append(event)
        else:
            yield from self._show_thoughts()
            yield from self._put(event)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        output = response.get("output")
        for i, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                self._output[i] = item
                if self._is_own(item):
                    self._mine.add(i)
        self._status = str(response.get("status") or "completed")
        self._usage = response["usage"] if isinstance(response.get("usage"), dict) else None

    def _put(self, event: _Event) -> Iterator[bytes]:
        """It leaves, behind what begins the response."""
        lead, self._lead = self._lead, []
        if self._whole:
            self._held += [*lead, event]
            return
        for one in (*lead, event):
            self._started = True
            yield self._rendered(one)

    def _rendered(self, event: _Event) -> bytes:
        """The event's own bytes, unless something in it had to change."""
        data = event.data
        if data is None:
            return event.raw
        new = data
        if "output_index" in data and self._places.get(index_of(data)) not in (None, data["output_index"]):
            new = {**new, "output_index": self._places[index_of(data)]}
        if data["type"] in events.ENDS:
            response = self._joined(response_of(data))
            new = new if response is data["response"] else {**new, "response": response}
        number = data.get("sequence_number")
        if isinstance(number, int):
            self._next = number if self._next is None else self._next
            new = new if number == self._next else {**new, "sequence_number": self._next}
            self._next += 1
        return event.raw if new is data else encode(new, named=self._named)

    def _joined(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response as the client is to know it: all items that it has seen, and the usage of all answers."""
        new = dict(response)
        hidden = set(self._output) - set(self._shown())
        if self._left or hidden:
            output = response.get("output")
            kept = [item for i, item in enumerate(output if isinstance(output, list) else ()) if i not in hidden]
            new["output"] = [*self._left, *kept]
        if self._before is not None and isinstance(response.get("usage"), dict):
            new["usage"] = summed(self._before, response["usage"])
        return response if new == response else new

    # ---- bodies ----

    def read(self, body: bytes) -> None:
        """A whole answer. Raises `ValueError` when it is not a response."""
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not isinstance(fields.get("output"), list):
            raise ValueError("not a response")
        self._read_response(fields)
        waiting = set[int]()
        for i, item in sorted(self._output.items()):
            if item.get("type") == "reasoning":
                waiting.add(i)
            elif i not in self._mine:
                waiting.clear()
        self._thoughts, self._body = waiting, body

    # ---- both ----

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to."""
        others = any(is_call(item) for i, item in self._output.items() if i not in self._mine)
        return OwnToolTurn(tuple(self._calls()), mixed=others, whole=self._status == "completed" and not self._failed)

    def _calls(self) -> Iterator[ToolCall]:
        for index, position in enumerate(sorted(self._mine)):
            item = self._output[position]
            identity = item.get("call_id") or f"gw{self._answers:03d}{position:04d}"
            yield ToolCall(str(identity), str(item["name"]), str(item.get("arguments") or ""), index)

    def _rest(self) -> bytes:
        return b"".join([self._rendered(event) for event in (*self._held, *([] if self._joins else self._lead), *self._tail)])

    @property
    def _has_own(self) -> bool:
        return bool(self._mine)

    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        shown = self._shown()
        raw["output"] = as_raw([item for i, item in enumerate(raw_items(raw["output"])) if i in shown])

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer and the results of its `calls`, as the next request carries them."""
        given = dict(zip(sorted(self._mine), calls, strict=True))
        items = [
            {**item, "call_id": given[i].id, "arguments": _legible(given[i])} if i in given else item
            for i, item in sorted(self._output.items())
            if self._stored or item.get("type") != "reasoning" or item.get("encrypted_content")
        ]
        text = joined(texts_of(items))
        said = {"role": "assistant", "content": text or None, "tool_calls": [chat_call(item) for item in items if is_call(item)]}
        results_of = ({"role": "tool", "tool_call_id": call.id, "content": result} for call, result in zip(calls, results, strict=True))
        return [{**said, OUTPUT_ITEMS: items}, *results_of]

    def failed(self, status: int, body: bytes) -> bytes:
        """An upstream's refusal as the events that tell a client after bytes have left."""
        failure = failure_in(body)
        told = {"type": "error", **envelope("responses", failure, status)["error"], "code": failure.code or "server_error"}
        return encode({**told, "type": "error", "sequence_number": self._next or 0}, named=self._named)


def _legible(call: ToolCall) -> str:
    """The arguments, or an empty object: providers refuse a conversation with arguments that are not JSON."""
    return call.arguments if call.arguments.strip() and call.parsed is not None else "{}"
