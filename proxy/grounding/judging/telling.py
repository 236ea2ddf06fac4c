"""What a judgement tells of its evidence: what stands there instead of a claim's words, and which of its values do not.

In: a claim and the evidence it was judged by. Out: texts for the record. `proxy.grounding.values.consistency` is imported where it is
needed: its 20 ms are for no server without such a stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.grounding.evidence.gathering import EvidenceBase

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
