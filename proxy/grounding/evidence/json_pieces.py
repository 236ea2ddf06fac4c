"""JSON in the context -> pieces that say path and value: "order.id: 5; order.status: shipped", one for each object.

A piece's span is the longest run of the object's own members that no other object interrupts; a list of plain values counts as one
value. Long strings are read as texts of their own (sentences, tables, JSON again), with their place in the literal as it is written.
Several values that follow each other (JSON lines) are read one after the other. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import orjson
from msgspec import Struct

from proxy.grounding.evidence.tables import MAX_PIECE_CHARS, EvidencePiece

_SIGN = re.compile(r'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*|true|false|null|[\[\]{},:])', re.S)
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.S)
_WORDS = re.compile(r"(?<=[a-zà-ÿ0-9])(?=[A-Z])|[_-]+")
LONG_CHARS = 160
"""A longer string, or one of several lines, is a text and no value."""

Cut = Callable[[str], list[EvidencePiece]]


class _Member(Struct, frozen=True):
    """A plain value of an object."""

    said: str
    start: int
    end: int
    run: int
    """Members of one run follow each other without another object between them."""


def cut(text: str, inner: Cut, apart: Sequence[str] = ()) -> list[EvidencePiece] | None:
    """The pieces of a text that is JSON; None for any other. Strings in `apart` are left out; `inner` cuts long strings."""
    if text.lstrip()[:1] not in ("{", "[") or not _valid(text):
        return None
    reader = _Reader(text, inner, apart)
    try:
        reader.read()
    except RecursionError:
        return None
    return sorted(reader.found, key=lambda piece: piece.start)


def _valid(text: str) -> bool:
    """Whether it is one JSON value, or one in each line."""
    try:
        orjson.loads(text)
        return True
    except ValueError:
        lines = [line for line in text.split("\n") if line.strip()]
    try:
        return len(lines) > 1 and all(isinstance(orjson.loads(line), dict | list) for line in lines)
    except ValueError:
        return False


class _Reader:
    """Goes through the signs of a text that is known to be valid."""

    def __init__(self, text: str, inner: Cut, apart: Sequence[str]) -> None:
        self._text, self._inner = text, inner
        self._apart = frozenset(other.strip() for other in apart)
        self._at = 0
        self.found: list[EvidencePiece] = []

    def read(self) -> None:
        while (sign := self._next()) is not None:
            plain = self._value(sign, "")
            if plain is not None and plain.strip():
                self.found += _pieces("", [_Member(plain, *self._last, 0)])

    def _next(self) -> str | None:
        match = _SIGN.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        self._last = match.span(1)
        return match[1]

    def _value(self, sign: str, name: str) -> str | None:
        """What a plain value says; None for one that is in `found` already."""
        if sign == "{":
            self._object(name)
            return None
        if sign == "[":
            return self._list(name)
        return self._string(sign) if sign[0] == '"' else sign

    def _string(self, literal: str) -> str | None:
        value = orjson.loads(literal.encode("utf-8", "replace"))
        start, end = self._last
        if value.strip() in self._apart:
            return None
        if len(value) <= LONG_CHARS and "\n" not in value.strip() and value.lstrip()[:1] not in ("{", "["):
            return str(value)
        place = places(literal)
        for piece in self._inner(value):
            self.found.append(EvidencePiece(piece.shown, start + place(piece.start), start + place(piece.end), prose=False))
        self._last = start, end
        return None

    def _object(self, name: str) -> None:
        members: list[_Member] = []
        run = 0
        while (sign := self._next()) not in ("}", None):
            if sign == ",":
                continue
            start = self._last[0]
            key = _WORDS.sub(" ", str(orjson.loads((sign or '""').encode("utf-8", "replace"))))
            self._next()
            before = len(self.found)
            said = self._value(self._next() or "null", key or name)
            run += len(self.found) > before
            if said is not None and said.strip():
                members.append(_Member(f"{key}: {said}", start, self._at, run))
        self.found += _pieces(name, members)

    def _list(self, name: str) -> str | None:
        """A list of plain values is one value; the others' plain values stand alone."""
        start = self._last[0]
        values: list[_Member] = []
        first, nested, run = len(self.found), False, 0
        while (sign := self._next()) not in ("]", None):
            if sign == ",":
                continue
            begin = self._last[0]
            nested |= sign in ("{", "[")
            before = len(self.found)
            said = self._value(sign or "null", name)
            run += len(self.found) > before
            if said is not None and said.strip():
                values.append(_Member(said, begin, self._at, run))
        plain = not nested and len(self.found) == first and sum(len(value.said) + 2 for value in values) <= MAX_PIECE_CHARS // 2
        if plain and name:
            self._last = start, self._at
            return ", ".join(value.said for value in values) or None
        self.found += _pieces("", _rows(name, values))
        return None


def _rows(name: str, values: Sequence[_Member]) -> list[_Member]:
    """The plain values of a list that has too many of them, or others too: the name once, then the values."""
    return [_Member(f"{name}: {v.said}" if name and not i else v.said, v.start, v.end, v.run) for i, v in enumerate(values)]


def places(literal: str) -> Callable[[int], int]:
    """From an offset in a string to the offset in its literal."""
    ends, shifts, shift = [0], [1], 1
    for match in _ESCAPE.finditer(literal):
        written, meant = len(match[0]), 1
        ends.append(match.end() - (shift + written - meant))
        shift += written - meant
        shifts.append(shift)
    return lambda at: at + shifts[bisect_right(ends, at) - 1]


def _pieces(name: str, members: Sequence[_Member]) -> Iterator[EvidencePiece]:
    """The members as pieces of at most `MAX_PIECE_CHARS`; those behind the first begin with the object's first member, as its name."""
    prefix = f"{name}." if name else ""
    said = [f"{prefix}{member.said}"[:MAX_PIECE_CHARS] for member in members]
    at = 0
    while at < len(members):
        head = [said[0][: MAX_PIECE_CHARS // 3]] if at else []
        end, size = at + 1, sum(map(len, head)) + len(said[at]) + 2
        while end < len(members) and size + len(said[end]) + 2 <= MAX_PIECE_CHARS:
            size += len(said[end]) + 2
            end += 1
        start, stop = _longest_run(members[at:end])
        yield EvidencePiece("; ".join([*head, *said[at:end]]).strip(), start, stop, prose=False)
        at = end


def _longest_run(members: Sequence[_Member]) -> tuple[int, int]:
    runs: dict[int, list[_Member]] = {}
    for member in members:
        runs.setdefault(member.run, []).append(member)
    longest = max(runs.values(), key=len)
    return longest[0].start, longest[-1].end
