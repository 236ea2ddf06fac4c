"""Work beside the event loop: where it runs, and that it ends when nobody waits for it."""

import asyncio
import gc
import signal
import threading
import time
import weakref
from contextlib import nullcontext
from typing import Any

import pytest

from proxy.exchange import Evidence, Request
from proxy.offloop import (
    LARGE,
    SLICE_S,
    Abandoned,
    Allowance,
    Breather,
    OverBudget,
    allowed,
    call_before_stop,
    check,
    collect_garbage,
    each,
    run_in_thread_if_large,
    uncounted,
)
from proxy.pipeline import Pipeline
from proxy.ports.stage import Stage
from proxy.stages.claims import Claims
from proxy.stages.clash import Clash
from proxy.stages.poisoning import Poisoning
from proxy.stages.relevance import Relevance
from proxy.stages.validation import Validation
from proxy.testing import make_exchange, make_ports

IDLE_WITHIN_S = 0.25
"""For every thread: 50 ms each for what is between two checks; a machine with much else to do has three goes."""


async def thread_of(size: int) -> int:
    return await run_in_thread_if_large(size, threading.get_ident)


async def test_what_is_small_runs_where_it_stands() -> None:
    assert threading.get_ident() == await thread_of(LARGE - 1)


async def test_what_is_large_runs_in_a_thread() -> None:
    assert threading.get_ident() != await thread_of(LARGE)


@pytest.mark.parametrize("size", [0, LARGE])
async def test_it_returns_and_raises_what_the_work_does(size: int) -> None:
    assert 3 == await run_in_thread_if_large(size, int, "3")
    with pytest.raises(ValueError, match="invalid literal"):
        await run_in_thread_if_large(size, int, "x")


@pytest.mark.parametrize("size", [0, LARGE])
async def test_what_is_done_once_a_process_is_taken_from_nobodys_time(size: int) -> None:
    def work(once: bool) -> None:
        until = time.thread_time() + 0.05
        with uncounted() if once else nullcontext():
            while time.thread_time() < until:
                pass

    spent = []
    for once in (True, False):
        with allowed(allowance := Allowance(1.0)):
            await run_in_thread_if_large(size, work, once)
        spent.append(allowance.spent_s)
    assert spent[0] < 0.025 < 0.05 <= spent[1]


async def test_a_thread_ends_when_its_caller_is_cancelled() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            for _ in each(iter(int, 1)):
                pass
        except Abandoned:
            ended.set()
            raise

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await run_in_thread_if_large(LARGE, work)
    assert await asyncio.to_thread(ended.wait, 1.0)


async def test_work_that_waited_for_a_thread_in_vain_does_not_begin() -> None:
    begun: list[bool] = []
    asyncio.get_running_loop().set_default_executor(one := __import__("concurrent.futures").futures.ThreadPoolExecutor(1))
    go = threading.Event()
    busy = asyncio.ensure_future(asyncio.to_thread(go.wait, 1.0))
    await asyncio.sleep(0.01)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await run_in_thread_if_large(LARGE, begun.append, True)
    go.set()
    await busy
    await asyncio.to_thread(int)
    one.shutdown()
    assert [] == begun


def test_outside_of_such_work_a_check_is_nothing() -> None:
    check()
    assert [1, 2] == list(each([1, 2]))


async def test_a_breather_lets_others_in() -> None:
    turns: list[int] = []
    other = asyncio.ensure_future(asyncio.sleep(0, turns.append(1)))
    breather, until = Breather(), time.perf_counter() + 10  # seconds: a busy machine may stand still for many slices
    while time.perf_counter() < until and not other.done():
        await breather.yield_if_due()
    assert other.done()


def huge() -> Any:
    """Some megabytes of everything."""
    texts = [f"Item {i} costs {i} euros in shop {i * 7}, and I live in town {i}. " * 40 for i in range(1500)]
    said = [{"role": "user", "content": text} for text in texts]
    exchange = make_exchange([*said, {"role": "user", "content": "What does item 7 cost?"}])
    passages = tuple(Evidence(text, f"s{i}") for i, text in enumerate(texts))
    exchange.original = Request("gpt-4o", exchange.original.messages, (), {}, False, passages=passages, size=10_000_000)
    exchange.passages, exchange.evidence = passages, list(passages)
    return exchange


async def all_idle() -> float:
    """Seconds until every worker thread is free."""
    workers = 32
    asyncio.get_running_loop()
    meeting, started = threading.Barrier(workers, timeout=20), time.perf_counter()
    await asyncio.gather(*(asyncio.to_thread(meeting.wait) for _ in range(workers)))
    return time.perf_counter() - started


