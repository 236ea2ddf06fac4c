"""A statement -> the rows that it names, by the values of theirs that stand in it, and the columns that its other words speak of.

In: a statement and a table of `proxy.grounding.records.reading`. Out: a `Bound`. A value counts as named where its words stand in the
statement, all of them, or those by which it differs from the others of its column: an id, a capitalised name. Values of one column are
alternatives ("Ada and Bram"); values of two columns must meet in one row. Pure; a statement's words are looked up in an index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.records.cells import (
    MAX_VALUE_CHARS,
    TOKEN,
    Column,
    Table,
    alike,
    concepts_of,
    lexicon,
    listed,
    names_any,
    read_value,
    tokens,
)
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import Quantities, read_quantities, unit_of
from proxy.language.text import fold, is_negated
from proxy.offloop import each

_MAX_WORDS = 80
_MAX_CELLS = 400
"""A word that stands in more cells tells no row from another."""
_PREFIX_CHARS = 4
_MAX_TOKENS = 8
"""A value of more words is a text, in which only ids and names are looked up."""
_MAX_SPAN = 6
_FEW, _LONG_WORD = 3, 5
_TEXTS = phrases(Path(__file__).parent)
_NOT_SO, _OTHERWISE = LazyPattern(_TEXTS.NOT_SO), LazyPattern(_TEXTS.OTHERWISE)
_ID = re.compile(r"(?=.*\d)[^\W_][\w./:@+~-]*|[a-z]+(?:[._/:@-][a-z0-9]+)+")
_VERSION = re.compile(r"\d{1,3}(?:\.\d{1,3}){1,3}")


class Word(Struct, frozen=True):
    """A word of a statement."""

    text: str
    start: int
    end: int
    capital: bool
    """Written with a capital that is not only a sentence's or a German noun's."""

    @property
    def is_id(self) -> bool:
        """Whether it names one thing: it has a digit, or dots or slashes within."""
        return _ID.fullmatch(self.text) is not None and len(self.text) > 1


class Statement:
    """A statement, read once for all tables."""

    def __init__(self, text: str, language: str) -> None:
        self.text, self.language = text, language
        found = list(TOKEN.finditer(text))[:_MAX_WORDS]
        self.words = [Word(fold(m[0]), m.start(), m.end(), _is_capital(m[0], i, language)) for i, m in enumerate(found)]

    @cached_property
    def quantities(self) -> Quantities:
        """Its numbers, dates and times."""
        found = read_quantities(self.text, self.language)
        plain = [replace(q, unit=None) if self.text[q.end : q.end + 1] == "/" else q for q in found.numbers]  # "9.6 t/ha"
        return Quantities(tuple(plain), found.dates, found.times)

    @cached_property
    def values_at(self) -> list[frozenset[int]]:
        """The positions of the words of each number, date and time."""
        read = self.quantities
        places = [
            *((q.start, q.end) for q in read.numbers),
            *((date.start, date.end) for date in read.dates),
            *((time.start, time.end) for time in read.times),
        ]
        return [frozenset(self.at(*place)) for place in places]

    @cached_property
    def grouped_at(self) -> list[frozenset[int]]:
        """The positions of the digits of each number that is written in groups: "000" of "8,000" names nothing by itself."""
        places = [frozenset(self.at(q.start, q.end)) for q in self.quantities.numbers]
        groups = [frozenset(i for i in at if self.words[i].text.isdigit()) for at in places]
        return [group for group in groups if len(group) > 1]

    @cached_property
    def negated(self) -> bool:
        """Whether it says that something is not so."""
        return is_negated(self.text, self.language)

    @cached_property
    def denies(self) -> bool:
        """Whether anything in it is negated, be it twice."""
        return self.negated or not listed("negations").isdisjoint([word.text for word in self.words])

    @cached_property
    def hedged(self) -> bool:
        """Whether it compares, supposes or excepts, speaks of another time or of an act: what it says need not stand in the cells."""
        named = [word.is_id and any(map(str.isalpha, word.text)) for word in self.words]  # no "si" of "SI-16"
        said = " ".join(word.text for word, is_name in zip(self.words, named, strict=True) if not is_name)
        return _NOT_SO.search(said) is not None or _OTHERWISE.search(said) is not None

    @cached_property
    def than(self) -> int | None:
        """The position of the word with which it compares."""
        said = [word.text for word in self.words]
        return next((said.index(word) for word in ("than", "als", "que") if word in said), None)

    def at(self, start: int, end: int) -> set[int]:
        """The positions of the words between two characters."""
        return {i for i, word in enumerate(self.words) if word.start < end and word.end > start}

    def content(self) -> Iterator[int]:
        """The positions of words that name something."""
        return (i for i, word in enumerate(self.words) if len(word.text) > 1 and (word.text not in listed("skipped") or self._is_code(i)))

    def _is_code(self, i: int) -> bool:
        """Whether a word is half of a name: "OB" of "OB 77", and no German "ob"."""
        word, rest = self.words[i], self.words[i + 1 :]
        return self.text[word.start : word.end].isupper() and bool(rest) and rest[0].text.isdigit()


def _is_capital(raw: str, position: int, language: str) -> bool:
    return raw[0].isupper() and ((position > 0 and language != "de") or raw[1:].lower() != raw[1:])


class Span(Struct, frozen=True):
    """Words of a statement that stand in cells."""

    words: frozenset[int]
    whole: bool
    """Whether they are all that the cells say."""
    sure: bool
    """Whether they are an id or a name."""
    rows: dict[int, frozenset[int]]
    """By column."""


class Bound(Struct, frozen=True):
    """A statement within a table."""

    table: Table
    spans: list[Span]
    groups: dict[int, frozenset[int]]
    """The rows that are named, by the column of the values that name them."""
    rows: frozenset[int]
    """Those that all of them name; all rows, where there is but one and nothing is named."""

    @property
    def used(self) -> frozenset[int]:
        """The positions of the words that name values."""
        return frozenset(i for span in self.spans for i in span.words)


class _Index:
    """Where the words of a table's values are."""

    def __init__(self, table: Table) -> None:
        self.cells: dict[tuple[int, int], tuple[str, ...]] = {}
        self.by_word: dict[str, set[tuple[int, int]]] = {}
        names = frozenset(c for c in range(len(table.columns)) if _is_key(table, c))
        for r, row in enumerate(each(table.rows)):
            for c, value in row.values.items():
                if (c in table.numeric and c not in names) or (_is_moment(value) and c not in table.years):
                    continue
                found = _content(value)
                self.cells[r, c] = found
                for word in {*found, *(part for token in found for part in re.split(r"[/:@-]+|(?<=[a-z])_", token) if len(part) > 2)}:
                    self.by_word.setdefault(word[:_PREFIX_CHARS], set()).add((r, c))


