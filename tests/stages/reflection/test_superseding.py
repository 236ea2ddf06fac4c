"""Records that a later one has taken the place of."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.reflection.records import superseded
from tests.stages.reflection.test_escalation import record


def capped(number: int, most: int, **changes: Any) -> Any:
    told = {"type": "cap_output", "argument": "limit", "max": most}
    return record(id=f"fl_{number}", fingerprint=f"fp_{number}", recommended_adjustment=told, **changes)


def said(number: int, at: float, **told: Any) -> Any:
    adjustment = {"type": "follow_correction", **told}
    return record("override", id=f"fl_{number}", fingerprint=f"fp_{number}", last_seen_at=at, recommended_adjustment=adjustment)


def gone(*records: Any) -> list[tuple[str, str]]:
    return [(event.fingerprint, event.reason) for event in superseded(records)]


def test_of_two_caps_the_smaller_stays() -> None:
    assert [("fp_1", "fl_2")] == gone(capped(1, 10), capped(2, 5))


def test_another_tools_cap_is_another_matter() -> None:
    assert [] == gone(capped(1, 10), capped(2, 5, subject="other"))


def test_of_two_words_of_a_person_the_later_stays() -> None:
    assert [("fp_1", "fl_2")] == gone(said(1, 1.0, cap=5), said(2, 2.0, cap=10))


def test_words_about_other_tools_stand_beside_each_other() -> None:
    assert [] == gone(said(1, 1.0, wanted_tool="a"), said(2, 2.0, wanted_tool="b"))


def test_what_is_resolved_takes_nobodys_place() -> None:
    assert [] == gone(capped(1, 10), capped(2, 5, status="resolved"))


@given(st.lists(st.tuples(st.integers(1, 20), st.sampled_from("ab")), min_size=1, max_size=8), st.randoms())
def test_one_of_each_kind_stays_whatever_the_order(caps: list[tuple[int, str]], random: Any) -> None:
    records = [capped(i, most, subject=subject) for i, (most, subject) in enumerate(caps)]
    shuffled = list(records)
    random.shuffle(shuffled)
    assert gone(*records) == gone(*shuffled)
    assert len(records) - len({subject for _, subject in caps}) == len(gone(*records))
