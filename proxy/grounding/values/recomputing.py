"""What a text works out in so many words, and what follows from an empty result: "2 + 3 = 6", "none were found", "all tests pass".

In: a statement of an answer, and all that was said. Out: whether a calculation that it writes out is right (`calculation`), whether it is
so of a result without members or failures (`follows`). Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from functools import lru_cache
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.language.dates import Date, Time
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import Quantities, Quantity
from proxy.language.text import stretches
from proxy.offloop import each

_TEXTS = phrases(Path(__file__).parent)

_EQUATION = re.compile(
    r"(?<![\w.,+*/×·÷−–-])(?<!\d[ \u00a0\u202f])(?P<left>\$?\d[\d.,]{0,14}[€$%]?(?:[ ]{0,2}[-+*/×·÷−–x][ ]{0,2}\$?\d[\d.,]{0,14}[€$%]?){1,9})"
    r"[ ]{0,2}=[ ]{0,2}(?P<right>[€$]?-?\d[\d.,]{0,14})(?![\d%]|[.,]\d|[ \u00a0\u202f]\d{3}(?!\d)|[ ]{0,2}[-+*/×·÷−–])"
)
_TERM = re.compile(r"([-+*/×·÷−–x]?)[ ]{0,2}\$?(\d[\d.,]{0,14})")
_TOTAL_OF = re.compile(
    r"\b(?:total|sum|summe|suma|somme) (?:of|von|aus|de) (?P<a>\d[\d.,]{0,14}) (?:and|und|y|et) (?P<b>\d[\d.,]{0,14})"
    r" (?:is|equals|makes|ist|beträgt|ergibt|es|est|fait) (?P<c>\d[\d.,]{0,14})(?![\d%])",
    re.I,
)
_NONE = LazyPattern(_TEXTS.NONE, re.I)
_FOUND = LazyPattern(_TEXTS.FOUND, re.I)
_NOTHING_SAID = LazyPattern(_TEXTS.NOTHING_SAID, re.I)
_EMPTY_MEMBER = re.compile(r"\"\w{1,40}\"\s*:\s*\[\s*\]|\"(?:count|total|total_count|totalResults|hits|found|matches)\"\s*:\s*0\b")
_ALL_PASS = LazyPattern(_TEXTS.ALL_PASS, re.I)
_PASSED = re.compile(r"\b(\d{1,6}) (?:tests? )?(?:passed|passing|ok|bestanden|successful|succeeded)\b|\bOK \((\d{1,6}) tests?", re.I)
_FAILED = re.compile(
    r"(?i:\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|failing|errors?|fehlgeschlagen)\b)|\bFAILED\b|\"failed\"\s*:\s*[1-9]"
)


class Calculation(Struct, frozen=True):
    """A calculation that a text writes out."""

    text: str
    right: bool
    result: str
    """What it really makes."""


# ---- calculations that are written out ----


def calculation(text: str) -> Calculation | None:
    """The first calculation in `text` whose operands and result can each be read in one way only; None without one."""
    for match in _EQUATION.finditer(text):
        told, result = _plain(match["right"].strip("€$")), _worked_out(match["left"])
        if told is not None and result is not None:
            share = "/" in match["left"] or "÷" in match["left"]  # 61 / 150 = 40.7 is told in per cent
            right = any(abs(told - made) <= _reach(match["right"], made) for made in ((result, 100 * result) if share else (result,)))
            return Calculation(match[0], right, f"{result:.10g}")
    match_total = _TOTAL_OF.search(text)
    if match_total:
        a, b, c = (_plain(match_total[name]) for name in "abc")
        if a is not None and b is not None and c is not None:
            return Calculation(match_total[0], abs(a + b - c) <= _reach(match_total["c"], a + b), f"{a + b:.10g}")
    return None


def _plain(written: str) -> float | None:
    """A number that can be read in one way: digits, with at most one mark of decimals; "1,234" is none."""
    written = written.rstrip(".,")
    if re.fullmatch(r"-?\d{1,15}", written):
        return float(written)
    found = re.fullmatch(r"(-?\d{1,15})[.,](\d{1,2}|\d{4,9})", written)
    return float(f"{found[1]}.{found[2]}") if found else None


def _reach(written: str, result: float) -> float:
    """By how much a result may miss that is rounded to the places it is given with, or to a whole number."""
    decimals = re.search(r"[.,](\d+)\D*$", written)
    step = 10.0 ** -len(decimals[1]) if decimals else 1.0 if result != int(result) else 0.0
    return step * 1.001 + 1e-9 * abs(result)


def _worked_out(left: str) -> float | None:
    """``2 + 3 * 4``, products first; None for a number that cannot be read or a division by zero."""
    if "%" in left:
        return None
    sums: list[float] = []
    for sign, written in _TERM.findall(left):
        value = _plain(written)
        if value is None:
            return None
        if sign in ("*", "×", "·", "x") and sums:
            sums[-1] *= value
        elif sign in ("/", "÷") and sums:
            if not value:
                return None
            sums[-1] /= value
        else:
            sums.append(-value if sign in ("-", "−", "–") else value)
    return sum(sums)


# ---- statements that follow ----


def follows(claim: str, texts: Sequence[str]) -> bool:
    """Whether `claim` says of an empty result that nothing was found, or of tests without a failure that all pass."""
    if _ALL_PASS.search(claim) and any(_PASSED.search(text) and not _FAILED.search(text) for text in texts):
        return not any(_FAILED.search(text) for text in texts)
    return bool(_NONE.search(claim) and _FOUND.search(claim)) and any(_is_empty(text) for text in texts)


def _is_empty(text: str) -> bool:
    return _NOTHING_SAID.fullmatch(text) is not None or (len(text) < 2000 and _EMPTY_MEMBER.search(text) is not None)


# ---- counting ----


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


# ---- times ----


MAX_OPERANDS = 24
"""Numbers of one kind that are tried with each other."""
MAX_RELATIVE_DAYS = 31
"""How far from another date a day may be that is told by it ("the second Monday after")."""
_UNIT_SECONDS = 86400.0
_ZONE = re.compile(_TEXTS.ZONE)
"""The name of a time zone, as it stands beside times."""
_ZONE_STEP_MINUTES = 30
"""Time zones are full hours apart, and some a half."""


def is_span(number: Quantity, quantities: Quantities) -> bool:
    """Whether two dates or times that were said are so far apart; to the day, hour or minute that the claim names, ends counted or not."""
    seconds = [abs(a - b) * 60.0 for a, b in combinations([m for t in quantities.times for m in t.minutes][:MAX_OPERANDS], 2)]
    days = [d for one in quantities.dates if (d := _day(one)) is not None][:MAX_OPERANDS]
    seconds += [abs((a - b).days + extra) * _UNIT_SECONDS for a, b in combinations(days, 2) for extra in (-1, 0, 1)]
    years = list(dict.fromkeys(y for one in quantities.dates for y, _, _ in one.readings if y is not None))[:MAX_OPERANDS]
    seconds += [abs(a - b + extra) * 31556952.0 for a, b in combinations(years, 2) for extra in (-1, 0, 1)]
    unit = number.unit.factor if number.unit else 1.0
    reach = 0.5 * unit if unit >= 604800 else 1.0
    return any(abs(wanted - made) <= max(reach, 0.0) for wanted in number.base_values() for made in seconds)


def _day(one: Date) -> date | None:
    year, month, day = one.readings[0]
    try:
        return None if month is None or day is None else date(year or 2001, month, day)
    except ValueError:
        return None


def _days_apart(one: Date, other: Date) -> float:
    """Days between two; where one has no year, within a year."""
    if any(day.readings[0][0] is None for day in (one, other)):
        one, other = (replace(day, readings=tuple((None, m, d) for _, m, d in day.readings)) for day in (one, other))
    mine, theirs = _day(one), _day(other)
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
    wanted = _day(one)
    if wanted is not None:
        known = [d for other in quantities.dates if (d := _day(other)) is not None][:MAX_OPERANDS]
        if told_by_others and any(_days_apart(one, other) <= MAX_RELATIVE_DAYS for other in quantities.dates[:MAX_OPERANDS]):
            return True
        return any(abs((wanted - d).days) in (step - 1, step, step + 1) for d in known for step in steps)
    years = [y for other in quantities.dates for y, _, _ in other.readings if y is not None][:MAX_OPERANDS]
    spans = [round(step / 365.2425) for step in days if step >= 300]
    return any(y is not None and any(abs(y - known) in spans[:MAX_OPERANDS] for known in years) for y, _, _ in one.readings)
