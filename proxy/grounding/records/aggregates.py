"""What a clause says of many rows: how many they are, all, none, or only these. Computed.

A condition is a value, a state, a yes or no, or a number above zero of a column; what it holds of is counted. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proxy.grounding.records.cells import Table, boolean_of, concepts_of, listed, states_of, tokens
from proxy.grounding.records.clause import MAX_EXTRA_WEAK, Clause, Finding, is_name, spoken_states
from proxy.grounding.values.arithmetic import DIFFERENCE, MEAN, SUM
from proxy.language.number_words import ordinal_value
from proxy.language.quantities import Quantity, agrees

MAX_COUNT = 200
_FIRST = 2
"""Words before which a quantifier is of what the clause is about."""
Rows = frozenset[int]


def aggregates(clause: Clause) -> Iterator[Finding]:
    """All that the clause says of many rows."""
    if len(clause.table.rows) < 2:
        return
    for check in (_counts, _quantified, compared):
        yield from check(clause)


def _all(clause: Clause) -> Rows:
    return frozenset(range(len(clause.table.rows)))


def _conditions(clause: Clause) -> tuple[Rows, list[Rows], frozenset[int]]:
    """The rows that are spoken of, what is said to hold of some, and the columns of the latter."""
    domain, conditions, columns = _all(clause), list[Rows](), set[int]()
    numeric: dict[int, Rows] = {}
    for _, spoken in spoken_states(clause.statement):
        for c in range(len(clause.table.columns)):
            groups = {state.group for state in spoken}
            cells = {r: states_of(tokens(row.values[c])) for r, row in enumerate(clause.table.rows) if c in row.values}
            known = {r: found for r, found in cells.items() if any(s.group in groups for s in found)}
            if len(known) > 1 and 2 * len(known) >= len(cells) and c not in columns:
                conditions.append(frozenset(r for r, found in known.items() if found & spoken))
                columns.add(c)
    for c, (score, _) in clause.columns.items():
        filled = [(r, row.values[c]) for r, row in enumerate(clause.table.rows) if c in row.values]
        if c in columns or not filled:
            continue
        if score >= 1.5 and all(boolean_of(value) is not None for _, value in filled):
            conditions.append(frozenset(r for r, value in filled if boolean_of(value)))
            columns.add(c)
        elif score >= 1.5 and any(boolean_of(value) is False for _, value in filled) and c not in clause.table.numeric:
            conditions.append(frozenset(r for r, value in filled if boolean_of(value) is not False))  # "allergies: none"
            columns.add(c)
        elif score >= 0.8 and c in clause.table.numeric and not is_name(clause.table, c):
            numeric[c] = frozenset(r for r, row in enumerate(clause.table.rows) if (q := row.number(c)) is not None and q.values[0] > 0)
    if set(clause.words) & listed("out"):
        stocks = [c for c in clause.table.numeric if "stock" in concepts_of(clause.table.columns[c].words)]
        numeric = {
            c: frozenset(r for r, row in enumerate(clause.table.rows) if (q := row.number(c)) and q.values[0] == 0) for c in stocks[:1]
        }
    if not conditions:
        conditions += numeric.values()
        columns |= numeric.keys()
    for c, rows in clause.bound.groups.items():
        if sum(c in row.values for row in clause.table.rows) > 1 and (c not in columns or not clause.table.columns[c].name):
            domain &= rows
    return domain, conditions, frozenset(columns)


def _counts(clause: Clause) -> Iterator[Finding]:
    """ "Two of the five orders are open", "There are two flights to Lisbon"."""
    statement = clause.statement
    free = clause.numbers
    if not free or len(free) > 2 or statement.quantities.dates or clause.hedged:
        return
    if not any(column.name for column in clause.table.columns):  # lines of a text are not what is counted
        return
    q = free[0]
    at = frozenset(statement.at(q.start, q.end))
    if (
        q.dimension
        or q.values[0] != int(q.values[0])
        or not 0 < q.values[0] <= MAX_COUNT
        or ordinal_value(q.text.lower(), statement.language)
    ):
        return
    if q.text.isdigit() and min(at) and clause.statement.words[min(at) - 1].text in ("el", "am", "le", "il", "o", "the", "der"):
        return
    if not _is_subject(clause, at) or (len(free) == 2 and free[1].values[0] not in {len(rows) for rows in _domains(clause)}):
        return
    domain, conditions, columns = _conditions(clause)
    if any(c in clause.table.numeric and not is_name(clause.table, c) for c in columns):
        return
    holds = frozenset.intersection(domain, *conditions)
    holds = domain - holds if statement.negated and conditions else holds
    bare = not conditions and not clause.bound.groups
    if bare and not (set(clause.words) & listed("listing") and not clause.says_more(1)):
        return
    if not bare and not conditions and not any(sum(c in row.values for row in clause.table.rows) > 1 for c in clause.bound.groups):
        return
    distinct = {len({clause.table.rows[r].values.get(0, "") for r in holds})} if not bare else set()
    if q.values[0] == len(holds):
        yield Finding(True, q.text, str(len(holds)), min(holds, default=0), at, "count")
    elif clause.alone and q.values[0] not in distinct and not clause.says_more(1) and not q.relation:
        yield Finding(False, q.text, str(len(holds)), min(holds, default=0), at, "count")


def _domains(clause: Clause) -> list[Rows]:
    """What "of the five" may be five of."""
    return [_all(clause), clause.bound.rows, *clause.bound.groups.values()]


def _is_subject(clause: Clause, at: frozenset[int]) -> bool:
    """Whether a number counts what the clause is about: it stands first, behind "there are", or before "of"; and no column's number."""
    said, i = clause.words, max(at) + 1
    if i >= len(said) or said[i] in ("and", "und", "y", "et", "e", "or", "oder"):
        return False
    if any(i in by for c, (_, by) in clause.columns.items() if c in clause.table.numeric or c > 1 or not _is_key(clause, c)):
        return False
    return (
        min(at) == 0
        or (min(at) == 1 and said[0] in listed("every") | listed("only"))
        or said[i] in listed("of")
        or set(said[max(0, min(at) - 3) : min(at)]) & listed("there") != set()
    )


