"""New pieces of the context -> what was found of each: their statements by the facts, their text by the injection detector.

In: pieces that nothing is known of yet. Out: a `CheckedPiece` for each, with its statements' findings. What they state is found by
`proxy.stages.poisoning.stating`. The facts are asked once for all of a batch; what the assistant and the user state may also be judged by
the tool results and passages before it. What could not be asked is an ``ERROR``, never a pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.pieces import ContextPiece
from proxy.exchange import Evidence, FactCheck
from proxy.exchange.fact_checks import FactVerdict
from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.language.detection import language
from proxy.offloop import each, run_in_thread_if_large
from proxy.stages.poisoning.decisions import PoisoningFinding
from proxy.stages.poisoning.injections.injection import InjectionFinding, detect
from proxy.stages.poisoning.kinds import kind_of
from proxy.stages.poisoning.stating import VALUES, statements_of

TOGETHER = 48
"""Statements asked about at a time: the verifier takes no more than 512 pairs from all that wait for it, and each has up to four."""
SURE = 0.8
"""Probability from which a contradiction with the conversation's own evidence makes a statement INVALID; below it is SUSPICIOUS."""
_TRUSTED = ("passage", "tool_result", "knowledge")
_OUTSIDE = ("tool_result", "passage")
"""Kinds that nobody in the conversation wrote: only they are searched for instructions."""


class CheckedPiece(Struct, frozen=True):
    """What was found of a piece."""

    findings: tuple[PoisoningFinding, ...] = ()
    injection: InjectionFinding | None = None
    claims: int = 0
    """Statements that could be checked."""
    error: str = ""
    """Why some of it was not checked: not to be remembered."""
    left_out: str = ""
    """Why some of it will never be checked: the next turn finds the same."""

    @property
    def looked(self) -> bool:
        """Whether there was anything to check it by."""
        return self.injection is not None or any(finding.status != "UNKNOWN" for finding in self.findings)


class Statements(Struct, frozen=True):
    """A piece's statements."""

    piece: ContextPiece
    claims: tuple[Claim, ...]
    injection: InjectionFinding | None
    tongue: str


class Checker(Struct, frozen=True):
    """How pieces are checked in one exchange."""

    facts: FactCheck | None
    grounder: Grounder | None
    """Where statements are judged by the conversation's evidence, too."""
    evidence: Sequence[Evidence]
    """Of the conversation, as the stages before this one leave it."""
    injections: bool = True
    max_claims: int = 200

    async def check(self, pieces: Sequence[ContextPiece], deadline_s: float) -> list[CheckedPiece]:
        """One for each piece, in order. Past `deadline_s` what is open is an ``ERROR``."""
        until = time.perf_counter() + deadline_s
        texts = await run_in_thread_if_large(sum(len(piece.text) for piece in pieces), read, pieces, self)
        claims = [claim for statements in texts for claim in statements.claims[: self.max_claims]]
        verdicts = await self._verified(claims, texts, _left(until))
        found, at = [], 0
        for statements in texts:
            mine = statements.claims[: self.max_claims]
            of_facts = verdicts[at : at + len(mine)]
            at += len(mine)
            judged = await self._judged(statements, mine, _left(until))
            found.append(self._checked(statements, mine, of_facts, judged))
        return found

    async def _verified(self, claims: Sequence[Claim], read: Sequence[Statements], deadline_s: float) -> list[FactVerdict]:
        """By the facts; nothing is known where there are none."""
        if self.facts is None or not claims:
            return [FactVerdict("UNKNOWN", reason="no_fact") for _ in claims]
        tongues = {statements.tongue for statements in read if statements.claims}
        tongue = tongues.pop() if len(tongues) == 1 else ""  # else it is found for each statement
        until, found = time.perf_counter() + deadline_s, list[FactVerdict]()
        for at in range(0, len(claims), TOGETHER):
            texts = [claim.text for claim in claims[at : at + TOGETHER]]
            found += await self.facts.verify_many(texts, tongue=tongue, deadline_s=_left(until))
        return found

    async def _judged(self, statements: Statements, claims: Sequence[Claim], deadline_s: float) -> list[Judgement]:
        """By the tool results and passages before it, for what the assistant or the user states."""
        piece = statements.piece
        if self.grounder is None or piece.kind not in ("assistant", "user") or not claims or piece.message is None:
            return []
        before = [e for e in self.evidence if e.kind in _TRUSTED and e.message_index is not None and e.message_index < piece.message]
        base = EvidenceBase(before)
        return await self.grounder.judge(claims, base, tongue=statements.tongue, deadline_s=deadline_s) if len(base) else []

    def _checked(
        self, statements: Statements, claims: Sequence[Claim], verdicts: Sequence[FactVerdict], judged: Sequence[Judgement]
    ) -> CheckedPiece:
        findings = [_of_fact(statements, claim, verdict) for claim, verdict in zip(claims, verdicts, strict=True)]
        if judged:
            findings = [_worse(a, _of_judgement(statements, j)) for a, j in zip(findings, judged, strict=True)]
        error = next((finding.reason for finding in findings if finding.status == "ERROR"), "")
        left_out = f"more than {self.max_claims} claims (max_claims)" if len(statements.claims) > self.max_claims else ""
        return CheckedPiece(tuple(findings), statements.injection, len(claims), error, left_out)


