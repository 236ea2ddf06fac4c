from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
import pytest
from msgspec.structs import replace

from proxy.context.archive import references_in
from proxy.context.summaries import summary_text
from proxy.errors import StoreUnavailable
from proxy.exchange import CompressionResult as Report
from proxy.exchange import Evidence, Exchange, Message, Verdict
from proxy.ports import ModelInfo, Ports
from proxy.stages.budget import Budget, BudgetOptions
from proxy.stages.compression import Compression, CompressionOptions
from proxy.stages.compression.options import CompressionThresholds, thresholds
from proxy.stages.compression.stage import SMALL_BYTES
from proxy.testing import CountedNames, ScriptedChat, WordCounter, make_exchange, make_ports
from tests.conversations import said, step, turns

HOUR = 3600.0


class Away:
    """A store that is not there."""

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **named: Any) -> Any:
            raise StoreUnavailable("the store is away")

        return call


async def compressed(
    messages: Sequence[Message], ports: Ports | None = None, reserve: int = 0, ages: dict[int, float] | None = None, **options: Any
) -> tuple[Verdict | None, Exchange]:
    """`ages` are the messages' ages in seconds, as the client's timestamps tell them."""
    ports = ports or make_ports()
    exchange = make_exchange(messages)
    hints = {i: {"timestamp": exchange.received_at - age} for i, age in (ages or {}).items()}
    exchange.original = msgspec.structs.replace(exchange.original, message_hints=hints)
    await Budget(BudgetOptions(reserve_output_tokens=reserve), ports).on_request(exchange)
    return await Compression(CompressionOptions(**options), ports).on_request(exchange), exchange


