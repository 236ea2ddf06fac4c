"""MCP servers that are programs, spoken to over their pipes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any

import pytest

from proxy.testing import completion, reply
from tests.conftest import Start
from tests.mcp.servers import program
from tests.mcp.test_approval import until_offered
from tests.mcp.test_offering import TAP, TOOLS, asked, connected
from tests.own_tools import names

pytestmark = pytest.mark.process

MALFORMED = """
import json, sys
good = {"name": "good", "inputSchema": {"type": "object", "properties": {}}}
results = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}},
    "tools/list": {"tools": [{"name": "untyped", "inputSchema": {}}, good, {"name": "odd", "inputSchema": {**good["inputSchema"], "required": False}}, 7]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        method = asked["method"]
        told = {"result": results[method]} if method in results else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **told}), flush=True)
"""
"""A program that lists one tool as the protocol has it, and three that are none."""


def config(settings: dict[str, Any]) -> str:
    return f"mcp: {{servers: {{shop: {json.dumps(settings)}}}}}\n"


def process_id(told: str) -> int:
    return int(told.removeprefix("pid "))


async def test_a_program_is_started_answers_and_ends_with_the_server(start: Start) -> None:
    replies = reply(asked("mcp__shop__process", "{}")), reply(completion())
    async with start(*replies, policy=TAP, config=config(program(SHOP_PROCESS="1"))) as proxy:
        await connected(proxy)
        await proxy.post()
        assert sorted([*TOOLS, "mcp__shop__environment", "mcp__shop__process"]) == names(proxy.upstream.calls[0])
        running = process_id(proxy.upstream.calls[1].json["messages"][-1]["content"])
        os.kill(running, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(running, 0)


async def test_a_program_that_dies_is_started_again(start: Start) -> None:
    replies = [reply(asked("mcp__shop__process", "{}")), reply(completion())] * 2
    async with start(*replies, policy=TAP, config=config({**program(SHOP_PROCESS="1"), "refresh_s": 0.05})) as proxy:
        await connected(proxy)
        await proxy.post()
        first = process_id(proxy.upstream.calls[1].json["messages"][-1]["content"])
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(20):
            while not proxy.app.mcp.away():
                await asyncio.sleep(0.01)
            await connected(proxy)
        await proxy.post()
        assert first != process_id(proxy.upstream.calls[3].json["messages"][-1]["content"])


async def test_a_program_gets_its_own_variables_and_no_key_of_the_proxys(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-of-the-operator")
    replies = reply(asked("mcp__shop__environment", "{}")), reply(completion())
    settings = program(SHOP_PROCESS="1", SHOP_TOKEN="shop-token-0123456789", SHOP_REGION="eu-west")
    async with start(*replies, policy=TAP, config=config(settings)) as proxy:
        await connected(proxy)
        await proxy.post()
        told = proxy.upstream.calls[1].json["messages"][-1]["content"]
        assert "PROVIDER_API_KEY" not in told
        assert "sk-of-the-operator" not in told
        assert "SHOP_REGION=eu-west" in told
        assert "SHOP_TOKEN=[masked]" in told


async def test_tools_in_no_form_of_the_protocols_keep_none_of_the_others_away(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    async with start(policy=TAP, config=config({"command": sys.executable, "args": ["-c", MALFORMED]})) as proxy:
        await connected(proxy)
        await proxy.post()
        assert ["mcp__shop__good"] == names(proxy.upstream.calls[0])
    (said,) = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert said.endswith(": 'untyped', 'odd', 7")


async def test_a_program_that_cannot_be_started_is_away(start: Start) -> None:
    async with start(policy=TAP, config=config({"command": "no-such-program-here"})) as proxy:
        await until_offered(proxy, [])
        async with asyncio.timeout(10):
            while "not connected" in proxy.app.mcp.away()["shop"]:
                await asyncio.sleep(0.01)
        assert "no-such-program-here" in (await proxy.get("/ready")).json["runs"]["mcp_servers_away"]["shop"]
