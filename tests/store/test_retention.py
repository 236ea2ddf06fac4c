"""Retention by age and by size, on both databases."""

import asyncio
import base64
import random
from pathlib import Path

import pytest

from proxy.store.database import Database
from proxy.store.memory import DatabaseScratchpad
from proxy.store.records import Records
from proxy.store.retention import _LIVE_ROWS, Retention
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record, opened

_DAY_S = 86_400.0
_NOW = 1_700_000_000.0 + 100 * _DAY_S


async def _fill(database: Database, count: int, body_bytes: int, step_s: float = 1.0) -> None:
    writer = RecordWriter(database, CountingCounters())
    noise = random.Random(0)
    for n in range(count):
        body = base64.b64encode(noise.randbytes(body_bytes * 3 // 4))  # nothing that a database could compress
        writer.submit(make_record(n, created_at=1_700_000_000.0 + n * step_s, request_body=body))
    await writer.flush()


async def test_what_is_too_old_goes(database: Database) -> None:
    await _fill(database, 1200, 0, step_s=_DAY_S / 10)
    pad = DatabaseScratchpad(database, clock=lambda: 1_700_000_000.0)
    old = await pad.put(b"old", client="a", run_id="r")
    recent = await DatabaseScratchpad(database, clock=lambda: _NOW).put(b"recent", client="a", run_id="r")
    deleted = await Retention(database, days=30, clock=lambda: _NOW).run_once()
    assert deleted == 701
    kept, more = await Records(database).list(1000)
    assert (len(kept), more, kept[-1].id) == (500, False, "gw_00000700")
    assert [await pad.get(old), await pad.get(recent)] == [None, b"recent"]


async def test_a_store_within_its_limits_keeps_everything(database: Database) -> None:
    await _fill(database, 10, 1000)
    assert await Retention(database, days=1e6, max_mb=100).run_once() == 0


@pytest.mark.slow
async def test_the_oldest_go_when_it_has_grown_too_large(database: Database) -> None:
    await _fill(database, 1500, 4000)
    retention = Retention(database, days=1e6, max_mb=5)
    assert await retention.size_bytes() > 5_000_000
    deleted = await retention.run_once()
    kept, _ = await Records(database).list(1000)
    assert (len(kept), kept[0].id, kept[-1].id) == (1500 - deleted, "gw_00001499", f"gw_{deleted:08d}")
    assert 400 < len(kept)
    assert await retention.run_once() == 0


@pytest.mark.slow
async def test_sqlite_gives_the_room_back(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'x.db'}") as database:
        await _fill(database, 1500, 4000)
        await DatabaseScratchpad(database, clock=lambda: _NOW).put(b"recent", client="a", run_id="r")
        await Retention(database, days=1, clock=lambda: _NOW).run_once()
        async with database.transaction() as connection:
            assert int((await connection.exec_driver_sql("PRAGMA page_count")).scalar_one()) < 100


async def test_no_file_has_what_was_deleted(tmp_path: Path) -> None:
    async with opened(f"sqlite:///{tmp_path / 'x.db'}") as database:
        writer = RecordWriter(database, CountingCounters())
        for n in range(200):
            writer.submit(make_record(n, request_body=b'{"content": "%s"}' % (b"Gustav " if n < 150 else b"Berta ") * (n % 50 + 1)))
        await writer.flush()
        await Retention(database, days=1, clock=lambda: 1_700_000_150.0 + _DAY_S).run_once()
        left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert (False, True) == (b"Gustav" in left, b"Berta" in left)


async def test_it_runs_by_itself_and_survives_a_store_that_is_away() -> None:
    retention = Retention(Database("sqlite://"))
    retention.start()
    await retention.stop()


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)])
async def test_how_large_millions_of_rows_are_is_told_by_a_sample(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await _fill(database, 4000, 700)
    retention = Retention(database)
    exact = await retention._rows_bytes()
    monkeypatch.setattr("proxy.store.retention._EXACTLY_ROWS", 1000)
    monkeypatch.setattr("proxy.store.retention._SAMPLE_ROWS", 500)
    async with asyncio.timeout(30):
        while True:
            async with database.transaction() as connection:  # the server counts rows with a second's delay
                if await connection.scalar(_LIVE_ROWS, {"name": "records"}) == 4000:
                    break
            await asyncio.sleep(0.1)
    assert exact == pytest.approx(await retention._rows_bytes(), rel=0.1)