def _left(until: float) -> float:
    return max(0.0, until - time.perf_counter())


def read(pieces: Sequence[ContextPiece], checker: Checker) -> list[Statements]:
    """The statements of each piece, and the instructions in it."""
    found = []
    for piece in each(pieces):
        judges = checker.facts is not None or checker.grounder is not None
        claims = statements_of(piece) if judges else ()
        injection = detect(piece.text) if checker.injections and piece.kind in _OUTSIDE else None
        found.append(Statements(piece, claims, injection, language(piece.text) if claims else ""))
    return found


def _of_fact(statements: Statements, claim: Claim, verdict: FactVerdict) -> PoisoningFinding:
    """A fact's word on a statement."""
    text = statements.piece.text[claim.start : claim.end]
    if claim.reason == VALUES and verdict.status == "SUSPICIOUS":
        return PoisoningFinding(text, claim.start, claim.end, "UNKNOWN", reason=verdict.reason)
    finding = PoisoningFinding(text, claim.start, claim.end, verdict.status, verdict.confidence)
    if verdict.status not in ("INVALID", "SUSPICIOUS"):
        return replace(finding, reason=verdict.reason)
    contradicted = verdict.status == "INVALID"
    conflict = (str(verdict.detail.get("conflict", "")), str(verdict.detail.get("differs", "")))
    tongue, known = statements.tongue or "en", None if claim.reason == VALUES else conflict  # names in a record are read by `kind_of` alone
    kind = kind_of(claim.text, verdict.correct_fact, contradicted=contradicted, language=tongue, conflict=known)
    kind = "outdated" if verdict.reason == "outdated" else kind
    source = str(verdict.detail.get("fact_source") or verdict.source)
    negated = contradicted and conflict[0] == "negation"
    return replace(finding, kind=kind, reason=verdict.reason, correct_fact=verdict.correct_fact, source=source, negation=negated)


def _of_judgement(statements: Statements, judgement: Judgement) -> PoisoningFinding:
    """The conversation's word on a statement; that it says nothing of it is no finding."""
    claim = judgement.claim
    text = statements.piece.text[claim.start : claim.end]
    if judgement.label == "error":
        return PoisoningFinding(text, claim.start, claim.end, "ERROR", reason=judgement.reason)
    if judgement.label == "supported":
        return PoisoningFinding(text, claim.start, claim.end, "VALID", judgement.score or 0.0)
    if judgement.label != "contradicted" or judgement.evidence is None:
        return PoisoningFinding(text, claim.start, claim.end, "UNKNOWN")
    confidence, evidence = judgement.contradiction or 0.0, judgement.evidence
    kind = kind_of(claim.text, evidence.text, contradicted=True, language=statements.tongue or "en")
    status = "INVALID" if confidence >= SURE else "SUSPICIOUS"
    source = evidence.source or evidence.kind
    return PoisoningFinding(text, claim.start, claim.end, status, confidence, kind, judgement.reason, evidence.text, source)  # type: ignore[arg-type]


_ORDER = ("UNKNOWN", "VALID", "ERROR", "SUSPICIOUS", "INVALID")


def _worse(of_facts: PoisoningFinding, of_evidence: PoisoningFinding) -> PoisoningFinding:
    """The graver of two findings; what one of them confirms stays confirmed where the other does not know of it."""
    return max(of_facts, of_evidence, key=lambda finding: _ORDER.index(finding.status))
