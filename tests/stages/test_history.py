from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from proxy.context.archive import references_in
from proxy.context.summaries import is_summary
from proxy.exchange import Exchange, Message, Verdict
from proxy.ports import Ports
from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression, CompressionOptions
from proxy.stages.history import History, HistoryOptions
from proxy.testing import CountedNames, WordCounter, make_exchange, make_ports
from tests.conftest import Start
from tests.conversations import said, step, turns


async def judged(messages: Sequence[Message], ports: Ports | None = None, **options: Any) -> tuple[Verdict | None, Exchange]:
    exchange = make_exchange(messages)
    return await History(HistoryOptions(**options), ports or make_ports()).on_request(exchange), exchange


def chat(messages: int, words: int = 10) -> list[Message]:
    """A system message and so many others, of which the last is the user's."""
    roles = ("user", "assistant") if messages % 2 else ("assistant", "user")
    return [said("system", 5), *(said(roles[i % 2], words, f"m{i}") for i in range(messages))]


# ---- the alert ----


@pytest.mark.parametrize(
    ("messages", "words", "severity"),
    [
        (19, 10, None),
        (20, 10, "MEDIUM"),
        (21, 10, "MEDIUM"),
        (25, 10, "MEDIUM"),
        (40, 10, "MEDIUM"),
        (41, 10, "HIGH"),
        (50, 100, "HIGH"),
        (10, 199, None),
        (10, 200, "MEDIUM"),
        (10, 401, "HIGH"),
    ],
)
async def test_a_long_history_distracts(messages: int, words: int, severity: str | None) -> None:
    verdict, exchange = await judged(chat(messages, words))
    assert severity == (verdict.detail["severity"] if verdict else None)
    assert exchange.messages is exchange.original.messages


async def test_the_alert_says_what_is_wrong_and_what_would_help() -> None:
    counters = CountedNames()
    verdict, _ = await judged(chat(50, 100), make_ports(counters=counters))
    assert verdict is not None
    assert ("warn", "DISTRACTION") == (verdict.outcome, verdict.code)
    expected = {"messages": 50, "tokens": 5000, "recommended_action": "summarize", "action": "warn", "result": "none"}
    assert expected.items() <= verdict.detail.items()
    assert {"context.distraction_count": 1} == counters.counts


# ---- note ----


async def noted(messages: Sequence[Message], **options: Any) -> tuple[Verdict | None, Exchange]:
    """The stage behind a budget, as a policy has them."""
    exchange, ports = make_exchange(messages), make_ports()
    budget, history = Budget(BudgetOptions(), ports), History(HistoryOptions(action="note", **options), ports)
    await budget.on_request(exchange)
    assert await history.on_request(exchange) is None
    await budget.on_forward(exchange)
    return await history.on_forward(exchange), exchange


@pytest.mark.parametrize(("messages", "words", "severity"), [(19, 10, None), (20, 10, "MEDIUM"), (41, 10, "HIGH"), (10, 401, "HIGH")])
async def test_what_is_only_noted_is_no_warning(messages: int, words: int, severity: str | None) -> None:
    verdict, exchange = await noted(chat(messages, words))
    assert exchange.messages is exchange.original.messages
    assert [severity] == [None if verdict is None else verdict.detail["severity"]]
    assert [] == exchange.warnings
    if verdict is not None and exchange.facts.distraction is not None:
        assert ("unchecked", "DISTRACTION") == (verdict.outcome, verdict.code)
        assert f"{severity};messages={messages};tokens={messages * words}" == exchange.facts.distraction.text


async def test_it_is_noted_once_an_exchange() -> None:
    exchange, ports = make_exchange(chat(25)), make_ports()
    history = History(HistoryOptions(action="note"), ports)
    found = [await history.on_forward(exchange) for _ in range(2)]
    assert [True, False] == [verdict is not None for verdict in found]


async def test_what_is_warned_of_is_in_the_header_too() -> None:
    _, exchange = await judged(chat(25))
    assert "MEDIUM;messages=25;tokens=250" == (exchange.facts.distraction and exchange.facts.distraction.text)


# ---- summarize ----


async def test_twenty_messages_become_a_summary_of_15_and_5_as_they_were() -> None:
    messages = chat(20, 30)
    verdict, exchange = await judged(messages, action="summarize", max_messages=19)
    system, summary, *rest = exchange.messages
    assert (messages[0], messages[-5:]) == (system, rest)
    assert is_summary(summary)
    (reference,) = references_in([summary])
    assert "messages 1 to 15" == reference.what
    assert verdict is not None
    assert ("summarize", 20, 6) == (verdict.detail["result"], verdict.detail["messages"], verdict.detail["messages_after"])


