"""Could a number be worked out of others? One engine for two questions, the second stricter than the first.

`may_follow`: by whatever calculation; then that it differs from the evidence's is no contradiction. `is_derived`: in one step that a word
of the claim or its question asks for; then nobody can say that it was not said. That it can be made is no reason to call it right. Every
operand is expressed in the number's own unit, a table's bare cells as they stand. Pure; bounded by `MAX_OPERANDS` numbers of a kind.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left, bisect_right
from calendar import monthrange
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple

from proxy.language.dates import Date, Reading, Time
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import TOLERANCE, Quantities, Quantity
from proxy.offloop import check

MAX_OPERANDS = 24
"""Numbers of one kind that are tried with each other."""
FEW = 8
"""Up to so many numbers two steps are tried."""
MAX_SUMMED = 10
"""Numbers of the claim of which each selection is summed up."""
_MONTH_S, _YEAR_S = 2629746.0, 31556952.0
"""As `units.toml` has them, on average."""
_BOUND_REACH = 0.2
"""A bound that is worked out may lie by so much of itself within what was made."""
_PERIODS = (2.0, 3.0, 4.0, 7.0, 12.0, 24.0, 30.0, 52.0, 60.0, 365.0)
"""What an amount for each day, week or month is multiplied with."""


MAX_FACTORS = 200
"""Numbers that were said, up to which they are tried as factors: of more, some always fits."""
_BASES = (100.0, 1000.0)
"""Of amounts that are given for so much of something."""
_PLAIN_FACTORS = {0.0, 1.0, 2.0, 10.0, 100.0, 1000.0}
"""Said of too much, and slips of too many: they scale nothing."""


class Operations(NamedTuple):
    """Which of them a text asks for."""

    sums: bool
    differences: bool
    means: bool
    products: bool
    ratios: bool


EVERY = Operations(True, True, True, True, True)


def asked_for(text: str) -> Operations:
    """The operations that words of `text` ask for."""
    return Operations(*(p.search(text) is not None for p in (SUM, DIFFERENCE, MEAN, PRODUCT, RATIO)))


# ---- numbers as operands and results ----


def in_unit(q: Quantity, number: Quantity) -> float:
    """A number in another's unit; one without a unit, or of another dimension, as it stands."""
    if q.dimension == number.dimension and q.unit is not None and number.unit is not None and number.unit.offset == q.unit.offset:
        return q.values[0] * q.unit.factor / number.unit.factor
    return q.base_values()[0] if q.dimension == "ratio" else q.values[0]


def _operands(numbers: Iterable[Quantity], number: Quantity, *, alike: bool) -> tuple[float, ...]:
    """The first distinct numbers in `number`'s unit; with `alike` of its dimension or none, since a table's cells have none."""
    found: dict[float, None] = {}
    for q in numbers:
        if not alike or q.dimension in (number.dimension, ""):
            found[abs(in_unit(q, number))] = None
            if len(found) == MAX_OPERANDS:
                break
    return tuple(value for value in found if value)


def hits(number: Quantity, made: float) -> bool:
    """Whether a result, in the number's unit, is the number to the places that it is given with; or within its bound, and near it."""
    for wanted in number.values:
        reach = number.step / 2 if number.step != 1.0 else 0.5 if made != int(made) else 0.0
        reach = max(reach, TOLERANCE * abs(wanted)) if number.relation == "about" else reach
        if abs(made - abs(wanted)) <= max(reach, 1e-6 * abs(wanted)):
            return True
        within = made - wanted if number.relation == "min" else wanted - made if number.relation == "max" else -1.0
        if 0 <= within <= _BOUND_REACH * abs(wanted):
            return True
    return False


def is_rounded(number: Quantity, other: Quantity) -> bool:
    """21.4 told as 21."""
    if number.dimension != other.dimension or other.step >= 1.0:
        return False
    return any(abs(c - e) <= 0.5 for c in number.values for e in other.values if c == int(c) and abs(e) >= 2)


