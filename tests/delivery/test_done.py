"""Stages that learn from an answer when it has left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proxy.exchange import Answer, Choice, Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.server.routes import LearningTasks
from proxy.stages.registry import STAGES
from proxy.testing import CountedNames, completion, reply, stream, streamed
from tests.conftest import CHAT, Start

STREAM = {**CHAT, "stream": True}


class Learner(Stage):
    """Keeps what it is told."""

    name = "learner"
    learned: list[str] = []
    told = asyncio.Event()
    go: asyncio.Event | None = None

    async def on_done(self, exchange: Exchange) -> None:
        if self.go is not None:
            await self.go.wait()
        assert exchange.answer is not None
        self.learned.append(exchange.answer.text)
        self.told.set()


class Broken(Stage):
    """Fails to learn."""

    name = "broken"

    async def on_done(self, exchange: Exchange) -> None:
        raise RuntimeError("no")


class Endless(Stage):
    """Never comes to an end."""

    name = "endless"

    async def on_done(self, exchange: Exchange) -> None:
        await asyncio.Event().wait()


class Judge(Stage):
    """Looks at every answer, and refuses one that says LATE."""

    name = "judge"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        return Verdict("judge", "block" if "LATE" in exchange.answer.text else "pass")


class Guard(Stage):
    """Answers itself."""

    name = "guard"

    async def on_request(self, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, "own"),))


ALL = (*STAGES, Learner, Broken, Endless, Judge, Guard)


def policy(delivery: str, *stages: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{', '.join(stages)}]\n"


@pytest.fixture
def learner() -> type[Learner]:
    Learner.learned, Learner.told, Learner.go = [], asyncio.Event(), None
    return Learner


async def heard(learner: type[Learner]) -> list[str]:
    async with asyncio.timeout(2):
        await learner.told.wait()
    return learner.learned


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
@pytest.mark.parametrize("body", [CHAT, STREAM])
@pytest.mark.parametrize("stages", [["learner"], ["learner", "judge"]])
async def test_a_stage_learns_what_the_client_got(
    start: Start, learner: type[Learner], delivery: str, body: dict[str, Any], stages: list[str]
) -> None:
    answer = stream(streamed(["Hel", "lo."])) if "stream" in body else reply(completion("Hello."))
    async with start(answer, policy=policy(delivery, *stages), stages=ALL) as proxy:
        await proxy.post(body)
        assert ["Hello."] == await heard(learner)


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_a_policy_that_only_learns_is_delivered_untouched_and_at_once(start: Start, learner: type[Learner], delivery: str) -> None:
    events, later = streamed(["One. ", "Two."]), asyncio.Event()
    waiting = start(stream(events, wait={2: later}), policy=policy(delivery, "learner"), stages=ALL)
    async with waiting as proxy, proxy.open(STREAM) as response:
        got = b""
        while events[1] not in got:
            got += await response.content.readany()
        later.set()
        got += await response.content.read()
    assert (b"".join(events), "unchecked") == (got, response.headers["x-groundwire-verdict"])


async def test_the_client_does_not_wait(start: Start, learner: type[Learner]) -> None:
    learner.go = asyncio.Event()
    async with start(policy=policy("tap", "learner"), stages=ALL) as proxy:
        assert 200 == (await proxy.post()).status
        assert [] == learner.learned
        learner.go.set()
        assert ["Hello."] == await heard(learner)


async def test_a_stage_learns_what_a_client_that_left_had_got(start: Start, learner: type[Learner]) -> None:
    events = streamed(["One. ", "Two."])
    async with start(stream(events, wait={2: asyncio.Event()}), policy=policy("tap", "learner"), stages=ALL) as proxy:
        response = await proxy.open(STREAM)
        await response.content.readany()
        response.close()
        assert ["One. "] == await heard(learner)


async def test_a_stage_learns_of_an_own_answer(start: Start, learner: type[Learner]) -> None:
    async with start(policy=policy("tap", "guard", "learner"), stages=ALL) as proxy:
        await proxy.post()
        assert ["own"] == await heard(learner)


async def test_where_there_was_no_answer_there_is_nothing_to_learn(start: Start, learner: type[Learner]) -> None:
    async with start(reply({"error": {"message": "m"}}, 400), reply(completion()), policy=policy("tap", "learner"), stages=ALL) as proxy:
        await proxy.post()
        await proxy.post()
        assert ["Hello."] == await heard(learner)


async def test_a_stage_that_was_left_out_learns_nothing(start: Start, learner: type[Learner]) -> None:
    async with start(policy=policy("tap", "learner"), stages=ALL) as proxy:
        await proxy.post(x_groundwire_skip="learner")
        await proxy.post()
        await heard(learner)
    assert ["Hello."] == learner.learned


async def test_a_stage_that_fails_does_not_keep_the_next_from_learning(
    start: Start, learner: type[Learner], caplog: pytest.LogCaptureFixture
) -> None:
    slow = "endless: {timeout_ms: 20}"
    async with start(policy=policy("tap", "broken", f"{{{slow}}}", "learner"), stages=ALL) as proxy:
        record = await proxy.record(await proxy.post())
        assert ["Hello."] == await heard(learner)
    assert "unchecked" == record["outcome"]
    assert ["stage broken (done) failed", "stage endless (done) failed"] == [
        r.getMessage().split(": ", 1)[1] for r in caplog.records if "(done)" in r.getMessage()
    ]


async def test_a_server_that_stops_waits_for_what_is_being_learned(start: Start, learner: type[Learner]) -> None:
    learner.go = asyncio.Event()
    async with start(policy=policy("tap", "learner"), stages=ALL) as proxy:
        await proxy.post()
        asyncio.get_running_loop().call_later(0.05, learner.go.set)
    assert ["Hello."] == learner.learned


async def test_what_does_not_fit_is_dropped_and_counted() -> None:
    counters, done = CountedNames(), []
    learning_tasks = LearningTasks(counters, places=2)

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)

    assert [True, True, False] == [learning_tasks.submit(work) for _ in range(3)]
    await learning_tasks.stop()
    assert ({"context.learning_dropped_count": 1}, 2) == (counters.counts, len(done))
    assert learning_tasks.submit(work)
    await learning_tasks.stop()


async def test_what_takes_too_long_at_the_end_is_cancelled() -> None:
    learning_tasks, cancelled = LearningTasks(CountedNames()), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    learning_tasks.submit(work)
    await asyncio.sleep(0)
    await learning_tasks.stop(0.01)
    assert [1] == cancelled
