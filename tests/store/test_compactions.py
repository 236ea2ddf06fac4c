"""Compactions, on both databases."""

import asyncio
from typing import Any

import pytest

from proxy.context.archive import reference
from proxy.errors import StoreUnavailable
from proxy.ports import Compaction
from proxy.store.database import Database
from proxy.store.memory import DatabaseCompactions, DatabaseScratchpad
from proxy.store.retention import Retention
from tests.store.conftest import opened

_DAY_S = 86_400.0


def made(covers: str, length: int = 3, *pieces: Any) -> Compaction:
    return Compaction(covers, length, pieces or (0, {"role": "user", "content": f"summary of {covers}"}))


async def test_what_was_put_comes_back_as_it_was(database: Database) -> None:
    store = DatabaseCompactions(database, clock=lambda: 12.5)
    message = {"role": "assistant", "content": "nul \0 lone \ud800 世界", "x": [1.5, None, True, 2**70], "b": 1, "a": 2}
    compaction = Compaction("c1", 7, (0, message, 5), 12.5)
    assert await store.put(compaction, client="alice", run_id="r \0") == compaction
    found = await store.find(["c1"], client="alice")
    assert found == compaction
    assert isinstance(found.pieces[1], dict)
    assert list(found.pieces[1]) == list(message)


async def test_the_longest_of_those_asked_for_is_found(database: Database) -> None:
    store = DatabaseCompactions(database)
    for covers, length in (("short", 3), ("long", 9), ("longer", 12)):
        await store.put(made(covers, length), client="a", run_id="r")
    assert (await store.find(["none", "short", "long", "short"], client="a")) == await store.find(["long"], client="a")
    assert await store.find(["none"], client="a") is None
    assert await store.find([], client="a") is None


@pytest.mark.parametrize("place", [0, 499, 500, 2_999])
async def test_thousands_of_hashes_are_looked_through(database: Database, place: int) -> None:
    store = DatabaseCompactions(database)
    await store.put(made("wanted", 900), client="a", run_id="r")
    await store.put(made("other", 2), client="a", run_id="r")
    hashes = [f"h{i}" for i in range(3_000)]
    hashes[place] = "wanted"
    hashes[1500] = "other"
    found = await store.find(hashes, client="a")
    assert found is not None
    assert found.covers == "wanted"


async def test_the_first_to_put_it_decides(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseCompactions(d) for d in (first, second)]
        for i in range(5):
            kept = await asyncio.gather(
                *(w.put(made(f"c{i}", 3, {"role": "user", "content": str(n)}), client="a", run_id="r") for n, w in enumerate(workers))
            )
            assert kept[0] == kept[1] == await workers[0].find([f"c{i}"], client="a")


async def test_clients_are_apart(database: Database) -> None:
    store = DatabaseCompactions(database)
    await store.put(made("c", 3, {"of": "alice"}), client="alice", run_id="r")
    assert await store.find(["c"], client="bob") is None
    assert (await store.put(made("c", 3, {"of": "bob"}), client="bob", run_id="r")).pieces == ({"of": "bob"},)
    assert await store.find(["c"], client="alicec") is None


async def test_retention_keeps_what_is_used_and_what_it_refers_to(database: Database) -> None:
    now = 0.0
    store, pad = DatabaseCompactions(database, clock=lambda: now), DatabaseScratchpad(database, clock=lambda: now)
    ids = [await pad.put(content, client="a", run_id="r") for content in (b"referred to", b"forgotten")]
    others = await pad.put(b"referred to", client="b", run_id="r")
    referring = {"role": "tool", "content": reference(ids[0], "get_user", 11)}
    await store.put(made("used", 3, referring, {"role": "tool", "content": reference(others, "x", 11)}), client="a", run_id="r")
    await store.put(made("left"), client="a", run_id="r")
    now = 20 * _DAY_S
    assert await store.find(["used"], client="a") is not None
    assert await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once() == 3
    assert [await pad.get(key) for key in (*ids, others)] == [b"referred to", None, None]
    assert [await store.find([c], client="a") is not None for c in ("used", "left")] == [True, False]


async def test_without_a_store_it_raises() -> None:
    store = DatabaseCompactions(Database("sqlite://"))
    with pytest.raises(StoreUnavailable):
        await store.find(["c"], client="a")
    with pytest.raises(StoreUnavailable):
        await store.put(made("c"), client="a", run_id="r")