def made_of(operations: Operations, alike: Sequence[float], every: Sequence[float], *, share: float = 0.0) -> Iterator[float]:
    """The results of one step over the numbers `alike` each other, and over `every` number; `share` is the worth of a share's unit."""
    pairs = list(combinations(alike, 2))
    if operations.sums:
        yield from (a + b for a, b in pairs)
        yield from _running(alike)
    if operations.differences:
        yield from (abs(a - b) for a, b in pairs)
        yield from (abs(a - b - c) for a, b, c in combinations(sorted(alike, reverse=True)[:FEW], 3))
    if operations.means:
        yield from ((a + b) / 2 for a, b in pairs)
        yield from (sum(alike[:n]) / n for n in range(3, len(alike) + 1))
    if operations.products:
        yield from (a * b for a, b in combinations(every, 2))
        yield from (a * n for a in alike for n in _PERIODS)
    if share or operations.ratios:
        worth = share or 1.0
        yield from (made / worth for a, b in permutations(every, 2) if b for made in (a / b, abs(a - b) / b))
        if not share:
            yield from (made * 100 for a, b in permutations(every, 2) if b for made in (a / b, abs(a - b) / b))


def _running(values: Sequence[float]) -> Iterator[float]:
    """Sums of three and more numbers that follow each other."""
    for start in range(len(values)):
        total = 0.0
        for n, value in enumerate(values[start:], 1):
            total += value
            if n > 2:
                yield total


def share_of(number: Quantity) -> float:
    """The worth of a share's unit, 0.01 of per cent; 0 of what is no share."""
    return (number.unit.factor if number.unit else 1.0) if number.dimension == "ratio" else 0.0


# ---- by whatever calculation ----


def may_follow(number: Quantity, claim: Quantities, around: Sequence[Quantities]) -> bool:
    """Whether `number` is a sum, difference, product, quotient or share of the claim's other numbers and of what is `around`; two steps
    over few of them.
    """
    check()
    own = [q for q in claim.numbers if q is not number]
    numbers = [*own, *(q for one in around for q in one.numbers)]
    share = share_of(number)
    alike, every = _operands(numbers, number, alike=not share), _operands(numbers, number, alike=False)
    if share:
        return any(_rounds_to(number, made) for made in made_of(Operations(False, False, False, False, True), alike, every, share=share))
    steps = (
        *(made for a, b in combinations(alike, 2) for made in (a + b, abs(a - b))),
        *(made for a in alike for b in every if a != b for made in (a * b, a / b)),
        *(made for a in alike for p in _shares(numbers) for made in (a * (1 + p), a * (1 - p))),
        *_running(alike),
    )
    return any(_rounds_to(number, made) for made in steps) or any(_rounds_to(number, made) for made in _two_steps(number, own, every))


def _shares(numbers: Sequence[Quantity]) -> list[float]:
    """The first `FEW` shares, which an amount may rise or fall by."""
    return [q.base_values()[0] for q in numbers if q.dimension == "ratio"][:FEW]


def may_be_scaled(number: Quantity, claim: Quantities, around: Sequence[Quantities], said: Quantities) -> bool:
    """Whether `number` is one of what is `around`, so many times as anything that was `said`: 1,560 mg for 26 kg where it is 60 mg a kg;
    or what is around for `_BASES`, for so many as the claim says: 8.1 g of 45 g where it is 18 g of 100 g.
    """
    check()
    own = {q.values[0] for q in claim.numbers if q is not number} - _PLAIN_FACTORS
    alike = _operands((q for one in around for q in one.numbers), number, alike=True)
    factors = own | ({q.values[0] for q in said.numbers} - _PLAIN_FACTORS if len(said.numbers) <= MAX_FACTORS else set())
    bases = [base for base in _BASES if any(q.values[0] == base for one in around for q in one.numbers)]
    made = [a * n for a in alike for n in factors] + [a * n / base for a in alike for n in own for base in bases]
    return any(_rounds_to(number, one) for one in made)


