"""The stage `reflection` by itself: what it tells, whom it tells, when it stops. The whole way is in features/reflection.feature."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigError, PolicyBlocked, StoreUnavailable
from proxy.exchange import Answer, Choice, Exchange, ToolCall, Unanswered
from proxy.stages.reflection import Reflection
from proxy.stages.reflection.stage import ReflectionOptions
from proxy.stages.reflection.wording import CLOSING, OPENING, with_block
from proxy.testing import CountedNames, MemoryFailures, make_exchange, make_ports
from tests.conftest import Start
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, TOOLS, Talk

DENIED = "Error: permission denied"


class NeverAsked(MemoryFailures):
    """A store that nobody is to ask."""

    async def relevant(self, **about: Any) -> Any:
        raise AssertionError("asked")


class Agent:
    """The stage with a store, and exchanges of one client."""

    def __init__(self, store: Any = None, **options: Any) -> None:
        self.store = store or MemoryFailures()
        self.counters = CountedNames()
        self.stage = Reflection(
            ReflectionOptions(**{"escalate_after": 3, **options}), make_ports(failures=self.store, counters=self.counters)
        )
        self._number = 0

    def exchange(self, talk: Talk, *, run: str = "run", client: str = "alice", tools: Any = TOOLS, **params: Any) -> Exchange:
        self._number += 1
        made = make_exchange(talk.messages, tools, **params)
        made.id, made.run_id, made.client, made.retrieval_tools = f"gw_{self._number}", run, client, ("search_*",)
        made.received_at = time.time()
        return made

    async def turn(self, talk: Talk, said: str = "Very well.", **about: Any) -> Exchange:
        """A whole exchange."""
        exchange = self.exchange(talk, **about)
        verdict = await self.stage.on_request(exchange)
        exchange.verdicts += [] if verdict is None else [verdict]
        if exchange.answer is None:
            exchange.upstream_answer = exchange.answer = Answer((Choice(0, said, finish_reason="stop"),))
        self.stage.release(exchange)
        await self.stage.on_done(exchange)
        return exchange


def told(exchange: Exchange) -> str:
    """The block at the prompt's end."""
    _, opening, block = str(exchange.messages[-1]["content"]).partition(OPENING)
    return opening + block


async def test_nothing_is_said_of_another_run_unless_the_policy_says_so() -> None:
    for scope, heard in (("run", ""), ("client", "get_order")):
        agent = Agent(scope=scope)
        await agent.turn(Talk().calls("get_order", DENIED, id="A7"))
        later = await agent.turn(Talk("Where is order A8?"), run="another")
        assert (heard in told(later), bool(heard)) == (True, later.facts.failures_injected == 1)


async def test_another_client_hears_nothing_even_of_the_same_run() -> None:
    agent = Agent(scope="client")
    await agent.turn(Talk().calls("get_order", DENIED, id="A7"))
    assert "" == told(await agent.turn(Talk(), client="bob"))


async def test_signals_that_the_policy_leaves_out_are_not_kept() -> None:
    agent = Agent(signals=("loop",))
    exchange = await agent.turn(Talk().calls("get_order", DENIED, id="A7"))
    assert ({}, 0) == (agent.store.records, exchange.facts.failures_injected)


async def test_with_no_tokens_failures_are_kept_and_not_told() -> None:
    agent = Agent(max_tokens=0)
    exchange = await agent.turn(Talk().calls("get_order", DENIED, id="A7"))
    assert (1, 0) == (len(agent.store.records), exchange.facts.failures_injected)
    assert exchange.messages is exchange.original.messages


async def test_the_limit_of_tokens_is_kept() -> None:
    talk = Talk().calls("get_order", DENIED, id="A7").calls("search_docs", TIMED_OUT, query="x", limit=50)
    exchange = await Agent(max_tokens=40).turn(talk)
    assert 1 == exchange.facts.failures_injected
    assert len(told(exchange).split()) <= 40


async def test_at_most_top_k_are_told() -> None:
    talk = Talk().calls("get_order", DENIED, id="A7").calls("search_docs", TIMED_OUT, query="x", limit=50)
    assert 1 == (await Agent(top_k=1).turn(talk)).facts.failures_injected


async def test_without_a_threshold_nothing_is_stopped() -> None:
    talk = Talk()
    for _ in range(5):
        talk.calls("get_order", DENIED, id="A7")
    exchange = await Agent(escalate_after=None).turn(talk, said="Go on.")
    assert "Go on." == (exchange.answer or Answer(())).text


@pytest.mark.parametrize(("ids", "stopped"), [(["A-7", "A-7", "a7"], False), (["A-7", "a7", "A-7", "A-7"], True), (["A-7"] * 3, True)])
async def test_an_agent_that_tries_another_spelling_is_not_stopped_yet(ids: list[str], stopped: bool) -> None:
    talk = Talk()
    for one in ids:
        talk.calls("get_order", NOT_FOUND, id=one)
    exchange = await Agent().turn(talk, said="Go on.")
    assert stopped == ((exchange.answer or Answer(())).text != "Go on.")


