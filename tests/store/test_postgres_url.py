"""PostgreSQL's URL: several hosts, TLS, a pooler in front; what it cannot carry is refused before a server starts."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from proxy.context.lineage import beginnings_of
from proxy.errors import ConfigError, StoreUnavailable
from proxy.store import drivers
from proxy.store.conversations import DatabaseLineages
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures, RollupBuilder
from proxy.store.memory import DatabaseScratchpad
from proxy.store.reading import ReadOnlyDatabase
from proxy.store.records import Records
from proxy.store.retention import Retention
from proxy.store.writer import RecordWriter
from tests.store import postgres
from tests.store.conftest import CountingCounters, execute, make_record
from tests.stores import opened

HOST = "postgresql://ann:secret@db/gw"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        (f"{HOST}?sslmode=verify", "sslmode: expected disable|allow|prefer|require|verify-ca|verify-full, not 'verify'"),
        (f"{HOST}?ssl=true", "unknown option 'ssl'"),
        (f"{HOST}?statement_timeout=5", "unknown option 'statement_timeout'"),
        (f"{HOST}?sslmode=verify-full&sslrootcert=/nowhere/ca.pem", "sslrootcert: the file /nowhere/ca.pem cannot be read"),
        (f"{HOST}?target_session_attrs=master", "target_session_attrs: expected any|"),
        (f"{HOST}?pool_size=0", "pool_size: expected"),
        (f"{HOST}?sslmode=require&sslmode=disable", "sslmode: expected"),
        ("postgresql://ann:secret@a,b", "names no database"),
        ("postgresql://ann:secret@a:99999/gw", "no port: '99999'"),
        ("postgresql://ann:secret@a:5432,b:x/gw", "no port: 'x'"),
        ("postgresql://ann:secret@a:5432,[::1]:0/gw", "no port: '0'"),
    ],
)
def test_what_a_url_cannot_carry_is_refused(url: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Database(url)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:s%40c@a:5432,b:5433/gw?target_session_attrs=read-write",
        "postgres://ann:s%40c@a,b/gw",
        "postgresql://ann:s%40c@[::1]:5432,[::2]/gw",
        "postgresql://ann:s%40c@/gw?host=/var/run/postgresql",
        f"{HOST}?sslmode=require&application_name=team one&pool_size=6",
    ],
)
def test_what_libpq_takes_is_taken(url: str) -> None:
    assert "s%40c" not in Database(url).name


def test_several_hosts_and_tls_reach_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.write_text("")
    made: list[dict[str, object]] = []
    monkeypatch.setattr(drivers, "create_async_engine", lambda _, **options: made.append(options["connect_args"]))
    url = drivers.store_url(
        f"postgresql://ann:s%40c@a:1,b:2/gw?sslmode=verify-full&sslrootcert={authority}&application_name=team&pool_size=9"
    )
    drivers.postgres_engine(url, timeout_s=5.0, used_by="requests", pooler=False)
    connect = made[0]["async_creator_fn"]
    assert connect.keywords["server_settings"] == {"application_name": "team requests", "statement_timeout": "4000"}  # type: ignore[attr-defined]
    (dsn,) = connect.args  # type: ignore[attr-defined]
    assert "pool_size" not in dsn
    addresses, parameters = _parsed(dsn)
    assert [("a", 1), ("b", 2)] == addresses
    assert ("ann", "s@c", "gw", "verify-full") == parameters
    assert {"pool_size": 3, "max_overflow": 6} == drivers.pool_sizes(url, "requests")
    assert {"pool_size": 1, "max_overflow": 2} == drivers.pool_sizes(url, "pages")


def _parsed(dsn: str) -> tuple[list[tuple[str, int]], tuple[object, ...]]:
    """As the driver reads it; the certificate itself is no part of it."""
    from urllib.parse import parse_qs, unquote, urlsplit

    parts = urlsplit(dsn)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    hosts = [host.rpartition(":") for host in query["host"].split(",")]
    named = parts.username, unquote(parts.password or ""), parts.path.strip("/"), query["sslmode"]
    return [(host, int(port)) for host, _, port in hosts], named


@pytest.mark.postgres
async def test_the_first_of_several_hosts_that_answers_is_taken(migrated_server: str) -> None:
    there = migrated_server.rpartition("@")[2]
    url = f"postgresql://tester:pass%20word@127.0.0.1:{postgres._free_port()},{there}/migrated?target_session_attrs=read-write&sslmode=disable"
    async with opened(url) as database:
        await database.ping()
        async with database.transaction() as connection:
            name = await connection.exec_driver_sql("SHOW application_name")
            assert "groundwire requests" == name.scalar_one()


@pytest.mark.postgres
async def test_a_server_that_takes_no_writes_any_more_is_left(migrated_server: str) -> None:
    """As the primary is that became a standby: its connections are given up, so that the next ones go where writes are taken."""
    async with opened(f"{migrated_server}/migrated") as database:
        async with database.transaction() as connection:
            await connection.exec_driver_sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
        with pytest.raises(StoreUnavailable, match="read-only"):
            await DatabaseScratchpad(database).put(b"x", client="a", run_id="r")
        await database.wait()
        assert await DatabaseScratchpad(database).put(b"x", client="a", run_id="r")


async def work(url: str, worker: int) -> tuple[int, list[str]]:
    """What a worker does with its store; the records that it wrote and the runs that it met."""
    async with opened(url) as database:
        assert database._single is None, "a pooler is seen"
        writer, lineages = RecordWriter(database, CountingCounters()), DatabaseLineages(database)
        writer.start()
        runs = []
        for turn in range(12):
            messages = [{"role": "user", "content": f"Hi {worker}"}]
            for past in range(turn):
                messages += [{"role": "assistant", "content": f"A {past}"}, {"role": "user", "content": f"And {past}?"}]
            runs.append(await lineages.run_of(beginnings_of("ann", "", messages), client="ann", route=""))
            begun = writer.begin(make_record(1000 * worker + turn, outcome="pending"))
            assert begun is not None
            await begun.wait()
            writer.submit(make_record(1000 * worker + turn))
            await DatabaseScratchpad(database).put(b"x" * turn, client="ann", run_id=runs[-1])
        await writer.stop()
        await RollupBuilder(DatabaseFigures(database)).run_once()
        await Retention(database, days=1e6).run_once()
        return len((await Records(database).list(1000, outcome="pass"))[0]), runs


@pytest.mark.postgres
async def test_a_store_behind_a_pooler_that_lends_connections_for_a_transaction(postgres_server: str) -> None:
    try:
        with postgres.pooler(postgres_server) as address:
            await execute(f"{postgres_server}/postgres", "CREATE DATABASE pooled")
            found = await asyncio.gather(*(work(f"{address}/pooled", worker) for worker in range(6)))
            async with opened(f"{address}/pooled"):
                pass
            report = ReadOnlyDatabase(f"{address}/pooled")
            await report.start()
            records, _ = await Records(report).list(1000)
            with pytest.raises(StoreUnavailable, match="read-only"):
                await DatabaseScratchpad(report).put(b"x", client="a", run_id="r")
            await report.stop()
    except postgres.NoServer as error:
        pytest.skip(str(error))
    assert [1] * 6 == [len(set(runs)) for _, runs in found]
    assert 72 == len(records) == max(number for number, _ in found)


@pytest.mark.postgres
async def test_no_pooler_is_seen_where_there_is_none(migrated_server: str) -> None:
    async with opened(f"{migrated_server}/migrated") as database:
        assert database._single is not None


@pytest.mark.postgres
@pytest.mark.parametrize("pooler", [False, True])
async def test_the_server_ends_a_statement_before_it_is_given_up(
    migrated_server: str, pooler: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a pooler, too, where each transaction brings its bound along; the connection works on."""
    make = drivers.postgres_engine
    monkeypatch.setattr(drivers, "postgres_engine", lambda url, **options: make(url, **options | {"pooler": pooler}))
    slow, named = text("SELECT pg_sleep(0.5)"), text("SELECT current_setting('statement_timeout'), pg_backend_pid()")
    async with opened(f"{migrated_server}/migrated?pool_size=1") as database:
        async with database.transaction() as connection:
            bound, process = (await connection.execute(named)).one()
        assert "4s" == bound
        async with database.transaction(60.0) as connection:
            assert ("48s", process) == tuple((await connection.execute(named)).one())
        with pytest.raises(StoreUnavailable, match="statement timeout"):
            async with database.transaction(0.25) as connection:
                await connection.execute(slow)
        async with database.writing() as connection:
            assert ("4s", process) == tuple((await connection.execute(named)).one())
        assert database.available