def uncounted_spans(text: str) -> frozenset[float]:
    """The spans of time, in seconds, that `text` tells without a number: "the year after", "half an hour"."""
    found = {seconds for pattern, every in _UNCOUNTED if pattern.search(text) for seconds in every}
    return frozenset(found)


def time_may_follow(said: Time, claim: Quantities, around: Sequence[Quantities], uncounted: frozenset[float]) -> bool:
    """Whether `said` is an uncounted span before or after another time of the claim or of what is `around`."""
    starts = [m for each in (claim, *around) for t in each.times if t is not said for m in t.minutes]
    return any(
        (start + sign * span / 60 - m) % 1440 == 0 for start in starts for span in uncounted for sign in (-1, 1) for m in said.minutes
    )


def _year_may_follow(
    said: Date, dates: Sequence[Date], claim: Quantities, around: Sequence[Quantities], uncounted: frozenset[float]
) -> bool:
    """Whether a year alone is an age, or an uncounted span, before or after another."""
    year, month, _ = said.readings[0]
    if year is None or month is not None:
        return False
    apart = {abs(year - other) for one in dates for other, _, _ in one.readings if other is not None}
    ages = {q.values[0] for each in (claim, *around) for q in each.numbers if not q.dimension and q.values[0] > 1}
    return not apart.isdisjoint(ages | {round(span / _YEAR_S) for span in uncounted if span >= _YEAR_S})


def date_may_follow(said: Date, claim: Quantities, around: Sequence[Quantities], uncounted: frozenset[float] = frozenset()) -> bool:
    """Whether `said` is a span of time before or after another date of the claim or of what is `around`; a period may end on the day
    before. `uncounted` are spans in seconds.
    """
    check()
    dates = [*(one for one in claim.dates if one is not said), *(one for each in around for one in each.dates)]
    if _year_may_follow(said, dates, claim, around, uncounted):
        return True
    spans = [q for each in (claim, *around) for q in each.numbers if q.unit is not None and q.unit.dimension == "duration"]
    days = {moved for one in dates[:MAX_SUMMED] for span in spans[:MAX_SUMMED] for moved in _move_date(one, span)}
    near = {day + timedelta(days=off) for day in days for off in (-1, 0, 1)}
    return any(_is_of(day, reading) for reading in said.readings for day in (days if reading[2] is None else near))


def month_may_follow(month: int, claim: Quantities, around: Sequence[Quantities]) -> bool:
    """Whether a month alone is one that a span of time leads to from a date of the claim or of what is `around`."""
    starts = {m for each in (claim, *around) for one in each.dates for _, m, _ in one.readings if m is not None}
    spans = [q.base_values()[0] / _MONTH_S for each in (claim, *around) for q in each.numbers if q.dimension == "duration"]
    steps = {sign * step for span in spans[:MAX_SUMMED] for step in (math.floor(span), math.ceil(span)) if step for sign in (-1, 1)}
    return any((start + step - month) % 12 == 0 for start in starts for step in steps)


def _move_date(start: Date, span: Quantity) -> Iterator[date]:
    """The day that long before and after it, by the calendar where the span is in months or years."""
    for year, month, day in start.readings:
        if year is None or month is None or day is None or span.unit is None:
            continue
        length = span.values[0] * span.unit.factor
        months = span.values[0] * round(span.unit.factor / _MONTH_S) if span.unit.factor >= _MONTH_S else 0
        for sign in (-1, 1):
            with suppress(ValueError, OverflowError):  # a day that is in no calendar
                if months:
                    years, rest = divmod(12 * year + month - 1 + sign * round(months), 12)
                    yield date(years, rest + 1, min(day, monthrange(years, rest + 1)[1]))
                else:
                    yield date(year, month, day) + timedelta(seconds=sign * length)


