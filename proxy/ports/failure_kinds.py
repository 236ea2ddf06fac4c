"""The words for failures, and one that was just found. Field names are those of the HTTP interface and of `proxy.ports.failures`.

A failure states what happened, in structured fields: names, codes, numbers, hashes and pointers. No text of the conversation goes into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

SignalType = Literal["tool_error", "upstream_error", "retrieval_failure", "schema_violation", "loop", "human_correction", "budget_pressure"]
Severity = Literal["low", "medium", "high", "critical"]
Status = Literal["active", "resolved", "superseded"]
Phase = Literal["request", "tool", "upstream", "answer"]
"""Where it came to light: in what the client sent, in a tool's result, in the upstream's refusal, in the model's answer."""
AdjustmentType = Literal[
    "cap_output",
    "paginate",
    "change_arguments",
    "fix_arguments",
    "use_other_tool",
    "use_known_tool",
    "rephrase_query",
    "use_result",
    "return_valid_json",
    "retry_later",
    "ask_human",
    "stop_repeating",
    "follow_correction",
    "reduce_context",
    "say_not_found",
]
"""What to do instead. Their parameters are numbers, names of tools and of arguments, and JSON pointers."""

SIGNAL_TYPES: tuple[SignalType, ...] = get_args(SignalType)
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""The least severe first."""
STATUSES: tuple[Status, ...] = get_args(Status)

CODES: Mapping[SignalType, tuple[str, ...]] = {
    "tool_error": (
        "exception",
        "error_code",
        "error",
        "timeout",
        "rate_limited",
        "unavailable",
        "permission_denied",
        "not_found",
        "missing_pointer",
        "invalid_arguments",
        "output_too_large",
    ),
    "upstream_error": ("timeout", "unreachable", "rate_limited", "overloaded", "context_length_exceeded", "refused", "server_error"),
    "retrieval_failure": ("empty_result", "low_relevance", "no_evidence"),
    "schema_violation": ("unknown_tool", "invalid_json", "arguments_mismatch", "response_not_json", "response_mismatch", "repair_failed"),
    "loop": ("same_call", "same_query", "same_chunks", "alternating", "no_progress"),
    "human_correction": ("rejected", "override"),
    "budget_pressure": ("context_high", "context_critical", "compression_failed", "output_truncated"),
}
"""What exactly, by signal. ``missing_pointer`` is a handle (an archive id, a cursor, a session) that no longer leads anywhere."""


class Failure(Struct, frozen=True, kw_only=True):
    """One failure, just found. Values of the mappings are JSON: numbers, booleans, short identifiers, lists of them."""

    signal_type: SignalType
    code: str
    """One of `CODES`."""
    severity: Severity
    phase: Phase
    subject: str = ""
    """Whose failure it is: a tool's name, an upstream's name; "" for the model's answer."""
    attempted_action: Mapping[str, Any]
    """``kind`` (``tool_call``, ``answer``, ``upstream_call``, ``prompt``), ``tool``, ``tool_call_ids``, ``arguments`` as `described`."""
    observed_outcome: Mapping[str, Any]
    """``code``, and what is known beside it: ``status``, ``exception``, ``errors`` (pointer and keyword of a schema), ``tokens``."""
    recommended_adjustment: Mapping[str, Any]
    """``type`` (an `AdjustmentType`) and its parameters."""
    context_refs: tuple[Mapping[str, Any], ...] = ()
    """Pointers: ``record``, ``message``, ``tool_call``, ``chunk``, ``span``."""
    fingerprint: str
    """The same for the same failure, whenever and by whichever worker it is found (`proxy.language.json.fingerprint`)."""
    action_key: str = ""
    """Of the action that failed (`proxy.language.json.fingerprint.action_key`): the same action succeeding later resolves the failure."""
    cause: str
    """Tells this occurrence from another of the same fingerprint; the same each time the same turn is seen."""
    position: int = -1
    """Of the message in which it came to light; -1 where there is none."""
