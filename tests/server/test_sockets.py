"""Responses over a WebSocket, from end to end."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from proxy.limits import keyring
from proxy.server import sockets
from proxy.testing import hang, reply, stream
from tests.conftest import Running, Start
from tests.delivery.test_delivery import ALL as JUDGES
from tests.delivery.test_delivery import policy
from tests.own_tools import FIND, GATE, Finder, Listening, Passing
from tests.responses_api import Item, call_item, decoded, events, reasoning_item, response, text_item

ASK = {"type": "response.create", "model": "gpt-5", "input": "Hi"}
KEY = "gw-0123456789abcdef0123456789abcdef"
KEYS = f"keys: [{{name: one, sha256: {hashlib.sha256(KEY.encode()).hexdigest()}}}]\n"
BEARER = {"authorization": f"Bearer {KEY}"}
ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
HELLO = text_item("Hello there.")
LONG = text_item("A first LIE here. This is fine. More NOISE now. The end.")


class Socket:
    """A client's side of a connection."""

    def __init__(self, raw: aiohttp.ClientWebSocketResponse) -> None:
        self.raw = raw

    async def send(self, **fields: Any) -> None:
        await self.raw.send_json({**ASK, **fields})

    async def events(self) -> list[Item]:
        """Up to the end of a response."""
        found: list[Item] = []
        async with asyncio.timeout(10):
            while not found or found[-1]["type"] not in ENDS:
                found.append(await self.raw.receive_json())
        return found

    async def ask(self, **fields: Any) -> list[Item]:
        await self.send(**fields)
        return await self.events()

    async def closed(self) -> int | None:
        """The code with which the other side ends it."""
        async with asyncio.timeout(10):
            while (await self.raw.receive()).type not in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.CLOSING):
                pass
        return self.raw.close_code


@asynccontextmanager
async def connected(proxy: Running, path: str = "/v1/responses", **headers: str) -> AsyncIterator[Socket]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with proxy._session.ws_connect(proxy.url + path, headers=named, timeout=aiohttp.ClientWSTimeout(ws_close=1)) as raw:
        yield Socket(raw)


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


def numbered(number: int, *output: Item, **more: object) -> Any:
    return stream(events(*(output or (HELLO,)), id=f"resp_{number}", **more))


def sent(proxy: Running, call: int = -1) -> Any:
    return proxy.upstream.calls[call].json


async def test_the_events_are_those_of_the_stream(start: Start) -> None:
    chunks = events(reasoning_item(), HELLO, call_item("weather", "{}"))
    async with start(stream(chunks)) as proxy, connected(proxy, openai_beta="responses_websockets=2026-02-06", x_other="1") as socket:
        found = await socket.ask(reasoning={"effort": "low"}, newer={"a": 1.0})
        call = proxy.upstream.calls[0]
    assert decoded(b"".join(chunks)) == found
    assert {"model": "gpt-5", "input": "Hi", "reasoning": {"effort": "low"}, "newer": {"a": 1.0}, "stream": True} == call.json
    assert ("POST", "/v1/responses", "1", "Bearer sk-upstream-secret") == (
        call.method,
        call.path,
        call.headers["x-other"],
        call.headers["authorization"],
    )
    assert not {"openai-beta", "upgrade", "sec-websocket-key"} & set(call.headers)


async def test_several_responses_come_one_after_another_each_with_a_record(start: Start) -> None:
    async with start(*(numbered(n) for n in range(3)), policy=policy("gate", "score"), stages=JUDGES) as proxy:
        async with connected(proxy, x_groundwire_inline="1") as socket:
            for n in range(3):
                await socket.send(input=f"Question {n}")
            ends = [(await socket.events())[-1]["response"] for _ in range(3)]
        await proxy.app.records_writer.flush()
        records = (await proxy.get("/groundwire/v1/records")).json["data"]
    assert ["resp_0", "resp_1", "resp_2"] == [end["id"] for end in ends]
    assert {end["groundwire"]["id"] for end in ends} == {record["id"] for record in records}
    assert [("/responses", 200)] * 3 == [(record["path"], record["status"]) for record in records]