@pytest.mark.parametrize("said", ["No, that is wrong.", "Nein, das ist falsch.", "No, eso está mal."])
async def test_a_person_who_objects_again_and_again_is_answered_by_the_model(said: str) -> None:
    talk = Talk("Book it for Tuesday.")
    for _ in range(4):
        talk.says("I have booked the table for Monday at eight.").user(said)
    assert "Go on." == ((await Agent().turn(talk, said="Go on.")).answer or Answer(())).text


async def test_a_build_that_breaks_after_each_edit_is_not_stopped() -> None:
    talk = Talk("Fix the build.")
    for number in range(5):
        broken = "make: *** [all] Error 2\nexit code: 2"
        talk.calls("bash", broken, command="make").calls("edit_file", f"ok {number}", path="a.c", line=number)
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("bash", "edit_file")]
    assert (
        "Go on." == ((await Agent().turn(talk.calls("bash", broken, command="make"), said="Go on.", tools=tools)).answer or Answer(())).text
    )


async def test_where_failures_are_for_the_record_alone_a_chat_without_any_asks_no_store() -> None:
    agent = Agent(NeverAsked(), max_tokens=0, escalate_after=None)
    await agent.turn(Talk().says("It is on page 7.").user("Thanks."))
    agent = Agent(max_tokens=0, escalate_after=None)
    await agent.turn(Talk().calls("get_order", DENIED, id="A7"), run="b")
    await agent.turn(Talk().calls("get_order", DENIED, id="A7").calls("get_order", '{"id": "A7"}', id="A7"), run="b")
    assert ["resolved"] == [record.status for record in agent.store.records.values()]


async def test_a_person_is_asked_in_their_language() -> None:
    talk = Talk("Bitte suche die Bestellung heraus und sage mir, wann sie ankommt.")
    for _ in range(3):
        talk.calls("get_order", DENIED, id="A7")
    agent = Agent()
    exchange = await agent.turn(talk)
    said = (exchange.answer or Answer(())).text
    assert "get_order" in said
    assert {"Wie", "Soll", "soll", "ich"} & set(said.replace("?", " ").split())
    assert 1 == agent.counters.counts["reflection.escalated_ask_human_count"]


async def test_the_same_request_again_is_stopped_again() -> None:
    talk = Talk()
    for _ in range(3):
        talk.calls("get_order", DENIED, id="A7")
    agent = Agent()
    first, second = await agent.turn(talk), await agent.turn(talk)
    assert first.answer == second.answer


async def test_a_broken_invariant_names_the_failure_for_the_operator() -> None:
    talk = Talk()
    for _ in range(3):
        talk.calls("get_order", "Error: the cursor is no longer valid", id="A7")
    agent = Agent()
    with pytest.raises(PolicyBlocked) as raised:
        await agent.turn(talk)
    assert "system_error" == raised.value.param
    assert "get_order" in raised.value.message
    assert "/groundwire/v1/failures" in raised.value.message


async def test_answers_that_keep_breaking_their_schema_end_in_one_error_and_then_go_on() -> None:
    agent, wanted = Agent(), {"response_format": {"type": "json_object"}}
    outcomes = []
    for _ in range(5):
        try:
            await agent.turn(Talk(), said="not JSON", **wanted)
            outcomes.append("asked")
        except PolicyBlocked:
            outcomes.append("refused")
    assert ["asked", "asked", "asked", "refused", "asked"] == outcomes


async def test_an_answer_that_conforms_resolves_it() -> None:
    agent, wanted = Agent(), {"response_format": {"type": "json_object"}}
    await agent.turn(Talk(), said="not JSON", **wanted)
    await agent.turn(Talk(), said='{"a": 1}', **wanted)
    assert ["resolved"] == [record.status for record in agent.store.records.values()]


async def test_an_answer_that_need_not_conform_does_not_resolve_it() -> None:
    agent = Agent()
    await agent.turn(Talk(), said="not JSON", response_format={"type": "json_object"})
    await agent.turn(Talk(), said="not JSON", response_format={"type": "text"})
    assert ["active"] == [record.status for record in agent.store.records.values()]


async def test_an_upstream_that_answers_again_resolves_its_failure() -> None:
    agent = Agent()
    exchange = agent.exchange(Talk())
    await agent.stage.on_request(exchange)
    exchange.unanswered = Unanswered("upstream_timeout", 504)
    await agent.stage.on_failed(exchange)
    (failed,) = agent.store.records.values()
    assert ("upstream_error", "timeout", "active") == (failed.signal_type, failed.code, failed.status)
    await agent.turn(Talk())
    assert ["resolved"] == [record.status for record in agent.store.records.values()]


async def test_an_upstream_that_keeps_failing_is_asked_on() -> None:
    agent = Agent()
    for _ in range(4):
        exchange = agent.exchange(Talk())
        await agent.stage.on_request(exchange)
        assert exchange.answer is None
        exchange.unanswered = Unanswered("upstream_timeout", 504)
        await agent.stage.on_failed(exchange)
    assert [4] == [record.occurrence_count for record in agent.store.records.values()]


