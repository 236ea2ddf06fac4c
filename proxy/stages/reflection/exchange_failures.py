"""What only an exchange that is over shows: answers that break their schema, budget pressure, weak retrieval, an upstream's refusal.

In: an exchange. Out: events. The verdicts' own detail is not copied: figures only. What only an answer shows (text that is not the JSON
asked for, a prompt near its limit, an upstream's refusal) is over when the next answer does not show it any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.context.faithful import admits_ignorance
from proxy.exchange import QUIET, Exchange, Unanswered
from proxy.language.json.conformance import check_call, check_response
from proxy.language.json.fingerprint import fingerprint, identifier
from proxy.ports.failures import Failure, FailureEvent, FailureRecord, SignalType
from proxy.stages.reflection.conversation import CalledTool, calls_in, read_turns
from proxy.stages.reflection.failures import of_response, of_violation, severity_of
from proxy.stages.reflection.history import FailureHistory
from proxy.stages.reflection.results import score_of

_SCHEMA = "schema"
_BUDGET: Mapping[str, str] = {
    "context_usage_compress": "context_high",
    "context_usage_critical": "context_critical",
    "compression_failed": "compression_failed",
}
"""Verdict codes of the stages `budget` and `compression`, and the failure's code."""
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


def answer_events(exchange: Exchange, min_score: float = 0.0) -> list[FailureEvent]:
    """What the exchange's answer, and the verdicts on it, show; `min_score` is for the passages that came with the request."""
    failures = [*_call_violations(exchange), *_response_violations(exchange), *budget_failures(exchange)]
    admits = exchange.answer is not None and any(admits_ignorance(choice.text) for choice in exchange.answer.choices)
    return [_occurred(failure) for failure in (*failures, *retrieval_failures(exchange, admits=admits, min_score=min_score))]


def upstream_events(exchange: Exchange) -> list[FailureEvent]:
    """Why there was no answer."""
    ended = exchange.unanswered
    return [] if ended is None else [_occurred(upstream_failure(exchange, ended))]


def resolved_by_answer(records: Sequence[FailureRecord], now: Sequence[FailureEvent], exchange: Exchange) -> list[FailureEvent]:
    """Of the run's active `records`, those that this answer, with the failures `now`, does not show any more."""
    shown = {event.fingerprint for event in now if event.kind == "occurred"}
    gone = [record for record in records if record.fingerprint not in shown and _is_over(record, exchange)]
    return [FailureEvent(kind="resolved", fingerprint=record.fingerprint, cause=f"{exchange.id}>resolved") for record in gone]


def resolved_by_calls(records: Sequence[FailureRecord], history: FailureHistory) -> list[FailureEvent]:
    """Of the run's active `records`, those whose action has just succeeded, and whose failure the conversation does not hold any more."""
    shown = {failure.fingerprint for failure in history.failures}
    done = {call.key: call for call in history.newest_successes}
    found = [r for r in records if r.action_key in done and r.fingerprint not in shown and r.signal_type != "loop"]
    return [FailureEvent(kind="resolved", fingerprint=r.fingerprint, cause=f"{done[r.action_key].cause}>resolved") for r in found]


def is_of_answers(record: FailureRecord) -> bool:
    """Whether the failure is one of answers, which the conversation does not show."""
    return record.signal_type == "schema_violation" and not record.action_key


def _is_over(record: FailureRecord, exchange: Exchange) -> bool:
    if exchange.upstream_answer is None:  # a stage answered: the model was not asked
        return False
    if record.signal_type == "upstream_error":
        return record.subject == identifier(exchange.upstream)
    if is_of_answers(record):
        return exchange.wants.form == "json"
    return record.signal_type == "budget_pressure" or (record.code in ("low_relevance", "no_evidence") and not record.action_key)


def _call_violations(exchange: Exchange) -> list[Failure]:
    answer = exchange.answer
    if answer is None or exchange.upstream_answer is None or not any(choice.tool_calls for choice in answer.choices):
        return []
    before = calls_in(read_turns(exchange.conversation))
    found = []
    for call in (call for choice in answer.choices for call in choice.tool_calls):
        violation = check_call(call.name, call.arguments, call.id, exchange.original.tools)
        if violation is not None:
            number = 1 + sum((call.id, call.name, call.arguments) == (c.id, c.tool, c.arguments) for c in before)
            made = CalledTool(call.id, call.name, call.arguments, len(exchange.original.messages), None, number)
            found.append(of_violation(made, violation))
    return found


def _response_violations(exchange: Exchange) -> list[Failure]:
    answer = exchange.answer
    if answer is None or exchange.upstream_answer is None:
        return []
    tries = 1 + sum(any(verdict.stage == _SCHEMA and verdict.outcome not in QUIET for verdict in one.verdicts) for one in exchange.attempts)
    found = []
    for choice in answer.choices:
        if choice.tool_calls or choice.refusal:
            continue
        violation = check_response(choice.text, exchange.wants)
        if violation is not None:
            found.append(of_response(violation, exchange.id, choice.index, tries=tries))
    return found


def _occurred(failure: Failure) -> FailureEvent:
    return FailureEvent(kind="occurred", fingerprint=failure.fingerprint, cause=failure.cause, failure=failure)


def budget_failures(exchange: Exchange) -> list[Failure]:
    """What the stages `budget` and `compression` have warned of; an answer that was cut off."""
    found: list[Failure] = []
    used = _used(exchange)
    for code in exchange.warnings:
        if code in _BUDGET:
            named = _BUDGET[code]
            adjustment: dict[str, Any] = {"type": "reduce_context"} | (used if named in PRESSURE else {})
            found.append(_made(exchange, "budget_pressure", named, "prompt", used, adjustment))
    for choice in exchange.answer.choices if exchange.answer is not None else ():
        if choice.finish_reason == "length":
            outcome = {"characters": len(choice.text)}
            found.append(_made(exchange, "budget_pressure", "output_truncated", "answer", outcome, {"type": "cap_output"}))
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
        found.append(_made(exchange, "retrieval_failure", "low_relevance", "retrieval", outcome, adjustment, chunks))
    elif admits and (chunks or exchange.evidence):
        outcome = {"passages": len(chunks)}
        found.append(_made(exchange, "retrieval_failure", "no_evidence", "answer", outcome, {"type": "rephrase_query"}, chunks))
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
    return _made(exchange, "upstream_error", code, "upstream_call", outcome, adjustment)


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
        severity=severity_of(code),
        phase="upstream" if signal == "upstream_error" else "answer",
        subject=subject,
        attempted_action=action,
        observed_outcome={"code": code, **outcome},
        recommended_adjustment=adjustment,
        context_refs=tuple(refs),
        fingerprint=fingerprint(signal, code, subject, exchange.original.model if subject else None, chunk_ids=names),
        cause=exchange.id,
    )
