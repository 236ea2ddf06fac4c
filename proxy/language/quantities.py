"""Numbers in a text, with their units, compared by what they are worth and not by how they are written.

In: a text and its language. Out: its quantities with their place and every reading that the writing allows ("1.234" is 1234 and 1.234),
and whether two of them agree, rounded and converted. Dates are read by `proxy.language.dates` and left out here. Every pattern is
bounded; a run of digits longer than any number that means something is passed over.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from proxy.language.dates import Date, Time, read_dates, read_times
from proxy.language.number_words import (
    FRACTIONS,
    JOINERS,
    NUMBER_LANGUAGES,
    magnitude,
    may_count,
    ordinal_value,
    read_halves,
    run_value,
    word_value,
)
from proxy.language.patterns import LazyPattern, phrases
from proxy.offloop import each

_TEXTS = phrases(Path(__file__).parent)

TOLERANCE = 0.05
"""By how much of itself a number that is given as "about" may miss."""
_CONVERTED_TOLERANCE = 0.02
"""Between different units: 5 miles are 8 km."""
_ROUNDED_TOLERANCE = 0.1
"""A rounded number may not miss by more than this share, whatever the place it is rounded at."""
_MAX_NUMBER_CHARS = 24
_NEAR_CHARS = 28
MAX_RUN_WORDS = 14
"""Of one number: "cinq cent vingt et un mille six cent vingt-cinq" has ten."""

_NUMBER = re.compile(r"\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,5}(?!\d)(?:[.,]\d{1,9}(?!\d))?|\d+(?:[.,'’]\d+)*")
_WORD = re.compile(r"[^\W\d_]+")
_AFTER_NUMBER = re.compile(
    r"[ \u00a0\u202f-]{0,2}(\d|(?:por|per|pour) cent\w?|(?:degrees|grad|grados|degrés) \w{1,10}|"
    r"(?:cubic|square) \w{2,11}|\w{2,11} (?:cubes?|cúbicos?|carrés?|cuadrados?)|km/h|m/s|US\$|[$€£¥₹%‰]|°[CF]|"
    r"[^\W\d_]+[²³23]?)"
)
_ORDINAL_END = re.compile(r"(?:st|nd|rd|th|º|ª|er|re|ème|e|ter|te|ten)\b")
_ABOUT = LazyPattern(_TEXTS.ABOUT, re.I)
_LOWER = LazyPattern(_TEXTS.LOWER, re.I)
_UPPER = LazyPattern(_TEXTS.UPPER, re.I)


# ---- units ----


class Unit(Struct, frozen=True):
    """One unit: ``value * factor + offset`` is the same in the dimension's base unit."""

    dimension: str
    factor: float = 1.0
    offset: float = 0.0