def _is_moment(value: str) -> bool:
    """Whether a cell is a date or a time of day: what a statement says of a row, and no name of it."""
    if len(value) > MAX_VALUE_CHARS or _VERSION.fullmatch(value) or not any(c.isdigit() for c in value):
        return False
    read = read_value(value)
    places = [*((date.start, date.end) for date in read.dates), *((time.start, time.end) for time in read.times)]
    if not places or _is_numbered(value, tokens(value)):
        return False
    return len(re.findall(r"[^\W\d_]{3,}", _without(value, places))) <= 1


def _without(text: str, places: Sequence[tuple[int, int]]) -> str:
    for start, end in places:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _content(value: str) -> tuple[str, ...]:
    """The words of a cell; without those that say nothing, unless nothing else is left."""
    found = tokens(value)
    if _is_numbered(value, found) or (len(found) == 2 and value[:1].isupper() and len(found[0]) == 1):
        return found  # "OB 77" is a flight, and no German "ob"; "A check" is not any check
    return tuple(t for t in found if t not in listed("skipped")) or found


def _is_numbered(value: str, found: Sequence[str]) -> bool:
    """Whether a cell's words are capitals with a number: "VA 2040" is a flight, and no year."""
    return len(found) == 2 and value[: len(found[0])].isupper() and found[1].isdigit()


def _is_key(table: Table, column: int) -> bool:
    """Whether the numbers of a column are names: of orders, years, tickets."""
    if column in table.years:
        return True
    values = [row.values.get(column) for row in table.rows]
    distinct = len(set(values)) == len(values) and all(value and value.isdigit() and len(value) > 2 for value in values)
    return distinct and (column == 0 or bool(listed("id_columns") & set(table.columns[column].words)))


def bind(statement: Statement, table: Table) -> Bound:
    """The rows of `table` that `statement` names: those of the values that name fewest, which as many others as can be name too."""
    table.index = table.index or _Index(table)
    spans = _spans(statement, table, table.index)
    whole = {_column(span, table) for span in spans if span.whole}
    spans = [span for span in spans if span.whole or span.sure or _column(span, table) not in whole]
    groups: dict[int, frozenset[int]] = {}
    for span in sorted(spans, key=lambda span: (not span.sure, min(map(len, span.rows.values())))):
        column = _column(span, table)
        rows, found = groups.get(column, frozenset()), span.rows[column]
        groups[column] = rows | found if table.columns[column].name or not rows else rows & found or rows  # of a line each word tells more
    if not groups:
        return Bound(table, spans, groups, _by_columns(statement, table))
    sure = {c for c in groups if any(c in span.rows and (span.sure or span.whole) for span in spans)}
    rows = frozenset(range(len(table.rows)))
    for c in sorted(groups, key=lambda c: (c not in sure, c not in table.distinct, len(groups[c]), c)):
        rows = rows & groups[c] or rows
    return Bound(table, spans, groups, rows)


