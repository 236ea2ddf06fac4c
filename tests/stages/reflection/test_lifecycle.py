"""What becomes of a failure record: pure, revision by revision."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.ports.failures import SEVERITIES, Failure, FailureEvent, FailureRecord, advance, first, worse

KINDS = ("occurred", "progress", "injected", "resolved", "superseded", "reopened", "helpful", "harmful")


def happened(kind: Any = "occurred", cause: str = "c", by: str = "policy", reason: str = "", **changes: Any) -> FailureEvent:
    fields: dict[str, Any] = {
        "signal_type": "tool_error",
        "code": "timeout",
        "severity": "medium",
        "phase": "tool",
        "subject": "search",
        "attempted_action": {"tool": "search"},
        "observed_outcome": {"code": "timeout"},
        "recommended_adjustment": {"type": "paginate"},
        "context_refs": ({"message": 1},),
        "fingerprint": "f",
        "action_key": "k",
        "cause": cause,
    }
    failure = Failure(**{**fields, **changes}) if kind == "occurred" else None
    return FailureEvent(kind=kind, fingerprint="f", cause=cause, failure=failure, by=by, reason=reason)


def new(**changes: Any) -> FailureRecord:
    where = {"key": "fl_1", "client": "a", "run_id": "r", "policy": "p", "step_id": "s1", "record_id": "gw_1"}
    return replace(first(happened(), **where, now=1.0), **changes)


def after(record: FailureRecord, *events: FailureEvent, step_id: str = "s2", now: float = 2.0) -> FailureRecord:
    """The record once they have happened."""
    for event in events:
        record = advance(record, event, step_id=step_id, now=now) or record
    return record


def test_a_new_failure_is_active_and_seen_once() -> None:
    record = new()
    assert ("active", 1, 1, 1, False, 0, 0) == (
        record.status,
        record.occurrence_count,
        record.stuck_count,
        record.revision,
        record.guided,
        record.helpful_count,
        record.harmful_count,
    )
    assert ("s1", "s1", 1.0, 1.0, 1.0) == (
        record.step_id,
        record.last_seen_step_id,
        record.created_at,
        record.last_seen_at,
        record.updated_at,
    )


def test_the_same_again_counts_up_and_says_what_happened_last() -> None:
    record = after(new(), happened(cause="c2", recommended_adjustment={"type": "cap_output"}, context_refs=({"message": 9},)))
    assert (2, 2, "s1", "s2", 1.0, 2.0) == (
        record.occurrence_count,
        record.stuck_count,
        record.step_id,
        record.last_seen_step_id,
        record.created_at,
        record.last_seen_at,
    )
    assert ({"type": "cap_output"}, ({"message": 9},)) == (record.recommended_adjustment, record.context_refs)


@given(st.lists(st.sampled_from(SEVERITIES), min_size=1))
def test_a_failure_is_as_severe_as_its_worst_occurrence(severities: list[Any]) -> None:
    record = after(new(severity="low"), *(happened(severity=severity) for severity in severities))
    assert max(severities, key=SEVERITIES.index) == record.severity


def test_of_two_severities_the_worse_counts() -> None:
    assert "high" == worse("high", "low") == worse("medium", "high")


def test_progress_starts_the_count_towards_escalation_anew() -> None:
    record = after(new(), happened(), happened(), happened("progress"))
    assert (0, 3) == (record.stuck_count, record.occurrence_count)
    assert 1 == after(record, happened()).stuck_count


@pytest.mark.parametrize("kind", ["resolved", "superseded"])
def test_what_is_over_is_no_obstacle_until_it_comes_again(kind: str) -> None:
    record = after(new(), happened(), happened(kind))
    assert (kind, 0) == (record.status, record.stuck_count)
    again = after(record, happened())
    assert ("active", 1, 3) == (again.status, again.stuck_count, again.occurrence_count)


def test_guidance_followed_by_success_was_helpful() -> None:
    record = after(new(), happened("injected"), happened("resolved"))
    assert (1, 0, False) == (record.helpful_count, record.harmful_count, record.guided)


def test_guidance_followed_by_the_same_failure_was_harmful() -> None:
    record = after(new(), happened("injected"), happened())
    assert (0, 1, False) == (record.helpful_count, record.harmful_count, record.guided)


def test_guidance_counts_once_for_each_occurrence() -> None:
    record = after(new(), happened("injected"), happened("injected", "c2"), happened(), happened(), happened("resolved"))
    assert (0, 1) == (record.helpful_count, record.harmful_count)


def test_success_without_guidance_or_by_a_persons_word_helped_nobody() -> None:
    assert 0 == after(new(), happened("resolved")).helpful_count
    assert 0 == after(new(), happened("injected"), happened("resolved", by="ann")).helpful_count


def test_superseded_guidance_neither_helped_nor_harmed() -> None:
    record = after(new(), happened("injected"), happened("superseded"))
    assert (0, 0, False) == (record.helpful_count, record.harmful_count, record.guided)


def test_a_person_may_open_it_again_and_say_what_helped() -> None:
    record = after(new(), happened("resolved"), happened("reopened", by="ann", reason="not fixed"))
    assert ("active", "reopened", "ann", "not fixed", 3) == (record.status, record.event, record.by, record.reason, record.revision)
    record = after(record, happened("helpful"), happened("harmful"), happened("harmful"))
    assert (1, 2) == (record.helpful_count, record.harmful_count)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (new(status="resolved"), "resolved"),
        (new(status="superseded"), "superseded"),
        (new(), "reopened"),
        (new(stuck_count=0), "progress"),
        (new(guided=True), "injected"),
        (new(status="resolved"), "injected"),
    ],
)
def test_what_changes_nothing_makes_no_revision(record: FailureRecord, kind: str) -> None:
    assert advance(record, happened(kind), step_id="s2", now=2.0) is None


@given(events=st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0, 2e9)), max_size=12))
def test_revisions_count_up_and_never_go_back_in_time(events: list[Any]) -> None:
    record = new(created_at=1e9, updated_at=1e9, last_seen_at=1e9)
    for kind, now in events:
        made = advance(record, happened(kind), step_id="s", now=now)
        if made is not None:
            assert (record.revision + 1, kind) == (made.revision, made.event)
            assert record.updated_at < made.updated_at
            assert record.last_seen_at <= made.last_seen_at
            record = made
    assert 0 <= record.stuck_count <= record.occurrence_count
    assert 0 <= record.harmful_count < record.occurrence_count + sum(kind == "harmful" for kind, _ in events)
