"""Is a calculation right that a text writes out? "€61.00 + €54.50 = €119.50" in, that it makes 115.50 out.

Numbers may be in either writing, with a currency, a unit, or what is counted. What mixes units, or is no calculation (a score, a date,
algebra), is left alone; what decimals may have been rounded away is no mistake. Pure; each expression is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import CURRENCY_SIGNS, MONEY, unit_of

_TEXTS = phrases(Path(__file__).parent)
MISTAKEN = LazyPattern(_TEXTS.MISTAKEN, re.I)
"""That something is wrong, be it what is quoted."""
_OPERATION, _OTHER_NUMBERS = LazyPattern(_TEXTS.OPERATION, re.I), LazyPattern(_TEXTS.OTHER_NUMBERS, re.I)
_OPERATION_CHARS = 24
_QUOTES = tuple("\"'“”«„‘")
DIGITS = r"\d[\d.,]{0,14}(?<![.,])"
"""Of a number, in whatever writing; bounded, as it is looked for from each digit on."""
_NUMBER = rf"(?:(?:R\$|[€$£¥₹]|[A-Z]{{3}})[ \u00a0]?)?{DIGITS}(?:[ \u00a0]?(?:[€$£¥₹%]|[^\W\d_]{{1,12}}\b))?"
_OPERATOR = r"[-+*/×·÷−–x]"
_EQUATION = re.compile(
    r"(?<![\w.,+*/×·÷−–^√(-])(?<!\d[ \u00a0\u202f])(?<![-+*/×·÷−–^x][ ])"
    rf"(?P<left>{_NUMBER}(?:[ ]{{0,2}}{_OPERATOR}[ ]{{0,2}}{_NUMBER}){{1,9}})"
    rf"[ ]{{0,2}}=[ ]{{0,2}}(?P<right>-?{_NUMBER})(?![\d%²³^]|[.,]\d|[ \u00a0\u202f]\d{{3}}(?!\d)|[ ]{{0,2}}[-+*/×·÷−–])"
)
_OVER = re.compile(rf"((?:÷[ ]?| / ){DIGITS})/(?=\d)")
"""By a fraction, as most people mean "210 ÷ 7/3"."""
_UNSPACED = re.compile(r"\d[-−–]\d|\d/\d+/\d")
_ROUND = re.compile(r"[1-9](0{3,})$")
_TERM = re.compile(rf"({_OPERATOR}?)[ ]{{0,2}}(?P<number>{_NUMBER})")
_TOTAL_OF = re.compile(
    r"\b(?:total|sum|summe|suma|somme) (?:of|von|aus|de) (?P<a>\d[\d.,]{0,14}) (?:and|und|y|et) (?P<b>\d[\d.,]{0,14})"
    r" (?:is|equals|makes|ist|beträgt|ergibt|es|est|fait) (?P<c>\d[\d.,]{0,14})(?![\d%])",
    re.I,
)


class Calculation(Struct, frozen=True):
    """A calculation that a text writes out."""

    text: str
    right: bool
    result: str
    """What it really makes."""


def calculation(text: str) -> Calculation | None:
    """The first calculation in `text` that is wrong, else the first of all; None without one.

    A number is read with a point, then with a comma before its decimals; wrong is what neither makes right. What mixes units, a
    currency's amounts and what is counted ("4 nights × £29") excepted, is none. A word that is no unit may be "thousand" or "dozen" in
    some language: with one that not all numbers have, and of a sum, whose words may be left out, only a result that misses by less than
    a half is wrong. A part of a calculation whose rest is in words is none, and neither is what is quoted, or of other numbers than ours.
    """
    written = [m for m in (_EQUATION.finditer(text) if "=" in text else ()) if _is_whole(text, m.start())]
    if written and _OTHER_NUMBERS.search(text):
        return None
    found = [_calculated(m[0], m["left"], m["right"]) for m in written]
    found += [_calculated(m[0], f"{m['a']} + {m['b']}", m["c"]) for m in _TOTAL_OF.finditer(text)]
    every = [one for one in found if one is not None]
    return next((one for one in every if not one.right), every[0] if every else None)


def _is_whole(text: str, start: int) -> bool:
    before = text[max(0, start - _OPERATION_CHARS) : start]
    return not before.endswith(_QUOTES) and _OPERATION.search(before) is None


def _calculated(text: str, left: str, right: str) -> Calculation | None:
    if _UNSPACED.search(left):  # a score, a date, a span
        return None
    if (by_fraction := _OVER.sub(r"\1×", left)) != left and (one := _calculated(text, by_fraction, right)) is not None and one.right:
        return one
    share = "/" in left or "÷" in left  # 61 / 150 = 40.7 is told in per cent
    made: list[float] = []
    for decimals in ".,":
        told, terms = _read(right, decimals), [(m[1], _read(m["number"], decimals)) for m in _TERM.finditer(left)]
        if told is None or not all(read is not None for _, read in terms) or not _of_one_unit([*terms, ("=", told)]):
            continue
        result, reach = _worked_out(terms)
        if result is None:
            continue
        in_order = _in_order(terms)  # as many a calculator has it, and an average without its brackets
        reach += told.step * 1.001 + 1e-9 * abs(result)
        if not told.step and result != int(result):
            reach += 1.0
        if (zeros := _ROUND.search(f"{told.value:.0f}")) is not None:  # "about 203000"
            reach += 10.0 ** len(zeros[1]) / 2
        possible = (result, 100 * result) if share else (result, -result) if len(terms) == 2 else (result,)  # "9 – 17 = 8 h"
        if any(abs(told.value - one) <= reach for one in (*possible, in_order)):
            return Calculation(text, True, f"{result:.10g}")
        is_sum = not any(sign and sign in _FACTORS for sign, _ in terms)
        may_miss_words = is_sum or _has_unknown_word([told, *(term for _, term in terms if term)])
        if not may_miss_words or _NEAR[0] * abs(result) < abs(told.value) < _NEAR[1] * abs(result):
            made.append(result)
    return Calculation(text, False, f"{made[0]:.10g}") if made else None


COUNTED = "~"
_NEAR = 0.55, 1.8
"""Times the result: between a half and the double, which are a pair's."""