async def test_a_smaller_cap_takes_the_place_of_the_larger() -> None:
    talk = Talk().calls("search_docs", TIMED_OUT, query="x", limit=50).calls("search_docs", TIMED_OUT, query="x", limit=10)
    agent = Agent()
    exchange = await agent.turn(talk)
    assert {"superseded": 10, "active": 2} == {r.status: r.recommended_adjustment["max"] for r in agent.store.records.values()}
    assert "at most 2" in told(exchange)
    assert "at most 10" not in told(exchange)


async def test_calls_of_an_answer_that_break_their_schema_are_kept() -> None:
    agent = Agent()
    exchange = agent.exchange(Talk())
    await agent.stage.on_request(exchange)
    call = ToolCall("call_1", "get_order", '{"number": 7}')
    exchange.upstream_answer = exchange.answer = Answer((Choice(0, tool_calls=(call,), finish_reason="tool_calls"),))
    await agent.stage.on_done(exchange)
    assert ["arguments_mismatch"] == [record.code for record in agent.store.records.values()]


async def test_a_call_seen_in_the_answer_and_again_in_the_history_is_one_occurrence() -> None:
    agent = Agent()
    exchange = agent.exchange(Talk())
    await agent.stage.on_request(exchange)
    call = ToolCall("call_1", "get_order", '{"number": 7}')
    exchange.upstream_answer = exchange.answer = Answer((Choice(0, tool_calls=(call,), finish_reason="tool_calls"),))
    await agent.stage.on_done(exchange)
    await agent.turn(Talk().calls_raw("get_order", '{"number": 7}', "Error: invalid arguments"))
    assert [1] == [record.occurrence_count for record in agent.store.records.values()]


async def test_a_store_that_is_away_when_the_answer_has_left_is_the_pipelines_to_log() -> None:
    class Away(MemoryFailures):
        async def relevant(self, **about: Any) -> Any:
            raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable):
        await Agent(Away()).stage.on_done(Agent().exchange(Talk()))


async def test_results_that_the_client_trims_away_are_not_forgotten() -> None:
    agent = Agent()
    talk = Talk().calls("get_order", NOT_FOUND, id="A7")
    await agent.turn(talk)
    talk.messages[2:] = []
    await agent.turn(talk.calls("get_order", '{"id": "A7"}', id="A7"))
    assert ["resolved"] == [record.status for record in agent.store.records.values()]


async def test_failures_are_counted_once_by_signal() -> None:
    talk, agent = Talk().calls("get_order", DENIED, id="A7"), Agent(MemoryFailures(time.time))
    await agent.turn(talk)
    await agent.turn(talk.calls("get_order", '{"id": "A7"}', id="A7"))
    counted = {name: count for name, count in agent.counters.counts.items() if "failures" in name or "resolved" in name}
    assert {"reflection.failures_count": 1, "reflection.failures_tool_error_count": 1, "reflection.resolved_count": 1} == counted


# ---- the block ----

BLOCK = f"{OPENING}\n- a\n{CLOSING}"


@pytest.mark.parametrize(
    ("content", "after"),
    [
        ("said", f"said\n\n{BLOCK}"),
        ("", BLOCK),
        (None, BLOCK),
        ([{"type": "text", "text": "said"}], [{"type": "text", "text": "said"}, {"type": "text", "text": BLOCK}]),
    ],
)
def test_the_block_comes_after_what_the_last_message_says(content: Any, after: Any) -> None:
    made = with_block([{"role": "user", "content": content}], BLOCK)
    assert [{"role": "user", "content": after}] == made


@pytest.mark.parametrize("role", ["assistant", "system", "developer"])
def test_no_other_message_is_touched(role: str) -> None:
    assert with_block([{"role": "user", "content": "a"}, {"role": role, "content": "b"}], BLOCK) is None


@given(
    st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": st.text() | st.none()}), max_size=5)
)
def test_all_messages_before_stay_the_same_objects(messages: list[dict[str, Any]]) -> None:
    made = with_block(messages, BLOCK)
    assert made is None or all(one is other for one, other in zip(made[:-1], messages[:-1], strict=True))


# ---- the policy ----


@pytest.mark.parametrize(
    "options", ["signals: [tool_error, tool_error]", "signals: [bad]", "top_k: 0", "escalate_after: 1", "scope: all", "enforce: true"]
)
async def test_options_that_make_no_sense_are_refused(start: Start, options: str) -> None:
    with pytest.raises(ConfigError, match="reflection"):
        async with start(policy=f"name: p\ndelivery: hold\nstages: [reflection: {{{options}}}]\n"):
            pass


async def test_no_answer_waits_for_a_stage_that_changes_none(start: Start) -> None:
    async with start(policy="name: p\ndelivery: hold\nstages: [reflection: {}]\n") as proxy:
        answer = await proxy.post()
        assert "unchecked" == answer.verdict
