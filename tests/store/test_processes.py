"""Processes of one store: each says that it lives, what it runs, and whether its clock is right."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest

from proxy.server.handler import new_id
from proxy.store.clock import StoreClock
from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback
from proxy.store.processes import DRIFT_S, ENDED, Processes
from proxy.store.records import Records
from proxy.store.retention import Retention
from proxy.store.rollups import Rollups
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record

ABOUT = {"version": "1", "policies": {"/": "agent@0123abcd"}}


def one_of_them() -> dict[str, Any]:
    return dict(ABOUT)


async def began(database: Database, number: int, process: str, created_at: float) -> None:
    writer = RecordWriter(database, CountingCounters())
    writer.start()
    begun = writer.begin(make_record(number, outcome="pending", status=0, reason=process, created_at=created_at))
    assert begun is not None
    await begun.wait()
    await writer.stop()


async def test_processes_that_run_something_else_are_seen(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    seconds = 0.0
    one, other = (
        Processes(database, "one", one_of_them, clock=lambda: seconds),
        Processes(database, "other", lambda: {**ABOUT, "policies": {"/": "agent@ffffffff"}}),
    )
    await one.beat()
    await one.compare()
    assert ((), 1) == (one.drift, one.alive)
    await other.beat()
    with caplog.at_level(logging.WARNING, "proxy.store.processes"):
        await one.compare()
        seconds = DRIFT_S - 1.0
        await one.compare()
        assert ((), 2) == (one.drift, one.alive)
        seconds = DRIFT_S
        await one.compare()
    assert (("policies",), 2) == (one.drift, one.alive)
    assert ["2 processes of this store differ in policies"] == caplog.messages
    await other.stop()
    await one.compare()
    assert ((), 1) == (one.drift, one.alive)


async def test_changes_that_come_everywhere_one_after_another_are_no_drift(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    seconds, of_one, of_other = 0.0, {**ABOUT, "keys": "0"}, {**ABOUT, "keys": "0"}
    one, other = (Processes(database, name, about.copy, clock=lambda: seconds) for name, about in (("one", of_one), ("other", of_other)))
    for process in (one, other):
        await process.beat()
    for change in range(1, 40):  # each process looks when it says that it runs something else: one of them always before the other has it
        seconds = 4.0 * change
        for process, about in ((one, of_one), (other, of_other)):
            about["keys"] = str(change)
            await process.beat()
            await process.compare()
            assert () == process.drift
    assert [] == caplog.messages


async def test_a_process_that_gets_no_change_is_drift_also_while_changes_go_on(database: Database) -> None:
    seconds, of_one = 0.0, {**ABOUT, "keys": "0"}
    one, other = Processes(database, "one", of_one.copy, clock=lambda: seconds), Processes(database, "other", {**ABOUT, "keys": "0"}.copy)
    await other.beat()
    for change in range(1, 20):
        seconds, of_one["keys"] = 4.0 * change, str(change)
        await one.beat()
        await one.compare()
    assert ("keys",) == one.drift


async def test_a_process_says_at_once_that_it_runs_something_else(database: Database) -> None:
    about = {**ABOUT, "keys": "1"}
    process, looker = Processes(database, "one", lambda: dict(about)), Processes(database, "looker", one_of_them)
    process.start()
    async with asyncio.timeout(10):  # far below the pause between two signs of life that say nothing new
        while not await looker.living():
            await asyncio.sleep(0.02)
        about["keys"] = "2"
        while "2" != (await looker.living())[0].about["keys"]:
            await asyncio.sleep(0.02)
    await process.stop()


async def test_a_process_whose_store_is_away_waits_for_its_next_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = 0
    process = Processes(Database("sqlite://"), "one", one_of_them)  # never started
    beat = process.beat

    async def counted() -> float:
        nonlocal beats
        beats += 1
        return await beat()

    monkeypatch.setattr(process, "beat", counted)
    process.start()
    await asyncio.sleep(0.2)
    process._stopping.set()
    assert 1 == beats


async def test_what_a_process_that_is_gone_left_open_is_interrupted_and_counted(database: Database) -> None:
    here = Processes(database, "here", one_of_them)
    now = await here.beat()
    await began(database, 1, "gone", now - 60.0)
    await began(database, 2, "here", now - 60.0)
    await began(database, 3, "gone", now)  # it may not have said yet that it lives
    assert (1, 0) == (await here.close_abandoned(), await here.close_abandoned())
    found = [await Records(database).get(f"gw_{number:08d}") for number in (1, 2, 3)]
    assert [("interrupted", ENDED), ("pending", "here"), ("pending", "gone")] == [(one.outcome, one.reason) for one in found if one]
    minute = int(now - 60.0) // 60 * 60
    assert [False] == [row.is_good for row in await Rollups(database).between(60, minute, minute + 60)]


@pytest.mark.parametrize(("ahead_s", "wrong"), [(0.0, False), (20.0, False), (60.0, True), (-86_400.0, True)])
async def test_a_clock_that_is_not_the_databases_is_said(
    database: Database, caplog: pytest.LogCaptureFixture, ahead_s: float, wrong: bool
) -> None:
    database.clock = StoreClock(lambda: time.time() + ahead_s)
    process = Processes(database, "one", one_of_them)
    with caplog.at_level(logging.WARNING, "proxy.store.clock"):
        await process.beat()
        await process.beat()
    assert (wrong, int(wrong)) == (bool(database.clock.problem), len(caplog.messages))


@pytest.mark.parametrize("days", [31, -31])
async def test_what_a_node_writes_whose_clock_is_a_month_off_is_neither_old_nor_yet_to_come(url: str, days: int) -> None:
    """Its store's clock is asked when the store is opened, before anybody can be answered."""
    away = StoreClock(lambda: time.time() + days * 86_400.0)
    database = Database(url, clock=away)
    await database.start()
    try:
        assert database.available, database.problem
        created_at = database.clock()
        assert created_at == pytest.approx(time.time(), abs=5.0)
        writer = RecordWriter(database, CountingCounters())
        writer.submit(make_record(1, created_at=created_at, id=new_id(created_at)))
        await writer.flush()
        feedback = DatabaseFeedback(database)
        assert [time.time()] == pytest.approx([feedback._clock()], abs=5.0)
        assert 0 == await Retention(database, days=30, clock=lambda: time.time() + 1.0).run_once()
        assert 1 == len((await Records(database).list())[0])
    finally:
        await database.stop()


