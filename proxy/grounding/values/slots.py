"""Where the evidence plainly has another value than a claim, in the same place of the same statement: the only contradiction that is exact.

In: a claim, the evidence's sentences nearest to it, and all that was said in the request (`StatedValues`). Out: a `Slot`, or None. Four
things must come together: the claim has a number, date, time or name that nobody has said, in whatever form; it follows from nothing that
was said; a sentence says the same words of the same subject; and that sentence has another value of the same kind where the claim has its
own, and no second one that could be meant. What is merely not there is no contradiction. `proxy.grounding.judging.deciding` asks the
verifier, too, which must find the claim better supported with the evidence's value in it.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from msgspec import Struct

from proxy.grounding.evidence.reading import read_evidence
from proxy.grounding.values.arithmetic import may_follow
from proxy.grounding.values.places import in_place, words_of
from proxy.grounding.values.stated import Kind, StatedValues, Value, unsaid_values
from proxy.language.negation import is_negated
from proxy.language.quantities import Quantities, Quantity, read_quantities

MAX_UNSAID = 2
"""A claim with more values that nobody has said speaks of something else."""
MIN_SHARED = 1
"""Words that a sentence must have in common with the claim, beside values."""
ALIGNED = 0.6
"""Share of the claim's words, beside values, that the sentence must have. Measured: `benchmarks.actions_answers`."""
_SUPPOSED = re.compile(
    r"(?:if|when|whoever|anyone|someone|somebody|anybody|for example|e\.g\.|say|suppose|wenn|falls|wer|angenommen|zum beispiel|si|cuando|quien"
    r"|por ejemplo|lorsque|quand|quiconque|par exemple)\b|(?:an?|eine?|una?|une?) [\w-]{1,30} (?:who|that|which|whose|bought|made|booked|sent|of"
    r"|der|die|das|que|qui)\b",
    re.I,
)
"""How a claim begins that supposes a case, with values of the case's own."""
_DENIED = re.compile(
    r"\b(?:not|never|no|instead of|rather than|nicht|kein\w{0,2}|statt|anstelle|en lugar de|en vez de|pas|au lieu de|plutôt que)"
    r"(?: [\w']{1,6}){0,2} $",
    re.I,
)
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
