"""A Responses stream: events -> `StreamPiece`s and an `Answer`, and the events as they leave.

The API tells a text several times: in its deltas, when the text is done, when its part is, when its item is, and in the response at the
end. In: the upstream's events. Out: pieces, of which those with text are the deltas; what repeats a text waits behind it and, as it
leaves (`leaving.Leaving`), says what has left of it. A text that no delta told is a piece of its own before the event that tells it.

Between two texts of one answer stands a piece with a blank line and no bytes, as in `output.join_texts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from proxy.errors import ProxyError
from proxy.exchange import Answer, Choice, ToolCall
from proxy.wire import sse
from proxy.wire.answers import AnswerTexts, usage_in
from proxy.wire.api_errors import error_event
from proxy.wire.bodies import entries_of, object_of, typed_object_in
from proxy.wire.dialect import AnswerStream, Changes, StreamPiece
from proxy.wire.responses import events
from proxy.wire.responses.events import Place, index_of, place_of, response_of
from proxy.wire.responses.outgoing import GAP_MARK, REPEAT_MARK, OutgoingEvents
from proxy.wire.responses.output import GAP, finish_reason, is_read, items_of, join_texts, split_text, streamed_places
from proxy.wire.shapes import strings

_CLIENTS_CALLS = ("response.function_call_arguments.", "response.custom_tool_call_input.")
"""Beginnings of the types that tell what a call of the client's tools takes."""
_PART_EVENTS = (events.TEXT, events.TEXT_DONE, events.REFUSAL, events.REFUSAL_DONE, events.PART_DONE)
"""Events of a text, or refusal, that name its item's and its part's positions."""
_NOT_INPUT = frozenset(("id", "type", "status", "call_id", "created_by", "output", "outputs", "result", "results"))
"""Fields of a call's item that name it, or say what came of it."""


