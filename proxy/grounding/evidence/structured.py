"""Tables in a text -> pieces that say the names of columns ("Name: Ada; Born: 1815").

Tables are Markdown's, ``a | b | c``, tab-separated values, and lines of comma- or semicolon-separated values that look like one: as many
cells in each, under a row of names. JSON is in `json_pieces`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

_RULE = re.compile(r"[ \t]{0,8}\|?[ \t]{0,8}:?-{2,200}:?[ \t]{0,8}(?:\|[ \t]{0,8}:?-{1,200}:?[ \t]{0,8}){0,200}\|?[ \t]{0,8}")
_CELL = {
    mark: re.compile(rf'"(?:[^"]|"")*"|[^{re.escape(mark)}"][^{re.escape(mark)}]*|(?={re.escape(mark)})|$') for mark in (",", ";", "\t")
}
_ESCAPED_BAR = re.compile(r"(?<!\\)\|")
_MAX_NAME_CHARS = 40
_LONG_CHARS = 300
"""A longer cell is a text of its own."""
_MIN_ROWS = 2
"""Rows that comma-separated lines need under their names: fewer are prose with commas."""

Line = tuple[str, int]
"""A line's text and where it starts."""
Cell = tuple[str, int, int]
"""A cell's text, and where it starts and ends."""


def lines_of(text: str) -> list[Line]:
    """Its lines, without their ends."""
    found, at = [], 0
    for line in text.split("\n"):
        found.append((line, at))
        at += len(line) + 1
    return found


class Table(Struct, frozen=True):
    """How a table is written."""

    mark: str
    """What separates cells."""
    columns: int

    def has(self, line: str) -> bool:
        """Whether `line` is a row of it."""
        if self.mark not in line:
            return False
        if self.mark == "|":
            inner = line.strip()
            bars = inner.count("|") - inner.startswith("|") - inner.endswith("|")
            return abs(bars + 1 - self.columns) <= 1 or bool(_RULE.fullmatch(line))
        return len(cells(line, 0, self.mark)) == self.columns


def read(lines: Sequence[Line]) -> Table | None:
    """The table that begins with the first of two lines, if one does."""
    if len(lines) < 2:
        return None
    first, second = lines[0][0], lines[1][0]
    for mark in ("|", "\t", ";", ","):
        if mark not in first or mark not in second:
            continue
        table = Table(mark, len(cells(first, 0, mark)))
        wide = table.columns > (2 if mark in ";," else 1)
        if wide and table.has(second) and not (mark in ";," and not _names(first, mark)):
            return table
    return None


def cells(line: str, start: int, mark: str) -> list[Cell]:
    """The cells of a line that starts at `start`, stripped."""
    if mark == "|":
        inner = line.rstrip()
        stops = [match.start() for match in _ESCAPED_BAR.finditer(inner)]
        edges = [-1, *stops, len(inner)]
        found = [_cell(line, start, a + 1, b) for a, b in pairwise(edges)]
        if inner.lstrip().startswith("|"):
            found = found[1:]
        return found[:-1] if inner.endswith("|") and len(stops) > 1 else found
    found, at = [], 0
    while True:
        match = _CELL[mark].match(line, at)
        if match is None:
            return []
        found.append(_cell(line, start, at, match.end()))
        if match.end() >= len(line):
            return found
        if line[match.end()] != mark:
            return []
        at = match.end() + 1


def _cell(line: str, start: int, a: int, b: int) -> Cell:
    raw = line[a:b]
    a += len(raw) - len(raw.lstrip())
    text = raw.strip()
    shown = text[1:-1].replace('""', '"') if len(text) > 1 and text[0] == text[-1] == '"' else text
    return shown, start + a, start + a + len(text)


def _names(line: str, mark: str) -> bool:
    """Whether a line holds the names of columns: short, each another, no numbers, no sentence."""
    names = [name for name, _, _ in cells(line, 0, mark)]
    short = all(name and len(name) <= _MAX_NAME_CHARS and not name[0].isdigit() for name in names)
    return short and len(set(names)) == len(names) and not names[-1].endswith((".", "!", "?", ":"))


def rows(table: Table, lines: Sequence[Line]) -> list[EvidencePiece]:
    """A piece for each row, more for a long one; none where the lines turn out to be prose."""
    ruled = table.mark == "|" and len(lines) > 1 and _RULE.fullmatch(lines[1][0]) is not None
    named = ruled or (table.columns > 2 and _names(lines[0][0], table.mark))
    if table.mark in ";," and len(lines) <= _MIN_ROWS:
        return []
    names = [name for name, _, _ in cells(*lines[0], table.mark)] if named else []
    found: list[EvidencePiece] = []
    for line in lines[1:] if named else lines:
        if table.mark != "|" or not _RULE.fullmatch(line[0]):
            found += _row(cells(*line, table.mark), names)
    return found