async def test_the_policy_runs_as_over_http(start: Start) -> None:
    async with start(stream(events(LONG)), policy=policy("gate", "censor"), stages=JUDGES) as proxy, connected(proxy) as socket:
        found = await socket.ask()
    assert "[removed] This is fine. The end." == found[-1]["response"]["output"][0]["content"][0]["text"]
    assert "LIE" not in json.dumps(found)


async def test_a_block_before_the_answer_is_an_error_event(start: Start) -> None:
    chunks = events(text_item("Here is POISON. The end."))
    async with start(stream(chunks), policy=policy("hold", "censor"), stages=JUDGES) as proxy, connected(proxy) as socket:
        (error,) = await socket.ask()
    assert ("error", 400, "policy_blocked") == (error["type"], error["status"], error["error"]["code"])
    assert error["headers"]["x-groundwire-verdict"] == "block"


async def test_the_proxys_own_tools_are_answered_within_one_response(start: Start) -> None:
    replies = numbered(1, call_item(FIND, '{"q": "x"}', "own_1")), numbered(2, HELLO)
    async with start(*replies, policy=GATE, stages=(*JUDGES, Finder, Passing, Listening)) as proxy, connected(proxy) as socket:
        found = await socket.ask()
        assert 2 == len(proxy.upstream.calls)
    assert FIND not in json.dumps([one for one in found if one["type"].startswith("response.output_item")])
    assert "Hello there." == found[-1]["response"]["output"][-1]["content"][0]["text"]


async def test_what_the_provider_does_not_keep_is_sent_again_from_the_connection(start: Start) -> None:
    first = [reasoning_item(), call_item("weather", "{}")]
    result = {"type": "function_call_output", "call_id": "call_1", "output": "Sun."}
    async with start(numbered(1, *first), numbered(2), numbered(3)) as proxy, connected(proxy) as socket:
        await socket.ask(store=False)
        await socket.ask(store=False, previous_response_id="resp_1", input=[result])
        second = sent(proxy)
        await socket.ask(store=False, previous_response_id="resp_2", input="And?")
        third = sent(proxy)
    said = [{"type": "message", "role": "user", "content": "Hi"}, *first, result]
    assert (said, False) == (second["input"], "previous_response_id" in second)
    assert [*said, HELLO, {"type": "message", "role": "user", "content": "And?"}] == third["input"]


async def test_thoughts_without_their_content_are_not_sent_again(start: Start) -> None:
    bare = {name: value for name, value in reasoning_item().items() if name != "encrypted_content"}
    async with start(numbered(1, bare, HELLO), numbered(2)) as proxy, connected(proxy) as socket:
        await socket.ask(store=False)
        await socket.ask(store=False, previous_response_id="resp_1", input="And?")
        items = sent(proxy)["input"]
    assert [None, {name: value for name, value in HELLO.items() if name != "id"}] == [items[0].get("id"), items[1]]


async def test_what_the_provider_keeps_is_only_named(start: Start) -> None:
    async with start(numbered(1), numbered(2), numbered(3)) as proxy, connected(proxy) as socket:
        await socket.ask()
        await socket.ask(previous_response_id="resp_1", input="And?", store=False)
        assert ("And?", "resp_1") == (sent(proxy)["input"], sent(proxy)["previous_response_id"])
        await socket.ask(previous_response_id="resp_2", input="So?", store=False)
        last = sent(proxy)
    assert ("resp_1", 3) == (last["previous_response_id"], len(last["input"]))


async def test_a_request_without_an_answer_is_said_with_the_next(start: Start) -> None:
    async with start(numbered(1)) as proxy, connected(proxy) as socket:
        warm = await socket.ask(generate=False, store=False, instructions="Be brief.", input=[{"role": "user", "content": "One."}])
        assert [] == proxy.upstream.calls
        name = warm[-1]["response"]["id"]
        await socket.ask(store=False, previous_response_id=name, instructions="Be brief.", input=[{"role": "user", "content": "Two."}])
        body = sent(proxy)
    assert (["response.created", "response.in_progress", "response.completed"], []) == (
        [e["type"] for e in warm],
        warm[-1]["response"]["output"],
    )
    assert (["One.", "Two."], "Be brief.") == ([item["content"] for item in body["input"]], body["instructions"])
    assert not {"generate", "previous_response_id"} & set(body)


