"""Where the evidence plainly has another value than a claim, in the same place of the same statement: the only contradiction that is exact.

In: a claim, the evidence's sentences nearest to it, and all that was said in the request (`StatedValues`). Out: a `Slot`, or None. Four
things must come together: the claim has a number, date, time or name that nobody has said, in whatever form; it follows from nothing that
was said; a sentence says the same words of the same subject; and that sentence has another value of the same kind where the claim has its
own, and no second one that could be meant. What is merely not there is no contradiction. `proxy.grounding.judging.deciding` asks the
verifier, too, which must find the claim better supported with the evidence's value in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from msgspec import Struct

from proxy.grounding.evidence.retrieval import read_evidence, words_of
from proxy.grounding.values.arithmetic import may_follow
from proxy.grounding.values.consistency import says_nothing
from proxy.grounding.values.places import SPELLED_ALIKE, in_place, labelled, of_one_size, shape
from proxy.grounding.values.stated import (
    ANY_MONTH,
    TOKEN,
    Kind,
    StatedValues,
    Value,
    agrees_strictly,
    dates_agree_strictly,
    names_in,
    unsaid_values,
)
from proxy.language.dates import Date, Time
from proxy.language.names import Name, bare, folded
from proxy.language.negation import is_negated
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.quantities import Quantities, Quantity, read_quantities

_TEXTS = phrases(Path(__file__).parent)

MAX_UNSAID = 2
"""A claim with more values that nobody has said speaks of something else."""
MIN_SHARED = 1
"""Words that a sentence must have in common with the claim, beside values."""
ALIGNED = 0.6
"""Share of the claim's words, beside values, that the sentence must have. Measured: `benchmarks.actions_answers`."""
_SUPPOSED = LazyPattern(_TEXTS.SUPPOSED, re.I)
"""How a claim begins that supposes a case, with values of the case's own."""
_DENIED = LazyPattern(_TEXTS.DENIED, re.I)
"""Before a value that the claim itself says is not the case."""


class Slot(Struct, frozen=True):
    """One place in which claim and evidence differ."""

    kind: Kind
    claim: str
    """The claim's words for it."""
    evidence: str
    """The evidence's."""
    position: int
    """Of the evidence's sentence, among those that were given."""
    aligned: float
    """Share of the claim's words, beside values, that the sentence has."""
    mutual: float
    """Share of the sentence's words that the claim has."""
    placed: bool
    """Whether the sentence's value is the only one of its kind, or the only one beside the same words."""


def slot(
    claim: str, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "", *, also_derived: bool = False
) -> Slot | None:
    """The place in which one of `sentences` has another value than `claim`, in the sentence that is nearest to it; None without one.

    `asked` is the question that a claim without subject answers. With `also_derived` a value that can be worked out is no better than
    another.
    """
    quantities = read_quantities(claim, language)
    unsaid = may_differ(claim, quantities, sentences, said, language, asked, also_derived=also_derived)
    if not unsaid or not sentences:
        return None
    wanted = words_of(f"{asked} {without(claim, unsaid)}")
    found = []
    for position, sentence in enumerate(sentences):
        words = words_of(sentence)
        shared = wanted & words
        if len(shared) < min(MIN_SHARED, len(wanted)) or not wanted or is_negated(sentence, language) != is_negated(claim, language):
            continue
        for value in unsaid:
            other, placed = in_place(value, claim, quantities, sentence, language, asked)
            if other:
                found.append(Slot(value.kind, value.text, other, position, len(shared) / len(wanted), len(shared) / len(words), placed))
    return max(found, key=lambda s: (s.placed and s.aligned >= ALIGNED, s.aligned, s.placed), default=None)


