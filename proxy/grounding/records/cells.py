"""What is read of structured evidence: tables of rows, each value with the name of its column and the numbers, dates and times in it.

Between `proxy.grounding.records.reading`, which makes them, and `binding`, which looks statements up in them. Pure.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS
from proxy.language import names
from proxy.language.dates import Date
from proxy.language.quantities import Quantities, Quantity, Unit, read_quantities, unit_of
from proxy.language.text import fold
from proxy.language.words import FUNCTION_WORDS as STOP_WORDS

MAX_VALUE_CHARS = 60
"""A longer cell is a text of its own: nothing is looked up in it, but that it says something counts."""
_YEAR_DIGITS = 4
_MOMENT_WORDS = 4
"""A cell of more words says more than when."""
TOKEN = re.compile(r"[^\W_]+(?:[._:/@+~-]+[^\W_]+)*|[~+-](?=[a-z]{2,8}\b)[a-z]+")
"""Words, and ids, versions, file names and hosts in one piece."""
_PARTS = re.compile(r"[^\W_]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STAMP = re.compile(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})\d{2}Z?|(?<=\d)T(?=\d\d:\d\d)|(?<=:\d\d)(?:\.\d{1,9})?Z\b")
_DAYS = re.compile(r"(?<=\d)d\b")
_THOUSANDS = {"k": 1e3, "thousand": 1e3, "thousands": 1e3, "tsd": 1e3, "miles": 1e3, "milliers": 1e3, "migliaia": 1e3, "mil": 1e3}
_MILLIONS = dict.fromkeys(("million", "millions", "mio", "mln", "millones", "milioni", "milhoes", "meur", "musd"), 1e6)
_SCALES = _THOUSANDS | _MILLIONS
"""What a column's numbers stand for, by a word of its name."""
_COMPOUND_UNIT = re.compile(r"(?<=\d)(?:/[a-zA-Z]{1,6}|[mun](?![\w²³]))")
"""Names of columns that say which one, and not how many."""
_PLAIN = re.compile(r"-?\d{1,15}(?:\.(\d{1,2}|\d{4,8}))?")
_NUMBER = re.compile(r"[-−]?\d[\d.,   '’]*")


def words(text: str) -> tuple[str, ...]:
    """The folded words of a text: "memory_gb" and "memoryGb" are two."""
    return tuple(fold(word) for word in _PARTS.findall(_CAMEL.sub(" ", text).replace("_", " ")))


def tokens(text: str) -> tuple[str, ...]:
    """Its folded words, ids in one piece."""
    return tuple(fold(word) for word in TOKEN.findall(text))


def alike(a: str, b: str) -> bool:
    """Whether two folded words are one in two forms; codes and numbers have one form."""
    return a == b or (a.isalpha() and b.isalpha() and names.alike(a, b))


def names_any(word: str, listed: Iterable[str]) -> bool:
    """Whether a word is one of a list, in whatever form."""
    return any(alike(word, other) for other in listed)


_NOTHING = Quantities((), (), ())


@lru_cache(maxsize=8192)
def read_value(text: str) -> Quantities:
    """Numbers, dates and times of a cell."""
    if not any(map(str.isdigit, text)):
        return _NOTHING
    return read_quantities(_STAMP.sub(lambda m: f"{m[1]}-{m[2]}-{m[3]} {m[4]}:{m[5]}" if m[1] else " ", text))


