"""What the signals have found, as `Failure`s: calls that failed, calls that break their schema, loops, a person's corrections.

In: calls, turns and what was found of them. Out: one `Failure` each, with the message at which it came to light. Pointers, keywords, names
and numbers go in, no text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from proxy.exchange import Tool
from proxy.language.json.conformance import Violation, check_call
from proxy.language.json.fingerprint import described, fingerprint, identifier
from proxy.language.lru import by_text
from proxy.ports.failures import Failure, Severity, SignalType
from proxy.stages.reflection import adjustments
from proxy.stages.reflection.conversation import AgentTurn, CalledTool
from proxy.stages.reflection.corrections import Correction, read_correction
from proxy.stages.reflection.error_kinds import ToolFailure, classify, names_kind
from proxy.stages.reflection.loops import Loop
from proxy.stages.reflection.result_text import is_sentence
from proxy.stages.reflection.results import RetrievalScore, read_result, score_in, threshold_in

SEVERITIES: Mapping[str, Severity] = {
    **dict.fromkeys(("not_found", "empty_result", "low_relevance", "no_evidence", "same_chunks", "context_high"), "low"),
    **dict.fromkeys(("permission_denied", "missing_pointer", "unavailable", "unknown_tool", "repair_failed"), "high"),
    **dict.fromkeys(("alternating", "no_progress", "override", "context_critical", "context_length_exceeded", "refused"), "high"),
}
"""By code; every other is medium."""
SEARCHED_IN_VAIN = ("empty_result", "low_relevance")
"""Codes of a search that worked and brought too little."""


def severity_of(code: str) -> Severity:
    """How much a failure with this code weighs."""
    return SEVERITIES.get(code, "medium")


# ---- results ----


class Outcomes(Struct, frozen=True):
    """What became of the calls of a conversation."""

    failed: tuple[tuple[CalledTool, Failure], ...]
    succeeded: tuple[CalledTool, ...]
    """Those with a result that reports no failure."""


@by_text(4096)
def _reading(text: str, retrieval: bool) -> ToolFailure | RetrievalScore | bool:
    """Of a result; False where there is nothing to say. A conversation's old results come again with every turn."""
    return read_result(text, retrieval=retrieval) or (retrieval and score_in(text)) or False


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
    code = violation.code if tries < 2 else "repair_failed"
    return Failure(
        signal_type="schema_violation",
        code=code,
        severity=severity_of(code),
        phase="answer",
        attempted_action={"kind": "answer", "choice": choice},
        observed_outcome={"code": violation.code, "errors": errors, "tries": tries},
        recommended_adjustment={"type": "return_valid_json", **({"errors": errors} if errors else {})},
        context_refs=({"kind": "record", "record": record_id, "choice": choice},),
        fingerprint=fingerprint("schema_violation", code, detail=f"{violation.code}{_detail(errors)}"),
        cause=f"{record_id}:{choice}",
    )


def _errors(violation: Violation) -> list[dict[str, str]]:
    return [{"pointer": error.pointer, "keyword": error.keyword, "name": error.name} for error in violation.errors]


def _detail(errors: list[dict[str, str]]) -> str:
    return ";".join(sorted(f"{error['pointer']} {error['keyword']} {error['name']}" for error in errors))


def _of_call(
    signal: SignalType, call: CalledTool, outcome: dict[str, Any], adjustment: Mapping[str, Any], arguments: object, detail: str
) -> Failure:
    return Failure(
        signal_type=signal,
        code=outcome["code"],
        severity=severity_of(outcome["code"]),
        phase="answer" if signal == "schema_violation" else "tool",
        subject=identifier(call.tool),
        attempted_action=_action_of(call),
        observed_outcome=outcome,
        recommended_adjustment=adjustment,
        context_refs=_refs_of(call),
        fingerprint=fingerprint(signal, outcome["code"], call.tool, arguments, detail=detail),
        action_key=call.key,
        cause=call.cause,
        position=call.message if call.result is None else call.result.message,
    )


