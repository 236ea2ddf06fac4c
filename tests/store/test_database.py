"""Opening, losing and reopening a store, and the URLs it takes."""

import asyncio
import logging
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import text as sql

from proxy.errors import ConfigError, StoreUnavailable
from proxy.store import drivers
from proxy.store.database import Database, StoreRejected
from proxy.store.memory import DatabaseScratchpad
from tests.store.conftest import LIMIT_S, execute, opened


@pytest.mark.parametrize(
    ("text", "driver"),
    [
        ("sqlite:///x.db", "sqlite+aiosqlite"),
        ("sqlite+aiosqlite:////tmp/x.db", "sqlite+aiosqlite"),
        ("postgres://u:p@h/d", "postgresql+asyncpg"),
        ("postgresql://u:p@h/d", "postgresql+asyncpg"),
        ("postgresql+asyncpg://u:p@h/d", "postgresql+asyncpg"),
    ],
)
def test_plain_urls_get_their_asynchronous_driver(text: str, driver: str) -> None:
    assert drivers.store_url(text).drivername == driver


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("groundwire.db", "not a database URL"),
        ("mysql://u:hunter2@h/d", "unknown database or driver 'mysql'"),
        ("postgresql+psycopg2://u:hunter2@h/d", "unknown database or driver 'postgresql+psycopg2'"),
        ("postgresql://u:hunter2@h", "names no database"),
        ("postgresql://u:hunter2@h:port/d", "not a database URL"),
        ("sqlite://groundwire.db", "three slashes"),
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Database(text)
    assert problem in str(refused.value)
    assert "expected" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'groundwire\[postgres\]'"):
        drivers.store_url("postgresql://u:p@h/d")


async def test_a_store_that_opens_is_available_and_answers(database: Database) -> None:
    await database.ping()
    assert (database.available, database.problem) == (True, "")


async def test_a_store_in_memory_works() -> None:
    async with opened("sqlite://") as database:
        pad = DatabaseScratchpad(database)
        keys = await asyncio.gather(*(pad.put(bytes([n]), client="a", run_id="r") for n in range(20)))
        assert await pad.get(keys[7]) == b"\x07"


async def test_a_stopped_store_refuses(url: str) -> None:
    async with opened(url) as database:
        pass
    with pytest.raises(StoreUnavailable, match="stopped"):
        await database.ping()


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes")
async def test_a_new_file_is_its_owners_alone_and_one_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    new, old = tmp_path / "new.db", tmp_path / "old.db"
    old.touch()
    old.chmod(0o660)
    for file in (new, old):
        async with opened(f"sqlite:///{file}") as database:
            assert database.available
            modes = {one.name.partition("-")[2]: one.stat().st_mode & 0o777 for one in tmp_path.glob(f"{file.name}*")}
        assert modes == dict.fromkeys(("", "wal", "shm"), 0o600 if file == new else 0o660)


