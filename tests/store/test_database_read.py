"""A SELECT that stands alone, past SQLAlchemy's transaction, on both databases."""

import asyncio

import pytest
from sqlalchemy import text

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from tests.store.conftest import opened

_COUNT = text("SELECT count(*), :said FROM memory")
_ADD = text(
    "INSERT INTO memory (id, kind, client, link, content, number, size_bytes, created_at, used_at) VALUES ('a', 'k', 'c', '', '', 1, 1, 1, 1)"
)


async def test_it_gives_the_rows(database: Database) -> None:
    rows = await database.read(_COUNT, {"said": "nul-free ' text"})
    assert [(0, "nul-free ' text")] == [tuple(row) for row in rows]


async def test_it_sees_what_was_committed_before(url: str) -> None:
    count = text("SELECT count(*) FROM memory")
    async with opened(url) as first, opened(url) as second:
        assert 0 == (await second.read(count, {}))[0][0]
        async with first.transaction() as connection:
            await connection.execute(_ADD)
            assert 0 == (await second.read(count, {}))[0][0]
        assert 1 == (await second.read(count, {}))[0][0]


async def test_what_cannot_be_read_is_an_error_of_ours(database: Database) -> None:
    with pytest.raises(StoreUnavailable):
        await database.read(text("SELECT nothing FROM nowhere"), {})


async def test_without_a_store_it_raises() -> None:
    with pytest.raises(StoreUnavailable):
        await Database("sqlite://").read(_COUNT, {"said": ""})


async def test_a_writer_that_is_cancelled_leaves_nothing_and_no_lock(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        inside = asyncio.Event()

        async def write() -> None:
            async with first.transaction() as connection:
                await connection.execute(_ADD)
                inside.set()
                await asyncio.Event().wait()

        for _ in range(5):
            inside.clear()
            writing = asyncio.create_task(write())
            await inside.wait()
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        async with second.transaction() as connection:
            await connection.execute(_ADD)
        assert 1 == (await first.read(text("SELECT count(*) FROM memory"), {}))[0][0]
