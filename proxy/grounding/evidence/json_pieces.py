"""JSON in a text -> pieces that say its fields ("order.status: shipped").

Of JSON, one value or one a line, perhaps behind a label or among prose, and of dictionaries as Python prints them, an object is a piece:
its span is the longest run of its members that no other object interrupts; a list of plain values is one value; a long string is a text of
its own, placed in the literal. Pure.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

import orjson
from msgspec import Struct

from proxy.grounding.evidence.structured import MAX_PIECE_CHARS, EvidencePiece, Line
from proxy.language.json.strings import JsonNode, nodes_of

_OPENING = re.compile(r"(?:(?P<label>[^\s{}\[\]][^{}\[\]\n]{0,79}?)[:=][ \t]{0,8})?(?P<value>\{|\[\s{0,64}[{\[])")
"""An object or a list of them, perhaps behind its label: "Order 17: {…}"."""
_DECODER = json.JSONDecoder()
_BROKEN_CHARS = 100_000
"""What may be read of JSON that turns out to be broken: each of its lines can begin another try."""


_PYTHON = re.compile(r"^[^{}\[\]\n\"']{0,80}\[?\{'.*$", re.M)
_PYTHON_PART = re.compile(r"'(?P<string>[^'\\\"\n]*)'|\"[^\"\\\n]*\"|\b(?:True|False|None)\b")
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


def as_json(text: str) -> str:
    """`text` with dictionaries as Python prints them, which tools often give, written as JSON; each character keeps its place."""
    return _PYTHON.sub(lambda line: _PYTHON_PART.sub(_json_part, line[0]), text) if "{'" in text else text


def _json_part(part: re.Match[str]) -> str:
    return f'"{part["string"]}"' if part["string"] is not None else _PYTHON_WORDS.get(part[0], part[0])


class JsonAt(Struct, frozen=True):
    """A JSON value among lines."""

    label: str
    start: int
    end: int


class JsonFinder:
    """JSON among the lines of a text."""

    def __init__(self, text: str) -> None:
        self.text = as_json(text)
        self._left = _BROKEN_CHARS

    def at(self, line: Line) -> JsonAt | None:
        """The object or list of such that a line begins with, or has behind a label; None where something else follows it, too."""
        said, start = line
        opening = _OPENING.match(self.text, start + len(said) - len(said.lstrip())) if self._left > 0 else None
        if opening is None:
            return None
        begin = opening.start("value")
        try:
            end = _DECODER.raw_decode(self.text, begin)[1]
        except json.JSONDecodeError as error:
            self._left -= error.pos - begin
            return None
        except (ValueError, RecursionError):  # a number of thousands of digits, or too deep
            self._left -= _BROKEN_CHARS // 8
            return None
        stop = self.text.find("\n", end)
        behind = self.text[end : stop if stop >= 0 else len(self.text)]
        return JsonAt((opening["label"] or "").strip(" \t\"'*-"), begin, end) if behind.strip() in ("", ",", ";", ".") else None


_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.", re.S)
_WORDS = re.compile(r"(?<=[a-zà-ÿ0-9])(?=[A-Z])|[_-]+")
LONG_STRING_CHARS = 160
"""A longer string, or one of several lines, is a text and no value."""

Cut = Callable[[str], list[EvidencePiece]]


class _Member(Struct, frozen=True):
    """A plain value of an object."""

    text: str
    start: int
    end: int
    run: int
    """Members of one run follow each other without another object between them."""


def cut_json(text: str, inner: Cut, apart: Sequence[str] = (), name: str = "") -> list[EvidencePiece] | None:
    """The pieces of a text that is JSON, `name` before their fields; None for any other text. Strings in `apart` are left out; `inner` cuts
    long strings."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    text = as_json(text)
    nodes = nodes_of(text) if _valid(text) else None
    if nodes is None:
        return None
    cutter = _JsonCutter(text, inner, apart)
    for node in nodes:
        cutter.value(node, name)
    return sorted(cutter.found, key=lambda piece: piece.start)


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


class _JsonCutter:
    """Collects the pieces of values."""

    def __init__(self, text: str, inner: Cut, apart: Sequence[str]) -> None:
        self._text, self._inner = text, inner
        self._apart = frozenset(other.strip() for other in apart)
        self.found: list[EvidencePiece] = []

    def value(self, node: JsonNode, name: str) -> str:
        """What a plain value says; "" for one that is in `found` already, or says nothing."""
        if node.kind == "object" and node.children:
            members = [
                _Member(f"{key}: {said}", start, child.end, run)
                for key, start, child, said, run in self._children(node, lambda raw: _WORDS.sub(" ", str(raw)), name)
            ]
            self.found += _of_members(name, members)
        if node.kind == "object":
            return ""
        if node.kind == "list":
            return self._list(node, name)
        return self._string(node) if node.kind == "string" else node.text

    def _children(self, node: JsonNode, key_of: Callable[[str | int], str], name: str) -> list[tuple[str, int, JsonNode, str, int]]:
        """Those that say something, each with its key, where it begins, what it says, and the run that it is of."""
        said, run = list[tuple[str, int, JsonNode, str, int]](), 0
        for raw, start, child in node.children:
            key, before = key_of(raw), len(self.found)
            text = self.value(child, key or name)
            run += len(self.found) > before
            if text.strip():
                said.append((key, start, child, text, run))
        return said

    def _string(self, node: JsonNode) -> str:
        value = node.text
        if value.strip() in self._apart:
            return ""
        if len(value) <= LONG_STRING_CHARS and "\n" not in value.strip() and value.lstrip()[:1] not in ("{", "["):
            return value
        place = places(self._text[node.start : node.end])
        for piece in self._inner(value):
            self.found.append(EvidencePiece(piece.shown, node.start + place(piece.start), node.start + place(piece.end), prose=False))
        return ""

    def _list(self, node: JsonNode, name: str) -> str:
        """A list of plain values is one value; the others' plain values stand alone."""
        first = len(self.found)
        values = [_Member(said, start, child.end, run) for _, start, child, said, run in self._children(node, lambda _: "", name)]
        nested = any(child.kind in ("object", "list") for _, _, child in node.children)
        if name and not nested and len(self.found) == first and sum(len(value.text) + 2 for value in values) <= MAX_PIECE_CHARS // 2:
            return ", ".join(value.text for value in values)
        self.found += _of_members("", _of_list(name, values))
        return ""


def _of_list(name: str, values: Sequence[_Member]) -> list[_Member]:
    """The plain values of a list that has too many of them, or others too: the name once, then the values."""
    return [_Member(f"{name}: {v.text}" if name and not i else v.text, v.start, v.end, v.run) for i, v in enumerate(values)]


def places(literal: str) -> Callable[[int], int]:
    """From an offset in a string to the offset in its literal."""
    ends, shifts, shift = [0], [1], 1
    for match in _ESCAPE.finditer(literal):
        written, meant = len(match[0]), 1
        ends.append(match.end() - (shift + written - meant))
        shift += written - meant
        shifts.append(shift)
    return lambda at: at + shifts[bisect_right(ends, at) - 1]


def _of_members(name: str, members: Sequence[_Member]) -> Iterator[EvidencePiece]:
    """The members as pieces of at most `MAX_PIECE_CHARS`; those behind the first begin with the object's first member, as its name."""
    prefix = f"{name}." if name else ""
    said = [f"{prefix}{member.text}"[:MAX_PIECE_CHARS] for member in members]
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
