"""One connection with an MCP server: when it asks, what it takes of a long list, how it ends."""

from __future__ import annotations

import asyncio
import gzip
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ListToolsResult, Tool, ToolListChangedNotification

from proxy.config.mcp import McpServerSettings
from proxy.testing import completion, reply
from proxy.upstreams import mcp as connections
from proxy.upstreams.mcp import McpConnection, text_of
from proxy.upstreams.mcp_http import bounded_client
from tests.conftest import Start
from tests.mcp.servers import make_server, over_http, program
from tests.mcp.test_approval import until_held
from tests.mcp.test_offering import TAP, asked, config, connected
from tests.upstreams.http1.raw_server import OK, saying

STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").write(str(os.getpid()))
while True:
    time.sleep(60)
"""
"""A program that answers nothing and ends for nobody."""


class Lister:
    """A client whose server lists `count` tools in pages of 100, and says with each list that they have changed."""

    def __init__(self, count: int) -> None:
        self.count, self.lists = count, 0
        self.connection: McpConnection | None = None

    async def list_tools(self, *, cursor: str | None, cache_mode: str) -> ListToolsResult:
        at = int(cursor or 0)
        self.lists += not at
        if self.connection is not None:
            await self.connection._on_notification(ToolListChangedNotification(method="notifications/tools/list_changed"))
        tools = [Tool(name=f"t{i}", input_schema={"type": "object"}) for i in range(at, min(at + 100, self.count))]
        return ListToolsResult(tools=tools, next_cursor=str(at + 100) if at + 100 < self.count else None)


async def listed(count: int, *wanted: str) -> list[str]:
    found: list[str] = []

    async def take(tools: Sequence[Tool]) -> None:
        found.extend(tool.name for tool in tools)

    connection = McpConnection("shop", McpServerSettings(url="http://a", tools=wanted), take)
    await connection._list(Lister(count))  # type: ignore[arg-type]
    return found


async def test_of_a_server_with_thousands_of_tools_those_of_the_allow_list_are_taken_first() -> None:
    assert [f"t{i}" for i in range(512)] == await listed(3000)
    assert ["t7", "t2900"] == (await listed(3000, "t2900", "t7"))[:2]
    assert 512 == len(await listed(3000, "t2900", "no such tool"))


async def test_a_server_that_gives_the_same_page_without_end_is_asked_for_it_twice() -> None:
    class Repeating(Lister):
        async def list_tools(self, *, cursor: str | None, cache_mode: str) -> ListToolsResult:
            self.lists += 1
            return ListToolsResult(tools=[Tool(name="t", input_schema={"type": "object"})] if self.count else [], next_cursor="next")

    async def take(_: Sequence[Tool]) -> None:
        pass

    for client in (Repeating(1), Repeating(0)):
        async with asyncio.timeout(5):
            await McpConnection("shop", McpServerSettings(url="http://a", tools=("away",)), take)._list(client)  # type: ignore[arg-type]
        assert 2 == client.lists


@pytest.mark.parametrize("more", [{}, {"count": 2}])
def test_structured_content_tells_no_images_data(more: dict[str, int]) -> None:
    blocks = [{"type": "text", "text": "Two."}, {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]
    repeated = {"result": [{**block, "annotations": None} for block in blocks], **more}
    result = CallToolResult.model_validate({"content": blocks, "structuredContent": repeated})
    told = "Two.\n[image image/png: not shown here]"
    also = '\n{"result":["Two.","[image image/png: not shown here]"],"count":2}' if more else ""
    assert told + also == text_of(result)


def test_a_resource_without_words_is_named() -> None:
    block = {"type": "resource", "resource": {"uri": "papers://105", "text": ""}}
    assert "[resource papers://105: not shown here]" == text_of(CallToolResult.model_validate({"content": [block]}))


@pytest.mark.parametrize(
    ("texts", "structured", "expected"),
    [
        ([], {"a": 1}, '{"a":1}'),
        (["Found 2 pages: see the structured content."], {"pages": ["Berlin", "Bonn"]}, '{"pages":["Berlin","Bonn"]}'),
        (["Done."], {"free": False}, '{"free":false}'),
        (["Nothing."], {"n": 2**70}, '{"n":1180591620717411303424}'),
        (['{"city": "K\\u00f6ln\\n", "n": 3}'], {"city": "Köln\n", "n": 3}, None),
        (['{"city":"Köln\\n"}'], {"city": "Köln\n"}, None),
        (["A", "B"], {"result": ["A", "B"]}, None),
        (["Nothing."], {}, None),
    ],
)
def test_structured_content_is_told_where_the_text_does_not_say_it(texts: list[str], structured: Any, expected: str | None) -> None:
    content: list[Any] = [{"type": "text", "text": text} for text in texts]
    result = CallToolResult.model_validate({"content": content, "structuredContent": structured})
    assert "\n".join([*texts, *([expected] if expected else [])]) == text_of(result)


async def test_that_there_are_too_many_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def take(_: Sequence[Tool]) -> None:
        pass

    connection = McpConnection("shop", McpServerSettings(url="http://a"), take)
    for count in (600, 600, 100, 600):
        await connection._list(Lister(count))  # type: ignore[arg-type]
    assert ["MCP server shop has more than 512 tools: the rest is left out"] * 2 == caplog.messages


async def test_a_server_whose_tools_change_with_every_list_is_not_asked_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(_: Sequence[Tool]) -> None:
        pass

    monkeypatch.setattr(connections, "LIST_GAP_S", 0.1)
    client = Lister(1)
    client.connection = connection = McpConnection("shop", McpServerSettings(url="http://a"), take)
    await connection._on_notification(ToolListChangedNotification(method="notifications/tools/list_changed"))
    watching = asyncio.create_task(connection._watch(client))  # type: ignore[arg-type]
    await asyncio.sleep(0.45)
    watching.cancel()
    assert 2 <= client.lists <= 4


async def test_a_tool_is_seen_as_soon_as_its_server_says_that_its_tools_have_changed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LIST_GAP_S", 0.01)
    server = make_server()

    @server.tool(structured_output=False)
    async def grow(context: Context[Any]) -> str:
        """Makes another."""
        server.add_tool(lambda: "yes", name="more", description="One more.", structured_output=False)
        await context.notify_tools_changed()
        return "done"

    replies = reply(asked("mcp__shop__grow", "{}")), reply(completion())
    async with over_http(server) as url, start(*replies, policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        await proxy.post()
        assert "new_tool" == (await until_held(proxy))["type"]


@pytest.mark.process
async def test_a_program_that_hangs_is_dead_when_the_server_has_stopped(tmp_path: Path) -> None:
    async def take(_: Sequence[Tool]) -> None:
        pass

    written = tmp_path / "pid"
    settings = McpServerSettings(command=sys.executable, args=("-c", STUBBORN, str(written)))
    connection = McpConnection("stubborn", settings, take)
    connection.start()
    async with asyncio.timeout(20):
        while not written.exists() or not written.read_text():
            await asyncio.sleep(0.02)
    running, began = int(written.read_text()), time.monotonic()
    try:
        await connection.stop()
        assert time.monotonic() - began < connections.LEAVE_S + connections.STOP_S
        with pytest.raises(ProcessLookupError):
            os.kill(running, 0)
    finally:
        if Path(f"/proc/{running}").exists():
            os.kill(running, signal.SIGKILL)


@pytest.mark.process
async def test_what_a_program_writes_beside_its_messages_is_in_no_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    code = "print('the token is abcdefghij'); from tests.mcp.servers import main; main()"
    settings = {**program(), "args": ["-c", code]}
    async with start(policy=TAP, config=f"mcp: {{servers: {{shop: {settings}}}}}\n") as proxy:
        await connected(proxy)
    assert "abcdefghij" not in caplog.text


@pytest.mark.process
async def test_a_program_that_is_not_there_is_said_with_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    async def take(tools: Sequence[Tool]) -> None: ...

    connection = McpConnection("shop", McpServerSettings(command="no-such-program"), take)
    with caplog.at_level(logging.WARNING, "groundwire.mcp"):
        connection.start()
        async with asyncio.timeout(10):
            while connection.problem == "not connected yet":
                await asyncio.sleep(0.01)
        await connection.stop()
    wanted = "there is no program 'no-such-program': install it, or mend mcp.servers.shop.command"
    assert [f"MCP server shop is away: {wanted}"] == caplog.messages


async def test_a_server_is_asked_through_the_environments_forward_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    async with saying(OK) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1").replace("http://", "http://us:pw@"))
        url = "http://mcp.example.test/mcp"
        async with bounded_client(url, {}, 5.0, 1000) as http:
            assert "ok" == (await http.post(url, content=b"{}")).text
        async with saying(OK) as direct, bounded_client(direct.url, {}, 5.0, 1000) as http:  # on loopback
            assert "ok" == (await http.post(direct.url, content=b"{}")).text
    head = bytes(server.received).partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"post http://mcp.example.test/mcp http/1.1\r\n")
    assert b"\r\nproxy-authorization: basic dxm6chc=" in head
    assert (1, 1) == (server.connections, direct.connections)


async def test_an_answer_that_is_compressed_is_refused_before_it_is_there() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb)
    async with saying(head + bomb) as server, bounded_client(server.url, {}, 5.0, 100_000) as http:
        with pytest.raises(httpx2.DecodingError, match="compressed"):
            await http.post(server.url, content=b"{}")
    assert b"\r\naccept-encoding: identity\r\n" in bytes(server.received).lower()
