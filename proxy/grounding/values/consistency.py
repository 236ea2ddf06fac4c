"""What a claim says that its evidence does not: numbers, dates, units, names and negation, compared as such.

In: a claim, the evidence for it (some hundred characters of prose) and the claim's language. Out: `differences` between the two, and
`features` for a small calibrated model beside the neural verifier. It is built to be silent rather than wrong: a number that can be
rounded, converted or worked out from the evidence is no difference, nor is a name that only may be one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, NUMERAL, EvidenceReading, read_evidence, terms
from proxy.grounding.values.arithmetic import is_derived
from proxy.language.dates import Date, date_agrees
from proxy.language.names import missing_name, read_names
from proxy.language.quantities import Quantities, Quantity, agrees, read_quantities
from proxy.language.text import is_negated, without_negation

if TYPE_CHECKING:
    from proxy.grounding.values.stated import StatedValues

Kind = Literal["number", "date", "unit", "name", "negation"]
MAX_CHARS = 20_000
"""What is read of an evidence or a claim; a verifier reads less than a tenth of it."""
_CONTEXT_CHARS = 40
_MAX_COUNTED = 12
"""Numbers in words up to this are often counted from what the evidence lists; they differ only where it counts the same thing otherwise."""
_MAX_COMPARED = 50
"""Numbers of one claim that are looked up in its evidence."""
_LIST_MARK = re.compile(r"\s*\(?\d{1,3}[.)]\s")
_OPENS_UNNAMED = re.compile(
    r"(?:^|\[…\])\s{0,3}(?:he|she|it|they|his|her|its|their|the (?:film|movie|series|show|album|song|band|company|group|city|book|game)|"
    r"er|sie|es|ihre?|seine?|él|ella|ellos|su|sus|il|elle|ils|elles|son|sa|leur)\b",
    re.I,
)
"""Evidence that speaks of something by a pronoun: what it names was said before."""


class Difference(Struct, frozen=True):
    """One thing that the claim says and the evidence does not."""

    kind: Kind
    claim: str
    """The claim's words for it."""
    evidence: str = ""
    """The evidence's, where it clearly says something else in its place."""


@lru_cache(maxsize=64)
def _differences(claim: str, evidence: str, language: str) -> tuple[Difference, ...]:
    read = read_evidence(evidence)
    quantities = read_quantities(claim, language)
    return (
        *_number_differences(claim, quantities, read),
        *_date_differences(claim, quantities, read),
        *_name_differences(claim, read, language),
        *_negation_difference(claim, read, language),
    )


def differences(claim: str, evidence: str, language: str = "en") -> list[Difference]:
    """What `claim` says that `evidence` does not, kind by kind, each in the claim's order."""
    return list(_differences(claim[:MAX_CHARS], evidence[:MAX_CHARS], language))


# ---- numbers ----


def _number_differences(claim: str, quantities: Quantities, read: EvidenceReading) -> Iterator[Difference]:
    for quantity in quantities.numbers[:_MAX_COMPARED]:
        if says_nothing(quantity, claim) or number_is_stated(quantity, claim, read):
            continue
        other_unit = _same_numeral_in_another_unit(quantity, read)
        if other_unit is not None:
            yield Difference("unit", quantity.text, other_unit.text)
            continue
        counterpart = _counterpart(claim, quantity, read)
        if quantity.spelled and quantity.values[0] <= _MAX_COUNTED and counterpart is None:
            continue
        yield Difference("number", quantity.text, counterpart.text if counterpart else "")


def says_nothing(quantity: Quantity, claim: str) -> bool:
    """Whether a number is one that is none of the claim's: "one", "thousands", the mark of a list's item, the nil of a score."""
    if quantity.spelled:
        return quantity.values[0] == 1 or (quantity.text.endswith("s") and quantity.values[0] >= 1000 and " " not in quantity.text)
    if claim[: quantity.start].strip() in ("", "(") and _LIST_MARK.match(claim):
        return True
    return (quantity.values[0] == 0 and not quantity.dimension) or (
        claim[quantity.end :].strip() == "." and claim[: quantity.start].rstrip()[-1:] in ".:"
    )


