"""What the signals have found, as `Failure`s: calls that failed, calls that break their schema (loops and corrections make their own); and
what only an exchange that is over shows: answers that break their schema, budget pressure, weak retrieval, an upstream's refusal.

In: calls, turns and what was found of them, or an exchange. Out: one `Failure` each, with the message at which it came to light. Pointers,
keywords, names and numbers go in, no text. What only an answer shows is over when the next answer does not show it any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from proxy.context.faithful import admits_ignorance
from proxy.context.tool_results.error_kinds import ToolFailure, classify, names_kind
from proxy.context.tool_results.result_text import is_sentence
from proxy.context.tool_results.results import RetrievalScore, read_result, score_in, score_of, threshold_in
from proxy.context.tool_results.turns import CalledTool, calls_in, turns_of
from proxy.exchange import QUIET, Exchange, Tool, Unanswered
from proxy.language.json.conformance import Violation, check_call, check_response
from proxy.language.json.fingerprint import described, fingerprint, identifier
from proxy.language.lru import by_text
from proxy.ports.failures import Failure, FailureEvent, FailureRecord, Phase, Severity, SignalType
from proxy.stages.reflection import adjustments

SEVERITIES: Mapping[str, Severity] = {
    **dict.fromkeys(("not_found", "empty_result", "low_relevance", "no_evidence", "same_chunks", "context_high"), "low"),
    **dict.fromkeys(("permission_denied", "missing_pointer", "unavailable", "unknown_tool", "repair_failed"), "high"),
    **dict.fromkeys(("alternating", "no_progress", "override", "context_critical", "context_length_exceeded", "refused"), "high"),
}
"""By code; every other is medium."""
SEARCHED_IN_VAIN = ("empty_result", "low_relevance")
"""Codes of a search that worked and brought too little."""


def make_failure(
    signal: SignalType,
    code: str,
    phase: Phase,
    tool: str = "",
    named: object = None,
    *,
    action: Mapping[str, Any],
    outcome: Mapping[str, Any],
    adjustment: Mapping[str, Any],
    refs: Sequence[Mapping[str, Any]],
    detail: str = "",
    chunks: Sequence[str] = (),
    **more: Any,
) -> Failure:
    """Named by its signal, its code, whose it is, what was `named` (arguments, a model), details and chunks."""
    return Failure(
        signal_type=signal,
        code=code,
        severity=SEVERITIES.get(code, "medium"),
        phase=phase,
        subject=identifier(tool) if tool else "",
        attempted_action=action,
        observed_outcome={"code": code, **outcome},
        recommended_adjustment=adjustment,
        context_refs=tuple(refs),
        fingerprint=fingerprint(signal, code, tool, named, detail=detail, chunk_ids=chunks),
        **more,
    )


# ---- results ----


class Outcomes(Struct, frozen=True):
    """What became of the calls of a conversation."""

    failed: tuple[tuple[CalledTool, Failure], ...]
    succeeded: tuple[CalledTool, ...]
    """Those with a result that reports no failure."""


def _reading(text: str, retrieval: bool) -> ToolFailure | RetrievalScore | bool:
    """Of a result; False where there is nothing to say."""
    return read_result(text, retrieval=retrieval) or (retrieval and _score_in(text))


@by_text(4096)
def _score_in(text: str) -> RetrievalScore | Literal[False]:
    """A search's results come again with every turn."""
    return score_in(text) or False


def outcomes(calls: Sequence[CalledTool], tools: Sequence[Tool], retrieves: Callable[[str], bool], min_score: float = 0.0) -> Outcomes:
    """Read the results of `calls`; `retrieves` tells whether a tool of that name searches. `min_score` is what the best score of a search
    must reach, where neither the call nor its result says so.
    """
    failed: list[tuple[CalledTool, Failure]] = []
    succeeded: list[CalledTool] = []
    for call in calls:
        if call.result is None:
            continue
        retrieval = retrieves(call.tool)
        reading = _reading(call.result.text, retrieval)
        if isinstance(reading, RetrievalScore):
            least = reading.short_of(threshold_in(call.parsed), min_score)
            reading = least is not None and ToolFailure("low_relevance", score=round(reading.best, 4), min_score=least)
        elif not reading and is_broken(call, tools):
            reading = classify(call.result.text)
        if isinstance(reading, ToolFailure) or call.result.failed:
            failed.append((call, of_result(call, reading if isinstance(reading, ToolFailure) else ToolFailure("error"), tools)))
        else:
            succeeded.append(call)
    return Outcomes(tuple(failed), tuple(succeeded))


def is_broken(call: CalledTool, tools: Sequence[Tool]) -> bool:
    """Whether a call breaks its schema and its result, a sentence, names a kind of error: neither alone says that it failed."""
    return (
        is_sentence(call.result_text) and names_kind(call.result_text) and check_call(call.tool, call.arguments, call.id, tools) is not None
    )


