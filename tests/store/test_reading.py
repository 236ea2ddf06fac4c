"""The store as a report reads it: nothing is written, created or migrated, and what cannot be read says so."""

import os
import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from proxy.errors import StoreUnavailable
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.failure_rows import failure_id
from proxy.store.failures import DatabaseFailures
from proxy.store.figures import DatabaseFigures
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.reading import ReadOnlyDatabase
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


async def exchanges(database: Database) -> int:
    return (await DatabaseFigures(database).whole(0.0, 4e9)).exchanges


async def test_a_route_is_told_apart_with_its_pieces_and_clashes(url: str, database: Database) -> None:
    await store(database, make_record(1, route="/rag"), make_record(2, route=""))
    piece: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "kind": "tool_result", "role": "tool", "reason": "no"}
    pair: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "topic": "t", "older": {}, "newer": {}, "strategy": "merge"}
    quarantined, clashed = (kind(database, clock=lambda: START + 5) for kind in (DatabaseQuarantine, DatabaseClashes))
    for number, kind in ((1, "wrong_date"), (2, "wrong_name")):
        await quarantined.put(QuarantineItem(**piece, hash=str(number), type=kind, record_id=f"gw_{number:08d}", content=b"x"))
        await clashed.put(ClashRecord(**pair, pair_hash=str(number), type=kind, record_id=f"gw_{number:08d}"))
    told = []
    async with readable(url) as found:
        for route in (None, "/rag", ""):
            figures = DatabaseFigures(found, only=None if route is None else ("route", route))
            whole = await figures.whole(START, START + 9)
            told.append((whole.exchanges, whole.quarantined, whole.clashes, whole.clashes_open, await figures.newest()))
    both, date, name = {"wrong_date": 1, "wrong_name": 1}, {"wrong_date": 1}, {"wrong_name": 1}
    assert [(2, both, both, 2, START + 2), (1, date, date, 1, START + 1), (1, name, name, 1, START + 2)] == told


async def test_failures_are_of_the_route_that_their_run_came_by(url: str, database: Database) -> None:
    await store(database, make_record(1, route="/rag", run_id="r1"), make_record(2, route="", run_id="r2"))
    kept = DatabaseFailures(database, clock=lambda: START + 5)
    for run_id, names in (("r1", ["f1", "f2"]), ("r2", ["f1"])):
        await kept.apply([occurred(name) for name in names], **STEP | {"run_id": run_id})
    await kept.resolve(failure_id("alice", "r1", "f1"), "resolved", by="ann")
    async with readable(url) as found:
        told = [
            (await DatabaseFigures(found, only=None if route is None else ("route", route)).whole(START, START + 9)).failures
            for route in (None, "/rag", "")
        ]
        assert {} == (await DatabaseFigures(found).whole(START, START + 5)).failures
    active, resolved = "tool_error:active", "tool_error:resolved"
    assert [{active: 2, resolved: 1}, {active: 1, resolved: 1}, {active: 1}] == told


async def test_a_store_without_records_has_none(url: str) -> None:
    async with readable(url) as found:
        assert (0, None) == (await exchanges(found), await DatabaseFigures(found).newest())


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
        await connection.execute(text("UPDATE alembic_version SET version_num = :now, compatible_from = :now"), {"now": revision})


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
        assert 0 == await exchanges(found)
    assert before == files(file.parent)


async def test_what_a_running_server_has_just_written_is_read(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "store.db")
    url = f"sqlite:///{tmp_path}/store.db"
    async with opened(url) as server:
        await store(server, make_record(1))
        async with readable(url) as found:
            assert (1, False) == (await exchanges(found), found.overtaken)


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
            assert 0 == await exchanges(found)
    finally:
        file.parent.chmod(stat.S_IRWXU)


async def test_a_file_that_is_no_store_is_said(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StoreUnavailable, match="cannot be read: file is not a database"):
        await ReadOnlyDatabase(f"sqlite:///{tmp_path}/store.db").start()
    assert ["store.db"] == [path.name for path in tmp_path.iterdir()]
