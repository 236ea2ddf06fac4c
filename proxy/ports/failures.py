"""Failure records, what can happen to one, and the port that keeps them. Part of `proxy.ports`, which gives these names out.

A record belongs to one client and one run. It is never edited: each `FailureEvent` makes a revision, which is a record of its own; the
latest revision is what the record says now. An event is known by its `cause`, so that a turn which is seen again, by another worker or
after a restart, changes nothing. A policy may be named by its label, ``NAME@hash8``; what is kept is NAME.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from proxy.ports.failure_kinds import Failure, Phase, Severity, SignalType, Status

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

    async def relevant(
        self, *, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int = 64
    ) -> list[FailureRecord]:
        """Active records: those with one of `fingerprints`, then those of one of `subjects`, then the others, each group last seen first;
        `limit` in all. Without `run_id`, of all the client's runs. Raises `StoreUnavailable`.
        """
