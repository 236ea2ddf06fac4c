"""What a clause says of many rows: how many they are, all, none, or only these. Computed.

A condition is a value, a state, a yes or no, or a number above zero of a column; what it holds of is counted. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.grounding.records.cells import tokens
from proxy.grounding.records.clause import Clause, Finding, is_name, spoken_states
from proxy.grounding.records.comparisons import compared
from proxy.grounding.records.lexicon import boolean_of, concepts_of, listed, states_of
from proxy.language.number_words import ordinal_value

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
    if set(clause.said) & listed("out"):
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
    if bare and not (set(clause.said) & listed("listing") and not clause.says_more(1)):
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
    said, i = clause.said, max(at) + 1
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
    said = clause.said
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
