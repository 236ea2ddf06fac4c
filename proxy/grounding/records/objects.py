"""JSON and JSON Lines in a text -> a table for the objects of each path, as `proxy.grounding.records.reading` has them.

Objects in a list are rows; an object within one is part of its row, a list of objects within one a table of its own, whose title names the
row it is of; objects by name ("users": {"bob": {…}}) are rows that have it in a column without a name. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from proxy.grounding.evidence.structured import Line
from proxy.grounding.records.cells import Row, Table
from proxy.offloop import each

MAX_ROWS = 600
"""A table of more is not read: what it says counts as text."""
MAX_COLUMNS = 60
_MAX_DEPTH = 12
_DECODER = json.JSONDecoder()


def read_json(text: str, lines: Sequence[Line], i: int) -> tuple[list[Table], int] | None:
    """JSON that begins with a line, with all lines of JSON that follow it."""
    values: list[tuple[Any, int, int]] = []
    k = i
    while k < len(lines):
        line, start = lines[k]
        begin = start + len(line) - len(line.lstrip())
        if line.lstrip()[:1] not in ("{", "["):
            break
        try:
            value, end = _DECODER.raw_decode(text, begin)
        except (ValueError, RecursionError):
            break
        if not isinstance(value, dict | list) or (isinstance(value, list) and not any(isinstance(one, dict | list) for one in value)):
            break
        values.append((value, begin, end))
        k += 1
        while k < len(lines) and lines[k][1] < end:
            k += 1
        while k < len(lines) and not lines[k][0].strip():
            k += 1
    if not values:
        return None
    walker = _Walker(text)
    whole: Any = [value for value, _, _ in values] if len(values) > 1 else values[0][0]
    walker.walk(whole, "", "", 0, values[0][1], values[-1][2])
    tables = walker.tables()
    for table in tables:
        table.start, table.end = values[0][1], values[-1][2]
    return tables, k


class _Walker:
    """Goes through a nested value, and makes a table of the objects of each path."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._found: dict[str, list[tuple[dict[str, str], int, int]]] = {}
        self._titles: dict[str, str] = {}

    def walk(self, value: Any, path: str, title: str, depth: int, start: int, end: int) -> None:
        """Objects at `path`, and what is in them."""
        if depth > _MAX_DEPTH:
            return
        if isinstance(value, list):
            for one in each(value):
                if isinstance(one, dict | list):
                    self.walk(one, path, title, depth + 1, start, end)
        elif isinstance(value, dict):
            self._object(value, path, title, depth, start, end)

    def _object(self, value: dict[Any, Any], path: str, title: str, depth: int, start: int, end: int) -> None:
        row: dict[str, str] = {}
        inner: list[tuple[str, Any]] = []
        self._flatten(value, "", row, inner, depth)
        if row and len(self._found.setdefault(path, [])) <= MAX_ROWS:
            first = next(iter(row.values()))
            place = self._text.find(first, max(self._at, start), end) if first else -1
            place = place if place >= 0 else max(self._at, start)
            self._at = place
            self._found[path].append((row, place, min(end, place + len(first))))
            self._titles.setdefault(path, title)
        name = " ".join(list(row.values())[:3]) if len(row) < 12 else ""
        for key, one in inner:
            if isinstance(one, dict):  # objects by name: the name is a value of theirs
                for which, member in one.items():
                    named = {"": str(which), **member} if isinstance(member, dict) else {"": str(which), key: member}
                    self.walk(named, f"{path}.{key}", f"{title} {key} {name}".strip(), depth + 1, start, end)
            else:
                self.walk(one, f"{path}.{key}", f"{title} {key} {name}".strip(), depth + 1, start, end)

    def _flatten(self, value: dict[Any, Any], prefix: str, row: dict[str, str], inner: list[tuple[str, Any]], depth: int) -> None:
        for key, one in each(value.items()):
            name = f"{prefix}{key}"
            if isinstance(one, dict):
                if _is_by_name(one):
                    inner.append((name, one))
                elif depth < _MAX_DEPTH:
                    self._flatten(one, f"{name} ", row, inner, depth + 1)
            elif isinstance(one, list) and any(isinstance(member, dict | list) for member in one):
                inner.append((name, one))
            elif len(row) < MAX_COLUMNS:
                row[name] = ", ".join(map(_shown, one)) if isinstance(one, list) else _shown(one)

    def tables(self) -> list[Table]:
        """A table of each path."""
        return [
            table_of([row for row, _, _ in rows], [(a, b) for _, a, b in rows], self._titles[path]) for path, rows in self._found.items()
        ]


def _is_by_name(value: dict[Any, Any]) -> bool:
    """Whether an object holds objects of one kind, each under its name."""
    members = list(value.values())
    if len(members) < 2:
        return False
    if all(isinstance(member, dict) and member for member in members):
        return len(set(members[0]) & set(members[1])) > 0 and any(not isinstance(v, dict | list) for v in members[0].values())
    return False


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value).strip()


def table_of(rows: Sequence[dict[str, str]], places: Sequence[tuple[int, int]], title: str, texts: Sequence[str] = ()) -> Table:
    """Rows of values by the names of their columns, as a table; `texts` is what each says beside."""
    names = list(dict.fromkeys(name for row in rows for name in row))[:MAX_COLUMNS]
    position = {name: i for i, name in enumerate(names)}
    found = [
        Row({position[k]: v for k, v in row.items() if k in position and v}, *place, texts[i] if texts else "")
        for i, (row, place) in enumerate(zip(rows, places, strict=True))
    ]
    return Table(names, found, title)
