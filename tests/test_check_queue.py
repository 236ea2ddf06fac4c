import asyncio
from collections.abc import Sequence

import pytest

from proxy.check_queue import CheckQueue
from proxy.errors import Overloaded
from proxy.exchange import Evidence, Exchange, Verdict
from proxy.pipeline import Pipeline
from proxy.ports.stage import Stage, StageOptions
from proxy.testing import make_exchange, make_ports

PASSAGE = Evidence("The tower is in Paris.")


def computing(ran: list[str], go_on: asyncio.Event, options: StageOptions | None = None, **attributes: object) -> Stage:
    """A stage that takes turns, notes whose check begins, and is done when `go_on` is set."""

    async def hook(self: Stage, exchange: Exchange) -> Verdict:
        ran.append(exchange.id)
        await go_on.wait()
        return Verdict("probe", "pass")

    kind = type("Probe", (Stage,), {"name": "probe", "takes_turns": True, "on_request": hook, "on_answer": hook, **attributes})
    return kind(options or StageOptions(), make_ports())


def asked(name: str, received_at: float, passages: Sequence[Evidence] = (PASSAGE,)) -> Exchange:
    exchange = make_exchange()
    exchange.id, exchange.received_at, exchange.passages = name, received_at, passages
    return exchange


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_oldest_exchange_has_the_next_turn() -> None:
    ran, go_on = list[str](), asyncio.Event()
    pipeline = Pipeline([computing(ran, go_on)], queue=CheckQueue(1))
    tasks = []
    for exchange in (asked("first", 3.0), asked("young", 2.0), asked("old", 1.0)):
        tasks.append(asyncio.create_task(pipeline.answer(exchange)))
        await settle()
    assert ["first"] == ran
    go_on.set()
    await asyncio.gather(*tasks)
    assert ["first", "old", "young"] == ran


async def test_a_full_queue_leaves_the_checks_unchecked_at_once_and_later() -> None:
    ran, go_on = list[str](), asyncio.Event()
    pipeline = Pipeline([computing(ran, go_on)], queue=CheckQueue(1, max_waiting=0))
    busy = asyncio.create_task(pipeline.answer(asked("busy", 1.0)))
    await settle()
    exchange = asked("late", 2.0)
    await pipeline.answer(exchange)
    go_on.set()
    await busy
    await pipeline.answer(exchange)  # a turn is free again, but half a check is none
    assert ["busy"] == ran
    assert [("unchecked", "unchecked_overloaded")] * 2 == [(v.outcome, v.code) for v in exchange.verdicts]
    assert "unchecked" == exchange.outcome


async def test_nobody_waits_longer_than_the_bound() -> None:
    ran, go_on = list[str](), asyncio.Event()
    pipeline = Pipeline([computing(ran, go_on)], queue=CheckQueue(1, max_wait_s=0.001))
    busy = asyncio.create_task(pipeline.answer(asked("busy", 1.0)))
    await settle()
    exchange = asked("late", 2.0)
    await pipeline.answer(exchange)
    assert ["unchecked_overloaded"] == [v.code for v in exchange.verdicts]
    go_on.set()
    await busy
    await pipeline.answer(after := asked("after", 3.0))
    assert ["pass"] == [v.outcome for v in after.verdicts]


async def test_a_closed_policy_answers_503() -> None:
    ran, go_on = list[str](), asyncio.Event()
    stage = computing(ran, go_on, StageOptions(on_error="closed"))
    pipeline = Pipeline([stage], queue=CheckQueue(1, max_waiting=0))
    busy = asyncio.create_task(pipeline.request(asked("busy", 1.0)))
    await settle()
    exchange = asked("late", 2.0)
    with pytest.raises(Overloaded) as caught:
        await pipeline.request(exchange)
    assert ("check_overloaded", (("retry-after", "1"),), "error") == (caught.value.param, caught.value.headers, exchange.outcome)
    go_on.set()
    await busy


async def test_waiting_is_not_the_stages_time() -> None:
    ran, go_on = list[str](), asyncio.Event()
    pipeline = Pipeline([computing(ran, go_on, StageOptions(timeout_ms=1000))], queue=CheckQueue(1))
    busy, exchange = asyncio.create_task(pipeline.answer(asked("busy", 1.0))), asked("late", 2.0)
    await settle()
    late = asyncio.create_task(pipeline.answer(exchange))
    await asyncio.wait((late,), timeout=0.05)
    go_on.set()
    await asyncio.gather(busy, late)
    assert 40 > exchange.timings["probe.answer"]


async def test_a_short_chat_without_passages_and_a_stage_that_computes_nothing_take_no_turn() -> None:
    ran, go_on = list[str](), asyncio.Event()
    queue = CheckQueue(1, max_waiting=0)
    busy = asyncio.create_task(Pipeline([computing(ran, go_on)], queue=queue).answer(asked("busy", 1.0)))
    await settle()
    done = asyncio.Event()
    done.set()
    await Pipeline([computing(ran, done)], queue=queue).answer(asked("chat", 2.0, ()))
    await Pipeline([computing(ran, done, takes_turns=False)], queue=queue).answer(asked("counts", 3.0))
    assert ["busy", "chat", "counts"] == ran
    go_on.set()
    await busy


async def test_who_leaves_the_queue_takes_no_turn_along() -> None:
    ran, go_on = list[str](), asyncio.Event()
    pipeline = Pipeline([computing(ran, go_on)], queue=CheckQueue(1))
    busy = asyncio.create_task(pipeline.answer(asked("busy", 1.0)))
    await settle()
    gone = asyncio.create_task(pipeline.answer(asked("gone", 2.0)))
    await settle()
    gone.cancel()
    await settle()
    go_on.set()
    await busy
    await pipeline.answer(asked("after", 3.0))
    assert ["busy", "after"] == ran