def _action_of(call: CalledTool) -> dict[str, Any]:
    ids = [identifier(call.id)] if call.id else []
    given = described(call.parsed) if call.parsed is not None else {"unreadable_characters": len(call.arguments)}
    return {"kind": "tool_call", "tool": identifier(call.tool), "tool_call_ids": ids, "arguments": given}


def _refs_of(call: CalledTool) -> tuple[dict[str, Any], ...]:
    """Where a call and its result stand."""
    called: dict[str, Any] = {"kind": "tool_call", "message": call.message, **({"tool_call": identifier(call.id)} if call.id else {})}
    return (called,) if call.result is None else (called, {"kind": "message", "message": call.result.message})


def named_arguments(call: CalledTool) -> object:
    """What goes into a fingerprint: the parsed arguments, or the text that cannot be parsed."""
    return call.arguments if call.parsed is None else call.parsed


# ---- loops ----


def of_loop(loop: Loop) -> Failure:
    """Of a loop, as far as it has come: with every further round it occurs once more."""
    first, last = loop.calls[0], loop.calls[-1]
    if loop.code in ("same_query", "same_chunks"):  # named by its actions, the same however long it has become
        keys = [first.key]
    else:
        keys = [] if loop.code == "no_progress" else sorted({call.key for call in loop.calls})
    if loop.code in ("same_call", "same_chunks") and first.result is not None:
        given = {"tool_call_id": identifier(first.id)} if first.id else {}
        adjustment: Mapping[str, Any] = {"type": "use_result", "message": first.result.message, **given}
    elif loop.code == "same_query":
        adjustment = adjustments.rephrase(first.parsed or {})
    else:
        adjustment = {"type": "ask_human" if loop.code == "no_progress" else "stop_repeating"}
    return Failure(
        signal_type="loop",
        code=loop.code,
        severity=severity_of(loop.code),
        phase="request",
        subject=identifier(loop.tool) if loop.tool else "",
        attempted_action=_action_of(last),
        observed_outcome={"code": loop.code, "times": loop.count},
        recommended_adjustment=adjustment,
        context_refs=_refs_of(last),
        fingerprint=fingerprint("loop", loop.code, loop.tool, keys),
        action_key=last.key,
        cause=fingerprint("loop", loop.code, loop.tool, last.cause),
        position=loop.messages[-1] if last.result is None else max(loop.messages[-1], last.result.message),
    )


# ---- corrections ----


def corrections(turns: Sequence[AgentTurn], tools: Sequence[str]) -> list[Failure]:
    """Of what users said against the assistant's turn before."""
    pairs = [(turn, before) for before, turn in itertools.pairwise(turns) if turn.role == "user" and before.role == "assistant"]
    return [of_correction(read, turn, before) for turn, before in pairs if (read := read_correction(turn.text, tools)) is not None]


def of_correction(correction: Correction, turn: AgentTurn, before: AgentTurn) -> Failure:
    """Of what a user said in `turn` against the turn `before`."""
    given: dict[str, Any] = {"cap": correction.cap} if correction.cap is not None else {}
    for name in ("forbidden_tool", "wanted_tool"):
        if value := getattr(correction, name):
            given[name] = identifier(value)
    tool = identifier(correction.forbidden_tool) if correction.forbidden_tool else ""
    return Failure(
        signal_type="human_correction",
        code=correction.kind,
        severity=severity_of(correction.kind),
        phase="request",
        subject=tool,
        attempted_action={"kind": "answer", "message": before.message},
        observed_outcome={"code": correction.kind},
        recommended_adjustment={"type": "follow_correction", "message": turn.message, **given},
        context_refs=({"kind": "message", "message": turn.message, "span": list(correction.span)},),
        fingerprint=fingerprint("human_correction", correction.kind, tool, given),
        cause=fingerprint("said", "", "", turn.text, detail=str(turn.message)),
        position=turn.message,
    )
