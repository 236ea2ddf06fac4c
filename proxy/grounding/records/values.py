"""Numbers, dates and times of a clause beside the cells of its rows: as these have them, or otherwise.

A value is only wrong where its row and its column are both plain (the column by its name, its unit, or because the value stands there in
another row), where the other text of the evidence does not have it, and where the clause says little else. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.records.binding import Statement
from proxy.grounding.records.cells import MAX_VALUE_CHARS, Row, Table, alike, listed, read_value, tokens
from proxy.grounding.records.clause import MAX_EXTRA, MAX_EXTRA_WEAK, NAMED, Clause, Finding
from proxy.grounding.values.arithmetic import may_follow
from proxy.grounding.values.consistency import says_nothing
from proxy.language.dates import date_agrees
from proxy.language.number_words import JOINERS
from proxy.language.quantities import Quantity, agrees
from proxy.offloop import each

MAX_LINE_CHARS, MAX_NOUN_CHARS = 200, 20
MAX_RATIO = 100.0
STEPS, NEAR = (7, 12, 24, 30, 52, 60, 365, 1000, 1024, 3600, 1440), 0.06
"""How many of one unit make one of another, and how near to that a ratio is no accident."""
MAX_AROUND = 12
"""Rows of another table whose numbers a statement may have calculated with."""
_WHICH = re.compile(
    r"\b(?:day|week|room|row|no\.|nr\.?|tag|woche|raum|zimmer|día|semana|sala|jour|semaine|giorno|settimana|dia|kw"
    r"|by|by only|by just|um|um nur|of the|of these|of those|der|de los|de las|des|dei|delle|degli|dos|das) $",
    re.I,
)
"""Before a number that says which one, and not how many."""
_DAY = re.compile(r"\b(?:el|am|le|il|den|al|du|del|dal|o|no|the) $", re.I)
"""Before a bare number that may be a day of the month."""
_LINE = re.compile(r"\b[A-Z]{1,3} $")
"""Before a bare number that is half of a name: "S 4"."""
_FOR = re.compile(r"\b(?:for|für|pour|para|per) (?:up to |bis zu )?$", re.I)
_AT = re.compile(r"\b(?:at|um|gegen|vers|à|a las|alle|às) $", re.I)
"""Before a bare number that is a guest's wish ("has room for 30"), and one that may be an hour ("opens at 8")."""
_SHARE = re.compile(
    r" ?(?:(?:viertel|drittel|fünftel|zehntel|quarter|third|fifth|quart|tiers|cuart[oa]|terci|terz|ter[çc]|quinto|dixi)\w{0,3}\b"
    r"|(?:of|von|der|des|de|du|di|del|della|do|da)\b)",
    re.I,
)
"""Behind a number that is a part of something: "three quarters", "30% of the seats"."""
_ZONE = re.compile(r"\d\d:\d\d(?::\d\d(?:\.\d+)?)? ?(?:Z\b|[+-]\d\d(?::?\d\d)?\b|(?:UTC|GMT|[A-Z]{2,4}T)\b)")
"""A moment whose zone is told."""
_DURATION = re.compile(r" ?(?:(?:hours?|hrs?|std|stunden?|heures?|horas?|ore)\b|minut\w*|min\b)", re.I)
"""Behind what is no time of day: "5:05 Stunden"."""
_AMBIGUOUS = re.compile(r"\b(?:pounds?|libras?)$", re.I)


class _Value(Struct):
    """A value of a statement, and how cells are compared with it."""

    text: str
    at: frozenset[int]
    kind: str
    cell: Callable[[Row, int], Any]
    """The row's value of that kind in a column, None without one."""
    same: Callable[[Any], bool]
    loose: bool
    """Whether the other text of the evidence has it."""
    specific: bool
    dimension: str = ""
    bound: bool = False
    """Whether it is only the bound of something, or about so much."""
    number: Quantity | None = None
    small: bool = False
    """A number in words that may count anything."""


def values(clause: Clause) -> Iterator[Finding]:
    """Numbers, dates and times that are no names, beside those of the rows. What is denied may be any other value."""
    if clause.statement.denies:
        return
    taken = clause.bound.used.union(*(by for _, by in clause.columns.values()))
    every = [value for value in _values(clause) if not value.at & clause.bound.used and not value.at <= taken]
    found = [_beside(clause, value) for value in every]
    if sum(finding is None or not finding.right for finding in found) > 1 or clause.ordinal:
        found = [finding if finding is not None and finding.right else None for finding in found]  # worked out of each other
    for value, finding in zip(every, found, strict=True):
        again = finding if finding is None or finding.right else _beside(clause, value)  # now that the others' columns are known
        if again is not None:
            yield again