def subject_of(statement: Statement, table: Table, pronoun: str) -> tuple[str, int]:
    """The words by which `statement` names its one row for sure, and their column: what a `pronoun` that follows it means; else ("", -1).

    A person is meant only where nothing else is named: "Bo works for Paula. She ..." may be of either.
    """
    bound = bind(statement, table)
    if len(bound.rows) != 1 or not all(rows & bound.rows for rows in bound.groups.values()):
        return "", -1
    if not bound.spans or (pronoun in listed("persons") and len(bound.spans) > 1):
        return "", -1
    span = min(bound.spans, key=lambda span: min(span.words))
    if bound.rows not in span.rows.values() or not (span.sure or span.whole) or not table.columns[_column(span, table)].name:
        return "", -1  # and of a log's line a pronoun may mean the next
    words = [statement.words[i] for i in sorted(span.words)]
    return statement.text[words[0].start : words[-1].end], _column(span, table)


def _by_columns(statement: Statement, table: Table) -> frozenset[int]:
    """Where no value names a row: the only row, or the only one that has a column of that name, as a setting in one of many sections."""
    if len(table.rows) == 1:
        return frozenset((0,))
    found: set[int] = set()
    for c, column in enumerate(table.columns):
        filled = [r for r, row in enumerate(table.rows) if c in row.values]
        if len(filled) == 1 and names_column(statement, column, table, frozenset())[0] >= 1.5:
            found |= set(filled)
    return frozenset(found) if len(found) == 1 else frozenset()


def _column(span: Span, table: Table) -> int:
    """The column that a span is of: the one in which it tells most rows from others, the first of them."""
    return min(span.rows, key=lambda c: (not table.columns[c].name, len(span.rows[c]), c))


def _spans(statement: Statement, table: Table, index: _Index) -> list[Span]:
    found: list[Span] = []
    taken: set[int] = set()
    for i in statement.content():
        if i in taken or statement.words[i].text in listed("none"):
            continue
        cells = _candidates(statement.words[i], index)
        matches: dict[frozenset[int], dict[int, set[int]]] = {}
        whole: dict[frozenset[int], set[int]] = {}
        for r, c in each(cells):
            span, full = _match(statement, i, index.cells[r, c], table.rows[r].values[c])
            if span and not any(span & at and not at <= span for at in statement.grouped_at):
                matches.setdefault(span, {}).setdefault(c, set()).add(r)
            if full:
                whole.setdefault(span, set()).add(c)
        if not matches:
            continue
        best = max(matches, key=lambda span: (len(span), span in whole))
        places = {c: rows for c, rows in matches[best].items() if c in whole.get(best, matches[best])}  # a name, and no text it stands in
        bare = len(best) == 1 and re.fullmatch(r"[\d:]+", statement.words[i].text) is not None
        if bare and all(not table.columns[c].name for c in places):
            continue  # a number, or a time, of a line names nothing by itself
        by_column = {c: _closest(rows, c, index) if table.columns[c].name else frozenset(rows) for c, rows in places.items()}
        sure = any(statement.words[k].is_id or statement.words[k].capital for k in best)
        if all(((w := statement.words[k].text).isdigit() and len(w) < 3) or unit_of(w) is not None for k in best):
            continue
        few = any(len(rows) <= _FEW for rows in by_column.values())
        if len(best) > 1 and few and any(statement.words[k].text.isdigit() for k in best):  # "pump 4"
            sure = True
        if not any(statement.words[k].is_id for k in best) and _names_columns(statement, best, by_column, table):
            continue
        if best not in whole and not sure:
            if not _tells(statement, best, by_column, table, index):
                continue
            stated = {t for c, rows in by_column.items() for r in rows for t in index.cells[r, c]}
            sure = any(len(statement.words[k].text) > _LONG_WORD and statement.words[k].text in stated for k in best)
        if any(len(rows) < len(table.rows) for rows in by_column.values()) or len(table.rows) == 1:
            found.append(Span(best, best in whole, sure, by_column))
            taken |= best
    return found


def _names_columns(statement: Statement, span: frozenset[int], rows: dict[int, frozenset[int]], table: Table) -> bool:
    """Whether words are a column's, and only a part of the cells that have them: "has 24 ports" where another row has "all ports"."""
    if not all(names_any(statement.words[i].text, table.name_words) for i in span):
        return False
    return all(len(tokens(table.rows[r].values[c])) > len(span) for c, found in rows.items() for r in found)