def _is_of(day: date, reading: Reading) -> bool:
    return all(wanted in (None, has) for wanted, has in zip(reading, (day.year, day.month, day.day), strict=True))


def _two_steps(number: Quantity, own: Sequence[Quantity], every: Sequence[float]) -> Iterator[float]:
    rows = [abs(in_unit(q, number)) for q in own][:MAX_SUMMED]
    for size in range(3, len(rows) + 1):
        yield from (math.fsum(some) for some in combinations(rows, size))
    if len(every) <= FEW:
        yield from (made for a, b, c in permutations(every, 3) for made in (a * b / c, a * b + c, a + b + c, a + b - c))


def _rounds_to(number: Quantity, made: float) -> bool:
    """Whether a result, rounded as the number is, is the number: a whole result is not rounded to a thousand."""
    step = number.step if number.step < 1 or made != int(made) else min(number.step, 1.0)
    reach = step * 0.51 if made != int(made) or number.relation == "about" else step * 0.01
    return any(abs(abs(value) - made) <= reach for value in number.values)


# ---- in a step that is asked for ----


def is_derived(
    number: Quantity,
    claim: str,
    asked: str,
    quantities: Quantities,
    texts: Sequence[str] = (),
    others: Sequence[Quantity] = (),
    years: Sequence[int] = (),
) -> bool:
    """Whether `number` of `claim` can be worked out of what was said, in one step that a word of the claim or its question asks for; or
    with one of the `others` of the claim: "two tickets are 108 euros". `years` lie so far apart.
    """
    if any(is_rounded(number, other) for other in quantities.numbers) or is_counted(number, texts):
        return True
    if number.dimension == "duration" and is_span(number, quantities):
        return True
    text = f"{claim} {asked}"
    operations = asked_for(text)
    apart = [abs(a - b) for a, b in combinations(years[:FEW], 2) if a != b]
    if not number.dimension and (operations.differences or AGE.search(text)) and any(hits(number, made) for made in apart):
        return True
    if any(hits(number, made) for made in _times_own(number, quantities, others)):
        return True
    check()
    alike, every = _operands(quantities.numbers, number, alike=True), _operands(quantities.numbers, number, alike=False)
    return any(hits(number, made) for made in _near(number, _results(operations, alike, every, share_of(number))))


def _times_own(number: Quantity, quantities: Quantities, others: Sequence[Quantity]) -> Iterator[float]:
    """What was said, so many times as the claim says, or a part of it."""
    amounts = _operands(quantities.numbers, number, alike=True)
    for other in others:
        n = other.values[0]
        if other is not number and n > 1 and other.dimension != number.dimension:
            yield from (made for a in amounts for made in (a * n, a / n))


@lru_cache(maxsize=16)
def _results(operations: Operations, alike: tuple[float, ...], every: tuple[float, ...], share: float) -> list[float]:
    """What can be made, sorted: each number of a claim is looked up in it."""
    return sorted(set(made_of(operations, alike, every, share=share)))


def _near(number: Quantity, results: Sequence[float]) -> Iterator[float]:
    """Those of the sorted `results` that may hit it: none that `hits` would take is left out."""
    for value in number.values:
        wanted = abs(value)
        reach = max(number.step / 2, 0.5, max(_BOUND_REACH, TOLERANCE) * wanted if number.relation else 1e-6 * wanted)
        yield from results[bisect_left(results, wanted - reach) : bisect_right(results, wanted + reach)]


# ---- spans and counts ----


_UNIT_SECONDS = 86400.0


