"""Tools of MCP servers, offered to any client and answered by the proxy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.server.lowlevel import Server
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, ListToolsResult, Tool

from proxy.errors import StoreUnavailable
from proxy.testing import completion, reply, stream, streamed
from proxy.upstreams import mcp as connections
from proxy.upstreams.mcp_tools import _definition, accepted_schema
from tests.apis import APIS
from tests.conftest import CHAT, Running, Start
from tests.mcp.servers import make_server, over_http
from tests.own_tools import call_events, called, calling, function, names, read

POLICY = "name: p\ndelivery: {}\nstages: [mcp: {{servers: [shop]}}]\n"
TAP = POLICY.format("tap")
STATUS, TOOLS = "mcp__shop__order_status", ["mcp__shop__huge", "mcp__shop__order_status", "mcp__shop__review", "mcp__shop__slow"]


def config(url: str, more: str = "") -> str:
    return f"mcp: {{servers: {{shop: {{url: '{url}'{more}}}}}}}\n"


def asked(name: str = STATUS, arguments: str = '{"order":"A7"}', identity: str = "call_1") -> dict[str, Any]:
    return calling(called(name, arguments, identity))


async def connected(proxy: Running) -> None:
    async with asyncio.timeout(10):
        while proxy.app.mcp.away():
            await asyncio.sleep(0.005)


@pytest.fixture(params=["chat", pytest.param("responses", marks=pytest.mark.slow), pytest.param("messages", marks=pytest.mark.slow)])
def api(request: pytest.FixtureRequest) -> Any:
    return APIS[request.param]


def test_a_tool_that_takes_nothing_says_so_as_providers_want_it() -> None:
    offered = _definition("shop", Tool.model_validate({"name": "now", "inputSchema": {"type": "object"}})).tool.tool
    assert {"type": "object", "properties": {}} == offered["function"]["parameters"]


@pytest.mark.parametrize("delivery", ["tap", "hold", "gate"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_call_is_answered_by_the_server_and_the_client_sees_one_answer(
    start: Start, api: Any, delivery: str, streams: bool
) -> None:
    first = stream(call_events(called(STATUS, '{"order":"A7"}'))) if streams else reply(asked())
    last = stream(streamed(["It was", " shipped."])) if streams else reply(completion("It was shipped."))
    async with over_http(make_server()) as url, start(first, last, policy=POLICY.format(delivery), config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post({**CHAT, "stream": streams})
        text = read(got.body).text if streams else got.json["choices"][0]["message"]["content"]
        assert "It was shipped." == text
        assert TOOLS == names(proxy.upstream.calls[0])
        told = [m["content"] for m in proxy.upstream.calls[1].json["messages"] if m["role"] == "tool"]
        assert ["Order A7 was shipped on 3 May 2026."] == told
        assert b"mcp__" not in got.body


async def test_a_clients_tool_of_the_same_name_stays_the_clients(start: Start) -> None:
    async with over_http(make_server()) as url, start(reply(asked()), policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post({**CHAT, "tools": [function(STATUS)]})
        assert STATUS == got.json["choices"][0]["message"]["tool_calls"][0]["function"]["name"]
        assert [STATUS, *(name for name in TOOLS if name != STATUS)] == names(proxy.upstream.calls[0])


async def test_no_call_is_made_beside_a_call_of_the_clients_whose_result_could_not_be_told(start: Start) -> None:
    mixed = calling(called(STATUS, '{"order":"A7"}'), called("search_flights", "{}", "call_2"))
    async with over_http(make_server()) as url, start(reply(mixed), policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post({**CHAT, "tools": [function("search_flights")]})
        assert ["call_2"] == [call["id"] for call in got.json["choices"][0]["message"]["tool_calls"]]
        assert "called server" not in str((await proxy.record(got))["detail"]["changes"])


async def test_a_run_has_as_many_rounds_as_the_policy_says(start: Start) -> None:
    policy = "name: p\ndelivery: tap\nstages: [mcp: {servers: [shop], max_rounds: 6}]\n"
    async with (
        over_http(make_server()) as url,
        start(*[reply(asked())] * 6, reply(completion("Done.")), policy=policy, config=config(url)) as proxy,
    ):
        await connected(proxy)
        got = await proxy.post()
        assert "Done." == got.json["choices"][0]["message"]["content"]
        assert [*[None] * 6, "none"] == [call.json.get("tool_choice") for call in proxy.upstream.calls]


async def test_only_the_tools_of_the_allow_list_are_offered(start: Start) -> None:
    async with over_http(make_server()) as url, start(policy=TAP, config=config(url, ", tools: [order_status]")) as proxy:
        await connected(proxy)
        await proxy.post()
        assert [STATUS] == names(proxy.upstream.calls[0])


async def test_tool_rag_chooses_among_them_and_finds_the_others(start: Start) -> None:
    policy = "name: p\ndelivery: tap\nstages: [mcp: {servers: [shop]}, tool_rag: {above: 3, top_k: 1, kin: 0, max_tools: 4}]\n"
    search = asked("groundwire_find_tools", '{"query":"mcp__shop__review"}')
    replies = reply(search), reply(asked("mcp__shop__review", "{}", "call_2")), reply(completion("Great."))
    question = {**CHAT, "messages": [{"role": "user", "content": "Where is my order A7? What is its status?"}]}
    async with over_http(make_server()) as url, start(*replies, policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post(question)
        first, second = (set(names(call)) for call in proxy.upstream.calls[:2])
        assert STATUS in first
        assert "mcp__shop__review" not in first
        assert first | {"mcp__shop__review"} == second
        assert "Great shop!" in proxy.upstream.calls[2].json["messages"][-1]["content"]
        assert "Great." == got.json["choices"][0]["message"]["content"]
        assert got.headers["x-groundwire-tools"].startswith("4->")


# ---- what goes wrong ----


@pytest.mark.parametrize("structured", [None, {"order": 7}])
async def test_a_result_that_breaks_its_output_schema_is_told_as_it_came(start: Start, structured: Any) -> None:
    schema = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    tool = Tool(name="ship", input_schema={"type": "object"}, output_schema=schema)

    async def listed(*_: object) -> ListToolsResult:
        return ListToolsResult(tools=[tool])

    async def run(*_: object) -> CallToolResult:
        return CallToolResult.model_validate({"content": [{"type": "text", "text": "Shipped 7."}], "structuredContent": structured})

    server: Server[Any] = Server("shop", on_list_tools=listed, on_call_tool=run)
    replies = reply(asked("mcp__shop__ship", "{}")), reply(completion())
    async with over_http(server) as url, start(*replies, policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        await proxy.post()
        assert "Shipped 7." == proxy.upstream.calls[1].json["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "object"}, {"type": "object", "properties": {}}),
        ({"type": "object", "properties": None, "title": "T"}, {"type": "object", "properties": {}, "title": "T"}),
        (
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"], "anyOf": [{"required": ["b"]}, 3]},
            {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]},
        ),
        (
            {
                "type": "object",
                "oneOf": [{"properties": {"kind": {"const": 1}, "a": {"type": "string"}}}, {"$ref": "#/$defs/B"}],
                "$defs": {"B": {"properties": {"kind": {"const": 2}}}},
                "not": {},
            },
            {
                "type": "object",
                "$defs": {"B": {"properties": {"kind": {"const": 2}}}},
                "properties": {"kind": {"anyOf": [{"const": 1}, {"const": 2}]}, "a": {"type": "string"}},
            },
        ),
        (
            {
                "type": "object",
                "properties": {
                    "tags": {"type": "array"},
                    "ids": {"type": ["array", "null"], "items": True},
                    "point": {"type": "array", "items": [{"type": "number"}, {"type": "number"}]},
                    "pair": {"anyOf": [{"type": "array", "items": [{"type": "number"}, {"type": "array"}]}, {"type": "null"}]},
                    "none": {"type": "array", "items": []},
                    "any": True,
                    "more": {"type": "object", "additionalProperties": {"type": "array"}, "default": {"type": "array"}},
                    "open": {"type": "object", "additionalProperties": True},
                },
                "$defs": {"A": {"type": "array"}},
            },
            {
                "type": "object",
                "properties": {
                    "tags": {"type": "array", "items": {}},
                    "ids": {"type": ["array", "null"], "items": {}},
                    "point": {"type": "array", "items": {"type": "number"}},
                    "pair": {
                        "anyOf": [
                            {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "array", "items": {}}]}},
                            {"type": "null"},
                        ]
                    },
                    "none": {"type": "array", "items": {}},
                    "any": {},
                    "more": {"type": "object", "additionalProperties": {"type": "array", "items": {}}, "default": {"type": "array"}},
                    "open": {"type": "object", "additionalProperties": True},
                },
                "$defs": {"A": {"type": "array", "items": {}}},
            },
        ),
    ],
)
def test_a_schema_that_an_api_would_refuse_is_offered_in_a_form_that_it_takes(given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert expected == accepted_schema(given)


async def test_a_tool_without_parameters_is_offered_with_none(start: Start) -> None:
    async def listed(*_: object) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="ship", input_schema={"type": "object"})])

    async with over_http(Server("shop", on_list_tools=listed)) as url, start(policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        await proxy.post()
        (tool,) = proxy.upstream.calls[0].json["tools"]
        assert {"type": "object", "properties": {}} == tool["function"]["parameters"]


def test_a_schema_that_every_api_takes_stays_as_it_is() -> None:
    schema = {"type": "object", "properties": {"a": {"anyOf": [{}]}, "b": {"type": "array", "items": {"type": "string"}}, "enum": {}}}
    assert schema is accepted_schema(schema)


@pytest.mark.parametrize(
    ("name", "arguments", "more", "told", "problem"),
    [
        ("order_status", '{"order":"none"}', "", "Error executing tool order_status: there is no such order", "tool_failed"),
        ("order_status", "{}", "", "Error executing tool order_status: 1 validation error", "tool_failed"),
        ("slow", "{}", ", timeout_s: 0.1", "Error: slow gave no result within 0.1 seconds: timeout.", "call_timeout"),
    ],
)
async def test_a_failing_call_is_told_to_the_model(start: Start, name: str, arguments: str, more: str, told: str, problem: str) -> None:
    replies = reply(asked(f"mcp__shop__{name}", arguments)), reply(completion("Sorry."))
    async with over_http(make_server()) as url, start(*replies, policy=TAP, config=config(url, more)) as proxy:
        await connected(proxy)
        got = await proxy.post()
        assert "Sorry." == got.json["choices"][0]["message"]["content"]
        assert proxy.upstream.calls[1].json["messages"][-1]["content"].startswith(told)
        changes = (await proxy.record(got))["detail"]["changes"]
        assert [problem] == [change["error"] for change in changes if change["what"] == "called server"]


async def test_a_huge_result_is_cut_and_says_so(start: Start) -> None:
    replies = reply(asked("mcp__shop__huge", "{}")), reply(completion())
    async with over_http(make_server()) as url, start(*replies, policy=TAP, config=config(url, ", max_result_bytes: 200")) as proxy:
        await connected(proxy)
        await proxy.post()
        told = proxy.upstream.calls[1].json["messages"][-1]["content"]
        assert told.startswith("abcdefghi\n")
        assert told.endswith("[Cut here: 200 of 1000000 bytes. Ask for less at a time.]")
        assert len(told) < 300


async def test_a_message_without_end_breaks_the_connection_and_not_the_server(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MIN_MESSAGE_BYTES", 500_000)
    replies = reply(asked("mcp__shop__huge", "{}")), reply(completion("Sorry."))
    async with over_http(make_server()) as url, start(*replies, policy=TAP, config=config(url, ", max_result_bytes: 200")) as proxy:
        await connected(proxy)
        got = await proxy.post()
        assert "Sorry." == got.json["choices"][0]["message"]["content"]
        assert "Error: huge failed" in proxy.upstream.calls[1].json["messages"][-1]["content"]


async def test_a_server_that_is_away_keeps_nobody_from_starting_and_ready_names_it(start: Start) -> None:
    async with start(policy=TAP, config=config("http://127.0.0.1:1/mcp")) as proxy:
        await proxy.post()
        assert [] == names(proxy.upstream.calls[0])
        ready = await proxy.get("/ready")
        assert ["shop"] == list(ready.json["runs"]["mcp_servers_away"])
        assert b"groundwire_mcp_servers_away 1.0" in (await proxy.get("/metrics")).body


async def test_a_server_that_dies_is_an_error_for_the_model_and_one_that_comes_back_answers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAIT_S", 0.05)
    replies = reply(asked()), reply(completion()), reply(asked()), reply(completion())
    async with over_http(make_server()) as url:
        port = int(url.split(":")[2].partition("/")[0])
    async with start(*replies, policy=TAP, config=config(url, ", refresh_s: 0.05, timeout_s: 5")) as proxy:
        async with over_http(make_server(), port):
            await connected(proxy)
        async with asyncio.timeout(10):
            while not proxy.app.mcp.away():
                await asyncio.sleep(0.005)
        await proxy.post()
        assert TOOLS == names(proxy.upstream.calls[0])
        assert "the server shop cannot be reached" in proxy.upstream.calls[1].json["messages"][-1]["content"]
        async with over_http(make_server(), port):
            await connected(proxy)
            await proxy.post()
            assert "shipped on 3 May" in proxy.upstream.calls[3].json["messages"][-1]["content"]


@pytest.mark.parametrize("delivery", ["tap", "hold", "gate"])
async def test_a_stream_lives_while_a_tool_takes_its_time(start: Start, delivery: str) -> None:
    server, go = make_server(), asyncio.Event()
    server.remove_tool("slow")

    @server.tool(structured_output=False)
    async def slow() -> str:
        """Waits."""
        await go.wait()
        return "done"

    replies = stream(call_events(called("mcp__shop__slow", "{}"))), stream(streamed(["It is", " done."]))
    settings = "server: {keep_alive_s: 0.02}\n"
    async with over_http(server) as url, start(*replies, policy=POLICY.format(delivery), config=config(url) + settings) as proxy:
        await connected(proxy)
        async with proxy.open({**CHAT, "stream": True}) as response:
            assert b": keep-alive\n\n" == await response.content.readexactly(len(b": keep-alive\n\n"))
            go.set()
            rest = await response.content.read()
        assert "It is done." == read(rest.replace(b": keep-alive\n\n", b"")).text


async def test_calls_of_one_answer_wait_together_and_their_results_keep_their_order(start: Start) -> None:
    server, both = make_server(), asyncio.Barrier(2)
    server.remove_tool("slow")

    @server.tool(structured_output=False)
    async def slow(name: str) -> str:
        """Waits for another call of it."""
        async with asyncio.timeout(10):
            await both.wait()
        return f"done {name}"

    calls = [called("mcp__shop__slow", json.dumps({"name": name}), f"call_{name}") for name in ("a", "b")]
    async with over_http(server) as url, start(reply(calling(*calls)), reply(completion()), policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        await proxy.post()
        results = [m for m in proxy.upstream.calls[1].json["messages"] if m["role"] == "tool"]
        assert [("call_a", "done a"), ("call_b", "done b")] == [(m["tool_call_id"], m["content"]) for m in results]


async def test_a_client_that_leaves_ends_the_call(start: Start) -> None:
    server, ended = make_server(), asyncio.Event()
    server.remove_tool("slow")
    began = asyncio.Event()

    @server.tool(structured_output=False)
    async def slow() -> str:
        """Waits."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "done"

    async with over_http(server) as url, start(reply(asked("mcp__shop__slow", "{}")), policy=TAP, config=config(url)) as proxy:
        await connected(proxy)
        asking = asyncio.create_task(proxy.post())
        async with asyncio.timeout(10):
            await began.wait()
            asking.cancel()
            await ended.wait()
        assert 1 == len(proxy.upstream.calls)