def of_result(call: CalledTool, reading: ToolFailure, tools: Sequence[Tool]) -> Failure:
    """Of a call whose result reports a failure."""
    retrieval, arguments = reading.code in SEARCHED_IN_VAIN, call.parsed or {}
    outcome: dict[str, Any] = {"code": reading.code}
    for name in ("status", "exception", "retry_after_s", "argument", "score", "min_score"):
        if (value := getattr(reading, name)) not in (None, ""):
            outcome[name] = identifier(value) if isinstance(value, str) else value
    known = {"argument": reading.argument, "retry_after_s": reading.retry_after_s}
    adjustment = (
        adjustments.rephrase(arguments) if retrieval else adjustments.for_tool_error(reading.code, call.tool, arguments, tools, **known)
    )
    detail = "/".join(str(part) for part in (reading.status, reading.exception) if part)
    return _of_call("retrieval_failure" if retrieval else "tool_error", call, outcome, adjustment, named_arguments(call), detail)


# ---- schemas ----


def of_violation(call: CalledTool, violation: Violation) -> Failure:
    """Of a call that breaks its schema."""
    errors = _errors(violation)
    if violation.code == "unknown_tool":
        known = [identifier(name) for name in violation.known]
        adjustment: dict[str, Any] = {"type": "use_known_tool", **({"tools": known} if known else {})}
    elif violation.code == "invalid_json":
        adjustment = {"type": "return_valid_json"}
    else:
        adjustment = {"type": "fix_arguments", **({"errors": errors} if errors else {})}
    arguments = named_arguments(call) if violation.code != "invalid_json" else None
    return _of_call("schema_violation", call, {"code": violation.code, "errors": errors}, adjustment, arguments, _detail(errors))


def of_response(violation: Violation, record_id: str, choice: int, *, tries: int) -> Failure:
    """Of an answer; `tries` is how often it was asked for, so that one which was not mended by asking again is a failed repair."""
    errors = _errors(violation)
    return make_failure(
        "schema_violation",
        violation.code if tries < 2 else "repair_failed",
        "answer",
        action={"kind": "answer", "choice": choice},
        outcome={"code": violation.code, "errors": errors, "tries": tries},
        adjustment={"type": "return_valid_json", **({"errors": errors} if errors else {})},
        refs=({"kind": "record", "record": record_id, "choice": choice},),
        detail=f"{violation.code}{_detail(errors)}",
        cause=f"{record_id}:{choice}",
    )


def _errors(violation: Violation) -> list[dict[str, str]]:
    return [{"pointer": error.pointer, "keyword": error.keyword, "name": error.name} for error in violation.errors]


def _detail(errors: list[dict[str, str]]) -> str:
    return ";".join(sorted(f"{error['pointer']} {error['keyword']} {error['name']}" for error in errors))


def _of_call(
    signal: SignalType, call: CalledTool, outcome: dict[str, Any], adjustment: Mapping[str, Any], arguments: object, detail: str
) -> Failure:
    return make_failure(
        signal,
        outcome["code"],
        "answer" if signal == "schema_violation" else "tool",
        call.tool,
        arguments,
        action=action_of(call),
        outcome=outcome,
        adjustment=adjustment,
        refs=refs_of(call),
        detail=detail,
        action_key=call.key,
        cause=call.cause,
        position=call.message if call.result is None else call.result.message,
    )


def action_of(call: CalledTool) -> dict[str, Any]:
    """What a call attempted."""
    ids = [identifier(call.id)] if call.id else []
    given = described(call.parsed) if call.parsed is not None else {"unreadable_characters": len(call.arguments)}
    return {"kind": "tool_call", "tool": identifier(call.tool), "tool_call_ids": ids, "arguments": given}


def refs_of(call: CalledTool) -> tuple[dict[str, Any], ...]:
    """Where a call and its result stand."""
    called: dict[str, Any] = {"kind": "tool_call", "message": call.message, **({"tool_call": identifier(call.id)} if call.id else {})}
    return (called,) if call.result is None else (called, {"kind": "message", "message": call.result.message})


def named_arguments(call: CalledTool) -> object:
    """What goes into a fingerprint: the parsed arguments, or the text that cannot be parsed."""
    return call.arguments if call.parsed is None else call.parsed


# ---- what an exchange that is over shows ----

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
    "rate_limit_exceeded": "rate_limited",
    "rate_limited": "rate_limited",
    "overloaded": "overloaded",
    "overloaded_error": "overloaded",
    "upstream_error": "server_error",
}
PRESSURE = ("context_high", "context_critical")
TOO_LONG = "context_length_exceeded"


def answer_events(exchange: Exchange, min_score: float = 0.0) -> list[FailureEvent]:
    """What the exchange's answer, and the verdicts on it, show; `min_score` is for the passages that came with the request."""
    failures = [*_call_violations(exchange), *_response_violations(exchange), *budget_failures(exchange)]
    admits = exchange.answer is not None and any(admits_ignorance(choice.text) for choice in exchange.answer.choices)
    return [occurred(failure) for failure in (*failures, *retrieval_failures(exchange, admits=admits, min_score=min_score))]


