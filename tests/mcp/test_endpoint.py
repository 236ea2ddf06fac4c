"""Groundwire's own MCP endpoint, asked by the official client."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from proxy.admin import mcp as endpoint
from proxy.ports.failures import FailureEvent
from proxy.store.failures import DatabaseFailures
from tests.conftest import EMPTY_TAP, Running, Start
from tests.mcp.servers import make_server, over_http
from tests.mcp.test_offering import TAP, connected
from tests.store.test_failures import failure

ENDPOINT = "mcp: {endpoint: true}\n"
KEYS = "keys: [{name: ada, sha256: 73c9ff1f4ff9d58b6e0a0ce8f4f2de6b1d6d2a4a1a7f7f2fbc0c2a5a35f1d0aa}]\n"


@asynccontextmanager
async def client(proxy: Running, **headers: str) -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(headers={name.replace("_", "-"): value for name, value in headers.items()})
    async with http, Client(streamable_http_client(f"{proxy.url}/mcp", http_client=http)) as opened:
        yield opened


@asynccontextmanager
async def two_clients(start: Start) -> AsyncIterator[tuple[Running, str, Client, Client]]:
    """A proxy, and two clients of it with other credentials; the name is the first one's."""
    async with (
        start(config=ENDPOINT) as proxy,
        client(proxy, authorization="Bearer a") as mine,
        client(proxy, authorization="Bearer b") as theirs,
    ):
        yield proxy, proxy.app._services.clients.identify([("authorization", "Bearer a")], None), mine, theirs


async def told(opened: Client, tool: str, **arguments: Any) -> tuple[str, bool]:
    result = await opened.call_tool(tool, arguments)
    return result.content[0].text, bool(result.is_error)  # type: ignore[union-attr]


async def test_the_official_client_lists_the_tools(start: Start) -> None:
    async with start(config=ENDPOINT) as proxy, client(proxy) as opened:
        assert "groundwire" == opened.server_info.name  # type: ignore[union-attr]
        tools = (await opened.list_tools()).tools
        assert ["read_archive", "search_tools", "check_claims", "list_failures"] == [tool.name for tool in tools]
        assert ["answer", "evidence"] == next(tool for tool in tools if tool.name == "check_claims").input_schema["required"]
        assert all(tool.description and tool.annotations and tool.annotations.read_only_hint for tool in tools)


async def test_it_is_not_served_unless_the_operator_says_so(start: Start) -> None:
    async with start() as proxy:
        assert 404 == (await proxy.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, "/mcp")).status


async def test_a_client_reads_its_own_archive_and_no_other(start: Start) -> None:
    async with two_clients(start) as (proxy, owner, mine, theirs):
        item = await proxy.app.ports.scratchpad.put(b"line of text\n" * 2000, client=owner, run_id="r1")
        text, failed = await told(mine, "read_archive", id=item[:15], page=2)
        assert (True, False) == (text.startswith("[page 2 of 5]\nline of text"), failed)
        assert "matches of 'line'" in (await told(mine, "read_archive", id=item[:15], search="line"))[0]
        assert (f"Error: {item}: nothing of yours is archived under this id", True) == await told(theirs, "read_archive", id=item)


async def test_a_clients_failures_of_a_run_are_listed(start: Start) -> None:
    async with two_clients(start) as (proxy, owner, mine, theirs):
        found = failure()
        event = FailureEvent(kind="occurred", fingerprint=found.fingerprint, cause=found.cause, failure=found)
        await DatabaseFailures(proxy.app.database).apply([event], client=owner, run_id="r1", policy="p", step_id="1", record_id="gw_1")
        listed = json.loads((await told(mine, "list_failures", run_id="r1"))[0])
        assert [found.subject] == [one["subject"] for one in listed["failures"]]
        assert [] == json.loads((await told(mine, "list_failures", run_id="r2"))[0])["failures"]
        assert [] == json.loads((await told(theirs, "list_failures", run_id="r1"))[0])["failures"]


async def test_tools_of_the_operators_servers_are_found(start: Start) -> None:
    async with over_http(make_server()) as url:
        config = f"mcp: {{endpoint: true, servers: {{shop: {{url: '{url}'}}}}}}\n"
        async with start(policy=TAP, config=config) as proxy, client(proxy) as opened:
            await connected(proxy)
            found = json.loads((await told(opened, "search_tools", query="where is my order?"))[0])
            assert "mcp__shop__order_status" == found["tools"][0]["name"]


