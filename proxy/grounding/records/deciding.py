"""A statement and the tables of the evidence -> what the cells say to it: supported, contradicted, or nothing. Exact, before any model.

Pure; a statement is read once, and looked up in at most `MAX_TABLES` tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proxy.grounding.records.aggregates import aggregates
from proxy.grounding.records.binding import Bound, Statement, bind, names_column, subject_of
from proxy.grounding.records.cells import MAX_VALUE_CHARS, TOKEN, Row, State, Table, boolean_of, lexicon, listed, states_of, tokens, words
from proxy.grounding.records.clause import MAX_EXTRA, MAX_NAMED_ROWS, NAMED, Clause, Finding, Place, Records, is_text, spoken_states
from proxy.grounding.records.values import denials, values
from proxy.language.dates import date_agrees
from proxy.language.text import fold, without_negation
from proxy.offloop import each

MAX_CLAIM_CHARS = 600
MAX_FIELDS = 12
"""Of a row of the answer's own table; each is looked up like a statement."""
_ADVERBIAL = 3
"""Words of a clause's beginning that a comma cuts off."""
_CLAUSE = re.compile(
    r"(?:[;:–—]|,(?!\d)|\s(?:but|while|whereas|because|since|although|though|aber|sondern|weil|während|obwohl|pero|aunque|porque|mientras|car"
    r"|tandis|alors que|puisque|ma|mentre|poiché|perché|enquanto|embora))\s"
)
_CODE = re.compile(r"[`|=<>{}\[\]*#]|https?://|\w\(|\w\.\w{1,5}:\d")
_MARKUP = re.compile(rf"{_CODE.pattern}|:(?:\s|$)|; ")
"""Code and places in it, rows of the answer's own tables, headings and "Total: …": what these give is often the answer's own, and no
plain sentence."""
_TOPIC = re.compile(r"([^:]{1,80}): (?=[A-Z])")
_HEADED = re.compile(r"([^:]{3,80}): ([^:;]{1,60}?)\.?")
_OWN_NAME, _MEANT = 1.5, 0.8
"""How plainly a label, and a sentence with a pronoun, must name a column (`binding.names_column`): by half its words; by what it means."""
_FRENCH = re.compile(rf"{_CLAUSE.pattern}|\smais\s")


class Verdict(Struct, frozen=True):
    """What the cells say to a statement."""

    supported: bool
    claim: str
    """The statement's words for what differs."""
    evidence: str
    """The cell's."""
    place: Place
    """Where the cell's table stands."""
    row: int
    kind: str = ""

    @property
    def replaces(self) -> bool:
        """Whether the cell's value may stand in place of the statement's."""
        return self.kind in ("number", "date", "time", "code", "relation", "sum", "difference")


def decide(text: str, records: Records, language: str, before: str = "") -> Verdict | None:
    """What the tables of `records` say to the statement `text`; None where they have nothing that decides it.

    Where it begins with a pronoun, `before` is what was stated before it: the row that this names is what the pronoun means. Of an item of
    a list, it is the line above the list, with a colon at its end. Either way a row is only taken for what was meant: a value is then
    contradicted only where it is another row's, in a column that the statement names.
    """
    if len(text) > MAX_CLAIM_CHARS or len(before) > MAX_CLAIM_CHARS or not records.whole or "?" in text:
        return None
    above = before if before.endswith(":") else ""
    if before and not above and (topic := _TOPIC.match(text)) and before.startswith(topic[1]):  # "Van 15: Its battery is at 81%."
        text = text[topic.end() :]
    if (fields := _fields(text, above)) is not None:
        return _of_fields(*fields, records, language)
    if (headed := _HEADED.fullmatch(text)) is not None and not _CODE.search(text):  # "Seats on RE 48: sold out."
        verdict = _of_sentence(f"{headed[1]} {headed[2]}", records, language)
        return verdict if verdict is None or verdict.supported or _is_anothers(verdict, Statement(headed[1], language), _OWN_NAME) else None
    return None if _MARKUP.search(text) else _of_sentence(text, records, language, before)