def _row(cells: Sequence[Cell], names: Sequence[str]) -> Iterator[EvidencePiece]:
    """The row in pieces of at most `MAX_PIECE_CHARS`, each of which begins with the row's first cell."""
    if len(cells) == 2 and not names and cells[0][0] and 0 < len(cells[1][0]) <= _LONG_CHARS:  # "Born | 1815": the first cell is the name
        yield _piece([f"{cells[0][0]}: {cells[1][0]}"], cells[0], cells[1])
        return
    filled = [(_cell_text(i, cell, names), cell) for i, cell in enumerate(cells) if cell[0]]
    head = filled[0][0] if filled else ""
    group: list[str] = []
    first = last = cells[0] if cells else ("", 0, 0)
    for said, cell in filled:
        if len(cell[0]) > _LONG_CHARS:
            if group:
                yield _piece(group, first, last)
            yield from _long(said[: -len(cell[0])], cell, head if said != head else "")
            group = []
            continue
        if group and sum(map(len, group)) + 2 * len(group) + len(said) > MAX_PIECE_CHARS:
            yield _piece(group, first, last)
            group = [head[: MAX_PIECE_CHARS // 3]]
            first = cell
        elif not group:
            first = cell
        group.append(said)
        last = cell
    if group:
        yield _piece(group, first, last)


def _long(name: str, cell: Cell, head: str) -> Iterator[EvidencePiece]:
    """A cell that is a text of its own, in pieces; the first says which row and column it is of."""
    text, start, end = cell
    quote = (end - start - len(text)) // 2
    if end - start - len(text) > 2:  # doubled quotes: its places cannot be told from the text
        yield EvidencePiece(f"{name}{text}"[:MAX_PIECE_CHARS], start, end, prose=False)
        return
    begin = f"{head[:_MAX_NAME_CHARS]}; {name}" if head else name
    for i, piece in enumerate(limited(text, 0, len(text))):
        shown = piece.shown if i else begin + piece.shown
        yield EvidencePiece(shown, start + quote + piece.start, start + quote + piece.end, prose=False)


def _cell_text(i: int, cell: Cell, names: Sequence[str]) -> str:
    return f"{names[i]}: {cell[0]}" if i < len(names) and names[i] else cell[0]


def _piece(said: Sequence[str], first: Cell, last: Cell) -> EvidencePiece:
    return EvidencePiece("; ".join(said)[:MAX_PIECE_CHARS], first[1], last[2], prose=False)


# ---- pieces ----


MAX_PIECE_CHARS = 400
"""A longer sentence, row or value is cut, so that a claim's evidence (`retrieval.EVIDENCE_CHARS`) has room for another beside it."""
_BREAKS = ("; ", ", ", " ")
"""Where a long sentence is cut, the best mark first."""
_HEADING = re.compile(r"#{1,6}[ \t]+\S[^\n]{0,200}|\*\*[^*\n]{1,120}\*\*:?")


class EvidencePiece(Struct, frozen=True):
    """A piece of a text."""

    shown: str
    """What is searched and judged: the piece itself, or a row or object with the names of its columns or fields."""
    start: int
    end: int
    """``text[start:end]`` is where it stands."""
    prose: bool = True
    """Whether `shown` is the text as it stands."""
    opinion: bool = False
    """Whether it is what a user says of something that is not their own: an answer may know better."""
    pasted: bool = False
    """Whether it is material in a user's or the system's message: a note, a list, a table, a quotation, a text."""


def is_heading(shown: str) -> bool:
    """Whether a piece is a heading in Markdown, for what follows it."""
    return _HEADING.fullmatch(shown) is not None


def limited(text: str, start: int, end: int) -> list[EvidencePiece]:
    """``text[start:end]`` without the white space around it, in pieces of at most `MAX_PIECE_CHARS`; none for white space."""
    found = []
    while True:
        inner = text[start:end]
        start += len(inner) - len(inner.lstrip())
        end = start + len(inner.strip())
        if end - start <= MAX_PIECE_CHARS:
            break
        stop = _break(text, start, start + MAX_PIECE_CHARS)
        shown = text[start:stop].rstrip()
        found.append(EvidencePiece(shown, start, start + len(shown)))
        start = stop
    return [*found, EvidencePiece(text[start:end], start, end)] if end > start else found


def _break(text: str, start: int, end: int) -> int:
    """Where to cut before `end`: behind the last good mark in the second half, or hard."""
    for mark in _BREAKS:
        at = text.rfind(mark, start + MAX_PIECE_CHARS // 2, end)
        if at >= 0:
            return at + len(mark)
    return end
