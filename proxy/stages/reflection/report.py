"""What the stage `reflection` tells: counters, and the verdict's detail for the record. No text of the conversation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from proxy.ports import Counters
from proxy.ports.failures import FailureEvent, FailureRecord

REPEATED, ASKED, STOPPED, CAPPED, UNCHECKED = "failure_repeated", "human_asked", "system_error", "arguments_capped", "failures_unchecked"
MAX_LISTED = 20
_SIGNALS = (
    "tool_error",
    "upstream_error",
    "retrieval_failure",
    "schema_violation",
    "loop",
    "human_correction",
    "budget_pressure",
)
_STOPS = ("ask_human", "system_error")
COUNTERS = {
    "reflection.failures_count": "failures found in agents' runs",
    **{f"reflection.failures_{name}_count": f"of them: {name}" for name in _SIGNALS},
    "reflection.resolved_count": "failures that a later success resolved",
    "reflection.injected_count": "failures told in prompts",
    **{f"reflection.escalated_{name}_count": f"requests stopped for a failure without progress: {name}" for name in _STOPS},
    "reflection.capped_count": "arguments of tool calls that were capped",
    "reflection.unkept_count": "stops that could not be kept, the store being away",
}


def count_events(counters: Counters, events: Sequence[FailureEvent], records: Sequence[FailureRecord], since: float) -> None:
    """What has happened to `records` since then, of `events` that were put; another worker may have been first with some."""
    now = {record.fingerprint: record for record in records}
    for event in events:
        record = now.get(event.fingerprint)
        if record is None:
            continue
        if event.kind == "occurred" and record.last_seen_at >= since:
            counters.count("reflection.failures_count")
            counters.count(f"reflection.failures_{record.signal_type}_count")
        elif event.kind == "resolved" and record.status == "resolved" and record.updated_at >= since:
            counters.count("reflection.resolved_count")


def detail_of(newest: Sequence[FailureRecord], told: Sequence[FailureRecord], tokens: int) -> dict[str, Any]:
    """For the record."""
    detail: dict[str, Any] = {"found": len(newest), "told": len(told)}
    if newest:
        detail["newest"] = [listed(record) for record in newest[:MAX_LISTED]]
    if told:
        detail |= {"failures": [listed(record) for record in told], "tokens": tokens}
    return detail


def listed(record: FailureRecord) -> dict[str, Any]:
    """A failure in a few words."""
    return {
        "id": record.id,
        "signal_type": record.signal_type,
        "code": record.code,
        "severity": record.severity,
        "status": record.status,
        "subject": record.subject,
        "occurrences": record.occurrence_count,
        "stuck": record.stuck_count,
    }
