"""A text -> the tables in it: Markdown and ASCII tables, CSV and TSV, aligned columns, SQL results, JSON and JSON Lines, YAML, forms and
other lines of "name: value", mail headers, calendar entries, lists under headings, log lines.

In: a text of the context. Out: `Table`s, each row with its place. What is none of these is prose, and left to others. Pure; one pass over
the lines for each kind, bounded by `MAX_CHARS` and `MAX_ROWS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from proxy.grounding.evidence import structured as delimited
from proxy.grounding.evidence.json_pieces import JsonFinder
from proxy.grounding.evidence.structured import Line
from proxy.grounding.records.cells import Row, Table
from proxy.grounding.records.objects import MAX_COLUMNS, MAX_ROWS, read_json, table_of
from proxy.language.lru import LRU
from proxy.offloop import each

STAMP = "time"
"""The column of what a line of a log begins with."""
MAX_CHARS = 120_000
_RULE = re.compile(r"[ \t|+:]*[-=]{2,}[-=+|: \t]*")
_GAP = re.compile(r"[ ]{2,}|\t+")
_LABEL = re.compile(
    r"[ \t]*(?:[-*•+–][ \t]+|\d{1,2}[.)][ \t]+)?(?:\*\*|\")?"
    r"(?:(?P<label>[^\W_][^:=|\"\n]{0,38}?)(?:\*\*|\")?(?:[ \t]*[:=][ \t]+|[ \t]*\.{3,}[ \t]*)"
    r"|(?P<key>[A-Z][A-Z-]{2,20}(?:;[^:\n]{1,40})?):(?=\S)|(?P<setting>[\w.-]{2,40})=(?=\S))(?:\*\*)?[ \t]*(?P<value>\S.*)"
)
"""``Label: value``, ``KEY:value``, ``setting=value``, with the mark of a list's item before it."""
_PAIR = re.compile(r"(?<![\w/])(?P<key>[A-Za-zÀ-ÿ][\w.-]{0,40})[=](?P<value>\"[^\"]{0,200}\"|[^\s,;\"]+)")
_SEGMENT = re.compile(r"(?:^|[,;] |\] )(?P<key>[^\W\d_][\w ]{1,24}?)(?:: |(?: (?=[-+]?\d)))(?P<value>[^:;]{1,40}?)(?=[,;] |$)")
_LOG_LINE = re.compile(r"[ \t]*[\[(]?(?:\d{4}-\d\d-\d\d|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d\d:\d\d:\d\d|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d)")
_STAMP = re.compile(r"[ \t]*[\[(]?(?:[\d./-]{0,10}[T ]?|[A-Z][a-z]{2} {1,2}\d{1,2} )\d\d:\d\d(?::\d\d)?")
_HEADING = re.compile(r"(?:#{1,6}\s+|\*\*)?(?P<name>[^|=]{2,70}?)(?:\*\*)?:?\s*")
_SENTENCE = re.compile(r"[.!?]\s|[.!?]$")
_IS_VALUE = re.compile(r"[\[(]?[-+]?\d[\d.,:/]*[a-z%]{0,3}[\])]?$|\d{4}-\d\d")
_PROSE = re.compile(r"[^\W\d]{2}[\"')\]]?[.!?;](?:\s+[^\W\d_a-z]|$)")
_FIELD = re.compile(r"\"[^\"]*\"|\[[^\]]*\]|\S+")
_NUMBERED_LINES = re.compile(r"\s*?(\d+)\t[^\n]*\n\s*?(\d+)\t")
_MAPPING = re.compile(r"[ \t]*(?:-[ \t]+)?(?:(?P<name>[^\s:{}#-][^:{}]{0,60}):[ \t]+)?\{(?P<inside>[^{}]{3,400})\}[ \t]*,?[ \t]*(?:#.*)?")
_ITEM = re.compile(r"[ \t]*(?:[-*•][ \t]+)?(?:\*\*)?(?P<name>[^:|{}=]{1,60}?)(?:\*\*)?:(?:\*\*)?[ \t]+(?P<said>[^|{}=;]{3,400})")
_BETWEEN_COMMAS = re.compile(r"(?:[^,\"]|\"[^\"]*\")+")
_cache: LRU[tuple[Table, ...]] = LRU(2_000_000, lambda tables: 500 + 200 * sum(len(table.rows) for table in tables))


def read(text: str) -> tuple[Table, ...]:
    """The tables of `text`, in order; read once for all turns."""
    key = (hash(text), len(text))
    found = _cache.get(key)
    if found is None:
        found = tuple(_read(text[:MAX_CHARS]))
        _cache.put(key, found)
    return found


