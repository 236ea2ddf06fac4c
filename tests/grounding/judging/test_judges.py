"""The judge that a policy names: what it is asked, what is remembered, what it may cost, and what becomes of its silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.errors import StoreUnavailable, UpstreamRefused, UpstreamTimeout
from proxy.exchange import Exchange
from proxy.grounding.judging.judges import (
    MAX_CALLS,
    PAUSE_AFTER,
    DailyBudget,
    UpstreamJudge,
    UpstreamSession,
    apply_temperature,
    batches,
    make_judge,
)
from proxy.grounding.judging.questions import JudgeOptions, SecondOpinion, relevance_question, support_question
from proxy.grounding.judging.readouts import ChatReadout, DecisionReadout, JudgedBatch, TokenReadout
from proxy.ports.deadline import within
from proxy.ports.judge import Builtin, JudgeAnswer, JudgeQuestion
from proxy.testing import make_exchange, make_ports

OPTIONS = JudgeOptions(upstream="judge", model="small")
YES = {"supported": 0.9, "contradicted": 0.05, "neither": 0.05}
DAY_S = 86_400


class Readout:
    """Answers as it is told, and keeps what it was asked."""

    max_questions = 4
    reorders = frozenset(("choice",))

    def __init__(self, says: Callable[[JudgeQuestion, bool], Any] = lambda question, reordered: YES, usd: float | None = 0.5) -> None:
        self._says, self._usd = says, usd
        self.calls: list[list[str]] = []

    async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
        self.calls.append([question.statement for question in questions])
        answers = [self._says(question, reordered) for question in questions]
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return JudgedBatch([JudgeAnswer(answer) if isinstance(answer, dict) else answer for answer in answers], 10, 2, self._usd)


def questions(*statements: str) -> list[JudgeQuestion]:
    return [support_question(statement, ["evidence"]) for statement in statements]


def session(readout: Readout, exchange: Exchange | None = None, **options: Any) -> UpstreamSession:
    made = JudgeOptions(upstream="judge", model="small", **options)
    return UpstreamJudge(readout, made).session(exchange or make_exchange(), "claims")


async def choices(asking: UpstreamSession, *statements: str) -> list[str]:
    return [answer.choice for answer in await asking.answers(questions(*statements))]


async def test_questions_that_are_known_together_go_out_in_few_calls() -> None:
    exchange, readout = make_exchange(), Readout()
    assert ["supported"] * 5 == await choices(session(readout, exchange), *"abcde")
    assert [list("abcd"), ["e"]] == readout.calls
    use = exchange.facts.judge
    assert use is not None
    assert ("judge/small", 5, 0, 2, 20, 4, 1.0, []) == (
        use.by,
        use.asked,
        use.cached,
        use.calls,
        use.input_tokens,
        use.output_tokens,
        use.usd,
        use.failed,
    )


async def test_what_was_answered_is_not_asked_again_by_the_same_client() -> None:
    readout, exchange = Readout(), make_exchange()
    judge = UpstreamJudge(readout, OPTIONS)
    await judge.session(exchange, "claims").answers(questions("a", "b"))
    again = await judge.session(exchange, "citations").answers(questions("b", "c", "a"))
    assert [True, False, True] == [answer.cached for answer in again]
    assert [["a", "b"], ["c"]] == readout.calls
    other = make_exchange()
    other.client = "someone else"
    await judge.session(other, "claims").answers(questions("a"))
    assert ["a"] == readout.calls[-1]
    assert 2 == exchange.facts.judge.cached if exchange.facts.judge else False


async def test_where_one_piece_of_evidence_ends_is_part_of_what_is_remembered() -> None:
    readout = Readout()
    asking = session(readout)
    await asking.answers([support_question("a", ["xy", "z"])])
    await asking.answers([support_question("a", ["x", "yz"])])
    assert 2 == len(readout.calls)


@pytest.mark.parametrize(
    ("probabilities", "choice"),
    [
        ({"supported": 0.75, "contradicted": 0.2, "neither": 0.05}, "supported"),
        ({"supported": 0.4, "contradicted": 0.35, "neither": 0.25}, ""),
        ({"supported": 0.1, "contradicted": 0.1, "neither": 0.8}, "neither"),
    ],
)
async def test_a_choice_counts_from_its_threshold(probabilities: dict[str, float], choice: str) -> None:
    assert [choice] == await choices(session(Readout(lambda question, reordered: probabilities)), "a")


async def test_near_a_threshold_it_is_asked_once_more_the_other_way_round_and_the_mean_counts() -> None:
    first, other = {"supported": 0.65, "contradicted": 0.3, "neither": 0.05}, {"supported": 0.45, "contradicted": 0.5, "neither": 0.05}
    readout = Readout(lambda question, reordered: (other if reordered else first) if question.statement == "near" else YES)
    (near, clear) = await session(readout).answers(questions("near", "clear"))
    assert [["near", "clear"], ["near"]] == readout.calls
    assert (pytest.approx(0.55), "", "supported") == (near.probabilities["supported"], near.choice, clear.choice)


async def test_an_answer_that_cannot_be_used_is_no_choice_and_is_asked_again() -> None:
    readout = Readout(lambda question, reordered: JudgeAnswer(problem="does not sum to one"))
    asking = session(readout)
    assert ["", ""] == [*await choices(asking, "a"), *await choices(asking, "a")]
    assert 2 == len(readout.calls)


# ---- away, too slow, too dear ----


async def test_a_judge_that_fails_is_said_once_and_changes_no_verdict() -> None:
    exchange = make_exchange()
    asking = session(Readout(lambda question, reordered: UpstreamTimeout("no answer")), exchange)
    (answer,) = await asking.answers(questions("a"))
    await asking.answers(questions("b"))
    assert ({}, "", True) == (answer.probabilities, answer.choice, "no answer" in answer.problem)
    assert (["judge_unavailable"], "unchecked") == (exchange.warnings, exchange.outcome)


async def test_what_the_provider_writes_to_the_operator_is_not_for_clients() -> None:
    exchange = make_exchange()
    refused = UpstreamRefused("upstream judge answered with status 401: Incorrect API key provided: sk-abc", 401)
    await session(Readout(lambda question, reordered: refused), exchange).answers(questions("a"))
    assert exchange.facts.judge is not None
    assert ["the judge's upstream refused the question with status 401"] == exchange.facts.judge.failed


async def test_one_call_that_fails_leaves_the_others_answers() -> None:
    readout = Readout(lambda question, reordered: UpstreamTimeout("no answer") if question.statement == "e" else YES)
    assert [*["supported"] * 4, ""] == await choices(session(readout), *"abcde")


async def test_a_judge_that_is_too_slow_is_not_waited_for() -> None:
    class Slow(Readout):
        async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
            await asyncio.sleep(3600)
            return await super().ask(questions, timeout_s)

    assert [""] == await choices(session(Slow(), timeout_ms=10), "a")


async def test_a_check_s_deadline_is_the_judge_s_too() -> None:
    class Slow(Readout):
        async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
            await asyncio.sleep(3600)
            return await super().ask(questions, timeout_s)

    async with within(0.6):
        assert [""] == await choices(session(Slow(), timeout_ms=60_000), "a")


async def test_a_failure_that_nobody_expects_leaves_nobody_waiting() -> None:
    class Broken(Readout):
        async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
            raise ZeroDivisionError

    asking = session(Broken())
    asking.join()
    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(choices(asking, "a"), 5)


async def test_after_failures_in_a_row_nobody_waits_for_it() -> None:
    readout = Readout(lambda question, reordered: UpstreamTimeout("no answer"))
    asking = session(readout)
    for i in range(PAUSE_AFTER + 2):
        await choices(asking, str(i))
    assert PAUSE_AFTER == len(readout.calls)


async def test_a_spent_budget_is_said_and_nobody_is_asked_until_midnight() -> None:
    now = [DAY_S * 20_000.0]
    exchange, readout = make_exchange(), Readout(usd=0.5)
    judge = UpstreamJudge(readout, OPTIONS, DailyBudget(1.0, lambda: now[0]))
    asking = judge.session(exchange, "claims")
    assert ["supported", "supported", ""] == [choice for name in "abc" for choice in await choices(asking, name)]
    assert ["judge_over_budget"] == exchange.warnings
    now[0] += DAY_S
    assert ["supported"] == await choices(asking, "c")


async def test_questions_that_wait_for_their_place_are_not_asked_once_the_budget_is_spent() -> None:
    all_busy = asyncio.Barrier(MAX_CALLS)

    class Slow(Readout):
        async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
            await all_busy.wait()
            return await super().ask(questions, timeout_s, reordered=reordered)

    readout = Slow(usd=0.5)
    judge = UpstreamJudge(readout, OPTIONS, DailyBudget(1.0))
    asking = [asyncio.create_task(choices(judge.session(make_exchange(), "claims"), str(i))) for i in range(3 * MAX_CALLS)]
    found = [choice for (choice,) in await asyncio.gather(*asking)]
    assert (MAX_CALLS, MAX_CALLS) == (len(readout.calls), found.count("supported"))


async def test_an_answer_that_cannot_be_read_is_asked_for_once_more_and_both_are_paid() -> None:
    class Unreadable(Readout):
        async def ask(self, questions: Sequence[JudgeQuestion], timeout_s: float, *, reordered: bool = False) -> JudgedBatch:
            batch = await super().ask(questions, timeout_s, reordered=reordered)
            return batch if len(self.calls) == 2 else replace(batch, answers=())

    exchange, readout = make_exchange(), Unreadable(usd=0.5)
    asking = UpstreamJudge(readout, OPTIONS, DailyBudget(2.0)).session(exchange, "claims")
    assert [["supported"], [""], [""]] == [await choices(asking, name) for name in "abc"]
    use = exchange.facts.judge
    assert use is not None
    assert (4, 4, 2.0) == (len(readout.calls), use.calls, use.usd)
    assert ["an answer that cannot be read", "judge_over_budget"] == use.failed


async def test_a_budget_cannot_be_kept_where_no_price_is_known() -> None:
    readout = Readout(usd=None)
    asking = UpstreamJudge(readout, OPTIONS, DailyBudget(1.0)).session(make_exchange(), "claims")
    assert ["supported", ""] == [*await choices(asking, "a"), *await choices(asking, "b")]
    unbounded = session(readout)
    assert ["supported", "supported"] == [*await choices(unbounded, "a"), *await choices(unbounded, "b")]


class Spent:
    """A `proxy.ports.Spending` that several processes share; `away` while it cannot be reached."""

    def __init__(self) -> None:
        self.usd, self.away = 0.0, False

    async def add(self, name: str, day: int, usd: float) -> float:
        if self.away:
            raise StoreUnavailable("the store is away")
        self.usd += usd
        return self.usd


def of_process(spent: Spent, max_usd: float = 1.0) -> DailyBudget:
    return DailyBudget(max_usd, lambda: DAY_S * 20_000.0, spending=spent, name="rag/a/b")


async def test_all_processes_share_the_budget() -> None:
    spent = Spent()
    first, second = of_process(spent), of_process(spent)
    await first.add(0.75)
    assert [False, False] == [await first.is_spent(), await second.is_spent()]
    await second.add(0.25)
    assert [False, True] == [await first.is_spent(), await second.is_spent()]
    await first.add(0.01)  # the one call that a process may pay before it learns of the others'
    assert await first.is_spent()


async def test_a_new_process_knows_what_was_spent_before_it() -> None:
    spent = Spent()
    await of_process(spent).add(1.0)
    assert await of_process(spent).is_spent()


async def test_a_process_counts_for_itself_while_the_store_is_away() -> None:
    spent = Spent()
    spent.away, budget = True, of_process(spent)
    assert not await budget.is_spent()
    await budget.add(1.0)
    assert (True, 0.0) == (await budget.is_spent(), spent.usd)


async def test_what_yesterday_s_last_call_cost_is_not_counted_today() -> None:
    now, midnight = [DAY_S * 20_000.0 - 1], asyncio.Event()

    class Slow(Spent):
        async def add(self, name: str, day: int, usd: float) -> float:
            if day == 19_999:
                await midnight.wait()
                return 1.0
            return 0.0

    budget = DailyBudget(1.0, lambda: now[0], spending=Slow(), name="rag/a/b")
    adding = asyncio.create_task(budget.add(0.5))
    await asyncio.sleep(0)
    now[0] += 2
    assert not await budget.is_spent()
    midnight.set()
    await adding
    assert not await budget.is_spent()


async def test_a_store_that_does_not_answer_does_not_keep_the_judge_s_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.grounding.judging.judges.STORE_TIMEOUT_S", 0.05)

    class Hanging(Spent):
        async def add(self, name: str, day: int, usd: float) -> float:
            await asyncio.Event().wait()
            return 0.0

    budget = of_process(Hanging())
    async with asyncio.timeout(10):
        await budget.add(1.0)
    assert await budget.is_spent()


# ---- asking together ----


async def test_those_who_have_joined_ask_together() -> None:
    readout = Readout()
    asking = session(readout)

    async def work(name: str, waits: int) -> list[str]:
        asking.join()
        try:
            for _ in range(waits):
                await asyncio.sleep(0)
            return await choices(asking, name) if name != "-" else []
        finally:
            asking.leave()

    found = await asyncio.gather(work("a", 0), work("b", 7), work("-", 12), work("c", 3))
    assert [["supported"], ["supported"], [], ["supported"]] == found
    assert 1 == len(readout.calls)


async def test_what_was_begun_ahead_is_waited_for_and_not_asked_twice() -> None:
    readout = Readout()
    asking = session(readout)
    asking.ahead(questions("a", "b"))
    assert ["supported", "supported"] == await choices(asking, "b", "c")
    assert [["a", "b"], ["c"]] == readout.calls


async def test_a_session_that_is_closed_asks_no_more() -> None:
    readout = Readout()
    asking = session(readout)
    asking.ahead(questions("a"))
    asking.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert [] == readout.calls


# ---- making ----


def test_the_kind_says_how_it_is_asked() -> None:
    ports = make_ports()
    made = [
        make_judge(JudgeOptions(upstream="a", model="b", kind=kind, readout=readout), ports)  # type: ignore[arg-type]
        for kind, readout in (("chat", "json"), ("chat", "logprobs"), ("decisions", "json"))
    ]
    assert [ChatReadout, TokenReadout, DecisionReadout] == [type(one._readout) for one in made if isinstance(one, UpstreamJudge)]


def test_without_an_upstream_the_models_of_this_process_judge() -> None:
    ports = make_ports()
    own = make_judge(JudgeOptions(kind="builtin", model="nli"), ports)
    assert ("nli", "") == (own.local_model, make_judge(None, ports).local_model)
    assert isinstance(own, Builtin)
    assert own.session(make_exchange(), "claims") is None


def test_a_second_opinion_is_a_chat_judge_of_what_is_unsure() -> None:
    found = SecondOpinion(upstream="a", model="b", timeout_s=2, params={"max_tokens": 9}).judge
    assert JudgeOptions(upstream="a", model="b", kind="chat", ask="unsure", timeout_ms=2000, params={"max_tokens": 9}) == found


@given(st.floats(0.05, 20), st.lists(st.floats(0.001, 1), min_size=2, max_size=5))
def test_a_temperature_keeps_the_order_and_the_sum(temperature: float, weights: list[float]) -> None:
    given_ = {str(i): weight / sum(weights) for i, weight in enumerate(weights)}
    found = apply_temperature(given_, temperature)
    assert 1 == pytest.approx(sum(found.values()))
    best = max(given_, key=lambda choice: given_[choice])
    assert max(found.values()) == pytest.approx(found[best])


@given(
    st.lists(st.tuples(st.text(max_size=30), st.sampled_from(["", "a" * 10, "b" * 60, "c" * 200]), st.booleans()), max_size=25),
    st.integers(1, 6),
    st.integers(1, 300),
)
def test_every_question_is_in_one_call_and_every_call_within_its_bounds(given_: list[tuple[str, str, bool]], most: int, chars: int) -> None:
    asked = [(support_question if support else relevance_question)(statement, [evidence]) for statement, evidence, support in given_]
    calls = list(batches(asked, most, chars))
    assert list(range(len(asked))) == sorted(i for call in calls for i in call)
    for call in calls:
        assert 0 < len(call) <= most
        assert 1 == len({asked[i].purpose for i in call})
        evidence = {asked[i].evidence for i in call}
        size = sum(len(asked[i].statement) for i in call) + sum(len(piece) for pieces in evidence for piece in pieces)
        assert len(call) == 1 or size <= chars
