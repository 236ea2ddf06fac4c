"""What becomes of a failure record: a record and an event in, the next revision out. Pure; the stores apply it."""

from __future__ import annotations

from msgspec.structs import replace

from proxy.ports.failure_kinds import SEVERITIES, Severity
from proxy.ports.failures import POLICY, FailureEvent, FailureRecord

LATER = 1e-6
"""A revision is never older than the one before it; of events that are applied together, the later one is newer by as much."""


def first(
    event: FailureEvent, *, key: str, client: str, run_id: str, policy: str, step_id: str, record_id: str, now: float
) -> FailureRecord:
    """The record of a failure that the run has not met before; `event` is ``occurred``."""
    found = event.failure
    assert found is not None
    return FailureRecord(
        id=key,
        client=client,
        run_id=run_id,
        policy=policy,
        record_id=record_id,
        step_id=step_id,
        phase=found.phase,
        signal_type=found.signal_type,
        code=found.code,
        severity=found.severity,
        subject=found.subject,
        fingerprint=found.fingerprint,
        action_key=found.action_key,
        attempted_action=found.attempted_action,
        observed_outcome=found.observed_outcome,
        recommended_adjustment=found.recommended_adjustment,
        context_refs=found.context_refs,
        created_at=now,
        last_seen_step_id=step_id,
        last_seen_at=now,
        updated_at=now,
        by=event.by,
        reason=event.reason,
    )


def advance(record: FailureRecord, event: FailureEvent, *, step_id: str, now: float) -> FailureRecord | None:
    """The next revision; None where the event changes nothing (a record that is resolved already cannot be resolved again)."""
    made = _occurred(record, event, step_id, now) if event.kind == "occurred" else _changed(record, event)
    if made is None:
        return None
    at = max(now, record.updated_at + LATER)
    return replace(made, revision=record.revision + 1, event=event.kind, by=event.by, reason=event.reason, updated_at=at)


def _occurred(record: FailureRecord, event: FailureEvent, step_id: str, now: float) -> FailureRecord:
    """Once more: what is recommended follows the latest occurrence, and what was resolved is open again."""
    found = event.failure
    assert found is not None
    return replace(
        record,
        status="active",
        occurrence_count=record.occurrence_count + 1,
        stuck_count=record.stuck_count + 1,
        last_seen_step_id=step_id,
        last_seen_at=max(now, record.last_seen_at),
        attempted_action=found.attempted_action,
        observed_outcome=found.observed_outcome,
        recommended_adjustment=found.recommended_adjustment,
        context_refs=found.context_refs,
        severity=worse(record.severity, found.severity),
        harmful_count=record.harmful_count + int(record.guided),
        guided=False,
    )


def _changed(record: FailureRecord, event: FailureEvent) -> FailureRecord | None:
    kind = event.kind
    if kind == "progress":
        return replace(record, stuck_count=0) if record.stuck_count else None
    if kind == "injected":
        return replace(record, guided=True) if record.status == "active" and not record.guided else None
    if kind in ("resolved", "superseded"):
        if record.status == kind:
            return None
        helped = int(kind == "resolved" and record.guided and event.by == POLICY)
        return replace(record, status=kind, stuck_count=0, helpful_count=record.helpful_count + helped, guided=False)
    if kind == "reopened":
        return replace(record, status="active") if record.status != "active" else None
    if kind == "helpful":
        return replace(record, helpful_count=record.helpful_count + 1)
    return replace(record, harmful_count=record.harmful_count + 1)


def worse(one: Severity, other: Severity) -> Severity:
    """The more severe of the two."""
    return max(one, other, key=SEVERITIES.index)
