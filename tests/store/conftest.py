"""Stores for the tests: each test that takes `database` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.store import drivers
from proxy.store.database import Database
from proxy.store.records import Record
from proxy.store.tables import metadata
from tests.store import postgres
from tests.stores import in_thread, migrate, opened

_numbers = itertools.count(1)
LIMIT_S = 10.0
"""Of a store whose locks are given up by `soon_locked`."""


class CountingCounters(Counter[str]):
    """The `Counters` port, as a collection that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[tuple[str, int, asyncio.Future[None]]] = []

    def count(self, name: str, value: int = 1) -> None:
        self[name] += value
        for wanted, least, future in self._waiting:
            if wanted == name and self[name] >= least and not future.done():
                future.set_result(None)

    async def reaches(self, name: str, least: int) -> None:
        """Return once `name` has been raised to `least`."""
        if self[name] < least:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((name, least, future))
            async with asyncio.timeout(10):
                await future


@pytest.fixture(scope="session", autouse=True)
def broken_off() -> Iterator[None]:
    """asyncpg leaves a future behind where a connection that is being opened is broken off, and the collector speaks of it in a later test."""

    def of_a_test(line: logging.LogRecord) -> bool:
        return "unexpected connection_lost() call" not in line.getMessage()

    logger = logging.getLogger("asyncio")
    logger.addFilter(of_a_test)
    yield
    logger.removeFilter(of_a_test)


@pytest.fixture
def counters() -> CountingCounters:
    return CountingCounters()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    running = postgres.server()
    try:
        address = running.__enter__()
    except postgres.NoServer as error:
        pytest.skip(str(error))
    try:
        yield address
    finally:
        running.__exit__(None, None, None)


@pytest.fixture(scope="session")
def migrated_server(postgres_server: str) -> str:
    """The server, with a database `migrated` that has its tables."""
    in_thread(_create(postgres_server, "migrated"))
    in_thread(migrate(f"{postgres_server}/migrated"))
    return postgres_server


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    """A migrated store of this test's own. The server is asked for only here, so that SQLite's tests start none."""
    if kind == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "store.db")
        return f"sqlite:///{tmp_path / 'store.db'}"
    # Emptied, not made anew: that takes a tenth of the time.
    address = f"{request.getfixturevalue('migrated_server')}/migrated"
    in_thread(execute(address, f"TRUNCATE {', '.join(metadata.tables)}"))
    return address


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    """A store without tables."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'empty.db'}"
    server, name = request.getfixturevalue("postgres_server"), f"test_{next(_numbers)}"
    in_thread(_create(server, name))
    return f"{server}/{name}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def _create(server: str, name: str) -> None:
    await execute(f"{server}/postgres", f"CREATE DATABASE {name}")


async def execute(url: str, *statements: str) -> None:
    """Run statements on a PostgreSQL database, past the store."""
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture
def soon_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite gives up a lock after 50 ms, long before the store's own limit, which a busy machine could pass first."""
    set_up = drivers.set_up_connection

    def impatient(connection: Any, busy_timeout_ms: int) -> None:
        assert 50 < busy_timeout_ms < LIMIT_S * 1000
        set_up(connection, 50)

    monkeypatch.setattr(drivers, "set_up_connection", impatient)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with opened(url) as found:
        yield found


def make_record(number: int = 1, **changes: Any) -> Record:
    """A record whose id and time grow with `number`."""
    fields: dict[str, Any] = {
        "id": f"gw_{number:08d}",
        "created_at": 1_700_000_000.0 + number,
        "client": "alice",
        "route": "/rag",
        "policy": "rag@0123abcd",
        "upstream": "openai",
        "model": "gpt-4o-mini",
        "run_id": "run-1",
        "step_id": "1",
        "path": "/v1/chat/completions",
        "status": 200,
        "outcome": "pass",
        "stream": False,
        "duration_ms": 12.5,
        "prompt_tokens_before": 100,
        "prompt_tokens": 80,
        "completion_tokens": 7,
        "detail": {"verdicts": [{"stage": "budget", "outcome": "pass"}], "timings": {"upstream": 11.0}},
    }
    return Record(**{**fields, **changes})
