"""Failure records, what can happen to one, and the port that keeps them. Part of `proxy.ports`, which gives these names out.

A record belongs to one client and one run. It is never edited: each `FailureEvent` makes a revision, which is a record of its own; the
latest revision is what the record says now. An event is known by its `cause`, so that a turn which is seen again, by another worker or
after a restart, changes nothing. A policy may be named by its label, ``NAME@hash8``; what is kept is NAME.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, get_args

from msgspec import Struct
from msgspec.structs import replace

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
    "upstream_error": ("timeout", "unreachable", "rate_limited", "overloaded", "refused", "server_error"),
    "retrieval_failure": ("empty_result", "low_relevance", "no_evidence"),
    "schema_violation": ("unknown_tool", "invalid_json", "arguments_mismatch", "response_not_json", "response_mismatch", "repair_failed"),
    "loop": ("same_call", "same_query", "same_chunks", "alternating", "no_progress"),
    "human_correction": ("rejected", "override"),
    "budget_pressure": ("context_high", "context_critical", "context_length_exceeded", "compression_failed", "output_truncated"),
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


# ---- records and their events ----

EventKind = Literal["occurred", "progress", "injected", "resolved", "superseded", "reopened", "helpful", "harmful"]
POLICY = "policy"
"""Who acts where a stage does; no person may go by this name."""


class FailureEvent(Struct, frozen=True, kw_only=True):
    """Something that happened to a failure."""

    kind: EventKind
    """``progress``: the obstacle was passed or a person has spoken, so the count towards escalation begins again; ``injected``: guidance
    about it went into a prompt."""
    fingerprint: str
    cause: str
    """Once per fingerprint and cause: an event that is known already changes nothing."""
    failure: Failure | None = None
    """With ``occurred``."""
    by: str = POLICY
    reason: str = ""
    """A person's, or an identifier."""


class FailureRecord(Struct, frozen=True, kw_only=True):
    """A failure of a run, at one revision. Times are seconds since the epoch."""

    id: str
    """``fl_`` and 32 hexadecimal digits, made of client, run and fingerprint."""
    client: str
    run_id: str
    policy: str
    record_id: str
    """Of the exchange in which it first came to light."""
    step_id: str
    """The step in which it first came to light."""
    phase: Phase
    signal_type: SignalType
    code: str
    severity: Severity
    subject: str
    fingerprint: str
    action_key: str
    attempted_action: Mapping[str, Any]
    observed_outcome: Mapping[str, Any]
    recommended_adjustment: Mapping[str, Any]
    context_refs: tuple[Mapping[str, Any], ...]
    """Of the latest occurrence."""
    created_at: float
    status: Status = "active"
    occurrence_count: int = 1
    stuck_count: int = 1
    """Occurrences since the last progress."""
    guided: bool = False
    """Whether guidance about it was given since its last occurrence."""
    helpful_count: int = 0
    harmful_count: int = 0
    last_seen_step_id: str = ""
    last_seen_at: float = 0.0
    updated_at: float = 0.0
    revision: int = 1
    """Counts the revisions."""
    event: EventKind = "occurred"
    """What made this revision, by whom, and why."""
    by: str = POLICY
    reason: str = ""


class Failures(Protocol):
    """Remembers failures; implemented in `proxy.store.failures`. Everything is the client's own."""

    async def apply(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, policy: str, step_id: str, record_id: str
    ) -> list[FailureRecord]:
        """Let `events` happen, in order, in one transaction; the records they are about, as they are then, each once.

        An event other than ``occurred`` about a fingerprint that the run does not know is passed over. Raises `StoreUnavailable`.
        """

    async def apply_and_find(
        self,
        events: Sequence[FailureEvent],
        *,
        client: str,
        run_id: str,
        policy: str,
        step_id: str,
        record_id: str,
        across_runs: bool,
        fingerprints: Sequence[str],
        subjects: Sequence[str],
        limit: int = 64,
    ) -> tuple[list[FailureRecord], list[FailureRecord]]:
        """What `apply` gives, then what `relevant` does (of all the client's runs with `across_runs`), in fewer round trips.

        Raises `StoreUnavailable`.
        """

    async def relevant(
        self, *, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int = 64
    ) -> list[FailureRecord]:
        """Active records: those with one of `fingerprints`, then those of one of `subjects`, then the others, each group last seen first;
        `limit` in all. Without `run_id`, of all the client's runs. Raises `StoreUnavailable`.
        """


# ---- what becomes of a record ----

_OF_FAILURE = tuple(name for name in Failure.__struct_fields__ if name in FailureRecord.__struct_fields__)
"""What a record says in the failure's own words."""
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
        **{name: getattr(found, name) for name in _OF_FAILURE},
        created_at=now,
        last_seen_step_id=step_id,
        last_seen_at=now,
        updated_at=now,
        by=event.by,
        reason=event.reason,
    )


def advance(record: FailureRecord, event: FailureEvent, *, step_id: str, now: float) -> FailureRecord | None:
    """The next revision; None where the event changes nothing (a record that is resolved already cannot be resolved again)."""
    made = _note_occurrence(record, event, step_id, now) if event.kind == "occurred" else _apply_event(record, event)
    if made is None:
        return None
    at = max(now, record.updated_at + LATER)
    return replace(made, revision=record.revision + 1, event=event.kind, by=event.by, reason=event.reason, updated_at=at)


def _note_occurrence(record: FailureRecord, event: FailureEvent, step_id: str, now: float) -> FailureRecord:
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


def _apply_event(record: FailureRecord, event: FailureEvent) -> FailureRecord | None:
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