class ResponsesStream(AnswerStream):
    """There is one choice: 0."""

    def __init__(self) -> None:
        super().__init__()
        self._texts, self._refusals = AnswerTexts(), AnswerTexts()
        self._thoughts = AnswerTexts()
        """By an item's position, one of its fields, and a position in that."""
        self._call_texts = AnswerTexts()
        """What calls take, by the positions of their items and the field that says it."""
        self._inputs: dict[str, None] = {}
        """Other texts of calls, each once."""
        self._calls: dict[int, dict[str, Any]] = {}
        """Functions that are called, by their items' positions."""
        self._items: dict[int, Any] = {}
        """Those that are whole, by position."""
        self._whole: set[Place] = set()
        """Places whose text has been told whole."""
        self._last: Place | None = None
        """Whose text came last."""
        self._has_text = False
        self._model = self._id = ""
        self._end: dict[str, Any] | None = None
        """The response as the last event has it."""
        self.unread = ""
        """The first place with text that is not read."""
        self._outgoing = OutgoingEvents(self._texts, self._refusals)

    @classmethod
    def whole(cls, response: dict[str, Any]) -> Answer:
        """A whole response as an answer: as of a stream that tells all of it at its end."""
        stream = cls()
        list(stream._read_end(b"", {"type": events.ENDS[0], "response": response}))
        return replace(stream.answer, unread=stream.unread)

    # ---- reading ----

    @property
    def complete(self) -> bool:
        """Whether the response has ended."""
        return self._end is not None

    @property
    def unreadable(self) -> str:
        """What of it was not what the API has, in a sentence; "" for nothing."""
        return self._problem

    @property
    def answer(self) -> Answer:
        """Everything so far, put together."""
        calls = tuple(self._call(i, item, index) for index, (i, item) in enumerate(sorted(self._calls.items())))
        finish = finish_reason(self._end, bool(calls)) if self._end is not None else None
        thoughts = "".join(self._thoughts.texts().values())  # joined with nothing, as clients join them
        given = (text for (position, _), text in self._call_texts.texts().items() if position not in self._calls)
        inputs = tuple(dict.fromkeys([*self._inputs, *(text for text in given if text)]))
        choice = Choice(0, join_texts(self._texts.texts()), join_texts(self._refusals.texts()), thoughts, calls, finish, inputs)
        usage = usage_in("responses", self.usage, (self._end or {}).get("service_tier"))
        return Answer((choice,), self._model, usage, id=self._id, items=items_of(list(self._items.values())))

    def _call(self, position: int, item: Mapping[str, Any], index: int) -> ToolCall:
        given = item.get("arguments") or self._call_texts.text((position, "arguments"))
        return ToolCall(str(item.get("call_id") or ""), str(item.get("name") or ""), given if isinstance(given, str) else "", index)

    def _pieces(self, event: sse.Event) -> Iterator[StreamPiece]:
        if event.data is None:
            yield StreamPiece(event.raw, done=self.done)
            return
        if self.done or event.done:
            if not event.done:  # clients have stopped reading, and nobody is to read what was not judged
                self._miss("what follows the end of the response is not read")
            self.done = True
            self._outgoing.behind.append((event.raw, event.done))
            yield StreamPiece(event.raw, done=True)
            return
        payload = typed_object_in(event.data)
        if payload is None and (error := error_event(event.data)) is not None:
            self.error = error
            yield StreamPiece(event.raw)
            return
        if payload is None:
            self._miss("an event is none of this API's")
            yield StreamPiece(event.raw)
            return
        self._outgoing.note_event(event.raw, payload)
        yield from self._event(event.raw, payload)

    def _event(self, raw: bytes, event: dict[str, Any]) -> Iterator[StreamPiece]:
        kind = event["type"]
        if kind in _PART_EVENTS and not all(isinstance(event.get(name), int) for name in ("output_index", "content_index")):
            self._miss(f"an event {kind} does not say which text is its own")  # clients may put it elsewhere
        if kind == events.TEXT:
            yield from self._text(raw, event)
        elif kind == events.REFUSAL:
            self._refusals.add(place_of(event), events.delta_in(event))
            yield StreamPiece(raw, 0, refusal=True, waits=True, payload=event)
        elif kind in events.BEGINS:
            self._note_name(response_of(event))
            yield StreamPiece(raw, payload=event)
        elif kind in events.ENDS:
            yield from self._read_end(raw, event)
        elif kind == "error":
            self.error = event
            yield StreamPiece(raw, payload=event)
        else:
            yield from self._read_done_event(kind, event)
            yield self._other(kind, raw, event)

    def _other(self, kind: str, raw: bytes, event: dict[str, Any]) -> StreamPiece:
        """What opens or closes something, what a call is given, thoughts, and every type that is not known."""
        self._read_beside(kind, event)
        if kind in (events.ITEM, events.ITEM_DONE):
            item = event.get("item")
            if isinstance(item, dict):
                self._read_item(index_of(event), item)
                if item.get("type") == "function_call":
                    self._calls[index_of(event)] = item
            if kind == events.ITEM_DONE:
                self._items[index_of(event)] = item
        elif kind not in (events.TEXT_DONE, events.REFUSAL_DONE, events.PART, events.PART_DONE) and events.is_unread(event):
            self._miss(f"text in an event {kind[:80]} is not read")
        if "output_index" not in event:
            return StreamPiece(raw, payload=event)
        parts = kind in (events.TEXT_DONE, events.ITEM, events.ITEM_DONE)
        acts, called = kind == events.ITEM_DONE and _is_call(event), kind.startswith(_CLIENTS_CALLS)
        return StreamPiece(raw, 0, waits=True, parts=parts, acts=acts, has_call_input=called, payload=event)

    def _read_beside(self, kind: str, event: Mapping[str, Any]) -> None:
        """What stands beside the text: thoughts, and what calls take. Most events say nothing of it."""
        at, part = index_of(event), object_of(event.get("part"))
        if kind.startswith("response.reasoning"):
            field, name = ("summary", "summary_index") if "summary" in kind else ("content", "content_index")
            place = at, field, position if isinstance(position := event.get(name), int) else 0
            if kind in events.THOUGHTS:
                self._thoughts.add(place, events.delta_in(event))
            else:
                self._thoughts.set_whole(place, event.get("text", part.get("text")))
        elif kind == events.PART_DONE and part.get("type") == "reasoning_text":
            self._thoughts.set_whole((at, "content", place_of(event)[1]), part.get("text"))
        elif (found := events.call_input_of(kind)) is not None:
            field, whole = found
            input_place = at, f"{field}{event.get('command_index', '')}"  # a shell may be given several
            if whole:
                self._call_texts.set_whole(input_place, event.get(field))
            else:
                self._call_texts.add(input_place, events.delta_in(event))

    def _read_item(self, position: int, item: Mapping[str, Any]) -> None:
        kind = item.get("type")
        for field in ("summary", "content") if kind == "reasoning" else ():
            for i, part in enumerate(entries_of(item.get(field))):
                if isinstance(part, Mapping):
                    self._thoughts.set_whole((position, field, i), part.get("text"))
        if kind not in ("message", "reasoning", "function_call"):
            given = (value for name, value in item.items() if name not in _NOT_INPUT)
            self._inputs |= dict.fromkeys(text for value in given for text in strings(value) if text)

    def _text(self, raw: bytes, event: dict[str, Any]) -> Iterator[StreamPiece]:
        place, text = place_of(event), events.delta_in(event)
        if place in self._whole:
            self._miss(f"output[{place[0]}].content[{place[1]}] goes on behind its end")
        yield from self._gap(place, text, event)
        self._texts.add(place, text)
        yield StreamPiece(raw, 0, text, divisible=not event.get("logprobs"), waits=not text, payload=event)

    def _gap(self, place: Place, text: str, event: Mapping[str, Any]) -> Iterator[StreamPiece]:
        """What stands between the texts before and the first word of another one."""
        if text and self._last not in (None, place) and self._texts.has_text(place):
            self._miss("texts that come by turns are not read")
        self._last = place if text else self._last
        if text and self._has_text and not self._texts.has_text(place):
            payload = {**self._delta(place, event), GAP_MARK: True}
            yield StreamPiece(b"", 0, GAP, divisible=False, payload=payload)
        self._has_text = self._has_text or bool(text)

    @staticmethod
    def _delta(place: Place, event: Mapping[str, Any]) -> dict[str, Any]:
        item = event.get("item")
        identity = event.get("item_id") or (item.get("id") if isinstance(item, dict) else None)
        where = {"item_id": identity, "output_index": place[0], "content_index": place[1]}
        return {"type": events.TEXT, **where, "delta": "", "logprobs": [], "sequence_number": 0}

    def _read_done_event(self, kind: str, event: dict[str, Any]) -> Iterator[StreamPiece]:
        """Text that an event tells, and no delta before it."""
        if kind == events.TEXT_DONE:
            yield from self._read_done_text(place_of(event), event.get("text"), event)
        elif kind == events.REFUSAL_DONE:
            yield from self._read_done_text(place_of(event), event.get("refusal"), event, refusal=True)
        elif kind == events.PART_DONE:
            yield from self._read_done_part(place_of(event), event.get("part"), event)
        elif kind == events.ITEM_DONE:
            yield from self._read_done_item(index_of(event), event.get("item"), event)
        elif kind in (events.PART, events.ITEM):
            opened = event.get("part" if kind == events.PART else "item")
            if isinstance(opened, dict) and any(opened.get(name) for name in ("text", "refusal", "content")):
                self._miss(f"text in an event {kind} is not read")

    def _not_read(self, place: str) -> None:
        self.unread = self.unread or place
        self._miss(f"text in {place} is not read")

    def _read_done_item(self, position: int, item: object, event: Mapping[str, Any]) -> Iterator[StreamPiece]:
        content = item.get("content") if isinstance(item, dict) and item.get("type") == "message" else None
        if not isinstance(content, list | None):
            self._not_read(f"output[{position}].content")
        for j, part in enumerate(entries_of(content)):
            yield from self._read_done_part((position, j), part, event)

    def _read_done_part(self, place: Place, part: object, event: Mapping[str, Any]) -> Iterator[StreamPiece]:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "reasoning_text":
            return
        if not is_read(part):
            self._not_read(f"output[{place[0]}].content[{place[1]}]")
        elif isinstance(part, dict) and kind == "output_text":
            yield from self._read_done_text(place, part.get("text"), event)
        elif isinstance(part, dict) and kind == "refusal":
            yield from self._read_done_text(place, part.get("refusal"), event, refusal=True)

    def _read_done_text(self, place: Place, text: object, event: Mapping[str, Any], *, refusal: bool = False) -> Iterator[StreamPiece]:
        growing = self._refusals if refusal else self._texts
        self._whole.add(place)
        known = growing.text(place)
        if not isinstance(text, str | None):
            self._miss(f"output[{place[0]}].content[{place[1]}] ends with what is no text")
        if not isinstance(text, str) or text == known:
            return
        if not text.startswith(known):
            self._miss(f"output[{place[0]}].content[{place[1]}] ends with another text than it began")
            return
        rest = text[len(known) :]
        if not refusal:
            yield from self._gap(place, rest, event)
        growing.add(place, rest)
        payload = {**self._delta(place, event), "delta": rest, REPEAT_MARK: True}
        if refusal:
            yield StreamPiece(b"", 0, refusal=True, waits=True, payload={**payload, "type": events.REFUSAL})
        else:
            yield StreamPiece(b"", 0, rest, payload=payload)

    def _read_end(self, raw: bytes, event: dict[str, Any]) -> Iterator[StreamPiece]:
        response = response_of(event)
        output = entries_of(response.get("output"))
        places = streamed_places(self._items, output)
        for i, item in zip(places, output, strict=True):
            yield from self._read_done_item(i, item, {**event, "item": item})
            if isinstance(item, dict):
                self._read_item(i, item)
                self._read_call_end(i, item)
                self._items.setdefault(i, item)
        self._end, self.done = response, True
        self._note_name(response)
        self.usage = response["usage"] if isinstance(response.get("usage"), dict) else None
        if event["type"] == "response.failed":
            self.error = response["error"] if isinstance(response.get("error"), dict) else {"message": "the response failed"}
        self._outgoing.note_end(raw, event, places)
        yield StreamPiece(raw, 0, finish=True, done=True, payload=event)

    def _read_call_end(self, position: int, item: dict[str, Any]) -> None:
        """What the end of the response tells of an item: the call that it was when it was done, or the first that is told of it."""
        known = self._calls.get(position) if position in self._items else None
        if item.get("type") == "function_call":
            if known is not None and any(known.get(name) != item.get(name) for name in ("name", "arguments")):  # ids some make anew
                self._miss(f"output[{position}] ends as another call than it was")
            self._calls[position] = known or item

    def _note_name(self, response: Mapping[str, Any]) -> None:
        self._model, self._id = str(response.get("model") or self._model), str(response.get("id") or self._id)

    # ---- leaving ----

    def encode_outgoing(self, piece: StreamPiece) -> bytes:
        """The bytes of `piece`, which leaves as it is; what it repeats follows what has left before it."""
        return self._outgoing.piece(piece)

    def with_text(self, piece: StreamPiece, text: str) -> bytes:
        """`piece`, which leaves, as an event that says `text` instead."""
        return self._outgoing.saying(piece, text)

    def apply_changes(self, pieces: Sequence[StreamPiece], changes: Changes) -> list[StreamPiece]:
        """The parts of the changed text, or refusal, say what they say now."""
        said: dict[tuple[str, int, int], str] = {}
        for kind, growing, changed in ((events.TEXT, self._texts, changes.texts), (events.REFUSAL, self._refusals, changes.refusals)):
            said |= {(kind, *place): text for new in changed.values() for place, text in split_text(growing.texts(), new).items()}
        return list(self._with_words(self._with_arguments(pieces, changes.arguments.get(0, {})), said))

    @staticmethod
    def _with_words(pieces: Sequence[StreamPiece], said: dict[tuple[str, int, int], str]) -> Iterator[StreamPiece]:
        told = set()
        for piece in pieces:
            payload = piece.payload or {}
            where = (str(payload.get("type")), *place_of(payload))
            if where not in said or GAP_MARK in payload:
                yield piece
            elif where not in told:
                told.add(where)
                new = {**payload, "delta": said[where]} | ({"logprobs": []} if "logprobs" in payload else {})
                yield replace(piece, raw=b"", text="" if piece.refusal else said[where], payload=new)

    def _with_arguments(self, pieces: Sequence[StreamPiece], arguments: Mapping[int, str]) -> list[StreamPiece]:
        """`pieces` with these arguments, by the call's index, in place of the model's."""
        ranked = sorted(self._calls)
        new = {ranked[index]: text for index, text in arguments.items()}
        self._outgoing.arguments |= new
        out, told = [], set()
        for piece in pieces:
            payload = piece.payload or {}
            position = index_of(payload)
            if payload.get("type") != events.ARGUMENTS or position not in new:
                out.append(piece)
            elif position not in told:
                told.add(position)
                out.append(replace(piece, raw=b"", payload={**payload, "delta": new[position]}))
        return out

    def with_usage(self, piece: StreamPiece, others: Sequence[Mapping[str, object]]) -> StreamPiece:
        """The usage of the exchange's `others` is added where the response ends."""
        self._outgoing.others = list(others)
        return piece

    def encode_block(self, choices: Sequence[int]) -> bytes:
        """What closes what is open; the response is then ``incomplete``, with the reason ``content_filter``."""
        return self._outgoing.encode_block(self._end, self.usage)

    def encode_failure(self, error: ProxyError) -> bytes:
        """An ``error`` event, which clients raise, and the failed response, which others wait for."""
        return self._outgoing.encode_failure(error)

    def end(self, verdict: Mapping[str, object] | None = None, mark: bytes = b"") -> bytes:
        """The event that ends the response, with the verdict in it."""
        return self._outgoing.end(verdict)


def _is_call(event: Mapping[str, Any]) -> bool:
    """Whether a client may do what it asks for as soon as it has come: a call of its tool."""
    item = event.get("item")
    kind = item.get("type") if isinstance(item, dict) else None
    return isinstance(kind, str) and kind.endswith("_call") and isinstance(item, dict) and isinstance(item.get("call_id"), str)
