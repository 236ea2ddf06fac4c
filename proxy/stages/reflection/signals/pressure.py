"""Failures that other stages have found, and that an exchange ended with: budget pressure, weak retrieval, an upstream's refusal.

In: an exchange that is over. Out: `Failure`s. The verdicts' own detail is not copied: figures only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.exchange import Exchange, Unanswered
from proxy.language.json.fingerprint import fingerprint, identifier
from proxy.ports.failure_kinds import Failure, Severity, SignalType
from proxy.stages.reflection.signals.scores import score_of

_BUDGET: Mapping[str, tuple[str, Severity]] = {
    "context_usage_compress": ("context_high", "low"),
    "context_usage_critical": ("context_critical", "high"),
    "compression_failed": ("compression_failed", "medium"),
}
"""Verdict codes of the stages `budget` and `compression`: failure's code, severity."""
_UPSTREAM: Mapping[str, str] = {
    "upstream_timeout": "timeout",
    "upstream_unreachable": "unreachable",
    "context_length_exceeded": "context_length_exceeded",
    "rate_limit_exceeded": "rate_limited",
    "rate_limited": "rate_limited",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "upstream_error": "server_error",
}
PRESSURE = ("context_high", "context_critical")


def budget_failures(exchange: Exchange) -> list[Failure]:
    """What the stages `budget` and `compression` have warned of; an answer that was cut off."""
    found: list[Failure] = []
    used = _used(exchange)
    for code in exchange.warnings:
        if code in _BUDGET:
            named, severity = _BUDGET[code]
            adjustment: dict[str, Any] = {"type": "reduce_context"} | (used if named in PRESSURE else {})
            found.append(_made(exchange, "budget_pressure", named, severity, "prompt", used, adjustment))
    for choice in exchange.answer.choices if exchange.answer is not None else ():
        if choice.finish_reason == "length":
            outcome = {"characters": len(choice.text)}
            found.append(_made(exchange, "budget_pressure", "output_truncated", "medium", "answer", outcome, {"type": "cap_output"}))
            break
    return found


def retrieval_failures(exchange: Exchange, *, admits: bool, min_score: float = 0.0) -> list[Failure]:
    """The stage `relevance` found the passages off the question, be it for the record alone; those that came with the request score below
    `min_score` by their retriever; the answer says that they do not hold it (`admits`).
    """
    chunks = [one.source or one.content for one in exchange.passages]
    found = []
    given = score_of([one.score for one in exchange.original.passages])
    least = None if given is None else given.short_of(None, min_score)
    if least is not None or any(verdict.code == "low_relevance" for verdict in exchange.verdicts):
        score = exchange.facts.relevance
        outcome: dict[str, Any] = {"passages": len(chunks), **({} if score is None else {"relevance": round(score, 4)})}
        if given is not None and least is not None:
            outcome |= {"score": round(given.best, 4), "min_score": least}
        adjustment = {"type": "rephrase_query"}
        found.append(_made(exchange, "retrieval_failure", "low_relevance", "medium", "retrieval", outcome, adjustment, chunks))
    elif admits and (chunks or exchange.evidence):
        outcome = {"passages": len(chunks)}
        found.append(_made(exchange, "retrieval_failure", "no_evidence", "low", "answer", outcome, {"type": "rephrase_query"}, chunks))
    return found


def upstream_failure(exchange: Exchange, ended: Unanswered) -> Failure:
    """Why there was no answer."""
    code = _UPSTREAM.get(ended.code) or _by_status(ended.status)
    outcome: dict[str, Any] = {"status": ended.status, **({"error": identifier(ended.code)} if ended.code else {})}
    if ended.retry_after_s is not None:
        outcome["retry_after_s"] = round(ended.retry_after_s, 3)
    if code == "context_length_exceeded":
        tokens = _used(exchange)
        outcome |= tokens
        adjustment: dict[str, Any] = {"type": "reduce_context", **tokens}
    elif code == "refused":
        adjustment = {"type": "change_arguments"}
    else:
        adjustment = {"type": "retry_later", **({"after_s": outcome["retry_after_s"]} if "retry_after_s" in outcome else {})}
    severity: Severity = "high" if code in ("context_length_exceeded", "refused") else "medium"
    return _made(exchange, "upstream_error", code, severity, "upstream_call", outcome, adjustment)


def _used(exchange: Exchange) -> dict[str, Any]:
    use = exchange.facts.context
    return {} if use is None else {"used_tokens": use.used_tokens, "window_tokens": use.window_tokens or 0}


def _by_status(status: int) -> str:
    known = {408: "timeout", 429: "rate_limited", 503: "overloaded", 504: "timeout", 529: "overloaded"}
    return known.get(status) or ("refused" if 400 <= status < 500 else "server_error")


def _made(
    exchange: Exchange,
    signal: SignalType,
    code: str,
    severity: Severity,
    kind: str,
    outcome: Mapping[str, Any],
    adjustment: Mapping[str, Any],
    chunks: list[str] | None = None,
) -> Failure:
    """A failure of the exchange as a whole: one a record."""
    names = [identifier(fingerprint("chunk", "", "", chunk)[3:]) for chunk in chunks or ()]
    refs: list[dict[str, Any]] = [{"kind": "record", "record": exchange.id}]
    refs += [{"kind": "chunk", "chunk": name} for name in names[:8]]
    subject = identifier(exchange.upstream) if signal == "upstream_error" else ""
    action = {"kind": kind, **({"upstream": subject, "model": identifier(exchange.original.model)} if subject else {})}
    return Failure(
        signal_type=signal,
        code=code,
        severity=severity,
        phase="upstream" if signal == "upstream_error" else "answer",
        subject=subject,
        attempted_action=action,
        observed_outcome={"code": code, **outcome},
        recommended_adjustment=adjustment,
        context_refs=tuple(refs),
        fingerprint=fingerprint(signal, code, subject, exchange.original.model if subject else None, chunk_ids=names),
        cause=exchange.id,
    )