def denials(clause: Clause) -> Iterator[Finding]:
    """What a clause says is not so, and is: the values of its one row, or names of two columns that meet in it."""
    statement, bound = clause.statement, clause.bound
    said = set(clause.words)
    denying = [word for word in clause.words if word in listed("negations")]
    if not (statement.negated and len(denying) == 1 and clause.alone and len(clause.rows) == 1 and bound.groups and clause.of_one_row):
        return
    if clause.hedged or clause.ordinal or clause.bounded or clause.pronoun or clause.computed or clause.says_more(MAX_EXTRA_WEAK):
        return
    if said & (listed("only") | listed("every") | listed("none") | listed("any_more") | JOINERS):  # "reminded twice and has not paid"
        return
    row = min(bound.rows)
    if denying[0] in clause.table.rows[row].text.split():  # "sin sal", and "no" in a column of yes and no
        return
    found = [_denied(clause, value) for value in _values(clause) if not value.at & bound.used]
    if all(value is not None for value in found):
        plain = all(span.whole or any(statement.words[i].is_id for i in span.words) for span in bound.spans)
        if first := next(iter(found), None):
            yield Finding(False, statement.text, first, row, bound.used, "denial")
        elif len(bound.groups) > 1 and plain and all(rows & bound.rows for rows in bound.groups.values()):
            cells = [clause.table.rows[row].values.get(c, "") for c in bound.groups]
            yield Finding(False, statement.text, cells[-1], row, bound.used, "denial")


def _denied(clause: Clause, value: _Value) -> str | None:
    """The cell of the row that is the value, where it is the column's that is named or the only one of the kind; None where it is not."""
    ((_, row),) = clause.rows
    cells = {c: cell for c in range(len(clause.table.columns)) if (cell := value.cell(row, c)) is not None}
    named = clause.named(lambda c: c in cells) or [c for c in cells if len(cells) == 1]
    right = [c for c in named if value.same(cells[c])]
    return row.values[right[0]] if len(named) == 1 and right and not value.bound else None


def _values(clause: Clause) -> Iterator[_Value]:
    statement, table, records = clause.statement, clause.table, clause.records
    for q in statement.quantities.numbers:
        if (says_nothing(q, statement.text) and q.values[0] != 0) or _WHICH.search(statement.text[max(0, q.start - 12) : q.start]):
            continue
        if q.text.isdigit() and q.values[0] <= 31 and _DAY.search(statement.text[max(0, q.start - 5) : q.start]):
            continue
        if q.unit is None and _LINE.search(statement.text[max(0, q.start - 5) : q.start]):
            continue
        before = statement.text[max(0, q.start - 20) : q.start]
        if not q.dimension and (_FOR.search(before) or (q.values[0] <= 24 and _AT.search(before))):
            continue
        if (q.dimension == "ratio" or q.spelled) and _SHARE.match(statement.text, q.end):
            continue
        yield _Value(
            q.text,
            frozenset(statement.at(q.start, q.end)),
            "number",
            lambda row, c, q=q: _cell(statement, table, q, row, c),  # type: ignore[misc]
            lambda cell, q=q: agrees(q, cell) or agrees(q, _absolute(cell)),  # type: ignore[misc]
            records.has_number(q),
            not q.spelled and (bool(q.dimension) or sum(c.isdigit() for c in q.text.rstrip("0")) > 1),
            q.dimension,
            False,
            q,
            q.spelled and q.values[0] <= 12,
        )
    for date in statement.quantities.dates:
        yield _Value(
            date.text,
            frozenset(statement.at(date.start, date.end)),
            "date",
            lambda row, c: table.date(row, c),
            lambda cell, date=date: date_agrees(date, cell) or date_agrees(cell, date),  # type: ignore[misc]
            records.has_date(date),
            True,
            "date",
            bool(date.bound or date.decade),
        )
    for time in statement.quantities.times:
        if _DURATION.match(statement.text, time.end) or statement.text[time.start - 1 : time.start] == "+":
            continue
        yield _Value(
            time.text,
            frozenset(statement.at(time.start, time.end)),
            "time",
            lambda row, c: row.minutes(c) or None,
            lambda cell, time=time: bool(set(cell) & set(time.minutes)),  # type: ignore[misc]
            records.has_time(time.minutes),
            True,
            "time",
        )


def _cell(statement: Statement, table: Table, q: Quantity, row: Row, column: int) -> Quantity | None:
    """The number of a cell that may be meant; of a line its one number of that unit, or of what is counted."""
    found = table.number(row, column) or _none(row, column)
    value = row.values.get(column, "")
    if found is not None or table.columns[column].name or len(value) > MAX_LINE_CHARS:
        return found if found is not None and (not q.dimension or not found.dimension or q.dimension == found.dimension) else None
    noun = next(iter(tokens(statement.text[q.end : q.end + MAX_NOUN_CHARS])), "")
    same = [
        n
        for n in read_value(value).numbers
        if (q.dimension and n.dimension == q.dimension)
        or (not q.dimension and noun and alike(noun, next(iter(tokens(value[n.end : n.end + MAX_NOUN_CHARS])), "")))
    ]
    return same[0] if len(same) == 1 else None


