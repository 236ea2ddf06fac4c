"""The label of a claim, by the first that decides: the same words in the evidence, a calculation, a value that differs, the verifier.

In: an `OpenClaim`, with what the verifier says of it and the evidence found for it. Out: its `ClaimDecision`. Only what is exact makes a
claim contradicted: a cell of a table, a calculation that is wrong, or another value in its place, where the verifier finds the claim better
supported with the evidence's value in it (`proxy.grounding.values.slots`). The opinion of the built-in verifier against a claim makes it
``unsure``; that of a model which the policy names (`Support.decides`) counts. Figures: `benchmarks.actions_answers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.exchange.judgements import UNKNOWN_LANGUAGE, Claim, DecidedBy, Label, Support
from proxy.grounding.evidence.gathering import EvidenceBase, Selection
from proxy.grounding.records.deciding import decide
from proxy.grounding.values.arithmetic import is_derived
from proxy.grounding.values.calculation import MISTAKEN, calculation
from proxy.grounding.values.consistency import differences
from proxy.grounding.values.slots import Slot, instead, slot, swaps
from proxy.grounding.values.stated import follows, missing_names, unsaid_numbers
from proxy.language.quantities import read_quantities
from proxy.language.text import is_negated, knows_negations
from proxy.offloop import check

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LOW = 0.2
"""Support up to which, without a contradiction, a claim is unsupported rather than unsure."""
ALIGNED = 0.5
"""Share of a claim's words, beside values, that a sentence must have so that its other value contradicts the claim; or else:"""
WELL_ALIGNED = 0.75
"""The same where the verifier sees no contradiction, and hardly any support, of a sentence that says little else:"""
MUTUAL = 0.4
"""Share of its words that the claim must have."""
SIMILAR = 0.65
"""the cosine of the two."""
SOME_DOUBT = 0.1
"""Probability of a contradiction that the verifier must see, too."""
HARDLY_A_DOUBT = 0.9
"""The same where more than one value of the sentence could stand in the claim's place."""
CONFIRMS = 0.1
"""By how much the claim has to be better supported with the evidence's value, so that a value which differs by place is wrong, and not
worked out or of something else. Measured: `benchmarks.actions_answers`."""
TELLS = 0.5
"""The same where the value's place is clear and nothing else need be."""
NEAREST = 6
"""Sentences of the evidence that a claim's values are compared with."""
TOO_MANY = "too_many_values"
"""Reason of a claim with more values than can be compared (`StatedValues.room_for`), or worked out."""
MAX_RECOMPUTED = 12
"""Numbers of a claim that nobody has said, up to which it is tried whether they follow."""


EARLIER_CHARS = 300
"""Of an answer before a claim, some three sentences."""
MAX_REASONS = 3
"""Values that the evidence does not have, told of one claim."""


class ClaimThresholds(Struct, frozen=True):
    """Of a stage."""

    min_support: float = 0.5
    min_contradiction: float = 0.5
    low: float = LOW


class ClaimDecision(Struct, frozen=True):
    """The label of a claim, and what it rests on."""

    label: Label
    by: DecidedBy
    position: int | None = None
    """Of the piece of evidence that decides."""
    instead: str = ""
    reason: str = ""
    by_table: bool = False
    """Whether a cell of a table contradicts it: that is no remark which the answer may correct, whoever pasted it."""


class OpenClaim(Struct):
    """A claim's text that is to be judged, once however often it is claimed."""

    text: str
    """With the question that it answers."""
    claim: Claim
    earlier: str = ""
    """The end of what its answer says before it."""
    language: str = ""
    """ISO 639-1."""
    selection: Selection = Selection((), "")
    """What it is judged by."""
    similarity: NDArray[np.float64] | None = None
    """With each piece of the evidence."""
    support: Support | None = None
    error: str = ""
    unread: str = ""
    """The language that the verifier does not know, the claim's or the evidence's; ISO 639-1."""
    decision: ClaimDecision | None = None
    differs: Slot | None = None
    """Where the nearest evidence has another value than the claim."""
    swaps: Sequence[str] = ()
    """The claim with such values in it."""
    _nearest: list[int] | None = None

    def nearest(self, base: EvidenceBase) -> list[int]:
        """The positions of the pieces that it is judged by, the nearest first; once these are found."""
        if self._nearest is None:
            self._nearest = base.by_terms(self.text, self.selection.positions, self.similarity) if self.selection.positions else []
        return self._nearest

    def sentences(self, base: EvidenceBase) -> list[str]:
        """Those that its values are compared with."""
        return [base.sentences[i] for i in self.nearest(base)[:NEAREST]]


