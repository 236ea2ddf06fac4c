"""What is learned outside the conversation: from an answer that has left, from an exchange without one. Pure functions over an exchange.

What only an answer shows (text that is not the JSON asked for, a prompt near its limit, an upstream's refusal) is over when the next
answer does not show it any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.context.faithful import admits_ignorance
from proxy.exchange import QUIET, Exchange
from proxy.language.json.conformance import check_call, check_response
from proxy.language.json.fingerprint import identifier
from proxy.ports.failure_kinds import Failure
from proxy.ports.failures import FailureEvent, FailureRecord
from proxy.stages.reflection.failures.history import FailureHistory
from proxy.stages.reflection.failures.steps import CalledTool, calls_in, read_turns
from proxy.stages.reflection.signals.pressure import budget_failures, retrieval_failures, upstream_failure
from proxy.stages.reflection.signals.violations import of_call, of_response

_SCHEMA = "schema"


def answered(exchange: Exchange, min_score: float = 0.0) -> list[FailureEvent]:
    """What the exchange's answer, and the verdicts on it, show; `min_score` is for the passages that came with the request."""
    failures = [*_call_violations(exchange), *_response_violations(exchange), *budget_failures(exchange)]
    admits = exchange.answer is not None and any(admits_ignorance(choice.text) for choice in exchange.answer.choices)
    return [_occurred(failure) for failure in (*failures, *retrieval_failures(exchange, admits=admits, min_score=min_score))]


def unanswered(exchange: Exchange) -> list[FailureEvent]:
    """Why there was no answer."""
    ended = exchange.unanswered
    return [] if ended is None else [_occurred(upstream_failure(exchange, ended))]


def over(records: Sequence[FailureRecord], now: Sequence[FailureEvent], exchange: Exchange) -> list[FailureEvent]:
    """Of the run's active `records`, those that this answer, with the failures `now`, does not show any more."""
    shown = {event.fingerprint for event in now if event.kind == "occurred"}
    gone = [record for record in records if record.fingerprint not in shown and _is_over(record, exchange)]
    return [FailureEvent(kind="resolved", fingerprint=record.fingerprint, cause=f"{exchange.id}>resolved") for record in gone]


def overcome(records: Sequence[FailureRecord], history: FailureHistory) -> list[FailureEvent]:
    """Of the run's active `records`, those whose action has just succeeded, and whose failure the conversation does not hold any more."""
    shown = {failure.fingerprint for failure in history.failures}
    done = {call.key: call for call in history.newest_successes}
    found = [r for r in records if r.action_key in done and r.fingerprint not in shown and r.signal_type != "loop"]
    return [FailureEvent(kind="resolved", fingerprint=r.fingerprint, cause=f"{done[r.action_key].cause}>resolved") for r in found]


def of_the_exchange_before(record: FailureRecord) -> bool:
    """Whether the failure is one of answers, which the conversation does not show."""
    return record.signal_type == "schema_violation" and not record.action_key


def _is_over(record: FailureRecord, exchange: Exchange) -> bool:
    if exchange.upstream_answer is None:  # a stage answered: the model was not asked
        return False
    if record.signal_type == "upstream_error":
        return record.subject == identifier(exchange.upstream)
    if of_the_exchange_before(record):
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
            found.append(of_call(CalledTool(call.id, call.name, call.arguments, len(exchange.original.messages), None, number), violation))
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
