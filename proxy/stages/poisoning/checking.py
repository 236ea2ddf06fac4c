"""New pieces of the context -> what was found of each: their statements by the facts, their text by the injection detector.

In: pieces that nothing is known of yet. Out: a `CheckedPiece` for each. What they state is read by `proxy.grounding.claims.claims`, and
the facts are asked once for all of a batch. What could not be asked is an ``ERROR``, never a pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.pieces import ContextPiece
from proxy.exchange import FactCheck
from proxy.exchange.fact_checks import FactVerdict
from proxy.exchange.judgements import Claim
from proxy.grounding.claims.claims import VALUES, read_content
from proxy.grounding.evidence.asserted import is_question
from proxy.offloop import each, run_in_thread_if_large
from proxy.stages.poisoning.injection import InjectionFinding, detect
from proxy.stages.poisoning.rules import PoisoningFinding, kind_of

TOGETHER = 48
"""Statements asked about at a time: the verifier takes no more than 512 pairs from all that wait for it, and each has up to four."""
MAX_CLAIMS = 200
"""Statements judged of one piece; the rest of a longer one is an error, not a pass."""
_OUTSIDE = ("tool_result", "passage")
"""Kinds that nobody in the conversation wrote: only they are searched for instructions."""


class CheckedPiece(Struct, frozen=True):
    """What was found of a piece."""

    findings: tuple[PoisoningFinding, ...] = ()
    injection: InjectionFinding | None = None
    error: str = ""
    """Why some of it was not checked: not to be remembered."""
    left_out: str = ""
    """Why some of it will never be checked: the next turn finds the same."""

    @property
    def looked(self) -> bool:
        """Whether there was anything to check it by."""
        return self.injection is not None or any(finding.status != "UNKNOWN" for finding in self.findings)


class _ReadPiece(Struct, frozen=True):
    """A piece, and what it says."""

    piece: ContextPiece
    claims: Sequence[Claim]
    language: str
    injection: InjectionFinding | None


async def check(pieces: Sequence[ContextPiece], facts: FactCheck | None, *, injections: bool, deadline_s: float) -> list[CheckedPiece]:
    """One for each piece, in order. Past `deadline_s` what is open is an ``ERROR``; without `facts` no statement is read."""
    until = time.perf_counter() + deadline_s
    read = await run_in_thread_if_large(sum(len(piece.text) for piece in pieces), _read, pieces, facts is not None, injections)
    chosen = [one.claims[:MAX_CLAIMS] for one in read]
    verdicts = iter(await _verified([claim for claims in chosen for claim in claims], read, facts, until))
    found = []
    for one, claims in zip(read, chosen, strict=True):
        findings = tuple(_finding(one, claim, next(verdicts)) for claim in claims)
        error = next((finding.reason or "not_judged" for finding in findings if finding.status == "ERROR"), "")
        left_out = f"more than {MAX_CLAIMS} statements" if len(one.claims) > MAX_CLAIMS else ""
        found.append(CheckedPiece(findings, one.injection, error, left_out))
    return found


def _read(pieces: Sequence[ContextPiece], states: bool, injections: bool) -> list[_ReadPiece]:
    """The statements of each piece, of the user's words not what asks, and the instructions in it."""
    found = []
    for piece in each(pieces):
        content = read_content(piece.text) if states else None
        claims = content.claims if content is not None else ()
        if piece.kind == "user":
            claims = tuple(claim for claim in claims if not is_question(claim.text))
        injection = detect(piece.text) if injections and piece.kind in _OUTSIDE else None
        found.append(_ReadPiece(piece, claims, content.language if content is not None else "", injection))
    return found


async def _verified(claims: Sequence[Claim], read: Sequence[_ReadPiece], facts: FactCheck | None, until: float) -> list[FactVerdict]:
    """By the facts."""
    if facts is None:
        return []
    tongues = {one.language for one in read if one.claims}
    tongue = tongues.pop() if len(tongues) == 1 else ""  # else it is found for each statement
    found: list[FactVerdict] = []
    for at in range(0, len(claims), TOGETHER):
        texts = [claim.text for claim in claims[at : at + TOGETHER]]
        found += await facts.verify_many(texts, tongue=tongue, deadline_s=max(0.0, until - time.perf_counter()))
    return found


def _finding(read: _ReadPiece, claim: Claim, verdict: FactVerdict) -> PoisoningFinding:
    """A fact's word on a statement."""
    finding = PoisoningFinding(
        read.piece.text[claim.start : claim.end], claim.start, claim.end, verdict.status, verdict.confidence, reason=verdict.reason
    )
    if claim.reason == VALUES and verdict.status == "SUSPICIOUS":
        return replace(finding, status="UNKNOWN", confidence=0.0)
    if verdict.status not in ("INVALID", "SUSPICIOUS"):
        return finding
    contradicted = verdict.status == "INVALID"
    conflict = (str(verdict.detail.get("conflict", "")), str(verdict.detail.get("differs", "")))
    known = None if claim.reason == VALUES else conflict  # names in a record are read by `kind_of` alone
    kind = kind_of(claim.text, verdict.correct_fact, contradicted=contradicted, language=read.language or "en", conflict=known)
    return replace(
        finding,
        kind="outdated" if verdict.reason == "outdated" else kind,
        correct_fact=verdict.correct_fact,
        source=str(verdict.detail.get("fact_source") or verdict.source),
        negation=contradicted and conflict[0] == "negation",
    )
