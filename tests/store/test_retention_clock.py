"""A clock that has jumped ahead does not make everything old."""

import asyncio
import logging
import time

import pytest
from sqlalchemy import literal_column

from proxy.store.database import Database
from proxy.store.memory import DatabaseScratchpad, Memory
from proxy.store.records import Records
from proxy.store.retention import Retention
from tests.store.test_retention import _DAY_S, _fill


class Times:
    """A clock that can be set, in the place of the database's."""

    def __init__(self, database: Database) -> None:
        self.clock = 1_700_000_000.0 + 5 * _DAY_S
        self.retention = Retention(database, days=30, clock=lambda: self.clock)

    async def passes(self, days: int) -> int:
        """With a round in each; how many rows they deleted."""
        deleted = 0
        for _ in range(days):
            self.clock += _DAY_S
            deleted += await self.retention.run_once()
        return deleted


async def test_a_clock_that_jumps_while_the_server_runs_deletes_nothing(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times(database)
    await times.retention.run_once()
    times.clock += 3650 * _DAY_S
    with caplog.at_level(logging.WARNING, "proxy.store.retention"):
        deleted = [await times.retention.run_once(), await times.retention.run_once()]
    assert ([0, 0], 1) == (deleted, len([line for line in caplog.messages if "nothing is deleted by age" in line]))
    times.clock -= 3650 * _DAY_S
    assert 3 == await times.passes(28), "a clock that was set right is believed at once"


async def test_a_clock_that_was_wrong_before_the_server_began_deletes_nothing(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times(database)
    times.clock += 3650 * _DAY_S
    deleted = await times.retention.run_once()
    await _fill_later(database, times)
    assert (0, 0) == (deleted, await times.retention.run_once()), "also once something has been written at that time"


async def test_a_clock_that_stays_so_for_a_day_is_believed(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times(database)
    times.clock += 60 * _DAY_S
    await times.retention.run_once()
    assert 5 == await times.passes(1)
    assert ([], False) == await Records(database).list(10)


async def test_time_that_passes_is_no_jump(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times(database)
    await times.retention.run_once()
    assert 5 == await times.passes(40)


async def _fill_later(database: Database, times: Times) -> None:
    await DatabaseScratchpad(database, clock=lambda: times.clock).put(b"new", client="a", run_id="r")


async def test_one_worker_at_a_time_deletes(database: Database) -> None:
    await _fill(database, 1200, 0, step_s=1.0)
    now = 1_700_000_000.0 + 40 * _DAY_S
    workers = [Retention(database, days=30, clock=lambda: now) for _ in range(3)]
    await Memory(database, "retention").swap("retention:lead", b'{"believed": %f}' % (now - 60.0), 0, "")
    deleted = await asyncio.gather(*(worker.run_once() for worker in workers))
    assert [0, 0, 1200] == sorted(deleted)


async def test_a_machine_whose_clock_is_not_the_databases_deletes_nothing_by_age(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await _fill(database, 5, 0, step_s=1.0)  # long ago, by any clock
    await Memory(database, "retention").swap("retention:lead", b'{"believed": %f}' % time.time(), 0, "")
    monkeypatch.setattr(database, "now", literal_column(str(time.time() + 31 * _DAY_S)))
    with caplog.at_level(logging.WARNING, "proxy.store.retention"):
        assert 0 == await Retention(database, days=30).run_once()
    assert 1 == caplog.text.count("nothing is deleted by age until they agree")


async def test_what_keeps_it_from_deleting_is_a_warning(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await database.stop()
    retention = Retention(database, every_s=0.001)
    with caplog.at_level(logging.WARNING, "proxy.store.retention"):
        retention.start()
        await asyncio.sleep(0.1)
        await retention.stop()
    assert ["nothing is deleted from the store for now: the store is not available: stopped"] == caplog.messages