def _fields(text: str, above: str) -> tuple[str, list[tuple[str, str]]] | None:
    """What "Van 15: Battery: 81%" and "Van: Van 15; Battery: 81%" are about, with labels and values; None for any other text."""
    parts = [part.split(": ") for part in text.rstrip(".").split("; ")]
    if len(parts) > MAX_FIELDS or _CODE.search(text) or not all(1 < len(part) < 4 and all(part) for part in parts):
        return None
    if len(parts) > 1:
        fields = [(part[0], part[1]) for part in parts if len(part) == 2]
        return (fields[0][1], fields[1:]) if len(fields) == len(parts) else None
    *subject, label, value = parts[0]
    name = subject[0] if subject else above.rstrip(": ")
    return (name, [(label, value)]) if name else None


def _of_fields(name: str, fields: Sequence[tuple[str, str]], records: Records, language: str) -> Verdict | None:
    """What the cells say to the values: the first that is another row's, or that all are right. The name has to be all of a cell."""
    named = Statement(name, language)
    places = [place for place in each(records.places) if any(span.whole for span in bind(named, place.table).spans)]
    if not places:
        return None
    found = [_of_field(named, label, value, records, places) for label, value in fields]
    wrong = next((verdict for verdict in found if verdict is not None and not verdict.supported), None)
    return wrong or (found[0] if all(found) else None)


def _of_field(named: Statement, label: str, value: str, records: Records, places: Sequence[Place]) -> Verdict | None:
    """Of one value; its label has to be a column's name."""
    said = Statement(label, named.language)
    places = [
        place for place in places if any(names_column(said, c, place.table, frozenset())[0] >= _OWN_NAME for c in place.table.columns)
    ]
    verdict = _of_sentence(f"{named.text} {label} {value}", records, named.language, places=places) if places else None
    if verdict is None:
        return None
    row = frozenset((verdict.row,))
    if not any(span.whole and row in span.rows.values() for span in bind(named, verdict.place.table).spans):
        return None
    return verdict if verdict.supported or _is_anothers(verdict, said, _OWN_NAME) else None


def _is_anothers(verdict: Verdict, said: Statement, least: float, used: frozenset[int] = frozenset()) -> bool:
    """Whether the value is another row's cell, in a column that `said` names as plainly as `least` by words that are not `used` for a row.
    Any other value may be the answer's own: of a year where the cell is of a month, of what the pronoun meant all the same. A state has a
    name of its own.
    """
    table, claim = verdict.place.table, Statement(verdict.claim, said.language)
    spoken, dates = {word.text for word in claim.words}, claim.quantities.dates
    for c, value in table.rows[verdict.row].values.items():
        is_state = bool(states_of(words(value)))
        if value != verdict.evidence or not (is_state or names_column(said, table.columns[c], table, used)[0] >= least):
            continue
        for row in table.rows:
            if (cell := set(tokens(row.values.get(c, "")))) and (cell <= spoken or (is_state and spoken <= cell)):
                return True
            if dates and (date := table.date(row, c)) is not None and date_agrees(dates[0], date):
                return True
    return False


