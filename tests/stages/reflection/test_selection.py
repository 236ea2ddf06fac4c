"""Which records are told: active ones that matter now, the most important first, whatever order they come in."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ports.failures import SEVERITIES, STATUSES, FailureRecord
from proxy.stages.reflection.records import HARMFUL, Situation, is_relevant, select

NOW = Situation(("fp_now",), ("search_docs", "get_user", "book"), ("search_docs",))


def record(id_: str = "fl_1", **more: Any) -> FailureRecord:
    """A failure of a tool that is offered, not called lately, and has no fingerprint in common with `NOW`."""
    about: dict[str, Any] = {
        "client": "c",
        "run_id": "r",
        "policy": "agent",
        "record_id": "gw_1",
        "step_id": "1",
        "phase": "tool",
        "signal_type": "tool_error",
        "code": "timeout",
        "severity": "medium",
        "subject": "get_user",
        "fingerprint": f"fp_{id_}",
        "action_key": f"key of {id_}",
        "attempted_action": {"kind": "tool_call", "arguments": {"limit": 50}},
        "observed_outcome": {"code": "timeout"},
        "recommended_adjustment": {"type": "cap_output", "argument": "limit", "max": id_},
        "context_refs": (),
        "created_at": 1.0,
    }
    return FailureRecord(id=id_, **{**about, **more})


def chosen(*records: FailureRecord, now: Situation = NOW, top_k: int = 5) -> list[str]:
    return [one.id for one in select(records, now, top_k=top_k)]


# ---- what is left out ----


@pytest.mark.parametrize("status", [status for status in STATUSES if status != "active"])
def test_only_active_records_are_told(status: Any) -> None:
    assert [] == chosen(record(status=status, fingerprint="fp_now"))


def test_a_tool_that_is_neither_offered_nor_was_called_is_left_out() -> None:
    assert [] == chosen(record(subject="gone", code="timeout", signal_type="tool_error"))


def test_a_tool_that_is_offered_is_enough() -> None:
    assert ["fl_1"] == chosen(record(subject="book"))


def test_a_tool_that_was_called_lately_is_enough() -> None:
    assert ["fl_1"] == chosen(record(subject="gone"), now=Situation((), (), ("gone",)))


def test_a_fingerprint_match_is_relevant_though_its_tool_is_gone() -> None:
    assert ["fl_1"] == chosen(record(subject="gone", fingerprint="fp_now"))


def test_a_failure_of_no_tool_is_always_relevant() -> None:
    assert ["fl_1"] == chosen(record(subject="", signal_type="human_correction", code="override"), now=Situation((), (), ()))


def test_what_an_upstream_failed_at_is_not_told() -> None:
    assert [] == chosen(record(subject="openai", signal_type="upstream_error", code="unreachable", fingerprint="fp_now"))


@pytest.mark.parametrize(("model", "told"), [("tiny", ["fl_1"]), ("gpt-4o-mini", [])])
def test_a_full_window_is_told_to_the_model_whose_it_was(model: str, told: list[str]) -> None:
    pressure = record(subject="", signal_type="budget_pressure", code="context_length_exceeded", attempted_action={"model": "tiny"})
    assert told == [one.id for one in select([pressure], NOW, top_k=5, model=model)]


def test_an_invented_tool_is_told_of_until_there_is_one() -> None:
    invented = record(subject="find_hotel", signal_type="schema_violation", code="unknown_tool")
    now = Situation((), ("find_hotel",), ())
    assert (["fl_1"], []) == (chosen(invented), chosen(invented, now=now))


def test_guidance_that_only_harmed_is_not_given_again() -> None:
    assert [] == chosen(record(harmful_count=HARMFUL), record("fl_2", harmful_count=HARMFUL, fingerprint="fp_now"))


@pytest.mark.parametrize(("helpful", "harmful"), [(0, HARMFUL - 1), (1, HARMFUL + 3)])
def test_guidance_that_harmed_once_or_also_helped_is_given(helpful: int, harmful: int) -> None:
    assert ["fl_1"] == chosen(record(helpful_count=helpful, harmful_count=harmful))


def test_of_two_records_that_say_the_same_the_more_important_stays() -> None:
    same = {"recommended_adjustment": {"type": "retry_later"}}
    assert ["fl_2"] == chosen(record("fl_1", **same), record("fl_2", severity="high", code="unavailable", **same))


def test_the_same_adjustment_for_another_tool_says_something_else() -> None:
    same = {"recommended_adjustment": {"type": "retry_later"}}
    assert ["fl_1", "fl_2"] == chosen(record("fl_1", **same), record("fl_2", subject="book", **same))


def test_parameters_in_another_order_say_the_same() -> None:
    one, other = {"type": "cap_output", "max": 3, "argument": "n"}, {"argument": "n", "max": 3, "type": "cap_output"}
    assert ["fl_1"] == chosen(record("fl_1", recommended_adjustment=one), record("fl_2", recommended_adjustment=other))


@pytest.mark.parametrize(("top_k", "expected"), [(-1, 0), (0, 0), (1, 1), (5, 5), (50, 9)])
def test_at_most_k_are_told(top_k: int, expected: int) -> None:
    assert expected == len(chosen(*(record(f"fl_{i}") for i in range(9)), top_k=top_k))


def test_what_says_the_same_takes_no_place() -> None:
    same = {"recommended_adjustment": {"type": "retry_later"}, "severity": "high"}
    assert ["fl_0", "fl_7"] == chosen(*(record(f"fl_{i}", **same) for i in range(5)), record("fl_7"), top_k=2)


# ---- the order ----


def test_the_same_failure_comes_before_a_more_severe_one() -> None:
    assert ["fl_2", "fl_1"] == chosen(record("fl_1", severity="critical"), record("fl_2", severity="low", fingerprint="fp_now"))


def test_the_more_severe_comes_before_the_more_recent() -> None:
    assert ["fl_2", "fl_1"] == chosen(record("fl_1", last_seen_at=9.0), record("fl_2", severity="high"))


def test_the_more_recent_comes_before_the_more_helpful() -> None:
    assert ["fl_2", "fl_1"] == chosen(record("fl_1", helpful_count=9), record("fl_2", last_seen_at=2.0))


def test_the_more_helpful_comes_before_the_lower_id() -> None:
    assert ["fl_2", "fl_1"] == chosen(record("fl_1", helpful_count=3, harmful_count=3), record("fl_2", helpful_count=1))


def test_the_id_decides_at_last() -> None:
    assert ["fl_1", "fl_2"] == chosen(record("fl_2"), record("fl_1"))


# ---- invariants ----

RECORDS = st.lists(
    st.builds(
        record,
        st.integers(0, 30).map("fl_{}".format),
        severity=st.sampled_from(SEVERITIES),
        status=st.sampled_from(STATUSES),
        last_seen_at=st.integers(0, 3).map(float),
        helpful_count=st.integers(0, 2),
        harmful_count=st.integers(0, 3),
        subject=st.sampled_from(["", "search_docs", "get_user", "gone"]),
        fingerprint=st.sampled_from(["fp_now", "fp_a", "fp_b"]),
        recommended_adjustment=st.sampled_from([{"type": "retry_later"}, {"type": "ask_human"}, {"type": "cap_output", "max": 1}]),
    ),
    max_size=12,
    unique_by=lambda one: one.id,
)


@given(RECORDS, st.data())
def test_the_order_of_the_records_makes_no_difference(records: list[FailureRecord], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(records))
    assert chosen(*records, top_k=4) == chosen(*shuffled, top_k=4)


@given(RECORDS, st.integers(0, 6))
def test_fewer_are_the_first_of_more(records: list[FailureRecord], top_k: int) -> None:
    assert chosen(*records, top_k=12)[:top_k] == chosen(*records, top_k=top_k)


@given(RECORDS)
def test_what_is_told_is_active_and_relevant(records: list[FailureRecord]) -> None:
    told = select(records, NOW, top_k=5)
    assert all(one.status == "active" and is_relevant(one, NOW) for one in told)