async def test_only_the_latest_of_a_lane_is_remembered(start: Start) -> None:
    async with start(numbered(1), numbered(2)) as proxy, connected(proxy) as socket:
        await socket.ask(store=False)
        await socket.ask(store=False)
        (error,) = await socket.ask(store=False, previous_response_id="resp_1", input="And?")
        calls = len(proxy.upstream.calls)
    assert (400, "previous_response_not_found", "previous_response_id", 2) == (
        error["status"],
        error["error"]["code"],
        error["error"]["param"],
        calls,
    )


async def test_ids_that_come_again_are_those_of_the_last_response(start: Start) -> None:
    async with start(*(numbered(1) for _ in range(4))) as proxy:
        free = proxy.app.ledger.bodies.free
        async with connected(proxy) as socket:
            for lane in ("a", "a", "b"):
                await socket.ask(store=False, stream_id=lane, input=f"Of {lane}")
            found = await socket.ask(store=False, stream_id="b", previous_response_id="resp_1", input="And?")
            said = [item["content"] for item in sent(proxy)["input"]]
        await until(lambda: free == proxy.app.ledger.bodies.free)
    assert ("response.completed", ["Of b", HELLO["content"], "And?"]) == (found[-1]["type"], said)


async def test_without_room_nothing_is_remembered_and_the_client_sends_all(start: Start) -> None:
    async with start(numbered(1), numbered(2)) as proxy, connected(proxy) as socket:
        bodies = proxy.app.ledger.bodies
        bodies.total = bodies.free = 10_000
        await socket.ask(store=False, input="x" * 6_000)
        (error,) = await socket.ask(store=False, previous_response_id="resp_1", input="And?")
        whole = await socket.ask(store=False, input="All of it.")
    assert ("previous_response_not_found", "response.completed") == (error["error"]["code"], whole[-1]["type"])