UNITS: dict[str, Unit] = {
    word.replace("_", " "): Unit(dimension, float(factor))
    for dimension, rows in tomllib.loads(Path(__file__).with_name("units.toml").read_text(encoding="utf-8")).items()
    for factor, words in rows.items()
    for word in words.split()
}
UNITS |= dict.fromkeys(("°C", "degrees celsius", "grad celsius", "grados celsius", "degrés celsius"), Unit("temperature"))
UNITS |= dict.fromkeys(("°F", "degrees fahrenheit", "grad fahrenheit"), Unit("temperature", 5 / 9, -160 / 9))
MONEY = frozenset(("USD", "EUR", "GBP", "JPY", "CHF", "INR"))
CURRENCY_SIGNS = {"$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}


def unit_of(word: str) -> Unit | None:
    """The unit that is written `word`: symbols by their exact case, words by any."""
    if (unit := UNITS.get(word)) is not None:
        return unit
    return UNITS.get(word.lower()) if len(word) > 2 else None


# ---- numbers ----


class Quantity(Struct, frozen=True):
    """One number of a text, with its unit if it has one."""

    values: tuple[float, ...]
    """What it may be worth, as written."""
    unit: Unit | None
    step: float
    """The place that it is rounded at: 0.1 for "4.5", 1e5 for "1.2 million"."""
    start: int
    end: int
    """With its unit."""
    text: str
    relation: str = ""
    """``about``, ``min`` (at least, more than) or ``max``."""
    spelled: bool = False
    """Written in words, or an ordinal: small ones are often counted from what the evidence lists."""

    @property
    def dimension(self) -> str:
        """``length``, ``ratio``, ``USD``, …; "" for a plain number."""
        return self.unit.dimension if self.unit else ""

    def base_values(self) -> tuple[float, ...]:
        """In the dimension's base unit."""
        unit = self.unit
        return self.values if unit is None else tuple(value * unit.factor + unit.offset for value in self.values)


class Quantities(Struct, frozen=True):
    """All that can be compared as a number in one text, each kind in the text's order."""

    numbers: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    times: tuple[Time, ...]


def read_quantities(text: str, language: str = "en", *, any_language: bool = False) -> Quantities:
    """Numbers, dates and times of day in `text`; with `any_language` number words of all six languages, for evidence."""
    times = read_times(text)
    clock = {at for time in times for at in range(time.start, time.end)}
    dates = [date for date in read_dates(text) if not (date.start in clock or date.end - 1 in clock or _is_amount(text, date))]
    taken = sorted([(d.start, d.end) for d in dates] + [(t.start, t.end) for t in times])
    languages = NUMBER_LANGUAGES if any_language else (language if language in NUMBER_LANGUAGES else "en",)
    numbers = [_with_half(text, *half) for half in read_halves(text) if half[1] not in clock]
    taken = sorted([*taken, *((n.start, n.end) for n in numbers)])
    numbers += _digits(text, taken, languages)
    numbers += _read_spelled(text, [*taken, *((n.start, n.end) for n in numbers)], languages)
    return Quantities(tuple(sorted(numbers, key=lambda n: n.start)), tuple(dates), tuple(times))


def _with_half(text: str, value: float, start: int, end: int) -> Quantity:
    """A number in words that has a half in it, with its unit."""
    after = _AFTER_NUMBER.match(text, end)
    unit = unit_of(after[1]) if after is not None else None
    end = after.end() if after is not None and unit is not None else end
    step = 1.0 if value < 1e3 else value / 10
    return Quantity((value,), unit, step, start, end, text[start:end], _relation(text, start), True)


def _is_amount(text: str, date: Date) -> bool:
    """Whether what could be a year is an amount: "2000 metres", "$1990"; "an" is rather a German or an English word than a French year."""
    if not text[date.start : date.end].isdigit():
        return False
    after = _AFTER_NUMBER.match(text, date.end)
    if after is not None and after[1].lower() != "an" and text[after.end() : after.end() + 1] not in ("'", "’") and unit_of(after[1]):
        return True
    before = text[max(0, date.start - _NEAR_CHARS) : date.start].rstrip()
    return bool(before) and before[-1] in CURRENCY_SIGNS


def _digits(text: str, taken: Sequence[tuple[int, int]], languages: Sequence[str]) -> Iterator[Quantity]:
    k = 0
    for match in each(_NUMBER.finditer(text)):
        start, end = match.span()
        while k < len(taken) and taken[k][1] <= start:
            k += 1
        if (k < len(taken) and taken[k][0] < end) or end - start > _MAX_NUMBER_CHARS or _is_part_of_a_word(text, start, end):
            continue
        readings = _readings(match[0])
        if not readings:
            continue
        found = _with_surroundings(text, start, end, readings, languages)
        if found.end > end or not text[end : end + 1].isalpha():  # "3D" is no amount
            yield found


def _is_part_of_a_word(text: str, start: int, end: int) -> bool:
    """Whether digits belong to a name: A4, F-16, COVID-19, 747-400B; "#5" and "v2" are no amounts either."""
    before = text[start - 1] if start else " "
    if before.isalpha() or before in "_#/\\@" or (before in ".," and start > 1 and text[start - 2].isdigit()):
        return True
    if before in "-–" and start > 1 and text[start - 2].isalpha():
        return True
    after = text[end : end + 2]
    return after[:1] == "_" or (after[:1] in "-/" and after[1:].isdigit() and end - start > 4)


def _readings(written: str) -> list[tuple[float, float]]:
    """``(value, step)`` of each way to read a number's digits; none for "2.5.1" or "1,2,3"."""
    plain = re.sub(r"[ \u00a0\u202f'’]", "", written)
    parts = re.split(r"[.,]", plain)
    marks = [c for c in plain if c in ".,"]
    if not marks:
        return [(float(plain), _integer_step(plain))]
    grouped = len(parts[0]) <= 3 and parts[0].strip("0") != "" and all(len(part) == 3 for part in parts[1:])
    found = []
    if grouped and len(set(marks)) == 1:
        found.append((float("".join(parts)), _integer_step("".join(parts))))
    if len(marks) == 1 or (marks[-1] not in marks[:-1] and len(set(marks)) == 2 and all(2 <= len(part) <= 3 for part in parts[1:-1])):
        found.append((float("".join(parts[:-1]) + "." + parts[-1]), 10.0 ** -len(parts[-1])))
    return found


def _integer_step(digits: str) -> float:
    """1000 for "297000": three and more zeros at the end are taken for rounding."""
    zeros = len(digits) - len(digits.rstrip("0"))
    return 10.0**zeros if 3 <= zeros < len(digits) else 1.0


def _with_surroundings(text: str, start: int, end: int, readings: list[tuple[float, float]], languages: Sequence[str]) -> Quantity:
    """The number with what stands around it: sign, currency, magnitude, unit, "about"."""
    factor, unit, ordinal = 1.0, None, False
    before = text[max(0, start - 3) : start].rstrip()
    if before[-1:] in CURRENCY_SIGNS:
        unit = UNITS[before[-1:]]
        start = text.rindex(before[-1:], 0, start)
    negative = before[-1:] in ("-", "−") and (len(before) < 2 or before[-2] in " (") and not text[start - 1].isspace()
    if ends := _ORDINAL_END.match(text, end):
        end, ordinal = ends.end(), True
    else:
        factor, unit, end = _magnitude_and_unit(text, end, unit, languages)
    sign = -1.0 if negative else 1.0
    return Quantity(
        tuple(sign * value * factor for value, _ in readings),
        unit,
        max(step for _, step in readings) * factor if len(readings) == 1 else min(step for _, step in readings) * factor,
        start,
        end,
        text[start:end],
        _relation(text, start),
        ordinal,
    )


def _magnitude_and_unit(text: str, end: int, unit: Unit | None, languages: Sequence[str]) -> tuple[float, Unit | None, int]:
    factor = 1.0
    for _ in range(3):
        match = _AFTER_NUMBER.match(text, end)
        if match is None or match[1].isdigit():
            break
        word = match[1]
        worth = next((m for language in languages if (m := magnitude(word.lower(), language))), None)
        if worth is not None and factor < 1e12:
            factor, end = factor * worth, match.end()
            if text[end : end + 1] == "." and len(word) <= 4:  # "Mio."
                end += 1
        elif unit is not None and word in ("m", "M", "bn", "b", "B", "k", "K"):
            return factor * {"m": 1e6, "k": 1e3, "b": 1e9}[word[0].lower()], unit, match.end()
        elif unit is None and (found := unit_of(word)) is not None:
            return factor, found, match.end()
        elif unit is None and word in ("de", "d", "of") and factor > 1:  # 3 millones de euros
            end = match.end()
        else:
            break
    return factor, unit, end


def _relation(text: str, start: int) -> str:
    near = text[max(0, start - _NEAR_CHARS) : start]
    if _LOWER.search(near):
        return "min"
    if _UPPER.search(near):
        return "max"
    return "about" if _ABOUT.search(near) else ""


def _read_spelled(text: str, taken: Sequence[tuple[int, int]], languages: Sequence[str]) -> list[Quantity]:
    words = [(match[0].lower(), match.start(), match.end()) for match in each(_WORD.finditer(text))]
    within = {at for start, end in each(taken) for at in range(start, min(end, start + 60))}
    starts = [i for i, (word, start, _) in enumerate(each(words)) if may_count(word) and start not in within]
    found = []
    for language in languages:
        reached = 0
        for i in each(starts):
            if i >= reached:
                quantity, used = _spelled_at(text, words, i, language)
                found += [quantity] if quantity is not None else []
                reached = i + used
    return found


def _spelled_at(text: str, words: Sequence[tuple[str, int, int]], i: int, language: str) -> tuple[Quantity | None, int]:
    word, start, end = words[i]
    if word in FRACTIONS or (word in ("third", "quarter") and i and words[i - 1][0] in ("a", "one")):
        times = word_value(words[i - 1][0], language) if i else None
        share = FRACTIONS.get(word) or (1 / 3 if word == "third" else 1 / 4)
        share *= times if times and 1 < times < 1 / share else 1
        return Quantity((share,), Unit("ratio"), 0.02, start, end, word, _relation(text, start), True), 1
    if (ordinal := ordinal_value(word, language)) is not None:
        return Quantity((ordinal,), None, 1.0, start, end, text[start:end], "", True), 1
    if word_value(word, language) is None or (word in ("k", "md", "mn", "mill", "mio", "mrd", "tsd", "bn", "cents")):
        return None, 1
    run = [words[i]]
    for following in words[i + 1 : i + MAX_RUN_WORDS]:
        if text[run[-1][2] : following[1]] not in (" ", "-", "\u00a0") or (
            following[0] not in JOINERS and word_value(following[0], language) is None
        ):
            break
        run.append(following)
    value, used = run_value([w for w, _, _ in run], language)
    end = run[used - 1][2]
    unit = None
    step = max(1.0, value / 10 if value >= 1e6 else 1.0)
    if (after := _AFTER_NUMBER.match(text, end)) and (unit := unit_of(after[1])):
        end = after.end()
    return Quantity((value,), unit, step, start, end, text[start:end], _relation(text, start), True), used


# ---- comparing ----


def agrees(claim: Quantity, evidence: Quantity) -> bool:
    """Whether what the claim says of an amount is true of the evidence's: the same, rounded, converted, or within its bound."""
    if claim.dimension and evidence.dimension and claim.dimension != evidence.dimension:
        return False
    if claim.unit and evidence.unit:
        scale, tolerance = claim.unit.factor, 0.0 if claim.unit == evidence.unit else _CONVERTED_TOLERANCE
        pairs = [(c, e) for c in claim.base_values() for e in evidence.base_values()]
    else:
        scale, tolerance = 1.0, 0.0
        pairs = [(c, e) for c in claim.values for e in evidence.values]
    abouts = (claim.relation, evidence.relation).count("about")
    tolerance = max(tolerance, TOLERANCE * abouts)
    return any(_near(c, e, claim.step * scale, tolerance) or _within_bound(claim, evidence, c, e) for c, e in pairs)


def _near(claim: float, evidence: float, step: float, tolerance: float) -> bool:
    size, apart = max(abs(claim), abs(evidence)), abs(claim - evidence)
    if apart <= 1e-9 * size or apart <= tolerance * size:
        return True
    return step != 1.0 and apart <= step / 2 * (1 + 1e-9) and (apart <= _ROUNDED_TOLERANCE * size)


def _within_bound(claim: Quantity, evidence: Quantity, c: float, e: float) -> bool:
    if claim.dimension != evidence.dimension:
        return False
    return (claim.relation == "min" and e >= c) or (claim.relation == "max" and e <= c)