async def test_the_summary_is_repeated_until_further_messages_have_come() -> None:
    ports = make_ports()
    all_messages = [said("system", 5), *(said(("user", "assistant")[i % 2], 30, f"m{i}") for i in range(61))]
    results, previous = [], b""
    for end in range(22, 62, 2):
        verdict, exchange = await judged(all_messages[:end], ports, action="summarize", max_tokens=300)
        now = orjson.dumps(exchange.messages)
        results.append(verdict.detail["result"] if verdict else "quiet")
        if results[-1] != "summarize":
            assert now.startswith(previous[:-1])
        previous = now
    assert ["summarize", *["not-yet"] * 4, "summarize"] == results[:6]
    assert 4 == results.count("summarize")


async def test_a_tool_step_is_not_cut() -> None:
    messages = [*chat(20, 30), *step("1", 30, calls=3), said("assistant", 30), said("user", 30)]
    _, exchange = await judged(messages, action="summarize")
    assert messages[-6:] == list(exchange.messages[2:])


async def test_the_last_question_of_an_agent_stays() -> None:
    messages = [said("user", 30, "the-task"), *(message for i in range(15) for message in step(str(i), 30))]
    _, exchange = await judged(messages, action="summarize")
    assert exchange.messages[0] is messages[0]
    assert messages[-6:] == list(exchange.messages[2:])


# ---- sliding window ----


async def test_a_window_of_10_out_of_40() -> None:
    ports: Any = make_ports()
    messages = chat(40, 30)
    verdict, exchange = await judged(messages, ports, action="sliding_window")
    system, note, *rest = exchange.messages
    assert (messages[0], messages[-10:]) == (system, rest)
    (reference,) = references_in([note])
    content = (await ports.scratchpad.find(reference.id, client="anonymous")).content.decode()
    assert all(message["content"] in content for message in messages[1:31])
    assert "sliding_window" == (verdict.detail["result"] if verdict else "")
    assert set(range(1, 31)) == {e.message_index for e in exchange.evidence}


async def test_the_next_window_refers_to_all_that_has_left() -> None:
    ports: Any = make_ports()
    messages = chat(61, 30)
    for end in (42, 62):
        _, exchange = await judged(messages[:end], ports, action="sliding_window")
    assert ["messages 1 to 51"] == [reference.what for reference in references_in(exchange.messages)]
    assert messages[-10:] == list(exchange.messages[2:])


async def test_nothing_is_replaced_by_something_longer() -> None:
    verdict, exchange = await judged(chat(30, 1), action="summarize")
    assert exchange.messages is exchange.original.messages
    assert "nothing-left" == (verdict.detail["result"] if verdict else "")


# ---- with compression ----


async def test_compression_goes_on_from_what_history_has_stored() -> None:
    ports = make_ports(tokens=WordCounter(3000))
    history, compression = History(HistoryOptions(action="summarize"), ports), Compression(CompressionOptions(), ports)
    found = []
    for count in (15, 16, 30, 31):
        exchange = make_exchange(turns(count, 60))
        await Budget(BudgetOptions(reserve_output_tokens=0), ports).on_request(exchange)
        await history.on_request(exchange)
        await compression.on_request(exchange)
        found.append(exchange)
    assert [("stored",)] * 4 == [e.facts.compression.strategies for e in found if e.facts.compression]
    assert list(found[0].messages[:-1]) == list(found[1].messages[: len(found[0].messages) - 1])
    assert 1 == sum(is_summary(m) for m in found[-1].messages)
    assert len({(e.message_index, e.kind) for e in found[-1].evidence}) == len(found[-1].evidence)


async def test_in_a_running_proxy_the_model_is_offered_the_archive(start: Start) -> None:
    policy = "name: p\ndelivery: tap\nstages:\n- budget: {}\n- history: {action: sliding_window}\n- compression: {}\n"
    async with start(policy=policy) as proxy:
        got = await proxy.post({"model": "gpt-4o", "messages": chat(41, 30)})
        sent = proxy.upstream.calls[-1].json
    assert ["groundwire_read_archive"] == [tool["function"]["name"] for tool in sent["tools"]]
    assert ("warn", "DISTRACTION") == (got.verdict, got.headers["x-groundwire-warnings"])
    assert got.headers["x-groundwire-compression"].startswith("stored;")
