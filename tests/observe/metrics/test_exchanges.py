"""A finished exchange and its figures."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.exchange import Answer, Choice, CompressionResult, ContextUse, Exchange, JudgeUse, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.metrics import Metrics
from proxy.observe.metrics.exchanges import BATCH, MAX_CODES, MAX_MODELS, MAX_UPSTREAM_CODES
from proxy.ports import ModelInfo
from proxy.testing import make_exchange
from tests.observe.metrics.reading import by, value

PRICES = {
    "cheap": ModelInfo("cheap", 8192, input_usd_per_token=0.001, output_usd_per_token=0.01),
    "caching": ModelInfo("caching", 8192, input_usd_per_token=0.001, output_usd_per_token=0.01, cached_usd_per_token=0.0001),
    "free": ModelInfo("free", 8192, input_usd_per_token=0.0, output_usd_per_token=0.0),
    "half": ModelInfo("half", 8192, input_usd_per_token=0.001),
}


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def answered(model: str, prompt: int, completion: int, cached: int = 0) -> Exchange:
    exchange = make_exchange(model=model)
    exchange.answer = Answer((Choice(0, "Hi."),), usage=Usage(prompt, completion, cached))
    return exchange


def judged(*verdicts: Verdict, **facts: Any) -> Exchange:
    exchange = make_exchange()
    exchange.timings["budget.request"] = 2.0
    exchange.verdicts += verdicts
    for name, found in facts.items():
        setattr(exchange.facts, name, found)
    return exchange


def add(metrics: Metrics, *exchanges: Exchange | None, route: str = "/rag", verdict: str = "pass", status: int = 200) -> None:
    for exchange in exchanges:
        usage = exchange.answer.usage if exchange is not None and exchange.answer is not None else None
        info = PRICES.get(exchange.model) if exchange is not None else None
        usd = info.cost_usd(usage) if info and usage else None
        done = {"route": route, "verdict": verdict, "status": status, "overhead_ms": 4.0, "exchange": exchange, "usage": usage}
        metrics.exchange(Finished(id="gw_1", **done), usd)


def test_exchanges_are_counted_by_route_verdict_and_status_class(metrics: Metrics) -> None:
    add(metrics, None, None, verdict="skipped")
    add(metrics, make_exchange(), route="", verdict="block", status=400)
    assert 2.0 == value(metrics, "groundwire_exchanges_total", route="/rag", verdict="skipped", status="2xx")
    assert 1.0 == value(metrics, "groundwire_exchanges_total", route="/", verdict="block", status="4xx")


def test_what_is_noted_is_counted_when_somebody_asks_and_in_batches(metrics: Metrics) -> None:
    add(metrics, *([make_exchange()] * (2 * BATCH + 3)))
    assert [2.0 * BATCH + 3] * 2 == [value(metrics, "groundwire_exchanges_total") for _ in range(2)]


def test_overhead_is_what_was_added_before_and_after(metrics: Metrics) -> None:
    exchange = make_exchange()
    exchange.timings |= {"after_ms": 6.0, "between_ms": 1.0}  # the caller's figure has what was added between
    add(metrics, exchange, None)
    assert 1.0 == value(metrics, "groundwire_overhead_seconds_count", route="/rag")
    assert pytest.approx(0.010) == value(metrics, "groundwire_overhead_seconds_sum", route="/rag")


def test_the_time_of_each_stage_and_hook_is_a_histogram(metrics: Metrics) -> None:
    exchange = make_exchange()
    exchange.timings |= {"claims.answer": 40.0, "claims.request": 1.0, "after_ms": 50.0}
    add(metrics, exchange)
    assert 0.04 == value(metrics, "groundwire_stage_seconds_sum", stage="claims", hook="answer")
    assert (0.0, 1.0) == tuple(
        value(metrics, "groundwire_stage_seconds_bucket", stage="claims", hook="answer", le=le) for le in ("0.025", "0.05")
    )
    assert {"claims": 2.0} == by(metrics, "groundwire_stage_seconds_count", "stage")


def test_tokens_are_counted_by_kind(metrics: Metrics) -> None:
    add(metrics, answered("cheap", 100, 10, 40), answered("cheap", 1, 2))
    expected = {"prompt": 101.0, "completion": 12.0, "cached": 40.0}
    assert expected == by(metrics, "groundwire_tokens_total", "kind")
    assert expected == by(metrics, "groundwire_model_tokens_total", "kind")


@pytest.mark.parametrize(
    ("model", "usd", "unpriced"),
    [
        ("cheap", 100 * 0.001 + 10 * 0.01, 0),
        ("caching", 60 * 0.001 + 40 * 0.0001 + 10 * 0.01, 0),
        ("free", 0.0, 0),
        ("unknown", 0.0, 1),
        ("half", 0.0, 1),
    ],
)
def test_cost_is_counted_and_what_has_none(metrics: Metrics, model: str, usd: float, unpriced: int) -> None:
    add(metrics, answered(model, 100, 10, 40))
    assert pytest.approx(usd) == value(metrics, "groundwire_cost_usd_total", upstream="openai", model=model)
    assert float(unpriced) == value(metrics, "groundwire_unpriced_exchanges_total", upstream="openai", model=model)


@pytest.mark.parametrize("numbers", [(-1, 5, 0), (5, -1, 0), (5, 5, -1)])
def test_tokens_that_cannot_be_are_not_counted(metrics: Metrics, numbers: tuple[int, int, int]) -> None:
    add(metrics, answered("cheap", *numbers), answered("cheap", 1, 2))
    assert {"prompt": 1.0, "completion": 2.0} == by(metrics, "groundwire_tokens_total", "kind")


def test_an_answer_of_a_stage_costs_nothing_and_is_no_model(metrics: Metrics) -> None:
    add(metrics, answered("cheap", 0, 0))
    assert {} == by(metrics, "groundwire_unpriced_exchanges_total", "model") | by(metrics, "groundwire_model_tokens_total", "model")


def test_models_beyond_the_fiftieth_share_a_label_and_keep_their_price(metrics: Metrics) -> None:
    for number in range(MAX_MODELS + 10):
        add(metrics, answered(f"m{number}", 1, 1))
    add(metrics, answered("cheap", 100, 10))
    models = by(metrics, "groundwire_model_tokens_total", "model")
    assert (MAX_MODELS + 1, 20.0 + 110.0) == (len(models), models["other"])
    assert pytest.approx(0.2) == value(metrics, "groundwire_cost_usd_total", model="other")


def test_the_window_s_share_is_known_of_both_prompts(metrics: Metrics) -> None:
    add(
        metrics,
        judged(context_before=ContextUse(950, 1000, True), context=ContextUse(700, 1000, True)),
        judged(context=ContextUse(5, None, True)),
    )
    assert {"received": 1.0, "sent": 1.0} == by(metrics, "groundwire_context_window_ratio_count", "prompt")
    below = {le: value(metrics, "groundwire_context_window_ratio_bucket", prompt="received", le=le) for le in ("0.7", "0.8", "0.9", "1.0")}
    assert {"0.7": 0.0, "0.8": 0.0, "0.9": 0.0, "1.0": 1.0} == below
    assert 1.0 == value(metrics, "groundwire_context_window_ratio_bucket", prompt="sent", le="0.7")


def test_a_prompt_that_reaches_a_threshold_has_passed_the_lower_ones_once_each(metrics: Metrics) -> None:
    high, compress, critical = (Verdict("budget", "warn", code=f"context_usage_{name}") for name in ("high", "compress", "critical"))
    add(metrics, judged(high), judged(compress), judged(critical, critical), judged(critical, high))
    assert {"warn": 4.0, "compress": 3.0, "critical": 2.0} == by(metrics, "groundwire_context_thresholds_total", "threshold")


def test_scores_are_histograms(metrics: Metrics) -> None:
    add(metrics, judged(quality=0.8, faithfulness=1.0, relevance=0.33, citations=(3, 4)), judged(quality=0.4, citations=(0, 0)))
    sums = {name: value(metrics, f"groundwire_{name}_ratio_sum") for name in ("quality", "faithfulness", "relevance", "citation_precision")}
    assert {"quality": pytest.approx(1.2), "faithfulness": 1.0, "relevance": 0.33, "citation_precision": 0.75} == sums


def test_what_a_judge_was_asked_and_took(metrics: Metrics) -> None:
    use = JudgeUse("openai/small", asked=10, cached=3, unanswered=2, calls=2, input_tokens=900, output_tokens=60, usd=0.002, ms=250.0)
    add(metrics, judged(judge=use), judged(judge=JudgeUse("openai/small", asked=1, cached=1)))
    assert {"answered": 5.0, "cached": 4.0, "unanswered": 2.0} == by(metrics, "groundwire_judge_questions_total", "result")
    assert {"prompt": 900.0, "completion": 60.0} == by(metrics, "groundwire_judge_tokens_total", "kind")
    assert 0.002 == value(metrics, "groundwire_judge_cost_usd_total", judge="openai/small")
    assert (1.0, 0.25) == (value(metrics, "groundwire_judge_seconds_count"), value(metrics, "groundwire_judge_seconds_sum"))


def test_compression_and_retries_are_counted_where_they_happened(metrics: Metrics) -> None:
    add(
        metrics,
        judged(compression=CompressionResult(("trim",), 900, 300), retries=2),
        judged(compression=CompressionResult(reason="nothing-left")),
    )
    assert (1.0, 3.0) == (value(metrics, "groundwire_compression_ratio_count"), value(metrics, "groundwire_compression_ratio_sum"))
    assert 2.0 == value(metrics, "groundwire_answer_retries_total", route="/rag")


def test_a_warning_counts_once_an_exchange_and_a_pass_never(metrics: Metrics) -> None:
    warn, fine = Verdict("claims", "warn", code="claims_unsupported"), Verdict("clash", "pass", code="CLASH")
    add(metrics, judged(warn, warn, fine), judged(warn))
    assert {"claims_unsupported": 2.0} == by(metrics, "groundwire_warnings_total", "code")


def test_a_check_that_could_not_run_is_counted_by_its_stage(metrics: Metrics) -> None:
    metrics.expect(["claims", "clash"])
    assert 0.0 == value(metrics, "groundwire_check_errors_total", stage="clash")
    add(metrics, judged(Verdict("claims", "error", code="check_timeout"), Verdict("budget", "warn", code="context_usage_high")))
    assert {"claims": 1.0} == by(metrics, "groundwire_check_errors_total", "stage")


def test_codes_of_stages_and_of_upstreams_are_bounded_apart(metrics: Metrics) -> None:
    for number in range(MAX_UPSTREAM_CODES + 200):
        add(metrics, judged(Verdict("upstream", "warn", code=f"upstream_{number}")))
    for number in range(MAX_CODES + 5):
        add(metrics, judged(Verdict("claims", "warn", code=f"code_{number}")))
    codes = by(metrics, "groundwire_warnings_total", "code")
    assert (MAX_UPSTREAM_CODES + MAX_CODES + 1, 205.0) == (len(codes), codes["other"])


def test_what_an_upstream_calls_its_error_cannot_break_the_exposition(metrics: Metrics) -> None:
    add(metrics, judged(Verdict("upstream", "warn", code='upstream_x"} 1\nevil 2')))
    assert {"other": 1.0} == by(metrics, "groundwire_warnings_total", "code")


def test_a_history_that_is_too_long_is_counted_with_what_is_recommended(metrics: Metrics) -> None:
    alert = Verdict("history", "warn", code="DISTRACTION", detail={"severity": "HIGH", "recommended_action": "sliding_window"})
    add(metrics, judged(alert), judged(Verdict("history", "warn", code="DISTRACTION", detail={"severity": "?"})))
    assert 1.0 == value(metrics, "groundwire_distraction_alerts_total", severity="HIGH", action="sliding_window")
    assert 1.0 == value(metrics, "groundwire_distraction_alerts_total", severity="other", action="other")