def _is_listing(text: str) -> bool:
    """Whether it is a file as tools show it, a number before each line: those are no cells."""
    first = _NUMBERED_LINES.match(text)
    return first is not None and int(first[2]) == int(first[1]) + 1


def _read(text: str) -> Iterator[Table]:
    if _is_listing(text):
        return
    lines = [(line.rstrip("\r"), start) for line, start in delimited.lines_of(text)]
    rest: list[Line] = []
    finder = JsonFinder(text)
    i = 0
    while i < len(lines):
        begins = "{" in lines[i][0] or "[" in lines[i][0]
        found = (
            (read_json(lines, i, finder) if begins else None)
            or _mappings_at(lines, i)
            or _described_at(lines, i)
            or _delimited_at(lines, i)
            or _aligned_at(lines, i)
        )
        if found is None:
            rest.append(lines[i])
            i += 1
            continue
        tables, after = found
        title = _title(lines, i)
        for table in tables:
            table.title = f"{title} {table.title}".strip()
        yield from tables
        rest.append(("", lines[i][1]))
        i = after
    yield from _of_lines(rest)


def _title(lines: Sequence[Line], i: int) -> str:
    """The line over a table."""
    for line, _ in reversed(lines[max(0, i - 2) : i]):
        if line.strip() and not _RULE.fullmatch(line):
            return line.strip()[:120]
    return ""


# ---- tables in lines ----


def _mappings_at(lines: Sequence[Line], i: int) -> tuple[list[Table], int] | None:
    """YAML's mappings in braces, one a line from a line on, each under its name or as an item: "monday: {early: Ruiz, late: Okafor}"."""
    rows: list[dict[str, str]] = []
    places: list[tuple[int, int]] = []
    for line, start in each(lines[i : i + MAX_ROWS]):
        match = _MAPPING.fullmatch(line)
        pairs = [pair.partition(": ") for pair in _BETWEEN_COMMAS.findall(match["inside"])] if match is not None else []
        if match is None or not all(mark for _, mark, _ in pairs):
            break
        values = {key.strip(" \t\"'"): value.strip(" \t\"'") for key, _, value in pairs[:MAX_COLUMNS]}
        rows.append({"": match["name"].strip(" \t\"'"), **values} if match["name"] else values)
        places.append((start, start + len(line)))
    return ([table_of(rows, places, "")], i + len(rows)) if len(rows) > 1 else None


def _described_at(lines: Sequence[Line], i: int) -> tuple[list[Table], int] | None:
    """Items of which each says the same of another thing: "- Ward 5C: beds 13, rounds 10:10" and "- Ward 4A: beds 27, rounds 09:00".

    The words that parts at one place begin with in all lines are the column's name. The first line without them ends the table.
    """
    found: list[tuple[str, list[list[str]], int, int]] = []
    names: list[list[str]] = []
    for line, start in each(lines[i : i + MAX_ROWS]):
        match = _ITEM.fullmatch(line)
        parts = [part.split() for part in match["said"].rstrip(".").split(", ")] if match is not None else []
        if match is None or not 1 < len(parts) <= MAX_COLUMNS or not all(parts) or (names and len(parts) != len(names)):
            break
        shared = [_shared(name, part) for name, part in zip(names, parts, strict=True)] if names else [part[:-1] for part in parts]
        if not all(shared) or len({*map(tuple, shared)}) < len(shared):
            break
        names = shared
        found.append((match["name"], parts, start, start + len(line)))
    if len(found) < 2:
        return None
    rows = [{"": title, **{" ".join(n): " ".join(p[len(n) :]) for n, p in zip(names, parts, strict=True)}} for title, parts, _, _ in found]
    return [table_of(rows, [(start, end) for _, _, start, end in found], "")], i + len(found)


def _shared(name: Sequence[str], part: Sequence[str]) -> list[str]:
    """The words that both begin with, a word left of the part."""
    most = min(len(name), len(part) - 1)
    return list(name[: next((k for k in range(most) if name[k] != part[k]), most)])


def _delimited_at(lines: Sequence[Line], i: int) -> tuple[list[Table], int] | None:
    """A table with marks between its cells that begins with a line, or with a rule above it."""
    table = delimited.read(lines[i : i + 4])
    if table is None:
        return None
    end = next((k for k in range(i, len(lines)) if not (table.has(lines[k][0]) or _is_frame(lines[k][0]))), len(lines))
    kept = [line for line in lines[i:end] if not _is_frame(line[0])]
    if table.mark in ";," and len(kept) < 3:
        return None
    rows = [delimited.cells(*line, table.mark) for line in kept]
    names = [name for name, _, _ in rows[0]]
    if table.mark == "|" and sum(": " in text for cells in rows for text, _, _ in cells) * 2 > sum(map(len, rows)):
        return [_of_named_cells(rows)], end
    return [_of_cells(names, rows[1:])], end