def _is_key(clause: Clause, column: int) -> bool:
    """Whether each row has a value of its own in a column."""
    found = [row.values.get(column) for row in clause.table.rows]
    return len(set(found)) == len(found)


def _quantified(clause: Clause) -> Iterator[Finding]:
    said = clause.words
    every, none, only = (set(said) & listed for listed in (listed("every"), listed("none"), listed("only")))
    if sum(map(bool, (every, none, only))) != 1 or clause.says_more(1) or _numbered(clause) or clause.hedged:
        return
    quantifier = next(i for i, word in enumerate(said) if word in every | none | only)
    if quantifier >= _FIRST and not set(said[:quantifier]) & listed("there"):
        return
    domain, conditions, columns = _conditions(clause)
    if len(conditions) != 1 or not domain:
        return
    holds = conditions[0] & domain
    denied = clause.statement.negated and not none
    if none and len(re.findall(r"\b(?:not|without|nicht|ohne|sin|sans|senza|sem)\b", " ".join(said))):
        return
    if only:
        holds = domain - holds if denied else holds
        subject = clause.bound.rows if clause.bound.groups else frozenset()
        groups = [c for c in clause.bound.groups if c not in columns]
        holds = (conditions[0] if not denied else _all(clause) - conditions[0]) if groups else holds
        if subject and groups and len(subject) <= 3:
            yield _finding(clause, holds == subject, " ".join(only), holds)
    elif every:
        yield _finding(clause, (holds == domain) if not denied else not holds, " ".join(every), domain - holds or holds)
    else:
        yield _finding(clause, not holds, " ".join(none), holds)


def _numbered(clause: Clause) -> bool:
    return any(not clause.statement.at(q.start, q.end) & clause.bound.used for q in clause.statement.quantities.numbers)


def _finding(clause: Clause, right: bool, claim: str, rows: Rows) -> Finding:
    row = min(rows, default=0)
    shown = "; ".join(list(clause.table.rows[row].values.values())[:4])
    return Finding(right, claim, shown[:80], row, frozenset(), "quantifier")


# ---- comparisons ----


_SCALES = (1.0, 1e3, 1e6)
"""Of columns whose numbers stand for thousands or millions."""
_COMPARES = re.compile(r"\b(?:than|als|que|di quell|do que|que la|que el)\b")


def compared(clause: Clause) -> Iterator[Finding]:
    """All of it."""
    for check in (_extremes, _sums, _differences):
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
            verdicts.append((column[subject] in wanted, best))
        elif len(free) == 1 and plain and not clause.bound.groups and c in clause.table.numeric:
            verdicts.append((any(end in (*free[0].values, *free[0].base_values()) for end in wanted), best))
    if verdicts:
        right = any(holds for holds, _ in verdicts)
        best = next((r for holds, r in verdicts if holds), verdicts[0][1])
        shown = "; ".join(list(clause.table.rows[best].values.values())[:4])[:80]
        word = next(w for w in clause.words if w in listed("most") | listed("least"))
        yield Finding(right, word, shown, best, frozenset(), "extreme")


def _way(clause: Clause) -> int | None:
    """1 for the most, -1 for the least, 0 where it depends on the column; None without a superlative."""
    said = clause.words
    most, least = [w for w in said if w in listed("most")], [w for w in said if w in listed("least")]
    if bool(most) == bool(least) or _compares(said):
        return None
    word = (most or least)[0]
    after = next(iter(said[said.index(word) + 1 :]), "")
    if after in listed("of"):  # "most of them"
        return None
    if word in listed("romance_degrees") and (not set(said) & listed("copula") or after in ("", "de", "d") or clause.says_more(1)):
        return None
    if any(w in listed("either") or w.startswith("prio") for w in said):
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


def _measures(clause: Clause) -> tuple[list[int], bool]:
    """The columns that a superlative may be of, and whether it is plain that it is of the first: that which is named, the only one with a
    unit, else any with an order.
    """
    table = clause.table
    ordered = [
        c
        for c in range(len(table.columns))
        if not is_name(table, c) and sum(order_of(table, r, c) is not None for r in range(len(table.rows))) >= 2 and _of_one_unit(table, c)
    ]
    named = [c for c in clause.named(lambda c: c in ordered) if clause.score(c) >= 0.8]
    if named:
        return named, True
    measured = [c for c in ordered if any((n := row.number(c, table.unit(c))) is not None and n.dimension for row in table.rows)]
    return (measured, True) if len(measured) == 1 else (ordered, False)


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
    if len(totals) == 1 and not clause.says_more(1) and not q.relation and not clause.hedged:
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
    if len(rows) == 2 and len(clause.bound.groups) <= 2:
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
