"""What a clause says of several rows: the most and the least, which of two has more, sums, differences. Computed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proxy.grounding.records.cells import Table, listed
from proxy.grounding.records.clause import MAX_EXTRA_WEAK, NAMED_BY_MEANING, Clause, Finding, is_name
from proxy.grounding.values.arithmetic import DIFFERENCE, MEAN, SUM
from proxy.language.dates import date_agrees
from proxy.language.quantities import Quantity, agrees

_SCALES = (1.0, 1e3, 1e6)
"""Of columns whose numbers stand for thousands or millions."""
_COMPARES = re.compile(r"\b(?:than|als|que|di quell|do que|que la|que el)\b")


def aggregates(clause: Clause) -> Iterator[Finding]:
    """All that the clause says of many rows."""
    if len(clause.table.rows) < 2 or clause.statement.denies:
        return
    for check in (_extremes, _comparisons, _sums, _differences):
        yield from check(clause)


def _extremes(clause: Clause) -> Iterator[Finding]:
    """ "The busiest station is …", "the largest delay was 11 minutes"."""
    way = _way(clause)
    if way is None or MEAN.search(clause.statement.text) or clause.says_more(MAX_EXTRA_WEAK):
        return
    columns, plain = _measures(clause)
    subject, domain = _subject(clause)
    free = clause.numbers
    verdicts = []
    for c in columns:
        column = {r: value for r in sorted(domain) if (value := order_of(clause.table, r, c)) is not None}
        if len(column) < 2 or (subject is not None and subject not in column):
            continue
        top, bottom = max(column.values()), min(column.values())
        wanted = [top, bottom] if not way or not plain else [top if way > 0 else bottom]
        best = next(r for r, value in column.items() if value == wanted[0])
        if subject is not None:
            verdicts.append((column[subject] in wanted or _says(clause, subject, c), best))
        elif len(free) == 1 and plain and not clause.bound.groups and c in clause.table.numeric:
            verdicts.append((any(end in (*free[0].values, *free[0].base_values()) for end in wanted), best))
    if verdicts and (plain or any(holds for holds, _ in verdicts)):
        right = any(holds for holds, _ in verdicts)
        best = next((r for holds, r in verdicts if holds), verdicts[0][1])
        shown = "; ".join(list(clause.table.rows[best].values.values())[:4])[:80]
        word = next(w for w in clause.words if w in listed("most") | listed("least"))
        yield Finding(right, word, shown, best, frozenset(), "extreme")


def _says(clause: Clause, r: int, c: int) -> bool:
    """Whether the clause gives the row's own value: "its latest patch is of 2 May"."""
    row, said = clause.table.rows[r], clause.statement.quantities
    date, number, minutes = clause.table.date(row, c), clause.table.number(row, c), row.minutes(c)
    return (
        (date is not None and any(date_agrees(one, date) for one in said.dates))
        or (number is not None and any(agrees(one, number) for one in said.numbers))
        or any(set(minutes) & set(one.minutes) for one in said.times)
    )


def _way(clause: Clause) -> int | None:
    """1 for the most, -1 for the least, 0 where it depends on the column; None without a superlative."""
    said = clause.words
    most, least = [w for w in said if w in listed("most")], [w for w in said if w in listed("least")]
    if bool(most) == bool(least) or _compares(said):
        return None
    word = (most or least)[0]
    at = said.index(word)
    after = next(iter(said[at + 1 :]), "")
    if after in listed("of") or said[at - 1 : at] == ["at"]:  # "most of them", "at most"
        return None
    if word in listed("romance_degrees") and (not set(said) & listed("copula") or after in ("", "de", "d") or clause.says_more(1)):
        return None
    if any(w in listed("either") or w.startswith("prio") for w in said):
        return 0
    if word in listed("romance_degrees"):  # "la plus courte" is the least
        return 0
    cheap = any(w in listed("cheap") and w not in listed("least") for w in said)  # the most inexpensive
    return 1 if bool(most) is not cheap else -1


def _subject(clause: Clause) -> tuple[int | None, frozenset[int]]:
    """The row that is said to be the most, and those that it is one of: all, or those that share its other values that are named."""
    bound, every = clause.bound, frozenset(range(len(clause.table.rows)))
    if len(bound.rows) != 1 or not bound.groups:
        return None, every
    others = [rows for rows in bound.groups.values() if rows != bound.rows]
    return next(iter(bound.rows)), frozenset.intersection(every, *others)