async def test_items_take_room_as_they_come_and_none_is_kept_where_there_is_none(start: Start) -> None:
    done = [event for event in events(*[LONG] * 20, id="resp_1") if b'"response.output_item.done"' in event]
    begins, ends = events(id="resp_1")[0], events(id="resp_1")[-1]
    goes_on, size = asyncio.Event(), sum(map(len, done))
    wait = {1 + len(done): goes_on}
    async with start(stream([begins, *done, *done, ends], wait=wait), numbered(2)) as proxy, connected(proxy) as socket:
        bodies = proxy.app.ledger.bodies
        bodies.total = bodies.free = 3 * size
        await socket.send(store=False)
        await until(lambda: bodies.free < bodies.total - size // 2)
        goes_on.set()
        await socket.events()
        (error,) = await socket.ask(store=False, previous_response_id="resp_1", input="And?")
        whole = await socket.ask(store=False, input="All of it.")
    assert ("previous_response_not_found", "response.completed") == (error["error"]["code"], whole[-1]["type"])


async def test_only_so_many_are_known_as_forgotten(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_FORGOTTEN", 1)
    async with start(reply({"error": {"message": "none", "code": "of the provider"}}, 400)) as proxy, connected(proxy) as socket:
        names = [(await socket.ask(store=False, generate=False))[-1]["response"]["id"] for _ in range(3)]
        codes = [(await socket.ask(store=False, previous_response_id=name))[0]["error"]["code"] for name in names[:2]]
    assert ["of the provider", "previous_response_not_found"] == codes


@pytest.mark.parametrize("more", [{}, {"generate": False}], ids=["an answer", "none"])
@pytest.mark.parametrize("given", [7, {"role": "user"}, True], ids=str)
async def test_what_goes_on_with_no_input_that_can_be_read_is_refused(given: object, more: dict[str, Any], start: Start) -> None:
    async with start(numbered(1)) as proxy, connected(proxy) as socket:
        await socket.ask(store=False)
        (error,) = await socket.ask(store=False, previous_response_id="resp_1", input=given, **more)
        assert 1 == len(proxy.upstream.calls)
    assert (400, "input") == (error["status"], error["error"]["param"])


async def test_a_failed_continuation_forgets_what_it_went_on_from(start: Start) -> None:
    refused = reply({"error": {"message": "no", "type": "server_error", "param": None, "code": None}}, 500)
    async with start(numbered(1), refused) as proxy, connected(proxy) as socket:
        await socket.ask(store=False)
        first = await socket.ask(store=False, previous_response_id="resp_1", input="And?")
        second = await socket.ask(store=False, previous_response_id="resp_1", input="And?")
    assert [500, "previous_response_not_found"] == [first[0]["status"], second[0]["error"]["code"]]


async def test_lanes_run_beside_each_other(start: Start) -> None:
    on = asyncio.Event()
    slow = stream(events(HELLO, id="resp_slow"), wait={2: on})
    async with start(slow, numbered(2)) as proxy, connected(proxy) as socket:
        await socket.send(stream_id="slow")
        await until(lambda: len(proxy.upstream.calls) == 1)
        await socket.send(stream_id="quick", store=False)
        quick = await socket.events()
        on.set()
        slowly = await socket.events()
        fork = await socket.ask(stream_id="fork", store=False, previous_response_id="resp_2", input="And?")
        main = await socket.ask(stream_id="quick", store=False, previous_response_id="resp_2", input="And?")
    assert [("quick", "resp_2"), ("slow", "resp_slow")] == [(one[-1]["stream_id"], one[-1]["response"]["id"]) for one in (quick, slowly)]
    assert {"fork"} == {event["stream_id"] for event in fork}
    assert "response.completed" == main[-1]["type"]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"type": "response.cancel"}, "invalid_request", "type"),
        ({"type": 7}, "invalid_request", "type"),
        ({"background": True}, "invalid_request", "background"),
        ({"stream_id": ""}, "invalid_stream_id", "stream_id"),
        ({"stream_id": "a b"}, "invalid_stream_id", "stream_id"),
        ({"model": None}, "invalid_request", "model"),
        ({"input": 7}, "invalid_request", "input"),
    ],
    ids=str,
)
async def test_what_is_not_supported_is_an_error_event(fields: dict[str, Any], code: str, param: str, start: Start) -> None:
    async with start(numbered(1)) as proxy, connected(proxy) as socket:
        (error,) = await socket.ask(**fields)
        after = await socket.ask()
    assert (400, code, param) == (error["status"], error["error"]["code"], error["error"]["param"])
    assert "response.completed" == after[-1]["type"]


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '"x"',
        "{",
        "[" * 100_000,
        '{"type": "response.create", "input": "\\ud800"',
        '{"type": "\\ud800"}',
        '{"type": "response.create", "generate": false, "model": "\\ud800"}',
    ],
)
async def test_what_is_no_message_is_an_error_event(text: str, start: Start) -> None:
    async with start(numbered(1)) as proxy, connected(proxy) as socket:
        await socket.raw.send_str(text)
        (error,) = await socket.events()
        after = await socket.ask()
    assert (400, "response.completed") == (error["status"], after[-1]["type"])


async def test_steering_is_refused_and_codex_s_note_needs_no_reply(start: Start) -> None:
    async with start(numbered(1)) as proxy, connected(proxy) as socket:
        await socket.raw.send_json({"type": "response.processed", "response_id": "resp_1"})
        await socket.raw.send_json({"type": "response.steer", "previous_response_id": "resp_1", "input": "Stop."})
        refusal = await socket.raw.receive_json()
        after = await socket.ask()
    assert ("response.steer.failed", "steering_not_supported", "Stop.") == (
        refusal["type"],
        refusal["error"]["code"],
        refusal["steer"]["input"],
    )
    assert "response.completed" == after[-1]["type"]


async def test_an_upstream_s_error_is_an_error_event_with_its_headers(start: Start) -> None:
    limit = reply({"error": {"message": "Slow down.", "type": "rate_limit_error", "code": "x", "param": None}}, 429, {"retry-after": "7"})
    async with start(limit) as proxy, connected(proxy) as socket:
        (error,) = await socket.ask()
    assert (429, "Slow down.", "7") == (error["status"], error["error"]["message"], error["headers"]["retry-after"])


