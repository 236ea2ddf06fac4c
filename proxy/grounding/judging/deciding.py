"""What is made of a claim: the same words in the evidence, a value that differs, a calculation, and last what the verifier thinks.

In: a claim, what the verifier says of it, and the evidence nearest to it. Out: a `ClaimDecision`. Only what is exact makes a claim
contradicted: a calculation that is wrong, or another value in its place (`proxy.grounding.values.slots`), where the verifier finds the
claim better supported with the evidence's value in it (`proxy.grounding.values.slots`). The opinion of the built-in verifier against a
claim makes it ``unsure``; that of a model which the policy names (`Support.decides`) counts. Figures: `benchmarks.actions_answers`.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proxy.exchange.judgements import Claim, DecidedBy, Label, Support
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.records.deciding import decide
from proxy.grounding.values.arithmetic import called_for, is_derived
from proxy.grounding.values.recomputing import calculation, follows
from proxy.grounding.values.slots import Slot, slot, swaps
from proxy.grounding.values.stated import missing_names, unsaid_numbers
from proxy.language.quantities import read_quantities
from proxy.offloop import check

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
SLACK = 1
"""Words of a claim that name nothing, beyond those up to which cells contradict it, up to which they make a model's "supported" unsure."""
NEAREST = 6
"""Sentences of the evidence that a claim's values are compared with."""
TOO_MANY = "too_many_values"
"""Reason of a claim with more values than can be compared (`StatedValues.room_for`), or worked out."""
MAX_RECOMPUTED = 12
"""Numbers of a claim that nobody has said, up to which it is tried whether they follow."""
MAX_RECOMPUTED_FROM = 8
"""Numbers up to which a result that can be made of them is no coincidence."""


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


class ClaimMatter(Struct, frozen=True):
    """A claim beside the evidence that was found for it."""

    text: str
    asked: str
    nearest: Sequence[int]
    """Positions of the pieces, the nearest first."""
    language: str


def by_records(claim: Claim, base: EvidenceBase, language: str) -> ClaimDecision | None:
    """What the cells of the evidence's tables say to a claim; None where they say nothing that decides it."""
    found = decide(claim.text, base.records, language)
    if found is None or found.place is None:
        return None
    place = found.place
    position = base.position_of(place.text, place.table.rows[found.row].start)
    if found.supported:
        return ClaimDecision("supported", "exact", position)
    reason = f"{found.kind} {found.claim} (evidence: {found.evidence})"
    if found.is_doubt:
        return ClaimDecision("unsure", "exact", position, reason=reason)
    by_table = len(place.table.rows) > 1  # a few lines of notes are what somebody says
    return ClaimDecision("contradicted", "exact", position, found.evidence if found.replaces else "", reason, by_table)


def doubted(decision: ClaimDecision, claim: Claim, base: EvidenceBase, language: str) -> ClaimDecision:
    """A model's "supported" is none where a cell of what the claim seems to speak of has another value."""
    if decision.label != "supported" or decision.by != "model":
        return decision
    found = decide(claim.text, base.records, language, slack=SLACK)
    if found is None or found.supported:
        return decision
    return ClaimDecision("unsure", "model", reason=f"{found.kind} {found.claim} (evidence may have: {found.evidence})")


def plain(matter: ClaimMatter, support: Support | None, base: EvidenceBase, thresholds: ClaimThresholds) -> ClaimDecision | None:
    """What needs no comparison of values; None where only that tells."""
    position = base.literal(matter.text)
    if position is not None:
        return ClaimDecision("supported", "literal", position)
    if support is not None and support.supported >= thresholds.min_support:
        return ClaimDecision("supported", "model")
    written = calculation(matter.text)
    if written is not None:
        label: Label = "supported" if written.right else "contradicted"
        reason = "" if written.right else f"calculation {written.text}"
        return ClaimDecision(label, "recomputed", instead="" if written.right else written.result, reason=reason)
    if follows(matter.text, base.material):
        return ClaimDecision("supported", "recomputed")
    return None


def comparable(matter: ClaimMatter, base: EvidenceBase) -> bool:
    """Whether the values of a claim can be compared with all that was said: the number of both is bounded, so that the work is."""
    check()
    return not base.said.whole or base.said.room_for(matter.text, len(read_quantities(matter.text, matter.language).numbers))


def differing(matter: ClaimMatter, base: EvidenceBase, *, also_derived: bool = False) -> Slot | None:
    """Where the nearest evidence has another value than the claim; with `also_derived` also than one that can be worked out."""
    if not comparable(matter, base):
        return None
    sentences = [base.sentences[i] for i in matter.nearest[:NEAREST]]
    return slot(matter.text, sentences, base.said, matter.language, matter.asked, also_derived=also_derived)


