"""The dashboard of a real server process, with two workers: its sessions are known everywhere, and its news."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream, completion, reply
from tests.admin.pages import KEY, Browser
from tests.conftest import CHAT
from tests.processes import PATIENCE_S, Process, free_port, served
from tests.test_workers import all_up

pytestmark = pytest.mark.process


class There:
    """What `Browser` asks of a proxy."""

    def __init__(self, process: Process) -> None:
        self.url = process.url


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
        at = await _told_at(browser)
        ids = {await _exchange(process.url) for _ in range(sent)}
        told: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while not ids <= told:
                told |= {one["id"] for one in (await _news(browser, at))["exchanges"]}
                await asyncio.sleep(0.2)
    assert ({200}, ids) == (statuses, told)


async def _exchange(url: str) -> str:
    """One exchange over a connection of its own, which either worker may take; gives its id."""
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/chat/completions", json=CHAT) as answer:
        await answer.read()
        return answer.headers["x-groundwire-id"]


async def _news(browser: Browser, at: float) -> Any:
    """From whichever worker takes the connection."""
    return json.loads((await browser.get(f"/dashboard/news?at={at}", connection="close")).body)


async def _told_at(browser: Browser) -> float:
    """When both workers have looked for news."""
    return max([(await _news(browser, 0.0))["at"] for _ in range(10)])
