"""Retention of failure records and of their revisions, on both databases."""

import random

import pytest

from proxy.store.database import Database
from proxy.store.failures import DatabaseFailures
from proxy.store.retention import Retention
from tests.stages.reflection.kept import known
from tests.store.test_failures import STEP, event, names, occurred

_DAY_S = 86_400.0
RUN = {"client": "alice", "run_id": "r"}
ALL = {**RUN, "fingerprints": ["used", "left"]}


async def test_a_record_goes_by_its_last_change_and_its_revisions_stay_as_long_as_it_does(database: Database) -> None:
    now = 0.0
    store = DatabaseFailures(database, clock=lambda: now)
    used, left = await store.apply([occurred("used"), occurred("left")], **STEP)
    now = 20 * _DAY_S
    await store.apply([occurred("used", "c2")], **STEP)
    await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once()
    assert ["used"] == names(await known(store, **ALL))
    assert [2, 0] == [len((await store.revisions(record.id))[0]) for record in (used, left)]


async def test_a_turn_that_was_counted_long_ago_is_not_counted_again(database: Database) -> None:
    now = 0.0
    store = DatabaseFailures(database, clock=lambda: now)
    turn = [occurred("used"), event("progress", "used", "p1"), event("progress", "used", "p2")]
    await store.apply(turn, **STEP)
    now = 29 * _DAY_S
    kept = await store.apply([occurred("used", "c2")], **STEP)
    await Retention(database, days=30, clock=lambda: 45 * _DAY_S).run_once()
    assert kept == await store.apply(turn, **STEP)


async def test_what_comes_again_after_its_deletion_goes_on_in_its_revisions(database: Database) -> None:
    now = 0.0
    store = DatabaseFailures(database, clock=lambda: now)
    (kept,) = await store.apply([occurred("used"), occurred("used", "c2")], **STEP)
    async with database.transaction() as connection:
        await connection.exec_driver_sql("DELETE FROM failures")  # as retention does first
    now = 1.0
    (again,) = await store.apply([occurred("used", "c2"), occurred("used", "c3")], **STEP)
    assert (kept.id, 1, 3) == (again.id, again.occurrence_count, again.revision)
    assert [3, 2, 1] == [one.record.revision for one in (await store.revisions(kept.id))[0]]


@pytest.mark.slow
async def test_when_the_store_is_too_large_the_records_that_changed_last_stay(database: Database) -> None:
    clock = iter(range(1, 9_999))
    store = DatabaseFailures(database, clock=lambda: float(next(clock)))
    noise = random.Random(0)
    for start in range(0, 1500, 50):
        outcomes = [{"hash": noise.randbytes(1_000).hex()} for _ in range(50)]
        await store.apply([occurred(f"f{start + n}", observed_outcome=outcome) for n, outcome in enumerate(outcomes)], **STEP)
    deleted = await Retention(database, days=1e6, max_mb=8).run_once()
    kept, _ = await store.list(1000)
    assert (True, True) == (deleted >= 1500 - len(kept), len(kept) in (500, 1000))  # retention goes by 500
    assert {f"f{n}" for n in range(1500 - len(kept), 1500)} == set(names(kept))


async def test_a_store_within_its_limits_keeps_everything(database: Database) -> None:
    store = DatabaseFailures(database)
    (kept,) = await store.apply([occurred(), event("resolved"), event("progress", cause="nothing left")], **STEP)
    assert 0 == await Retention(database, days=30).run_once()
    assert 2 == len((await store.revisions(kept.id))[0])