def _closest(rows: set[int], column: int, index: _Index) -> frozenset[int]:
    """Of the rows whose values have the words, those of which they are the largest part: "Forte" is not "Forte Bare"."""
    least = min(len(index.cells[r, column]) for r in rows)
    return frozenset(r for r in rows if len(index.cells[r, column]) == least) if least <= _MAX_TOKENS else frozenset(rows)


def _candidates(word: Word, index: _Index) -> list[tuple[int, int]]:
    found = index.by_word.get(word.text[:_PREFIX_CHARS], set())
    return sorted(found) if len(found) <= _MAX_CELLS else []


def _match(statement: Statement, i: int, cell: Sequence[str], value: str) -> tuple[frozenset[int], bool]:
    """The words from `i` on that stand in a cell in a row, and whether they are all of it."""
    words = statement.words
    best: list[int] = []
    for k, token in enumerate(cell):
        if not _same(words[i].text, token):
            continue
        run, at, want = [i], i + 1, k + 1
        stated = len(cell) == 2 and not k and at < len(words) and words[at].text == cell[1]  # "prova enviada" is all of it
        while want < len(cell) and at < len(words) and len(run) < _MAX_SPAN:
            if _same(words[at].text, cell[want]) and (stated or words[at].text not in lexicon().states):
                run.append(at)
                want += 1
            elif words[at].text not in listed("skipped") or words[at].text in lexicon().states:
                break
            at += 1
        if len(run) > len(best):
            best = run
    if not best:
        return frozenset(), False
    plain = [token for token in cell if not _is_measure(token) and not (len(token) == 1 and f"{token.upper()}." in value)]
    full = len(best) >= len(cell) or (len(best) >= max(1, len(plain)) and len(value) <= MAX_VALUE_CHARS)
    return frozenset(best), full


def _same(word: str, token: str) -> bool:
    if word == token or alike(word, token):
        return True
    return (
        len(word) > 2
        and len(token) > len(word)
        and (word in re.split(r"[/:@]+" if len(word) < 5 else r"[/:@-]+", token) or word == token.rstrip("0123456789"))
    )


def _is_measure(token: str) -> bool:
    """Whether a word of a name is only how much of it there is: "500g" of "coffee 500g"."""
    match = re.fullmatch(r"\d+(?:[.,]\d+)?([a-z]{0,3})", token)
    return match is not None and (not match[1] or unit_of(match[1]) is not None or unit_of(match[1].upper()) is not None)


def _tells(statement: Statement, span: frozenset[int], rows: dict[int, frozenset[int]], table: Table, index: _Index) -> bool:
    """Whether part of a value tells it from the others of its column: half of its words, and in no other value."""
    if any(len(statement.words[k].text) <= 3 for k in span):
        return False
    for c, found in rows.items():
        cells = {index.cells[r, c] for r in found if (r, c) in index.cells}
        cell = next(iter(cells)) if len(cells) == 1 else ()
        plain = [token for token in cell if not _is_measure(token)]
        if cell and len(cell) <= _MAX_TOKENS and 2 * len(span) >= len(plain) and c not in table.numeric:
            return True
    return False


# ---- columns ----


def names_column(statement: Statement, column: Column, table: Table, used: frozenset[int]) -> tuple[float, frozenset[int]]:
    """How much a statement speaks of a column, 0 to 2, and the positions of the words that do: by its name, else by what it means."""
    own = tuple(
        word for word in column.words if word not in listed("skipped") and unit_of(word) is None and (len(word) > 1 or word.isdigit())
    )
    if not own:
        return 0.0, frozenset()
    hits: dict[str, int] = {}
    for i, word in enumerate(statement.words):
        if i in used:
            continue
        for part in re.split(r"[-_./]", word.text):
            for name in own:
                if name not in hits and _names(part, name):
                    hits[name] = i
    if hits and (any(name.isalpha() for name in hits) or len(hits) == len(own)):
        distinctive = [name for name in hits if sum(name in other.words for other in table.columns) == 1]
        share = len(hits) / len(own)
        return (1.0 + share if distinctive or share == 1.0 else 0.5 + share / 2), frozenset(hits.values())
    about = concepts_of(own)
    spoken = {i for i, word in enumerate(statement.words) if i not in used and about & lexicon().concepts.get(word.text, frozenset())}
    return (0.8, frozenset(spoken)) if spoken else (0.0, frozenset())


def _names(word: str, name: str) -> bool:
    if alike(word, name):
        return True
    if 3 <= len(name) <= 5 and word.startswith(name) and word.isalpha():  # "Fri" and "Friday", "temp"
        return True
    return len(word) > 5 and len(name) > 5 and word[-6:] == name[-6:] and (word in name or name in word)  # Urlaub, Resturlaub
