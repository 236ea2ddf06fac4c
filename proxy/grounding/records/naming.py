"""Names and codes: values of two columns that stand in no row together, a column with another's value, codes that stand nowhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.grounding.records.binding import Bound
from proxy.grounding.records.cells import TOKEN, Row, tokens, words
from proxy.grounding.records.clause import MAX_EXTRA, NAMED, Clause, Finding
from proxy.grounding.records.evidence import is_text
from proxy.grounding.records.lexicon import boolean_of, listed, states_of
from proxy.language.names import folded

MAX_ROW_CHARS = 200
FULLY = 1.5
"""How plainly a column must be spoken of (`binding.names_column`): by half of its words."""


def relations(clause: Clause) -> Iterator[Finding]:
    """Values of two columns that meet in no row: the row that the surest of them names has another value in the other's column."""
    bound, table, statement = clause.bound, clause.table, clause.statement
    together = [c for c, rows in bound.groups.items() if rows & bound.rows]
    if len(together) > 1 and not statement.negated and clause.rows:
        yield Finding(True, "", "", min(bound.rows), bound.used, "relation")
    if statement.negated or clause.hedged or clause.says_more(MAX_EXTRA, apart=1) or not any(_sure(bound, c) for c in together):
        return
    for column, rows in bound.groups.items():
        if rows & bound.rows or not _sure(bound, column):
            continue
        cells = [(r, row.values.get(column, "")) for r, row in clause.rows]
        spoken = next(span for span in bound.spans if column in span.rows)
        if not spoken.whole and not any(statement.words[i].is_id for i in spoken.words) and len(spoken.words) < 2:
            continue
        if not cells or any(not value or is_text(table, column, value) for _, value in cells):
            continue
        said = [statement.words[i].text for i in sorted(spoken.words)]
        if any(set(said) <= set(row.text.split()) for _, row in clause.rows) or set(said) <= clause.records.loose_tokens:
            continue
        yield Finding(False, " ".join(said), cells[0][1], cells[0][0], spoken.words, "relation")


def texts(clause: Clause) -> Iterator[Finding]:
    """Codes, versions, file and exception names that stand nowhere, where the row has another of their kind; and a column's value that is
    another column's.
    """
    if not clause.rows or clause.statement.negated or clause.hedged or clause.says_more(MAX_EXTRA):
        return
    if not (clause.bound.groups or any(score >= NAMED for score, _ in clause.columns.values())):
        return
    yield from _codes(clause)
    if len(clause.rows) == 1:
        yield from _misplaced(clause, *clause.rows[0])
        yield from _renamed(clause, *clause.rows[0])


def _codes(clause: Clause) -> Iterator[Finding]:
    statement, known = clause.statement, clause.records.tokens
    moments = frozenset[int]().union(*statement.values_at[len(statement.quantities.numbers) :])
    moments |= {i for q in statement.quantities.numbers if q.dimension for i in statement.at(q.start, q.end)}
    said = {word.text for word in statement.words}
    lines = [(span.words, rows) for span in clause.bound.spans for c, rows in span.rows.items() if not clause.table.columns[c].name]
    strange = frozenset(i for at, rows in lines if not rows & clause.bound.rows for i in at)  # words of other lines
    for i, word in enumerate(statement.words):
        raw = statement.text[word.start : word.end]
        form = _form(raw)
        if not form or (i in moments and form.count(".") < 2):
            continue
        if i not in strange and (word.text in known or i in clause.bound.used):
            continue
        cells = [(r, c, value) for r, row in clause.rows for c, value in row.values.items() if len(value) <= MAX_ROW_CHARS]
        like = [
            (r, c, token) for r, c, value in cells for token in TOKEN.findall(value) if _form(token) == form and folded(token) not in said
        ]
        named = [one for one in like if clause.score(one[1]) >= 0.8] or like
        if len({token for _, _, token in named}) == 1:
            yield Finding(False, raw, named[0][2], named[0][0], frozenset((i,)), "code")


def _form(token: str) -> str:
    """What kind of code a token is: "KX-90" letters, a mark and digits; "KeyError" a name of several words; "" for a plain word."""
    if token[0] in "~-+" and token[1:].isalpha():
        return "?" + token[1:]
    if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", token):
        return "Camel"
    if token.isupper() and token.isalpha() and 2 <= len(token) <= 5:
        return "A" * len(token)
    marks = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", token))
    letters = "".join(re.findall(r"[^\W\d_]+", token)).lower()
    if "9" not in marks or marks == "9" or re.fullmatch(r"9[.,]9", marks):
        return ""
    return f"{marks} {letters}" if "a" in marks and len(letters) <= 12 else marks if marks.count(".") > 1 else ""


def _renamed(clause: Clause, r: int, row: Row) -> Iterator[Finding]:
    """A column's name with another short mark than the row's ("gate A"), or with half of a person's name ("Arnold Finch")."""
    statement = clause.statement
    for c, (score, by) in clause.columns.items():
        value = row.values.get(c, "")
        own, after = tokens(value), max(by) + 1
        if score < FULLY or not own or after >= len(statement.words):
            continue
        said = statement.words[after]
        if len(own) == 1 and len(own[0]) <= 2 and len(said.text) == len(own[0]) and said.text.isalpha() is own[0].isalpha():
            marks = {folded(other.values.get(c, "")) for other in clause.table.rows}
            if said.text != own[0] and said.text in marks and row.number(c) is None:
                yield Finding(False, said.text, value, r, frozenset((after,)), "code")
        capitals = [i for i, word in enumerate(statement.words) if word.capital]
        half = [i for i in capitals if statement.words[i].text in own]
        if 2 <= len(own) <= 3 and value.istitle() and len(half) == len(own) - 1:
            beside = [i for i in capitals if i + 1 in half or i - 1 in half]
            strange = [i for i in beside if statement.words[i].text not in clause.records.tokens]
            if len(strange) == 1:
                at = frozenset((*half, *strange))
                yield Finding(
                    False,
                    " ".join(statement.text[statement.words[i].start : statement.words[i].end] for i in sorted(at)),
                    value,
                    r,
                    at,
                    "code",
                )


def _misplaced(clause: Clause, r: int, row: Row) -> Iterator[Finding]:
    """A column's name with a value that the same row has in another column."""
    statement, table = clause.statement, clause.table
    for c, (score, by) in clause.columns.items():
        value = row.values.get(c, "")
        if score < 2.0 or c in clause.bound.groups or not value or is_text(table, c, value) or row.number(c) is not None:
            continue
        said = {word.text for word in statement.words}
        if said & {t for t in tokens(value) if t not in listed("skipped")} or boolean_of(value) is not None or states_of(words(value)):
            continue
        others = [
            s
            for s in clause.bound.spans
            if (s.whole or (s.sure and len(s.words) > 1)) and min(s.words) > max(by) and not any(clause.score(k) for k in s.rows)
        ]
        if (
            others
            and not clause.says_more(0)
            and clause.alone
            and min(others[0].words) - max(by) <= 5
            and (len(table.rows) == 1 or len(clause.bound.groups) > 1)
        ):
            text = " ".join(statement.words[i].text for i in sorted(others[0].words))
            yield Finding(False, text, value, r, others[0].words, "code")


def _sure(bound: Bound, column: int) -> bool:
    return any(column in span.rows and (span.sure or span.whole) for span in bound.spans)