@pytest.mark.parametrize("days", [31, -31])
async def test_what_was_answered_before_the_stores_clock_was_known_is_neither_old_nor_yet_to_come(url: str, days: int) -> None:
    """A node that starts while its store does not answer goes by its own clock until it does."""
    database = Database(url, clock=StoreClock(lambda: time.time() + days * 86_400.0))
    writer = RecordWriter(database, CountingCounters())
    early = [database.clock() for _ in range(2)]
    writer.submit(make_record(1, created_at=early[0], id=new_id(early[0])))
    await database.start()
    try:
        assert database.available, database.problem
        writer.submit(make_record(2, created_at=early[1], id=new_id(early[1])))  # it was under way meanwhile
        right = database.clock()
        writer.submit(make_record(3, created_at=right, id=new_id(right)))
        await writer.flush()
        assert 0 == await Retention(database, days=30, clock=lambda: time.time() + 1.0).run_once()
        records = Records(database)
        listed, _ = await records.list()
        assert [time.time()] * 3 == pytest.approx([one.created_at for one in listed], abs=5.0)
        paged, after = [], None
        for _ in listed:
            page, _ = await records.list(1, after)
            paged += page
            after = page[-1].id
        assert listed == paged
    finally:
        await database.stop()


async def test_a_clock_that_is_set_right_is_used_again(database: Database) -> None:
    ahead_s = -31 * 86_400.0
    database.clock = StoreClock(lambda: time.time() + ahead_s)
    process = Processes(database, "one", one_of_them)
    await process.beat()
    ahead_s = 0.0  # set right: until the next sign of life nobody asks it
    assert database.clock() == pytest.approx(time.time(), abs=5.0)
    await process.beat()
    assert "" == database.clock.problem
    assert database.clock() == pytest.approx(time.time(), abs=0.5)
