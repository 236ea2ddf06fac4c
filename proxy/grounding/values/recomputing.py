"""What follows from the evidence in one step: sums, counts, averages, shares, durations, "none were found", "all tests pass".

In: a number or a statement of an answer, the question it answers, and all that was said. Out: whether it can be worked out of that
(`derived`, `follows`), and whether a calculation that the answer writes out is right (`calculation`). An operation is only tried where a
word of the answer or of its question asks for it: two numbers that make up a third by chance are soon found. Pure; bounded by
`MAX_OPERANDS` numbers and `MAX_ARRAYS` arrays.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any

from msgspec import Struct

from proxy.grounding.values.times import MAX_OPERANDS, is_span
from proxy.language.quantities import TOLERANCE, Quantities, Quantity
from proxy.offloop import check

MAX_ARRAYS = 60
"""JSON arrays of one text that are counted and summed up."""
MAX_JSON_CHARS = 200_000
MAX_ROW_CHARS = 120
"""Lines that are no longer are rows of a list, and counted."""
SUM = re.compile(
    r"\b(?:total\w*|together|sum\w*|combined|altogether|overall|both|in all|all told|how (?:many|much)|add(?:s|ed|ing)? up"
    r"|insgesamt|zusammen|summe|gesamt\w*|beide\w*|wie ?viele?|macht zusammen|en total|sum\w+|junt[oa]s|ambos|ambas|cuánt[oa]s?"
    r"|au total|ensemble|somme|combien|les deux|en tout|in tutto|insieme|somma\w*|complessiv\w+|entramb\w|quant[ioae]|ao todo|no total|junt[oa]s|soma\w*|ambos|quant[oa]s)\b|\d ?[+=] ?\d",
    re.I,
)
DIFFERENCE = re.compile(
    r"\b(?:differ\w*|(?:more|less|fewer|\w+er) than|(?:years?|months?|days?|hours?|minutes?|points?|%|percent) (?:more|less|\w+er)"
    r"|increas\w*|decreas\w*|(?:rose|fell|grew|up|down|gained|lost|dropped) by|gain\w*|remain\w*|left|margin|between|save[sd]?|saving\w*"
    r"|exceed\w*|short of|short by|ahead|behind|change[sd]? by|minus|later|earlier|cheaper"
    r"|differenz|unterschied|mehr als|weniger als|später|früher|(?:gestiegen|gesunken|gewachsen) um|um|bleib\w*|übrig|verblieb\w*|teurer|billiger"
    r"|diferencia|más que|menos que|después|antes|aument\w*|disminu\w*|qued\w*|ahorr\w*|sobran?|faltan?|restan?"
    r"|différence|de plus|de moins|augment\w*|diminu\w*|il reste|reste|écart|économi\w*|manque\w?|differenza|più di|meno di|in più|in meno|aument\w+|rest\w+|rimang\w+|risparmi\w*|manca\w*|diferença|mais do? que|menos do? que|a mais|a menos|sobra\w*|falta\w*|poupa\w*|economiza\w*)\b|\d ?[-−–] ?\d",
    re.I,
)
MEAN = re.compile(
    r"\b(?:average\w*|mean|avg|durchschnitt\w*|mittel\w*|schnitt|promedio|media|medio|moyenne?s?|en moyenne|in media|mediamente|em média|média)\b|ø",
    re.I,
)
PRODUCT = re.compile(
    r"\b(?:total\w*|each|per|times|every|twice|double\w?|triple\w?|annual\w*|a (?:year|month|week|day)|insgesamt|je|jeweils|mal|pro|doppelt\w?"
    r"|jährlich\w*|cada|veces|por|doble|al (?:año|mes|día)|chacun\w?|chaque|fois|par|double|ogni|ciascun\w?|volte|doppio|al (?:giorno|mese)|all'anno|vezes|dobro|ao (?:dia|mês|ano))\b|\d ?[*×x] ?\d",
    re.I,
)
RATIO = re.compile(
    r"%|\b(?:percent\w*|per cent|share|ratio|times|half|third|quarter|fraction|of the|per|twice|double\w?|prozent\w*|anteil|verhältnis|hälfte"
    r"|drittel|viertel|mal|pro|doppelt|por ciento|porcentaje|proporción|mitad|tercio|veces|pour cent|pourcentage|part|moitié|tiers|fois|per cento|percentuale|metà|terzo|volte|por cento|percentagem|porcentagem|metade|terço|vezes)\b",
    re.I,
)
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
_NONE = re.compile(
    r"\b(?:no|none|nothing|not any|zero|empty|(?:did|could|were|was|is|are|have|has) ?n[o'’]t|without|keine?[rns]?|nichts|leer|ohne|nicht"
    r"|ning[uú]n[oa]?s?|nada|vac[ií][oa]s?|sin|aucune?s?|rien|vide|pas)\b",
    re.I,
)
_FOUND = re.compile(
    r"\b(?:result\w*|match\w*|found|find|item\w*|entr\w+|record\w*|hit\w?|there|list\w*|available|exist\w*|return\w*|response"
    r"|ergebnis\w*|treffer\w*|gefunden|einträge?\w*|gibt|vorhanden|liste|resultad\w*|coinciden\w*|encontr\w*|hay|existe\w*|elemento\w*"
    r"|résultat\w*|trouvé\w*|correspond\w*|existe\w*|éléments?)\b",
    re.I,
)
_NOTHING_SAID = re.compile(
    r"\s*(?:\[\s*\]|\{\s*\}|null|none|\(empty\)|no (?:results?|matches|items|records|rows|files?|events?)(?: (?:were )?found)?\.?"
    r"|0 (?:results?|matches|rows|items|hits)(?: found)?\.?|)\s*",
    re.I,
)
_EMPTY_MEMBER = re.compile(r"\"\w{1,40}\"\s*:\s*\[\s*\]|\"(?:count|total|total_count|totalResults|hits|found|matches)\"\s*:\s*0\b")
_ALL_PASS = re.compile(
    r"\b(?:all|every|each|alle|jeder?|sämtliche|tod[oa]s|cada|tou(?:s|tes))\b.{0,60}\b(?:pass\w*|succe\w*|green|ok|bestanden|bestehen|erfolgreich"
    r"|grün|durch\w*|pasa\w*|pasado|éxito|verdes?|réussi\w*|pass\w+|verts?)\b",
    re.I,
)
_PASSED = re.compile(r"\b(\d{1,6}) (?:tests? )?(?:passed|passing|ok|bestanden|successful|succeeded)\b|\bOK \((\d{1,6}) tests?", re.I)
_FAILED = re.compile(
    r"(?i:\b[1-9]\d{0,5} (?:tests? )?(?:failed|failures?|failing|errors?|fehlgeschlagen)\b)|\bFAILED\b|\"failed\"\s*:\s*[1-9]"
)
_BULLET = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S", re.M)
_TABLE_ROW = re.compile(r"^[ \t]{0,8}\|.*\|[ \t]*$", re.M)


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


# ---- numbers that follow ----


def derived(
    number: Quantity, claim: str, asked: str, quantities: Quantities, texts: Sequence[str], others: Sequence[Quantity] = ()
) -> bool:
    """Whether `number` of `claim` can be worked out of what was said, in one step that a word of the claim or its question asks for; or
    with one of the `others` of the claim: "two tickets are 108 euros".
    """
    cues = f"{claim} {asked}"
    if any(is_rounded(number, other) for other in quantities.numbers) or is_counted(number, texts):
        return True
    if number.dimension == "duration" and is_span(number, quantities):
        return True
    if any(hits(number, made) for made in _scaled(number, quantities, others)):
        return True
    check()
    values = _operands(quantities, number.dimension)
    asks = tuple(pattern.search(cues) is not None for pattern in (SUM, DIFFERENCE, MEAN, PRODUCT, RATIO))
    made = _results(asks, values, _operands(quantities, None), tuple(texts), number.dimension == "ratio")
    return any(hits(number, result) for result in _near(number, made))


def _operands(quantities: Quantities, dimension: str | None) -> tuple[float, ...]:
    """The first distinct numbers of a dimension or none; of every one where it is None."""
    found: dict[float, None] = {}
    for q in quantities.numbers:
        if dimension is None or q.dimension in (dimension, ""):
            found[q.base_values()[0]] = None
            if len(found) == MAX_OPERANDS:
                break
    return tuple(found)


def _scaled(number: Quantity, quantities: Quantities, others: Sequence[Quantity]) -> Iterator[float]:
    """What was said, so many times as the claim says, or a part of it."""
    amounts = [q.base_values()[0] for q in quantities.numbers if q.dimension in (number.dimension, "")][:MAX_OPERANDS]
    for other in others:
        n = other.values[0]
        if other is not number and n > 1 and other.dimension != number.dimension:
            yield from (a * n for a in amounts)
            yield from (a / n for a in amounts)


@lru_cache(maxsize=16)
def _results(
    asks: tuple[bool, ...], values: tuple[float, ...], distinct: tuple[float, ...], texts: tuple[str, ...], share: bool
) -> list[float]:
    """What `_made` makes, sorted: each number of a claim is looked up in it."""
    return sorted(set(_made(asks, values, distinct, texts, share)))


def _near(number: Quantity, results: Sequence[float]) -> Iterator[float]:
    """Those of the sorted `results` that may hit it: none that `hits` would take is left out."""
    scale = number.unit.factor if number.unit else 1.0
    for wanted in number.base_values():
        reach = max(number.step * scale / 2, scale / 2, max(0.2, TOLERANCE) * abs(wanted) if number.relation else 1e-6 * abs(wanted))
        yield from results[bisect_left(results, wanted - reach) : bisect_right(results, wanted + reach)]


def _made(asks: tuple[bool, ...], values: Sequence[float], distinct: Sequence[float], texts: Sequence[str], share: bool) -> Iterator[float]:
    """What the numbers that were said make, by the operations that a claim asks for."""
    sums, differences, means, products, ratios = asks
    yield from _of_arrays(sums, means, texts)
    if sums:
        yield from (a + b for a, b in combinations(values, 2))
        yield from _running(values)
    if differences:
        yield from (abs(a - b) for a, b in combinations(values, 2))
        yield from (abs(a - b - c) for a, b, c in combinations(sorted(values, reverse=True)[:8], 3))
    if means:
        yield from ((a + b) / 2 for a, b in combinations(values, 2))
        yield from (sum(values[:n]) / n for n in range(3, len(values) + 1))
    if products:
        yield from (a * b for a, b in combinations(distinct, 2))
        yield from (a * n for a in values for n in (2, 3, 4, 7, 12, 24, 30, 52, 60, 365))
    if share or ratios:
        for a in distinct:
            for b in distinct:
                if b and a != b:
                    yield from (a / b, a / b * 100, (a - b) / b, abs(a - b) / b * 100)


def of_arrays(cues: str, texts: Sequence[str]) -> Iterator[float]:
    """Sums and means of the columns of numbers in JSON arrays."""
    return _of_arrays(SUM.search(cues) is not None, MEAN.search(cues) is not None, texts)


def _of_arrays(sums: bool, means: bool, texts: Sequence[str]) -> Iterator[float]:
    columns = [column for text in texts for column in _arrays(text)[1]]
    if sums:
        yield from (sum(column) for column in columns)
    if means:
        yield from (sum(column) / len(column) for column in columns if column)


def _running(values: Sequence[float]) -> Iterator[float]:
    """Sums of three and more numbers that follow each other."""
    for start in range(len(values)):
        total = 0.0
        for n, value in enumerate(values[start:], 1):
            total += value
            if n > 2:
                yield total


def hits(number: Quantity, made: float) -> bool:
    """Whether a result is the number, to the places that it is given with."""
    scale = number.unit.factor if number.unit else 1.0
    for wanted in number.base_values():
        reach = number.step * scale / 2 if number.step != 1.0 else scale / 2 if made / scale != int(made / scale) else 0.0
        reach = max(reach, TOLERANCE * abs(wanted)) if number.relation == "about" else reach
        if abs(made - wanted) <= max(reach, 1e-6 * abs(wanted)):
            return True
        if (number.relation == "min" and 0 <= made - wanted <= 0.2 * abs(wanted)) or (
            number.relation == "max" and 0 <= wanted - made <= 0.2 * abs(wanted)
        ):
            return True
    return False


def is_rounded(number: Quantity, other: Quantity) -> bool:
    """21.4 told as 21."""
    if number.dimension != other.dimension or other.step >= 1.0:
        return False
    return any(abs(c - e) <= 0.5 for c in number.values for e in other.values if c == int(c) and abs(e) >= 2)


def is_counted(number: Quantity, texts: Sequence[str]) -> bool:
    """Whether something that was said has so many members: an array, its members with one value, list items, rows."""
    value = number.values[0]
    if number.dimension not in ("", "data") and not number.spelled:
        return False
    return value == int(value) and any(int(value) in _arrays(text)[0] for text in texts)


@lru_cache(maxsize=64)
def _arrays(text: str) -> tuple[frozenset[int], tuple[tuple[float, ...], ...]]:
    """The lengths of what a text lists, and the columns of numbers in it."""
    counts = {len(_BULLET.findall(text)), max(0, len(_TABLE_ROW.findall(text)) - 2)}
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 2 and all(len(line) <= MAX_ROW_CHARS for line in lines):
        counts |= {len(lines), len(lines) - 1}
    counts.discard(0)
    columns: list[tuple[float, ...]] = []
    if text.lstrip()[:1] in ("{", "[") and len(text) <= MAX_JSON_CHARS:
        try:
            for array in list(_lists(json.loads(text), 8))[:MAX_ARRAYS]:
                counts |= _tallies(array)
                columns += _columns(array)
        except (ValueError, RecursionError):
            pass
    return frozenset(counts), tuple(columns)


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


def _columns(array: list[Any]) -> list[tuple[float, ...]]:
    found: dict[str, list[float]] = {}
    for one in array:
        for key, value in one.items() if isinstance(one, dict) else (("", one),):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(str(key), []).append(float(value))
    return [tuple(values) for values in found.values() if len(values) > 1]


# ---- statements that follow ----


def follows(claim: str, texts: Sequence[str]) -> bool:
    """Whether `claim` says of an empty result that nothing was found, or of tests without a failure that all pass."""
    if _ALL_PASS.search(claim) and any(_PASSED.search(text) and not _FAILED.search(text) for text in texts):
        return not any(_FAILED.search(text) for text in texts)
    return bool(_NONE.search(claim) and _FOUND.search(claim)) and any(_is_empty(text) for text in texts)


def _is_empty(text: str) -> bool:
    return _NOTHING_SAID.fullmatch(text) is not None or (len(text) < 2000 and _EMPTY_MEMBER.search(text) is not None)
