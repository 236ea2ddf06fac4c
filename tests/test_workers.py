"""Several workers behind one port: one store, one set of figures, one admin key."""

import asyncio
import json
import re
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream, completion, reply, stream, streamed
from tests.conftest import CHAT
from tests.processes import PATIENCE_S, Process, free_port, served

pytestmark = pytest.mark.process


async def ask(url: str) -> int:
    """One request on a connection of its own."""
    async with aiohttp.ClientSession() as session, session.post(url + "/v1/chat/completions", json=CHAT) as response:
        await response.read()
        return response.status


async def get(url: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text()


async def all_up(proxy: Process) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not proxy.is_over:
            try:
                if (await get(proxy.url + "/ready"))[0] == 200:
                    return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
    raise AssertionError("the server ended:\n" + "\n".join(proxy.lines))


def exchanges(exposition: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in exposition.splitlines() if line.startswith("groundwire_exchanges_total{"))


def record_count(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "store.db")) as store:
        return int(store.execute("SELECT count(*) FROM records").fetchone()[0])


async def test_two_workers_share_a_store_the_figures_and_a_generated_admin_key(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, "--host", "0.0.0.0", port=free_port(), server="{workers: 2, allow_anonymous: true}") as proxy,
    ):
        await all_up(proxy)
        statuses = [await ask(proxy.url) for _ in range(40)]
        async with asyncio.timeout(PATIENCE_S):  # the last answer left just before it was counted
            while (figures := {exchanges((await get(proxy.url + "/metrics"))[1]) for _ in range(8)}) != {40.0}:
                await asyncio.sleep(0.05)
        key = re.sub(r".*admin key is ", "", await proxy.line("this start's admin key is"))
        listed = [(await get(proxy.url + "/groundwire/v1/records", authorization=f"Bearer {key}"))[0] for _ in range(8)]
        keyless = [(await get(proxy.url + "/groundwire/v1/records"))[0] for _ in range(4)]
        async with asyncio.timeout(PATIENCE_S):
            while record_count(tmp_path) < 40:
                await asyncio.sleep(0.05)
    assert ([200] * 40, {40.0}) == (statuses, figures)
    assert ([200] * 8, [401] * 4) == (listed, keyless)
    assert 1 == sum("admin key" in line for line in proxy.lines)
    assert 40 == record_count(tmp_path)


async def test_any_worker_tells_a_client_its_verdict(tmp_path: Path) -> None:
    rest = asyncio.Event()
    answer = stream(streamed(["Hello", " again."]), wait={2: rest})
    alice, bob = {"authorization": "Bearer alice"}, {"authorization": "Bearer bob"}
    policy = "name: counts\ndelivery: tap\nstages: [budget: {window: 2000}]\n"
    async with (
        ScriptedUpstream(answer) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server="{workers: 2}", policy=policy) as proxy,
        aiohttp.ClientSession(headers=alice) as session,
    ):
        await all_up(proxy)
        async with session.post(proxy.url + "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            path = f"{proxy.url}/groundwire/v1/verdicts/{response.headers['x-groundwire-id']}"
            early = [await get(path, **alice) for _ in range(8)]
            waiting = [asyncio.create_task(get(path + "?wait_ms=20000", **alice)) for _ in range(8)]
            rest.set()
            await response.read()
        later = await asyncio.gather(*waiting)
        async with asyncio.timeout(PATIENCE_S):
            while not record_count(tmp_path):
                await asyncio.sleep(0.02)
        foreign = [(await get(path, **bob))[0] for _ in range(8)]
        old = [(await get(f"{proxy.url}/groundwire/v1/verdicts/gw_{0:028x}?wait_ms=20000", **alice))[0] for _ in range(4)]
    assert [(202, "pending")] * 8 == [(status, json.loads(body)["verdict"]) for status, body in early]
    assert [(200, "unchecked")] * 8 == [(status, json.loads(body)["verdict"]) for status, body in later]
    assert ([404] * 8, [404] * 4) == (foreign, old)


async def test_a_server_that_drains_refuses_new_connections(tmp_path: Path) -> None:
    """A balancer gives them to another one; they waited in the queue of a socket that nobody asked any more."""
    rest = asyncio.Event()
    async with (
        ScriptedUpstream(stream(streamed(["Hello", " again."]), wait={2: rest})) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server="{workers: 2}") as proxy,
        aiohttp.ClientSession() as session,
    ):
        await all_up(proxy)
        async with session.post(proxy.url + "/v1/chat/completions", json={**CHAT, "stream": True}) as response:
            proxy.signal(signal.SIGTERM)
            refused = False
            async with asyncio.timeout(PATIENCE_S):
                while not refused:
                    try:
                        await asyncio.wait_for(get(proxy.url + "/health"), 1)
                    except (aiohttp.ClientError, TimeoutError) as error:
                        refused = isinstance(error, aiohttp.ClientConnectorError)
            rest.set()
            body = await response.read()
        assert 0 == await proxy.ended()
    assert body.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_server_that_ends_says_so_before_its_port_closes(tmp_path: Path, workers: int) -> None:
    """So a balancer has left by then; who comes all the same is answered."""
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server=f"{{workers: {workers}, unready_s: 4}}") as proxy,
    ):
        await all_up(proxy)
        proxy.signal(signal.SIGTERM)
        began = time.monotonic()
        while (found := await get(proxy.url + "/ready"))[0] == 200:
            await asyncio.sleep(0.02)
        while time.monotonic() < began + 1.0:  # each worker has been told by then
            await asyncio.sleep(0.1)
        answers = [await ask(proxy.url) for _ in range(8)]
        ready = [(await get(proxy.url + "/ready"))[0] for _ in range(8)]
        assert 0 == await proxy.ended()
        took_s = time.monotonic() - began
    assert (503, True) == (found[0], '"process":"is about to end"' in found[1])
    assert ([200] * 8, [503] * 8) == (answers, ready)
    assert took_s >= 4.0


async def test_four_workers_at_once_migrate_an_empty_store_safely(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server="{workers: 4}") as proxy,
    ):
        await all_up(proxy)
        ready = [await get(proxy.url + "/ready") for _ in range(12)]
        assert all(body.startswith('{"status":"ready","store":{"status":"ok"}') for _, body in ready)
        assert [200] * 12 == [status for status, _ in ready]
    assert 1 == sum("migrated to revision" in line for line in proxy.lines)
    assert [] == [line for line in proxy.lines if "cannot be opened" in line or "Traceback" in line]
