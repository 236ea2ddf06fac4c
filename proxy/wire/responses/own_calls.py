"""Takes the calls of the proxy's own tools out of the answers of one exchange, so that its client sees a single response.

In: the upstream's answers, one after another, each as a body or as events. Out: what the client may see, in the upstream's own bytes but
for these: an item that is such a call, and the reasoning that led to nothing else; positions and numbers behind them; once events of an
earlier answer have left, a later one's beginning; and the end, which tells all items that have left and the usage of all answers. The
response's id at the end is the last answer's: the provider knows the conversation by it.

Implements `proxy.wire.dialect.CallFilter` for OpenAI's Responses.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import orjson

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.bodies import as_raw, dumped, raw_fields, raw_items
from proxy.wire.dialect import OwnToolTurn
from proxy.wire.error_envelopes import envelope
from proxy.wire.responses import events
from proxy.wire.responses.events import encode, event_of, index_of, response_of
from proxy.wire.responses.items import chat_call, is_call
from proxy.wire.responses.output import joined, texts_of
from proxy.wire.responses.rendering import OUTPUT_ITEMS
from proxy.wire.upstream_errors import failure_in
from proxy.wire.usage import summed


class _Event(msgspec.Struct, frozen=True):
    """One event."""

    raw: bytes
    data: dict[str, Any] | None = None
    """None for what is none of this API's."""


class _Round:
    """One answer of the upstream."""

    def __init__(self, own: Collection[str], *, joins: bool) -> None:
        self.own = frozenset(own)
        self.joins = joins
        """Whether events of an earlier answer have left."""
        self.splitter = sse.EventSplitter()
        self.output: dict[int, dict[str, Any]] = {}
        """Its items, by position, as far as they are whole."""
        self.mine: set[int] = set()
        """Calls of own tools."""
        self.thoughts: set[int] = set()
        """Reasoning of which it is not known yet whether it leads to anything that the client sees."""
        self.places: dict[int, int] = {}
        """Positions of the others in what the client sees."""
        self.lead: list[_Event] = []
        """What begins the response: it leaves with the first event that says something."""
        self.waiting: list[_Event] = []
        """The events of `thoughts`."""
        self.tail: list[_Event] = []
        """The end of an answer with own calls: it leaves only if no other answer follows."""
        self.held: list[_Event] = []
        """Of an answer that leaves whole: everything."""
        self.usage: dict[str, Any] | None = None
        self.status = ""
        self.failed = False
        self.body: bytes | None = None

    def kept(self) -> dict[int, dict[str, Any]]:
        """The items that the client sees, by position."""
        hidden = self.mine | (self.thoughts if self.mine else set())
        return {i: item for i, item in sorted(self.output.items()) if i not in hidden}

    def is_own(self, item: Mapping[str, Any]) -> bool:
        """Whether it is a call of an own tool."""
        return item.get("type") == "function_call" and item.get("name") in self.own


