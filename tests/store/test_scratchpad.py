"""The scratchpad, on both databases."""

import pytest

from proxy.errors import StoreUnavailable
from proxy.ports import ScratchpadItem
from proxy.store.database import Database
from proxy.store.memory import DatabaseScratchpad, item_id
from proxy.store.tables import scratchpad as table


@pytest.mark.parametrize("content", [b"", b"plain", "héllo 世界 🙂".encode(), b"\x00\xff\xfe\x00", b"\xed\xa0\x80", b"x" * 1_000_000])
async def test_content_comes_back_byte_for_byte(database: Database, content: bytes) -> None:
    pad = DatabaseScratchpad(database)
    key = await pad.put(content, client="alice", run_id="r")
    assert await pad.get(key) == content


async def test_the_same_content_of_a_client_and_run_has_the_same_id(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    first = await pad.put(b"x", client="a", run_id="r")
    assert await pad.put(b"x", client="a", run_id="r") == first
    assert first.startswith("sp_")
    assert len({first, *[await pad.put(c, client=w, run_id=r) for c, w, r in ((b"y", "a", "r"), (b"x", "b", "r"), (b"x", "a", "s"))]}) == 4


def test_ids_do_not_depend_on_where_a_boundary_lies() -> None:
    assert item_id(b"c", "ab", "") != item_id(b"c", "a", "b") != item_id(b"bc", "a", "")


async def test_only_its_owner_gets_it_when_a_client_is_named(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    key = await pad.put(b"x", client="alice", run_id="r")
    assert [await pad.get(key, client="alice"), await pad.get(key, client="bob"), await pad.get("sp_none")] == [b"x", None, None]


async def test_putting_it_again_marks_it_as_used_and_changes_nothing_else(database: Database) -> None:
    now = 1000.0
    pad = DatabaseScratchpad(database, clock=lambda: now)
    key = await pad.put(b"abc", client="alice", run_id="r", media_type="application/json")
    now = 2000.0
    await pad.put(b"abc", client="alice", run_id="r")
    item = await pad.item(key)
    assert item is not None
    assert (item.created_at, item.used_at, item.size_bytes, item.media_type) == (1000.0, 2000.0, 3, "application/json")


async def test_it_is_committed_when_put_returns(database: Database, url: str) -> None:
    key = await DatabaseScratchpad(database).put(b"abc", client="a", run_id="r")
    other = Database(url)
    await other.start()
    try:
        assert await DatabaseScratchpad(other).get(key) == b"abc"
    finally:
        await other.stop()


async def test_names_that_no_database_takes_as_text_work(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    key = await pad.put(b"x", client="nul\0 \ud800", run_id="r" * 5000)
    assert await pad.get(key, client="nul\0 \ud800") == b"x"


async def test_without_a_store_it_raises() -> None:
    with pytest.raises(StoreUnavailable, match="not started"):
        await DatabaseScratchpad(Database("sqlite://")).put(b"x", client="a", run_id="r")


# ---- by the beginning of an id ----


async def test_an_item_is_found_by_twelve_digits_of_its_id_or_more(database: Database) -> None:
    pad = DatabaseScratchpad(database, clock=lambda: 7.0)
    key = await pad.put(b"abc", client="alice", run_id="r", media_type="application/json")
    await pad.put(b"other", client="alice", run_id="r")
    expected = ScratchpadItem(key, "alice", "r", "application/json", 3, 7.0, 7.0, b"abc")
    assert [await pad.find(key[:length], client="alice") for length in (15, 20, 35)] == [expected] * 3
    assert [await pad.find(prefix, client="alice") for prefix in (key[:14], "sp_" + "0" * 12, key[3:18], key[:14] + "%", "")] == [None] * 5


async def test_another_clients_item_is_not_found(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    key = await pad.put(b"abc", client="alice", run_id="r")
    assert await pad.find(key, client="bob") is None


async def test_two_items_that_begin_alike_are_told_apart_by_more_of_the_id(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    alike = [f"sp_{'ab' * 6}{end * 20}" for end in "0f"]
    async with database.transaction() as connection:
        for key in alike:
            values = {"media_type": "text/plain", "size_bytes": 1, "created_at": 0.0, "used_at": 0.0, "content": key[-1].encode()}
            await connection.execute(table.insert().values(id=key, client="a", run_id="r", **values))
    assert await pad.find(alike[0][:15], client="a") is None
    found = [await pad.find(key[:16], client="a") for key in alike]
    assert [item.content for item in found if item] == [b"0", b"f"]


# ---- lists ----


async def test_the_list_is_newest_first_in_pages_and_without_contents(database: Database) -> None:
    times = iter((1.0, 2.0, 2.0, 3.0))
    pad = DatabaseScratchpad(database, clock=lambda: next(times))
    keys = [await pad.put(str(i).encode(), client="a", run_id="r") for i in range(4)]
    expected = [keys[3], *sorted(keys[1:3], reverse=True), keys[0]]
    seen: list[str] = []
    more = True
    while more:
        rows, more = await pad.list(1, seen[-1] if seen else None)
        seen += [row.id for row in rows]
        assert [row.content for row in rows] == [b""]
    assert seen == expected
    assert await pad.list(5, "sp_gone") == ([], False)


async def test_the_list_is_of_a_run_or_a_client(database: Database) -> None:
    pad = DatabaseScratchpad(database)
    for client, run in (("a", "r"), ("a", "s"), ("b", "r")):
        await pad.put(b"x", client=client, run_id=run)
    of = [(await pad.list(**only))[0] for only in ({"client": "a"}, {"run_id": "r"}, {"client": "a", "run_id": "r"}, {"client": "c"})]
    assert [len(rows) for rows in of] == [2, 2, 1, 0]