def number_is_stated(quantity: Quantity, claim: str, read: EvidenceReading | StatedValues) -> bool:
    """Whether a number of `claim` is in what was read, in whatever form, or can be worked out of it."""
    numbers = read.quantities.numbers
    if any(agrees(quantity, other) for other in numbers):
        return True
    if not quantity.dimension and not quantity.spelled and all(n in read.numerals for n in NUMERAL.findall(quantity.text)):
        return True
    return is_derived(quantity, claim, "", read.quantities, years=read.years)


def _same_numeral_in_another_unit(quantity: Quantity, read: EvidenceReading) -> Quantity | None:
    if not quantity.unit:
        return None
    return next(
        (
            o
            for o in read.quantities.numbers
            if o.unit and o.unit != quantity.unit and set(o.values) & set(quantity.values) and not o.spelled
        ),
        None,
    )


def _counterpart(claim: str, quantity: Quantity, read: EvidenceReading) -> Quantity | None:
    """The evidence's number in the place of the claim's: same dimension, same words around it; None if that is not clear."""
    around, noun = _around(claim, quantity.start, quantity.end), _noun(claim, quantity.end)
    best, best_score = None, 0.0
    for other in read.quantities.numbers:
        if other.dimension != quantity.dimension or (other.spelled and other.values[0] == 1):
            continue
        shared = len(around & _around(read.text, other.start, other.end)) / max(1, len(around))
        same_noun = bool(noun) and noun == _noun(read.text, other.end)
        score = shared + 0.5 * same_noun
        if (quantity.dimension or same_noun) and score > best_score:
            best, best_score = other, score
    return best if best_score >= (0.6 if quantity.spelled else 0.3) else None


def _around(text: str, start: int, end: int) -> frozenset[str]:
    near = text[max(0, start - _CONTEXT_CHARS) : start] + " " + text[end : end + _CONTEXT_CHARS]
    return frozenset(term for term in terms(near) if term not in FUNCTION_WORDS and len(term) > 2)


def _noun(text: str, end: int) -> str:
    """The first word after a number, folded: what is counted."""
    following = terms(text[end : end + 30])
    return following[0] if following and following[0] not in FUNCTION_WORDS else ""


# ---- names ----


def _name_differences(claim: str, read: EvidenceReading, language: str) -> Iterator[Difference]:
    missing = [name for name in read_names(claim, language) if missing_name(name, read.names)]
    if missing and len(claim[: missing[0].start].split()) <= 2 and _OPENS_UNNAMED.search(read.text):
        del missing[0]  # "he" in the evidence may be whom the claim names
    return (Difference("name", name.text) for name in missing)


# ---- dates and times ----


def _date_differences(claim: str, quantities: Quantities, read: EvidenceReading) -> Iterator[Difference]:
    for date in quantities.dates[:_MAX_COMPARED]:
        if not date_is_stated(date, read):
            counterpart = _date_in_place(claim, date, read)
            yield Difference("date", date.text, counterpart.text if counterpart else "")
    said = {m for time in read.quantities.times for m in time.minutes}
    for time in quantities.times[:_MAX_COMPARED]:
        if said.isdisjoint(time.minutes) and not set(NUMERAL.findall(time.text)) <= read.numerals:
            others = [t.text for t in read.quantities.times]
            yield Difference("date", time.text, others[0] if len(others) == 1 else "")


