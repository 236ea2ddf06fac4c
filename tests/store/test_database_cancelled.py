"""Writers whose client has left, and many writers at once: SQLite's one lock for writing is always given back, and goes round."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from proxy.errors import StoreUnavailable
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from tests.store.conftest import opened
from tests.store.test_clashes import made


def can_write(path: Path) -> bool:
    """Whether another process could, within a second."""
    connection = sqlite3.connect(path, timeout=1, isolation_level=None)
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return False
    else:
        return True
    finally:
        connection.close()


@pytest.mark.slow
async def test_a_write_that_is_cancelled_anywhere_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(f"sqlite:///{path}") as database:
        store = DatabaseClashes(database)
        for number in range(80):
            writing = asyncio.create_task(store.put(made(str(number))))
            await asyncio.sleep(number * 5e-5)  # each time a little further on its way, in the driver's thread too
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            assert await asyncio.to_thread(can_write, path), f"locked after step {number}"
        assert (await store.put(made("last"))).id


@pytest.mark.slow
async def test_many_writers_at_once_all_have_their_turn(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path}/store.db") as database:
        store, order = DatabaseClashes(database), list[int]()

        async def write(number: int) -> None:
            await store.put(made(str(number)))
            order.append(number)

        await asyncio.gather(*(write(number) for number in range(100)))
        assert list(range(100)) == order


async def test_a_writer_that_waits_too_long_is_told_so_and_the_store_stays(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/store.db")
    await database.start()
    database.timeout_s = 0.2
    try:
        async with database._writers:  # as a transaction would, which may not last that long itself
            with pytest.raises(StoreUnavailable, match="other writers"):
                async with database.writing():
                    pass
        assert database.available
        async with database.writing():
            pass
    finally:
        await database.stop()
