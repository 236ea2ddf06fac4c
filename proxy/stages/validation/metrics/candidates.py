"""A piece of content with what it is judged by: the question, and what the context says already."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from proxy.exchange import Evidence
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.stages.validation.metrics.content import Content

MAX_EXISTING_CHARS = 20_000
"""Of the existing context, its end: what a claim is compared with is found in 10 ms."""


class Candidate(Struct, frozen=True):
    """What wants to enter the context."""

    content: Content
    questions: tuple[str, ...] = ()
    """Readings of the question; the best counts."""
    unasked: str = ""
    """Why its relevance is not to be measured."""
    existing: EvidenceBase | None = None
    """What the context says already; the same object for all that are compared with the same."""


def existing_base(existing: str | Sequence[str | Evidence] | None) -> EvidenceBase | None:
    """The existing context, ready to be searched; None where it says nothing."""
    given = [existing] if isinstance(existing, str) else list(existing or ())
    evidence = [Evidence(one, kind="system") if isinstance(one, str) else one for one in given]
    base = EvidenceBase(newest(evidence))
    return base if len(base) else None


def newest(evidence: Sequence[Evidence], most: int = MAX_EXISTING_CHARS) -> list[Evidence]:
    """The last of `evidence` that together have at most `most` characters, and always the last one."""
    kept: list[Evidence] = []
    for one in reversed(evidence):
        most -= len(one.content)
        if most < 0 and kept:
            break
        kept.append(one)
    return kept[::-1]
