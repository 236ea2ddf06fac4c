"""A clock that has jumped ahead does not make everything old."""

import logging

import pytest

from proxy.store.database import Database
from proxy.store.memory import DatabaseScratchpad
from proxy.store.records import Records
from proxy.store.retention import Retention
from tests.store.test_retention import _DAY_S, _fill


class Times:
    """A clock that can be set, and the time that the machine has been up for."""

    def __init__(self) -> None:
        self.clock, self.uptime = 1_700_000_000.0 + 5 * _DAY_S, 1000.0

    def passes(self, seconds: float) -> None:
        self.clock += seconds
        self.uptime += seconds

    def retention(self, database: Database) -> Retention:
        return Retention(database, days=30, clock=lambda: self.clock, uptime=lambda: self.uptime)


async def test_a_clock_that_jumps_while_the_server_runs_deletes_nothing(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times()
    retention = times.retention(database)
    await retention.run_once()
    times.clock += 3650 * _DAY_S
    with caplog.at_level(logging.WARNING, "proxy.store.retention"):
        deleted = [await retention.run_once(), await retention.run_once()]
    assert ([0, 0], 1) == (deleted, len([line for line in caplog.messages if "nothing is deleted by age" in line]))
    times.clock -= 3650 * _DAY_S
    times.passes(28 * _DAY_S)
    assert 3 == await retention.run_once(), "a clock that was set right is believed at once"


async def test_a_clock_that_was_wrong_before_the_server_began_deletes_nothing(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times()
    times.clock += 3650 * _DAY_S
    retention = times.retention(database)
    deleted = await retention.run_once()
    await _fill_later(database, times)
    assert (0, 0) == (deleted, await retention.run_once()), "also once something has been written at that time"


async def test_a_clock_that_stays_so_for_a_day_is_believed(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times()
    times.clock += 60 * _DAY_S
    retention = times.retention(database)
    await retention.run_once()
    times.passes(_DAY_S + 1)
    assert 5 == await retention.run_once()
    assert ([], False) == await Records(database).list(10)


async def test_time_that_passes_is_no_jump(database: Database) -> None:
    await _fill(database, 5, 0, step_s=_DAY_S)
    times = Times()
    retention = times.retention(database)
    await retention.run_once()
    times.passes(40 * _DAY_S)
    assert 5 == await retention.run_once()


async def _fill_later(database: Database, times: Times) -> None:
    await DatabaseScratchpad(database, clock=lambda: times.clock).put(b"new", client="a", run_id="r")