@pytest.mark.parametrize("delivery", ["tap", "gate"])
async def test_a_stream_that_breaks_off_ends_with_an_error(delivery: str, start: Start) -> None:
    broken = stream(events(HELLO)[:3], broken=True)
    async with start(broken, numbered(2), policy=policy(delivery, "score"), stages=JUDGES) as proxy, connected(proxy) as socket:
        found = await socket.ask()
        after = await socket.ask()
    assert ("error", True) == (found[-1]["type"], found[-1]["status"] >= 500)
    assert "response.completed" == after[-1]["type"]


async def test_an_error_within_the_stream_has_a_status(start: Start) -> None:
    chunks = [
        *events(HELLO)[:2],
        b'event: error\ndata: {"type":"error","code":"server_error","message":"m","param":null,"sequence_number":2}\n\n',
    ]
    async with start(stream(chunks)) as proxy, connected(proxy) as socket:
        error = (await socket.ask())[-1]
    assert (500, "server_error", "m", 2) == (error["status"], error["error"]["code"], error["error"]["message"], error["sequence_number"])


async def test_an_answer_in_one_piece_becomes_events(start: Start) -> None:
    async with start(reply(response(HELLO))) as proxy, connected(proxy) as socket:
        found = await socket.ask()
    assert ("response.created", response(HELLO)["output"]) == (found[0]["type"], found[-1]["response"]["output"])


# ---- who may open one, and how it ends ----


async def refused(proxy: Running, path: str = "/v1/responses", **headers: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        async with connected(proxy, path, **headers):
            pass
    return caught.value.status


async def test_a_key_opens_it_and_is_counted(start: Start) -> None:
    limited = KEYS.replace("}]", ", limits: {rpm: 1}}]")
    async with start(numbered(1), config=limited) as proxy:
        assert [401, 401] == [await refused(proxy), await refused(proxy, authorization="Bearer wrong")]
        async with connected(proxy, **BEARER) as socket:
            assert "response.completed" == (await socket.ask())[-1]["type"]
            (error,) = await socket.ask()
        await proxy.app.records_writer.flush()
        records = (await proxy.get("/groundwire/v1/records")).json["data"]
    assert (429, "rate_limited") == (error["status"], error["error"]["code"])
    assert [("one", 429), ("one", 200)] == [(record["client"], record["status"]) for record in records[:2]]
    assert [("/responses", 401)] * 2 == [(record["path"], record["status"]) for record in records[2:]]


async def test_it_ends_with_its_key(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "LOOK_S", 0.02)
    async with start(numbered(1), store_options=", keys: true") as proxy:
        key = (await proxy.post({"name": "ann"}, "/groundwire/v1/keys")).json["key"]
        async with connected(proxy, authorization=f"Bearer {key}") as socket:
            assert "response.completed" == (await socket.ask())[-1]["type"]
            assert 200 == (await proxy.post({}, "/groundwire/v1/keys/ann/revoke")).status
            async with asyncio.timeout(5):  # also what goes to no upstream is answered no more
                while (end := (await socket.ask(generate=False))[-1])["type"] != "error":
                    await asyncio.sleep(0.01)
            assert (401, "invalid_api_key", 1008) == (end["status"], end["error"]["code"], await socket.closed())


@pytest.mark.parametrize(("config", "status"), [("", 403), (KEYS, 403), (KEYS + "cors: {origins: ['https://page.example']}\n", 101)])
async def test_pages_open_none_where_they_could_not_read_an_answer(config: str, status: int, start: Start) -> None:
    async with start(numbered(1), config=config) as proxy:
        if status == 403:
            assert 403 == await refused(proxy, origin="https://page.example", **BEARER)
            assert 403 == await refused(proxy, origin="http://localhost:3000", **BEARER)
        else:
            async with connected(proxy, origin="https://page.example", **BEARER) as socket:
                assert "response.completed" == (await socket.ask())[-1]["type"]
            assert 403 == await refused(proxy, origin="https://other.example", **BEARER)


@pytest.mark.parametrize(
    ("path", "status"),
    [("/v1/realtime", 426), ("/v1/chat/completions", 426), ("/elsewhere/v1/responses", 404), ("/groundwire/v1/responses", 404)],
)
async def test_other_paths_have_none(path: str, status: int, start: Start) -> None:
    async with start() as proxy:
        assert status == await refused(proxy, path)


async def test_a_path_without_one_says_so_in_a_way_that_lets_clients_go_on_over_http(start: Start) -> None:
    head = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "13", "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ=="}
    async with start() as proxy:
        got = await proxy.get("/v1/realtime?model=gpt-5", **head)
    assert (426, "HTTP/1.1", "websocket_not_supported") == (got.status, got.headers["upgrade"], got.json["error"]["code"])


