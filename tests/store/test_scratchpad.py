"""The scratchpad, on both databases."""

import pytest

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.scratchpad import DatabaseScratchpad, item_id


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
