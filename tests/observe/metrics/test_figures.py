"""What a person reads, made of samples."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Verdict
from proxy.observe.metrics import Metrics
from proxy.observe.metrics.figures import Values
from tests.observe.metrics.test_exchanges import add, answered, judged


def told(metrics: Metrics) -> Any:
    return metrics.as_json()


def test_without_events_every_subject_is_there_and_empty() -> None:
    found = told(Metrics())
    assert [None] * 5 == [found[name] for name in ("tool_selection", "compression", "poisoning", "clash", "distraction")]
    assert {"total": 0, "verdicts": {}, "statuses": {}, "routes": {}} == found["exchanges"]
    assert [{}] * 6 == [found[name] for name in ("counters", "budget", "quality", "upstreams", "warnings", "check_errors")]
    assert {"usd": 0, "models": {}, "unpriced_exchanges": 0, "unpriced_models": {}} == found["cost"]


def test_the_figures_of_the_contexts_are_there_from_the_start() -> None:
    found = told(Metrics())["context"]
    assert {None, 0} | {()} == {tuple(value) if isinstance(value, list | dict) else value for value in found.values()}
    named = ("usage_warning_count", "compression_triggered_count", "critical_alerts_count", "compression_failures", "token_savings")
    assert [0, 0, 0, 0, None] == [found[name] for name in named]


def test_a_request_with_all_of_too_many_tools_is_an_incident() -> None:
    metrics = Metrics()
    metrics.count("context.tool_rag_requests_count", 3)
    metrics.count("context.confusion_incidents_count")
    assert 1 == told(metrics)["context"]["confusion_incidents"] == told(metrics)["tool_selection"]["confusion_incidents"]


def test_dotted_counters_keep_their_names() -> None:
    metrics = Metrics()
    metrics.count("context.usage_warning_count", 3)
    metrics.count("mine.own_count")
    assert {"context.usage_warning_count": 3.0, "mine.own_count": 1.0} == told(metrics)["counters"]
    assert 1.0 == told(metrics)["series"]["groundwire_mine_own_total"]


def test_latency_is_told_by_stage_and_route() -> None:
    metrics = Metrics()
    for _ in range(10):
        add(metrics, judged())
    found = told(metrics)["latency"]
    assert {"count": 10, "mean_ms": 2.0, "p50_ms": 1.75, "p95_ms": 2.425} == found["stages"]["budget.request"]
    assert ["/rag"] == list(found["overhead"])


def test_cost_is_told_by_model_with_what_has_no_price() -> None:
    metrics = Metrics()
    add(metrics, answered("cheap", 100, 10), answered("caching", 100, 0), answered("half", 1, 1))
    assert {
        "usd": 0.3,
        "models": {"cheap": 0.2, "caching": 0.1},
        "unpriced_exchanges": 1,
        "unpriced_models": {"half": 1},
    } == told(metrics)["cost"]


def test_scores_are_told_with_mean_and_percentiles() -> None:
    metrics = Metrics()
    for quality in (0.2, 0.9, 1.0):
        add(metrics, judged(quality=quality))
    found = told(metrics)["quality"]
    assert (["quality"], 3, 0.7) == (list(found), found["quality"]["count"], found["quality"]["mean"])


def test_upstreams_are_told_with_errors_and_times() -> None:
    metrics = Metrics()
    main = metrics.upstream("main")
    main.answered(200, 0.2)
    main.ended(0.9)
    main.answered(429, 0.01)
    main.retried()
    main.failed("upstream_timeout")
    main.fell_back()
    found = told(metrics)["upstreams"]["main"]
    assert (3, {"429": 1, "timeout": 1}, 1, 1) == tuple(found[name] for name in ("calls", "errors", "retries", "fallbacks"))
    assert (200.0, 900.0) == (found["first_byte"]["mean_ms"], found["whole"]["mean_ms"])


def test_warnings_are_told_the_most_frequent_first() -> None:
    metrics = Metrics()
    add(metrics, *(judged(Verdict("claims", "warn", code=code)) for code in ("a", "b", "b", "c", "c")))
    assert [("b", 2), ("c", 2), ("a", 1)] == list(told(metrics)["warnings"].items())


def quantile(edges: Sequence[float], counts: Sequence[int], share: float) -> float | None:
    values = Values(edges)
    values.add(counts, 0.0)
    return values.quantile(share)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.5, 1.0), (0.25, 0.5), (0.75, 2.0), (1.0, 3.0)],
)
def test_a_quantile_lies_evenly_within_its_bucket(share: float, expected: float) -> None:
    assert expected == quantile([1.0, 3.0], [2, 2, 0], share)


def test_a_quantile_beyond_the_last_edge_is_that_edge() -> None:
    assert 1.0 == quantile([1.0], [1, 3], 0.9)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.floats(0.01, 1.0))
def test_a_quantile_is_within_the_bucket_that_holds_it(counts: list[int], share: float) -> None:
    upto = [sum(counts[: i + 1]) for i in range(len(counts))]
    found = quantile([float(i + 1) for i in range(len(counts))], [*counts, 0], share)
    if not upto[-1]:
        assert found is None
        return
    holds = next(i for i, reached in enumerate(upto) if reached >= share * upto[-1])
    assert found is not None
    assert holds <= found <= holds + 1
