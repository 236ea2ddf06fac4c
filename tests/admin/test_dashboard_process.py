"""The dashboard of a real server process, with one worker and with two: its streams end with it, its sessions are known everywhere."""

import asyncio
import re
import signal
import time
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream, completion, reply
from tests.admin.pages import KEY, Browser
from tests.conftest import CHAT
from tests.processes import PATIENCE_S, Process, free_port, served
from tests.test_workers import all_up

pytestmark = pytest.mark.process

SOON_S = 8.0
"""An open stream must not hold the end up; a server's drain may take 30 s."""


class There:
    """What `Browser` asks of a proxy."""

    def __init__(self, process: Process) -> None:
        self.url = process.url


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_server_with_open_pages_stops_at_once(tmp_path: Path, workers: int) -> None:
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, "--workers", str(workers), port=free_port()) as process,
        aiohttp.ClientSession() as session,
    ):
        await all_up(process)
        streams = [await session.get(f"{process.url}/dashboard/events") for _ in range(4)]
        for stream in streams:
            assert b"retry: 3000\n" == await stream.content.readline()
        started = time.monotonic()
        process.signal(signal.SIGTERM)
        status = await process.ended()
        took = time.monotonic() - started
        for stream in streams:
            stream.close()
    assert (0, True) == (status, took < SOON_S)


async def test_workers_share_sessions_and_news(tmp_path: Path) -> None:
    sent = 8
    async with (
        ScriptedUpstream(reply(completion())) as upstream,
        served(tmp_path, upstream.base_url, "--workers", "2", port=free_port(), server=f"{{admin_key: {KEY}}}") as process,
        Browser(There(process)) as browser,  # type: ignore[arg-type]
    ):
        await all_up(process)
        await browser.sign_in()
        statuses = {(await browser.get("/dashboard", connection="close")).status for _ in range(10)}
        async with browser._session.get(f"{process.url}/dashboard/events") as stream:
            ids: set[str] = set()
            told: set[str] = set()
            async with asyncio.timeout(PATIENCE_S):
                async for line in stream.content:
                    if line.startswith(b"event: counts") and not ids:
                        ids = {await _exchange(process.url) for _ in range(sent)}
                    told |= {one for one in _ids(line) if line.startswith(b"data: ")}
                    if len(told) >= sent:
                        break
    assert ({200}, ids) == (statuses, told)


async def _exchange(url: str) -> str:
    """One exchange over a connection of its own, which either worker may take; gives its id."""
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=CHAT) as answer:
        await answer.read()
        return answer.headers["x-groundwire-id"]


def _ids(line: bytes) -> list[str]:
    return re.findall(r'"id":"(gw_\w+)"', line.decode())
