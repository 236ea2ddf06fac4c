"""All that was said in a request, and the values of a claim that nobody has said in it, in whatever form.

For `proxy.grounding.values.slots`: a number counts as said rounded, converted or in words, a date in any order, a name in another
inflection or as initials. Pure; the texts are read at the first look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from proxy.grounding.evidence.retrieval import NUMERAL
from proxy.grounding.values.arithmetic import MAX_OPERANDS, day_of, is_derived
from proxy.grounding.values.consistency import date_is_stated, says_nothing
from proxy.language.dates import Date, Time, date_agrees, tells_days_by_others
from proxy.language.lru import LRU, by_text
from proxy.language.names import Name, NameWords, bare, missing_name, name_words, read_names
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.language.text import fold, stretches
from proxy.offloop import each

_TEXTS = phrases(Path(__file__).parent)
Kind = Literal["number", "date", "time", "name"]
MAX_SAID_CHARS = 60_000
"""Of what was said; where there is more, nobody can tell quickly that a value is not in it, and nothing is exact."""
MAX_LOOKED, MAX_LOOKED_TOGETHER = 50_000, 500_000
"""Values of a claim times values that were said, and the sum of it over an answer's claims: 0.1 and 1 s. A claim beyond is not compared."""
_JOINT = re.compile(
    r"[ \u00a0](?:and|und|y|e|et|&|of|de|del|della|du|von|der)[ \u00a0](?:(?:the|der|die|das|el|la|los|las|le|les|l['’])[ \u00a0]?)?"
)
_ARTICLE_CHARS = 8
_OF_A_KIND = re.compile(r"\b(?:[Kk]?[Ee]ine?[mnrs]?|[Jj]ede[mnrs]?)\s$")
"""Before a noun in German that is then no name: "ist eine Schürze Pflicht"."""
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
        self._searched: dict[str, int] = {}
        self.texts = tuple(texts)
        self.whole = sum(map(len, texts)) <= MAX_SAID_CHARS
        """Whether all of it can be looked through."""

    def room_for(self, claim: str, values: int) -> bool:
        """Whether so many values of `claim` may still be looked up among those that were said: each is compared with every one of them."""
        spent = self._searched.setdefault(claim, values * len(self.quantities.numbers))
        return spent <= MAX_LOOKED and sum(self._searched.values()) <= MAX_LOOKED_TOGETHER

    @cached_property
    def text(self) -> str:
        """One text, its parts apart."""
        return _APART.join(self.texts)

    @cached_property
    def quantities(self) -> Quantities:
        """Its numbers, dates and times, with their places in `text`."""
        found, at = list[Quantities](), 0
        for text in each(self.texts):
            found.append(_moved(_quantities_of(text), at))
            at += len(text) + len(_APART)
        return Quantities(
            tuple(number for read in found for number in read.numbers),
            tuple(date for read in found for date in read.dates),
            tuple(time for read in found for time in read.times),
        )

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
        return any(map(_tells_days_by_others, each(self.texts)))

    @cached_property
    def month_stems(self) -> frozenset[str]:
        """The months that it names, or writes as numbers."""
        named = {stem for text in each(self.texts) for stem in _named_months(text)}
        numbers = {m for date in self.quantities.dates for _, m, _ in date.readings if m is not None}
        return frozenset(named | {stem for m in numbers for stem in _STEMS[m]})

    @cached_property
    def names(self) -> NameWords:
        """The words that names are looked up in."""
        return name_words(self.text)


MAX_KNOWN_VALUES = 40_000
"""Of all texts together: some 12 MB."""
_APART = "\n\n"
_known: LRU[Quantities] = LRU(MAX_KNOWN_VALUES, lambda read: 4 + len(read.numbers) + len(read.dates) + len(read.times))


def _quantities_of(text: str) -> Quantities:
    """What it states; the evidence of a conversation comes again with every turn."""
    key = hash(text), len(text)
    found = _known.get(key)
    if found is None:
        found = read_quantities(text, any_language=True)
        _known.put(key, found)
    return found


def _moved(read: Quantities, by: int) -> Quantities:
    """The same, so many characters further on."""
    return Quantities(
        tuple(replace(one, start=one.start + by, end=one.end + by) for one in read.numbers),
        tuple(replace(one, start=one.start + by, end=one.end + by) for one in read.dates),
        tuple(replace(one, start=one.start + by, end=one.end + by) for one in read.times),
    )


_tells_days_by_others = by_text(4096)(tells_days_by_others)


