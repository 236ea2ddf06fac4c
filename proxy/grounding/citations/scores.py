"""What was found of an answer's citations, and the figures that follow: verified of all, citation precision and recall.

Precision and recall are ALCE's (Gao et al. 2023, arXiv 2305.14627, section 4). A sentence that needs support counts for recall when all
its citations together support everything it claims; a citation counts for precision when its sentence does, and it supports it by itself
or is missed (`proxy.grounding.citations.citing.is_relevant`). A citation of what does not exist counts against precision and adds no
evidence (ALCE's script leaves such a sentence out). What stands in no sentence that claims anything only has to exist, and counts for
neither. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from proxy.grounding.citations.citation import Citation
from proxy.grounding.citations.citing import CitedStatement


class CitationFinding(Struct, frozen=True):
    """What was found of one citation."""

    citation: Citation
    exists: bool
    supports: bool | None = None
    """Whether it supports at least part of its sentence by itself, or is needed beside the others; None where there is nothing to
    support, or nobody could tell."""
    relevant: bool | None = None
    """Whether it counts for precision; None as above."""
    score: float | None = None
    """The highest calibrated probability with which it supports one of the sentence's claims by itself."""
    source: str = ""
    """The source of what it cites."""
    error: bool = False
    """Whether the check could not run."""

    @property
    def bad(self) -> bool:
        """Known not to hold."""
        return not self.exists or self.supports is False

    @property
    def verified(self) -> bool:
        """It exists, and supports its sentence, if that claims anything."""
        return self.exists and self.supports is not False and not self.error


class Judged(Struct, frozen=True):
    """What was found of one statement."""

    statement: CitedStatement
    supported: bool | None = None
    """Whether its citations together support all it claims; None where it needs no support, or nobody could tell."""
    findings: tuple[CitationFinding, ...] = ()
    """Of its own citations, in order; those of a lead-in are judged there."""
    failed: bool = False
    """Whether the check of what its citations say together could not run."""

    @property
    def missing(self) -> bool:
        """Whether it should cite something and does not."""
        return self.statement.needs_citation and not self.statement.cited


def findings(judged: Iterable[Judged]) -> list[CitationFinding]:
    """Of all citations, in order."""
    return [finding for one in judged for finding in one.findings]


def verified(judged: Iterable[Judged]) -> tuple[int, int]:
    """Verified citations, and all."""
    found = findings(judged)
    return sum(finding.verified for finding in found), len(found)


def precision(judged: Iterable[Judged]) -> float | None:
    """Relevant citations / citations that were judged; None without any."""
    counted = [finding for finding in findings(judged) if not finding.exists or finding.relevant is not None]
    return sum(finding.relevant is True for finding in counted) / len(counted) if counted else None


def recall(judged: Iterable[Judged]) -> float | None:
    """Sentences that their citations support / sentences that need support; those that could not be checked are left out."""
    counted = [one for one in judged if one.statement.needs_citation and (one.supported is not None or one.missing)]
    return sum(one.supported is True for one in counted) / len(counted) if counted else None


def detail(choice: int, judged: Sequence[Judged]) -> list[dict[str, Any]]:
    """Each citation for the record."""
    found = []
    for finding in findings(judged):
        cited = finding.citation
        entry: dict[str, Any] = {"choice": choice, "span": [cited.start, cited.end], "cites": cited.label[:200], "exists": finding.exists}
        if finding.exists:
            entry["supports"] = finding.supports
        if finding.score is not None:
            entry["score"] = round(finding.score, 4)
        if finding.source and finding.source != cited.name:
            entry["source"] = finding.source[:200]
        found.append(entry | ({"error": True} if finding.error else {}))
    return found
