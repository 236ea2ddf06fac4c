"""Is what a piece states true, as far as the knowledge base goes? One call of the fact checker for all pieces.

    accuracy = VALID / (VALID + INVALID + SUSPICIOUS)

Of a piece's statements, those with numbers first, so many are looked up as the caller allows. What the knowledge base says nothing about
(UNKNOWN) is not verifiable: it is left out, and counts neither as valid nor as false. Where nothing is verifiable the accuracy is 1.0,
marked as not measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from proxy.exchange.fact_checks import FactVerdict
from proxy.stages.validation.metrics.consistency import MAX_CHARS
from proxy.stages.validation.metrics.quality import Metric, failed, unmeasured

MAX_CLAIMS = 4
"""Statements of one piece: 3 ms each to look up, and 10 to 20 ms for one that a fact speaks of."""


@runtime_checkable
class ChecksFacts(Protocol):
    """Who knows what is so: `proxy.grounding.knowledge.checking.FactChecker`, in an exchange its `knowledge`."""

    async def verify_many(self, claims: Sequence[str]) -> list[FactVerdict]:
        """One verdict for each claim, in order."""


async def accuracy_of(stated: Sequence[Sequence[str]], checker: ChecksFacts | None, *, max_claims: int = MAX_CLAIMS) -> list[Metric]:
    """One metric for each piece, of which `stated` has the statements; in order."""
    if checker is None:
        return [unmeasured("no knowledge base", 1.0) for _ in stated]
    chosen = [checked(statements, max_claims) for statements in stated]
    claims = list(dict.fromkeys(text for texts in chosen for text in texts))
    verdicts = dict(zip(claims, await checker.verify_many(claims), strict=True)) if claims else {}
    found = ([(text, verdicts[text]) for text in texts] for texts in chosen)
    return [_metric(one, len(statements)) for one, statements in zip(found, stated, strict=True)]


def checked(statements: Sequence[str], most: int) -> list[str]:
    """At most `most` of them, in order; those with a number come before the others."""
    ranked = sorted(range(len(statements)), key=lambda i: (not any(c.isdigit() for c in statements[i]), i))
    return [statements[i] for i in sorted(ranked[:most])]


def _metric(found: Sequence[tuple[str, FactVerdict]], statements: int) -> Metric:
    count = {
        status: sum(verdict.status == status for _, verdict in found) for status in ("VALID", "INVALID", "SUSPICIOUS", "UNKNOWN", "ERROR")
    }
    detail: dict[str, Any] = {status.lower(): number for status, number in count.items() if number}
    if statements > len(found):
        detail["not_looked_up"] = statements - len(found)
    version = next((verdict.version for _, verdict in found if verdict.version), "")
    if version:
        detail["knowledge"] = version
    wrong = [(text, verdict) for text, verdict in found if verdict.status in ("INVALID", "SUSPICIOUS")]
    if count["ERROR"] and not wrong:
        return failed(next(verdict.reason for _, verdict in found if verdict.status == "ERROR") or "not_judged")
    verifiable = count["VALID"] + len(wrong)
    if not verifiable:
        return Metric(1.0, measured=False, note="nothing verifiable", detail=detail)
    if wrong:
        detail["wrong"] = [_entry(text, verdict) for text, verdict in wrong]
        detail["reason"] = _reason(*wrong[0])
    return Metric(count["VALID"] / verifiable, detail=detail)


def _reason(text: str, verdict: FactVerdict) -> str:
    known = f", known is “{verdict.correct_fact[:MAX_CHARS]}”" if verdict.correct_fact else ""
    return f"“{text[:MAX_CHARS]}”{known}"


def _entry(text: str, verdict: FactVerdict) -> dict[str, Any]:
    return {
        "claim": text[:MAX_CHARS],
        "status": verdict.status,
        "confidence": round(verdict.confidence, 3),
        "correct_fact": verdict.correct_fact[:MAX_CHARS],
        "source": verdict.source[:MAX_CHARS],
        "reason": verdict.reason,
    }