# ---- what the evidence says ----


def by_records(one: OpenClaim, base: EvidenceBase) -> ClaimDecision | None:
    """What the cells of the evidence's tables say to a claim; None where they say nothing that decides it."""
    found = decide(one.claim.text, base.records, one.language, one.claim.before)
    if found is None:
        return None
    place = found.place
    position = base.position_of(place.text, place.table.rows[found.row].start)
    if found.supported:
        return ClaimDecision("supported", "exact", position)
    reason = f"{found.kind} {found.claim} (evidence: {found.evidence})"
    by_table = len(place.table.rows) > 1  # a few lines of notes are what somebody says
    return ClaimDecision("contradicted", "exact", position, found.evidence if found.replaces else "", reason, by_table)


def by_calculation(one: OpenClaim, base: EvidenceBase) -> ClaimDecision | None:
    """That a claim writes out a calculation that is wrong, or is a total that is, and neither says so nor quotes it; else None."""
    written = calculation(one.claim.wrong_sum or one.claim.text)
    if written is None or written.right or is_negated(one.claim.text, one.language) or MISTAKEN.search(one.claim.text):
        return None
    if not (one.claim.wrong_sum or knows_negations(one.language) or one.claim.text.strip(" .*") == written.text):
        return None  # other words may say that it is wrong
    if any((written.text if not one.claim.wrong_sum else one.claim.text) in text for text in base.material):
        return None
    return ClaimDecision("contradicted", "recomputed", instead=written.result, reason=f"calculation {written.text}")


def compare(one: OpenClaim, base: EvidenceBase, thresholds: ClaimThresholds) -> None:
    """Decide a claim where no values need to be compared; else set what differs from the evidence, and what could stand in its place."""
    one.decision = _decide_without_values(one, base, thresholds)
    if one.error == UNKNOWN_LANGUAGE:
        one.decision = one.decision or ClaimDecision("unsure", "", reason=UNKNOWN_LANGUAGE)
    elif one.decision is None or (one.decision.by == "model" and not (one.support and one.support.decides)):
        if _can_compare(one, base):
            one.differs = slot(one.claim.text, one.sentences(base), base.stated, one.language, one.claim.asked, one.earlier)
        if one.differs is not None and one.support is not None:
            one.swaps = swaps(one.claim.text, one.sentences(base), base.stated, one.language, one.claim.asked)


def _decide_without_values(one: OpenClaim, base: EvidenceBase, thresholds: ClaimThresholds) -> ClaimDecision | None:
    text = one.claim.text
    position = base.literal(text)
    if position is not None:
        return ClaimDecision("supported", "literal", position)
    if (wrong := by_calculation(one, base)) is not None:
        return wrong
    if one.support is not None and one.support.supported >= thresholds.min_support:
        return ClaimDecision("supported", "model")
    written = calculation(text)
    if (written is not None and (written.right or knows_negations(one.language))) or follows(text, base.material):
        return ClaimDecision("supported", "recomputed")
    return None


def _can_compare(one: OpenClaim, base: EvidenceBase) -> bool:
    """Whether the values of a claim can be compared with all that was said: the number of both is bounded, so that the work is."""
    check()
    text = one.claim.text
    return not base.stated.whole or base.stated.room_for(text, len(read_quantities(text, one.language).numbers))


# ---- what the verifier says ----


def by_verifier(one: OpenClaim, thresholds: ClaimThresholds) -> ClaimDecision:
    """The verifier's word alone."""
    if one.error:
        return ClaimDecision("unsure" if one.error == UNKNOWN_LANGUAGE else "error", "", reason=one.error)
    if one.support is None:  # nothing in the evidence has anything to do with it
        return ClaimDecision("unsupported", "", reason="no_evidence")
    if one.support.supported >= thresholds.min_support:
        return ClaimDecision("supported", "model")
    return ClaimDecision("contradicted" if one.support.contradicted >= thresholds.min_contradiction else "unsupported", "model")


def needs_similarity(one: OpenClaim) -> bool:
    """Whether the similarity of the claim and the sentence that differs decides, since their words alone do not."""
    return one.differs is not None and one.differs.placed and one.differs.aligned < ALIGNED


