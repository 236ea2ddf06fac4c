"""HTTP as clients really speak it: odd, slow, many at once."""

import asyncio
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from proxy.errors import Overloaded
from proxy.ledger import Holding, Ledger
from proxy.testing import completion, hang, reply, stream, streamed
from proxy.wire.http.asgi import Departures, Responder, join_body
from tests.conftest import CHAT, Running, Start

BODY = json.dumps(CHAT).encode()
ANSWER = json.dumps(completion("Hello.")).encode()


@asynccontextmanager
async def connected(proxy: Running) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()


def request(method: str = "POST", path: str = "/v1/chat/completions", body: bytes = BODY, **headers: str) -> bytes:
    length = {"content-length": str(len(body))} if body else {}
    fields = {"host": "127.0.0.1", "content-type": "application/json", **length, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return f"{method} {path} HTTP/1.1\r\n".encode() + b"".join(f"{k}: {v}\r\n".encode() for k, v in fields.items()) + b"\r\n" + body


async def read_response(reader: asyncio.StreamReader, *, bodiless: bool = False) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = b"" if bodiless else await reader.readexactly(int(headers.get("content-length", 0)))
    return int(head[0].split(" ")[1]), headers, body


@pytest.mark.parametrize("size", [40_000, 70_000])
async def test_a_huge_header_is_answered_or_refused_and_the_process_lives(start: Start, size: int) -> None:
    async with start() as proxy:
        async with connected(proxy) as (reader, writer):
            writer.write(request(x_huge="x" * size))
            status, _, _ = await read_response(reader)
        assert (await proxy.post()).status == 200
    assert status == 200 if size < 65536 else 400 <= status < 500


async def test_a_thousand_idle_connections_hurt_nobody(start: Start) -> None:
    async with start() as proxy:
        port = int(proxy.url.rpartition(":")[2])
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(1000)]
        try:
            answers = await asyncio.gather(*(proxy.post() for _ in range(20)))
        finally:
            for _, writer in idle:
                writer.close()
    assert [200] * 20 == [answer.status for answer in answers]


async def test_a_client_that_reads_nothing_holds_up_only_itself(start: Start) -> None:
    events = streamed(["x" * 100_000] * 100)
    async with start(stream(events)) as proxy, connected(proxy) as (reader, writer):
        writer.write(request(body=json.dumps({**CHAT, "stream": True}).encode(), connection="close"))
        slow = await reader.readexactly(100)
        proxy.upstream.say(reply(completion()))
        for _ in range(5):
            assert 200 == (await proxy.post()).status
        slow += await reader.read()
    assert slow.startswith(b"HTTP/1.1 200")
    assert slow.count(b"x" * 1000) >= 100
    assert slow.endswith(b"0\r\n\r\n")


