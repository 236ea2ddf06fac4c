"""All that was said in a request, and the values of a claim that nobody has said in it, in whatever form.

For `proxy.grounding.values.slots`: a number counts as said rounded, converted or in words, a date in any order, a name in another
inflection or as initials. Pure; the texts are read at the first look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.evidence.retrieval import NUMERAL
from proxy.grounding.values.arithmetic import is_derived
from proxy.grounding.values.consistency import date_is_said, says_nothing
from proxy.grounding.values.recomputing import date_derived, time_derived, time_in_zone
from proxy.language.dates import Date, Time, date_agrees, tells_days_by_others
from proxy.language.names import Name, NameWords, bare, missing_name, name_words, read_names
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.language.text import fold
from proxy.offloop import each

Kind = Literal["number", "date", "time", "name"]
MAX_SAID_CHARS = 60_000
"""Of what was said; where there is more, nobody can tell quickly that a value is not in it, and nothing is exact."""
MAX_LOOKED, MAX_LOOKED_TOGETHER = 50_000, 500_000
"""Values of a claim times values that were said, and the sum of it over an answer's claims: 0.1 and 1 s. A claim beyond is not compared."""
_JOINT = re.compile(
    r"[ \u00a0](?:and|und|y|e|et|&|of|de|del|della|du|von|der)[ \u00a0](?:(?:the|der|die|das|el|la|los|las|le|les|l['’])[ \u00a0]?)?"
)
_GERMAN_PAIR = re.compile(r"(?:(?<=[a-zäöüß,(] )|(?<=Dr\. )|(?<=Prof\. ))([A-ZÄÖÜ][\w-]{2,} [A-ZÄÖÜ][\w-]{2,})\b(?! [A-ZÄÖÜ])")
_GERMAN_PLACE = re.compile(r"\b(?:in|aus|nach) ([A-ZÄÖÜ][a-zäöüß-]{2,})\b(?! [A-ZÄÖÜ])")
_MONTHS = (
    "january|february|march|april|june|july|august|september|october|november|december|januar|februar|märz|mai|juni|juli|oktober|dezember"
    "|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre|janvier|février|mars|avril|juin|juillet"
    "|août|septembre|octobre|novembre|décembre"
)
ANY_MONTH = re.compile(rf"\b(?:{_MONTHS}|May)\b", re.I)
_MONTH_ALONE = re.compile(
    rf"(?:(?<=\bin )|(?<=\bim )|(?<=\ben )|(?<=\bsince )|(?<=\bseit )|(?<=\bof )|(?<=\bfrom )|(?<=\buntil )|(?<=\bby )|(?<=\bbis ))"
    rf"(?:{_MONTHS}|may)\b(?!,? \d)(?! (?:of|del?) \d)",
    re.I,
)
_COUNTS = re.compile(r"[ \u00a0-]{1,2}[^\W\d_]{3,}")
"""Behind a number without a unit: what it counts."""
TOKEN = re.compile(r"\w+(?:['’-]\w+)*")
_STEMS: dict[int, tuple[str, ...]] = dict(
    enumerate(
        (
            ("jan", "ene"),
            ("feb", "fev"),
            ("mar",),
            ("apr", "abr", "avr"),
            ("may", "mai"),
            ("jun", "jui"),
            ("jul", "jui"),
            ("aug", "ago", "aou"),
            ("sep",),
            ("oct", "okt"),
            ("nov",),
            ("dec", "dez", "dic"),
        ),
        1,
    )
)
"""The first letters of each month's names, folded."""


