"""Records that a later one has taken the place of: a cap that was still too much, a person's older word on the same thing. Pure.

Of several caps for one argument of a tool the smallest counts, of several overrides about one tool (or about how much) the latest. What is
superseded is told no more; it becomes active again when it occurs again.
"""

from __future__ import annotations

from collections.abc import Iterable

from proxy.ports.failures import FailureEvent, FailureRecord
from proxy.stages.reflection.failures.overrides import CAPPING


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
