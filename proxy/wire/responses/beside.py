"""What stands beside the text of a Responses answer: what the model thought, and what its calls take.

In: items, and the events of a stream. Out: the `Choice`'s ``reasoning`` and ``inputs``, and the arguments of calls. A stream tells each of
these several times; a telling that says something else is read, too, since a client may show that one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proxy.wire.responses import events
from proxy.wire.shapes import strings

_NOT_GIVEN = frozenset(("id", "type", "status", "call_id", "created_by", "output", "outputs", "result", "results"))
"""Fields of a call's item that name it, or say what came of it."""
_READ = ("message", "reasoning", "function_call")
"""Items whose words are the answer's text, its thoughts, or its calls'."""
_Place = tuple[int, str, int]
"""An item's position, one of its fields, and a position in that."""


class _Tellings:
    """A text that comes in deltas, and then whole, once or more."""

    __slots__ = ("_parts", "_whole")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._whole: str | None = None

    def add(self, delta: str) -> None:
        """Some more of it."""
        self._parts.append(delta)

    def tell(self, text: str) -> None:
        """All of it; where that is something else than before, both are read."""
        known = self.text if self._whole is None else self._whole
        if text != known:
            self._parts.append(text.removeprefix(known))
        self._whole = text

    @property
    def text(self) -> str:
        return "".join(self._parts)


class Beside:
    """Of one answer, whole or growing."""

    def __init__(self) -> None:
        self._thoughts: dict[_Place, _Tellings] = {}
        self._given: dict[tuple[int, str], _Tellings] = {}
        """What calls take, by the positions of their items and the field that says it."""
        self._functions: set[int] = set()
        """Positions of the calls of functions: what they take is in `Choice.tool_calls`."""
        self._inputs: dict[str, None] = {}
        """Other texts of calls, each once."""

    @property
    def reasoning(self) -> str:
        """The thoughts, joined with nothing, as clients join them."""
        return "".join(told.text for told in self._thoughts.values())

    @property
    def inputs(self) -> tuple[str, ...]:
        """What calls of custom tools, and of the provider's own, take."""
        given = (told.text for (at, _), told in self._given.items() if at not in self._functions)
        return tuple(dict.fromkeys([*self._inputs, *(text for text in given if text)]))

    def arguments(self, position: int) -> str:
        """What events told of the arguments of the call at this position."""
        told = self._given.get((position, "arguments"))
        return told.text if told is not None else ""

    def event(self, kind: str, event: Mapping[str, Any]) -> None:
        """An event of a stream: most say nothing of this."""
        at = events.index_of(event)
        if kind in events.THOUGHTS:
            self._thought(self._place(kind, event)).add(events.said(event))
        elif kind.startswith("response.reasoning"):
            part = event.get("part")
            text = event.get("text", part.get("text") if isinstance(part, Mapping) else None)
            self._tell(self._place(kind, event), text)
        elif kind == events.PART_DONE and isinstance(event.get("part"), Mapping) and event["part"].get("type") == "reasoning_text":
            self._tell((at, "content", events.place_of(event)[1]), event["part"].get("text"))
        elif (found := events.given_in(kind)) is not None:
            field, whole = found
            given = self._given.setdefault((at, field), _Tellings())
            if not whole:
                given.add(events.said(event))
            elif isinstance(event.get(field), str):
                given.tell(event[field])
        elif kind in (events.ITEM, events.ITEM_DONE) and isinstance(event.get("item"), Mapping):
            self.item(at, event["item"])

    def item(self, position: int, item: Mapping[str, Any]) -> None:
        """An item of the output."""
        kind = item.get("type")
        if kind == "reasoning":
            for field, place, text in _thoughts(item):
                self._tell((position, field, place), text)
        elif kind == "function_call":
            self._functions.add(position)
        elif kind not in _READ:
            given = (value for name, value in item.items() if name not in _NOT_GIVEN)
            self._inputs |= dict.fromkeys(text for value in given for text in strings(value) if text)

    @staticmethod
    def _place(kind: str, event: Mapping[str, Any]) -> _Place:
        field, name = ("summary", "summary_index") if "summary" in kind else ("content", "content_index")
        position = event.get(name)
        return events.index_of(event), field, position if isinstance(position, int) else 0

    def _thought(self, place: _Place) -> _Tellings:
        return self._thoughts.setdefault(place, _Tellings())

    def _tell(self, place: _Place, text: object) -> None:
        if isinstance(text, str) and text:
            self._thought(place).tell(text)


def _thoughts(item: Mapping[str, Any]) -> Iterator[tuple[str, int, object]]:
    for field in ("summary", "content"):
        parts = item.get(field)
        for i, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, Mapping):
                yield field, i, part.get("text")
