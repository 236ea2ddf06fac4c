"""What must hold of every conversation, whatever is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from proxy.context.archive import references_in
from proxy.context.conversation import last_user, problems
from proxy.exchange import Exchange, Message
from proxy.exchange.answers import OutputRequirements
from proxy.ports import Ports
from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression, CompressionOptions
from proxy.stages.history import History, HistoryOptions
from proxy.testing import WordCounter, make_exchange, make_ports
from tests.conversations import airline_run, conversations, said, step
from tests.examples import share

WINDOWS = st.sampled_from([120, 400, 1000, 3000])
FEW = settings(max_examples=share(0.6))
PAID_LATER = [said("system", 1), *step("1", 200), *[said("system", 1)] * 4, said("assistant", 200), said("user", 1)]
"""A summary frees less than the tool to read the archive takes, until something else is archived."""


async def forwarded(messages: Sequence[Message], ports: Ports, action: str = "", **options: Any) -> Exchange:
    exchange = make_exchange(messages)
    await Budget(BudgetOptions(reserve_output_tokens=0), ports).on_request(exchange)
    if action:
        await History(HistoryOptions(max_messages=6, max_tokens=300, action=action, keep_recent=3, every=2), ports).on_request(exchange)
    await Compression(CompressionOptions(keep_recent=2, **options), ports).on_request(exchange)
    return exchange


async def used(exchange: Exchange, ports: Ports) -> tuple[int, int]:
    """Tokens before and after."""
    counter = ports.tokens
    before, after = [
        await counter.count_request(messages, tools, OutputRequirements(), counter.model("m"))
        for messages, tools in ((exchange.original.messages, exchange.original.tools), (exchange.messages, exchange.tools))
    ]
    return before.used_tokens, after.used_tokens


async def holds(messages: Sequence[Message], ports: Ports, action: str) -> Exchange:
    exchange = await forwarded(messages, ports, action)
    before, after = await used(exchange, ports)
    assert after <= before
    if not problems(messages):
        assert [] == problems(exchange.messages)
    stays = [m for m in messages if m["role"] == "system"]
    assert stays == [m for m in exchange.messages if m["role"] == "system"]
    asked = last_user(messages)
    if asked is not None:
        assert any(m is messages[asked] for m in exchange.messages)
    positions = {id(m): i for i, m in enumerate(messages)}
    order = [positions[id(m)] for m in exchange.messages if id(m) in positions]
    assert order == sorted(order)
    return exchange


@FEW
@given(conversations(), WINDOWS, st.sampled_from(["", "summarize", "sliding_window"]))
def test_tokens_never_rise_pairs_stay_whole_and_order_stays(messages: list[Message], window: int, action: str) -> None:
    asyncio.run(holds(messages, make_ports(tokens=WordCounter(window)), action))


@FEW
@given(conversations(), WINDOWS, st.sampled_from(["", "summarize", "sliding_window"]))
def test_everything_taken_out_can_be_read_back_and_is_evidence(messages: list[Message], window: int, action: str) -> None:
    async def run() -> None:
        ports: Any = make_ports(tokens=WordCounter(window))
        exchange = await holds(messages, ports, action)
        sent = {id(m) for m in exchange.messages}
        kept = [(await ports.scratchpad.find(r.id, client=exchange.client)).content for r in references_in(exchange.messages)]
        for i, message in enumerate(messages):
            text = message["content"]
            if id(message) not in sent and text:
                assert any(text.encode() in content for content in kept), text
                assert any(e.message_index == i and e.content == text for e in exchange.evidence)

    asyncio.run(run())


@FEW
@given(conversations(), WINDOWS, st.sampled_from(["", "summarize", "sliding_window"]))
@example(PAID_LATER, 120, "")
def test_the_same_request_gives_the_same_bytes_with_and_without_the_store(messages: list[Message], window: int, action: str) -> None:
    async def run() -> None:
        ports = make_ports(tokens=WordCounter(window))
        first = await forwarded(messages, ports, action)
        again = await forwarded(messages, ports, action)
        elsewhere = await forwarded(messages, make_ports(tokens=WordCounter(window)), action)
        assert orjson.dumps(first.messages) == orjson.dumps(elsewhere.messages) == orjson.dumps(again.messages)

    asyncio.run(run())


@FEW
@given(conversations(), WINDOWS, st.sampled_from(["trim", "summarize", "archive", "all"]))
def test_running_it_twice_changes_nothing_more(messages: list[Message], window: int, strategy: str) -> None:
    async def run() -> None:
        ports = make_ports(tokens=WordCounter(window))
        given: Any = {} if strategy == "all" else {"strategies": (strategy,)}
        exchange = await forwarded(messages, ports, **given)
        once = list(exchange.messages)
        await Compression(CompressionOptions(keep_recent=2, **given), ports).on_request(exchange)
        assert once == list(exchange.messages)

    asyncio.run(run())


@FEW
@given(conversations(), st.lists(st.integers(1, 5), max_size=4), WINDOWS)
def test_later_turns_repeat_what_was_sent_unless_they_cross_again(messages: list[Message], steps: list[int], window: int) -> None:
    async def run() -> None:
        ports = make_ports(tokens=WordCounter(window))
        end, previous = max(1, len(messages) - sum(steps)), None
        for more in (0, *steps):
            end += more
            exchange = await forwarded(messages[:end], ports)
            report = exchange.facts.compression
            assert report is not None
            if previous is not None and report.strategies in ((), ("stored",)):
                assert orjson.dumps(exchange.messages).startswith(orjson.dumps(previous)[:-1])
            previous = exchange.messages

    asyncio.run(run())


@pytest.mark.parametrize("window", [300, 700, 1200, 1600])
async def test_every_prefix_of_a_recorded_run_is_one_that_the_api_accepts(window: int) -> None:
    messages = airline_run()
    ports = make_ports(tokens=WordCounter(window))
    ends = [i for i in range(1, len(messages) + 1) if not problems(messages[:i])]
    for end in ends:
        await holds(messages[:end], ports, "")
