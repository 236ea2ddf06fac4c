"""The question with which a stuck agent is stopped, and the error that does it where nobody can help."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.ports.failures import CODES, AdjustmentType, FailureRecord, SignalType
from proxy.stages.reflection.wording import MAX_CHARS, TONGUES, obstacle, question, refusal

LANGUAGES = ("en", "de", "es", "fr")
EVERY = [(signal, code) for signal, codes in CODES.items() for code in codes]
GIVEN: dict[str, Any] = {
    "argument": "limit",
    "max": 10,
    "arguments": ["query", "limit"],
    "after_s": 30.0,
    "tools": ["search_web"],
    "tool": "search_web",
    "errors": [{"pointer": "/limit", "keyword": "maximum", "name": "limit"}],
    "forbidden_tool": "search_docs",
    "cap": 10,
}


def record(signal: SignalType = "tool_error", code: str = "timeout", **changed: Any) -> FailureRecord:
    fields: dict[str, Any] = {
        "id": "fl_1",
        "client": "c",
        "run_id": "r",
        "policy": "p",
        "record_id": "x",
        "step_id": "1",
        "phase": "tool",
        "signal_type": signal,
        "code": code,
        "severity": "medium",
        "subject": "search_docs",
        "fingerprint": "fp_1",
        "action_key": "",
        "context_refs": (),
        "attempted_action": {"kind": "tool_call", "arguments": {"limit": 50, "query": {"hash": "00", "characters": 7}}},
        "created_at": 0.0,
        "observed_outcome": {"code": code},
        "recommended_adjustment": {"type": "cap_output", "argument": "limit", "max": 10},
        "stuck_count": 3,
    }
    return FailureRecord(**{**fields, **changed})


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_every_code_has_its_own_wording(tongue: str) -> None:
    said = [obstacle(record(signal, code), tongue) for signal, code in EVERY]
    assert len(EVERY) == len(set(said))


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_wording_is_there_for_all_codes_and_adjustments_and_nothing_else(tongue: str) -> None:
    assert set(EVERY) == {(signal, code) for signal, codes in TONGUES[tongue].obstacles.items() for code in codes}
    assert set(get_args(AdjustmentType)) == set(TONGUES[tongue].offers)


def test_every_language_has_every_part() -> None:
    assert set(LANGUAGES) == set(TONGUES)


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_the_languages_differ(tongue: str) -> None:
    others = [obstacle(record(), other) for other in LANGUAGES if other != tongue]
    assert obstacle(record(), tongue) not in others


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_a_question_is_short_and_ends_with_a_question(tongue: str) -> None:
    everything = itertools.product(get_args(AdjustmentType), ({}, GIVEN), EVERY, ("", "search_docs", "x" * 96))
    for adjustment, given_, (signal, code), subject in everything:
        text = question(record(signal, code, subject=subject, recommended_adjustment={"type": adjustment, **given_}), tongue)
        assert text.endswith("?")
        assert len(text) <= MAX_CHARS
        assert not [mark for mark in ("{", "}", "\n", "  ") if mark in text]


@pytest.mark.parametrize(
    ("tongue", "counts"),
    [
        ("en", ("timed out once", "timed out twice", "timed out 3 times")),
        ("de", ("einmal", "zweimal", "3-mal")),
        ("es", ("una vez", "dos veces", "3 veces")),
        ("fr", ("une fois", "deux fois", "3 fois")),
    ],
)
def test_counts_are_in_the_right_form(tongue: str, counts: tuple[str, str, str]) -> None:
    for number, wanted in enumerate(counts, 1):
        assert wanted in obstacle(record(stuck_count=number), tongue)


def test_the_obstacle_is_named_with_tool_count_and_status() -> None:
    assert obstacle(record(observed_outcome={"code": "timeout", "status": 504})) == "search_docs timed out 3 times (status 504)"


def test_the_question_says_what_was_tried_and_offers_the_adjustment() -> None:
    expected = (
        "search_docs timed out 3 times. Last tried with limit = 50, query. Shall I ask for at most 10 at a time, or how should I go on?"
    )
    assert question(record(), "en") == expected


def test_any_other_language_is_asked_in_english() -> None:
    assert question(record(), "ja") == question(record(), "en")


def test_occurrences_count_where_progress_has_been_made() -> None:
    assert "5 times" in obstacle(record(stuck_count=0, occurrence_count=5))


def test_a_name_that_is_no_identifier_is_not_shown() -> None:
    assert obstacle(record(subject="#0123456789abcdef")) == "a tool timed out 3 times"


def test_an_unknown_adjustment_asks_openly() -> None:
    assert question(record(recommended_adjustment={}), "en").endswith("Can you clear this up, or tell me how to go on?")


@pytest.mark.parametrize("tongue", LANGUAGES)
def test_a_refusal_says_what_is_broken_and_how_an_operator_resolves_it(tongue: str) -> None:
    text = refusal(record(code="missing_pointer"), tongue)
    assert obstacle(record(code="missing_pointer"), tongue) in text
    assert "POST /groundwire/v1/failures/fl_1/resolve" in text


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(
    st.sampled_from(EVERY),
    st.sampled_from(get_args(AdjustmentType)),
    st.dictionaries(st.sampled_from(sorted(GIVEN)), _JSON),
    st.dictionaries(st.text(max_size=200), _JSON, max_size=5),
    st.text(max_size=200),
    st.integers(0, 10**9),
    st.sampled_from(LANGUAGES),
)
def test_any_record_makes_a_question(
    kind: tuple[SignalType, str],
    adjustment: str,
    parameters: dict[str, Any],
    arguments: dict[str, Any],
    subject: str,
    count: int,
    tongue: str,
) -> None:
    made = record(
        *kind,
        subject=subject,
        stuck_count=count,
        observed_outcome={**parameters, "status": count},
        attempted_action={"arguments": arguments},
        recommended_adjustment={**parameters, "type": adjustment},
    )
    text = question(made, tongue)
    assert text == question(made, tongue)
    assert text.endswith("?")
    assert len(text) <= MAX_CHARS