class ResponsesCallFilter:
    """With `whole`, nothing of an answer leaves before it has ended; then an answer that only calls own tools leaves nothing at all."""

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        """`stored` tells whether the provider keeps what it puts out: else reasoning can go back to it only if it is encrypted."""
        self._whole, self._stored = whole, stored
        self._left: list[dict[str, Any]] = []
        """Items of earlier answers that the client has seen."""
        self._before: dict[str, Any] | None = None
        """Usage of the earlier answers."""
        self._next: int | None = None
        self._named, self._started = True, False
        self._answers = 0
        self._round = _Round((), joins=False)

    def begin(self, own: Collection[str]) -> None:
        """The next answer is about to come; the client must not see calls of the tools `own`."""
        last = self._round
        if last.usage is not None:
            self._before = summed(self._before, last.usage)
        if not self._whole:
            self._left += [item for i, item in last.kept().items() if i in last.places]
        self._answers += 1
        self._round = _Round(own, joins=self._started)

    # ---- events ----

    def feed(self, chunk: bytes) -> bytes:
        """What may leave of the events that `chunk` completes."""
        return b"".join([piece for event in self._round.splitter.feed(chunk) for piece in self._take(event)])

    def finish(self) -> bytes:
        """The stream is over: what still may leave, but for the end of an answer with own calls (`close`)."""
        event = self._round.splitter.finish()
        out = [] if event is None else list(self._take(event))
        if not self._round.mine:
            out += self._show_thoughts()
        return b"".join(out)

    def _take(self, event: sse.Event) -> Iterator[bytes]:
        data = event_of(event.data) if event.data is not None and not event.done else None
        one, turn = _Event(event.raw, data), self._round
        if data is None:
            if event.done and turn.mine:
                turn.tail.append(one)
            elif event.data is None and not self._started and not self._whole:
                yield event.raw  # a comment keeps the connection alive
            else:
                yield from self._put(one)
        elif data["type"] in events.BEGINS:
            self._named = event.raw.startswith(b"event:")
            if not turn.joins:
                turn.lead.append(one)
        elif data["type"] in events.ENDS:
            yield from self._ended(one, data)
        elif data["type"] == "error":
            turn.failed = True
            yield from self._put(one)
        elif "output_index" in data:
            yield from self._of_item(one, data)
        else:
            yield from self._put(one)

    def _of_item(self, event: _Event, data: dict[str, Any]) -> Iterator[bytes]:
        """To the client, or to what waits, or nowhere."""
        turn, position, item = self._round, index_of(data), data.get("item")
        if isinstance(item, dict):
            turn.output[position] = item
            self._begun(position, item)
        if position in turn.mine:
            return
        if position in turn.thoughts:
            turn.waiting.append(event)
            return
        if position not in turn.places:
            yield from self._show_thoughts()
            self._number(position)
        yield from self._put(event)

    def _begun(self, position: int, item: Mapping[str, Any]) -> None:
        turn = self._round
        if turn.is_own(item):
            turn.mine.add(position)
        elif item.get("type") == "reasoning" and position not in turn.places:
            turn.thoughts.add(position)

    def _number(self, position: int) -> None:
        self._round.places[position] = len(self._left) + len(self._round.places)

    def _show_thoughts(self) -> Iterator[bytes]:
        """Reasoning that leads to something leaves before it."""
        turn = self._round
        for position in sorted(turn.thoughts):
            self._number(position)
        turn.thoughts.clear()
        waiting, turn.waiting = turn.waiting, []
        for event in waiting:
            yield from self._put(event)

    def _ended(self, event: _Event, data: dict[str, Any]) -> Iterator[bytes]:
        turn = self._round
        self._read_response(response_of(data))
        turn.failed = turn.failed or data["type"] == "response.failed"
        if turn.mine:
            turn.tail.append(event)
        else:
            yield from self._show_thoughts()
            yield from self._put(event)

    def _read_response(self, response: Mapping[str, Any]) -> None:
        turn, output = self._round, response.get("output")
        for i, item in enumerate(output if isinstance(output, list) else ()):
            if isinstance(item, dict):
                turn.output[i] = item
                if turn.is_own(item):
                    turn.mine.add(i)
        turn.status = str(response.get("status") or "completed")
        turn.usage = response["usage"] if isinstance(response.get("usage"), dict) else None

    def _put(self, event: _Event) -> Iterator[bytes]:
        """It leaves, behind what begins the response."""
        lead, self._round.lead = self._round.lead, []
        if self._whole:
            self._round.held += [*lead, event]
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
        if "output_index" in data and self._round.places.get(index_of(data)) not in (None, data["output_index"]):
            new = {**new, "output_index": self._round.places[index_of(data)]}
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
        hidden = set(self._round.output) - set(self._round.kept())
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
        turn, waiting = self._round, set[int]()
        for i, item in sorted(turn.output.items()):
            if item.get("type") == "reasoning":
                waiting.add(i)
            elif i not in turn.mine:
                waiting.clear()
        turn.thoughts, turn.body = waiting, body

    # ---- both ----

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to."""
        turn = self._round
        others = any(is_call(item) for i, item in turn.output.items() if i not in turn.mine)
        return OwnToolTurn(tuple(self._calls()), mixed=others, whole=turn.status == "completed" and not turn.failed)

    def _calls(self) -> Iterator[ToolCall]:
        for index, position in enumerate(sorted(self._round.mine)):
            item = self._round.output[position]
            identity = item.get("call_id") or f"gw{self._answers:03d}{position:04d}"
            yield ToolCall(str(identity), str(item["name"]), str(item.get("arguments") or ""), index)

    def close(self) -> bytes:
        """No further answer comes: the rest of this one."""
        turn = self._round
        if turn.body is not None:
            return self._stripped(turn.body)
        return b"".join([self._rendered(event) for event in (*turn.held, *([] if turn.joins else turn.lead), *turn.tail)])

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer and the results of its `calls`, as the next request carries them."""
        turn, given = self._round, dict(zip(sorted(self._round.mine), calls, strict=True))
        items = [
            {**item, "call_id": given[i].id, "arguments": _legible(given[i])} if i in given else item
            for i, item in sorted(turn.output.items())
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

    def _stripped(self, body: bytes) -> bytes:
        turn = self._round
        if not turn.mine and (self._before is None or turn.usage is None):
            return body
        raw = raw_fields(body)
        kept = turn.kept()
        raw["output"] = as_raw([item for i, item in enumerate(raw_items(raw["output"])) if i in kept])
        if self._before is not None and turn.usage is not None:
            raw["usage"] = dumped(summed(self._before, turn.usage))
        return msgspec.json.encode(raw)


def _legible(call: ToolCall) -> str:
    """The arguments, or an empty object: providers refuse a conversation with arguments that are not JSON."""
    return call.arguments if call.arguments.strip() and call.parsed is not None else "{}"
