"""The store as a report reads it: nothing is written, created or migrated, and what cannot be read says so."""

import os
import shutil
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from proxy.errors import StoreUnavailable
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.store import reading as module
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.failure_rows import failure_id
from proxy.store.failures import DatabaseFailures
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.reading import ReadOnlyDatabase, StoreReading
from proxy.store.schema import HEAD
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record
from tests.store.test_failures import STEP, occurred
from tests.stores import opened

START = 1_700_000_000.0


async def store(database: Database, *records: Any) -> None:
    writer = RecordWriter(database, CountingCounters())
    for record in records:
        writer.submit(record)
    await writer.flush()


@asynccontextmanager
async def readable(url: str) -> AsyncIterator[ReadOnlyDatabase]:
    database = ReadOnlyDatabase(url)
    await database.start()
    try:
        yield database
    finally:
        await database.stop()


async def ids(reading: StoreReading, since: float, until: float) -> list[str]:
    return [row.id async for page in reading.exchanges(since, until) for row in page]


def names(rows: Sequence[int]) -> list[str]:
    return [f"gw_{number:08d}" for number in rows]


async def test_exchanges_of_a_period_come_newest_first(url: str, database: Database) -> None:
    await store(database, *(make_record(n, created_at=START + n) for n in range(5)))
    async with readable(url) as found:
        assert names([3, 2, 1]) == await ids(StoreReading(found), START + 1, START + 4)


async def test_pages_leave_out_and_repeat_no_record_of_one_time(url: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 3)
    await store(database, *(make_record(n, created_at=START + n // 7) for n in range(20)))
    async with readable(url) as found:
        assert names(range(19, -1, -1)) == await ids(StoreReading(found), START, START + 100)


async def test_a_route_is_told_apart_with_its_pieces_and_clashes(url: str, database: Database) -> None:
    await store(database, make_record(1, route="/rag"), make_record(2, route=""))
    piece: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "kind": "tool_result", "role": "tool", "reason": "no"}
    pair: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "topic": "t", "older": {}, "newer": {}, "strategy": "merge"}
    quarantined, clashed = (kind(database, clock=lambda: START + 5) for kind in (DatabaseQuarantine, DatabaseClashes))
    for number, kind in ((1, "wrong_date"), (2, "wrong_name")):
        await quarantined.put(QuarantineItem(**piece, hash=str(number), type=kind, record_id=f"gw_{number:08d}", content=b"x"))
        await clashed.put(ClashRecord(**pair, pair_hash=str(number), type=kind, record_id=f"gw_{number:08d}"))
    async with readable(url) as found:
        told = []
        for route in (None, "/rag", ""):
            reading = StoreReading(found, route)
            pieces, clashes = await reading.pieces(START, START + 9), await reading.clashes(START, START + 9)
            told.append((sorted(pieces), sorted(clashes), await reading.waiting(), await reading.newest()))
    date, name = ("wrong_date", "pending", 1), ("wrong_name", "pending", 1)
    date_clash, name_clash = ("wrong_date", "open", "", 1), ("wrong_name", "open", "", 1)
    assert [
        ([date, name], [date_clash, name_clash], 2, START + 2),
        ([date], [date_clash], 1, START + 1),
        ([name], [name_clash], 1, START + 2),
    ] == told


async def test_failures_are_of_the_route_that_their_run_came_by(url: str, database: Database) -> None:
    await store(database, make_record(1, route="/rag", run_id="r1"), make_record(2, route="", run_id="r2"))
    kept = DatabaseFailures(database, clock=lambda: START + 5)
    for run_id, names in (("r1", ["f1", "f2"]), ("r2", ["f1"])):
        await kept.apply([occurred(name) for name in names], **STEP | {"run_id": run_id})
    await kept.resolve(failure_id("alice", "r1", "f1"), "resolved", by="ann")
    async with readable(url) as found:
        told = [sorted(await StoreReading(found, route).failures(START, START + 9)) for route in (None, "/rag", "")]
        assert [] == await StoreReading(found).failures(START, START + 5)
    resolved = ("tool_error", "resolved", 1)
    assert [[("tool_error", "active", 2), resolved], [("tool_error", "active", 1), resolved], [("tool_error", "active", 1)]] == told


async def test_a_store_without_records_has_none(url: str) -> None:
    async with readable(url) as found:
        reading = StoreReading(found)
        assert ([], 0, None) == (await ids(reading, 0.0, 1e12), await reading.waiting(), await reading.newest())


async def test_nothing_can_be_written(url: str) -> None:
    async with readable(url) as found:
        with pytest.raises(StoreUnavailable, match=r"(?i)read-?only"):
            async with found.transaction() as connection:
                await connection.execute(text("DELETE FROM records"))


async def test_an_empty_store_is_refused_and_not_migrated(empty_url: str, kind: str, tmp_path: Path) -> None:
    if kind == "sqlite":
        (tmp_path / "empty.db").touch()
    for _ in range(2):  # the second time shows that the first has made no tables
        with pytest.raises(StoreUnavailable, match="has no tables yet"):
            await ReadOnlyDatabase(empty_url).start()


@pytest.mark.parametrize(("revision", "advice"), [("0001", "start the server once"), ("9999", "used by a newer groundwire")])
async def test_tables_of_another_version_are_refused(url: str, database: Database, revision: str, advice: str) -> None:
    await revise(database, revision)
    try:
        with pytest.raises(StoreUnavailable, match=f"are of revision {revision}.*{advice}"):
            await ReadOnlyDatabase(url).start()
    finally:
        await revise(database, HEAD)


async def revise(database: Database, revision: str) -> None:
    async with database.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})


