"""A Responses answer with what is recognised of it (`shapes`), whole and event by event.

Items that leave, and the parts of their content, are counted anew. A text behind another one begins with a blank line where clients, which
join texts with nothing, would read one word out of two; what repeats a text further on repeats that, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.wire.chat.shapes import tells
from proxy.wire.dialect import Recogniser
from proxy.wire.responses import events
from proxy.wire.responses.events import Place
from proxy.wire.responses.output import GAP
from proxy.wire.responses.shapes import ERROR, EVENT, NEEDS, RESPONSE
from proxy.wire.shapes import ABSENT, Asked, Fields, glues

_FAILED = ("failed", "cancelled")
_CALLS = {"function_call": "function", "custom_tool_call": "custom"}
_WORDS = ((events.TEXT, "delta"), (events.TEXT_DONE, "text"), (events.REFUSAL, "delta"), (events.REFUSAL_DONE, "refusal"))
_SAID_IN = dict(_WORDS)
_GIVEN = tuple(dict.fromkeys(events.GIVEN.values()))
Item = dict[str, Any]


class ResponsesShapes(Recogniser):
    """Of Responses."""

    api = "responses"
    failure = Fields("error", {"error": ERROR})

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self._items: dict[int, int | None] = {}
        """Where items of the upstream's stand among those that leave; None for one that does not."""
        self._parts: dict[Place, int | None] = {}
        """The same of parts, by the place that the upstream gives them."""
        self._counts: dict[int, int] = {}
        """How many parts of an item leave, by its upstream's position."""
        self._kinds: dict[int, str] = {}
        """Of items that leave."""
        self._over: set[int] = set()
        """Those of them that are done."""
        self._given: dict[tuple[int, str], list[str]] = {}
        """What calls take, as it was told first, by their items among those that leave and the field that says it."""
        self._gaps: dict[Place, str] = {}
        """What each text begins with, by its place among those that leave."""
        self._last = ""
        """The end of the text that was said last."""
        self._ended = False

    # ---- whole ----

    def answer(self, fields: Any) -> Any:
        """A response with what is recognised of it."""
        made = RESPONSE(fields, self.reading)
        return made if made is ABSENT else self._response(made)

    def _response(self, made: Item) -> Item:
        if made.get("error") is not None and made.get("status") not in _FAILED:
            self.reading.leave_out("response.error")
            made["error"] = None
        output = made.get("output")
        if output.__class__ is list:
            made["output"] = items = [item for item in output if self._is_offered(item)]
            for i, item in enumerate(items):
                self._item(item, i)
        return made

    def _is_offered(self, item: Mapping[str, Any]) -> bool:
        """Whether it is an item that the request could have brought about."""
        kind, asked = str(item["type"]), self.reading.asked
        offered = asked.provides(*NEEDS[kind]) if kind in NEEDS else True
        if kind in _CALLS:
            offered = asked.offers(str(item.get("name") or ""), _CALLS[kind])
        if not offered:
            self.reading.leave_out("a call of a tool that was not offered")
        self.says = self.says or (offered and kind.endswith(("_call", "_request")) and kind != "image_generation_call")
        return offered

    def _item(self, item: Item, position: int) -> None:
        for field in _GIVEN:
            if item.get(field).__class__ is str:
                item[field] = self._as_told(position, field, item[field])
        if item["type"] != "message":
            return
        item.setdefault("content", [])
        for j, part in enumerate(item["content"] or ()):
            self._part(part, (position, j))

    def _part(self, part: Item, place: Place) -> None:
        name = "refusal" if part["type"] == "refusal" else "text"
        said = part[name] = part.get(name) or ""
        if part.get("logprobs") and not tells(part["logprobs"], said):
            self.reading.leave_out("output_text.logprobs")
            part["logprobs"] = []
        gap = self._gap(said, place)
        if gap:
            part[name] = gap + said
            for annotation in part.get("annotations") or ():
                _shift(annotation, len(gap))

    def _gap(self, said: str, place: Place) -> str:
        """What is to stand before a text, once its first word is there."""
        if said and place not in self._gaps:
            self._gaps[place] = GAP if glues(self._last, said) else ""
        if said:
            self._last, self.says = (self._last + said)[-24:], True
        return self._gaps.get(place, "")

    # ---- event by event ----

    def events(self, fields: Any) -> list[Item]:
        """An event with what is recognised of it; none where nothing is left."""
        made = EVENT(fields, self.reading)
        kind = str(fields.get("type")) if isinstance(fields, dict) else ""
        if made is ABSENT or self._ended:
            self.reading.leave_out("event", kind if made is ABSENT else "after the end")
            return []
        if kind in events.BEGINS or kind in events.ENDS:
            return self._whole(kind, made)
        if kind == "error":
            return [made]
        index = made.get("output_index")
        if index.__class__ is not int:
            self.reading.leave_out(kind, "output_index")
            return []
        if kind == events.ITEM:
            return self._begin(index, made)
        at = self._items[index] if index in self._items else self._opened(index, kind, made)
        if at is None:
            return []
        made["output_index"] = at
        if kind == events.ITEM_DONE:
            return self._end_item(at, made)
        if not self._is_of(kind, at, made):
            self.reading.leave_out(kind, "of another item")
            return []
        if "content_index" in made and self._kinds[at] == "message":
            return self._placed(kind, index, at, made)
        return [self._of_call(kind, at, made)]

    def _opened(self, index: int, kind: str, made: Item) -> int | None:
        """The place of an item that no event has opened: of some servers' texts, and of one that is told whole at once."""
        item = made.get("item")
        whole = kind == events.ITEM_DONE and isinstance(item, dict) and self._is_offered(item)
        owner = item["type"] if whole and item is not None else events.owner_of(kind)
        if not whole and owner not in ("message", "reasoning"):
            self.reading.leave_out(kind, "of an item that has not begun")
            return None
        at = self._items[index] = len(self._kinds)
        self._kinds[at] = owner
        return at

    def _is_of(self, kind: str, at: int, made: Item) -> bool:
        """Whether it is an event of such an item as it is said to be of, and that goes on."""
        owner = events.owner_of(kind)
        if isinstance(part := made.get("part"), dict) and part["type"] == "reasoning_text":
            owner = "reasoning"
        return self._kinds[at] == owner and not (at in self._over and events.given_in(kind))

    def _of_call(self, kind: str, at: int, made: Item) -> Item:
        """An event of an item that is no message; what it tells of a call once more is what was told first."""
        field, whole = events.given_in(kind) or ("", False)
        if whole and made.get(field).__class__ is str:
            made[field] = self._as_told(at, field, made[field])
        elif field and not whole:
            self._given.setdefault((at, field), []).append(made.get("delta") or "")
        return made

    def _as_told(self, at: int, field: str, text: str) -> str:
        """What a call takes: `text`, unless that does not begin with what was told of it before."""
        known = "".join(self._given.get((at, field), ()))
        if not text.startswith(known):
            self.reading.leave_out("what a call takes, told otherwise")
            text = known
        self._given[at, field] = [text]
        return text

    def _whole(self, kind: str, made: Item) -> list[Item]:
        response = made.get("response")
        if not isinstance(response, dict):
            self.reading.leave_out(kind, "response")
            return []
        self._ended = kind in events.ENDS
        if not self._ended:
            response["output"] = []
        made["response"] = self._response(response)
        return [made]

    def _begin(self, index: int, made: Item) -> list[Item]:
        item = made.get("item")
        if index in self._items or not isinstance(item, dict) or not self._is_offered(item):
            self.reading.leave_out(events.ITEM, "again" if index in self._items else "item")
            self._items.setdefault(index, None)
            return []
        at = self._items[index] = len(self._kinds)
        self._kinds[at] = item["type"]
        return [{**made, "output_index": at}]

    def _end_item(self, at: int, made: Item) -> list[Item]:
        item = made.get("item")
        if not isinstance(item, dict) or not self._is_offered(item) or self._kinds[at] != item["type"]:
            self.reading.leave_out(events.ITEM_DONE, "item")
            return []
        self._over.add(at)
        self._item(item, at)
        return [made]

    def _placed(self, kind: str, index: int, at: int, made: Item) -> list[Item]:
        """An event of a part of a message."""
        given = made["content_index"]
        place = (index, given)
        if given.__class__ is not int or (kind == events.PART and not isinstance(made.get("part"), dict)):
            self.reading.leave_out(kind, "part")
            self._parts.setdefault(place, None)
            return []
        if place not in self._parts:
            self._parts[place] = self._counts.get(index, 0)
            self._counts[index] = self._counts.get(index, 0) + 1
        part_at = self._parts[place]
        if part_at is None:
            return []
        made["content_index"] = part_at
        self._words(kind, made, (at, part_at))
        return [made]

    def _words(self, kind: str, made: Item, place: Place) -> None:
        if kind == events.PART_DONE and isinstance(made.get("part"), dict):
            self._part(made["part"], place)
        elif kind == events.ANNOTATION and isinstance(made.get("annotation"), dict):
            _shift(made["annotation"], len(self._gaps.get(place, "")))
        elif kind in _SAID_IN:
            name = _SAID_IN[kind]
            said = made.get(name) or ""
            if made.get("logprobs") and not tells(made["logprobs"], said):
                self.reading.leave_out("output_text.logprobs")
                made["logprobs"] = []
            first = place not in self._gaps
            gap = self._gap(said, place)
            if gap and (first or name != "delta"):
                made[name] = gap + said


def _shift(annotation: Item, by: int) -> None:
    for name in ("start_index", "end_index"):
        if by and annotation.get(name).__class__ is int:
            annotation[name] += by