def sized(total: int, turn_words: int = 50) -> list[Message]:
    """A conversation of `total` words."""
    found = turns((total - 30) // (2 * turn_words), turn_words)
    found.insert(1, said("user", total - sum(len(m["content"].split()) for m in found)))
    return found


def detail(verdict: Verdict | None) -> Any:
    assert verdict is not None
    return verdict.detail


def report(exchange: Exchange) -> Report:
    assert exchange.facts.compression is not None
    return exchange.facts.compression


def words(exchange: Exchange) -> int:
    return exchange.facts.context.used_tokens if exchange.facts.context else 0


# ---- when ----


@pytest.mark.parametrize(
    ("used", "strategies", "reason", "aggressive"),
    [
        (6553, (), "below-threshold", None),
        (6554, ("summarize",), "", False),
        (6603, ("summarize",), "", False),  # 80.6%
        (7373, ("summarize",), "", True),
        (7390, ("summarize",), "", True),  # 90.2%
    ],
)
async def test_the_thresholds_of_an_8192_token_window(used: int, strategies: tuple[str, ...], reason: str, aggressive: bool | None) -> None:
    verdict, exchange = await compressed(sized(used))
    assert exchange.facts.context_before is not None
    done = report(exchange)
    assert (used, strategies, reason) == (exchange.facts.context_before.used_tokens, done.strategies, done.reason)
    assert aggressive == (verdict.detail["aggressive"] if verdict else None)


def test_the_answers_reserve_brings_the_thresholds_forward() -> None:
    assert CompressionThresholds(800, 900, 600, 900) == thresholds(1000, 100, 0.8, 0.9, 0.6)
    assert CompressionThresholds(501, 900, 375, 500) == thresholds(1000, 500, 0.8, 0.9, 0.6)


async def test_what_the_answers_reserve_would_refuse_is_compressed_earlier() -> None:
    _, exchange = await compressed(sized(4600), reserve=2048, ports=make_ports(tokens=WordCounter(6000)))
    assert ("summarize",) == report(exchange).strategies
    assert words(exchange) <= 4500 * 0.75


async def test_room_is_made_for_passages_that_join_the_prompt_later() -> None:
    ports, exchange = make_ports(), make_exchange(sized(5600))
    exchange.passages = (Evidence("word " * 1500, source="s"),)
    await Budget(BudgetOptions(reserve_output_tokens=1024), ports).on_request(exchange)
    await Compression(CompressionOptions(), ports).on_request(exchange)
    assert ("summarize",) == report(exchange).strategies
    assert words(exchange) + 1500 + 1024 < 8192


async def test_an_unknown_window_is_said_and_nothing_done() -> None:
    verdict, exchange = await compressed(sized(9000), make_ports(tokens=WordCounter(None)))
    assert Report(reason="skipped") == exchange.facts.compression
    assert "the model's window is not known" == detail(verdict)["why"]
    assert exchange.messages is exchange.original.messages


class Cached(WordCounter):
    """A model whose provider reads its cache for a tenth and writes it for 1.25 of the price of input."""

    def model(self, name: str) -> ModelInfo:
        return replace(super().model(name), input_usd_per_token=1.0, cached_usd_per_token=0.1, written_usd_per_token=1.25)


@pytest.mark.parametrize(
    ("used", "turn_words", "reserve", "reason"),
    [
        (6600, 500, 0, "waits-until-it-pays"),  # six turns: a cut to 20% pays after four, and half of six is three
        (6600, 300, 0, ""),  # ten turns
        (7600, 700, 0, "waits-until-it-pays"),  # above 90%, where aggressive_at is not reached
        (7600, 700, 1000, ""),  # the answer has no room
    ],
)
async def test_a_cut_waits_until_it_pays_or_the_answer_has_no_room(used: int, turn_words: int, reserve: int, reason: str) -> None:
    options = {"target": 0.2, "aggressive_at": 1.0, "pays_within": 0.5}
    verdict, exchange = await compressed(sized(used, turn_words), make_ports(tokens=Cached(8192)), reserve, **options)
    assert (reason, bool(reason)) == (report(exchange).reason, verdict is None)
    assert (exchange.messages is exchange.original.messages) == bool(reason)


async def test_without_prices_no_cut_waits() -> None:
    _, exchange = await compressed(sized(6600, 500), target=0.2, pays_within=0.0)
    assert report(exchange).strategies


# ---- the strategies ----


async def test_trim_takes_out_what_is_older_than_an_hour() -> None:
    messages = turns(15, 220)
    old = range(1, 21)
    ages = {i: 2 * HOUR if i in old else 60.0 for i in range(len(messages))}
    verdict, exchange = await compressed(messages, ages=ages, strategies=("trim",), target=0.3)
    assert ("trim",) == report(exchange).strategies
    assert [messages[0], *messages[21:]] == [exchange.messages[0], *exchange.messages[2:]]
    assert [[1, 21]] == detail(verdict)["strategies"][0]["runs"]


async def test_below_the_target_the_store_is_not_asked() -> None:
    ports = msgspec.structs.replace(make_ports(), compactions=Away(), first_seen=Away())
    exchange = make_exchange(turns(2, 20))
    stage = Compression(CompressionOptions(), ports)
    await Budget(BudgetOptions(), ports).on_request(exchange)
    assert await stage.on_request(exchange) is None  # it would say that the store is away
    await stage.on_done(exchange)  # it would raise
    assert (False, "below-threshold") == (stage.needs_run_identity(exchange.original), report(exchange).reason)


async def test_first_seen_times_stand_in_for_timestamps() -> None:
    ports = make_ports()
    messages = turns(15, 220)
    early = make_exchange(messages[:10])
    early.received_at -= 2 * HOUR
    early.original = replace(early.original, size=SMALL_BYTES)
    await Budget(BudgetOptions(), ports).on_request(early)
    stage = Compression(CompressionOptions(), ports)
    await stage.on_request(early)
    await stage.on_done(early)
    _, exchange = await compressed(messages, ports, strategies=("trim",))
    kept = [messages[0], *messages[10:]]
    assert kept == [exchange.messages[0], *exchange.messages[2:]]


async def test_without_ages_the_oldest_go_until_the_target_is_met() -> None:
    _, exchange = await compressed(turns(16, 215), make_ports(first_seen=Away()), strategies=("trim",))
    assert 0.55 * 8192 < words(exchange) <= 0.6 * 8192


async def test_thirty_messages_of_3000_tokens_become_a_summary_of_at_most_200() -> None:
    messages = [*turns(15, 100)[:31], said("user", 10, "last-question")]
    verdict, exchange = await compressed(messages, make_ports(tokens=WordCounter(3300)), keep_recent=1, strategies=("summarize",))
    assert ("system", "user", "user") == tuple(m["role"] for m in exchange.messages)
    assert 0 < len(summary_text(exchange.messages[1]).partition("[archived")[0].split()) <= 200
    assert {"made_by": "extractive", "messages": [1, 31]}.items() <= detail(verdict)["strategies"][0]["summaries"][0].items()


async def test_an_earlier_summary_is_folded_in_and_one_reference_leads_to_all() -> None:
    ports: Any = make_ports(tokens=WordCounter(2000))
    first = turns(15, 60)
    _, exchange = await compressed(first, ports, keep_recent=1)
    longer = [*first, *turns(15, 60)[1:]]
    _, exchange = await compressed(longer, ports, keep_recent=1)
    (reference,) = references_in(exchange.messages)
    content = (await ports.scratchpad.find(reference.id, client="anonymous")).content.decode()
    assert all(m["content"] in content for m in longer[1:-1])
    assert 1 == sum("<conversation_summary>" in m["content"] for m in exchange.messages)


async def test_archive_leaves_a_short_reference_and_the_bytes_can_be_had_back() -> None:
    messages = [said("system", 20), said("user", 100), *step("1", 1200), said("assistant", 20), said("user", 20)]
    ports: Any = make_ports(tokens=WordCounter(1600))
    verdict, exchange = await compressed(messages, ports, strategies=("archive",))
    result = exchange.messages[3]
    assert {**messages[3], "content": result["content"]} == result
    assert len(result["content"].split()) <= 20
    (reference,) = references_in([result])
    assert messages[3]["content"].encode() == (await ports.scratchpad.find(reference.id, client="anonymous")).content
    assert 1 == detail(verdict)["strategies"][0]["results"]


async def test_a_result_that_the_model_has_not_read_stays() -> None:
    messages = [said("system", 20), said("user", 100), *step("1", 1400)]
    _, exchange = await compressed(messages, make_ports(tokens=WordCounter(1600)))
    assert ("nothing-left", True) == (
        report(exchange).reason,
        exchange.messages is exchange.original.messages,
    )


async def test_parts_that_are_no_string_are_archived_as_json() -> None:
    parts = [{"type": "text", "text": "a " * 1000}, {"type": "image_url", "image_url": {"url": "data:,x"}}]
    messages = [said("user", 20), *step("1", 5), said("assistant", 5), said("user", 5)]
    messages[2] = {**messages[2], "content": parts}
    ports: Any = make_ports(tokens=WordCounter(1100))
    _, exchange = await compressed(messages, ports, strategies=("archive",))
    (reference,) = references_in(exchange.messages)
    assert parts == orjson.loads((await ports.scratchpad.find(reference.id, client="anonymous")).content)


async def test_three_strategies_in_sequence_from_85_percent_to_below_60() -> None:
    recent = [said("user", 900), *step("1", 2600), said("assistant", 50), said("user", 42)]
    messages = [said("system", 700), *turns(8, 60)[1:-1], *turns(6, 143)[1:-1], *recent]
    ages = {i: 2 * HOUR if i < 17 else 60.0 for i in range(len(messages))}
    verdict, exchange = await compressed(messages, ages=ages, target=0.55)
    assert verdict is not None
    assert ("trim", "summarize", "archive") == report(exchange).strategies
    steps = verdict.detail["strategies"]
    assert 0.85 <= steps[0]["before_tokens"] / 8192 < 0.9
    assert words(exchange) < 0.6 * 8192
    for i, done in enumerate(steps):
        assert done["before_tokens"] - done["after_tokens"] == done["freed_tokens"] > 0
        assert i == 0 or steps[i - 1]["after_tokens"] == done["before_tokens"]


async def test_later_strategies_are_not_asked_when_the_target_is_met() -> None:
    verdict, _ = await compressed(turns(15, 225))
    assert ["trim", "summarize"] == [s["strategy"] for s in detail(verdict)["strategies"]]


async def test_aggressive_brings_a_7400_token_context_below_10_percent() -> None:
    verdict, exchange = await compressed([*turns(11, 120, 380)[:-1], said("user", 539), *turns(1, 10)[-1:]])
    assert exchange.facts.context_before is not None
    assert 0.9 <= exchange.facts.context_before.share
    assert words(exchange) < 0.1 * 8192
    assert verdict is not None
    assert (True, "unchecked") == (verdict.detail["aggressive"], verdict.outcome)


async def test_an_agents_steps_after_the_only_question_are_summarised_and_the_open_one_stays() -> None:
    steps = [message for i in range(12) for message in step(str(i), 600)]
    messages = [said("system", 20), said("user", 100, "the-task"), *steps]
    _, exchange = await compressed(messages)
    assert messages[:2] == list(exchange.messages[:2])
    assert messages[-2:] == list(exchange.messages[-2:])
    assert words(exchange) < 0.6 * 8192


# ---- when it does not work ----


async def test_a_target_that_cannot_be_met_is_a_warning_with_advice() -> None:
    counters = CountedNames()
    verdict, exchange = await compressed([said("system", 7000), *turns(2, 20)[1:]], make_ports(counters=counters))
    assert verdict is not None
    assert ("warn", "compression_failed", 1) == (verdict.outcome, verdict.code, counters.counts["context.compression_failures"])
    assert 0.86 < (verdict.score or 0) < 0.88
    assert "shorten the system message, or move reference text out of it" == verdict.detail["advice"]
    assert "failed-kept-original" != (report(exchange).reason)


@pytest.mark.parametrize("asked", [8170, 8192, 10_000])
async def test_no_compression_makes_room_for_an_answer_as_long_as_the_window(asked: int) -> None:
    ports = make_ports()
    exchange = make_exchange(sized(3000), max_tokens=asked)
    await Budget(BudgetOptions(), ports).on_request(exchange)
    assert await Compression(CompressionOptions(), ports).on_request(exchange) is None
    assert ("below-threshold", True) == (report(exchange).reason, exchange.messages is exchange.original.messages)


async def test_a_target_that_is_missed_by_a_prompt_with_room_again_is_for_the_record() -> None:
    counters = CountedNames()
    verdict, exchange = await compressed([said("system", 3000), *turns(15, 225)[1:]], make_ports(counters=counters), target=0.2)
    assert verdict is not None
    assert ("unchecked", False) == (verdict.outcome, "context.compression_failures" in counters.counts)
    assert detail(verdict)["target_tokens"] < words(exchange) < 0.8 * 8192
    assert "shorten the system message, or move reference text out of it" == detail(verdict)["advice"]


async def test_without_the_scratchpad_everything_stays() -> None:
    verdict, exchange = await compressed(turns(15, 225), make_ports(scratchpad=Away()))
    assert exchange.messages is exchange.original.messages
    assert ((), "failed-kept-original") == (report(exchange).strategies, report(exchange).reason)
    assert {"store-unavailable", "nothing-left"} == {s["reason"] for s in detail(verdict)["strategies"]}


async def test_without_the_store_of_compactions_it_is_for_this_request_only() -> None:
    verdict, exchange = await compressed(turns(15, 225), make_ports(compactions=Away()))
    assert ("unchecked", "store-unavailable") == (verdict.outcome, detail(verdict)["store"])
    assert words(exchange) < 0.6 * 8192


async def test_what_another_worker_stored_first_is_sent() -> None:
    ports: Any = make_ports()
    messages = turns(15, 225)
    await compressed(messages, ports)
    (key, kept), *_ = ports.compactions.kept.items()
    ports.compactions.kept.clear()
    theirs = {**kept.pieces[1], "content": kept.pieces[1]["content"].replace("Summary", "SUMMARY")}

    async def put(compaction: Any, **named: Any) -> Any:
        assert key[1] == compaction.covers
        return msgspec.structs.replace(compaction, pieces=(compaction.pieces[0], theirs, *compaction.pieces[2:]))

    ports.compactions.put = put
    _, exchange = await compressed(messages, ports)
    assert theirs == exchange.messages[1]


@pytest.mark.parametrize("strategies", [("summarize",), ("archive",)])
async def test_a_client_that_goes_back_to_an_earlier_message_keeps_what_it_asks(strategies: tuple[str, ...]) -> None:
    ports, talk, options = make_ports(), turns(40, 40, 100), {"strategies": strategies, "target": 0.2}
    _, whole = await compressed(talk, ports, **options)
    assert strategies == report(whole).strategies
    for end in range(3, len(talk)):
        if talk[end - 1]["role"] in ("user", "tool"):
            _, again = await compressed(talk[:end], ports, **options)
            question = [message for message in talk[:end] if message["role"] == "user"][-1]
            assert (True, True) == (question in again.messages, talk[end - 1] in again.messages), end


async def test_results_before_a_users_word_that_the_model_has_not_read_stay() -> None:
    unread = [*step("new", 100), said("user", 20, "reminder")]
    _, exchange = await compressed([*sized(7500), *unread])
    assert exchange.messages[-3:] == unread


async def test_another_model_or_policy_has_its_own_compaction() -> None:
    ports: Any = make_ports()
    messages = turns(15, 225)
    await compressed(messages, ports)
    exchange = make_exchange(messages, model="another")
    await Budget(BudgetOptions(window=100_000), ports).on_request(exchange)
    await Compression(CompressionOptions(), ports).on_request(exchange)
    assert Report(reason="below-threshold") == exchange.facts.compression


async def test_a_summary_by_the_configured_upstream_is_named_in_the_record() -> None:
    chat = ScriptedChat(["The user asked many questions."])
    summariser = {"upstream": "small", "model": "mini"}
    options = msgspec.convert({"summariser": summariser}, CompressionOptions)
    assert {"summariser.upstream": "small"} == Compression.asks(options)
    verdict, _ = await compressed(turns(15, 225), make_ports(chat=chat), summariser=options.summariser)
    assert 1 == len(chat.asked)
    assert verdict is not None
    assert verdict.detail["strategies"][1]["summaries"][0]["made_by"] in ("llm", "llm-repaired", "extractive")


async def test_compression_counts_what_it_freed() -> None:
    counters = CountedNames()
    verdict, _ = await compressed(turns(15, 225), make_ports(counters=counters))
    assert verdict is not None
    assert {
        "context.compression_count": 1,
        "context.compression_tokens_before_count": verdict.detail["before_tokens"],
        "context.compression_tokens_after_count": verdict.detail["after_tokens"],
        "context.compression_summarize_count": 1,
    } == counters.counts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": 0.8}, "expected 0 < target < at <= aggressive_at"),
        ({"at": 0.95}, "expected 0 < target < at <= aggressive_at"),
        ({"strategies": []}, "expected at least one strategy"),
        ({"strategies": ["trim", "trim"]}, "each once"),
        ({"strategies": ["squeeze"]}, "Invalid enum value"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        msgspec.convert(options, CompressionOptions)


# ---- how much ----


async def test_no_more_is_folded_than_the_target_needs() -> None:
    """At 82% with something for each strategy: all three do their part, and most stays as it was."""
    messages = [said("system", 400), *turns(6, 100)[1:], *(m for i in range(8) for m in (*step(f"call-{i}", 250), said("assistant", 150)))]
    messages += [said("user", 6717 - sum(len(str(m.get("content") or "").split()) for m in messages))]
    ages = dict.fromkeys(range(1, 5), 2 * HOUR) | dict.fromkeys(range(5, len(messages)), 60.0)
    verdict, exchange = await compressed(messages, ages=ages)
    assert 0.50 * 8192 < words(exchange) <= 0.60 * 8192
    untouched = sum(len(str(m.get("content") or "").split()) for m in exchange.messages if any(m is given for given in messages))
    assert untouched > 0.5 * 8192
    assert ["trim", "summarize"] == [s["strategy"] for s in detail(verdict)["strategies"] if "reason" not in s][:2]


@pytest.mark.parametrize(
    ("used", "code", "counter"),
    [
        (6717, "context_usage_compress", "context.compression_triggered_count"),
        (7537, "context_usage_critical", "context.critical_alerts_count"),
    ],
)
async def test_a_crossing_is_told_though_the_prompt_that_is_sent_is_below(used: int, code: str, counter: str) -> None:
    """82% and 92%: RF-005's scenario of the thresholds, with compression on."""
    ports = make_ports()
    _, exchange = await compressed(sized(used), ports)
    verdict = await Budget(BudgetOptions(reserve_output_tokens=0), ports).on_forward(exchange)
    assert verdict is not None
    assert ("warn", code, round(used / 8192, 4)) == (verdict.outcome, verdict.code, verdict.detail["found_share"])
    assert 1 == ports.counters.counts[counter]
    assert 0.61 > (verdict.score or 0)


async def test_what_was_compressed_earlier_is_no_new_crossing() -> None:
    ports = make_ports()
    messages = sized(6717)
    await compressed(messages, ports)
    _, exchange = await compressed([*messages, said("assistant", 20), said("user", 20)], ports)
    verdict = await Budget(BudgetOptions(reserve_output_tokens=0), ports).on_forward(exchange)
    assert (("stored",), "unchecked") == (report(exchange).strategies, verdict.outcome if verdict else "")
