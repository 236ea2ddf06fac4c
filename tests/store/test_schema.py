"""Upgrades: from each revision that stores may have, with what they remember, safe when several workers start at once."""

import asyncio
import sqlite3
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, inspect

from proxy.context.lineage import beginnings_of
from proxy.ports import Compaction, ToolRun
from proxy.store import schema
from proxy.store.conversations import DatabaseHistories, DatabaseLineages, DatabaseOwners
from proxy.store.database import Database
from proxy.store.memory import DatabaseCompactions, DatabaseFirstSeen, DatabaseToolRuns, _all_short
from proxy.store.tables import key_of, metadata
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, execute, make_record, opened

_WORKER = """
import asyncio, sys
from proxy.store.database import Database
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record

async def main(url, number):
    database = Database(url)
    print("ready", flush=True)
    sys.stdin.readline()
    await database.start()
    assert database.available, database.problem
    writer = RecordWriter(database, CountingCounters(), batch_rows=20)
    writer.start()
    for i in range(200):
        writer.submit(make_record(number * 1000 + i))
    await writer.stop()
    await database.stop()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def statements(revision: str, *, lite: bool) -> list[str]:
    """What made a store of that revision, as the database takes it."""
    dump = (Path(__file__).parent / "data" / f"revision_{revision}.sql").read_text()
    if not lite:
        dump = dump.replace("rollup_changes (\n\tid INTEGER NOT NULL", "rollup_changes (\n\tid BIGSERIAL NOT NULL")
        dump = dump.replace("BLOB", "BYTEA").replace("FLOAT", "FLOAT(53)").replace("number INTEGER NOT NULL", "number BIGSERIAL")
    found = [one.strip() for one in dump.split(";\n")]
    return [one for one in found if one and not one.startswith(("BEGIN", "COMMIT", "DELETE FROM"))]


async def filled(url: str, *commands: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            for command in commands:
                connection.execute(command)
            connection.commit()
    else:
        await execute(url, *commands)


def shape(connection: Connection) -> dict[str, Any]:
    """Tables with their columns, keys and indexes."""
    inspector = inspect(connection)
    return {
        table: (
            {column["name"]: (str(column["type"]), column["nullable"]) for column in inspector.get_columns(table)},
            inspector.get_pk_constraint(table)["constrained_columns"],
            {index["name"]: (index["column_names"], bool(index["unique"])) for index in inspector.get_indexes(table)},
        )
        for table in inspector.get_table_names()
    }


@pytest.mark.parametrize("revision", ["0001", "0007", "0010", "0011", "0014"])
async def test_a_store_of_an_earlier_revision_becomes_as_a_new_one(empty_url: str, url: str, revision: str) -> None:
    await filled(empty_url, *statements(revision, lite=empty_url.startswith("sqlite")))
    async with opened(empty_url) as old, opened(url) as new:
        async with old.transaction() as connection:
            found = await connection.run_sync(shape)
        async with new.transaction() as connection:
            assert await connection.run_sync(shape) == found
            assert {*metadata.tables, "alembic_version"} == set(found)
    async with opened(empty_url) as again:  # and no more is to be done
        await again.ping()


async def test_what_an_earlier_revision_remembers_of_clients_is_there_after_it(empty_url: str) -> None:
    lite = empty_url.startswith("sqlite")
    now, opening = 1_700_000_000.0, [{"role": "user", "content": "Hi"}]
    (beginning,) = beginnings_of("ann", "", opening).hashes
    names, run, turn = '["search"]', key_of("ann", "r"), key_of("ann", "response:1")
    seen = struct.pack("<Qd", _all_short(["m"])[0], now).hex()
    times = f"x'{seen}'" if lite else f"decode('{seen}', 'hex')"
    content = '{"name": "response:1", "messages": [{"role": "user"}], "own": false, "began": true, "lost": false}'
    named = '{"name": "conversation:a", "messages": [], "own": false, "began": false, "lost": false}'

    def as_bytes(words: str) -> str:
        return f"CAST('{words}' AS BLOB)" if lite else f"convert_to('{words}', 'UTF8')"

    rows = [
        ("tool_runs", f"'{run}', 'ann', {as_bytes(names)}, 3, 1"),
        ("first_seen", f"'{run}', 'ann', {times}, 2, 1"),
        ("compactions", f"'{key_of('ann', 'c5')}', 'ann', 'r', 'c5', 5, {as_bytes('[0, 4]')}, 1"),
        ("lineages", f"'{key_of('ann', '', beginning)}', 'ann', 'run_old', '', 1"),
        ("histories", f"'{turn}', 'ann', '', {as_bytes(content)}, 1"),
        ("histories", f"'{key_of('ann', 'conversation:a')}', 'ann', '{turn}', {as_bytes(named)}, 1"),
        ("owners", f"'{key_of('main', 'resp_1')}', 'ann', 1"),
        ("tool_outcome_versions", "'ann', 7, 1"),
    ]
    added = [
        f"INSERT INTO {table} VALUES ({values}, {', '.join([str(now)] * (1 if 'versions' in table else 2))})" for table, values in rows
    ]
    await filled(empty_url, *statements("0010", lite=lite), *added)
    async with opened(empty_url) as database:
        assert ToolRun(("search",), 3) == await DatabaseToolRuns(database).get("r", client="ann")
        assert [now] == await DatabaseFirstSeen(database).times("r", ["m"], now + 9, client="ann")
        assert Compaction("c5", 5, (0, 4), now) == await DatabaseCompactions(database).find(["c4", "c5"], client="ann")
        assert "run_old" == await DatabaseLineages(database).run_of(beginnings_of("ann", "", opening), client="ann", route="")
        found = await DatabaseHistories(database).find("conversation:a", client="ann")
        assert (["response:1"], True) == ([turn.name for turn in found.turns], found.whole)
        assert 7 == await DatabaseToolOutcomes(database).version("ann")
        assert {"resp_1": "ann"} == await DatabaseOwners(database).find("main", ["resp_1", "resp_2"])


@pytest.mark.process
async def test_several_workers_may_start_and_write_at_once(empty_url: str) -> None:
    workers = [
        subprocess.Popen([sys.executable, "-c", _WORKER, empty_url, str(n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for n in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    for worker in workers:
        worker.communicate()
    assert [worker.returncode for worker in workers] == [0, 0]
    async with opened(empty_url) as database, database.transaction() as connection:
        assert (await connection.exec_driver_sql("SELECT count(*) FROM records")).scalar_one() == 400


@pytest.mark.parametrize("marked", [True, False])
async def test_a_store_of_a_newer_version_is_left_alone(empty_url: str, marked: bool) -> None:
    async with opened(empty_url) as database, database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999', compatible_from = '9998'")
        if not marked:  # as a release left it that knew of no other's
            await connection.exec_driver_sql("ALTER TABLE alembic_version DROP COLUMN compatible_from")
    database = Database(empty_url)
    await database.start()
    assert not database.available
    assert "revision 9999, newer than this groundwire knows" in database.problem
    await database.stop()


async def test_an_older_release_starts_beside_this_one_and_leaves_its_tables_as_they_are(
    empty_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The older release is this one's code with the revision before: what it needs is here, so whatever it does not know it must leave."""
    caplog.set_level("INFO", "proxy.store.database")
    async with opened(empty_url) as new:
        async with new.transaction() as connection:
            before, revision = await connection.run_sync(shape), await connection.run_sync(schema.current_revision)
        with monkeypatch.context() as older:
            older.setattr(schema, "HEAD", f"{int(schema.HEAD) - 1:04}")
            older.setattr(schema, "_PARTIAL", {})  # an index that it would take away as none of its own
            assert await Database(empty_url).migrate() == revision.number
            async with opened(empty_url) as old:
                await asyncio.gather(*(written(database, number) for number, database in enumerate((old, new))))
            assert f"its tables are of revision {revision.number}, which serves this release's {schema.HEAD} too" in caplog.text
        async with new.transaction() as connection:
            assert revision == await connection.run_sync(schema.current_revision)
            assert before == await connection.run_sync(shape)
            assert (await connection.exec_driver_sql("SELECT count(*) FROM records")).scalar_one() == 40