def exchanges(matter: ClaimMatter, base: EvidenceBase) -> list[str]:
    """The claim with values of the nearest evidence in place of those that nobody has said."""
    return swaps(matter.text, [base.sentences[i] for i in matter.nearest[:NEAREST]], base.said, matter.language, matter.asked)


def needs_similarity(found: Slot | None) -> bool:
    """Whether the two sentences' similarity decides, since their words alone do not."""
    return found is not None and found.placed and found.aligned < ALIGNED


def decided(
    matter: ClaimMatter,
    support: Support | None,
    base: EvidenceBase,
    thresholds: ClaimThresholds,
    found: Slot | None,
    similarity: float,
    gain: float = 0.0,
) -> ClaimDecision:
    """What is left when `plain` has said nothing; `found` is what `differing` found, `similarity` the cosine of claim and sentence,
    `gain` by how much the claim is better supported with another value in it.
    """
    if base.said.whole and not comparable(matter, base):
        return ClaimDecision("unsure", "model", reason=TOO_MANY)
    if support is None:
        return _recomputed(matter, base) or ClaimDecision("unsupported", "model", reason="no_evidence")
    if found is not None and gain >= CONFIRMS and _is_plain(found, support, similarity):
        return _contradicted(matter, found)
    follows_from = _recomputed(matter, base)
    if follows_from is not None:
        return follows_from
    return ClaimDecision(_opinion(support, thresholds), "model")


def wanted_gain(decision: ClaimDecision | None, support: Support | None, found: Slot | None, similarity: float) -> float | None:
    """The gain from which on `decided` and `told` say something else; None where no gain that is possible makes a difference."""
    if found is None or support is None or (decision is not None and decision.by != "model"):
        return None
    if decision is None and _is_plain(found, support, similarity):
        least = CONFIRMS
    elif found.placed:
        least = TELLS
    else:
        return None
    return least if 1.0 - support.supported >= least else None


def told(matter: ClaimMatter, found: Slot | None, gain: float) -> ClaimDecision | None:
    """A contradiction that the exchange shows, however the rest is worded, and also where the verifier was taken in by the words."""
    if found is None or not found.placed or gain < TELLS:
        return None
    return _contradicted(matter, found)


def _contradicted(matter: ClaimMatter, found: Slot) -> ClaimDecision:
    reason = f"{found.kind} {found.claim} (evidence: {found.evidence})"
    return ClaimDecision("contradicted", "exact", matter.nearest[found.position], found.evidence, reason)


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


def _recomputed(matter: ClaimMatter, base: EvidenceBase) -> ClaimDecision | None:
    """Whether the claim's numbers follow from what was said: supported where something calls for the calculation, it is no coincidence, and
    the evidence has no other value in their place; else unsure.
    """
    said = base.said
    if not said.whole:
        return None
    numbers = unsaid_numbers(matter.text, said, matter.language)
    if not numbers or missing_names(matter.text, said, matter.language):
        return None
    if len(numbers) > MAX_RECOMPUTED:
        return ClaimDecision("unsure", "recomputed", reason=TOO_MANY)
    nearest = [base.sentences[i] for i in matter.nearest[:NEAREST]]
    if not all(called_for(n, matter.text, matter.asked, nearest, base.rows, said.texts, matter.language) for n in numbers):
        every = read_quantities(matter.text, matter.language).numbers
        possible = all(is_derived(number, matter.text, matter.asked, said.quantities, said.texts, every) for number in numbers)
        return ClaimDecision("unsure", "recomputed", reason="nothing calls for the calculation") if possible else None
    few = len({q.base_values()[0] for q in said.quantities.numbers}) <= MAX_RECOMPUTED_FROM
    differs = few and differing(matter, base, also_derived=True)
    plainly_differs = isinstance(differs, Slot) and differs.placed and differs.aligned >= WELL_ALIGNED
    return ClaimDecision("supported" if few and not plainly_differs else "unsure", "recomputed")


# ---- telling ----


MAX_REASONS = 3


def counterpart(claim: str, ranked: Sequence[int], base: EvidenceBase, tongue: str) -> tuple[str, int]:
    """What the evidence says instead, and the position of the piece that says it: the nearest that has a counterpart."""
    from proxy.grounding.values.consistency import instead

    for position in ranked:
        if said := instead(claim, base.sentences[position], tongue):
            return said, position
    return "", ranked[0]


def missing(claim: str, evidence: str, tongue: str) -> str:
    """Which numbers, dates, units and names of a claim its evidence does not have: ``number 330 m (evidence: 300 m)``."""
    from proxy.grounding.values.consistency import differences

    found = differences(claim, evidence, tongue)[:MAX_REASONS]
    return "; ".join(f"{d.kind} {d.claim}" + (f" (evidence: {d.evidence})" if d.evidence else "") for d in found)