@pytest.mark.parametrize("kind", [Validation, Poisoning, Clash, Relevance, Claims], ids=lambda kind: kind.name)
async def test_a_stage_whose_time_is_over_leaves_no_thread_at_work(kind: type[Stage]) -> None:
    waited: list[float] = []
    while len(waited) < 3 and (not waited or waited[-1] >= IDLE_WITHIN_S):
        waited.append(await idle_after(kind))
    assert waited[-1] < IDLE_WITHIN_S, waited


async def idle_after(kind: type[Stage]) -> float:
    """Seconds until every worker thread is free when the stage's time is over."""
    from concurrent.futures import ThreadPoolExecutor

    asyncio.get_running_loop().set_default_executor(pool := ThreadPoolExecutor(32))
    stage = kind(kind.Options(timeout_ms=60), make_ports())
    exchange = huge()
    await Pipeline([stage]).request(exchange)
    stage.release(exchange)
    waited = await all_idle()
    pool.shutdown()
    return waited


def busy(seconds: float, done: list[int]) -> int:
    """Computes so long, in a loop that `check`s; returns the thread."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        check()
    done.append(threading.get_ident())
    return done[-1]


async def test_what_is_small_but_takes_long_is_begun_again_in_a_thread() -> None:
    done: list[int] = []
    assert threading.get_ident() != await run_in_thread_if_large(0, busy, 0.03, done)
    assert 1 == len(done)


async def test_work_past_its_processor_time_ends() -> None:
    whole, done = Allowance(0.02), list[int]()
    with pytest.raises(OverBudget), allowed(whole.part(10)):
        await run_in_thread_if_large(LARGE, busy, 10.0, done)
    assert [] == done
    assert whole.over()


async def test_one_stage_cannot_take_what_is_the_exchanges() -> None:
    whole = Allowance(10)
    with pytest.raises(OverBudget), allowed(whole.part(0.02)):
        await run_in_thread_if_large(0, busy, 10.0, [])
    with allowed(whole.part(0.5)):
        await run_in_thread_if_large(0, busy, 0.001, [])
    assert 0.02 <= whole.spent_s < 5


async def test_waiting_takes_no_processor_time() -> None:
    whole = Allowance(0.02)
    with allowed(whole):
        await run_in_thread_if_large(LARGE, time.sleep, 0.05)
    assert not whole.over()


async def test_standing_still_on_the_event_loop_takes_next_to_no_processor_time() -> None:
    whole = Allowance(10)
    with allowed(whole):
        await run_in_thread_if_large(0, busy, 0.002, [])
        await run_in_thread_if_large(0, time.sleep, 0.05)
    assert 0.002 <= whole.spent_s < 0.04


async def test_many_short_pieces_are_charged_for_what_they_take() -> None:
    whole, began = Allowance(10), time.thread_time()
    with allowed(whole):
        for _ in range(2000):
            await run_in_thread_if_large(0, sum, range(300))
    assert 0.4 * (time.thread_time() - began) < whole.spent_s


# ---- the garbage collector ----


class Node:
    """One that names itself: a cycle, which only the collector ends."""

    def __init__(self) -> None:
        self.itself = self


async def rounds_until_collected(*busy: bool) -> int:
    """How often `is_busy` was asked before a cycle that was looked at twice is gone; the last of `busy` is the answer from then on."""
    node = Node()
    gone = weakref.ref(node)
    gc.collect()
    del node
    asked = 0

    def is_busy() -> bool:
        nonlocal asked
        asked += 1
        return busy[min(asked, len(busy)) - 1]

    task = asyncio.create_task(collect_garbage(is_busy, every_s=0))
    try:
        async with asyncio.timeout(10):
            while gone() is not None:
                await asyncio.sleep(0)
    finally:
        task.cancel()
    return asked


async def test_a_cycle_that_was_looked_at_before_is_collected() -> None:
    assert 1 == await rounds_until_collected(False)


async def test_large_bodies_put_the_collector_off() -> None:
    assert 3 == await rounds_until_collected(True, True, False)


async def test_large_bodies_do_not_put_it_off_for_ever() -> None:
    assert 9 == await rounds_until_collected(True)


async def test_short_pieces_one_after_the_other_let_others_go_first() -> None:
    turns, over = [0], False

    async def other() -> None:
        while not over:
            turns[0] += 1
            await asyncio.sleep(0)

    def short() -> None:
        until = time.perf_counter() + SLICE_S / 4
        while time.perf_counter() < until:
            pass

    beside = asyncio.create_task(other())
    for _ in range(40):
        await run_in_thread_if_large(0, short)
    over = True
    await beside
    assert turns[0] >= 5


async def test_a_signal_is_heard_before_the_servers_own_handler() -> None:
    heard: list[str] = []
    before = signal.signal(signal.SIGTERM, lambda *_: heard.append("server"))
    try:
        called = asyncio.get_running_loop().create_future()
        call_before_stop(called.set_result)
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(5):
            assert signal.SIGTERM == await called
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ["server"] == heard