def _of_named_cells(rows: Sequence[Sequence[tuple[str, int, int]]]) -> Table:
    """Rows that name each of their values: "Task: filter | Risk: low"."""
    found: list[dict[str, str]] = []
    for cells in each(rows):
        row: dict[str, str] = {}
        for text, _, _ in cells:
            label, mark, value = text.lstrip("-*• ").partition(": ")
            row[label if mark else ""] = value if mark else label
        found.append(row)
    return table_of(found, [(cells[0][1], cells[-1][2]) for cells in rows], "")


def _is_frame(line: str) -> bool:
    return _RULE.fullmatch(line) is not None


def _of_cells(names: Sequence[str], rows: Sequence[Sequence[tuple[str, int, int]]]) -> Table:
    found = []
    for cells in each(rows):
        filled = [cell for cell in cells if cell[0]]
        if filled:
            values = {c: cell[0] for c, cell in enumerate(cells[: len(names)]) if cell[0] and c < MAX_COLUMNS}
            found.append(Row(values, filled[0][1], filled[-1][2]))
    return Table(names[:MAX_COLUMNS], found)


def _aligned_at(lines: Sequence[Line], i: int) -> tuple[list[Table], int] | None:
    """Columns that are aligned with spaces, under their names."""
    head = lines[i][0]
    if len(_GAP.split(head.strip())) < 2 or _LOG_LINE.match(head) or i + 1 >= len(lines) or head[:1].isspace():
        return None
    ruled = _RULE.fullmatch(lines[i + 1][0]) is not None and lines[i + 1][0].strip(" -=") == ""
    first = i + 2 if ruled else i + 1
    end = first
    while end < len(lines) and lines[end][0].strip() and len(_GAP.split(lines[end][0].strip())) > 1:
        end += 1
    body = lines[first:end]
    if not body or (len(body) < 2 and not ruled):
        return None
    starts = [match.start() for match in re.finditer(r"\S+" if ruled else r"\S+(?: \S+)*", lines[i + 1][0] if ruled else head)]
    if len(starts) < 2:
        return None
    names = [head[a:b].strip() for a, b in pairwise([*starts, None])]
    rows = list(delimited.aligned_rows(body, starts))
    if len(rows) < len(body):
        return None
    alike = [all(any(map(str.isdigit, cells[c][0])) for cells in rows if c < len(cells)) for c in range(len(names))]
    timed = any(":" in name and any(map(str.isdigit, name)) and alike[c] for c, name in enumerate(names))
    if timed or any(_IS_VALUE.match(name) for name in names):  # a line like the others, and not their names
        return ([_of_cells([""] * len(names), [_chunks(*lines[i]), *rows])], end) if len(names) == len(rows[0]) else None
    if any(len(name) > 40 or _SENTENCE.search(name) for name in names) or sum(name[:1].isdigit() for name in names) * 2 > len(names):
        return None
    return [_of_cells(names, rows)], end


def _chunks(line: str, start: int) -> list[tuple[str, int, int]]:
    found, at = [], 0
    for chunk in _GAP.split(line.strip()):
        at = line.index(chunk, at)
        found.append((chunk, start + at, start + at + len(chunk)))
        at += len(chunk)
    return found


# ---- lines that name their values ----


