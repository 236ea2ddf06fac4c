"""The words of fact checking: what a knowledge base says to a claim.

VALID       the knowledge base says so: word by word (confidence 1.0), or the verifier finds it supported by facts that hold now
INVALID     a fact says otherwise: it has another number, date or name in the same place of the same statement, or one of the two has a
            "not", and the verifier reads a contradiction (`reason`: what differs); or the verifier has hardly a doubt of one, though
            nothing that can be compared differs (``contradicted``). `correct_fact` is what it says
SUSPICIOUS  the knowledge base speaks of the very thing that the claim states, and may be against it: ``outdated`` (the only facts that say
            so are over, or not yet begun), ``conflicting_facts`` (one fact supports it, another contradicts it) or ``values_differ`` (a
            value in the same place is another one, and the verifier sees little or no contradiction)
UNKNOWN     the knowledge base says nothing to it (``no_fact``), speaks of the same subject, but of another matter (``other_matter``), or
            neither bears it out nor contradicts it (``unsure``): to be unlike a fact is not to be against it. It never counts as VALID.
ERROR       the check could not run (``timeout``, ``verifier_unavailable``, ``not_judged``, ``knowledge_unavailable``). Nor does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

Status = Literal["VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR"]
KNOWLEDGE_BASE = "knowledge_base"
"""`FactVerdict.source` of a claim that stands in the knowledge base word by word."""


class FactVerdict(Struct, frozen=True):
    """What the knowledge base says to one claim."""

    status: Status
    confidence: float = 0.0
    """0 to 1. VALID: that it is supported; INVALID: that it is contradicted; SUSPICIOUS: the higher of the two. 0 for the others."""
    correct_fact: str = ""
    """INVALID and SUSPICIOUS: what the knowledge base says, in the fact's own words."""
    source: str = ""
    """Where the fact comes from; ``knowledge_base`` for an exact match, whose own source stands in `detail`."""
    fact_id: str = ""
    reason: str = ""
    """Why it is not VALID, or ``exact``."""
    version: str = ""
    """Of the knowledge base that judged."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """For the record: ``fact_source``, ``support``, ``contradiction``, ``conflict`` (the kind of what differs), ``differs``
    (the claim's words for it), ``instead`` (the fact's), ``subject``, ``verifier``, as far as they are known."""

    @property
    def valid(self) -> bool:
        """Whether the claim may be relied on: VALID, and nothing else."""
        return self.status == "VALID"