async def test_a_client_finds_no_tools_of_servers_that_no_policy_of_its_routes_offers(start: Start) -> None:
    async with over_http(make_server()) as url:
        config = f"mcp: {{endpoint: true, servers: {{shop: {{url: '{url}'}}}}}}\n"
        async with start(policy=EMPTY_TAP, config=config) as proxy, client(proxy) as opened:
            await connected(proxy)
            assert [] == json.loads((await told(opened, "search_tools", query="where is my order?"))[0])["tools"]


async def test_an_answer_is_checked_against_evidence(start: Start) -> None:
    evidence = ["Order A7 was shipped on 3 May 2026 with DHL.", "Returns take 14 days."]
    async with start(config=ENDPOINT) as proxy, client(proxy) as opened:
        right = json.loads((await told(opened, "check_claims", answer="Order A7 was shipped on 3 May 2026.", evidence=evidence))[0])
        wrong = json.loads((await told(opened, "check_claims", answer="Order A7 was shipped on 9 May 2026.", evidence=evidence))[0])
    assert (["supported"], 1) == ([claim["verdict"] for claim in right["claims"]], right["counts"]["supported"])
    assert ("contradicted", "evidence 1") == (wrong["claims"][0]["verdict"], wrong["claims"][0]["evidence"]["source"])


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("read_archive", {"id": "../../etc"}, "the arguments are refused"),
        ("read_archive", {"id": "sp_0123456789ab", "other": 1}, "unknown field `other`"),
        ("check_claims", {"answer": "a" * 20_001, "evidence": ["b"]}, "length <= 20000"),
        ("check_claims", {"answer": "a", "evidence": ["b"] * 51}, "length <= 50"),
        ("list_failures", {}, "missing required field `run_id`"),
    ],
)
async def test_arguments_have_bounds(start: Start, tool: str, arguments: dict[str, Any], said: str) -> None:
    async with start(config=ENDPOINT) as proxy, client(proxy) as opened:
        text, failed = await told(opened, tool, **arguments)
    assert failed
    assert said in text


async def test_where_clients_have_keys_one_is_needed(start: Start) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with start(config=ENDPOINT + KEYS) as proxy:
        assert [401, 401] == [(await proxy.post(message, "/mcp", **headers)).status for headers in ({}, {"authorization": "Bearer no"})]


async def test_a_call_counts_as_a_request_of_its_key(start: Start) -> None:
    digest = hashlib.sha256(b"gw-ada").hexdigest()
    keys = f"keys: [{{name: ada, sha256: {digest}, limits: {{rpm: 2}}}}]\n"
    async with start(config=ENDPOINT + keys) as proxy, client(proxy, authorization="Bearer gw-ada") as opened:
        answers = [await told(opened, "list_failures", run_id="r") for _ in range(3)]
        asked = await proxy.post({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}, authorization="Bearer gw-ada")
    assert [False, False, True] == [failed for _, failed in answers]
    assert answers[2][0].startswith("Error: Rate limit reached for the key 'ada': 2 requests a minute; try again in ")
    assert (429, "rpm") == (asked.status, asked.json["error"]["param"])


async def test_no_web_page_reaches_it_where_clients_have_no_keys(start: Start) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with start(config=ENDPOINT) as proxy:
        assert 403 == (await proxy.post(message, "/mcp", origin="https://evil.test")).status
        assert 403 == (await proxy.post(message, "/mcp", host="evil.test")).status


@pytest.mark.parametrize("places", ["PLACES", "PLACES_OF_ONE"])
async def test_past_its_places_a_call_is_told_to_come_again(start: Start, monkeypatch: pytest.MonkeyPatch, places: str) -> None:
    monkeypatch.setattr(endpoint, places, 0)
    async with start(config=ENDPOINT) as proxy, client(proxy) as opened:
        assert ("Error: too many calls at once: try again in a moment", True) == await told(opened, "list_failures", run_id="r")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/list"}', 200, -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', 200, -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}', 200, -32602),
    ],
)
async def test_what_is_no_message_of_its_own_is_an_error_of_json_rpc(start: Start, body: bytes, status: int, code: int) -> None:
    async with start(config=ENDPOINT) as proxy:
        got = await proxy.post(body, "/mcp")
    assert (status, code) == (got.status, got.json["error"]["code"])


async def test_a_notification_has_no_answer(start: Start) -> None:
    async with start(config=ENDPOINT) as proxy:
        got = await proxy.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, "/mcp")
        assert (202, b"") == (got.status, got.body)
        assert 413 == (await proxy.post(b" " * 300_000, "/mcp")).status
