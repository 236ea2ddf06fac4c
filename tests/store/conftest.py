"""Stores for the tests: each test that takes `database` runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from proxy.store.database import Database
from proxy.store.records import Record
from tests.store import postgres

_numbers = itertools.count(1)


class CountingCounters(Counter[str]):
    """The `Counters` port, as a collection."""

    def count(self, name: str, value: int = 1) -> None:  # type: ignore[override]
        self[name] += value


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


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> str:
    """A store of this test's own. The server is asked for only here, so that SQLite's tests start none."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    server, name = request.getfixturevalue("postgres_server"), f"test_{next(_numbers)}"
    # In a thread: the test's own event loop may be running already.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: asyncio.run(_create(server, name))).result()
    return f"{server}/{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def _create(server: str, name: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(f"{server}/postgres")
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    async with opened(url) as found:
        yield found


class opened:  # noqa: N801 - read as a verb: async with opened(url)
    """A started database, stopped at the end."""

    def __init__(self, url: str, **options: Any) -> None:
        self.database = Database(url, **options)

    async def __aenter__(self) -> Database:
        await self.database.start()
        assert self.database.problem == ""
        return self.database

    async def __aexit__(self, *_: object) -> None:
        await self.database.stop()


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