def _absolute(q: Quantity) -> Quantity:
    """A payment is written with a minus, and spoken of without."""
    return replace(q, values=tuple(map(abs, q.values)))


def _none(row: Row, column: int) -> Quantity | None:
    """ "none" in a column of numbers."""
    value = row.values.get(column, "").casefold()
    return Quantity((0.0,), None, 1.0, 0, len(value), value) if value in listed("none") else None


def _beside(clause: Clause, value: _Value) -> Finding | None:
    table = clause.table
    cells = {c: [(r, cell) for r, row in clause.rows if (cell := value.cell(row, c)) is not None] for c in range(len(table.columns))}
    cells = {c: found for c, found in cells.items() if found}
    right = {c: hit for c, found in cells.items() if (hit := next((r for r, cell in found if value.same(cell)), None)) is not None}
    named = clause.named(lambda c: c in cells)
    good = [c for c in right if c in named or clause.score(c) >= 0.8] or ([] if named else list(right))
    if good:
        clause.satisfied.add(good[0])
        return Finding(True, value.text, table.rows[right[good[0]]].values[good[0]], right[good[0]], value.at, value.kind)
    if value.kind == "date" and value.text.isdigit() and any(value.text in row.values.values() for _, row in clause.rows):
        return None  # "1450 rows" is no year
    if value.loose or value.bound or clause.hedged or not cells or (clause.compares and value.kind == "number") or _in_line(clause, value):
        return None
    if clause.names_other_rows:
        return None
    cells = {c: found for c, found in cells.items() if c not in clause.satisfied and _of_a_size(value, found[0][1])}
    own = {c for c, found in cells.items() if value.dimension and found[0][1].dimension == value.dimension} if value.number else set()
    if own:  # "25%" is said of a share, where there is one, and not of 40 seats
        cells = {c: found for c, found in cells.items() if c in own and not _is_rest(value, found[0][1])}
    if value.kind == "number" and not right and _reachable(clause, value):
        return None
    if value.kind == "time" and any(_ZONE.search(row.values.get(c, "")) for _, row in clause.rows for c in cells):
        return None  # it may be told in the reader's own zone
    wrong = _wrong_column(clause, value, [c for c in named if c in cells], cells, right)
    if wrong is None or (len(cells[wrong]) < len(clause.rows) and table.columns[0].name):
        return None
    if not clause.bound.groups and _in_another_table(clause, value):
        return None
    r = cells[wrong][0][0]
    return Finding(False, value.text, table.rows[r].values[wrong], r, value.at, value.kind)


def _in_line(clause: Clause, value: _Value) -> bool:
    """Whether a line of a log has the value somewhere, be it in no column."""
    columns = clause.table.columns
    return any(_says(line, value, MAX_LINE_CHARS) for _, row in clause.rows for c, line in row.values.items() if not columns[c].name)


def _in_another_table(clause: Clause, value: _Value) -> bool:
    """Whether a row of another table, which a clause that names no row may as well be about, has the value."""
    others = (place.table for place in clause.records.places if place.table is not clause.table)
    return any(_says(cell, value, MAX_VALUE_CHARS) for table in others for row in each(table.rows) for cell in row.values.values())


def _says(cell: str, value: _Value, most: int) -> bool:
    if len(cell) > most:
        return False
    read = read_value(cell)
    if value.kind == "time":
        return any(value.same(time.minutes) for time in read.times)
    return any(value.same(one) for one in (read.numbers if value.kind == "number" else read.dates))


def _is_rest(value: _Value, cell: Quantity) -> bool:
    """Whether two shares make a whole: 25% are free where 75% are booked."""
    return (
        value.dimension == "ratio" and value.number is not None and abs(value.number.base_values()[0] + cell.base_values()[0] - 1) < 0.005
    )


def _of_a_size(value: _Value, cell: Any) -> bool:
    """Whether two numbers may be told of one thing: 84 is no other value of 0.01."""
    if not isinstance(cell, Quantity) or value.number is None or not cell.values[0] or not value.number.values[0]:
        return True
    alike = value.dimension == cell.dimension
    units = value.number.unit, cell.unit
    if (
        alike
        and value.dimension == "duration"
        and units[0]
        and units[1]
        and not 1 / MAX_RATIO <= units[0].factor / units[1].factor <= MAX_RATIO
    ):
        return False  # nobody tells minutes in days; "min" may be a minimum
    said, has = (number.base_values()[0] if alike else number.values[0] for number in (value.number, cell))
    return 1 / MAX_RATIO <= abs(said / has) <= MAX_RATIO