@by_text(4096)
def _named_months(text: str) -> frozenset[str]:
    return frozenset(fold(match[0])[:3] for match in ANY_MONTH.finditer(text))


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
        if says_nothing(number, claim) or _is_stated(number, claim, said):
            continue
        if not is_derived(number, claim, asked, said.quantities, said.texts, quantities.numbers):
            yield Value("number", number.text, number.start, number.end, number)
    for date in quantities.dates:
        if _date_is_stated(date, said):
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
    for month in _MONTH_ALONE.finditer(claim):
        if fold(month[0])[:3] not in said.month_stems:
            yield Value("date", month[0], *month.span())
    to_do = bool(asked) and _TO_DO.search(asked) is not None  # "What can I do?" - "Restart." is no name
    spelled = [(name.start, name.end) for name in read_names(claim, language) if _initials(name) in said.names.words]
    for name in names_in(claim, language, every_capital=bool(asked), opening_is_none=to_do):
        if missing_name(name, said.names) and not any(start <= name.start < end for start, end in spelled):  # "Best of Breed" is BOB
            yield Value("name", name.text, name.start, name.end, name)


def _initials(name: Name) -> str:
    """Of a name of three words and more, "of" among them: "Best of Breed" is "BOB"."""
    words = TOKEN.findall(fold(name.text))
    return "".join(word[0] for word in words) if len(words) > 2 else ""


def _is_stated(number: Quantity, claim: str, said: StatedValues) -> bool:
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


def rounds_to(number: Quantity, other: Quantity) -> bool:
    """Whether `other` is the same number, written less exactly: 25.8479 is rounded to 25.85."""
    return agrees(replace(other, relation=""), replace(number, relation=""))


def dates_agree_strictly(date: Date, other: Date) -> bool:
    """Whether a date is another, or follows from it; "since 1922" is not "since 1933": two bounds of one kind are compared as they are."""
    return date_agrees(replace(date, bound="") if date.bound == other.bound else date, other)


def _date_is_stated(date: Date, said: StatedValues) -> bool:
    """Whether somebody has said a date, be it as the bound of a time; of a year alone its last two digits only behind another year, as in
    1939-45.
    """
    date = replace(date, bound="")
    year, month, _ = date.readings[0]
    if month is not None or date.decade or year is None:
        return date_is_stated(date, said)
    if year in said.years or str(year) in said.numerals:
        return True
    return re.search(rf"\d{{4}} ?[-–/] ?{year % 100:02d}(?!\d)", said.text) is not None


def names_in(text: str, language: str, *, every_capital: bool = False, opening_is_none: bool = False) -> list[Name]:
    """The names of a text, each part of one that "and" or "of" joins by itself; in German also two capitalised words in a row, and what
    stands bare behind "in", as places do. With `opening_is_none` a lone capital at the text's beginning is only that of its first word.
    """
    spans = [(name.start, name.end) for name in read_names(text, language, every_capital=every_capital)]
    if language == "de" and not every_capital:
        pairs = (m for pattern in (_GERMAN_PLACE, _GERMAN_PAIR) for m in pattern.finditer(text))
        spans += [m.span(1) for m in pairs if _OF_A_KIND.search(text, max(0, m.start(1) - _ARTICLE_CHARS), m.start(1)) is None]
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


def unsaid_numbers(claim: str, said: StatedValues, language: str) -> list[Quantity]:
    """The numbers of `claim` that nobody has said, in whatever form."""
    numbers = read_quantities(claim, language).numbers
    return [n for n in numbers if not says_nothing(n, claim) and not any(agrees(n, other) for other in said.quantities.numbers)]


def missing_names(claim: str, said: StatedValues, language: str) -> bool:
    """Whether `claim` has a name that nobody has said."""
    return any(missing_name(name, said.names) for name in names_in(claim, language))


# ---- times and dates that follow ----


MAX_RELATIVE_DAYS = 31
"""How far from another date a day may be that is told by it ("the second Monday after")."""
_UNIT_SECONDS = 86400.0
_TO_DO = LazyPattern(_TEXTS.TO_DO, re.I)
_ZONE = re.compile(_TEXTS.ZONE)
"""The name of a time zone, as it stands beside times."""
_ZONE_STEP_MINUTES = 30
"""Time zones are full hours apart, and some a half."""


