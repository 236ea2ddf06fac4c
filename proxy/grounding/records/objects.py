"""JSON and JSON Lines in a text -> a table for the objects of each path, as `proxy.grounding.records.reading` has them.

Objects in a list are rows; an object within one is part of its row, a list of objects within one a table of its own, whose title names the
row it is of; objects by name ("users": {"bob": {…}}) are rows that have it in a column without a name. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from proxy.grounding.evidence.json_pieces import JsonFinder
from proxy.grounding.evidence.structured import Line
from proxy.grounding.records.cells import Row, Table
from proxy.language.json.strings import JsonNode, nodes_of
from proxy.offloop import each

MAX_ROWS = 600
"""A table of more is not read: what it says counts as text."""
MAX_COLUMNS = 60
_MAX_DEPTH = 12


def read_json(lines: Sequence[Line], i: int, finder: JsonFinder) -> tuple[list[Table], int] | None:
    """JSON that begins with a line or behind its label, with all lines of JSON that follow it."""
    found: list[tuple[str, JsonNode]] = []
    k = i
    while k < len(lines):
        value = finder.at(lines[k])
        nodes = nodes_of(finder.text, value.start, value.end) if value is not None else None
        if value is None or not nodes or not nodes[0].children:
            break
        found += ((value.label, node) for node in nodes)
        k += 1
        while k < len(lines) and (lines[k][1] < value.end or not lines[k][0].strip()):
            k += 1
    if not found:
        return None
    walker = _Walker()
    named = len(found) > 1 and all(label and node.kind == "object" for label, node in found)
    for label, node in found:
        walker.walk(node, "", "" if named else label, 0, {"": label} if named else {})
    tables = walker.tables()
    for table in tables:
        table.start, table.end = found[0][1].start, found[-1][1].end
    return tables, k


class _Walker:
    """Goes through nested values, and makes a table of the objects of each path."""

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[dict[str, str], tuple[int, int]]]] = {}
        self._titles: dict[str, str] = {}

    def walk(self, node: JsonNode, path: str, title: str, depth: int, row: Mapping[str, str] = MappingProxyType({})) -> None:
        """Objects at `path`, and what is in them; `row` is what is known of an object beside its members."""
        if depth > _MAX_DEPTH:
            return
        if node.kind == "object":
            self._object(node, dict(row), path, title, depth)
        for _, _, child in each(node.children) if node.kind == "list" else ():
            self.walk(child, path, title, depth + 1)

    def _object(self, node: JsonNode, row: dict[str, str], path: str, title: str, depth: int) -> None:
        inner: list[tuple[str, JsonNode]] = []
        self._flatten(node, "", row, inner, depth)
        if row and len(self._rows.setdefault(path, [])) <= MAX_ROWS:
            self._rows[path].append((row, (node.children[0][1] if node.children else node.start, node.end)))
            self._titles.setdefault(path, title)
        name = " ".join(list(row.values())[:3]) if len(row) < 12 else ""
        for key, one in inner:
            below = f"{path}.{key}", f"{title} {key} {name}".strip(), depth + 1
            if one.kind == "list":
                self.walk(one, *below)
            else:  # objects by name: the name is a value of theirs
                for which, _, member in one.children if below[2] <= _MAX_DEPTH else ():
                    self._object(member, {"": str(which)}, *below)

    def _flatten(self, node: JsonNode, prefix: str, row: dict[str, str], inner: list[tuple[str, JsonNode]], depth: int) -> None:
        for key, _, one in each(node.children):
            name = f"{prefix}{key}"
            if one.kind == "object":
                if _is_by_name(one):
                    inner.append((name, one))
                elif depth < _MAX_DEPTH:
                    self._flatten(one, f"{name} ", row, inner, depth + 1)
            elif one.kind == "list" and _is_nested(one):
                inner.append((name, one))
            elif len(row) < MAX_COLUMNS:
                row[name] = ", ".join(child.text.strip() for _, _, child in one.children) if one.kind == "list" else one.text.strip()

    def tables(self) -> list[Table]:
        """A table of each path."""
        return [table_of([row for row, _ in rows], [place for _, place in rows], self._titles[path]) for path, rows in self._rows.items()]


def _is_nested(node: JsonNode) -> bool:
    return any(child.kind in ("object", "list") for _, _, child in node.children)


def _is_by_name(node: JsonNode) -> bool:
    """Whether an object holds objects of one kind, each under its name."""
    members = [child for _, _, child in node.children]
    if len(members) < 2 or any(child.kind != "object" or not child.children for child in members):
        return False
    first, second = ({key for key, _, _ in member.children} for member in members[:2])
    return bool(first & second) and any(child.kind not in ("object", "list") for _, _, child in members[0].children)


def table_of(rows: Sequence[dict[str, str]], places: Sequence[tuple[int, int]], title: str, texts: Sequence[str] = ()) -> Table:
    """Rows of values by the names of their columns, as a table; `texts` is what each says beside."""
    names = list(dict.fromkeys(name for row in rows for name in row))[:MAX_COLUMNS]
    position = {name: i for i, name in enumerate(names)}
    found = [
        Row({position[k]: v for k, v in row.items() if k in position and v}, *place, texts[i] if texts else "")
        for i, (row, place) in enumerate(zip(rows, places, strict=True))
    ]
    return Table(names, found, title)