async def test_who_leaves_ends_the_upstream_s_call(start: Start) -> None:
    async with start(hang) as proxy:
        async with connected(proxy) as socket:
            await socket.send()
            await until(lambda: proxy.upstream.calls)
        await until(proxy.upstream.gone.is_set)
        await proxy.app.records_writer.flush()
        (record,) = (await proxy.get("/groundwire/v1/records")).json["data"]
        assert 0 == proxy.app.ledger.bodies.total - proxy.app.ledger.bodies.free
    assert 499 == record["status"]


async def test_a_message_that_is_too_large_is_refused(start: Start) -> None:
    async with start(numbered(1), config="server: {max_body_bytes: 10000}\n") as proxy, connected(proxy) as socket:
        (error,) = await socket.ask(input="x" * 20_000)
        after = await socket.ask()
    assert (413, "response.completed") == (error["status"], after[-1]["type"])


async def test_binary_messages_end_the_connection(start: Start) -> None:
    async with start() as proxy, connected(proxy) as socket:
        await socket.raw.send_bytes(b"{}")
        assert 1003 == await socket.closed()


async def test_an_hour_is_its_longest_life(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_AGE_S", 0.0)
    async with start() as proxy, connected(proxy) as socket:
        (error,) = await socket.ask()
        assert 1000 == await socket.closed()
    assert "websocket_connection_limit_reached" == error["error"]["code"]


async def test_too_many_lanes_and_too_many_messages_are_refused(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MAX_WAITING", 1)
    monkeypatch.setattr(sockets.wire, "MAX_NAMED_LANES", 1)
    async with start(hang) as proxy, connected(proxy) as socket:
        await socket.send(stream_id="a")
        many = await socket.ask(stream_id="a")
        monkeypatch.setattr(sockets, "MAX_WAITING", 2)
        lanes = await socket.ask(stream_id="b")
    assert ["rate_limited", "websocket_stream_limit_reached"] == [many[0]["error"]["code"], lanes[0]["error"]["code"]]


@pytest.mark.parametrize(("in_time", "end"), [(True, "response.completed"), (False, "error")])
async def test_a_server_that_stops_lets_the_response_end(in_time: bool, end: str, start: Start) -> None:
    on = asyncio.Event()
    async with aiohttp.ClientSession() as session:
        async with start(stream(events(HELLO), wait={2: on})) as proxy:
            busy, idle = [Socket(await session.ws_connect(proxy.url + "/v1/responses")) for _ in range(2)]
            await busy.send()
            await busy.raw.receive_json()
            told = asyncio.create_task(told_of_a_stop(busy, idle, on if in_time else asyncio.Event()))
        assert (end, 1012) == await told


async def told_of_a_stop(busy: Socket, idle: Socket, on: asyncio.Event) -> tuple[str, int | None]:
    """How the response under way ended, and then its connection."""
    assert 1012 == await idle.closed()
    assert 503 == (await busy.ask(stream_id="late"))[-1]["status"]
    on.set()
    return (await busy.events())[-1]["type"], await busy.closed()


async def test_nothing_is_left_of_connections(start: Start) -> None:
    async with start(*(numbered(n) for n in range(3))) as proxy:
        free = proxy.app.ledger.connections.free, proxy.app.ledger.bodies.free
        for _ in range(3):
            async with connected(proxy) as socket:
                await socket.ask(store=False)
                assert proxy.app.ledger.bodies.free < free[1]
        await until(lambda: free == (proxy.app.ledger.connections.free, proxy.app.ledger.bodies.free))