def date_is_stated(date: Date, read: EvidenceReading | StatedValues) -> bool:
    """Whether a date is in what was read, in whatever form or order."""
    dates = read.quantities.dates
    if any(date_agrees(date, other) for other in dates):
        return True
    for year, month, day in date.readings:
        said = {(m, d) for other in dates for _, m, d in other.readings}
        if month is None:
            if str(year) in read.numerals or (date.decade and any(str(y) in read.numerals for y in range(year or 0, (year or 0) + 10))):
                return True
            if f"{(year or 0) % 100:02d}" in read.numerals and any(y // 100 == (year or 0) // 100 for y in read.years):  # 1939-45
                return True
        elif (year is None or year in read.years) and ((month, day) in said or (day is None and month in {m for m, _ in said})):
            return True  # the year stands apart from the day
    return False


def _date_in_place(claim: str, date: Date, read: EvidenceReading) -> Date | None:
    others = read.quantities.dates
    around = _around(claim, date.start, date.end)
    scored = [(len(around & _around(read.text, o.start, o.end)), o) for o in others]
    best = max(scored, key=lambda pair: pair[0], default=None)
    if best is None or (best[0] == 0 and len(others) > 1):
        return None
    return best[1]


# ---- negation ----


def _negation_difference(claim: str, read: EvidenceReading, language: str) -> Iterator[Difference]:
    """Where the nearest sentence says the same words, one of the two with a "not"."""
    wanted = frozenset(term for term in terms(without_negation(claim, language)) if len(term) > 1) - FUNCTION_WORDS
    if len(wanted) < 2 or not read.sentences:
        return
    best = max(read.sentences, key=lambda s: (len(wanted & s.terms), -len(s.terms)))
    if len(wanted & best.terms) < _SAME_WORDS * len(wanted) or len(best.terms) > _MUCH_LONGER * len(wanted):
        return
    if is_negated(claim, language) != is_negated(best.text, language):
        yield Difference("negation", claim.strip(), best.text.strip())


_SAME_WORDS = 0.8
_MUCH_LONGER = 1.6


# ---- features ----

FEATURES: tuple[str, ...] = (
    "numbers_missing",
    "dates_missing",
    "conflicts",
    "units_differ",
    "names_missing",
    "negation_mismatch",
    "has_quantities",
    "terms_in_evidence",
    "terms_in_best_sentence",
    "bigrams_in_evidence",
    "longest_run",
    "claim_length",
    "evidence_length",
)
"""What `features` returns, in order; all in [0, 1] but `conflicts`, which counts to 3."""


def features(claim: str, evidence: str, language: str = "en") -> tuple[float, ...]:
    """`FEATURES` of one claim with one piece of evidence: cheap signals that a verifier's score can be combined with."""
    claim, evidence = claim[:MAX_CHARS], evidence[:MAX_CHARS]
    read, found = read_evidence(evidence), _differences(claim, evidence, language)
    kinds = [difference.kind for difference in found]
    quantities, names = read_quantities(claim, language), read_names(claim, language)
    numbers, dates = len(quantities.numbers), len(quantities.dates) + len(quantities.times)
    said = terms(claim)
    wanted = frozenset(said) - FUNCTION_WORDS or frozenset(said)
    best = max((len(wanted & sentence.terms) for sentence in read.sentences), default=0)
    return (
        _share(kinds.count("number") + kinds.count("unit"), numbers),
        _share(kinds.count("date"), dates),
        float(min(3, sum(bool(d.evidence) for d in found))),
        float("unit" in kinds),
        _share(kinds.count("name"), len(names)),
        float("negation" in kinds),
        float(bool(numbers or dates)),
        _share(sum(term in read.positions for term in wanted), len(wanted)),
        _share(best, len(wanted)),
        _share(_shared_bigrams(said, read), len(said) - 1),
        _share(_longest_run(said, read), len(said)),
        min(1.0, len(said) / 60),
        min(1.0, len(read.terms) / 200),
    )


def _share(part: int, whole: int) -> float:
    return min(1.0, part / whole) if whole > 0 else 0.0


def _shared_bigrams(said: Sequence[str], read: EvidenceReading) -> int:
    return sum(
        any(p + 1 < len(read.terms) and read.terms[p + 1] == after for p in read.positions.get(term, ())) for term, after in pairwise(said)
    )


def _longest_run(said: Sequence[str], read: EvidenceReading) -> int:
    """Words of the claim that stand in the evidence in one piece."""
    longest, runs = 0, dict[int, int]()
    for term in said:
        runs = {p: runs.get(p - 1, 0) + 1 for p in read.positions.get(term, ())}
        longest = max(longest, *runs.values()) if runs else longest
    return longest
