"""The database's primary dies and its replica takes over: the proxy goes on there, and no record that was acknowledged is lost. While the
primary lives, the replica answers pages.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from sqlalchemy import text

from proxy.store.database import Database
from proxy.store.pages import PagesDatabase, Replica
from proxy.store.writer import STOP_S
from tests.cluster.client import Client, Ledger
from tests.cluster.cluster import settle
from tests.cluster.services import Postgres
from tests.cluster.upstream import provider
from tests.processes import served
from tests.store.postgres import NoServer

pytestmark = pytest.mark.cluster

CLIENTS, BEFORE_S, BACK_WITHIN_S, DEADLINE_S = 4, 1.5, 10.0, 10.0


@asynccontextmanager
async def primary_and_replica(folder: Path) -> AsyncIterator[tuple[Postgres, Postgres]]:
    """A commit at the first waits until the second has it. Skips where there is no PostgreSQL."""
    try:
        primary = Postgres(folder, [])
    except NoServer as error:
        pytest.skip(f"no PostgreSQL here: {error}")
    replica: Postgres | None = None
    try:
        await primary.started()
        await primary.run("CREATE DATABASE groundwire", database="postgres")
        replica = await asyncio.to_thread(Postgres, folder, [], of=primary)
        await replica.started()
        await primary.run("ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        assert await settle(lambda: _follows(primary))
        yield primary, replica
    finally:
        for one in (replica, primary):
            if one is not None:
                await asyncio.to_thread(one.end)


async def _follows(primary: Postgres) -> bool:
    rows = await primary.run("SELECT sync_state FROM pg_stat_replication")
    return [tuple(row) for row in rows] == [("sync",)]


async def test_a_replica_that_is_promoted_goes_on_with_all_that_was_acknowledged(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ledger, over = Ledger(), asyncio.Event()
    async with provider() as upstream, primary_and_replica(tmp_path) as (primary, replica):
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{replica.port}"
        store = f"postgresql://tester:pass%20word@{hosts}/groundwire?target_session_attrs=primary&sslmode=disable"
        async with served(tmp_path, upstream.base_url, store=store) as process, aiohttp.ClientSession(process.url) as operator:
            clients = [Client(process.url, f"run-{number}", ledger, DEADLINE_S, seed=1) for number in range(CLIENTS)]
            working = [asyncio.create_task(client.ask_until(over)) for client in clients]
            await asyncio.sleep(BEFORE_S)
            before = len(ledger.exchanges)
            primary.kill()
            promoted = time.monotonic()
            await replica.run("SELECT pg_promote()")

            async def writes() -> bool:
                async with operator.get("/ready?store=1") as answer:
                    return answer.status == 200

            assert await settle(writes, BACK_WITHIN_S), process.lines[-20:]
            back_s = time.monotonic() - promoted
            during = len(ledger.exchanges)
            await asyncio.sleep(BEFORE_S)
            over.set()
            await asyncio.gather(*working)
            print(
                f"the store was back after {back_s:.1f} s; {before} requests before, {during - before} meanwhile, {len(ledger.exchanges)} in all"
            )
            assert before
            assert len(ledger.exchanges) > during
            assert ([], []) == (ledger.failed, ledger.wrong)

            async def all_there() -> bool:
                rows = await replica.run("SELECT id FROM records WHERE outcome NOT IN ('pending', 'interrupted')")
                return {one.id for one in ledger.acknowledged} <= {row[0] for row in rows if row}

            assert await settle(all_there), "acknowledged exchanges have no record"


async def test_lists_are_read_at_the_standby_and_at_the_primary_while_it_is_away(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    async with provider() as upstream, primary_and_replica(tmp_path) as (primary, replica):
        await primary.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        urls = [f"postgresql+asyncpg://tester:pass%20word@127.0.0.1:{one.port}/groundwire" for one in (primary, replica)]
        async with (
            served(tmp_path, upstream.base_url, store="', replica_url: '".join(urls)) as process,
            aiohttp.ClientSession(process.url) as operator,
        ):

            async def problem() -> str:
                async with operator.get("/ready") as answer:
                    return str((await answer.json())["runs"].get("replica", ""))

            async def listed() -> set[str]:
                async with operator.get("/groundwire/v1/records") as answer:
                    return {one["id"] for one in (await answer.json())["data"]}

            async def asked(at_once: int) -> set[str]:
                ledger = Ledger()
                clients = [Client("", f"run-{number}", ledger, DEADLINE_S, seed=1) for number in range(at_once)]
                await asyncio.gather(*(client._turn(operator) for client in clients))
                assert [] == ledger.failed
                return {one.id for one in ledger.acknowledged}

            async def well() -> bool:
                return not await problem()

            async def away() -> bool:
                return bool(await problem())

            async def all_listed(wanted: set[str]) -> bool:
                return wanted <= await listed()

            assert await settle(well), process.lines[-20:]
            first = await asked(3)
            assert await settle(lambda: all_listed(first))
            connected = await replica.run("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'groundwire replica'")
            assert connected[0][0]
            for path in ("/dashboard", "/dashboard/exchanges", "/dashboard/compare", "/groundwire/v1/report", "/groundwire/v1/metrics"):
                async with operator.get(path) as answer:
                    assert (200, "") == (answer.status, await problem()), await answer.text()
            replica.kill()
            await operator.get("/groundwire/v1/records")  # finds it gone
            assert await settle(away)
            second = await asked(3)
            assert await settle(lambda: all_listed(first | second))
            async with operator.get("/dashboard") as answer:
                assert "read at the primary meanwhile" in await answer.text()
            await replica.started()
            assert await settle(well), process.lines[-20:]
            assert await settle(lambda: all_listed(first | second))


async def test_a_standby_whose_replay_stands_still_is_not_read_until_it_has_caught_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o755)
    async with primary_and_replica(tmp_path) as (primary, standby), AsyncExitStack() as stack:
        await primary.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        url, standby_url = (f"postgresql+asyncpg://tester:pass%20word@127.0.0.1:{one.port}/groundwire" for one in (primary, standby))
        requests = Database(url)
        pages = PagesDatabase(url, requests)
        replica = Replica(standby_url, pages, requests, max_lag_s=1.0, look_s=0.1)
        for database in (requests, pages, replica):
            await database.start()
            stack.push_async_callback(database.stop)
        await primary.run("CREATE TABLE written (word TEXT)")

        async def reads(word: str) -> bool:
            return [(word,)] == [tuple(row) for row in await replica.read(text("SELECT max(word) FROM written"), {})]

        async def is_well() -> bool:
            return replica.is_read and not replica.problem

        assert await settle(is_well)
        await standby.run("SELECT pg_wal_replay_pause()")
        await primary.run("INSERT INTO written VALUES ('a')")
        assert await settle(lambda: reads("a"))
        assert "replayed nothing that the primary wrote" in replica.problem
        await standby.run("SELECT pg_wal_replay_resume()")
        assert await settle(is_well)
        assert await settle(lambda: reads("a"))
        assert 1 == sum("the primary is read until" in message for message in caplog.messages)


async def test_a_node_that_ends_while_its_database_is_away_writes_its_records_when_it_is_back(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    ledger = Ledger()
    async with provider() as upstream, primary_and_replica(tmp_path) as (primary, _):
        await primary.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
        store = f"postgresql+asyncpg://tester:pass%20word@127.0.0.1:{primary.port}/groundwire"
        async with served(tmp_path, upstream.base_url, store=store) as process, aiohttp.ClientSession(process.url) as session:
            client = Client("", "run", ledger, DEADLINE_S, seed=1)
            await client._turn(session)
            primary.kill()
            await client._turn(session)
            assert [] == ledger.failed
            process.signal(signal.SIGTERM)
            await asyncio.sleep(STOP_S + 3.0)  # longer than one is tried for at least
            assert not process.is_over
            await primary.started()
            assert 0 == await process.ended(), process.lines[-20:]
        rows = await primary.run("SELECT id FROM records WHERE outcome NOT IN ('pending', 'interrupted')")
        assert {one.id for one in ledger.acknowledged} <= {row[0] for row in rows if row}
        assert 2 == len(ledger.acknowledged)
