"""Takes the calls of the proxy's own tools out of the answers of one exchange, so that its client sees a single answer.

In: the upstream's answers, one after another, each as a body or as events. Out: what the client may see, in the upstream's own bytes but
for what held such a call, what counts anew without it, a later answer's beginning once an earlier one's events have left, and the usage,
which is that of all answers. An answer is a row of items: of chat its calls, of Messages its blocks, of Responses its output items; an
event waits until it is known whose its items are. What is of an API's form is in its own folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

import msgspec
import orjson
from msgspec import Struct

from proxy.exchange import Message, ToolCall
from proxy.wire import sse
from proxy.wire.answers import add_usage
from proxy.wire.bodies import encode_raw, raw_fields

Fields = dict[str, Any]
_CUT = frozenset(("length", "content_filter", "pause_turn"))
"""Ends of an answer that is not whole."""


class OwnToolTurn(Struct, frozen=True):
    """What one upstream answer came to, where the model may call tools that the proxy answers itself."""

    calls: tuple[ToolCall, ...]
    """Calls of the proxy's own tools, each with an id."""
    has_client_calls: bool
    """Whether it calls tools of the client's, too."""
    whole: bool
    """Whether it has ended of itself: nothing broke off, no limit cut it."""
    answer_id: str = ""
    """What its provider keeps it by, and with it the calls: it waits for their results. "" where none keeps it."""


class AnswerItem(Struct):
    """A part of an answer that leaves or stays as one."""

    is_call: bool
    """Whether the client brings its result, if it is not the proxy's own."""
    index: int = 0
    """Its place in the answer as it came."""
    client_index: int = 0
    """Its place in what the client sees: of Responses the ``output_index`` that leaves."""
    own: bool | None = None
    """Whether the client must not see it; None while that is not known."""


class AnswerEvent(Struct, frozen=True):
    """One event, or one that was written anew (then without `raw`)."""

    raw: bytes
    payload: Fields | None = None
    """None for a comment, an end mark, and what is none of the API's."""
    items: Sequence[AnswerItem] = ()
    kind: Literal["says", "begins", "ends"] = "says"
    """One that begins says nothing yet: it leaves with the first that does. One that ends waits where another answer may follow."""