class _Term(NamedTuple):
    """A number of a calculation."""

    value: float
    step: float
    """Of its last decimal; 0 of a whole number."""
    unit: str
    """A currency, a unit, or `COUNTED` before the word for what is counted."""
    is_known: bool
    """Whether that is a currency or a unit, or nothing."""


def _read(written: str, decimals: str) -> _Term | None:
    """A number with `decimals` before its decimals and the other mark, if any, between thousands; None where it is not written so."""
    digits = re.search(DIGITS, written)
    if digits is None:
        return None
    thousands = "," if decimals == "." else "."
    plain = re.fullmatch(rf"(?:\d+|\d{{1,3}}(?:\{thousands}\d{{3}})+)(?:\{decimals}(\d+))?", digits[0])
    if plain is None:
        return None
    mark = (written[: digits.start()] + written[digits.end() :]).strip(" \u00a0-.,")
    known = unit_of(CURRENCY_SIGNS.get(mark, mark))
    unit = mark if known is None else known.dimension if known.dimension in MONEY else f"{known.dimension} {known.factor}"
    unit = f"{COUNTED}{mark}" if known is None and mark.isalpha() and len(mark) > 2 else unit
    sign = -1 if written.startswith("-") else 1
    value = float(digits[0].replace(thousands, "").replace(decimals, "."))
    return _Term(sign * value, 10.0 ** -len(plain[1]) if plain[1] else 0.0, unit, known is not None or mark in ("", "%"))


def _has_unknown_word(terms: Sequence[_Term]) -> bool:
    return len({term.unit for term in terms}) > 1 and not all(term.is_known for term in terms)


def _of_one_unit(terms: Sequence[tuple[str, _Term | None]]) -> bool:
    """Whether all summands and the result are amounts of one thing."""
    units, summands = {term.unit for _, term in terms if term is not None} - {""}, list[set[str]]()
    for sign, term in terms:
        assert term is not None
        if sign in _FACTORS and summands:
            summands[-1].add(term.unit)
        else:
            summands.append({term.unit})
    if "%" in units:
        return all(own == {"%"} for own in summands)
    counted = {unit for unit in units if unit.startswith(COUNTED)}
    if len(summands) > 2 and len(counted) > 1:
        return False
    units -= counted
    if not units or units <= MONEY:
        return len(units) < 2
    money = units & MONEY
    if len(money) == 1:  # an hour's price times hours
        return all(money <= own for own in summands)
    return not any(units & own for own in summands[:-1]) or (len(units) == 1 and all(units <= own for own in summands))


_FACTORS = frozenset("*×·x/÷")


def _worked_out(terms: Sequence[tuple[str, _Term | None]]) -> tuple[float | None, float]:
    """``2 + 3 * 4``, products first, and by how much it may miss as its decimals are rounded; None for a division by zero."""
    sums: list[list[float]] = []
    for sign, term in terms:
        assert term is not None
        share = term.step / 2 / abs(term.value) if term.value else 0.0
        if sign in _FACTORS and sums:
            if sign in "/÷" and not term.value:
                return None, 0.0
            sums[-1][0] *= term.value if sign not in "/÷" else 1 / term.value
            sums[-1][1] += share
        else:
            sums.append([-term.value if sign in ("-", "−", "–") else term.value, share])
    return sum(value for value, _ in sums), sum(abs(value) * share for value, share in sums)


def _in_order(terms: Sequence[tuple[str, _Term | None]]) -> float:
    """``3 + 4 * 2`` from left to right, of terms among which nothing is divided by zero."""
    found = 0.0
    for sign, term in terms:
        assert term is not None
        if sign in ("/", "÷"):
            found /= term.value
        elif sign in _FACTORS:
            found *= term.value
        else:
            found += -term.value if sign in ("-", "−", "–") else term.value
    return found
