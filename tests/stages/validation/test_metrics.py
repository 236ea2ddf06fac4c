"""The score, and what passes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.validation.quality import (
    METRICS,
    Metric,
    QualityThresholds,
    failed,
    overall,
    quality_of,
    unmeasured,
)

SHARES = st.floats(0, 1)


def metrics(**values: Any) -> dict[Any, Metric]:
    given = {name: values.get(name, 1.0) for name in METRICS}
    return {name: value if isinstance(value, Metric) else Metric(value) for name, value in given.items()}


def test_good_content_passes_without_a_reason() -> None:
    quality = quality_of(metrics())
    assert (True, 1.0, (), ()) == (quality.passed, quality.score, quality.failing, quality.reasons)


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("relevance", 0.69, "low relevance"),
        ("freshness", 0.99, "stale content"),
        ("accuracy", 0.89, "factual inaccuracy"),
        ("completeness", 0.79, "incomplete content"),
        ("consistency", 0.0, "contradictory content"),
    ],
)
def test_each_metric_has_a_threshold_and_a_reason(name: str, value: float, word: str) -> None:
    quality = quality_of(metrics(**{name: value}))
    assert (False, (name,)) == (quality.passed, quality.failing)
    assert quality.reasons[0].startswith(f"{word}: {name} {value:.2f} is below")


@pytest.mark.parametrize(("name", "value"), [("relevance", 0.7), ("accuracy", 0.9), ("completeness", 0.8), ("completeness", 4 / 5)])
def test_at_its_threshold_a_metric_passes(name: str, value: float) -> None:
    assert quality_of(metrics(**{name: value})).passed


def test_what_is_furthest_below_is_named_first() -> None:
    quality = quality_of(metrics(relevance=0.6, accuracy=0.1, completeness=0.5))
    assert ("accuracy", "completeness", "relevance") == quality.failing


def test_the_overall_score_can_have_a_threshold_of_its_own() -> None:
    quality = quality_of(metrics(relevance=0.7, completeness=0.8), QualityThresholds(score=0.95))
    assert ("score",) == quality.failing
    assert ("overall score 0.90 is below 0.95",) == quality.reasons


def test_what_could_not_be_measured_does_not_count_as_good() -> None:
    assert 0.5 == overall(
        metrics(
            relevance=0.5,
            freshness=unmeasured("x"),
            accuracy=unmeasured("x", 1.0),
            completeness=unmeasured("x"),
            consistency=unmeasured("x"),
        )
    )


def test_a_default_accuracy_is_shown_and_marked() -> None:
    quality = quality_of(metrics(accuracy=unmeasured("nothing verifiable", 1.0)))
    assert (1.0, False) == (quality.findings["accuracy"].value, quality.findings["accuracy"].measured)


def test_a_check_that_could_not_run_is_no_pass() -> None:
    quality = quality_of(metrics(consistency=failed("timeout")))
    assert (False, (), ("consistency",)) == (quality.passed, quality.failing, quality.errors)
    assert ("consistency could not be checked: timeout",) == quality.reasons


def test_nothing_measured_has_no_score() -> None:
    quality = quality_of({name: unmeasured("x") for name in METRICS})
    assert (None, True) == (quality.score, quality.passed)


@given(st.lists(SHARES, min_size=5, max_size=5))
def test_the_score_lies_between_the_worst_and_the_best(values: list[float]) -> None:
    score = overall(metrics(**dict(zip(METRICS, values, strict=True))))
    assert score is not None
    assert min(values) - 1e-9 <= score <= max(values) + 1e-9
    assert 0 <= score <= 1


@given(st.lists(SHARES, min_size=5, max_size=5), st.sampled_from(METRICS), SHARES)
def test_the_score_never_falls_when_a_metric_rises(values: list[float], name: str, other: float) -> None:
    given = dict(zip(METRICS, values, strict=True))
    low, high = sorted((given[name], other))
    scores = [overall(metrics(**{**given, name: value})) for value in (low, high)]
    assert scores[0] is not None
    assert scores[1] is not None
    assert scores[0] <= scores[1] + 1e-9


@given(st.lists(SHARES, min_size=5, max_size=5), st.sampled_from(METRICS), SHARES)
def test_what_passes_still_passes_with_a_better_metric(values: list[float], name: str, other: float) -> None:
    given = dict(zip(METRICS, values, strict=True))
    low, high = sorted((given[name], other))
    worse, better = (quality_of(metrics(**{**given, name: value})) for value in (low, high))
    assert better.passed or not worse.passed


# ---- the documents' names ----


def test_the_figures_have_the_documents_names_and_count_what_nothing_speaks_against() -> None:
    whole = quality_of(metrics(relevance=0.9, freshness=None, completeness=None, consistency=None))
    expected = {"relevance_score": 0.9, "freshness_score": 1.0, "accuracy_score": 1.0, "completeness": 1.0, "consistency": 1.0}
    assert expected == whole.metrics
    assert ("relevance", "accuracy") == whole.measured
    assert 0.95 == pytest.approx(whole.quality_score)


def test_of_relevance_to_nothing_there_is_no_figure() -> None:
    assert "relevance_score" not in quality_of(metrics(relevance=None)).metrics


def test_where_nothing_was_measured_the_score_says_so_beside_it() -> None:
    nothing = quality_of({name: unmeasured("nothing to go by") for name in METRICS})
    assert (1.0, None, ()) == (nothing.quality_score, nothing.score, nothing.measured)


def test_a_check_that_could_not_run_is_no_good_score() -> None:
    broken = quality_of({name: failed("timeout") for name in METRICS})
    assert (0.0, {}, False) == (broken.quality_score, broken.metrics, broken.is_valid)