def upstream_events(exchange: Exchange) -> list[FailureEvent]:
    """Why there was no answer. That the client asked for a longer one than there is room for is no failure of the run."""
    ended, use = exchange.unanswered, exchange.facts.context
    if ended is None:
        return []
    if ended.code != TOO_LONG:
        return [occurred(upstream_failure(exchange, ended))]
    if use is not None and use.exceeded_by_answer(exchange.wants.max_output_tokens):
        return []
    used = _usage_detail(exchange)
    return [occurred(_exchange_failure(exchange, "budget_pressure", TOO_LONG, "prompt", used, {"type": "reduce_context", **used}))]


def resolved_by_answer(records: Sequence[FailureRecord], now: Sequence[FailureEvent], exchange: Exchange) -> list[FailureEvent]:
    """Of the run's active `records`, those that this answer, with the failures `now`, does not show any more."""
    shown = {event.fingerprint for event in now if event.kind == "occurred"}
    gone = [record for record in records if record.fingerprint not in shown and _is_over(record, exchange)]
    return [FailureEvent(kind="resolved", fingerprint=record.fingerprint, cause=f"{exchange.id}>resolved") for record in gone]


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
    before = calls_in(turns_of(exchange, exchange.conversation))
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


def occurred(failure: Failure) -> FailureEvent:
    """That it did."""
    return FailureEvent(kind="occurred", fingerprint=failure.fingerprint, cause=failure.cause, failure=failure)


def budget_failures(exchange: Exchange) -> list[Failure]:
    """What the stages `budget` and `compression` have warned of; an answer that was cut off."""
    found: list[Failure] = []
    used = _usage_detail(exchange)
    for code in exchange.warnings:
        if code in _BUDGET:
            named = _BUDGET[code]
            adjustment: dict[str, Any] = {"type": "reduce_context"} | (used if named in PRESSURE else {})
            found.append(_exchange_failure(exchange, "budget_pressure", named, "prompt", used, adjustment))
    for choice in exchange.answer.choices if exchange.answer is not None else ():
        if choice.finish_reason == "length":
            outcome = {"characters": len(choice.text)}
            found.append(_exchange_failure(exchange, "budget_pressure", "output_truncated", "answer", outcome, {"type": "cap_output"}))
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
        found.append(_exchange_failure(exchange, "retrieval_failure", "low_relevance", "retrieval", outcome, adjustment, chunks))
    elif admits and (chunks or exchange.evidence):
        outcome = {"passages": len(chunks)}
        found.append(_exchange_failure(exchange, "retrieval_failure", "no_evidence", "answer", outcome, {"type": "rephrase_query"}, chunks))
    return found


def upstream_failure(exchange: Exchange, ended: Unanswered) -> Failure:
    """Why the upstream gave no answer."""
    code = _UPSTREAM.get(ended.code) or _by_status(ended.status)
    outcome: dict[str, Any] = {"status": ended.status, **({"error": identifier(ended.code)} if ended.code else {})}
    if ended.retry_after_s is not None:
        outcome["retry_after_s"] = round(ended.retry_after_s, 3)
    if code == "refused":
        adjustment: dict[str, Any] = {"type": "change_arguments"}
    else:
        adjustment = {"type": "retry_later", **({"after_s": outcome["retry_after_s"]} if "retry_after_s" in outcome else {})}
    return _exchange_failure(exchange, "upstream_error", code, "upstream_call", outcome, adjustment)


def _usage_detail(exchange: Exchange) -> dict[str, Any]:
    use = exchange.facts.context
    return {} if use is None else {"used_tokens": use.used_tokens, "window_tokens": use.window_tokens or 0}


def _by_status(status: int) -> str:
    known = {408: "timeout", 429: "rate_limited", 503: "overloaded", 504: "timeout", 529: "overloaded"}
    return known.get(status) or ("refused" if 400 <= status < 500 else "server_error")


def _exchange_failure(
    exchange: Exchange,
    signal: SignalType,
    code: str,
    kind: str,
    outcome: Mapping[str, Any],
    adjustment: Mapping[str, Any],
    chunks: list[str] | None = None,
) -> Failure:
    """A failure of the exchange as a whole: one a record. What an upstream refuses, and a window that is full, are of one model."""
    names = [identifier(fingerprint("chunk", "", "", chunk)[3:]) for chunk in chunks or ()]
    upstream = exchange.upstream if signal == "upstream_error" else ""
    model = exchange.original.model if signal in ("upstream_error", "budget_pressure") else None
    named = {"upstream": identifier(upstream)} if upstream else {}
    return make_failure(
        signal,
        code,
        "upstream" if upstream else "answer",
        upstream,
        model,
        action={"kind": kind, **named, **({} if model is None else {"model": identifier(model)})},
        outcome=outcome,
        adjustment=adjustment,
        refs=[{"kind": "record", "record": exchange.id}, *({"kind": "chunk", "chunk": name} for name in names[:8])],
        chunks=names,
        cause=exchange.id,
    )