def _of_lines(lines: Sequence[Line]) -> Iterator[Table]:
    """Forms, headers, nested settings and lists under headings; then logs and other lines that stand under each other."""
    sections: list[_Section] = [_Section("")]
    free: list[Line] = []
    previous = ""
    for line, start in each(lines):
        stripped = line.strip()
        if not stripped:
            previous = ""
            continue
        if stripped.startswith(("BEGIN:", "END:")):
            if stripped.startswith("BEGIN:"):
                sections.append(_Section(stripped[6:]))
            continue
        pair = None if _LOG_LINE.match(line) else _LABEL.match(line)
        label = (pair["label"] or pair["key"] or pair["setting"]).strip() if pair is not None else ""
        if pair is not None and len(label.split()) <= 6:
            if previous and free and _heading(free[-1][0].strip()) == previous:
                free.pop()
            indent = len(line) - len(line.lstrip())
            if previous and not sections[-1].row:
                sections[-1] = _Section(sections[-1].name, previous, indent)
            elif previous:
                sections.append(_Section(sections[-1].parent, previous, indent))
            elif label in sections[-1].row and (stripped.startswith("- ") or sections[-1].begins_again(label)):  # the next of its kind
                sections.append(_Section(sections[-1].parent, sections[-1].name, indent))
            elif indent < sections[-1].indent and sections[-1].row:
                sections.append(_Section("", "", indent))
            sections[-1].add(label, pair["value"].strip().strip('"'), start, start + len(line), stripped)
            previous = ""
        else:
            previous = _heading(stripped)
            if previous and stripped.startswith("#") and not stripped.startswith("##"):
                sections.append(_Section(previous))
                previous = ""
            free.append((line, start))
    filled = [section for section in sections if section.row]
    if filled:
        rows = [({"": section.title, **section.row} if section.title else section.row) for section in filled]
        texts = [" ".join([section.title, *section.lines]) for section in filled]
        yield table_of(rows, [(section.start, section.end) for section in filled], sections[0].name, texts)
    yield from _of_free(free)


def _heading(line: str) -> str:
    """The name that a line gives to what follows it, or ""."""
    match = _HEADING.fullmatch(line)
    if match is None or (_SENTENCE.search(line) and not line.startswith("#")) or len(line.split()) > 9:
        return ""
    return match["name"].strip(" -–*")


class _Section:
    """Names with their values under one heading."""

    def __init__(self, parent: str, name: str = "", indent: int = 0) -> None:
        self.parent, self.name, self.indent = parent, name, indent
        self.row: dict[str, str] = {}
        self.lines: list[str] = []
        self.start = self.end = -1

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.parent} {self.name}".strip()

    def begins_again(self, label: str) -> bool:
        """Whether it has several names, and `label` is the first of them: a form is filled in once more."""
        return len(self.row) > 1 and label == next(iter(self.row))

    def add(self, label: str, value: str, start: int, end: int, line: str) -> None:
        """One more value; of two under one name both count."""
        if len(self.row) < MAX_COLUMNS:
            self.row[label] = f"{self.row[label]}, {value}" if label in self.row else value
        self.lines.append(line)
        self.start = start if self.start < 0 else self.start
        self.end = end


def _of_free(lines: Sequence[Line]) -> Iterator[Table]:
    """Lines of a log, with the values that they name; and lines of as many words each, whose columns have no name."""
    stamped = [line for line in lines if _LOG_LINE.match(line[0])]
    if len(stamped) > 1:
        rows = [{"": line.strip(), STAMP: _stamp(line), **_named_fields(line)} for line, _ in stamped[: MAX_ROWS + 1]]
        yield table_of(rows, [(start, start + len(line)) for line, start in stamped[: MAX_ROWS + 1]], "")
    others = [
        line for line in lines if not _LOG_LINE.match(line[0]) and not _is_prose(line[0].strip()) and not line[0].rstrip().endswith(":")
    ]
    if len(others) > 1:
        yield _table_without_names(others[: MAX_ROWS + 1])


def _is_prose(line: str) -> bool:
    return _PROSE.search(line) is not None and _GAP.search(line) is None


def _table_without_names(lines: Sequence[Line]) -> Table:
    """Lines under each other: of as many fields each, a column for each, else one for all that they say."""
    fields = [_FIELD.findall(line) for line, _ in lines]
    width = len(fields[0]) if all(len(found) == len(fields[0]) for found in fields) and len(fields[0]) > 2 else 0
    columns = [""] * (1 + width)
    rows = []
    for (line, start), found in zip(lines, fields, strict=True):
        values = {0: line.strip(), **{i + 1: field.strip('"[]') for i, field in enumerate(found[:width])}}
        rows.append(Row(values, start, start + len(line)))
    return Table(columns, rows)


def _stamp(line: str) -> str:
    """The date and time that a line of a log begins with."""
    match = _STAMP.match(line)
    return match[0].strip(" []()") if match is not None else ""


def _named_fields(line: str) -> dict[str, str]:
    """``job=backup state=failed`` and "Status: on, pressure 4.2 bar"."""
    pairs = [(m["key"], m["value"].strip('"')) for m in _PAIR.finditer(line)][:MAX_COLUMNS]
    if not pairs:
        after = _LOG_LINE.sub("", line, count=1)
        pairs = [(m["key"].strip(), m["value"].strip()) for m in _SEGMENT.finditer(after.strip())][:MAX_COLUMNS]
    return {key: value for key, value in pairs if value}
