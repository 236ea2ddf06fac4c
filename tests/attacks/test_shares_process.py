"""A server as it is started: clients that read nothing hold its places for a while, and never all of them; SIGHUP to a worker drains it."""

import asyncio
import json
import os
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from proxy.testing import ScriptedUpstream, completion, reply, stream, streamed
from tests.attacks.test_shares import endless, head
from tests.conftest import CHAT
from tests.processes import PATIENCE_S, command, free_port, served, write_config
from tests.server.test_workers import all_up, serving

pytestmark = pytest.mark.process
STREAM = {**CHAT, "stream": True}


async def test_clients_that_read_nothing_shut_nobody_out(tmp_path: Path) -> None:
    body, places = json.dumps(STREAM).encode(), 8
    async with ScriptedUpstream(*[endless] * 7, reply(completion())) as upstream, aiohttp.ClientSession() as session:
        config = write_config(tmp_path, upstream.base_url, "{write_stall_s: 2}")
        config.write_text(config.read_text().replace("retries:", f"max_concurrency: {places}, max_queue: {places}, retries:"))
        async with command("serve", "--config", str(config), "--port", "0", cwd=tmp_path) as proxy:
            proxy.url = (await proxy.line("Groundwire is up at")).partition("up at ")[2].split()[0].strip('",')
            port = int(proxy.url.rpartition(":")[2])
            with ExitStack() as stack:
                for _ in range(places):
                    sock = stack.enter_context(socket.socket())
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                    sock.connect(("127.0.0.1", port))
                    sock.sendall(head("authorization: Bearer slow", length=len(body)) + body)
                while len(upstream.calls) < 6:  # of 8, what one client may have
                    await asyncio.sleep(0.01)
                async with session.post(proxy.url + "/v1/chat/completions", json=STREAM) as other:
                    assert 200 == other.status
                    assert await other.content.readany()
                while len(upstream.calls) < 8:  # the slow ones' own next calls, too: their places are free again
                    await asyncio.sleep(0.05)
            await proxy.line("reads nothing of its answer for 2 s")


async def test_a_worker_that_is_hung_up_on_drains(tmp_path: Path) -> None:
    go_on, events = asyncio.Event(), streamed(["Hel", "lo"])
    async with (
        ScriptedUpstream(stream(events, wait={1: go_on})) as upstream,
        served(tmp_path, upstream.base_url, port=free_port(), server="{workers: 2}") as proxy,
        aiohttp.ClientSession() as session,
    ):
        await all_up(proxy)
        async with session.post(proxy.url + "/v1/chat/completions", json=STREAM) as response:
            first = await response.content.readuntil(b"\n\n")
            before = set(serving(proxy))
            for worker in before:
                os.kill(worker, signal.SIGHUP)
            async with asyncio.timeout(PATIENCE_S):
                while before <= set(serving(proxy)):  # the one that has nothing to finish goes at once
                    await asyncio.sleep(0.05)
            go_on.set()
            rest = await response.read()
    assert b"".join(events) == first + rest