def _of_sentence(text: str, records: Records, language: str, before: str = "", places: Sequence[Place] | None = None) -> Verdict | None:
    """By all tables, or those at `places`."""
    parts = [Statement(part, language) for part in _clauses(text, language)]
    if not parts:
        return None
    earlier = Statement(before, language) if before and parts[0].words else None
    right: set[tuple[str, str]] = set()
    wrong: list[Verdict] = []
    sound: list[Verdict] = []
    whole = Statement(text, language) if len(parts) > 1 else None
    for place in each(records.places if places is None else places):
        statements = parts if earlier is None else [_with_subject(parts[0], earlier, place.table), *parts[1:]]
        bound = [bind(statement, place.table) for statement in statements]
        assumed = statements[0] is not parts[0]
        mentioned = frozenset(r for one in bound if one.groups and len(one.rows) <= MAX_NAMED_ROWS for r in one.rows)
        for i, (statement, one) in enumerate(zip(statements, bound, strict=True)):
            clause = Clause(statement, one, records, mentioned, whole)
            found = list(_findings(clause, first=not i)) if clause.is_understood else []
            right |= {(finding.kind, finding.claim.casefold()) for finding in found if finding.right}
            if place.outdated:
                continue
            against = [Verdict(False, f.claim, f.evidence, place, f.row, f.kind) for f in found if not f.right]
            wrong += [verdict for verdict in against if not assumed or _is_anothers(verdict, statement, _MEANT, one.used)]
            if whole is None and found and all(f.right for f in found) and clause.says_only(found):
                sound.append(Verdict(True, found[0].claim, found[0].evidence, place, found[0].row, found[0].kind))
    first = next((verdict for verdict in wrong if (verdict.kind, verdict.claim.casefold()) not in right), None)
    return first or (sound[0] if sound and not wrong else None)


def _with_subject(statement: Statement, earlier: Statement, table: Table) -> Statement:
    """With the name of the row that `earlier` is about in its pronoun's place; as it is, where it names one of that kind itself."""
    pronoun = statement.words[0]
    name, column = subject_of(earlier, table, re.split(r"['’]", pronoun.text)[0])
    if not name or column in bind(statement, table).groups:
        return statement
    return Statement(f"{name} {statement.text[pronoun.end :].lstrip()}", statement.language)


def _clauses(text: str, language: str) -> list[str]:
    cuts = [m.span() for m in (_FRENCH if language == "fr" else _CLAUSE).finditer(text) if not _within_brackets(text, m.start())]
    edges = [0, *(at for cut in cuts for at in cut), len(text)]
    parts = [text[a:b].strip() for a, b in zip(edges[::2], edges[1::2], strict=True)]
    if len(parts) > 1 and len(parts[0].split()) <= _ADVERBIAL:  # "In maths, …"
        parts[:2] = [f"{parts[0]} {parts[1]}"]
    return [part for part in parts if len(part) > 3]


def _within_brackets(text: str, at: int) -> bool:
    """Whether brackets are open there: "1 (Ada, paid) and 2 (Bo)" is one clause about two rows."""
    return text.count("(", 0, at) > text.count(")", 0, at)


def _findings(clause: Clause, *, first: bool) -> Iterator[Finding]:
    if first:
        yield from aggregates(clause)
    if clause.rows:
        for check in (values, denials, states, booleans, relations, texts):
            yield from check(clause)


# ---- states ----


MAX_LINE_CHARS = 200
"""A line that says one state is in it."""
FULLY = 1.5
"""How plainly a column of yes and no must be spoken of (`binding.names_column`): by half of its words."""


def states(clause: Clause) -> Iterator[Finding]:
    """Words for how something stands, beside the states of the rows."""
    longer = frozenset(i for span in clause.bound.spans if span.whole and len(span.words) > 1 for i in span.words)
    for i, spoken in spoken_states(clause.statement):
        if i in longer:  # "granted with conditions" is not what "granted" is
            continue
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
        short = len(value) <= (MAX_LINE_CHARS if line else MAX_VALUE_CHARS)
        cell = frozenset(s for s in (states_of(said) if short else ()) if s.group in groups)
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
    if not _is_plain(clause.statement, i):
        return None
    near = not denied or any(word.text in listed("negations") for word in clause.statement.words[max(0, i - 2) : i])
    if clause.hedged or clause.ordinal or clause.says_more(1) or not near or (right and len(right) < len(found)):
        return None
    if len(clause.table.rows) > 1 and not any(c != column or not clause.table.columns[c].name for c in clause.bound.groups):
        return None
    if any(
        text in tokens(f"{clause.table.columns[c].name} {cell}") for _, row in clause.rows for c, cell in row.values.items() if c != column
    ):
        return None  # of something else in the row: who comes to a meeting that is confirmed is "tentative"
    return Finding(False, text, value, r, at, "state")