# ---- SQLite's files ----


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def file(tmp_path: Path, migrated_file: Path) -> Path:
    """A store that no server has open, in a folder of its own; with a name that a URI would take apart."""
    folder = tmp_path / "a #? b"
    folder.mkdir()
    shutil.copy(migrated_file, folder / "store.db")
    return folder / "store.db"


async def test_a_missing_file_stays_missing(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=f"there is no store at {tmp_path}/none.db"):
        await ReadOnlyDatabase(f"sqlite:///{tmp_path}/none.db").start()
    assert [] == list(tmp_path.iterdir())


async def test_a_store_in_memory_can_only_be_asked_of_its_server() -> None:
    with pytest.raises(StoreUnavailable, match="in a server's memory"):
        await ReadOnlyDatabase("sqlite://").start()


async def test_reading_leaves_no_trace(file: Path) -> None:
    before = files(file.parent)
    async with readable(f"sqlite:///{file.parent}/store.db".replace("?", "%3F")) as found:
        assert [] == await ids(StoreReading(found), 0.0, 1e12)
    assert before == files(file.parent)


async def test_what_a_running_server_has_just_written_is_read(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "store.db")
    url = f"sqlite:///{tmp_path}/store.db"
    async with opened(url) as server:
        await store(server, make_record(1))
        async with readable(url) as found:
            assert (names([1]), False) == (await ids(StoreReading(found), 0.0, 1e12), found.overtaken)


async def test_a_server_that_starts_to_write_meanwhile_is_noticed(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "store.db")
    url = f"sqlite:///{tmp_path}/store.db"
    async with readable(url) as found:
        assert not found.overtaken
        async with opened(url) as server:
            await store(server, make_record(1))
            assert found.overtaken
        assert found.overtaken  # also when it has ended again


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_folder_that_cannot_be_written_is_enough(file: Path) -> None:
    file.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        async with readable(f"sqlite:///{file.parent}/store.db".replace("?", "%3F")) as found:
            assert [] == await ids(StoreReading(found), 0.0, 1e12)
    finally:
        file.parent.chmod(stat.S_IRWXU)


async def test_a_file_that_is_no_store_is_said(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be read: file is not a database"):
        await ReadOnlyDatabase(f"sqlite:///{tmp_path}/store.db").start()
    assert ["store.db"] == [path.name for path in tmp_path.iterdir()]