class Column:
    """The name of a column or field."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def words(self) -> tuple[str, ...]:
        """Its folded words."""
        return words(self.name)

    @cached_property
    def unit(self) -> Unit | None:
        """What its name says that its numbers are counted in: "salary (EUR)", "memory_gb"."""
        if re.search(r"(?:[^\W\d_]{1,4}|[€$£])/[^\W\d_]{1,4}", self.name):  # "t/ha"
            return None
        if self.words and len(self.words) == 1 and self.words[0] in listed("calendar"):
            return None
        of_what = re.split(r"[ _](?:per|pro|por|par)[ _]", _CAMEL.sub(" ", self.name))[0].replace("_", " ")
        for word in reversed(re.findall(r"[^\W_]+[²³]?|[%€$£°]C?", of_what)):
            if (unit := unit_of(word) or unit_of(word.lower()) or (unit_of(word.upper()) if len(word) < 4 else None)) is not None:
                instrument = word.lower() == "meter" and len(self.words) > 1 and "(" not in self.name  # "hour_meter"
                return None if instrument or (unit.dimension == "time" and "price" in concepts_of(self.words)) else unit
        return None


class Row:
    """One row, record, section or line."""

    def __init__(self, values: dict[int, str], start: int, end: int, text: str = "") -> None:
        self.values = values
        """By position of the column."""
        self.start, self.end = start, end
        """Characters of the text before its first and behind its last one."""
        self._text = text

    @cached_property
    def text(self) -> str:
        """All that it says, folded, one space between words."""
        return " ".join(tokens(self._text or "; ".join(self.values.values())))

    def number(self, column: int, unit: Unit | None = None) -> Quantity | None:
        """The one number of a cell, in the column's unit where it has none."""
        return number_of(self.values.get(column, ""), unit)

    def date(self, column: int) -> Date | None:
        """The one date of a cell."""
        text = self.values.get(column, "")
        if _PLAIN.fullmatch(text) and len(text) != _YEAR_DIGITS:
            return None
        found = read_value(text).dates if len(text) <= MAX_VALUE_CHARS and len(text.split()) <= _MOMENT_WORDS + 2 else ()
        return found[0] if len(found) == 1 else None

    def minutes(self, column: int) -> tuple[int, ...]:
        """The time of day of a cell, or its two of a span."""
        text = self.values.get(column, "")
        if _PLAIN.fullmatch(text):
            return ()
        found = read_value(text).times if len(text) <= MAX_VALUE_CHARS and len(text.split()) <= _MOMENT_WORDS else ()
        return tuple(minute for time in found for minute in time.minutes) if 1 <= len(found) <= 2 else ()


_CAPITALISED = re.compile(r"\b[^\W\d_a-z]\w+")


@lru_cache(maxsize=8192)
def number_of(text: str, unit: Unit | None = None) -> Quantity | None:
    """The number that a cell is, with its unit; None for a cell that says more than a number."""
    if not text or len(text) > MAX_VALUE_CHARS or not any(map(str.isdigit, text)):
        return None
    if (plain := _PLAIN.fullmatch(text)) is not None:  # most cells: 20 times as fast
        return Quantity((float(text),), unit, 10.0 ** -len(plain[1]) if plain[1] else 1.0, 0, len(text), text)
    read = read_quantities(_COMPOUND_UNIT.sub(" ", _DAYS.sub(" days", text)))
    found = list(read.numbers)
    if not found and not read.times and _NUMBER.fullmatch(text.strip()) and (read.dates or text.strip().isdigit()):
        found = list(read_quantities(f"{text.strip()} x").numbers) or [_plain(text.strip())]
    if len(found) != 1 or read.times or (read.dates and not _NUMBER.fullmatch(text.strip())):
        return None
    one = found[0]
    before, rest = text[: one.start].strip(), text[: one.start] + text[one.end :]
    if len(_PARTS.findall(rest)) > 2 or any(c.isdigit() for c in rest):
        return None
    named = unit_of(before.strip(" .~≈≥≤<>=+-"))
    if _PARTS.search(before) and named is None and (one.dimension == "" or not before.isalpha() or not before.islower()):
        return None  # "Aisle 1" and "Coffee 500 g" are names, "seal 14 mm" is a size
    if one.unit is None and not before and len(_CAPITALISED.findall(rest)) > 1:
        return None  # "5 Quay Steps" is an address
    unit = named or unit
    if one.unit is None and unit is not None:
        return Quantity(one.values, unit, one.step, one.start, one.end, one.text, one.relation, one.spelled)
    return one


def _plain(text: str) -> Quantity:
    """A bare whole number that could be a year."""
    value = float(re.sub(r"\D", "", text) or 0)
    return Quantity((value,), None, 1.0, 0, len(text), text)