def wanted_gain(one: OpenClaim, similarity: float) -> float | None:
    """The gain from which on `conclude` says something else; None where no gain that is possible makes a difference."""
    differs, support = one.differs, one.support
    if differs is None or support is None or (one.decision is not None and one.decision.by != "model"):
        return None
    if one.decision is None and _is_plain(differs, support, similarity):
        least = CONFIRMS
    elif differs.placed:
        least = TELLS
    else:
        return None
    return least if 1.0 - support.supported >= least else None


def conclude(one: OpenClaim, base: EvidenceBase, thresholds: ClaimThresholds, similarity: float, gain: float) -> ClaimDecision:
    """What is left when `compare` has decided nothing, or a model alone. `similarity` is the cosine of claim and the sentence that differs,
    `gain` by how much the claim is better supported with another value in it.
    """
    decision = one.decision or _decide_by_verifier(one, base, thresholds, similarity, gain)
    if decision.by != "model":
        return decision
    if one.differs is not None and one.differs.placed and gain >= TELLS:
        return _contradiction(one, base, one.differs)  # also where the verifier was taken in by the words
    return decision


def _decide_by_verifier(one: OpenClaim, base: EvidenceBase, thresholds: ClaimThresholds, similarity: float, gain: float) -> ClaimDecision:
    if base.stated.whole and not _can_compare(one, base):
        return ClaimDecision("unsure", "model", reason=TOO_MANY)
    if one.support is None:
        return _decide_by_derivation(one, base) or ClaimDecision("unsupported", "model", reason="no_evidence")
    if one.differs is not None and gain >= CONFIRMS and _is_plain(one.differs, one.support, similarity):
        return _contradiction(one, base, one.differs)
    return _decide_by_derivation(one, base) or ClaimDecision(_opinion(one.support, thresholds), "model")


def _contradiction(one: OpenClaim, base: EvidenceBase, found: Slot) -> ClaimDecision:
    reason = f"{found.kind} {found.claim} (evidence: {found.evidence})"
    return ClaimDecision("contradicted", "exact", one.nearest(base)[found.position], found.evidence, reason)


def _is_plain(found: Slot, support: Support, similarity: float) -> bool:
    """Whether a value that differs contradicts the claim: its place is clear, or the verifier has hardly a doubt."""
    if not found.placed:
        return found.aligned >= ALIGNED and support.contradicted >= HARDLY_A_DOUBT
    if found.aligned >= WELL_ALIGNED and found.mutual >= MUTUAL and support.supported < LOW:
        return True
    return (found.aligned >= ALIGNED or similarity >= SIMILAR) and support.contradicted >= SOME_DOUBT


def _opinion(support: Support, thresholds: ClaimThresholds) -> Label:
    """A verifier's word that does not support a claim."""
    against = support.contradicted >= thresholds.min_contradiction
    if support.decides:
        return "contradicted" if against else "unsupported"
    return "unsure" if against or support.supported > thresholds.low else "unsupported"


def _decide_by_derivation(one: OpenClaim, base: EvidenceBase) -> ClaimDecision | None:
    """Unsure, where all numbers of a claim that nobody has said may be worked out of those that were: it need not be unsupported."""
    stated, text, asked, language = base.stated, one.claim.text, one.claim.asked, one.language
    numbers = unsaid_numbers(text, stated, language) if stated.whole else []
    if not numbers or missing_names(text, stated, language):
        return None
    if len(numbers) > MAX_RECOMPUTED:
        return ClaimDecision("unsure", "recomputed", reason=TOO_MANY)
    every = read_quantities(text, language).numbers
    possible = all(is_derived(number, text, asked, stated.quantities, stated.texts, every) for number in numbers)
    return ClaimDecision("unsure", "recomputed", reason="may be worked out of what was said") if possible else None


# ---- for the record ----


def counterpart(claim: str, ranked: Sequence[int], base: EvidenceBase, tongue: str) -> tuple[str, int]:
    """What the evidence says instead, and the position of the piece that says it: the nearest that has a counterpart."""
    for position in ranked:
        if said := instead(claim, base.sentences[position], tongue):
            return said, position
    return "", ranked[0]


def missing(claim: str, evidence: str, tongue: str) -> str:
    """Which numbers, dates, units and names of a claim its evidence does not have: ``number 330 m (evidence: 300 m)``."""
    found = differences(claim, evidence, tongue)[:MAX_REASONS]
    return "; ".join(f"{d.kind} {d.claim}" + (f" (evidence: {d.evidence})" if d.evidence else "") for d in found)
