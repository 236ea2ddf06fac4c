from contextlib import nullcontext
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from proxy.errors import ContextLengthExceeded
from proxy.exchange import ContextUse, Exchange, Verdict
from proxy.ports import ModelInfo
from proxy.stages.budget import Allocations, Budget, BudgetOptions, output_reserve, over_allocation, threshold, too_long
from proxy.testing import CountedNames, WordCounter, make_exchange, make_ports

MODEL = ModelInfo("m", 8192, encoding="words")


def words(count: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": "w " * count}]


async def judged(
    messages: list[dict[str, str]], counters: CountedNames | None = None, window: int | None = 1000, **options: Any
) -> tuple[Verdict | None, Exchange]:
    ports = make_ports(tokens=WordCounter(window), counters=counters or CountedNames())
    stage = Budget(BudgetOptions(reserve_output_tokens=options.pop("reserve_output_tokens", 0), **options), ports)
    exchange = make_exchange(messages)
    await stage.on_request(exchange)
    return await stage.on_forward(exchange), exchange


@pytest.mark.parametrize(
    ("used", "code", "counter"),
    [
        (699, "", None),
        (700, "context_usage_high", "context.usage_warning_count"),
        (799, "context_usage_high", "context.usage_warning_count"),
        (800, "context_usage_compress", "context.compression_triggered_count"),
        (900, "context_usage_critical", "context.critical_alerts_count"),
        (1000, "context_usage_critical", "context.critical_alerts_count"),
    ],
)
async def test_the_thresholds_of_the_window(used: int, code: str, counter: str | None) -> None:
    counters = CountedNames()
    verdict, _ = await judged(words(used), counters)
    assert verdict is not None
    assert ("warn" if code else "unchecked", code, used / 1000) == (verdict.outcome, verdict.code, verdict.score)
    assert ({counter: 1} if counter else {}) == counters.counts


async def test_what_does_not_fit_with_its_answer_is_refused() -> None:
    with pytest.raises(ContextLengthExceeded, match=r"resulted in 7900 tokens, and 500 are reserved .* Compress context or split content"):
        await judged(words(7900), window=8192, reserve_output_tokens=500)


@pytest.mark.parametrize(("used", "asked", "param"), [(8, 5000, "max_tokens"), (1500, 501, "max_tokens"), (1501, 500, "messages")])
async def test_an_answer_that_is_asked_to_be_too_long_is_what_the_refusal_names(used: int, asked: int, param: str) -> None:
    stage = Budget(BudgetOptions(), make_ports(tokens=WordCounter(2000)))
    exchange = make_exchange(words(used), max_tokens=asked)
    await stage.on_request(exchange)
    with pytest.raises(ContextLengthExceeded) as refused:
        await stage.on_forward(exchange)
    assert param == refused.value.param
    told = f"max_tokens is too large: {asked}. This model's maximum context length is 2000 tokens, and your messages resulted in {used} "
    assert (param == "max_tokens") == refused.value.message.startswith(told)


async def test_what_fits_with_its_answer_passes() -> None:
    verdict, exchange = await judged(words(7000), window=8192, reserve_output_tokens=500)
    assert verdict is not None
    assert ("warn", 7000) == (verdict.outcome, exchange.facts.context.used_tokens if exchange.facts.context else None)


async def test_the_policys_window_wins_over_the_models() -> None:
    stage = Budget(BudgetOptions(window=100, reserve_output_tokens=0), make_ports(tokens=WordCounter(8192)))
    exchange = make_exchange(words(150))
    await stage.on_request(exchange)
    with pytest.raises(ContextLengthExceeded, match="limit of 100 tokens"):
        await stage.on_forward(exchange)


async def test_an_unknown_window_is_a_warning_and_never_a_refusal() -> None:
    verdict, exchange = await judged(words(100_000), window=None)
    assert verdict is not None
    assert ("warn", "window_unknown") == (verdict.outcome, verdict.code)
    assert exchange.facts.context == ContextUse(100_000, None, True, exchange.facts.context.components if exchange.facts.context else {})


async def test_what_later_stages_changed_is_what_is_judged() -> None:
    stage = Budget(BudgetOptions(reserve_output_tokens=0), make_ports(tokens=WordCounter(1000)))
    exchange = make_exchange(words(950))
    await stage.on_request(exchange)
    exchange.messages = words(100)
    verdict = await stage.on_forward(exchange)
    assert verdict is not None
    assert "unchecked" == verdict.outcome
    assert exchange.facts.context_before is not None
    assert exchange.facts.context is not None
    assert (950, 100) == (exchange.facts.context_before.used_tokens, exchange.facts.context.used_tokens)


async def test_a_component_over_its_allocation_is_reported() -> None:
    counters = CountedNames()
    verdict, _ = await judged(words(50), counters, allocations=Allocations(current_query=40, tool_descriptions=40))
    assert verdict is not None
    assert "allocation_exceeded" == verdict.code
    assert {"current_query": {"used_tokens": 50, "allocated_tokens": 40}} == verdict.detail["over_allocation"]
    assert {"context.allocation_exceeded_count": 1} == counters.counts


def test_room_for_tools_is_over_when_too_little_is_left() -> None:
    assert {} == over_allocation({"current_query": 500}, {"available_for_tools": 500}, 1000)
    assert {"available_for_tools": {"free_tokens": 499, "allocated_tokens": 500}} == over_allocation(
        {"current_query": 501}, {"available_for_tools": 500}, 1000
    )
    assert {} == over_allocation({"current_query": 501}, {"available_for_tools": 500}, None)


def test_allocations_may_not_pass_the_window() -> None:
    options = {"window": 1000, "allocations": {"system_instructions": 600, "conversation_history": 500}}
    with pytest.raises(msgspec.ValidationError, match="add up to 1100 tokens, more than the window's 1000"):
        msgspec.convert(options, BudgetOptions)


@pytest.mark.parametrize(("asked", "reserve", "expected"), [(None, 1024, 1024), (50, 1024, 50), (None, 5000, 2048)])
def test_room_for_the_answer(asked: int | None, reserve: int, expected: int) -> None:
    assert expected == output_reserve(asked, MODEL, reserve, 8192)


class PromptWindows(WordCounter):
    """Models that have room of their own for an answer."""

    def model(self, name: str) -> ModelInfo:
        return replace(super().model(name), answers_beside_window=True)


@pytest.mark.parametrize(
    ("window", "used", "refused"), [("auto", 1000, False), ("auto", 1001, True), (1000, 500, False), (1000, 501, True)]
)
async def test_an_answer_that_has_room_of_its_own_takes_none_of_the_models_window(window: Any, used: int, refused: bool) -> None:
    stage = Budget(BudgetOptions(window=window), make_ports(tokens=PromptWindows(1000)))
    exchange = make_exchange(words(used), max_tokens=500)
    await stage.on_request(exchange)
    with pytest.raises(ContextLengthExceeded) if refused else nullcontext():
        await stage.on_forward(exchange)


def test_the_reserve_stays_within_what_the_model_can_say() -> None:
    assert 256 == output_reserve(None, ModelInfo("m", 8192, max_output_tokens=256), 1024, 8192)


def test_the_60_72_82_92_ladder() -> None:
    codes = [threshold(share, BudgetOptions()) for share in (0.60, 0.72, 0.82, 0.92)]
    assert ["", "context_usage_high", "context_usage_compress", "context_usage_critical"] == codes


def test_the_refusal_names_the_largest_parts_and_says_when_it_is_an_estimate() -> None:
    message = too_long(ContextUse(900, 800, False, {"current_query": 100, "conversation_history": 700, "tool_descriptions": 100}), 50)
    assert "900 tokens (estimated)" in message
    assert "conversation_history 700, current_query 100" in message
