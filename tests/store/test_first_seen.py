"""When the messages of runs were first seen, on both databases."""

import asyncio

import pytest

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.memory import DatabaseFirstSeen
from proxy.store.retention import Retention
from tests.store.conftest import opened

_DAY_S = 86_400.0


async def test_a_message_keeps_the_time_at_which_it_was_first_seen(database: Database) -> None:
    seen = DatabaseFirstSeen(database)
    assert await seen.times("r", ["a", "b \ud800"], 1.25, client="c") == [1.25, 1.25]
    assert await seen.times("r", ["a", "b \ud800", "d", "a"], 2.5, client="c") == [1.25, 1.25, 2.5, 1.25]
    assert await seen.times("r", ["d", "new"], 9.0, client="c") == [2.5, 9.0]
    assert await seen.times("r", [], 9.0, client="c") == []


async def test_runs_and_clients_are_apart(database: Database) -> None:
    seen = DatabaseFirstSeen(database)
    await seen.times("r", ["a"], 1.0, client="alice")
    assert [await seen.times(run, ["a"], 2.0, client=client) for run, client in (("r", "bob"), ("s", "alice"), ("er", "alic"))] == [
        [2.0]
    ] * 3


async def test_workers_at_once_agree(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseFirstSeen(d) for d in (first, second)]
        for turn in range(5):
            new = [f"{turn}-{i}" for i in range(3)]
            found = await asyncio.gather(*(w.times("r", [*new, f"own-{n}"], turn + n / 10, client="c") for n, w in enumerate(workers)))
            assert found[0][:3] == found[1][:3]
            assert await workers[0].times("r", new, 99.0, client="c") == found[0][:3]
    assert all(time <= 0.1 for time in (*found[0][3:], *found[1][3:]))


async def test_thousands_of_messages_are_kept(database: Database) -> None:
    seen = DatabaseFirstSeen(database)
    hashes = [f"{i:032x}" for i in range(5_000)]
    await seen.times("r", hashes[:4_000], 1.0, client="c")
    assert await seen.times("r", hashes, 2.0, client="c") == [1.0] * 4_000 + [2.0] * 1_000
    assert await seen.times("r", hashes[::-1], 3.0, client="c") == [2.0] * 1_000 + [1.0] * 4_000


async def test_beyond_the_bound_what_is_no_longer_sent_goes_first_and_then_the_newest(database: Database) -> None:
    seen = DatabaseFirstSeen(database, per_run=4)
    await seen.times("r", ["gone", "a", "b"], 1.0, client="c")
    assert await seen.times("r", ["a", "b", "c", "d"], 2.0, client="c") == [1.0, 1.0, 2.0, 2.0]
    assert await seen.times("r", ["a", "b", "c", "d", "e"], 3.0, client="c") == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert await seen.times("r", ["a", "b", "c", "d", "e", "gone"], 4.0, client="c") == [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]


async def test_retention_goes_by_the_last_use(database: Database) -> None:
    now = 0.0
    seen = DatabaseFirstSeen(database, clock=lambda: now)
    for run in ("read", "left"):
        await seen.times(run, ["a"], 0.0, client="c")
    now = 20 * _DAY_S
    await seen.times("read", ["a"], 1.0, client="c")
    assert await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once() == 1
    assert [await seen.times(run, ["a"], 5.0, client="c") for run in ("read", "left")] == [[0.0], [5.0]]


async def test_without_a_store_it_raises() -> None:
    with pytest.raises(StoreUnavailable):
        await DatabaseFirstSeen(Database("sqlite://")).times("r", ["a"], 1.0, client="c")
