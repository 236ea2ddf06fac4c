"""The events of a Responses stream as they leave: numbered without a gap, and each telling a text as it has left.

In: the pieces of `stream`, in the order of leaving, some of them with another text. Out: bytes: an event's own, unless its number, or a
text, arguments or annotations that it repeats, are no longer what they were. Keeps what has left, so that a block can close what is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.errors import ProxyError
from proxy.wire.answers import AnswerTexts, added_up
from proxy.wire.dialect import StreamPiece
from proxy.wire.responses import events
from proxy.wire.responses.events import Place, encode, index_of, place_of, response_of
from proxy.wire.responses.output import GAP, changed_item, changed_part, move_annotation, once_more

GAP_MARK, REPEAT_MARK = "_gap", "_told"
"""In a payload: it stands between two texts; it is the text of an event behind it. Neither has bytes of its own."""
Event = dict[str, Any]


class OutgoingEvents:
    """Of one stream."""

    def __init__(self, texts: AnswerTexts, refusals: AnswerTexts) -> None:
        """What came of each text and refusal, as `stream` goes on to fill it."""
        self._texts, self._refusals = texts, refusals
        self._sent_texts: dict[str, dict[Place, list[str]]] = {events.TEXT: {}, events.REFUSAL: {}}
        self.arguments: dict[int, str] = {}
        """Of calls, by their items' positions, where they are other than the model's."""
        self.others: list[Mapping[str, Any]] = []
        self.behind: list[tuple[bytes, bool]] = []
        """What came behind the response's end, and whether it is a mark of that: ``[DONE]``, of some servers."""
        self._head: Event = {}
        self._has_id = True
        self._next: int | None = None
        """The next event's number; None before any left."""
        self._is_judged = False
        """Whether events leave by `piece` and `saying`, so that what has left of each text is known."""
        self._last = -1
        self._open: dict[int, Event] = {}
        """Items that have been opened and not closed, as they were opened."""
        self._parts: dict[Place, Event] = {}
        """Their parts that are open."""
        self._whole: dict[Place, Any] = {}
        """Parts that are closed, as they have left."""
        self._closed_items: dict[int, Event] = {}
        self._late: dict[Place, list[Mapping[str, Any]]] = {}
        """Annotations of a text in which something was changed: where they point is known when it is done."""
        self._annotations: dict[Place, int] = {}
        self._end: tuple[bytes, Event] | None = None
        self._places: Sequence[int] = ()

    def note_event(self, raw: bytes, event: Event) -> None:
        """Note an event that came."""
        if event["type"] in events.BEGINS:
            self._has_id, self._head = raw.lstrip(b"\xef\xbb\xbf").startswith(b"event:"), response_of(event)
        if isinstance(event.get("sequence_number"), int):
            self._last = event["sequence_number"]

    def note_end(self, raw: bytes, event: Event, places: Sequence[int]) -> None:
        """The event that ends the response, whose items stood at these positions before: it leaves by `end`."""
        self._end, self._places = (raw, event), places

    # ---- one event ----

    def piece(self, piece: StreamPiece) -> bytes:
        """It leaves as it is."""
        self._is_judged = True
        event = piece.payload
        if event is None:
            return piece.raw
        if GAP_MARK in event or piece.finish:
            return b""
        kind, place = str(event["type"]), place_of(event)
        if kind in self._sent_texts:
            text = events.delta_in(event)
            self._sent_texts[kind].setdefault(place, []).append(text)
            return b"" if REPEAT_MARK in event or not (piece.raw or text) else self._encode(piece.raw, event, event)
        if kind == events.ANNOTATION and self._is_late(event):
            return b""
        late = self._late_annotations(place) if kind in (events.TEXT_DONE, events.PART_DONE) else b""
        return late + self._encode(piece.raw, event, self._adjust_event(event))

    def saying(self, piece: StreamPiece, text: str) -> bytes:
        """It leaves with another text, or refusal; nothing leaves for none."""
        self._is_judged = True
        event = {name: value for name, value in (piece.payload or {}).items() if name != GAP_MARK}
        text = text.removeprefix(GAP) if GAP_MARK in (piece.payload or {}) else text
        self._sent_texts[str(event["type"])].setdefault(place_of(event), []).append(text)
        if not text or REPEAT_MARK in event:
            return b""
        return self._write({**event, "delta": text} | ({"logprobs": []} if event.get("logprobs") and text != piece.text else {}))

    def _encode(self, raw: bytes, came: Mapping[str, Any], event: Mapping[str, Any]) -> bytes:
        """An event's own bytes, if it has any, it still says what they say, and its number is the next one."""
        self._note(event)
        number = event.get("sequence_number")
        if not isinstance(number, int):
            return raw if raw and event is came else encode(event, named=self._has_id)
        if self._next is None:
            self._next = number
        if raw and event is came and number == self._next:
            self._next += 1
            return raw
        return self._write(event)

    def _write(self, event: Mapping[str, Any]) -> bytes:
        """An event with the next number."""
        if self._next is None:
            self._next = self._last + 1
        numbered = {**event, "sequence_number": self._next} if "sequence_number" in event or self._last >= 0 else event
        self._next += 1
        return encode(numbered, named=self._has_id)

    def _adjust_event(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """An event that tells of a text, arguments or annotations again, as they are now; itself where they are as it says."""
        kind = event["type"]
        if kind == events.TEXT_DONE and (text := self._sent_text(events.TEXT, place_of(event))) not in (None, event.get("text")):
            return {**event, "text": text} | ({"logprobs": []} if event.get("logprobs") else {})
        if kind == events.REFUSAL_DONE and (text := self._sent_text(events.REFUSAL, place_of(event))) not in (None, event.get("refusal")):
            return {**event, "refusal": text}
        if kind == events.PART_DONE:
            place = place_of(event)
            part = changed_part(event.get("part"), self._sent_text(events.TEXT, place), self._sent_text(events.REFUSAL, place))
            return event if part is event.get("part") else {**event, "part": part}
        if kind == events.ITEM_DONE and isinstance(event.get("item"), dict):
            item = self._item(event["item"], index_of(event))
            return event if item is event["item"] else {**event, "item": item}
        if kind == events.ARGUMENTS_DONE and index_of(event) in self.arguments:
            return {**event, "arguments": self.arguments[index_of(event)]}
        return event

    def _sent_text(self, kind: str, place: Place) -> str | None:
        """What has left of a text, or refusal; None where nothing came."""
        came = self._texts if kind == events.TEXT else self._refusals
        return "".join(self._sent_texts[kind].get(place, ())) if place in came else None

    def _is_changed(self) -> bool:
        """Whether a text has left as another than it came."""
        return self._is_judged and any(came != self._sent_text(events.TEXT, place) for place, came in self._texts.texts().items())

    def _sent_texts_of(self, kind: str, item: Event, position: int) -> dict[Place, str]:
        content = item.get("content")
        places = [(position, j) for j in range(len(content) if isinstance(content, list) else 0)]
        return {place: text for place in places if (text := self._sent_text(kind, place)) is not None}

    def _item(self, item: Event, position: int) -> Event:
        texts, refusals = (self._sent_texts_of(kind, item, position) for kind in (events.TEXT, events.REFUSAL))
        return changed_item(item, position, texts, refusals, self.arguments)

    def _note(self, event: Mapping[str, Any]) -> None:
        """What is open after it."""
        kind, item = event["type"], event.get("item")
        if kind == events.ITEM and isinstance(item, dict):
            self._open[index_of(event)] = item
        elif kind == events.PART and isinstance(event.get("part"), dict):
            self._parts[place_of(event)] = dict(event)
        elif kind == events.PART_DONE:
            self._parts.pop(place_of(event), None)
            self._whole[place_of(event)] = event.get("part")
        elif kind == events.ITEM_DONE and isinstance(item, dict):
            self._open.pop(index_of(event), None)
            self._closed_items[index_of(event)] = item

    # ---- annotations ----

    def _is_late(self, event: Mapping[str, Any]) -> bool:
        """Whether an annotation stands behind a change of its text, and leaves when that is done."""
        place = place_of(event)
        if place not in self._late and self._texts.text(place).startswith(self._sent_text(events.TEXT, place) or ""):
            self._annotations[place] = self._annotations.get(place, 0) + 1
            return False
        self._late.setdefault(place, []).append(event)
        return True

    def _late_annotations(self, place: Place) -> bytes:
        out = []
        old = self._texts.text(place)
        for event in self._late.pop(place, ()):
            now = move_annotation(event.get("annotation"), old, self._sent_text(events.TEXT, place) or "")
            if now is not None:
                index = self._annotations[place] = self._annotations.get(place, 0)
                self._annotations[place] += 1
                out.append(self._write({**event, "annotation": now, "annotation_index": index}))
        return b"".join(out)

    # ---- the end ----

    def encode_block(self, came: Event | None, usage: Mapping[str, Any] | None) -> bytes:
        """Closes what is open, and makes the response an incomplete one."""
        out = []
        for position, item in sorted(self._open.items()):
            if item.get("type") != "message":  # a call that is not whole is none
                continue
            places = sorted(place for place in self._parts if place[0] == position)
            out += [self._write(event) for place in places for event in self._closing(place, item)]
            whole = [part for place, part in sorted(self._whole.items()) if place[0] == position]
            said = [*whole, *(self._stopped_part(place) for place in places)]
            closed = {**item, "status": "incomplete", "content": said}
            out.append(self._write({"type": events.ITEM_DONE, "output_index": position, "item": closed, "sequence_number": 0}))
            self._closed_items[position] = closed
        response = {
            **self._head,
            **(came or {}),
            "status": "incomplete",
            "error": None,
            "incomplete_details": {"reason": "content_filter"},
            "output": [item for _, item in sorted(self._closed_items.items())],
            "usage": usage,
        }
        if "output_text" in response:
            response["output_text"] = once_more(response["output"])
        self._open.clear()
        self.behind = [(raw, mark) for raw, mark in self.behind if mark]  # what else came there has not been judged
        self._end = b"", {"type": "response.incomplete", "response": response, "sequence_number": 0}
        return b"".join(out)

    def _stopped_part(self, place: Place) -> Event:
        part = dict(self._parts[place]["part"])
        kind, name = (events.REFUSAL, "refusal") if part.get("type") == "refusal" else (events.TEXT, "text")
        return {**part, name: "".join(self._sent_texts[kind].get(place, ()))}

    def _closing(self, place: Place, item: Event) -> Iterator[Event]:
        where = {"item_id": item.get("id"), "output_index": place[0], "content_index": place[1], "sequence_number": 0}
        return events.part_ends(where, self._stopped_part(place))

    def encode_failure(self, error: ProxyError) -> bytes:
        """The error as an event, and as the response's end."""
        told = {"type": "error", "code": error.code, "message": error.message, "param": error.param, "sequence_number": 0}
        why = {"code": "server_error", "message": error.message}
        response = {"object": "response", "output": [], **self._head, "status": "failed", "error": why}
        return self._write(told) + self._write({"type": "response.failed", "response": response, "sequence_number": 0})

    def end(self, verdict: Mapping[str, object] | None) -> bytes:
        """The response's last event, and what came behind it."""
        if self._end is None:
            return b""
        (raw, event), self._end = self._end, None
        response = response_of(event)
        new = dict(response)
        if raw and self._is_judged and isinstance(response.get("output"), list):
            placed = zip(self._places, response["output"], strict=True)
            output = [self._item(item, i) if isinstance(item, dict) else item for i, item in placed]
            if any(now is not old for now, old in zip(output, response["output"], strict=True)):
                new["output"] = output
        if raw and isinstance(response.get("output_text"), str) and self._is_changed():
            sent = self._sent_texts[events.TEXT]
            new["output_text"] = "".join("".join(sent[place]) for place in sorted(sent))
        if self.others and isinstance(response.get("usage"), dict):
            new["usage"] = added_up([*self.others, response["usage"]])
        if verdict is not None:
            new["groundwire"] = verdict
        number = event.get("sequence_number")
        if self._next is None and raw and isinstance(number, int):  # the events before have left in their own bytes
            self._next = number
        ending = raw if new == response and raw and self._next in (None, number) else self._write({**event, "response": new})
        return ending + b"".join(raw for raw, _ in self.behind)
