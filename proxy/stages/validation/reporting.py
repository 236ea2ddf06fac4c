"""What the stage `validation` tells the record, the headers and the client. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.exchange import Verdict
from proxy.stages.validation.acting import QualityDecision
from proxy.stages.validation.metrics.quality import Quality

NAME = "validation"
REJECTED = "context_quality"
UNCHECKED = "context_unchecked"
CODES: Mapping[str, str] = {
    "accuracy": "context_inaccurate",
    "consistency": "context_inconsistent",
    "freshness": "context_stale",
    "completeness": "context_incomplete",
    "relevance": "context_irrelevant",
    "score": "context_low_quality",
}
"""Warning codes, the gravest first."""
MAX_LISTED = 50
"""Pieces in one record, those that fail first."""
MAX_CHARS = 300
MAX_MESSAGE_CHARS = 500
MAX_SOURCE_CHARS = 100
"""Of a source in a message."""
_QUESTIONABLE = ("relevance", "freshness", "accuracy", "completeness", "consistency", "score")
COUNTERS = {
    "validation.checked_count": "new pieces of context that were validated",
    **{f"validation.{name}_failed_count": f"pieces below the threshold of {name}" for name in _QUESTIONABLE},
    **{f"validation.{name}_count": f"pieces with the action {name}" for name in ("down_rank", "drop", "reject")},
}


def verdicts_of(decisions: Sequence[QualityDecision], detail: Mapping[str, Any], warns: Callable[[str], bool]) -> list[Verdict]:
    """One for each code that the new pieces give rise to, the last with the detail; a pass where there is none.

    `warns` tells of which metrics the policy wants to be warned; what the others found stands in the detail.
    """
    new = [decision for decision in decisions if decision.new]
    failing = {name for decision in new for name in decision.quality.failing if warns(name)}
    codes = [code for name, code in CODES.items() if name in failing]
    score = min((d.quality.score for d in new if d.quality.score is not None), default=None)
    score = None if score is None else round(score, 4)
    found = [Verdict(NAME, "warn", code=code, score=score) for code in codes]
    if any(decision.quality.errors for decision in decisions):
        found.append(Verdict(NAME, "error", code=UNCHECKED, score=score))
    if not found:
        held = score is not None and not any(decision.quality.failing for decision in new)
        found.append(Verdict(NAME, "pass" if held else "unchecked", score=score))
    last = found[-1]
    return [*found[:-1], Verdict(NAME, last.outcome, last.code, last.score, detail)]


def rejection(decision: QualityDecision, detail: Mapping[str, Any]) -> Verdict:
    """The block, with its reason."""
    newcomer, source = decision.newcomer, decision.newcomer.piece.source
    what = f"the result of {newcomer.tool}" if newcomer.tool else f"a {newcomer.piece.kind.replace('_', ' ')}"
    if source and not newcomer.tool:
        what += f" from {source[:MAX_SOURCE_CHARS]}"
    message = f"context rejected: {what}: {'; '.join(decision.quality.reasons)}"
    score = decision.quality.score
    return Verdict(NAME, "block", REJECTED, None if score is None else round(score, 4), detail, message[:MAX_MESSAGE_CHARS])


def detail_of(decisions: Sequence[QualityDecision], store: str) -> dict[str, Any]:
    """For the record: each new piece with all its figures, and how many of earlier turns were treated as before."""
    new = [decision for decision in decisions if decision.new]
    order = sorted(range(len(new)), key=lambda i: (not new[i].quality.failing, i))[:MAX_LISTED]
    again = [decision for decision in decisions if not decision.new and decision.action in ("drop", "down_rank")]
    detail: dict[str, Any] = {"checked": len(new), "pieces": [entry(new[i]) for i in sorted(order)]}
    if again:
        detail["as_before"] = [
            {"hash": d.newcomer.piece.hash, "message": d.newcomer.piece.message, "action": d.action} for d in again[:MAX_LISTED]
        ]
    if store:
        detail["store"] = store
    return detail


def entry(decision: QualityDecision) -> dict[str, Any]:
    """One piece."""
    piece = decision.newcomer.piece
    found: dict[str, Any] = {"message": piece.message, "kind": piece.kind, "hash": piece.hash}
    if decision.newcomer.tool:
        found["tool"] = decision.newcomer.tool[:MAX_CHARS]
    if piece.source:
        found["source"] = piece.source[:MAX_CHARS]
    if decision.archived:
        found["archived"] = decision.archived
    return {**found, "action": decision.action or "none", **figures(decision.quality)}


def figures(quality: Quality) -> dict[str, Any]:
    """All that was measured: ``{"passed", "score", "metrics": {"relevance": {"value", …}}, "reasons"}``."""
    metrics = {
        name: {
            "value": None if metric.value is None else round(metric.value, 4),
            **({} if metric.measured else {"measured": False}),
            **({"note": metric.note} if metric.note else {}),
            **({"error": metric.error} if metric.error else {}),
            **{key: value for key, value in metric.detail.items() if key != "reason"},
        }
        for name, metric in quality.findings.items()
    }
    score = None if quality.score is None else round(quality.score, 4)
    return {"passed": quality.passed, "score": score, "metrics": metrics, "reasons": [reason[:MAX_CHARS] for reason in quality.reasons]}