def _is_named(statement: Statement, i: int) -> bool:
    """Whether a word is a name, or else what something is; not of "the van loads 63 parcels" beside a van that is loading."""
    word = statement.words[i]
    return word.is_id or word.capital or _is_plain(statement, i)


def _is_plain(statement: Statement, i: int) -> bool:
    """Whether a word is what something is: "X is closed", "the door: closed"; not of "X closed the account", "it was sent by a friend"."""
    words = statement.words
    if i + 1 == len(words) or statement.text[words[i].end : words[i].end + 1] in ".,;":
        return True
    return any(word.text in listed("being") for word in words[max(0, i - 3) : i]) and words[i + 1].text not in listed("doing")


def booleans(clause: Clause) -> Iterator[Finding]:
    """Columns of yes and no that a statement speaks of, beside whether it is negated; and whether a column has anything at all."""
    for c, (score, by) in clause.columns.items():
        values = [row.values[c] for row in clause.table.rows if row.values.get(c)]
        found = [(r, row.values[c]) for r, row in clause.rows if c in row.values]
        if score < FULLY or not values or any(boolean_of(value) is None for value in values) or not found or len(found) < len(clause.rows):
            continue
        if any(word.text in listed("only") | listed("every") for word in clause.statement.words):
            continue
        says = _affirms(clause, by, clause.table.columns[c].words)
        right = [(r, value) for r, value in found if says is not None and boolean_of(value) is says]
        if right:
            yield Finding(True, clause.statement.text, right[0][1], right[0][0], by, "boolean")
        elif says is not None and not clause.hedged and not clause.statement.quantities.numbers:
            name = clause.table.columns[c].name
            yield Finding(False, clause.statement.text, f"{name}: {found[0][1]}", found[0][0], by, "boolean")


_OPPOSITES = ("un", "in", "im", "ir", "dis", "des", "de", "non", "nicht")
_FALSE = frozenset(("false", "falso", "falsa", "faux", "fausse", "falsch"))


def _affirms(clause: Clause, by: frozenset[int], names: Sequence[str]) -> bool | None:
    """Whether a statement says yes to a column with such `names`, which it speaks of by the words at `by`; None where a word of it may mean
    either: "is disabled in prod", "is uninsured" say no, "is dark in prod" may.
    """
    statement, named = clause.statement, clause.bound.used | by
    denials = int(statement.negated or any(word.text in listed("none") for word in statement.words))
    for i, word in enumerate(statement.words):
        if word.text in _FALSE:  # the cells' own word, too
            denials += 1
        elif i in by:
            denials += any(word.text == prefix + name for name in names for prefix in _OPPOSITES)
        elif i not in named and (states := lexicon().states.get(word.text)):
            ends = i + 1 == len(statement.words)
            if states not in _SWITCHED or (states == _SWITCHED[1] and word.text in listed("weak_states") and not ends):
                return None
            denials += states == _SWITCHED[1]
    twice = not statement.negated and without_negation(statement.text, statement.language) != statement.text
    return None if clause.extra or denials > 1 or twice else not denials


_SWITCHED = frozenset((State("switch", 0),)), frozenset((State("switch", 1),))


# ---- naming ----


MAX_ROW_CHARS = 200