async def test_sqlite_is_set_up_for_several_workers(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'x.db'}") as database, database.transaction() as connection:
        names = ("journal_mode", "synchronous", "foreign_keys", "auto_vacuum", "busy_timeout")
        found = [(await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one() for name in names]
    assert found == ["wal", 1, 1, 2, 4000]


def test_sqlite_overwrites_what_is_deleted_however_it_was_built() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("PRAGMA secure_delete = OFF")  # as python.org's is
    drivers.set_up_connection(connection, 100)
    found = connection.execute("PRAGMA secure_delete").fetchone()
    connection.close()
    assert (1,) == found


async def test_a_missing_folder_is_a_problem_until_it_is_there(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'later' / 'x.db'}")
    await database.start()
    assert not database.available
    assert database.problem == f"the folder {tmp_path / 'later'} does not exist"
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await database.ping()
    (tmp_path / "later").mkdir()
    await database.wait()
    await database.ping()
    await database.stop()


async def test_a_file_that_is_no_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database at all" * 100)
    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    await database.start()
    assert (database.available, database.problem) == (False, "file is not a database")
    await database.stop()


async def test_a_read_only_store_is_a_problem(tmp_path: Path, migrated_file: Path) -> None:
    path = tmp_path / "x.db"
    shutil.copy(migrated_file, path)
    path.chmod(0o444)  # root may write all the same, hence the mode in the URL
    database = Database(f"sqlite:///file:{path}?mode=ro&uri=true")
    await database.start()
    assert not database.available
    assert "readonly" in database.problem or "not writable" in database.problem
    await database.stop()


@pytest.mark.slow
async def test_a_folder_that_goes_away_is_noticed_and_the_store_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    async with opened(f"sqlite:///{folder / 'x.db'}") as database:
        shutil.rmtree(folder)
        with pytest.raises(StoreUnavailable, match="is gone or was replaced"):
            await DatabaseScratchpad(database).put(b"x", client="a", run_id="r")
        assert not database.available
        folder.mkdir()
        await database.wait()
        assert await DatabaseScratchpad(database).put(b"x", client="a", run_id="r")


@pytest.mark.usefixtures("soon_locked")
async def test_a_lock_held_elsewhere_fails_in_time_and_passes(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    async with opened(f"sqlite:///{tmp_path / 'x.db'}", timeout_s=LIMIT_S) as database:
        other.execute("BEGIN IMMEDIATE")
        for operation in (database.ping(), DatabaseScratchpad(database).put(b"x", client="a", run_id="r")):
            with pytest.raises(StoreUnavailable, match="locked by another process"):
                await operation
        assert database.available
        assert await DatabaseScratchpad(database).get("sp_none") is None
        other.execute("ROLLBACK")
        await database.ping()
    other.close()


async def test_a_store_locked_at_start_opens_later(tmp_path: Path, migrated_file: Path) -> None:
    shutil.copy(migrated_file, tmp_path / "x.db")
    other = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", timeout_s=0.25)
    await database.start()
    assert not database.available
    other.execute("ROLLBACK")
    other.close()
    await database.wait()
    await database.ping()
    await database.stop()


async def test_a_server_that_refuses_is_a_problem_and_shows_no_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = Database("postgresql://user:hunter2@127.0.0.1:1/d")
    await database.start()
    assert not database.available
    assert "refused" in database.problem.lower() or "connect" in database.problem.lower()
    await database.stop()
    assert "hunter2" not in caplog.text + database.problem + database.name


@pytest.mark.postgres
async def test_a_wrong_password_is_a_problem_and_is_not_shown(postgres_server: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    database = Database(postgres_server.replace("pass%20word", "hunter2") + "/postgres")
    await database.start()
    assert "password authentication failed" in database.problem
    await database.stop()
    assert "hunter2" not in caplog.text + database.problem


async def test_a_server_that_never_answers_does_not_hold_up_the_start() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    database = Database(f"postgresql://u:p@127.0.0.1:{silent.sockets[0].getsockname()[1]}/d", timeout_s=0.2)
    async with asyncio.timeout(2):
        await database.start()
    assert (database.available, database.problem) == (False, "no answer within 0.2 s")
    await database.stop()
    silent.close()
    await silent.wait_closed()


@pytest.mark.postgres
async def test_a_server_that_goes_away_is_found_again(migrated_server: str) -> None:
    name = "going_away"
    await execute(f"{migrated_server}/postgres", f"CREATE DATABASE {name} TEMPLATE migrated")
    async with opened(f"{migrated_server}/{name}") as database:
        pad = DatabaseScratchpad(database)
        key = await pad.put(b"x", client="a", run_id="r")
        await execute(
            f"{migrated_server}/postgres",
            f"ALTER DATABASE {name} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'",
        )
        with pytest.raises(StoreUnavailable):
            await pad.get(key)
        assert not database.available
        await execute(f"{migrated_server}/postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        await database.wait()
        assert await pad.get(key) == b"x"


def test_a_password_is_taken_out_in_every_form() -> None:
    url = drivers.store_url("postgresql://u:p%40ss%20word@h/d")
    assert drivers.without_password("p@ss word and p%40ss%20word and p%40ss word", url).count("***") >= 2


async def test_a_sum_that_is_too_large_is_no_store_that_is_away(tmp_path: Path) -> None:
    async with opened(f"sqlite+aiosqlite:///{tmp_path / 'x.db'}") as database:
        with pytest.raises(StoreRejected, match="integer overflow"):
            await database.rows(sql(f"SELECT sum(a) FROM (SELECT {2**62} AS a UNION ALL SELECT {2**62})"))
        assert database.available


async def test_a_slow_query_is_no_store_that_is_away(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", timeout_s=5)
    await database.start()
    endless = sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000000) SELECT count(*) FROM n")
    with pytest.raises(StoreUnavailable, match=r"no answer within 0\.1 s"):
        async with database.transaction(0.1) as connection:
            await connection.execute(endless)
    assert database.available
    await database.ping()
    await database.stop()


async def test_after_a_query_without_an_answer_a_server_that_is_silent_is_away() -> None:
    database = Database("postgresql://u:p@127.0.0.1:1/d", timeout_s=0.2)

    class Silent:
        def connect(self) -> Any:
            return self

        async def __aenter__(self) -> Any:
            await asyncio.Event().wait()

        async def __aexit__(self, *_: object) -> None:
            """Nothing to close."""

        async def dispose(self) -> None:
            """Nothing to close."""

    database.available, database._engine = True, cast("Any", Silent())
    with pytest.raises(StoreUnavailable, match="no answer"):
        await database.read(sql("SELECT 1"), {})
    while database.available:
        await asyncio.sleep(0)
    assert "no answer within 0.2 s" == database.problem
    await database.stop()
