"""The cap on concurrent calls: how many at once, who comes next, and that no place is ever lost."""

import asyncio

import pytest

from proxy.errors import Overloaded, UpstreamTimeout, UpstreamUnreachable
from proxy.upstreams.resilience import Slots
from tests.upstreams.test_resilience import CALL, FakeReply, FakeUpstream, resilient


async def _settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_only_so_many_calls_run_at_once() -> None:
    gate = asyncio.Event()
    upstream = FakeUpstream("a", FakeReply(200), gate=gate)
    capped = resilient(upstream, slots=Slots(2, 8))
    tasks = [asyncio.create_task(capped.send(CALL, {})) for _ in range(5)]
    await _settle()
    assert 2 == len(upstream.calls)
    gate.set()
    await _settle()
    assert 2 == len(upstream.calls), "a place is held until the reply is closed"
    for done, task in enumerate(tasks, 1):
        await (await task).close()
        await _settle()
        assert min(5, 2 + done) == len(upstream.calls)


async def test_who_waits_longest_is_next() -> None:
    slots, order = Slots(1, 8), []
    assert slots.take()

    async def wait(name: str) -> None:
        await slots.acquire("a")
        order.append(name)

    tasks = [asyncio.create_task(wait(name)) for name in "abc"]
    await _settle()
    assert not slots.take(), "nobody overtakes the queue"
    for _ in tasks:
        slots.release()
        await _settle()
    assert ["a", "b", "c"] == order


async def test_a_full_queue_is_overloaded_with_a_time_to_come_back() -> None:
    slots = Slots(1, 1)
    slots.take()
    waiting = asyncio.create_task(slots.acquire("main"))
    await _settle()
    with pytest.raises(Overloaded, match="upstream main is busy and its queue of 1 is full") as raised:
        await slots.acquire("main")
    assert (503, "overloaded", (("retry-after", "1"),)) == (raised.value.status, raised.value.code, raised.value.headers)
    slots.release()
    await waiting


async def test_a_waiter_that_is_cancelled_frees_its_place_in_the_queue() -> None:
    slots = Slots(1, 1)
    slots.take()
    leaves = asyncio.create_task(slots.acquire("a"))
    await _settle()
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    stays = asyncio.create_task(slots.acquire("a"))
    await _settle()
    slots.release()
    await stays


async def test_a_place_that_comes_while_its_waiter_is_cancelled_goes_to_the_next() -> None:
    slots = Slots(1, 2)
    slots.take()
    leaves, stays = (asyncio.create_task(slots.acquire("a")) for _ in range(2))
    await _settle()
    slots.release()
    leaves.cancel()
    await asyncio.gather(leaves, return_exceptions=True)
    await _settle()
    assert (True, True) == (leaves.cancelled(), stays.done())


@pytest.mark.parametrize("error", [UpstreamTimeout("slow"), UpstreamUnreachable("no")])
async def test_an_error_gives_the_place_back(error: Exception) -> None:
    slots = Slots(1, 0)
    with pytest.raises(type(error)):
        await resilient(FakeUpstream("a", error), slots=slots).send(CALL, {})
    assert slots.take()


async def test_a_call_that_is_cancelled_gives_the_place_back() -> None:
    slots = Slots(1, 0)
    task = asyncio.create_task(resilient(FakeUpstream("a", FakeReply(200), gate=asyncio.Event()), slots=slots).send(CALL, {}))
    await _settle()
    assert not slots.take()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert slots.take()


async def test_closing_a_reply_twice_gives_one_place_back() -> None:
    slots, inner = Slots(1, 0), FakeReply(200)
    reply = await resilient(FakeUpstream("a", inner), slots=slots).send(CALL, {})
    await reply.close()
    await reply.close()
    assert (1, True, False) == (inner.closed, slots.take(), slots.take())


async def test_reading_a_reply_does_not_give_the_place_back() -> None:
    slots = Slots(1, 0)
    reply = await resilient(FakeUpstream("a", FakeReply(200)), slots=slots).send(CALL, {})
    await reply.read()
    assert not slots.take()
    await reply.close()
    assert slots.take()
