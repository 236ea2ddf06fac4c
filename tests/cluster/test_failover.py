"""The database's primary dies and its replica takes over: the proxy goes on there, and no record that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

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
