"""The queue of records: bounded, batched, tried again, flushed at the end."""

import asyncio
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.records import Record, Records, to_row
from proxy.store.writer import RecordWriter, _Rows
from tests.store.conftest import LIMIT_S, CountingCounters, make_record, opened


async def test_records_are_written_without_being_asked(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters, flush_every_s=0.01)
    writer.start()
    for n in range(1200):
        writer.submit(make_record(n))
    await counters.reaches("records.written", 1200)
    writer.submit(make_record(5000))
    await counters.reaches("records.written", 1201)
    assert len(writer) == 0
    await writer.stop()


async def test_a_full_batch_does_not_wait_for_its_time(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters, flush_every_s=3600, batch_rows=10)
    writer.start()
    for n in range(10):
        writer.submit(make_record(n))
    await counters.reaches("records.written", 10)
    await writer.stop()


async def test_more_than_two_batches_do_not_wait_for_their_time(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters, flush_every_s=3600, batch_rows=10)
    for n in range(35):
        writer.submit(make_record(n))
    writer.start()
    await counters.reaches("records.written", 35)
    await writer.stop()


async def test_a_flush_leaves_what_comes_meanwhile_to_gather(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters)
    writer.submit(make_record(1))
    flushing = asyncio.create_task(writer.flush())
    while writer.pending("gw_00000001") is not None:
        await asyncio.sleep(0)
        if writer.pending("gw_00000002") is None and not writer._waiting:  # the first batch is on its way
            writer.submit(make_record(2))
    await flushing
    assert writer.pending("gw_00000002") is not None
    assert counters == {"records.written": 1}


async def test_stop_writes_what_waits(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters, flush_every_s=3600)
    writer.start()
    writer.submit(make_record())
    await writer.stop()
    assert await Records(database).get("gw_00000001") == make_record()


async def test_the_same_record_twice_is_one(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters)
    for _ in range(2):
        writer.submit(make_record())
        await writer.flush()
    assert await Records(database).list() == ([make_record()], False)


async def test_a_full_queue_drops_the_newest_and_counts_them(counters: CountingCounters) -> None:
    writer = RecordWriter(Database("sqlite://"), counters, max_rows=3)
    for n in range(5):
        writer.submit(make_record(n))
    assert [writer.pending(f"gw_{n:08d}") is not None for n in range(5)] == [True, True, True, False, False]
    assert counters == {"records.lost": 2}


async def test_the_queue_is_bounded_in_bytes_too(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters, max_bytes=1000)
    for n in range(5):
        writer.submit(make_record(n, request_body=b"x" * 600))
    assert counters == {"records.lost": 3}
    await writer.flush()
    writer.submit(make_record(9, request_body=b"x" * 600))
    assert len(writer) == 1


@pytest.mark.usefixtures("soon_locked")
async def test_records_wait_while_the_store_is_locked(tmp_path: Path, migrated_file: Path, counters: CountingCounters) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(migrated_file.read_bytes())
    other = sqlite3.connect(path, isolation_level=None)
    async with opened(f"sqlite:///{path}", timeout_s=LIMIT_S) as database:
        writer = RecordWriter(database, counters, flush_every_s=0.01)
        writer.start()
        other.execute("BEGIN IMMEDIATE")
        writer.submit(make_record(1))
        await counters.reaches("records.write_errors", 2)
        problem = writer.problem
        writer.submit(make_record(2))
        other.execute("ROLLBACK")
        await counters.reaches("records.written", 2)
        await writer.stop()
    assert ("locked" in problem, "") == (True, writer.problem)
    other.close()
    assert counters["records.lost"] == 0


async def test_stop_gives_up_at_its_deadline_and_counts_the_loss(counters: CountingCounters) -> None:
    writer = RecordWriter(Database("sqlite://"), counters)
    writer.start()
    writer.submit(make_record())
    await writer.stop(deadline_s=0.05)
    assert counters["records.lost"] == 1
    assert len(writer) == 0


