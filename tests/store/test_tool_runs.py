"""The tools of runs, on both databases."""

import asyncio

import pytest

from proxy.errors import StoreUnavailable
from proxy.ports import ToolRun
from proxy.store.database import Database
from proxy.store.memory import DatabaseToolRuns
from proxy.store.retention import Retention
from tests.store.conftest import opened

_DAY_S = 86_400.0


async def test_a_run_that_was_never_seen_has_no_tools(database: Database) -> None:
    assert await DatabaseToolRuns(database).get("r", client="a") == ToolRun((), 0)


async def test_names_come_back_in_their_order(database: Database) -> None:
    runs = DatabaseToolRuns(database)
    assert await runs.swap("r", ["b", "a", "ü \0"], 0, client="a")
    assert await runs.swap("r", ["b", "a", "ü \0", "c"], 1, client="a")
    assert await runs.get("r", client="a") == ToolRun(("b", "a", "ü \0", "c"), 2)


@pytest.mark.parametrize("version", [0, 1, 3])
async def test_an_older_or_unknown_version_changes_nothing(database: Database, version: int) -> None:
    runs = DatabaseToolRuns(database)
    await runs.swap("r", ["a"], 0, client="a")
    await runs.swap("r", ["a", "b"], 1, client="a")
    assert not await runs.swap("r", ["x"], version, client="a")
    assert await runs.get("r", client="a") == ToolRun(("a", "b"), 2)


async def test_one_of_several_workers_wins_each_version(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseToolRuns(d) for d in (first, second)]
        for version in range(5):
            won = await asyncio.gather(*(w.swap("r", [f"{version}-{i}"], version, client="a") for i, w in enumerate(workers)))
            assert sorted(won) == [False, True]
            assert (await workers[0].get("r", client="a")).names == (f"{version}-{won.index(True)}",)


async def test_runs_of_two_clients_and_of_two_names_are_apart(database: Database) -> None:
    runs = DatabaseToolRuns(database)
    await runs.swap("r", ["a"], 0, client="alice")
    others = [await runs.get(run, client=client) for run, client in (("r", "bob"), ("s", "alice"), ("er", "alic"))]
    assert others == [ToolRun()] * 3


async def test_retention_goes_by_the_last_use(database: Database) -> None:
    now = 0.0
    runs = DatabaseToolRuns(database, clock=lambda: now)
    for run in ("read", "changed", "left"):
        await runs.swap(run, ["a"], 0, client="a")
    now = 20 * _DAY_S
    await runs.get("read", client="a")
    await runs.swap("changed", ["b"], 1, client="a")
    assert await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once() == 1
    assert [(await runs.get(run, client="a")).version for run in ("read", "changed", "left")] == [1, 2, 0]


async def test_without_a_store_it_raises() -> None:
    with pytest.raises(StoreUnavailable):
        await DatabaseToolRuns(Database("sqlite://")).get("r", client="a")
