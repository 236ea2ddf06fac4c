"""What happened, in a few words: a failure record in, a clause of English out. Pure; names and numbers only, no text of the conversation.

Names come from clients, models and results: one is shown only where it is an identifier that gives no orders, and else is replaced by a
neutral word. Numbers are shown where they are short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from proxy.ports.failures import FailureRecord

MAX_NAME_CHARS = 64
"""As OpenAI's API allows for a function's name."""
MAX_ID_CHARS = 40
MAX_NUMBER = 10**9
A_TOOL = "a tool"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:[.\-][A-Za-z0-9_]+){0,8}")
_EXCEPTION = re.compile(r"[A-Z][A-Za-z0-9]{1,34}(?:Error|Exception|Timeout|Failure|Fault|Warning|Exit|Interrupt)|E[A-Z]{3,14}")
_ORDERS = re.compile(
    r"ignore|disregard|override|overrule|forget|bypass|obey|jailbreak|reveal|pretend|previous|prior|above|instruct|prompt|system|assistant"
    r"|secret|password|must|always|never",
    re.I,
)
"""Two of these in one name are an order rather than a name."""

# fmt: off
HAPPENED: Mapping[tuple[str, str], str] = {
    ("tool_error", "exception"): "{tool} raised {exception}",
    ("tool_error", "error_code"): "{tool} returned {status}",
    ("tool_error", "error"): "{tool} reported an error",
    ("tool_error", "timeout"): "{tool} timed out",
    ("tool_error", "rate_limited"): "{tool} was rate limited",
    ("tool_error", "unavailable"): "{tool} was unavailable",
    ("tool_error", "permission_denied"): "{tool} was denied permission",
    ("tool_error", "not_found"): "{tool} did not know what was asked for",
    ("tool_error", "missing_pointer"): "{tool} was given a reference that no longer exists",
    ("tool_error", "invalid_arguments"): "{tool} rejected its arguments",
    ("tool_error", "output_too_large"): "{tool} returned too much",
    ("upstream_error", "timeout"): "the model timed out",
    ("upstream_error", "unreachable"): "the model was unreachable",
    ("upstream_error", "rate_limited"): "the model was rate limited",
    ("upstream_error", "overloaded"): "the model was overloaded",
    ("upstream_error", "context_length_exceeded"): "the prompt was too long for the model",
    ("upstream_error", "refused"): "the model refused the request",
    ("upstream_error", "server_error"): "the model's server failed",
    ("retrieval_failure", "empty_result"): "{tool} found nothing",
    ("retrieval_failure", "low_relevance"): "{search} brought little that fits the question",
    ("retrieval_failure", "no_evidence"): "{search} brought no evidence for the answer",
    ("schema_violation", "unknown_tool"): "{tool} was called but does not exist",
    ("schema_violation", "invalid_json"): "{tool} was called with invalid JSON",
    ("schema_violation", "arguments_mismatch"): "{tool} was called against its schema",
    ("schema_violation", "response_not_json"): "the answer was not JSON",
    ("schema_violation", "response_mismatch"): "the answer did not fit its schema",
    ("schema_violation", "repair_failed"): "repairing the output failed",
    ("loop", "same_call"): "{tool} was called again with the same arguments and result",
    ("loop", "same_query"): "{tool} was asked the same query again",
    ("loop", "same_chunks"): "{tool} returned the same passages again",
    ("loop", "alternating"): "the same two calls went to and fro",
    ("loop", "same_answer"): "the same answer was given again",
    ("loop", "no_progress"): "{steps} brought nothing new",
    ("human_correction", "rejected"): "the user objected",
    ("human_correction", "override"): "the user set a rule",
    ("budget_pressure", "context_high"): "the context was filling up",
    ("budget_pressure", "context_critical"): "the context was almost full",
    ("budget_pressure", "compression_failed"): "the context could not be compressed",
    ("budget_pressure", "output_truncated"): "the answer was cut off",
}
# fmt: on
_PLACES = re.compile(r"\{(\w+)\}")


def happened(record: FailureRecord) -> str:
    """A clause such as ``search_docs timed out twice with limit=50``."""
    outcome = record.observed_outcome
    status, steps = number(outcome.get("status")), number(outcome.get("times"))
    exception = exception_name(outcome.get("exception"))
    words = {
        "tool": named(record.subject, A_TOOL),
        "search": named(record.subject, "the search"),
        "exception": exception or "an exception",
        "status": f"error {status}" if status else "an error code",
        "steps": f"{steps} steps" if steps else "several steps",
    }
    phrase = HAPPENED.get((record.signal_type, record.code), "{tool} failed")
    said = _PLACES.sub(lambda place: words[place[1]], phrase)
    if "{exception}" not in phrase and "{status}" not in phrase:
        said += f" ({exception or status})" if exception or status else ""
    return f"{said}{_times(record.occurrence_count)}{_with(record)}"


def size_shown(record: FailureRecord) -> tuple[str, str] | None:
    """The argument that the adjustment is about and the number it had, as the clause shows them."""
    name = record.recommended_adjustment.get("argument")
    arguments = record.attempted_action.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, Mapping):
        return None
    shown, value = named(name), number(arguments.get(name))
    return (shown, value) if shown and value else None


def named(name: object, otherwise: str = "") -> str:
    """`name` where it is an identifier, else the neutral word."""
    if not isinstance(name, str) or len(name) > MAX_NAME_CHARS or not _NAME.fullmatch(name) or len(_ORDERS.findall(name)) > 1:
        return otherwise
    return name


def exception_name(name: object) -> str:
    """The last part of an exception's name (``requests.exceptions.ConnectTimeout``), or an error number's (``ECONNREFUSED``)."""
    last = named(name).rpartition(".")[2]
    return last if _EXCEPTION.fullmatch(last) else ""


def number(value: object) -> str:
    """A short number as text, "" for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or abs(value) >= MAX_NUMBER:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _times(count: int) -> str:
    return "" if count < 2 else " twice" if count == 2 else f" {count} times" if count < MAX_NUMBER else " many times"


def _with(record: FailureRecord) -> str:
    shown = size_shown(record)
    return "" if shown is None else f" with {shown[0]}={shown[1]}"