class OwnToolFilter(ABC):
    """Of one exchange; each API has its own. With `whole`, nothing of an answer leaves before it has ended: of one that another follows
    then nothing leaves at all."""

    waits_to_begin = True
    """Whether what begins an answer leaves with what it first says, and not at once."""
    usage_field = "usage"

    def __init__(self, *, whole: bool, stored: bool = True) -> None:
        """`stored` tells whether the provider keeps what it puts out."""
        self._whole, self._stored = whole, stored
        self._answers = 0
        """How often `begin` was called, here too: a part of the ids that are made."""
        self._before: Fields | None = None
        """Usage of the earlier answers."""
        self._usage: Fields | None = None
        """Of this answer."""
        self._started = False
        """Whether an event has left."""
        self.begin(())

    def begin(self, own: Collection[str]) -> None:
        """The next answer is about to come; the client must not see calls of the tools `own`."""
        if self._usage is not None:
            self._before = add_usage(self._before, self._usage)
        if not self._started:
            self._next_client_index = 0
            """How many items the client sees."""
        self._tools, self._splitter = frozenset(own), sse.EventSplitter()
        self._answers += 1
        self._usage, self._failed = None, False
        self._body: bytes | None = None
        self._end: str | None = None
        """Why it ended, in chat's words."""
        self._answer_id = ""
        self._joins = self._started
        """Whether it goes on with an earlier answer."""
        self._has_own = False
        self._undecided: deque[AnswerEvent] = deque()
        """Events from the first on of which it is not known whose its items are."""
        self._opening_events: list[AnswerEvent] = []
        """What begins it, and has not left."""
        self._held_events: list[AnswerEvent] = []
        """With `whole`: everything."""
        self._tail: list[AnswerEvent] = []
        """The end of an answer with own calls: it leaves only if no other answer follows."""
        self._reset()

    # ---- events ----

    def feed(self, chunk: bytes) -> bytes:
        """What may leave of the events that `chunk` completes."""
        return b"".join([self._take(event) for event in self._splitter.feed(chunk)])

    def finish(self) -> bytes:
        """The stream is over: what still may leave, but for the end of an answer with own calls (`close`)."""
        event = self._splitter.finish()
        out = b"" if event is None else self._take(event)
        self._settle()
        return out + self._drain()

    def _take(self, event: sse.Event) -> bytes:
        if event.data is None:  # a comment keeps the connection alive
            return self._leave(AnswerEvent(event.raw))
        self._undecided.append(self._read(event))
        return self._drain()

    def _drain(self) -> bytes:
        out = []
        while self._undecided and None not in [item.own for item in self._undecided[0].items]:
            out.append(self._pass(self._undecided.popleft()))
        return b"".join(out)

    def _decide_owner(self, item: AnswerItem, own: bool) -> None:
        """Hide an item, or give it the next place of those that the client sees."""
        item.own = own
        if own:
            self._has_own = self._has_own or item.is_call
        else:
            item.client_index, self._next_client_index = self._next_client_index, self._next_client_index + 1

    def _pass(self, event: AnswerEvent) -> bytes:
        """To the client, to what waits, or nowhere."""
        if self._has_own:
            rest, end = self._without_own(event)
            self._tail += [end] if end is not None else []
            if rest is None:
                return b""
            event = rest
        if event.kind == "begins":
            return self._begin_with(event)
        if not self._opening_events:
            return self._leave(event)
        lead, self._opening_events = self._opening_events, []
        return b"".join([self._leave(one) for one in (*lead, event)])

    def _begin_with(self, event: AnswerEvent) -> bytes:
        if self._joins:
            return b""
        if not self._started and self.waits_to_begin and not self._held_events:
            self._opening_events.append(event)
            return b""
        return self._leave(event) if event.raw else b""

    def _leave(self, event: AnswerEvent) -> bytes:
        if self._whole:
            self._held_events.append(event)
            return b""
        self._started = self._started or event.payload is not None
        return self._render(event)

    # ---- bodies ----

    def read(self, body: bytes) -> None:
        """An answer that is one body. Raises `ValueError` when it is not this API's."""
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not self._read_whole(fields):
            raise ValueError("not an answer of this API")
        self._body = body
        self._settle()

    def _strip_body(self, body: bytes) -> bytes:
        counts = self._before is not None and self._usage is not None
        if not self._has_own and not counts:
            return body
        raw = raw_fields(body)
        if self._has_own:
            self._strip(raw)
        if counts:
            raw[self.usage_field] = encode_raw(add_usage(self._before, self._usage or {}))
        return msgspec.json.encode(raw)

    # ---- both ----

    def close(self) -> bytes:
        """No further answer comes: the rest of this one."""
        if self._body is not None:
            return self._strip_body(self._body)
        tail = self._tail if self.turn.has_client_calls else [self._ended_plainly(event) for event in self._tail]
        return b"".join([self._render(event) for event in (*self._opening_events, *self._held_events, *tail)])

    @property
    def turn(self) -> OwnToolTurn:
        """What the answer came to, after `finish` or `read`."""
        mixed = any(item.is_call and not item.own for item in self._items())
        whole = self._end is not None and self._end not in _CUT and not self._failed
        return OwnToolTurn(tuple(self._calls()), mixed, whole, self._answer_id)

    def messages(self, calls: Sequence[ToolCall], results: Sequence[str]) -> list[Message]:
        """The answer and the results of its `calls`, as the next request carries them."""
        return [self._turn_of(calls), *(result_of(call, result) for call, result in zip(calls, results, strict=True))]

    # ---- of an API ----

    @abstractmethod
    def _reset(self) -> None:
        """Forget what is known of the answer before."""

    @abstractmethod
    def _read(self, event: sse.Event) -> AnswerEvent:
        """Take an event in."""

    @abstractmethod
    def _read_whole(self, fields: Fields) -> bool:
        """Take a whole answer in; whether it is one."""

    @abstractmethod
    def _settle(self) -> None:
        """Nothing more comes: decide whose the items are of which that was not known."""

    def _without_own(self, event: AnswerEvent) -> tuple[AnswerEvent | None, AnswerEvent | None]:
        """What of an event may leave, and what of it ends the answer."""
        if event.kind == "ends":
            return None, event
        return (None if any(item.own for item in event.items) else event), None

    @abstractmethod
    def _render(self, event: AnswerEvent) -> bytes:
        """The event's own bytes, unless something in it has to change."""

    def _ended_plainly(self, event: AnswerEvent) -> AnswerEvent:
        """An end whose calls have all been taken out."""
        return event

    @abstractmethod
    def _strip(self, raw: dict[str, msgspec.Raw]) -> None:
        """Take own calls out of a body's fields."""

    @abstractmethod
    def _items(self) -> Collection[AnswerItem]:
        """Of this answer."""

    @abstractmethod
    def _calls(self) -> Iterator[ToolCall]:
        """Of own tools, in order."""

    @abstractmethod
    def _turn_of(self, calls: Sequence[ToolCall]) -> Message:
        """The answer with these own calls, as the next request carries it."""

    @abstractmethod
    def encode_failure(self, status: int, body: bytes) -> bytes:
        """An upstream's error answer as the event that tells a client after bytes have left."""


def result_of(call: ToolCall, text: str) -> Message:
    """What a call gave, in chat form."""
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def legible(call: ToolCall) -> str:
    """The arguments, or an empty object: providers refuse a conversation with arguments that are not JSON."""
    return call.arguments if call.arguments.strip() and call.parsed is not None else "{}"