def may_differ(
    claim: str,
    quantities: Quantities,
    sentences: Sequence[str],
    said: StatedValues,
    language: str,
    asked: str = "",
    *,
    also_derived: bool = False,
) -> list[Value]:
    """The claim's values that nobody has said, where so few of them can be compared with the evidence's; else none.

    With `also_derived` a value that can be worked out, of whatever numbers in `sentences` and the claim, is none the better for it.
    """
    if not said.whole or supposed(claim):
        return []
    every = unsaid_values(claim, quantities, said, language, asked, also_derived=also_derived)
    unsaid = list(islice((v for v in every if not denied(claim, v)), MAX_UNSAID + 1))
    if len(unsaid) > MAX_UNSAID:
        return []
    if also_derived:
        return unsaid
    around = [read_quantities(asked, language), *(read_evidence(sentence).quantities for sentence in sentences)]
    return [value for value in unsaid if not (isinstance(value.read, Quantity) and may_follow(value.read, quantities, around))]


def supposed(claim: str) -> bool:
    """Whether a claim supposes a case, with values of the case's own."""
    return _SUPPOSED.match(claim) is not None


def denied(claim: str, value: Value) -> bool:
    """Whether the claim itself says that its value is not the case."""
    return _DENIED.search(claim[max(0, value.start - 24) : value.start]) is not None


def without(claim: str, values: Sequence[Value]) -> str:
    """The claim's other words."""
    out, at = [], 0
    for value in sorted(values, key=lambda v: v.start):
        out.append(claim[at : max(at, value.start)])
        at = max(at, value.end)
    return " ".join([*out, claim[at:]])


# ---- swaps ----


MAX_SWAPS = 6
"""Asked of one claim."""


def swaps(claim: str, sentences: Sequence[str], said: StatedValues, language: str, asked: str = "") -> list[str]:
    """The exchanges worth asking about, those with values of the sentence most like the claim first; at most `MAX_SWAPS`."""
    quantities = read_quantities(claim, language)
    found: dict[str, int] = {}
    for value in may_differ(claim, quantities, sentences, said, language, asked):
        wanted = words_of(f"{asked} {claim[: value.start]} {claim[value.end :]}")
        for sentence in sentences:
            shared = len(wanted & words_of(sentence))
            for other in others_in_place(value, claim, quantities, sentence, language, asked) if shared or not wanted else ():
                found.setdefault(f"{claim[: value.start]}{other}{claim[value.end :]}", shared)
    return sorted(found, key=lambda text: -found[text])[:MAX_SWAPS]


def others_in_place(value: Value, claim: str, quantities: Quantities, sentence: str, language: str, asked: str) -> Iterator[str]:
    """What `sentence` has of the kind of `value`, as written there, that the claim does not have."""
    read = value.read
    there = read_evidence(sentence).quantities
    if isinstance(read, Quantity):
        for number in there.numbers:
            same = number.dimension == read.dimension or labelled(number, read, claim, sentence)
            mine = any(agrees_strictly(own, number) for own in quantities.numbers)
            if same and not mine and not says_nothing(number, sentence) and of_one_size(read, number):
                yield number.text
    elif isinstance(read, Date):
        wanted = shape(read)
        for date in there.dates:
            if shape(date) & wanted and not any(
                dates_agree_strictly(own, date) or dates_agree_strictly(date, own) for own in quantities.dates
            ):
                yield date.text
    elif isinstance(read, Time):
        yield from (time.text for time in there.times if not any(set(time.minutes) & set(own.minutes) for own in quantities.times))
    elif isinstance(read, Name):
        yield from _names(read, claim, sentence, language, asked)
    else:
        yield from (match[0] for match in ANY_MONTH.finditer(sentence))


def _names(name: Name, claim: str, sentence: str, language: str, asked: str) -> Iterator[str]:
    """Names that the claim lacks and that are no other spelling of its own."""
    if not any(word[:1].isupper() and word[1:].islower() for word in TOKEN.findall(name.text)):
        return  # JSON, MiB: a term and nobody's name
    have = {bare(folded(word)) for word in TOKEN.findall(f"{asked} {claim}")} - set(name.words)
    for other in names_in(sentence, language, every_capital=True, opening_is_none=True):
        rest = [word for word in other.words if word not in name.words]
        own = [word for word in name.words if word not in other.words]
        if not rest or not own or any(word in have for word in rest):
            continue
        if SequenceMatcher(None, "".join(rest), "".join(own)).ratio() < SPELLED_ALIKE:
            yield other.text