def relations(clause: Clause) -> Iterator[Finding]:
    """Values of two columns that meet in no row: the row that the surest of them names has another value in the other's column."""
    bound, table, statement = clause.bound, clause.table, clause.statement
    together = [c for c, rows in bound.groups.items() if rows & bound.rows]
    if len(together) > 1 and not statement.denies and clause.rows:
        yield Finding(True, "", "", min(bound.rows), bound.used, "relation")
    if (
        clause.pronoun
        or statement.denies
        or clause.hedged
        or clause.says_more(MAX_EXTRA, apart=1)
        or not any(_sure(bound, c) for c in together)
    ):
        return
    for column, rows in bound.groups.items():
        if rows & bound.rows or not _sure(bound, column):
            continue
        cells = [(r, row.values.get(column, "")) for r, row in clause.rows]
        spoken = next(span for span in bound.spans if column in span.rows)
        if not spoken.whole and not any(statement.words[i].is_id for i in spoken.words) and len(spoken.words) < 2:
            continue
        if len(spoken.words) == 1 and not _is_named(statement, *spoken.words):
            behind = clause.words[min(spoken.words) + 1 :][:1]
            if not spoken.whole or clause.score(column) < NAMED or not listed("doing").isdisjoint(behind):  # "was sent to them"
                continue
        if not cells or any(not value or is_text(table, column, value) for _, value in cells):
            continue
        said = [statement.words[i].text for i in sorted(spoken.words)]
        if not any(set(said) <= set(tokens(table.rows[r].values[column])) for r in rows):  # "loads" is not "loading"
            continue
        if any(set(said) <= set(row.text.split()) for _, row in clause.rows) or set(said) <= clause.records.loose_tokens:
            continue
        yield Finding(False, " ".join(said), cells[0][1], cells[0][0], spoken.words, "relation")


def texts(clause: Clause) -> Iterator[Finding]:
    """Codes, versions, file and exception names that stand nowhere, where the row has another of their kind; and a column's value that is
    another column's.
    """
    if not clause.rows or clause.statement.denies or clause.hedged or clause.says_more(MAX_EXTRA):
        return
    if not (clause.bound.groups or any(score >= NAMED for score, _ in clause.columns.values())):
        return
    yield from _codes(clause)
    if len(clause.rows) == 1:
        yield from _misplaced_values(clause, *clause.rows[0])


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
            (r, c, token) for r, c, value in cells for token in TOKEN.findall(value) if _form(token) == form and fold(token) not in said
        ]
        named = [one for one in like if clause.score(one[1]) >= 0.8] or like
        if len({token for _, _, token in named}) == 1:
            yield Finding(False, raw, named[0][2], named[0][0], frozenset((i,)), "code")


def _form(token: str) -> str:
    """What kind of code a token is: "KX-90" letters, a mark and digits; "KeyError" a name of several words; "" for any other."""
    if token[0] in "~-+" and token[1:].isalpha():
        return "?" + token[1:]
    if re.fullmatch(r"(?:[A-Z][a-z]+){2,}", token):
        return "Camel"
    marks = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", token))
    letters = "".join(re.findall(r"[^\W\d_]+", token)).lower()
    if "9" not in marks or marks == "9" or re.fullmatch(r"9[.,]9", marks):
        return ""
    return f"{marks} {letters}" if "a" in marks and len(letters) <= 12 else marks if marks.count(".") > 1 else ""


def _misplaced_values(clause: Clause, r: int, row: Row) -> Iterator[Finding]:
    """A column's name with a value that the same row has in another column. Not of "He drives Van 17", whose "he" may be the driver."""
    if clause.pronoun:
        return
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
            if (s.whole or (s.sure and len(s.words) > 1))
            and min(s.words) > max(by)
            and not any(clause.score(k) or k in table.distinct for k in s.rows)  # no row's name
        ]
        between = [statement.words[i].text for i in range(max(by) + 1, min(others[0].words))] if others else []
        if (
            others
            and set(between) & listed("being")
            and not set(between) & listed("of")  # "the appointment of Ada is cancelled"
            and not clause.says_more(0)
            and clause.alone
            and min(others[0].words) - max(by) <= 5
            and (len(table.rows) == 1 or len(clause.bound.groups) > 1)
        ):
            text = " ".join(statement.words[i].text for i in sorted(others[0].words))
            yield Finding(False, text, value, r, others[0].words, "code")


def _sure(bound: Bound, column: int) -> bool:
    return any(column in span.rows and (span.sure or span.whole) for span in bound.spans)
