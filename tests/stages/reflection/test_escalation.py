"""When the proxy stops an agent."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.ports.failures import CODES, FailureRecord
from proxy.stages.reflection.records import BROKEN, escalation


def record(code: str = "timeout", **changes: Any) -> FailureRecord:
    signal = next(signal for signal, codes in CODES.items() if code in codes)
    fields: dict[str, Any] = {
        "id": "fl_1",
        "client": "a",
        "run_id": "r",
        "policy": "p",
        "record_id": "gw",
        "step_id": "1",
        "phase": "tool",
        "signal_type": signal,
        "code": code,
        "severity": "medium",
        "subject": "search",
        "fingerprint": "fp_1",
        "action_key": "k",
        "attempted_action": {},
        "observed_outcome": {},
        "recommended_adjustment": {},
        "context_refs": (),
        "created_at": 0.0,
        "stuck_count": 3,
        "occurrence_count": 3,
    }
    return FailureRecord(**{**fields, **changes})


@pytest.mark.parametrize(("stuck", "stops"), [(0, False), (2, False), (3, True), (7, True)])
def test_it_stops_at_the_threshold(stuck: int, stops: bool) -> None:
    assert stops == (escalation([record(stuck_count=stuck)], 3, can_ask=True) is not None)


@pytest.mark.parametrize("code", sorted(code for codes in CODES.values() for code in codes))
def test_a_person_is_asked_unless_an_invariant_is_broken(code: str) -> None:
    found = escalation([record(code)], 3, can_ask=True)
    never = {*CODES["upstream_error"], *CODES["budget_pressure"], *CODES["human_correction"]} - {*CODES["tool_error"]}
    if code in never:
        assert found is None
    else:
        assert found is not None
        assert ("system_error" if code in BROKEN else "ask_human") == found.action


def test_of_equals_the_latest_is_stopped_for() -> None:
    records = [record(id="fl_1", last_seen_at=1.0), record(id="fl_2", last_seen_at=2.0)]
    found = escalation(records, 3, can_ask=True)
    assert "fl_2" == (found and found.record.id)


def test_where_words_are_no_answer_it_is_an_error() -> None:
    found = escalation([record()], 3, can_ask=False)
    assert found is not None
    assert "system_error" == found.action


def test_of_several_the_broken_invariant_comes_first_then_the_severe() -> None:
    records = [
        record(id="fl_1"),
        record("permission_denied", id="fl_2", severity="high"),
        record("missing_pointer", id="fl_3", severity="low"),
    ]
    assert ["fl_3", "fl_2"] == [found.record.id for r in (records, records[:2]) if (found := escalation(r, 3, can_ask=True))]


def test_a_resolved_record_stops_nothing() -> None:
    assert escalation([record(status="resolved")], 3, can_ask=True) is None