class Table:
    """Rows with the same columns."""

    def __init__(self, columns: Iterable[str], rows: Iterable[Row], title: str = "") -> None:
        self.columns = tuple(Column(name) for name in columns)
        self.rows = tuple(rows)
        self.title = title
        self._numbers: dict[tuple[int, int], Quantity | None] = {}
        self.index: Any = None
        """Where the words of its values are (`binding`), once that was asked."""
        self.start = min((row.start for row in self.rows), default=0)
        self.end = max((row.end for row in self.rows), default=0)

    @cached_property
    def title_words(self) -> frozenset[str]:
        """Words of what stands over it."""
        return frozenset((*tokens(self.title), *words(self.title)))

    @cached_property
    def name_words(self) -> frozenset[str]:
        """Words of its columns' names."""
        return frozenset(word for column in self.columns for word in column.words)

    @cached_property
    def common(self) -> frozenset[str]:
        """Words that each of several rows has."""
        return frozenset.intersection(*(frozenset(row.text.split()) for row in self.rows)) if len(self.rows) > 2 else frozenset()

    @cached_property
    def numeric(self) -> frozenset[int]:
        """The columns that have more numbers than anything else."""
        return frozenset(
            c
            for c in range(len(self.columns))
            if 2 * sum(row.number(c) is not None for row in self.rows) > sum(bool(row.values.get(c)) for row in self.rows)
        )

    @cached_property
    def distinct(self) -> frozenset[int]:
        """The columns with another value in each row, which may be the rows' names."""
        values = {c: [row.values.get(c, "") for row in self.rows] for c in range(len(self.columns))}
        return frozenset(c for c, found in values.items() if len(set(found)) == len(found) and all(found))

    @cached_property
    def years(self) -> frozenset[int]:
        """The columns whose bare numbers are years."""
        bare = {c: [v for row in self.rows if (v := row.values.get(c, "")).isdigit()] for c in range(len(self.columns))}
        return frozenset(c for c, found in bare.items() if found and all(len(v) == 4 and "1700" < v < "2200" for v in found))

    def date(self, row: Row, column: int) -> Date | None:
        """The one date of a cell; a bare number is one in a column of years."""
        return None if row.values.get(column, "").isdigit() and column not in self.years else row.date(column)

    def number(self, row: Row, column: int) -> Quantity | None:
        """The one number of a cell, as written and as what it stands for: 412 of "revenue (k)" is 412,000, too."""
        key = id(row), column
        if key not in self._numbers:
            found = row.number(column, self.unit(column))
            scale = next((_SCALES[word] for word in self.columns[column].words if word in _SCALES), None)
            if found is not None and scale is not None:
                found = replace(found, values=(*found.values, *(value * scale for value in found.values)))
            self._numbers[key] = found
        return self._numbers[key]

    def unit(self, column: int) -> Unit | None:
        """What a column's numbers are counted in."""
        return self.columns[column].unit


# ---- lexicon ----


class State(NamedTuple):
    """What a word says of how something stands."""

    group: str
    which: int


class Lexicon(NamedTuple):
    """What is known of a folded word."""

    concepts: dict[str, frozenset[str]]
    states: dict[str, frozenset[State]]
    words: dict[str, frozenset[str]]
    """Plain lists, by what their words have in common."""


@cache
def lexicon() -> Lexicon:
    """The lists of this project."""
    read = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))
    concepts: dict[str, set[str]] = {}
    for concept, listed in read["concepts"].items():
        for word in listed.split():
            concepts.setdefault(word, set()).add(concept)
    states: dict[str, set[State]] = {}
    for group, lists in read["states"].items():
        for which, listed in enumerate(lists):
            for word in listed.split():
                states.setdefault(word, set()).add(State(group, which))
    words = {name: frozenset(listed.split()) for name, listed in read["words"].items()}
    words["skipped"] = (words["skipped"] | FUNCTION_WORDS | STOP_WORDS) - {"name", "many", "no", "non"}
    return Lexicon(
        {word: frozenset(found) for word, found in concepts.items()}, {word: frozenset(found) for word, found in states.items()}, words
    )


def listed(name: str) -> frozenset[str]:
    """A plain list."""
    return lexicon().words[name]


def concepts_of(words: tuple[str, ...]) -> frozenset[str]:
    """What a column's name or a statement's words are about."""
    known = lexicon().concepts
    return frozenset(concept for word in words for concept in known.get(word, ()))


def states_of(words: tuple[str, ...]) -> frozenset[State]:
    """The states that a value's words name, "not ready" and "notready" alike."""
    known = lexicon().states
    denied = {b for a, b in pairwise(words) if a in listed("denying")}
    joined = [joint for a, b in pairwise(words) for joint in (a + b, f"{a}-{b}")]
    return frozenset(state for word in (*(w for w in words if w not in denied), *joined) for state in known.get(word, ()))


def boolean_of(text: str) -> bool | None:
    """What a cell of a column of yes and no says; of "2/3" whether it is all of them."""
    word = fold(text.strip())
    done, mark, whole = word.partition("/")
    if mark and done.isdigit() and whole.isdigit():
        return done == whole if int(done) <= int(whole) else None
    return True if word in listed("yes") else False if word in listed("no") else None
