"""Failures that other stages have found, and that an exchange ended with."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from proxy.exchange import Answer, Choice, ContextUse, Evidence, Exchange, Unanswered, Verdict
from proxy.stages.reflection.failures import budget_failures, retrieval_failures, upstream_events, upstream_failure
from proxy.testing import make_exchange

PASSAGES = (Evidence("The tower is 42 m high.", source="towers.md"), Evidence("It opens at nine.", source="hours.md"))


def exchange(*warnings: str, passages: tuple[Evidence, ...] = (), **facts: Any) -> Exchange:
    made = make_exchange()
    made.verdicts = [Verdict("any", "warn", code=code) for code in warnings]
    made.passages, made.evidence = passages, tuple(passages)
    for name, value in facts.items():
        setattr(made.facts, name, value)
    return made


def test_passages_off_the_question_are_a_failure_with_their_relevance_and_pointers() -> None:
    (found,) = retrieval_failures(exchange("low_relevance", passages=PASSAGES, relevance=0.12345), admits=False)
    assert ("retrieval_failure", "low_relevance", {"code": "low_relevance", "passages": 2, "relevance": 0.1235}) == (
        found.signal_type,
        found.code,
        found.observed_outcome,
    )
    assert ["record", "chunk", "chunk"] == [ref["kind"] for ref in found.context_refs]
    assert {"type": "rephrase_query"} == found.recommended_adjustment


def test_what_the_stage_relevance_only_notes_is_one_too() -> None:
    made = exchange(passages=PASSAGES, relevance=0.02)
    made.verdicts = [Verdict("relevance", "unchecked", code="low_relevance")]
    assert [("low_relevance", 0.02)] == [(f.code, f.observed_outcome["relevance"]) for f in retrieval_failures(made, admits=False)]


@pytest.mark.parametrize(("score", "found"), [(0.12, [("low_relevance", 0.12, 0.2)]), (0.2, []), (None, []), (7.5, [])])
def test_passages_that_come_with_a_low_score_are_one(score: float | None, found: list[Any]) -> None:
    made = exchange(passages=PASSAGES)
    made.original = replace(made.original, passages=tuple(replace(passage, score=score) for passage in PASSAGES))
    failures = retrieval_failures(made, admits=False, min_score=0.2)
    assert found == [(f.code, f.observed_outcome["score"], f.observed_outcome["min_score"]) for f in failures]


def test_the_same_passages_in_another_order_are_the_same_failure() -> None:
    one, other = exchange("low_relevance", passages=PASSAGES), exchange("low_relevance", passages=PASSAGES[::-1])
    assert [f.fingerprint for f in retrieval_failures(one, admits=False)] == [
        f.fingerprint for f in retrieval_failures(other, admits=False)
    ]


@pytest.mark.parametrize(("passages", "admits", "codes"), [(PASSAGES, True, ["no_evidence"]), (PASSAGES, False, []), ((), True, [])])
def test_an_answer_that_says_the_context_does_not_hold_it_is_one_where_there_is_context(
    passages: Any, admits: bool, codes: list[str]
) -> None:
    assert codes == [failure.code for failure in retrieval_failures(exchange(passages=passages), admits=admits)]


@pytest.mark.parametrize(
    ("warning", "code", "severity"),
    [
        ("context_usage_compress", "context_high", "low"),
        ("context_usage_critical", "context_critical", "high"),
        ("compression_failed", "compression_failed", "medium"),
    ],
)
def test_a_window_nearly_full_is_budget_pressure(warning: str, code: str, severity: str) -> None:
    (found,) = budget_failures(exchange(warning, context=ContextUse(95, 100, True)))
    assert (code, severity, 95, 100) == (
        found.code,
        found.severity,
        found.observed_outcome["used_tokens"],
        found.observed_outcome["window_tokens"],
    )


def refused(used: int, **params: Any) -> list[Any]:
    """The failures of a prompt that was refused as too long for a window of 2,000 tokens."""
    made = make_exchange(**params)
    made.facts.context, made.unanswered = ContextUse(used, 2000, True), Unanswered("context_length_exceeded", 400)
    return [event.failure for event in upstream_events(made)]


def test_a_prompt_that_was_too_long_is_budget_pressure_of_its_model() -> None:
    (found,) = refused(2100, max_tokens=50)
    assert ("budget_pressure", "context_length_exceeded", "", "gpt-4o") == (
        found.signal_type,
        found.code,
        found.subject,
        found.attempted_action["model"],
    )
    assert {"type": "reduce_context", "used_tokens": 2100, "window_tokens": 2000} == found.recommended_adjustment


def test_an_answer_that_the_client_asks_to_be_too_long_is_no_failure() -> None:
    assert [] == refused(8, max_tokens=5000)


def test_a_warning_of_another_kind_is_none() -> None:
    assert [] == budget_failures(exchange("allocation_exceeded", "context_usage_high"))


def test_of_several_choices_that_were_cut_one_is_told() -> None:
    made = exchange()
    made.answer = Answer(tuple(Choice(i, "abc", finish_reason="length") for i in range(3)))
    assert ["output_truncated"] == [failure.code for failure in budget_failures(made)]


@pytest.mark.parametrize(
    ("code", "status", "expected", "advice"),
    [
        ("upstream_timeout", 504, "timeout", "retry_later"),
        ("upstream_unreachable", 502, "unreachable", "retry_later"),
        ("rate_limit_exceeded", 429, "rate_limited", "retry_later"),
        ("", 429, "rate_limited", "retry_later"),
        ("", 503, "overloaded", "retry_later"),
        ("", 500, "server_error", "retry_later"),
        ("invalid_prompt", 400, "refused", "change_arguments"),
    ],
)
def test_why_there_was_no_answer(code: str, status: int, expected: str, advice: str) -> None:
    found = upstream_failure(exchange(), Unanswered(code, status))
    assert ("upstream_error", expected, advice, "openai") == (
        found.signal_type,
        found.code,
        found.recommended_adjustment["type"],
        found.subject,
    )


def test_how_long_the_provider_asks_to_wait_is_told() -> None:
    found = upstream_failure(exchange(), Unanswered("", 429, 12.3456))
    assert ({"type": "retry_later", "after_s": 12.346}, 12.346) == (found.recommended_adjustment, found.observed_outcome["retry_after_s"])