def _days_apart(one: Date, other: Date) -> float:
    """Days between two; where one has no year, within a year."""
    if any(day.readings[0][0] is None for day in (one, other)):
        one, other = (replace(day, readings=tuple((None, m, d) for _, m, d in day.readings)) for day in (one, other))
    mine, theirs = day_of(one), day_of(other)
    return inf if mine is None or theirs is None else abs((mine - theirs).days)


def time_derived(time: Time, quantities: Quantities) -> bool:
    """Whether a time is another that was said plus or minus a duration that was said."""
    steps = [q.base_values()[0] / 60 for q in quantities.numbers if q.dimension == "duration"][:MAX_OPERANDS]
    starts = [m for t in quantities.times for m in t.minutes][:MAX_OPERANDS]
    made = {round(start + sign * step) % 1440 for start in starts for step in steps for sign in (1, -1)}
    return not made.isdisjoint(time.minutes)


@lru_cache(maxsize=16)
def _zones(text: str) -> frozenset[str]:
    """The zones that a text names; what was said is asked about for each time of a claim."""
    return frozenset(zone for start, end in each(stretches(text)) for zone in _ZONE.findall(text, start, end))


def time_in_zone(time: Time, claim: str, said: str, quantities: Quantities) -> bool:
    """Whether a time may be one that was said, in another zone's: a zone is named, the claim is not in that one, and full or half hours lie
    between them.
    """
    named, own = _zones(said), _zones(claim)
    if not (named or own) or (own and own <= named):
        return False
    return any((minute - start) % _ZONE_STEP_MINUTES == 0 for t in quantities.times for start in t.minutes for minute in time.minutes)


def date_derived(one: Date, quantities: Quantities, *, told_by_others: bool = False) -> bool:
    """Whether a date is another that was said plus or minus a duration that was said; a day's name or a year alone is worked out, too.

    Where the text names days by others (`told_by_others`), one within a month of a date that was said may be meant.
    """
    days = {q.base_values()[0] / _UNIT_SECONDS for q in quantities.numbers if q.dimension == "duration"}
    steps = [round(step) for step in list(days)[:MAX_OPERANDS]]
    wanted = day_of(one)
    if wanted is not None:
        known = [d for other in quantities.dates if (d := day_of(other)) is not None][:MAX_OPERANDS]
        if told_by_others and any(_days_apart(one, other) <= MAX_RELATIVE_DAYS for other in quantities.dates[:MAX_OPERANDS]):
            return True
        return any(abs((wanted - d).days) in (step - 1, step, step + 1) for d in known for step in steps)
    years = [y for other in quantities.dates for y, _, _ in other.readings if y is not None][:MAX_OPERANDS]
    spans = [round(step / 365.2425) for step in days if step >= 300]
    return any(y is not None and any(abs(y - known) in spans[:MAX_OPERANDS] for known in years) for y, _, _ in one.readings)


# ---- empty results, and tests that pass ----


_NONE = LazyPattern(_TEXTS.NONE, re.I)
_FINDING_WORDS = LazyPattern(_TEXTS.FOUND, re.I)
_NOTHING_WORDS = LazyPattern(_TEXTS.NOTHING_SAID, re.I)
_EMPTY_MEMBER = re.compile(r"\"\w{1,40}\"\s*:\s*\[\s*\]|\"(?:count|total|total_count|totalResults|hits|found|matches)\"\s*:\s*0\b")
_ALL_PASS = LazyPattern(_TEXTS.ALL_PASS, re.I)
_PASSED_TESTS = re.compile(r"\b(\d{1,6}) (?:tests? )?(?:passed|passing|ok|bestanden|successful|succeeded)\b|\bOK \((\d{1,6}) tests?", re.I)
_FAILED_TESTS = re.compile(
    r"(?i:\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|failing|errors?|fehlgeschlagen)\b)|\bFAILED\b|\"failed\"\s*:\s*[1-9]"
)


def follows(claim: str, texts: Sequence[str]) -> bool:
    """Whether `claim` says of an empty result that nothing was found, or of tests without a failure that all pass."""
    if _ALL_PASS.search(claim) and any(_PASSED_TESTS.search(text) and not _FAILED_TESTS.search(text) for text in texts):
        return not any(_FAILED_TESTS.search(text) for text in texts)
    return bool(_NONE.search(claim) and _FINDING_WORDS.search(claim)) and any(_is_empty(text) for text in texts)


def _is_empty(text: str) -> bool:
    return _NOTHING_WORDS.fullmatch(text) is not None or (len(text) < 2000 and _EMPTY_MEMBER.search(text) is not None)
