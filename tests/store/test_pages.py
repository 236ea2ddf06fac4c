"""The pools of pages: they read apart from requests, at a replica while there is one, and write with the requests' connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text

from proxy.errors import ConfigError, StoreUnavailable
from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback
from proxy.store.pages import PagesDatabase, ReplayLag, Replica, pages_of, reports_of
from proxy.store.records import Records
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, execute, make_record, opened
from tests.store.test_feedback import entry
from tests.stores import migrate

_APPLICATION = text("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")


async def application(connection: object) -> str:
    return str(await connection.scalar(_APPLICATION))  # type: ignore[attr-defined]


@asynccontextmanager
async def started(database: Database) -> AsyncIterator[Database]:
    await database.start()
    try:
        yield database
    finally:
        await database.stop()


@pytest.mark.postgres
async def test_pages_read_in_a_pool_of_their_own_and_write_in_the_requests(migrated_server: str) -> None:
    url = f"{migrated_server}/migrated"
    async with opened(url) as requests, started(pages_of(requests, url)) as pages:
        async with pages.transaction() as connection:
            reads = await application(connection)
        async with pages.writing() as connection:
            writes = await application(connection)
        assert ("groundwire pages", "groundwire requests") == (reads, writes)


@pytest.mark.postgres
async def test_lists_are_read_at_the_replica_and_one_record_where_it_was_written(migrated_server: str) -> None:
    """Another database of the same server stands in for one that is far behind."""
    await execute(f"{migrated_server}/postgres", "DROP DATABASE IF EXISTS behind", "CREATE DATABASE behind")
    await migrate(f"{migrated_server}/behind")
    url = f"{migrated_server}/migrated"
    await execute(url, "TRUNCATE records", "TRUNCATE feedback")
    async with opened(url) as requests, started(pages_of(requests, url)) as pages:
        writer = RecordWriter(requests, CountingCounters())
        writer.submit(make_record(1))
        await writer.flush()
        async with started(reports_of(pages, requests, f"{migrated_server}/behind")) as replica:
            assert replica.available, replica.problem
            records = Records(pages, lists=replica)
            assert ([], make_record(1)) == ((await records.list())[0], await records.get("gw_00000001"))
            async with replica.transaction() as connection:
                assert "groundwire replica" == await application(connection)
            await DatabaseFeedback(replica).put(entry(1))
            assert 1 == len((await DatabaseFeedback(pages).list())[0])
            with pytest.raises(StoreUnavailable, match="read-only"):
                async with replica.transaction() as connection:
                    await connection.execute(text("DELETE FROM records"))


@pytest.mark.postgres
async def test_while_the_replica_is_away_the_primary_is_read(migrated_server: str, caplog: pytest.LogCaptureFixture) -> None:
    url = f"{migrated_server}/migrated"
    async with opened(url) as requests, started(pages_of(requests, url)) as pages:
        nowhere = f"{url.replace(migrated_server.rpartition(':')[2], '1')}"
        async with started(reports_of(pages, requests, nowhere)) as replica:
            async with replica.transaction() as connection:
                assert "groundwire pages" == await application(connection)
            assert replica.problem
            assert any("replica" in message and "cannot be opened" in message for message in caplog.messages)


@pytest.mark.postgres
async def test_a_replica_that_comes_back_is_read_again(migrated_server: str) -> None:
    url = f"{migrated_server}/migrated"
    async with opened(url) as requests, started(pages_of(requests, url)) as pages, started(reports_of(pages, requests, url)) as replica:
        end = text("SELECT pg_terminate_backend(pg_backend_pid())")
        with pytest.raises(StoreUnavailable):
            async with replica.transaction() as connection:
                await connection.execute(end)
        assert not replica.available
        async with replica.transaction() as connection:
            assert "groundwire pages" == await application(connection)
        async with asyncio.timeout(10):
            await replica.wait()
        async with replica.transaction() as connection:
            assert "groundwire replica" == await application(connection)


def test_sqlite_has_one_pool_and_no_replica() -> None:
    database = Database("sqlite://")
    assert database is pages_of(database, "sqlite://") is reports_of(database, database, "")
    with pytest.raises(ConfigError, match=r"store.replica_url: store.url is SQLite"):
        reports_of(database, database, "postgresql://ann@replica/gw")


def test_a_replica_s_url_is_refused_as_the_store_s() -> None:
    requests = Database("postgresql://ann@primary/gw")
    pages = PagesDatabase("postgresql://ann@primary/gw", requests)
    with pytest.raises(ConfigError, match=r"store.replica_url: expected postgresql"):
        Replica("sqlite:///x.db", pages, requests)
    with pytest.raises(ConfigError, match=r"store.replica_url: unknown option 'x'"):
        Replica("postgresql://ann@replica/gw?x=1", pages, requests)


def test_the_lag_of_a_standby_is_how_long_it_has_been_without_what_the_primary_wrote() -> None:
    lag = ReplayLag()
    assert 0.0 == lag.measure_s(100, 90, 1.0)  # 100 is awaited from now on
    assert 5.0 == lag.measure_s(200, 90, 6.0)
    assert 10.0 == lag.measure_s(300, 99, 11.0)
    assert 0.0 == lag.measure_s(400, 100, 16.0)
    assert 5.0 == lag.measure_s(400, 399, 21.0)


def test_a_standby_of_a_primary_that_writes_nothing_has_no_lag() -> None:
    lag = ReplayLag()
    assert [0.0, 0.0] == [lag.measure_s(100, 100, 1.0), lag.measure_s(100, 100, 1000.0)]