class StatedValues:
    """All that was said in a request, to look values up in; read at the first look."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._looked: dict[str, int] = {}
        self.texts = tuple(texts)
        self.whole = sum(map(len, texts)) <= MAX_SAID_CHARS
        """Whether all of it can be looked through."""

    def room_for(self, claim: str, values: int) -> bool:
        """Whether so many values of `claim` may still be looked up among those that were said: each is compared with every one of them."""
        spent = self._looked.setdefault(claim, values * len(self.quantities.numbers))
        return spent <= MAX_LOOKED and sum(self._looked.values()) <= MAX_LOOKED_TOGETHER

    @cached_property
    def text(self) -> str:
        """One text, its parts apart."""
        return "\n\n".join(self.texts)

    @cached_property
    def quantities(self) -> Quantities:
        """Its numbers, dates and times."""
        return read_quantities(self.text, any_language=True)

    @cached_property
    def numerals(self) -> frozenset[str]:
        """Its runs of digits."""
        return frozenset(NUMERAL.findall(self.text))

    @cached_property
    def years(self) -> tuple[int, ...]:
        """The years of its dates."""
        return tuple(dict.fromkeys(y for date in self.quantities.dates for y, _, _ in date.readings if y is not None))

    @cached_property
    def tells_days_by_others(self) -> bool:
        """Whether it names a day by another: "the Thursday before"."""
        return tells_days_by_others(self.text)

    @cached_property
    def month_stems(self) -> frozenset[str]:
        """The months that it names, or writes as numbers."""
        named = {fold(match[0])[:3] for match in ANY_MONTH.finditer(self.text)}
        numbers = {m for date in self.quantities.dates for _, m, _ in date.readings if m is not None}
        return frozenset(named | {stem for m in numbers for stem in _STEMS[m]})

    @cached_property
    def names(self) -> NameWords:
        """The words that names are looked up in."""
        return name_words(self.text)

    @cached_property
    def fold(self) -> str:
        """Lower case, one space between words, no diacritics."""
        return " ".join(TOKEN.findall(fold(self.text)))


class Value(Struct, frozen=True):
    """A value of the claim that nobody has said."""

    kind: Kind
    text: str
    start: int
    end: int
    read: Quantity | Date | Time | Name | None = None


def unsaid_values(claim: str, quantities: Quantities, said: StatedValues, language: str, asked: str = "") -> Iterator[Value]:
    """The values of a claim that nobody has said; without those that can be worked out."""
    for number in each(quantities.numbers):
        if says_nothing(number, claim) or _is_said(number, claim, said):
            continue
        if not is_derived(number, claim, asked, said.quantities, said.texts, quantities.numbers):
            yield Value("number", number.text, number.start, number.end, number)
    for date in quantities.dates:
        if _date_is_said(date, said):
            continue
        if not date_derived(date, said.quantities, told_by_others=said.tells_days_by_others):
            yield Value("date", date.text, date.start, date.end, date)
    minutes = {m for time in said.quantities.times for m in time.minutes}
    for time in quantities.times:
        if (
            minutes.isdisjoint(time.minutes)
            and not set(NUMERAL.findall(time.text)) <= said.numerals
            and not time_derived(time, said.quantities)
            and not time_in_zone(time, claim, said.text, said.quantities)
        ):
            yield Value("time", time.text, time.start, time.end, time)
    for month in _months(claim):
        if fold(month[0])[:3] not in said.month_stems:
            yield Value("date", month[0], *month.span())
    for name in names_in(claim, language, every_capital=bool(asked)):
        if missing_name(name, said.names):
            yield Value("name", name.text, name.start, name.end, name)


def _is_said(number: Quantity, claim: str, said: StatedValues) -> bool:
    """Whether somebody has said a number, in whatever form. A bound is said by its own number: "less than 37%" is not said wherever there
    is a smaller share of something; and an amount with a unit is not the same number of something else.
    """
    itself = replace(number, relation="") if number.relation in ("min", "max") else number
    for other in said.quantities.numbers:
        if number.dimension and not other.dimension and _COUNTS.match(said.text, other.end):
            continue
        if agrees_strictly(itself, other):
            return True
    return not number.dimension and not number.spelled and all(n in said.numerals for n in NUMERAL.findall(number.text))


def agrees_strictly(number: Quantity, other: Quantity) -> bool:
    """Whether two numbers say the same; of two bounds of one kind, whether they are the same."""
    if number.relation == other.relation and number.relation in ("min", "max"):
        return agrees(replace(number, relation=""), replace(other, relation=""))
    return agrees(number, other)


def dates_agree_strictly(date: Date, other: Date) -> bool:
    """Whether a date is another, or follows from it; "since 1922" is not "since 1933": two bounds of one kind are compared as they are."""
    return date_agrees(replace(date, bound="") if date.bound == other.bound else date, other)


def _date_is_said(date: Date, said: StatedValues) -> bool:
    """Whether somebody has said a date, be it as the bound of a time; of a year alone its last two digits only behind another year, as in
    1939-45.
    """
    date = replace(date, bound="")
    year, month, _ = date.readings[0]
    if month is not None or date.decade or year is None:
        return date_is_said(date, said)
    if year in said.years or str(year) in said.numerals:
        return True
    return re.search(rf"\d{{4}} ?[-–/] ?{year % 100:02d}(?!\d)", said.text) is not None


def names_in(text: str, language: str, *, every_capital: bool = False, opening_is_none: bool = False) -> list[Name]:
    """The names of a text, each part of one that "and" or "of" joins by itself; in German also two capitalised words in a row, and what
    stands bare behind "in", as places do. With `opening_is_none` a lone capital at the text's beginning is only that of its first word.
    """
    spans = [(name.start, name.end) for name in read_names(text, language, every_capital=every_capital)]
    if language == "de" and not every_capital:
        spans += [m.span(1) for pattern in (_GERMAN_PLACE, _GERMAN_PAIR) for m in pattern.finditer(text)]
    found: dict[int, Name] = {}
    for start, end in spans:
        at = start
        for part in _JOINT.split(text[start:end]):
            begin = text.index(part, at)
            at = begin + len(part)
            words = tuple(w for word in TOKEN.findall(part) if (w := bare(fold(word))))
            opens = opening_is_none and len(words) == 1 and not text[:begin].strip(" \"'“„«(")
            if words and part[:1].isupper() and not opens:
                found.setdefault(begin, Name(part, words, begin, at))
    return [found[begin] for begin in sorted(found)]


def _months(text: str) -> list[re.Match[str]]:
    """Months that stand without a day or a year."""
    return list(_MONTH_ALONE.finditer(text))


def unsaid_numbers(claim: str, said: StatedValues, language: str) -> list[Quantity]:
    """The numbers of `claim` that nobody has said, in whatever form."""
    numbers = read_quantities(claim, language).numbers
    return [n for n in numbers if not says_nothing(n, claim) and not any(agrees(n, other) for other in said.quantities.numbers)]


def missing_names(claim: str, said: StatedValues, language: str) -> bool:
    """Whether `claim` has a name that nobody has said."""
    return any(missing_name(name, said.names) for name in names_in(claim, language))
