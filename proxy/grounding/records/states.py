"""How things stand: states that exclude each other, yes and no, nobody and nothing; beside the cells of a clause's rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.grounding.records.cells import MAX_VALUE_CHARS, tokens, words
from proxy.grounding.records.clause import Clause, Finding, spoken_states
from proxy.grounding.records.lexicon import State, boolean_of, listed, states_of

MAX_NAME_WORDS = 4
MAX_LINE_CHARS = 200
"""A line that says one state is in it."""
FULLY = 1.5
"""How plainly a column of yes and no must be spoken of (`binding.names_column`): by half of its words."""


def states(clause: Clause) -> Iterator[Finding]:
    """Words for how something stands, beside the states of the rows."""
    for i, spoken in spoken_states(clause.statement):
        found = {c: f for c in range(len(clause.table.columns)) if (f := _state(clause, i, spoken, c)) is not None}
        named = [c for c in found if clause.score(c) >= 0.8] or list(found)
        if len(named) == 1:  # of several settings that are on or off only the one that is named
            yield found[named[0]]


def _state(clause: Clause, i: int, spoken: frozenset[State], column: int) -> Finding | None:
    groups = {state.group for state in spoken}
    if len(clause.table.rows) == 1 and not clause.bound.groups and clause.score(column) < 0.8 and len(clause.records.places) > 1:
        return None
    found = []
    for r, row in clause.rows:
        value = row.values.get(column, "")
        line = not clause.table.columns[column].name
        said = tokens(value) if line else words(value)
        cell = (
            frozenset(s for s in states_of(said) if s.group in groups)
            if len(value) <= (MAX_LINE_CHARS if line else MAX_VALUE_CHARS)
            else frozenset()
        )
        if cell and (len(said) <= 3 or (line and len(cell) == 1)):
            found.append((r, value, cell))
    if not found or len(found) < len(clause.rows):
        return None
    denied = clause.statement.negated or any(word.text in listed("negations") for word in clause.statement.words[max(0, i - 3) : i])
    right = [(r, value) for r, value, cell in found if cell & spoken]
    r, value = right[0] if right else found[0][:2]
    holds = bool(right) is not denied
    at = frozenset((i,))
    text = clause.statement.words[i].text
    if holds:
        return Finding(True, text, value, r, at, "state")
    near = not denied or any(word.text in listed("negations") for word in clause.statement.words[max(0, i - 2) : i])
    if clause.hedged or clause.says_more(1) or not near or (right and len(right) < len(found)):
        return None
    if len(clause.table.rows) > 1 and not any(c != column or not clause.table.columns[c].name for c in clause.bound.groups):
        return None
    return Finding(False, text, value, r, at, "state")


def booleans(clause: Clause) -> Iterator[Finding]:
    """Columns of yes and no that a statement speaks of, beside whether it is negated; and whether a column has anything at all."""
    yield from _nobody(clause)
    for c, (score, by) in clause.columns.items():
        values = [row.values[c] for row in clause.table.rows if row.values.get(c)]
        found = [(r, row.values[c]) for r, row in clause.rows if c in row.values]
        if score < FULLY or not values or any(boolean_of(value) is None for value in values) or not found or len(found) < len(clause.rows):
            continue
        if any(word.text in listed("only") | listed("every") for word in clause.statement.words):
            continue
        says = not (clause.statement.negated or any(word.text in listed("none") for word in clause.statement.words))
        right = [(r, value) for r, value in found if boolean_of(value) is says]
        if right:
            yield Finding(True, "", right[0][1], right[0][0], by, "boolean")
        elif not clause.hedged and not clause.says_more(1) and not clause.statement.quantities.numbers:
            name = clause.table.columns[c].name
            yield Finding(False, clause.statement.text, f"{name}: {found[0][1]}", found[0][0], by, "boolean")


def _nobody(clause: Clause) -> Iterator[Finding]:
    """ "Nobody is assigned to it", and "no fines": the column is empty, or it is not."""
    first = {word.text for word in clause.statement.words[:3]} & listed("none")
    for c, (score, by) in clause.columns.items() if first and len(clause.rows) == 1 and not clause.hedged else ():
        r, row = clause.rows[0]
        value = row.values.get(c, "")
        if score < 0.8 or not value or clause.says_more(1) or any(map(str.isdigit, value)) or states_of(words(value)):
            continue
        empty = boolean_of(value)
        if empty is None and (score == 2.0 or clause.bound.groups) and len(words(value)) <= MAX_NAME_WORDS:
            yield Finding(False, " ".join(first), value, r, by, "boolean")
        elif empty is False:
            yield Finding(True, " ".join(first), value, r, by, "boolean")