# ---- records, failures, poisoning ----


@pytest.mark.parametrize("bodies", [True, False])
async def test_arguments_and_results_are_in_the_record_only_where_bodies_are_kept(start: Start, bodies: bool) -> None:
    replies = reply(asked()), reply(completion())
    async with over_http(make_server()) as url, start(*replies, policy=TAP, config=config(url), bodies=bodies) as proxy:
        await connected(proxy)
        record = await proxy.record(await proxy.post())
        call = next(change for change in record["detail"]["changes"] if change["what"] == "called server")
        assert ("shop", "order_status") == (call["server"], call["tool"])
        assert bodies == ("shipped on 3 May" in json.dumps(record))


async def test_a_failing_tool_is_a_failure_of_the_run_and_is_resolved_when_it_works(start: Start) -> None:
    server = make_server()
    replies = reply(asked()), reply(completion()), reply(asked(identity="call_2")), reply(completion())
    policy = "name: p\ndelivery: tap\nstages: [mcp: {servers: [shop]}, reflection: {}]\n"
    broken = {"on": True}
    server.remove_tool("order_status")

    @server.tool(name="order_status", structured_output=False)
    def order_status(order: str) -> str:
        if broken["on"]:
            raise ToolError("connection refused: database unavailable")
        return "shipped"

    async with over_http(server) as url, start(*replies, policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        await proxy.post(x_groundwire_run_id="r1")
        failures = (await proxy.get("/groundwire/v1/failures?run_id=r1")).json["data"]
        assert [("tool_error", STATUS, "active")] == [(one["signal_type"], one["subject"], one["status"]) for one in failures]
        broken["on"] = False
        await proxy.post(x_groundwire_run_id="r1")
        failures = (await proxy.get("/groundwire/v1/failures?run_id=r1")).json["data"]
        assert ["resolved"] == [one["status"] for one in failures]


async def test_instructions_in_a_result_are_held_before_the_model_reads_it(start: Start) -> None:
    policy = "name: p\ndelivery: tap\nstages: [mcp: {servers: [shop]}, poisoning: {injections: quarantine}]\n"
    replies = reply(asked("mcp__shop__review", "{}")), reply(completion())
    async with over_http(make_server()) as url, start(*replies, policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post()
        told = proxy.upstream.calls[1].json["messages"][-1]["content"]
        assert "Ignore all previous" not in told
        assert "context_quarantined" in (await proxy.record(got))["detail"]["verdicts"][-1]["code"]
        held = (await proxy.get("/groundwire/v1/quarantine?status=pending")).json["data"]
        assert ["mcp__shop__review"] == [item["source"] for item in held]


async def test_a_result_that_the_policy_rejects_ends_the_request_as_one_of_the_clients_does(start: Start, tmp_path: Path) -> None:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "facts.csv").write_text("subject,statement,source\nEiffel Tower,The Eiffel Tower is in Paris.,us\n")
    rejects = "on_invalid: reject, on_inexact: reject, on_suspicious: reject"
    policy = f"name: p\ndelivery: tap\nstages: [mcp: {{servers: [shop]}}, knowledge: {{folder: facts}}, poisoning: {{{rejects}}}]\n"
    server = make_server()

    @server.tool(structured_output=False)
    def tower() -> str:
        """Where it is."""
        return "The Eiffel Tower is located in London."

    async with over_http(server) as url, start(reply(asked("mcp__shop__tower", "{}")), policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post()
        assert (400, "policy_blocked", "poisoned_context") == (got.status, got.json["error"]["code"], got.json["error"]["param"])
        assert "a result of mcp__shop__tower" in got.json["error"]["message"]
        assert 1 == len(proxy.upstream.calls)


async def test_a_result_that_cannot_be_checked_ends_the_request_under_a_closed_policy(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailable("gone")

    policy = "name: p\ndelivery: tap\nstages: [mcp: {servers: [shop]}, poisoning: {injections: quarantine, on_error: closed}]\n"
    async with over_http(make_server()) as url, start(reply(asked("mcp__shop__review", "{}")), policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        monkeypatch.setattr(proxy.app.ports.quarantine, "put", away)
        got = await proxy.post()
        assert (503, "overloaded", "poisoning_unchecked") == (got.status, got.json["error"]["code"], got.json["error"]["param"])
        assert 1 == len(proxy.upstream.calls)


async def test_what_a_server_gave_is_evidence_of_the_answer(start: Start) -> None:
    policy = "name: p\ndelivery: hold\nstages: [mcp: {servers: [shop]}, claims: {}]\n"
    replies = reply(asked()), reply(completion("Order A7 was shipped on 3 May 2026."))
    async with over_http(make_server()) as url, start(*replies, policy=policy, config=config(url)) as proxy:
        await connected(proxy)
        got = await proxy.post()
        assert "supported=1" in got.headers["x-groundwire-claims"]
