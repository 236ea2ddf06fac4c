"""A search that is weak by its own word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.context.tool_results.results import score_in, score_of, threshold_in
from proxy.context.tool_results.turns import CalledTool, ToolResult
from proxy.stages.reflection.failures import outcomes

TEXT = "The battery of the lamp is changed from below."


def result(*scores: float, key: str = "score", **more: Any) -> str:
    return json.dumps({"results": [{"text": f"{TEXT} {n}", key: score} for n, score in enumerate(scores)], **more})


def read(text: str, min_score: float | None = None, *, retrieves: bool = True) -> tuple[str, float | None, float | None] | None:
    arguments = json.dumps({} if min_score is None else {"min_score": min_score})
    call = CalledTool("1", "search_docs", arguments, 1, ToolResult(2, text))
    outcome = next((failure.observed_outcome for _, failure in outcomes([call], (), lambda name: retrieves, 0.2).failed), None)
    return None if outcome is None else (outcome["code"], outcome.get("score"), outcome.get("min_score"))


@pytest.mark.parametrize("key", ["score", "relevance", "relevance_score", "similarity", "rerank_score"])
def test_a_best_score_below_the_threshold_is_a_failed_search(key: str) -> None:
    assert ("low_relevance", 0.12, 0.2) == read(result(0.12, 0.09, 0.02, key=key))


@pytest.mark.parametrize(
    "text",
    [
        result(0.2),
        result(0.71, 0.08),
        result(14.2, 9.1),  # BM25
        result(0.12, 0.31, 0.4),  # distances
        result(-0.1),
        result(1 / 61, 1 / 62),  # rank fusion
        result(2 / 61, 1 / 63),
        json.dumps([{"text": TEXT}]),
        TEXT,
        json.dumps({"results": [{"text": TEXT, "score": 0.1}, {"text": TEXT + " Or above."}]}),
    ],
)
def test_what_is_enough_or_on_another_scale_is_none(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "asked", "expected"),
    [
        (result(0.42, min_score=0.5), None, ("low_relevance", 0.42, 0.5)),
        (result(0.42, scoreThreshold=0.4), None, None),
        (result(0.42), 0.5, ("low_relevance", 0.42, 0.5)),
        (result(4.2), 5.0, ("low_relevance", 4.2, 5.0)),
        (result(0.1), 0.05, None),
        (result(0.03), 0.05, ("low_relevance", 0.03, 0.05)),
    ],
)
def test_the_retrievers_own_threshold_goes_first(text: str, asked: float | None, expected: object) -> None:
    assert expected == read(text, asked)


def test_names_of_thresholds() -> None:
    named = [{"min_score": 1}, {"similarity-threshold": 1}, {"minRelevance": 1}, {"cutoff": 1}, {"score_threshold": 1}]
    assert [1.0] * 5 == [threshold_in(one) for one in named]
    assert [None] * 4 == [threshold_in(one) for one in ({"min_score": "1"}, {"min_price": 3}, {"threshold": True}, None)]


def test_a_tool_that_searches_nothing_is_not_read_for_scores() -> None:
    assert read(result(0.01), retrieves=False) is None


def test_a_result_in_marked_passages_has_scores_too() -> None:
    found = score_in(f"### Passage 1 (relevance: 0.08)\n{TEXT}\n\n### Passage 2 (relevance: 0.05)\n{TEXT} Or above.")
    assert 0.08 == (found and found.best)


def test_passages_without_scores_say_nothing() -> None:
    assert score_of([]) is None
    assert score_of([None, 0.1]) is None
