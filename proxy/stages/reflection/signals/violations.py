"""Schema violations as failures: what `proxy.language.json.conformance` found of a call or of an answer.

In: a `Violation` and where it stands. Out: a `Failure`. Pointers, keywords and names of the schema go in, no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proxy.language.json.conformance import Violation
from proxy.language.json.fingerprint import fingerprint, identifier
from proxy.ports.failure_kinds import Failure, Severity
from proxy.stages.reflection.failures.steps import CalledTool
from proxy.stages.reflection.signals.calls import action_of, named_arguments, refs_of

RESPONSES = ("response_not_json", "response_mismatch")
_SEVERE: Mapping[str, Severity] = {"unknown_tool": "high", "repair_failed": "high"}


def of_call(call: CalledTool, violation: Violation) -> Failure:
    """Of a tool call."""
    errors = _errors(violation)
    if violation.code == "unknown_tool":
        known = [identifier(name) for name in violation.known]
        adjustment: dict[str, Any] = {"type": "use_known_tool", **({"tools": known} if known else {})}
    elif violation.code == "invalid_json":
        adjustment = {"type": "return_valid_json"}
    else:
        adjustment = {"type": "fix_arguments", **({"errors": errors} if errors else {})}
    arguments = named_arguments(call) if violation.code != "invalid_json" else None
    return Failure(
        signal_type="schema_violation",
        code=violation.code,
        severity=_SEVERE.get(violation.code, "medium"),
        phase="answer",
        subject=identifier(call.tool),
        attempted_action=action_of(call),
        observed_outcome={"code": violation.code, "errors": errors},
        recommended_adjustment=adjustment,
        context_refs=refs_of(call),
        fingerprint=fingerprint("schema_violation", violation.code, call.tool, arguments, detail=_named(errors)),
        action_key=call.key,
        cause=call.cause,
        position=call.message if call.result is None else call.result.message,
    )


def of_response(violation: Violation, record_id: str, choice: int, *, tries: int) -> Failure:
    """Of an answer; `tries` is how often it was asked for, so that one which was not mended by asking again is a failed repair."""
    errors = _errors(violation)
    code = violation.code if tries < 2 else "repair_failed"
    return Failure(
        signal_type="schema_violation",
        code=code,
        severity=_SEVERE.get(code, "medium"),
        phase="answer",
        attempted_action={"kind": "answer", "choice": choice},
        observed_outcome={"code": violation.code, "errors": errors, "tries": tries},
        recommended_adjustment={"type": "return_valid_json", **({"errors": errors} if errors else {})},
        context_refs=({"kind": "record", "record": record_id, "choice": choice},),
        fingerprint=fingerprint("schema_violation", code, detail=f"{violation.code}{_named(errors)}"),
        cause=f"{record_id}:{choice}",
    )


def _errors(violation: Violation) -> list[dict[str, str]]:
    return [{"pointer": error.pointer, "keyword": error.keyword, "name": error.name} for error in violation.errors]


def _named(errors: list[dict[str, str]]) -> str:
    return ";".join(sorted(f"{error['pointer']} {error['keyword']} {error['name']}" for error in errors))