async def test_flush_keeps_the_records_when_it_fails(counters: CountingCounters) -> None:
    writer = RecordWriter(Database("sqlite://"), counters)
    writer.submit(make_record())
    with pytest.raises(StoreUnavailable):
        await writer.flush()
    assert writer.pending("gw_00000001") == make_record()


_VICTIM = """
import asyncio, itertools, sys
from proxy.store.database import Database
from proxy.store.writer import RecordWriter, _Rows
from tests.store.conftest import CountingCounters, make_record

async def main():
    database = Database(sys.argv[1])
    await database.start()
    writer = RecordWriter(database, CountingCounters(), flush_every_s=0.001, batch_rows=50)
    for n in itertools.count(1):
        writer.submit(make_record(n))
        if n % 100 == 0:
            await writer.flush()
            print(n, flush=True)

asyncio.run(main())
"""


@pytest.mark.process
async def test_after_kill_9_the_store_opens_with_all_that_was_flushed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'x.db'}"
    victim = subprocess.Popen([sys.executable, "-c", _VICTIM, url], stdout=subprocess.PIPE)
    assert victim.stdout is not None
    flushed = [int(victim.stdout.readline()) for _ in range(10)][-1]
    os.kill(victim.pid, signal.SIGKILL)
    victim.communicate()
    async with opened(url) as database, database.transaction() as connection:
        assert (await connection.exec_driver_sql("PRAGMA integrity_check")).scalar_one() == "ok"
        assert (await connection.exec_driver_sql("SELECT count(*) FROM records")).scalar_one() >= flushed


async def test_nobody_waits_for_the_store_while_records_are_encoded(
    tmp_path: Path, migrated_file: Path, counters: CountingCounters
) -> None:
    path = tmp_path / "x.db"
    shutil.copy(migrated_file, path)
    threads = []

    def encode(record: Record) -> tuple[Any, ...]:
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("ROLLBACK")
        threads.append(threading.current_thread())
        return to_row(record)

    async with opened(f"sqlite:///{path}") as database:
        await RecordWriter(database, counters)._insert(_Rows([make_record()], encode))
        assert await Records(database).get("gw_00000001") == make_record()
    assert 1 == len(threads)
    assert threading.main_thread() not in threads


async def test_the_time_that_bodies_take_is_none_of_the_stores(counters: CountingCounters, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = []
    monkeypatch.setattr(_Rows, "_encoded", lambda rows, i: encoded.append(i))
    none: dict[str, Any] = {}
    for bodies in (none, {"request_body": b"{}"}):
        writer = RecordWriter(Database("sqlite://"), counters)  # was never opened
        writer.submit(make_record(**bodies))
        with pytest.raises(StoreUnavailable):
            await writer.flush()
        assert len(bodies) == len(encoded)


def test_a_batch_is_encoded_as_its_records_are_one_by_one() -> None:
    details = [{"error": {"message": f"no: sk-{'a1' * 20}"}}, {}, b'{"a":1}', {"text": "\ud800"}, {"n": {1, 2}}]
    clean, unclean = [make_record(number, detail=[number]) for number in range(120)], [make_record(detail=detail) for detail in details]
    for batch in (clean, unclean, unclean[:2], [*clean, *unclean]):
        assert list(map(to_row, batch)) == list(_Rows(batch))


async def test_nobody_waits_long_for_a_row_and_nobody_at_all_while_the_store_is_slow(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = asyncio.Event()

    async def slow(*_: object) -> None:
        await held.wait()

    monkeypatch.setattr(database, "put", slow)
    monkeypatch.setattr("proxy.store.writer._BEGUN_WITHIN_S", 0.05)
    writer = RecordWriter(database, CountingCounters())
    writer.start()
    begun = writer.begin(make_record(1, outcome="pending"))
    assert begun is not None
    await begun.wait()
    assert writer.begin(make_record(2, outcome="pending")) is None
    held.set()
    await asyncio.sleep(0.01)
    assert writer.begin(make_record(3, outcome="pending")) is not None
    await writer.stop()