async def written(database: Database, number: int) -> None:
    writer = RecordWriter(database, CountingCounters(), batch_rows=5)
    writer.start()
    for i in range(20):
        writer.submit(make_record(number * 1000 + i))
    await writer.stop()


async def test_tables_that_another_release_brings_up_meanwhile_are_not_brought_down(
    empty_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node of an older release that starts at the same time looked at them before."""
    await filled(empty_url, *statements("0014", lite=empty_url.startswith("sqlite")))
    older = Database(empty_url)
    take = older._take_migration_lock

    async def late(connection: Any) -> None:
        monkeypatch.setattr(schema, "HEAD", newest)
        async with opened(empty_url):
            pass
        monkeypatch.setattr(schema, "HEAD", before)
        await take(connection)

    newest, before = schema.HEAD, f"{int(schema.HEAD) - 1:04}"
    monkeypatch.setattr(older, "_take_migration_lock", late)
    monkeypatch.setattr(schema, "HEAD", before)
    assert newest == await older.migrate()


async def test_the_last_release_goes_on_writing_to_the_new_tables(tmp_path: Path) -> None:
    """Its columns are there, and what is new beside them need not be given: a node that was not replaced yet knows nothing of it."""
    dumps = {path.stem.removeprefix("revision_") for path in (Path(__file__).parent / "data").glob("revision_*.sql")}
    last = min({one for one in dumps if one >= schema.COMPATIBLE_FROM} or {max(dumps)})
    urls = [f"sqlite:///{tmp_path / name}" for name in ("old.db", "new.db")]
    await filled(urls[0], *statements(last, lite=True))
    async with opened(urls[1]):
        pass
    with closing(sqlite3.connect(tmp_path / "old.db")) as old, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        for (table,) in old.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").fetchall():
            before, now = ({row[1]: row for row in one.execute(f"PRAGMA table_info({table})")} for one in (old, new))
            assert set() == set(before) - set(now), table
            assert [] == [name for name in now.keys() - before.keys() if now[name][3] and now[name][4] is None], table
