"""The running command: how it starts, how it ends, and what a sudden end leaves."""

import asyncio
import json
import signal
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream, completion, reply, stream, streamed
from tests.conftest import CHAT
from tests.processes import PATIENCE_S, Process, command, served, write_config

pytestmark = pytest.mark.process

STREAM = {**CHAT, "stream": True}
EVENTS = streamed(["Hel", "lo"])


def records(folder: Path) -> list[tuple[int, str]]:
    """Status and outcome of every record, newest first."""
    with closing(sqlite3.connect(folder / "store.db")) as store:
        return list(store.execute("SELECT status, outcome FROM records ORDER BY id DESC"))


def trace(process: Process) -> str:
    """Everything logged, if a traceback is part of it."""
    logged = "\n".join(process.lines)
    return logged if "Traceback" in logged else ""


async def ask(session: aiohttp.ClientSession, url: str) -> int:
    async with session.post(url + "/v1/chat/completions", json=CHAT) as response:
        await response.read()
        return response.status


async def get(session: aiohttp.ClientSession, url: str) -> object:
    async with session.get(url) as response:
        return await response.json()


async def test_serve_says_where_it_is_what_it_serves_and_how_to_try_it(tmp_path: Path) -> None:
    async with ScriptedUpstream(reply(completion())) as upstream, served(tmp_path, upstream.base_url) as proxy:
        tried, leads_to = await proxy.line("try it: curl "), f"main (openai, {upstream.base_url}), policy empty@"
        async with aiohttp.ClientSession() as session:
            assert 200 == await ask(session, proxy.url)
    said = "\n".join(proxy.lines)
    for route in ("/rag/v1", "/v1"):
        assert f"{proxy.url}{route} -> {leads_to}" in said
    assert f"dashboard: {proxy.url}/dashboard" in said
    assert f"curl {proxy.url}/v1/chat/completions -H 'content-type: application/json' -d '{{" in tried
    assert json.loads(tried.partition(" -d '")[2].rstrip("'"))["messages"]
    assert "sk-upstream-secret" not in said


async def test_a_port_that_is_taken_is_said_in_words(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        async with command("serve", "--config", str(config), "--port", port, cwd=tmp_path) as process:
            status = await process.ended()
    assert status != 0
    assert [True] == ["in use" in line and port in line for line in process.lines if "in use" in line]
    assert "Traceback" not in "\n".join(process.lines)


# ---- asked to end ----


async def _first_event(response: aiohttp.ClientResponse) -> bytes:
    return await response.content.readuntil(b"\n\n")


async def _refuses(url: str) -> None:
    """Return once no new connection is taken any more."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            except OSError:
                return
            writer.close()
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_running_stream_is_drained_and_recorded_before_the_process_ends(tmp_path: Path, number: signal.Signals) -> None:
    go_on = asyncio.Event()
    async with (
        ScriptedUpstream(stream(EVENTS, wait={1: go_on})) as upstream,
        served(tmp_path, upstream.base_url) as proxy,
        aiohttp.ClientSession() as session,
    ):
        async with session.post(proxy.url + "/v1/chat/completions", json=STREAM) as response:
            first = await _first_event(response)
            proxy.signal(number)
            await _refuses(proxy.url)
            go_on.set()
            rest = await response.read()
        status = await proxy.ended()
    assert b"".join(EVENTS) == first + rest
    assert [(200, "skipped")] == records(tmp_path)
    assert (0, "") == (status, trace(proxy))
    said = [line for line in proxy.lines if f"{number.name}: process {proxy.id} ends when" in line]
    assert [number == signal.SIGHUP] == ["only a server with several workers reads its configuration anew" in line for line in said]
    assert f"process {proxy.id} has ended in order" in proxy.lines[-1]


async def test_who_waits_for_a_verdict_does_not_hold_up_the_stop(tmp_path: Path) -> None:
    rest = asyncio.Event()
    async with (
        ScriptedUpstream(stream(EVENTS, wait={1: rest})) as upstream,
        served(tmp_path, upstream.base_url) as proxy,
        aiohttp.ClientSession() as session,
        session.post(proxy.url + "/v1/chat/completions", json=STREAM) as response,
    ):
        path = f"{proxy.url}/groundwire/v1/verdicts/{response.headers['x-groundwire-id']}"
        async with session.get(path) as first:
            assert 202 == first.status
        waiting = asyncio.create_task(session.get(path, params={"wait_ms": 30_000}))
        async with session.get(path, params={"wait_ms": 500}) as short:  # the long one waits by then
            assert 202 == short.status
        proxy.signal(signal.SIGTERM)
        began = time.monotonic()
        answer = await waiting
        took_s = time.monotonic() - began
        rest.set()
        await response.read()
        status = await proxy.ended()
    assert (202, 0) == (answer.status, status)
    assert took_s < 10


async def test_a_stream_that_outlasts_the_drain_time_is_cut_and_recorded(tmp_path: Path) -> None:
    never = asyncio.Event()
    async with (
        ScriptedUpstream(stream(EVENTS, wait={1: never})) as upstream,
        served(tmp_path, upstream.base_url, server="{drain_s: 0.9}") as proxy,
        aiohttp.ClientSession() as session,
        session.post(proxy.url + "/v1/chat/completions", json=STREAM) as response,
    ):
        await _first_event(response)
        proxy.signal(signal.SIGTERM)
        asked = time.monotonic()
        status = await proxy.ended()
        took_s = time.monotonic() - asked
    assert 0.9 <= took_s < 5.0
    assert 1 == len(records(tmp_path))
    assert (0, "") == (status, trace(proxy))


# ---- killed ----


async def _traffic(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        while True:
            await ask(session, url)


async def _recorded(session: aiohttp.ClientSession, proxy: Process, least: int) -> int:
    """How many records the operator's surface lists, once they are at least so many."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            listed = await get(session, proxy.url + "/groundwire/v1/records?limit=1000")
            if len(listed["data"]) >= least:  # type: ignore[index]
                return len(listed["data"])  # type: ignore[index]
            await asyncio.sleep(0.05)


async def test_kill_9_under_traffic_leaves_a_store_that_opens_and_lists(tmp_path: Path) -> None:
    async with ScriptedUpstream(reply(completion())) as upstream, aiohttp.ClientSession() as session:
        async with served(tmp_path, upstream.base_url) as proxy:
            traffic = [asyncio.create_task(_traffic(proxy.url)) for _ in range(4)]
            written = await _recorded(session, proxy, 20)
            proxy.signal(signal.SIGKILL)
            assert -signal.SIGKILL == await proxy.ended()
            await asyncio.gather(*traffic, return_exceptions=True)
        with closing(sqlite3.connect(tmp_path / "store.db")) as store:
            assert [("ok",)] == list(store.execute("PRAGMA integrity_check"))
        async with served(tmp_path, upstream.base_url) as proxy:
            assert written <= await _recorded(session, proxy, 1)
            ready = await get(session, proxy.url + "/ready")
            assert ("ready", {"status": "ok"}) == (ready["status"], ready["store"])