def is_span(number: Quantity, quantities: Quantities) -> bool:
    """Whether two dates or times that were said are so far apart; to the day, hour or minute that the claim names, ends counted or not."""
    seconds = [abs(a - b) * 60.0 for a, b in combinations([m for t in quantities.times for m in t.minutes][:MAX_OPERANDS], 2)]
    days = [d for one in quantities.dates if (d := day_of(one)) is not None][:MAX_OPERANDS]
    seconds += [abs((a - b).days + extra) * _UNIT_SECONDS for a, b in combinations(days, 2) for extra in (-1, 0, 1)]
    years = list(dict.fromkeys(y for one in quantities.dates for y, _, _ in one.readings if y is not None))[:MAX_OPERANDS]
    seconds += [abs(a - b + extra) * _YEAR_S for a, b in combinations(years, 2) for extra in (-1, 0, 1)]
    unit = number.unit.factor if number.unit else 1.0
    reach = 0.5 * unit if unit >= 604800 else 1.0
    return any(abs(wanted - made) <= max(reach, 0.0) for wanted in number.base_values() for made in seconds)


def day_of(one: Date) -> date | None:
    """The day of a date that says month and day; in some year, where it says none."""
    year, month, day = one.readings[0]
    try:
        return None if month is None or day is None else date(year or 2001, month, day)
    except ValueError:
        return None


MAX_ARRAYS = 60
MAX_JSON_CHARS = 200_000
MAX_ROW_CHARS = 120
"""Lines that are no longer are rows of a list, and counted."""
_BULLET = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S", re.M)
_TABLE_ROW = re.compile(r"^[ \t]{0,8}\|.*\|[ \t]*$", re.M)


def is_counted(number: Quantity, texts: Sequence[str]) -> bool:
    """Whether something that was said has so many members: an array, its members with one value, list items, rows."""
    value = number.values[0]
    if number.dimension not in ("", "data") and not number.spelled:
        return False
    return value == int(value) and any(int(value) in _lengths(text) for text in texts)


@lru_cache(maxsize=64)
def _lengths(text: str) -> frozenset[int]:
    """Of what a text lists."""
    counts = {len(_BULLET.findall(text)), max(0, len(_TABLE_ROW.findall(text)) - 2)}
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 2 and all(len(line) <= MAX_ROW_CHARS for line in lines):
        counts |= {len(lines), len(lines) - 1}
    counts.discard(0)
    if text.lstrip()[:1] in ("{", "[") and len(text) <= MAX_JSON_CHARS:
        try:
            for array in list(_lists(json.loads(text), 8))[:MAX_ARRAYS]:
                counts |= _tallies(array)
        except (ValueError, RecursionError):
            pass
    return frozenset(counts)


def _lists(value: Any, depth: int) -> Iterator[list[Any]]:
    if depth and isinstance(value, list | dict):
        if isinstance(value, list):
            yield value
        for inner in value if isinstance(value, list) else value.values():
            yield from _lists(inner, depth - 1)


def _tallies(array: list[Any]) -> set[int]:
    """How many members it has, and how many of them share a value."""
    shared = Counter(
        (key, value) for one in array if isinstance(one, dict) for key, value in one.items() if isinstance(value, str | int | bool)
    )
    return {len(array), *shared.values()}


# ---- cues ----


_TEXTS = phrases(Path(__file__).parent)

SUM = LazyPattern(_TEXTS.SUM, re.I)
DIFFERENCE = LazyPattern(_TEXTS.DIFFERENCE, re.I)
MEAN = LazyPattern(_TEXTS.MEAN, re.I)
PRODUCT = LazyPattern(_TEXTS.PRODUCT, re.I)
RATIO = LazyPattern(_TEXTS.RATIO, re.I)
AGE = LazyPattern(_TEXTS.AGE, re.I)
"""Years that lie between two."""
_UNCOUNTED = (
    (LazyPattern(_TEXTS.HALF_HOUR, re.I), (1800.0,)),
    (LazyPattern(_TEXTS.HOUR, re.I), (3600.0,)),
    (LazyPattern(_TEXTS.YEAR, re.I), (_YEAR_S,)),
    (LazyPattern(_TEXTS.DECADE, re.I), tuple(10 * n * _YEAR_S for n in range(1, 6))),
)
"""Words for a span of time that has no number, and what it may be, in seconds."""