async def test_a_client_that_sends_byte_by_byte_is_served(start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        for byte in request():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        status, _, body = await read_response(reader)
    assert (200, completion()) == (status, orjson.loads(body))
    assert BODY == proxy.upstream.calls[0].body


async def test_a_client_that_leaves_in_the_middle_of_its_body_calls_nobody(start: Start) -> None:
    async with start() as proxy:
        async with connected(proxy) as (_, writer):
            writer.write(request()[:-5])
            await writer.drain()
        assert 200 == (await proxy.post()).status
    assert 1 == len(proxy.upstream.calls)


async def test_pipelined_requests_are_answered_in_their_order(start: Start) -> None:
    async with start(*(reply({"n": n}) for n in range(4))) as proxy, connected(proxy) as (reader, writer):
        writer.write(request("GET", "/v1/models/0", b"") + request() + request("GET", "/health", b"") + request())
        answers = [await _whole(reader) for _ in range(4)]
    assert [{"n": 0}, {"n": 1}, "ok", {"n": 2}] == [a.get("status", a) for a in answers]


async def _whole(reader: asyncio.StreamReader) -> dict[str, object]:
    status, _, body = await read_response(reader)
    assert 200 == status
    found: dict[str, object] = orjson.loads(body)
    return found


async def test_expect_100_continue_is_answered_before_the_body(start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(request(expect="100-continue")[: -len(BODY)])
        assert 100 == (await read_response(reader))[0]
        writer.write(BODY)
        assert 200 == (await read_response(reader))[0]
    assert BODY == proxy.upstream.calls[0].body
    assert "expect" not in proxy.upstream.calls[0].headers


async def test_a_body_in_chunks_is_put_together(start: Start) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (BODY[:7], BODY[7:8], BODY[8:])) + b"0\r\n\r\n"
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(request(body=b"", transfer_encoding="chunked") + chunks)
        status, _, _ = await read_response(reader)
    call = proxy.upstream.calls[0]
    assert (200, BODY, str(len(BODY))) == (status, call.body, call.headers["content-length"])
    assert "transfer-encoding" not in call.headers


async def test_a_body_in_chunks_past_the_limit_is_refused_before_its_end(start: Start) -> None:
    async with start(config="server: {max_body_bytes: 1000}\n") as proxy, connected(proxy) as (reader, writer):
        writer.write(request(body=b"", transfer_encoding="chunked") + b"7d0\r\n" + b"x" * 2000 + b"\r\n")
        status, _, body = await read_response(reader)
    assert (413, "request_too_large", []) == (status, orjson.loads(body)["error"]["code"], proxy.upstream.calls)


async def test_a_body_in_chunks_past_the_limit_is_refused_on_a_path_that_passes_it_on(start: Start) -> None:
    config = "server: {max_body_bytes: 1000}\n"
    async with start(hang, config=config, route_options="passthrough: [files]") as proxy, connected(proxy) as (reader, writer):
        writer.write(request(path="/v1/files", body=b"", transfer_encoding="chunked") + b"7d0\r\n" + b"x" * 2000 + b"\r\n")
        status, _, body = await read_response(reader)
    assert (413, "request_too_large") == (status, orjson.loads(body)["error"]["code"])


async def test_a_body_in_chunks_on_another_path_goes_on_whole(start: Start) -> None:
    async with start(route_options="passthrough: [files]") as proxy, connected(proxy) as (reader, writer):
        writer.write(request(path="/v1/files", body=b"", transfer_encoding="chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
        status, _, _ = await read_response(reader)
    assert (200, b"abcde") == (status, proxy.upstream.calls[0].body)


async def test_head_on_another_path_is_passed_on_and_has_no_body(start: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5\r\nx-request-id: r\r\n\r\n"

    async def bodiless(writer: asyncio.StreamWriter, call: object) -> None:
        writer.write(head)

    async with start(bodiless, reply(completion())) as proxy, connected(proxy) as (reader, writer):
        writer.write(request("HEAD", "/v1/models", b"") + request("GET", "/health", b""))
        status, headers, _ = await read_response(reader, bodiless=True)
        health, _, _ = await read_response(reader)
    assert (200, "5", "r", "skipped") == (status, headers["content-length"], headers["x-request-id"], headers["x-groundwire-verdict"])
    assert (200, "HEAD") == (health, proxy.upstream.calls[0].method)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
async def test_options_goes_to_the_upstream_which_alone_knows_its_origins(start: Start, path: str) -> None:
    answer = reply(b"", 204, {"access-control-allow-origin": "*"})
    async with start(answer, config="server: {allow_anonymous: true}\n") as proxy, connected(proxy) as (reader, writer):
        writer.write(request("OPTIONS", path, b"", origin="http://a.example"))
        status, headers, _ = await read_response(reader, bodiless=True)
    assert (204, "*") == (status, headers["access-control-allow-origin"])
    assert ("OPTIONS", "http://a.example") == (proxy.upstream.calls[0].method, proxy.upstream.calls[0].headers["origin"])


@pytest.mark.parametrize("length", ["-1", "x", "1e3"])
async def test_a_length_that_is_none_is_a_400(start: Start, length: str) -> None:
    async with start() as proxy:
        async with connected(proxy) as (reader, writer):
            writer.write(request(content_length=length, connection="close"))
            answer = await reader.read()
        assert 200 == (await proxy.post()).status
    assert answer.startswith(b"HTTP/1.1 400")


async def test_bytes_that_are_no_http_are_a_400(start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        assert 200 == (await proxy.post()).status


class _Listening(Responder):
    """Notes when it begins to listen."""

    __slots__ = ("listens",)

    def listen(self) -> None:
        self.listens = True


async def test_only_answers_that_take_a_while_are_listened_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.wire.http.asgi._WATCH_AFTER_S", 0.02)
    departures, listening = Departures(), list[_Listening]()

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    for _ in range(3):
        responder = _Listening(nothing, nothing, departures)
        responder.listens = False
        responder.watch()
        listening.append(responder)
    listening[1].unwatch()
    async with asyncio.timeout(5):
        while not (listening[0].listens and listening[2].listens):
            await asyncio.sleep(0.005)
    assert [responder.listens for responder in listening] == [True, False, True]
    later = _Listening(nothing, nothing, departures)
    later.listens = False
    later.watch()
    async with asyncio.timeout(5):
        while not later.listens:
            await asyncio.sleep(0.005)


async def test_a_body_that_has_no_room_is_not_kept_by_its_error() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(9):
            yield b"x" * 100

    ledger = Ledger(max_bodies_bytes=500)
    with pytest.raises(Overloaded) as raised:
        await join_body(pieces(), Holding(ledger))
    kept = [value for frame, _ in traceback.walk_tb(raised.tb) for value in frame.f_locals.values() if isinstance(value, list)]
    assert (0, [[]]) == (ledger.bodies.free, kept)