def _compares(said: Sequence[str]) -> bool:
    return _COMPARES.search(" ".join(said)) is not None and not re.search(r"\b(?:el|la|los|las) que\b", " ".join(said))


_VALUE = frozenset(str.split("value values reading figure wert werte valor valores valeur valeurs valore valori"))
"""Behind a superlative that is then of no column by itself: "the lowest value" is not of "hr_low"."""


def _measures(clause: Clause) -> tuple[list[int], bool]:
    """The columns that a superlative may be of: that which is named, and plainly so, else any with an order."""
    table = clause.table
    ordered = [
        c
        for c in range(len(table.columns))
        if not is_name(table, c) and sum(order_of(table, r, c) is not None for r in range(len(table.rows))) >= 2 and _of_one_unit(table, c)
    ]
    ends = {i for i, word in enumerate(clause.words[:-1]) if word in listed("most") | listed("least") and clause.words[i + 1] in _VALUE}
    named = [c for c in clause.named(lambda c: c in ordered) if clause.score(c) >= 0.8 and clause.columns[c][1] - ends]
    if named:
        return named, True
    return ordered, False


def _comparisons(clause: Clause) -> Iterator[Finding]:
    """ "The Skua is longer than the Gannet": two rows by their names on either side of the "than", in a column that is named."""
    than = clause.statement.than
    if than is None:
        return
    named = [(span, rows) for span in clause.bound.spans for rows in span.rows.values() if len(rows) == 1 and (span.whole or span.sure)]
    if len(named) != 2 or len(clause.bound.spans) != 2 or clause.numbers or clause.pronoun or clause.says_more(MAX_EXTRA_WEAK):
        return
    (first, (a,)), (second, (b,)) = sorted(named, key=lambda one: min(one[0].words))
    words = [i for i in range(max(first.words) + 1, min(second.words)) if clause.words[i] in listed("more") | listed("less")]
    if a == b or not max(first.words) < than < min(second.words) or len(words) != 1 or clause.words[words[0]] in listed("romance_degrees"):
        return
    columns = clause.named(lambda c: all(order_of(clause.table, r, c) is not None for r in (a, b)) and not is_name(clause.table, c))
    if len(columns) != 1 or clause.score(columns[0]) < NAMED_BY_MEANING or listed("ranks") & set(clause.table.columns[columns[0]].words):
        return
    row, column = clause.table.rows[a], columns[0]
    is_moment = clause.table.date(row, column) is not None or bool(row.minutes(column))
    one, other = (order_of(clause.table, r, column) for r in (a, b))
    if one is None or other is None or one == other or is_moment is not (clause.words[words[0]] in listed("temporal")):
        return
    shown = "; ".join(clause.table.rows[r].values[column] for r in (a, b))
    right = one > other if clause.words[words[0]] in listed("more") else one < other
    yield Finding(right, clause.words[words[0]], shown, a, frozenset(words), "comparison")


def _of_one_unit(table: Table, c: int) -> bool:
    """Whether all numbers of a column are counted in the same."""
    return len({n.dimension for row in table.rows if (n := row.number(c, table.unit(c))) is not None}) <= 1


def order_of(table: Table, r: int, c: int) -> float | None:
    """A cell as a number by which rows are ordered: its number, date or time of day."""
    row = table.rows[r]
    if (date := table.date(row, c)) is not None and date.readings[0][0] is not None:
        year, month, day = date.readings[0]
        return (year or 0) * 372.0 + (month or 0) * 31 + (day or 0)
    if (number := row.number(c, table.unit(c))) is not None:
        return number.base_values()[0]
    minutes = row.minutes(c)
    return float(min(minutes)) if minutes else None


def _numbers_of(clause: Clause) -> list[Quantity]:
    """The clause's numbers that are no names, and do not only say how many rows there are."""
    rows = {len(clause.table.rows), len(clause.bound.rows)}
    free = clause.numbers
    return [q for q in free if not (q.spelled and q.values[0] in rows)] if len(free) > 1 else free


