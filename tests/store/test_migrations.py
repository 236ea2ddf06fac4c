"""Migrations: complete, quick when there is nothing to do, safe when several workers start at once."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from proxy.store import migrate
from proxy.store.database import Database
from proxy.store.tables import metadata
from tests.store.conftest import opened

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


def test_the_newest_revision_is_alembics_head() -> None:
    folder = Path(migrate.__file__).parent / "migrations"
    assert migrate.head_revision() == ScriptDirectory(str(folder)).get_current_head()


async def test_migrations_make_the_tables_that_the_code_expects(empty_url: str) -> None:
    async with opened(empty_url) as database, database.transaction() as connection:
        differences = await connection.run_sync(lambda c: compare_metadata(MigrationContext.configure(c), metadata))
    assert differences == []


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


@pytest.mark.process
def test_a_current_store_opens_without_importing_alembic(migrated_file: Path) -> None:
    script = (
        "import asyncio, sys\nfrom proxy.store.database import Database\n"
        "async def main():\n  d = Database(sys.argv[1]); await d.start(); assert d.available, d.problem; await d.stop()\n"
        "asyncio.run(main()); assert not [m for m in sys.modules if m.startswith('alembic')]"
    )
    subprocess.run([sys.executable, "-c", script, f"sqlite:///{migrated_file}"], check=True)


async def test_a_store_of_a_newer_version_is_left_alone(empty_url: str) -> None:
    async with opened(empty_url) as database, database.transaction() as connection:
        await connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    database = Database(empty_url)
    await database.start()
    assert not database.available
    assert "revision 9999, newer than this groundwire knows" in database.problem
    await database.stop()


async def test_alembic_writes_no_lines_into_our_log(empty_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with opened(empty_url):
        pass
    assert [r.name for r in caplog.records] == ["proxy.store.database"]
