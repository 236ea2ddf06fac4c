"""Tables in a text -> pieces that say the names of columns ("Name: Ada; Born: 1815").

Tables are Markdown's, ``a | b | c``, those that databases and command lines draw (with ``+---+`` or lines of boxes, or as columns that
spaces align), tab-separated values, and lines of comma- or semicolon-separated values that look like one: as many cells in each, under a
row of names. JSON is in `json_pieces`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec import Struct

_RULE = re.compile(r"[ \t]{0,8}[|+]?[ \t]{0,8}:?[-=]{2,200}:?[ \t]{0,8}(?:[|+][ \t]{0,8}:?[-=]{1,200}:?[ \t]{0,8}){0,200}[|+]?[ \t]{0,8}")
_BOXES = str.maketrans({chr(c): "+" for c in range(0x2500, 0x2580)} | dict.fromkeys("─━╌┄═", "-") | dict.fromkeys("│┃║", "|"))
_WORD = re.compile(r"\S+")
_CHUNK = re.compile(r"\S+(?:[^\S\t]\S+)*")
"""Words with one space between them."""
_IS_NAME = re.compile(r"#|[%(]?[^\W\d_][^=:;{}<>\"`]{0,39}")
_FIGURE = re.compile(r"\d")
_CELL = {
    mark: re.compile(rf'"(?:[^"]|"")*"|[^{re.escape(mark)}"][^{re.escape(mark)}]*|(?={re.escape(mark)})|$') for mark in (",", ";", "\t")
}
_ESCAPED_BAR = re.compile(r"(?<!\\)\|")
_MAX_NAME_CHARS = 40
_LONG_CHARS = 300
"""A longer cell is a text of its own."""
_MIN_ROWS = 2
"""Rows that lines without rules need under their names: fewer are prose with commas or gaps."""
_SAMPLED = 4
"""Rows by which is told whether what stands over them are names: each line of a text without any is asked."""
_MAX_HEAD_CHARS = 1000

Line = tuple[str, int]
"""A line's text and where it starts."""
Cell = tuple[str, int, int]
"""A cell's text, and where it starts and ends."""


def lines_of(text: str) -> list[Line]:
    """Its lines, without their ends; what is drawn with lines of boxes stands in ``|``, ``-`` and ``+``."""
    found, at = [], 0
    for line in (text.translate(_BOXES) if "─" in text or "│" in text or "━" in text or "║" in text else text).split("\n"):
        found.append((line, at))
        at += len(line) + 1
    return found


class Table(Struct, frozen=True):
    """How a table is written."""

    mark: str
    """What separates cells."""
    columns: int

    def has(self, line: str) -> bool:
        """Whether `line` is a row of it, or a rule."""
        if self.mark == "|":
            inner = line.strip()
            bars = inner.count("|") - inner.startswith("|") - inner.endswith("|")
            return ("|" in line and abs(bars + 1 - self.columns) <= 1) or _is_rule(line)
        return self.mark in line and len(cells(line, 0, self.mark)) == self.columns


def _is_rule(line: str) -> bool:
    return ("|" in line or "+" in line) and _RULE.fullmatch(line) is not None


def read(lines: Sequence[Line]) -> Table | None:
    """The table that begins with the first of a few lines, if one does; rules around its names are passed over."""
    plain = [line for line, _ in lines[:4] if not _is_rule(line)]
    if len(plain) < 2:
        return None
    first, second = plain[:2]
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
    plain = [line for line in lines if table.mark != "|" or not _is_rule(line[0])]
    ruled = any(a is plain[0] and _is_rule(b[0]) for a, b in pairwise(lines)) and table.mark == "|"
    named = ruled or (table.columns > 2 and _names(plain[0][0], table.mark))
    if table.mark in ";," and len(plain) <= _MIN_ROWS:
        return []
    names = [name for name, _, _ in cells(*plain[0], table.mark)] if named else []
    return [piece for line in plain[named:] for piece in _row(cells(*line, table.mark), names)]


def aligned(lines: Sequence[Line], i: int) -> tuple[list[EvidencePiece], int]:
    """The rows of columns that spaces align under their names, from line `i` on, and the line behind them; none, and `i`.

    Values stand where their names begin, or are as many as the names. What stands over them are names if they are underlined or in
    capitals, or if they are three and more without a figure, under one of which there are figures alone.
    """
    head = lines[i][0]
    chunks = list(_CHUNK.finditer(head)) if len(head) < _MAX_HEAD_CHARS else []
    if len(chunks) < 2 or chunks[0].start() or not all(_IS_NAME.fullmatch(chunk[0]) for chunk in chunks):
        return [], i
    names, starts = [chunk[0] for chunk in chunks], [chunk.start() for chunk in chunks]
    under = lines[i + 1][0] if i + 1 < len(lines) else ""
    ruled = bool(under.strip()) and not under.strip(" -=")
    if ruled and " " in under.strip():
        starts = [match.start() for match in _WORD.finditer(under)]
        names = [head[a:b].strip() for a, b in pairwise([*starts, None])]
    first = i + 1 + ruled
    sample = list(aligned_rows(lines[first : first + _SAMPLED], starts))
    if len(sample) < (1 if ruled else _MIN_ROWS):
        return [], i
    columns = list(zip(names, zip(*([text for text, _, _ in row] for row in sample), strict=True), strict=True))
    counted = len(names) > 2 and not _FIGURE.search(head) and any(all(map(_FIGURE.search, said)) for _, said in columns)
    if any(name in said for name, said in columns if name) or not (ruled or head.isupper() or counted):
        return [], i
    found = list(aligned_rows((lines[k] for k in range(first, len(lines))), starts))
    return [piece for row in found for piece in _row(row, names)], first + len(found)


def aligned_rows(lines: Iterable[Line], starts: Sequence[int]) -> Iterator[list[Cell]]:
    """The cells of each line, which stand where columns start or are as many, up to the first line that is no row."""
    for line, start in lines:
        chunks = list(_CHUNK.finditer(line))
        if len(chunks) < 2 or not line[: starts[1]].strip() or not line.strip(" -="):
            return
        if all(a >= len(line) or line[a - 1].isspace() for a in starts[1:]):
            yield [_cell(line, start, a, b) for a, b in pairwise([*starts, max(len(line), starts[-1])])]
        elif len(chunks) == len(starts):
            yield [_cell(line, start, *chunk.span()) for chunk in chunks]
        else:
            return


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
