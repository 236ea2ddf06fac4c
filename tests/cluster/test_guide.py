"""The steps of docs/guides/several-machines.md, as they stand there; the database's are those by which every test's cluster is made."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.cluster import deployment
from tests.cluster.cluster import ADMIN_KEY, GUIDE, KEY
from tests.cluster.conftest import Running
from tests.cluster.engines import engine
from tests.cluster.services import Service
from tests.docs_blocks import blocks
from tests.processes import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.asyncio(loop_scope="package")]


def step(part: str) -> str:
    """The guide's block of commands that has this."""
    (text,) = [block.text for block in blocks("sh") if block.page.name == GUIDE and part in block.text]
    return text


async def test_a_third_node_is_made_by_the_guides_steps(running: Running, tmp_path: Path) -> None:
    cluster, port = running.cluster, free_port()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    init = step("groundwire init").splitlines()[-1]
    subprocess.run(["sh", "-c", init], cwd=tmp_path, env={**os.environ, "PATH": path}, check=True, capture_output=True)
    text = deployment.moved((deployment.DEPLOY / "config.yaml").read_text("utf-8"), {"port: 4000": f"port: {port}", "0.0.0.0": "127.0.0.1"})
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    of_a_node = cluster.nodes["groundwire-a"].environment
    places = {
        "postgresql+asyncpg://groundwire:change-me@DATABASE:6432/groundwire": of_a_node["GROUNDWIRE_STORE_URL"],
        "valkey://COUNTER:6379/0": of_a_node["GROUNDWIRE_LIMITS_URL"],
        '"$(openssl rand -hex 32)"': ADMIN_KEY,
        "GROUNDWIRE_APP_SHA256=…": f"GROUNDWIRE_APP_SHA256={of_a_node['GROUNDWIRE_APP_SHA256']}",
        "OPENAI_API_KEY=…": "OPENAI_API_KEY=sk-upstream",
    }
    script = "set -e\n" + deployment.moved(step("groundwire serve"), places)
    environment = {"PATH": path, "HOME": os.environ.get("HOME", "/"), "OPENAI_BASE_URL": of_a_node["OPENAI_BASE_URL"]}
    third = Service("third", ["sh", "-c", script], tmp_path / "log", environment, cwd=tmp_path)
    third.start()

    async def ready() -> bool:
        async with running.client.get(f"http://127.0.0.1:{port}/ready?store=1") as answer:
            return answer.status == 200

    try:
        await third.up(ready)
        body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "g Hello."}]}
        address, headers = f"http://127.0.0.1:{port}/v1/chat/completions", {"authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession() as client, client.post(address, json=body, headers=headers) as answer:
            assert 200 == answer.status, await answer.text()
    finally:
        await asyncio.to_thread(third.end)


async def test_the_balancers_file_is_checked_as_the_guide_says() -> None:
    (command,) = [line for line in step("haproxy -c").splitlines() if line.startswith("haproxy")]
    found = engine("haproxy")
    words = [str(found.path), *command.split()[1:]]
    done = subprocess.run(words, cwd=deployment.ROOT, env={**os.environ, **found.environment}, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