def _wrong_column(
    clause: Clause, value: _Value, named: Sequence[int], cells: dict[int, list[tuple[int, Any]]], right: dict[int, int]
) -> int | None:
    """The column that the value is plainly of, and that has another."""
    table = clause.table
    elsewhere = {
        c
        for c in range(len(table.columns))
        for r, row in enumerate(each(table.rows))
        if r not in clause.bound.rows and (cell := value.cell(row, c)) is not None and value.same(cell)
    }
    form = len(table.rows) == 1 and len(clause.records.places) == 1
    if clause.adds and value.kind == "number" and (len(elsewhere) != 1 or len(clause.rows) > 1 or right):
        return None
    close = [c for c in cells if not right and not elsewhere and _same_kind(table, value, c, cells) and _resembles(value, cells[c][0][1])]
    if len(close) == 1 and not clause.says_more(MAX_EXTRA):
        return close[0]
    if value.small and not _counts(clause, value, named):
        return None
    least = 0.8 if not clause.says_more(1 if clause.bound.groups else 0) and (clause.bound.groups or form) else NAMED
    least = 2.0 if right else least  # it stands in another column of the row
    plain = [c for c in named if clause.score(c) >= least and _may_be_of(table, value, c, cells)]
    if right:  # a word of another form may mean another thing: "à partir de 10 ans" beside "partie"
        plain = [c for c in plain if any(clause.words[i] in table.columns[c].words for i in clause.columns[c][1])]
    if len(plain) == 1 and not clause.says_more(MAX_EXTRA):
        return plain[0]
    if right or clause.says_more(MAX_EXTRA_WEAK):
        return None
    same = [c for c in cells if _same_kind(table, value, c, cells)]
    possible = {c for c in cells if _may_be_of(table, value, c, cells)}
    if len(elsewhere) == 1 and value.specific and clause.bound.groups and elsewhere <= possible:
        return next(iter(elsewhere))
    alone = [c for c in same if value.dimension] if (clause.bound.groups or form) and not _AMBIGUOUS.search(value.text) else []
    only = [c for c in named if c in same and value.dimension] or alone
    return only[0] if len(only) == 1 and not elsewhere else None


def _resembles(value: _Value, cell: Any) -> bool:
    """Whether a value is a cell's with a digit changed, or two in each other's place; 21 is not 2.9's."""
    if not isinstance(cell, Quantity) or (value.number is not None and value.number.step != cell.step):
        return False
    mine, theirs = (re.sub(r"\D", "", written) for written in (value.text, cell.text))
    if len(mine) != len(theirs) or len(mine) < 2 or mine == theirs:
        return False
    return sorted(mine) == sorted(theirs) or sum(a != b for a, b in zip(mine, theirs, strict=True)) == 1


def _same_kind(table: Table, value: _Value, column: int, cells: dict[int, list[tuple[int, Any]]]) -> bool:
    """Whether a column's values are counted in the same; money of a price need not say its currency."""
    if value.kind != "number":
        return True
    dimension = cells[column][0][1].dimension
    if not value.dimension:
        return bool(dimension != "ratio")  # "10 people" is no share
    if not dimension and not table.columns[column].name:
        return value.dimension == "data"
    return bool(dimension == value.dimension)


def _may_be_of(table: Table, value: _Value, column: int, cells: dict[int, list[tuple[int, Any]]]) -> bool:
    """The same of a column that is plain: then its cells need no unit, unless they may be the value in another one ("1.5 hours", 90)."""
    if _same_kind(table, value, column, cells):
        return True
    assert value.number is not None
    cell = cells[column][0][1]
    said, has = abs(value.number.values[0]), abs(cell.values[0])
    ratio = max(said, has) / min(said, has) if said and has else 1.0
    return bool(table.columns[column].name) and not cell.dimension and not any(abs(ratio / step - 1) < NEAR for step in STEPS)


def _counts(clause: Clause, value: _Value, named: Sequence[int]) -> bool:
    """Whether a column's own word follows a number."""
    after = set(range(max(value.at) + 1, max(value.at) + 3))
    return bool(value.dimension) or any(after & clause.columns[c][1] for c in named)


def _reachable(clause: Clause, value: _Value) -> bool:
    """Whether a number can be worked out of those of its rows."""
    mine = value.number
    if mine is None or not (value.specific or (value.dimension and len(clause.numbers) > 1)):
        return False
    rows = [row for _, row in clause.rows]
    tables = [place.table for place in clause.records.places if place.table is not clause.table]
    others = [row for table in tables if len(table.rows) <= MAX_AROUND for row in table.rows]
    around = [read_value(v) for row in [*rows, *others] for v in row.values.values() if len(v) <= MAX_VALUE_CHARS]
    return may_follow(mine, clause.statement.quantities, around)