def _sums(clause: Clause) -> Iterator[Finding]:
    numbers = _numbers_of(clause)
    if len(numbers) != 1 or not SUM.search(clause.statement.text) or DIFFERENCE.search(clause.statement.text):
        return
    q = numbers[0]
    domain = frozenset(r for rows in clause.bound.groups.values() for r in rows) or frozenset(range(len(clause.table.rows)))
    columns = [c for c in clause.named(lambda c: c in clause.table.numeric) if clause.score(c) >= 0.8] or [
        c for c in clause.table.numeric if q.dimension and (u := clause.table.unit(c)) is not None and u.dimension == q.dimension
    ]
    columns = [c for c in columns if not is_name(clause.table, c)]
    totals = {}
    for c in columns:
        cells = [n for r in sorted(domain) if (n := clause.table.rows[r].number(c, clause.table.unit(c))) is not None]
        if len(cells) > 1:
            totals[c] = Quantity((sum(n.values[0] for n in cells),), cells[0].unit, min(n.step for n in cells), 0, 0, "")
    at = frozenset(clause.statement.at(q.start, q.end))
    for total in totals.values():
        if agrees(q, total) or any(abs(q.values[0] - k * total.values[0]) < 1e-6 * abs(q.values[0]) for k in _SCALES):
            yield Finding(True, q.text, f"{total.values[0]:g}", min(domain), at, "sum")
            return
    counts = q.spelled and q.values[0] <= len(clause.table.rows)  # "the two others"
    amounts = [clause.table.rows[r].number(c, clause.table.unit(c)) for c in totals for r in domain]
    each_has = any(n is not None and agrees(q, n) for n in amounts)  # "both have 32"
    if (
        len(totals) == 1
        and not each_has
        and not counts
        and not listed("each").intersection(clause.words)
        and not clause.says_more(1)
        and not q.relation
        and not clause.hedged
    ):
        yield Finding(False, q.text, f"{next(iter(totals.values())).values[0]:g}", min(domain), at, "sum")


def _differences(clause: Clause) -> Iterator[Finding]:
    numbers, rows = _numbers_of(clause), sorted(clause.bound.rows)
    said = set(clause.words)
    if len(numbers) != 1 or not (DIFFERENCE.search(clause.statement.text) or said & (listed("more") | listed("less"))):
        return
    q = numbers[0]
    at = frozenset(clause.statement.at(q.start, q.end))
    pairs: list[tuple[int, float, int]] = []
    numeric = [c for c in clause.table.numeric if not is_name(clause.table, c)]
    if len(rows) == 2 and len(clause.bound.groups) <= 2 and len(clause.bound.spans) > 1 and not clause.pronoun:
        for c in numeric:
            a, b = (clause.table.rows[r].number(c, clause.table.unit(c)) for r in rows)
            if a is not None and b is not None and (not q.dimension or not a.dimension or a.dimension == q.dimension):
                pairs.append((c, abs(a.values[0] - b.values[0]), rows[0]))
    elif len(rows) == 1 and q.dimension:
        cells = {
            c: n
            for c in numeric
            if (n := clause.table.rows[rows[0]].number(c, clause.table.unit(c))) is not None and n.dimension == q.dimension
        }
        if len(cells) == 2:
            a, b = cells.values()
            pairs = [(next(iter(cells)), abs(a.values[0] - b.values[0]), rows[0])]
            if agrees(q, a) or agrees(q, b):
                return
    named = [c for c in clause.named(lambda c: any(c == pair[0] for pair in pairs)) if clause.score(c) >= 0.8]
    right = next(
        (pair for pair in pairs if any(abs(pair[1] * k - q.values[0]) <= 1e-6 + q.step * 0.51 * (q.step != 1) for k in _SCALES)), None
    )
    if right is not None:
        yield Finding(True, q.text, f"{right[1]:g}", right[2], at, "difference")
        return
    plain = [pair for pair in pairs if pair[0] in named] or (pairs if len(pairs) == 1 else [])
    if len(plain) == 1 and not clause.says_more(MAX_EXTRA_WEAK) and not q.relation and not q.spelled:
        yield Finding(False, q.text, f"{plain[0][1]:g}", plain[0][2], at, "difference")
