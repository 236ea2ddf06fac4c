"""What a killed process had open on SQLite is found by the others."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxy.store.database import Database
from proxy.store.journal import Journal
from proxy.store.processes import ENDED, Processes
from proxy.store.records import Record, Records
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record

KILLED = """
import os, signal, sys
from pathlib import Path
from proxy.store.journal import Journal
from tests.store.conftest import make_record
journal = Journal(Path(sys.argv[1]), "killed")
journal.start()
for number in range(int(sys.argv[2])):
    journal.begin(make_record(number, outcome="pending", status=0))
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def file(tmp_path: Path, migrated_file: Path) -> Path:
    """A store of its own."""
    return Path(shutil.copy(migrated_file, tmp_path / "store.db"))


def pending(number: int, **fields: object):  # type: ignore[no-untyped-def]
    return make_record(number, **{"outcome": "pending", "status": 0, "reason": "killed", "created_at": time.time()} | fields)


def killed(file: Path, count: int) -> None:
    """A process that began so many exchanges is gone."""
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(file), str(count)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert b"ready\n" == process.stdout.readline()
    here = Journal(file, "here")
    here.start()
    assert [] == here.abandoned(), "its process lives"
    assert here.find("gw_00000000") is not None
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    here.stop()


@pytest.mark.process
async def test_what_a_killed_process_had_open_is_interrupted_once(file: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{file}")
    await database.start()
    try:
        killed(file, 1200)
        writer = RecordWriter(database, CountingCounters())
        writer.start()
        writer.submit(make_record(7, outcome="pass"))  # its record was written, its line had not gone yet
        begun = writer.begin(pending(8))
        assert begun is not None
        await begun.wait()
        await writer.stop()
        journal = Journal(file, "next")
        journal.start()
        processes = Processes(database, "next", dict, journal=journal)
        assert (1199, 0) == (await processes.close_abandoned(), await processes.close_abandoned())
        found = {number: await Records(database).get(f"gw_{number:08d}") for number in (0, 7, 8, 1199)}
    finally:
        await database.stop()
    assert {0: "interrupted", 7: "pass", 8: "interrupted", 1199: "interrupted"} == {n: one.outcome for n, one in found.items() if one}
    assert {ENDED} == {one.reason for n, one in found.items() if one and n != 7}
    assert ["next"] == [path.name.rpartition("-")[2] for path in file.parent.glob("*-open-*")]


async def test_an_exchange_waits_for_no_row_and_who_goes_on_gets_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.store.writer._LASTS_S", 0.05)
    database = Database(f"sqlite+aiosqlite:///{file}")
    await database.start()
    writer = RecordWriter(database, CountingCounters(), journal=Journal(file, "here"))
    writer.start()
    try:
        assert writer.begin(pending(1)) is None
        first = await Records(database, writer).get("gw_00000001")
        assert await Records(database).get("gw_00000001") is None
        writer.begin(pending(2))
        writer.submit(make_record(2, outcome="pass"))
        while (row := await Records(database).get("gw_00000001")) is None:
            await asyncio.sleep(0.01)
    finally:
        await writer.stop()
        last = await Records(database).get("gw_00000002")
        await database.stop()
    assert first is not None
    assert last is not None
    assert ("pending", "pending", "pass") == (first.outcome, row.outcome, last.outcome)
    (left,) = Journal(file, "next").abandoned()  # nobody has ended the first one
    assert ["gw_00000001"] == [one.id for one in left.records if one.id != "gw_00000002"]


def test_the_file_is_written_anew_while_others_look(tmp_path: Path) -> None:
    here, other = Journal(tmp_path / "store.db", "here"), Journal(tmp_path / "store.db", "other")
    here.start()
    other.start()
    here.begin(pending(0, model="m" * 100_000, path="/\ud800"))
    for number in range(1, 5000):
        here.begin(pending(number))
        here.end([f"gw_{number:08d}"])
        if number % 500 == 0:
            assert [] == other.abandoned()
            assert other.find("gw_00000000") is not None
    assert here.path.stat().st_size < 300_000
    here.end(["gw_00000000"])
    here.stop()
    assert not here.path.exists()
    other.stop()


def test_a_torn_line_and_a_foreign_one_cost_only_themselves(tmp_path: Path) -> None:
    here, left = Journal(tmp_path / "store.db", "here"), Journal(tmp_path / "store.db", "left")
    left.start()
    left.begin(pending(1))
    left.stop()
    with left.path.open("ab") as file:
        file.write(b'nonsense\n["gw_1"]\n[]\n["gw_00000002",1.0,"c"')
    assert [("gw_00000001",)] == [tuple(one.id for one in found.records) for found in here.abandoned()]


def test_a_full_disk_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    here = Journal(tmp_path / "store.db", "here")
    here.start()
    os.close(here._file)
    here._file = os.open("/dev/full", os.O_WRONLY)
    for number in range(3):
        here.begin(pending(number))
    assert 1 == len(caplog.messages)
    here.stop()


def test_what_only_looks_like_a_journal_is_left_alone(tmp_path: Path) -> None:
    here, longer = Journal(tmp_path / "a.db", "here"), tmp_path / "a.db-open-b"
    others = Journal(longer, "left")
    others.start()
    others.begin(pending(1))
    others.stop()
    for name in (longer.name, f"{longer.name}-wal"):  # a database whose name begins as a journal's
        (tmp_path / name).write_bytes(b"")
    assert ([], None) == (here.abandoned(), here.find("gw_00000001"))
    assert ["gw_00000001"] == [one.id for found in Journal(longer, "next").abandoned() for one in found.records]


def test_what_a_killed_process_was_writing_anew_goes_with_its_file(tmp_path: Path) -> None:
    left = Journal(tmp_path / "store.db", "left")
    left.start()
    left.begin(pending(1))
    left.stop()
    left.path.with_name(f".{left.path.name}").write_bytes(b"")
    for found in Journal(tmp_path / "store.db", "here").abandoned():
        found.remove()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.process
async def test_an_exchange_is_found_while_it_moves_from_a_killed_process_s_journal_into_the_table(file: Path) -> None:
    database = Database(f"sqlite+aiosqlite:///{file}")
    await database.start()
    killed(file, 3)
    journal = Journal(file, "next")
    journal.start()

    class Moving(RecordWriter):
        async def begun(self, record_id: str) -> Record | None:
            assert 3 == await Processes(database, "next", dict, journal=journal).close_abandoned()
            return await super().begun(record_id)

    try:
        found = await Records(database, Moving(database, CountingCounters(), journal=journal)).get("gw_00000001")
    finally:
        journal.stop()
        await database.stop()
    assert found is not None
    assert "interrupted" == found.outcome
