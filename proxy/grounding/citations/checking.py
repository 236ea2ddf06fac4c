"""A statement with its citations -> what was found of them: does the cited passage exist, does it support the statement.

The cited passages together are judged for recall, each by itself for precision, and where one does not support the statement by itself
while all together do, the others without it. Passages are read as any evidence is, their best sentences for each claim.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Evidence
from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import CitedStatement, is_relevant
from proxy.grounding.citations.written_forms import Citation
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder

Passages = tuple[Evidence, ...]


class _Word(Struct, frozen=True):
    """What some passages say to all claims of a statement."""

    every: bool | None
    """Whether they support every claim; None where nobody could tell."""
    some: bool | None
    """Whether they support at least one."""
    score: float | None
    failed: bool
    """Whether the check of a claim could not run; nobody can tell, either, where no verifier knows the language."""


class CitationJudge:
    """Judges the citations of the answers to one prompt."""

    def __init__(self, grounder: Grounder, citable: Citable, max_citations: int) -> None:
        self._grounder, self.citable, self._max = grounder, citable, max_citations
        self._judged_citations: set[Citation] = set()
        self._bases: dict[tuple[tuple[str, str], ...], EvidenceBase] = {}

    async def judge(self, statement: CitedStatement, tongue: str = "") -> JudgedStatement:
        """What was found of one statement and its own citations."""
        claims = tuple(claim for item in statement.covers for claim in item.claims) if statement.covers else statement.claims
        cited = [(citation, tuple(self.citable.find(citation))) for citation in statement.cited]
        if not claims or not any(passages for _, passages in cited):
            supported = False if statement.needs_citation and statement.cited else None
            return JudgedStatement(statement, supported, tuple(_existing(c, p) for c, p in cited if c in statement.citations))
        every = _together(passages for _, passages in cited)
        together = await self._ask(claims, every, tongue)
        supported = together.every if statement.needs_citation else None
        failed = together.failed and supported is None
        if not statement.citations:
            return JudgedStatement(statement, supported, failed=failed)
        found = await asyncio.gather(*(self._citation(statement, claims, cited, i, together, tongue) for i in range(len(cited))))
        return JudgedStatement(statement, supported, tuple(found), failed)

    async def _citation(
        self,
        statement: CitedStatement,
        claims: Sequence[Claim],
        cited: Sequence[tuple[Citation, Passages]],
        i: int,
        together: _Word,
        tongue: str,
    ) -> CitationFinding:
        citation, passages = cited[i]
        if not passages:
            return _existing(citation, passages)
        if citation not in self._judged_citations and len(self._judged_citations) >= self._max:
            return CitationFinding(citation, True, source=passages[0].source, error=True)
        self._judged_citations.add(citation)
        alone = await self._ask(claims, passages, tongue) if len(cited) > 1 else together
        without = False
        if statement.covers:  # a lead-in covers items that say different things: it holds where it supports any of them
            relevant = alone.some
        else:
            if together.every and not alone.every and (others := _together(p for k, (_, p) in enumerate(cited) if k != i)):
                without = bool((await self._ask(claims, others, tongue)).every)
            known = together.every is not None and (alone.every is not None or not together.every)
            relevant = is_relevant(together=bool(together.every), alone=bool(alone.every), others=without) if known else None
        supports = True if alone.some or relevant else alone.some
        return CitationFinding(citation, True, supports, relevant, alone.score, passages[0].source, error=supports is None and alone.failed)

    async def _ask(self, claims: Sequence[Claim], passages: Passages, tongue: str) -> _Word:
        key = tuple((p.content, p.source) for p in passages)
        if key not in self._bases:
            self._bases[key] = EvidenceBase(passages)
        judged = await self._grounder.judge(claims, self._bases[key], tongue=tongue)
        failed = any(judgement.label == "error" for judgement in judged)
        return _Word(_all(judged), _any(judged), max((j.score for j in judged if j.score is not None), default=None), failed)


def _together(cited: Iterable[Passages]) -> Passages:
    """Each passage once."""
    return tuple({(p.content, p.source): p for passages in cited for p in passages}.values())


def _existing(citation: Citation, passages: Passages) -> CitationFinding:
    return CitationFinding(citation, bool(passages), source=passages[0].source if passages else "")


def _all(judged: Sequence[Judgement]) -> bool | None:
    labels = {judgement.label for judgement in judged} - {"not_checkable"}
    if labels & {"unsupported", "contradicted"}:
        return False
    return None if labels & {"error", "unsure"} else True


def _any(judged: Sequence[Judgement]) -> bool | None:
    labels = {judgement.label for judgement in judged}
    return True if "supported" in labels else None if labels & {"error", "unsure"} else False


# ---- scores ----


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


class JudgedStatement(Struct, frozen=True):
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


def findings(judged: Iterable[JudgedStatement]) -> list[CitationFinding]:
    """Of all citations, in order."""
    return [finding for one in judged for finding in one.findings]


def verified(judged: Iterable[JudgedStatement]) -> tuple[int, int]:
    """Verified citations, and all."""
    found = findings(judged)
    return sum(finding.verified for finding in found), len(found)


def precision(judged: Iterable[JudgedStatement]) -> float | None:
    """Relevant citations / citations that were judged; None without any."""
    counted = [finding for finding in findings(judged) if not finding.exists or finding.relevant is not None]
    return sum(finding.relevant is True for finding in counted) / len(counted) if counted else None


def recall(judged: Iterable[JudgedStatement]) -> float | None:
    """Sentences that their citations support / sentences that need support; those that could not be checked are left out."""
    counted = [one for one in judged if one.statement.needs_citation and (one.supported is not None or one.missing)]
    return sum(one.supported is True for one in counted) / len(counted) if counted else None


def detail(choice: int, judged: Sequence[JudgedStatement]) -> list[dict[str, Any]]:
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
