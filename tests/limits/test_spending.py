"""What keys spend, on its way to the store: nothing is lost by an end, nor by what the store does not take, and nothing counts twice."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.errors import StoreUnavailable
from proxy.limits import spending as module
from proxy.limits.spending import Spending
from proxy.store.database import StoreRejected

ONE = (1, 0, 10, 2, 500)


class Days:
    """A store's, which takes what it is given once it may, unless it has a problem."""

    def __init__(self) -> None:
        self.requests, self.begun, self.may_end = 0, asyncio.Event(), asyncio.Event()
        self.may_end.set()
        self.problem: Exception | None = None
        self.forgets: Exception | None = None

    async def add(self, taken: Mapping[Any, tuple[int, ...]]) -> None:
        self.begun.set()
        await self.may_end.wait()
        if self.problem is not None:
            raise self.problem
        self.requests += sum(one[0] for one in taken.values())

    async def forget(self, before: str) -> None:
        if self.forgets is not None:
            raise self.forgets


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    monkeypatch.setattr(module, "FLUSH_S", 0.001)
    return Days()


def spending(days: Days) -> Spending:
    return Spending(days)  # type: ignore[arg-type]


async def test_what_is_being_written_when_the_process_ends_is_written(days: Days) -> None:
    sums = spending(days)
    days.may_end.clear()
    await sums.start()
    sums.add("ann", "red", "gpt-4o", ONE)
    await days.begun.wait()
    sums.add("ann", "red", "gpt-4o", ONE)
    stopping = asyncio.create_task(sums.stop())
    await asyncio.sleep(0)
    days.may_end.set()
    await stopping
    assert 2 == days.requests


def test_fractions_of_a_millionth_add_up_for_each_key(days: Days) -> None:
    sums = spending(days)
    ann = [sums.micro_usd("ann", 4.5e-6) for _ in range(20)]
    assert (90, 0) == (sum(ann), sums.micro_usd("bob", 0.2e-6))
    assert 2 == sum(sums.micro_usd("cara", 0.2e-6) for _ in range(10))


async def test_what_was_added_counts_once_where_old_days_cannot_be_forgotten(days: Days) -> None:
    sums, days.forgets = spending(days), StoreUnavailable("away")
    sums.add("ann", "red", "gpt-4o", ONE)
    await sums.flush()
    await sums.flush()
    assert 1 == days.requests


async def test_what_the_store_does_not_take_waits_and_what_it_refuses_is_said(days: Days, caplog: pytest.LogCaptureFixture) -> None:
    sums = spending(days)
    for days.problem in (StoreUnavailable("away"), None, StoreRejected("too large")):
        sums.add("ann", "red", "gpt-4o", ONE)
        with caplog.at_level(logging.WARNING, "groundwire.limits"):
            await sums.flush()
    days.problem = None
    await sums.flush()
    assert (2, ["spending of 1 keys, models and days is lost, as the store refuses it: too large"]) == (days.requests, caplog.messages)


async def test_a_bug_of_ours_does_not_stop_later_ones(days: Days, caplog: pytest.LogCaptureFixture) -> None:
    sums, days.problem = spending(days), ValueError("a bug")
    await sums.start()
    sums.add("ann", "red", "gpt-4o", ONE)
    await days.begun.wait()
    while "could not be stored" not in caplog.text:
        await asyncio.sleep(0)
    days.problem = None
    sums.add("ann", "red", "gpt-4o", ONE)
    while not days.requests:
        await asyncio.sleep(0.001)
    await sums.stop()
    assert 1 == days.requests


async def test_what_waits_for_a_slow_store_has_a_bound(days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_ROWS", 10)
    sums, days.problem = spending(days), StoreUnavailable("slow")
    for turn in range(5):
        days.begun.clear()
        days.may_end.clear()
        for number in range(10):
            sums.add("ann", "red", f"before {turn} {number}", ONE)
        flush = asyncio.create_task(sums.flush())
        await days.begun.wait()
        for number in range(10):
            sums.add("ann", "red", f"meanwhile {turn} {number}", ONE)
        days.may_end.set()
        await flush
    assert len(sums._sums) <= 11
    days.problem = None
    await sums.flush()
    assert 100 == days.requests
