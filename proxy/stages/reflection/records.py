"""What a run's failure records come to at this step: which are told to the model, which are a reason to stop, and which records
another takes the place of. Pure, deterministic.

A record is relevant when the newest steps show the same failure, or by its structured fields: one about a tool that is neither offered now
nor was called lately is never relevant. An upstream's failure is kept for people: no model can do anything about it; one of a window is for
the model whose window it was. What is relevant is ranked by: the same failure first, severity, recency, helpfulness, id. Guidance that did
harm twice and never helped is not given again, not even for the same failure: repeating it was tried. Of records that say the same (same
subject, same adjustment) the first stays.

The same failure again and again without progress is a reason to stop. A person is asked where they can clear the obstacle away (a
permission, a search that finds nothing, a loop, a tool that is not there). Where an invariant is broken (a handle that leads nowhere, an
answer that keeps breaking its schema though it was asked for again) nobody's words help, and the request ends with an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct

from proxy.ports import Counters
from proxy.ports.failures import SEVERITIES, FailureEvent, FailureRecord
from proxy.stages.reflection.adjustments import CAPPING

REPEATED, ASKED, STOPPED, UNCHECKED = "failure_repeated", "human_asked", "system_error", "failures_unchecked"
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


HARMFUL = 2
"""Times that guidance did harm, after which it is left out unless it also helped."""


class Situation(Struct, frozen=True):
    """The step that is about to be taken, in structured fields."""

    fingerprints: tuple[str, ...]
    """Of the failures that the newest steps show, newest first."""
    tools: tuple[str, ...]
    """Offered now."""
    recent_tools: tuple[str, ...]
    """Called lately, newest first."""


def select(records: Sequence[FailureRecord], now: Situation, *, top_k: int, model: str = "") -> list[FailureRecord]:
    """At most `top_k` of the active `records`, the most important first, for `model` (as `identifier` writes it).

    The order of `records` makes no difference.
    """
    if top_k <= 0:
        return []
    fitting = [one for one in records if one.status == "active" and not only_harmed(one) and is_relevant(one, now, model)]
    chosen: dict[tuple[str, str], FailureRecord] = {}
    for record in sorted(fitting, key=lambda one: _rank(one, now.fingerprints)):
        chosen.setdefault(_says(record), record)
        if len(chosen) == top_k:
            break
    return list(chosen.values())


def is_relevant(record: FailureRecord, now: Situation, model: str = "") -> bool:
    """Whether `model` can do something about it, and the newest steps show the same failure, or it can happen again where it happened."""
    if record.signal_type == "upstream_error":
        return False
    if record.signal_type == "budget_pressure":
        return record.attempted_action.get("model") == model
    if record.fingerprint in now.fingerprints or not record.subject:
        return True  # what belongs to no tool: the model's answer, a person's correction
    if record.code == "unknown_tool":  # an invented name may be invented again, unless there is such a tool by now
        return record.subject not in now.tools
    return record.subject in now.recent_tools or record.subject in now.tools


def only_harmed(record: FailureRecord) -> bool:
    """Whether guidance about it was followed by the same failure `HARMFUL` times, and never helped."""
    return record.harmful_count >= HARMFUL and not record.helpful_count


def _rank(record: FailureRecord, fingerprints: Collection[str]) -> tuple[bool, int, float, int, str, int]:
    severity = SEVERITIES.index(record.severity)
    helpful = record.helpful_count - record.harmful_count
    return (record.fingerprint not in fingerprints, -severity, -record.last_seen_at, -helpful, record.id, -record.revision)


def _says(record: FailureRecord) -> tuple[str, str]:
    adjustment = json.dumps(record.recommended_adjustment, sort_keys=True, default=str)
    return (record.subject, adjustment)


# ---- when to stop ----

Action = Literal["ask_human", "system_error"]
BROKEN = frozenset(("missing_pointer", "response_not_json", "response_mismatch", "repair_failed"))
"""Codes of broken invariants."""
NEVER = frozenset(("upstream_error", "budget_pressure", "human_correction"))
"""Signals that need no stop: the upstream's own error reaches the client, the stage `budget` refuses what does not fit, and a person who
objects has just spoken.
"""


class Escalation(Struct, frozen=True):
    """Stop here."""

    action: Action
    record: FailureRecord


def escalation(records: Iterable[FailureRecord], escalate_after: int, *, can_ask: bool) -> Escalation | None:
    """Of the failures that the newest step shows, the one to stop for, the latest of equals; None to go on.

    Without `can_ask` (the client waits for a tool call, not for words) an error takes the question's place.
    """
    stuck = [r for r in records if r.status == "active" and r.stuck_count >= escalate_after and r.signal_type not in NEVER]
    if not stuck:
        return None
    worst = min(stuck, key=lambda r: (r.code not in BROKEN, -SEVERITIES.index(r.severity), -r.stuck_count, -r.last_seen_at, r.id))
    return Escalation("system_error" if worst.code in BROKEN or not can_ask else "ask_human", worst)


# ---- what another record takes the place of ----
#
# Of several caps for one argument of a tool the smallest counts, of several overrides about one tool (or about how much) the latest. What
# is superseded is told no more; it becomes active again when it occurs again.


def superseded(records: Iterable[FailureRecord]) -> list[FailureEvent]:
    """An event for each active record of one run that another of them takes the place of."""
    groups: dict[tuple[object, ...], list[FailureRecord]] = {}
    for record in records:
        if record.status == "active" and (group := _group(record)) is not None:
            groups.setdefault(group, []).append(record)
    found = []
    for same in groups.values():
        stays = min(same, key=_order)
        found += [_event(record, stays) for record in same if record is not stays]
    return sorted(found, key=lambda event: event.fingerprint)


def _group(record: FailureRecord) -> tuple[object, ...] | None:
    told = record.recommended_adjustment
    if told.get("type") in CAPPING and isinstance(told.get("max"), int):
        return (record.run_id, "cap", record.subject, told.get("argument"))
    if record.code == "override":
        what = "cap" if "cap" in told else told.get("wanted_tool") or told.get("forbidden_tool")
        return None if what is None else (record.run_id, "override", record.subject, what)
    return None


def _order(record: FailureRecord) -> tuple[float, float, str]:
    """The one that stays comes first."""
    cap = record.recommended_adjustment["max"] if record.code != "override" else 0
    return (float(cap), -record.last_seen_at, record.id)


def _event(record: FailureRecord, stays: FailureRecord) -> FailureEvent:
    cause = f"superseded>{stays.id}>{record.occurrence_count}"
    return FailureEvent(kind="superseded", fingerprint=record.fingerprint, cause=cause, reason=stays.id)
