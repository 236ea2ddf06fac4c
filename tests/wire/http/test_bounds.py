"""How much, how slowly and in what numbers a client may send, whoever it is: before any of it reaches the application."""

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from proxy.testing import completion, hang, reply, stream, streamed
from proxy.wire.http import bounds as http_bounds
from tests.conftest import CHAT, Running, Start

BODY = json.dumps(CHAT).encode()
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def head(*more: str, length: int = len(BODY), path: str = "/v1/chat/completions") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", f"content-length: {length}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def connected(proxy: Running) -> AsyncIterator[Streams]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    yield reader, writer
    writer.close()


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        return int((await reader.readline()).split()[1])


@pytest.mark.parametrize("sizes", [[1], [4096], [9, 4096, 1], [5000, 1, 5000, 70_000, 3], [70_000, 70_000], [1] * 5000])
async def test_a_body_arrives_whole_whatever_its_pieces(sizes: list[int], start: Start) -> None:
    body = json.dumps({**CHAT, "x": "ab" * sum(sizes)}).encode()
    ends = [sum(sizes[:i]) for i in range(1, len(sizes))]
    pieces = [body[start:end] for start, end in zip([0, *ends], [*ends, len(body)], strict=True)]
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", "transfer-encoding: chunked"]
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        writer.write(b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n")
        assert 200 == await status_of(reader)
    assert [body] == [call.body for call in proxy.upstream.calls]


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /health HTTP/1.1\r\nx-a: " + b"a" * 200_000,
        b"GET /health HTTP/1.1\r\n" + b"x-a: a\r\n" * 20_000,
        b"GET /" + b"a" * 200_000,
        head("x-a: " + "a" * 70_000) + BODY,
        b"\r\n\r\n" + head("x-a: " + "a" * 70_000) + BODY,
        head(*["x-a: a"] * 300) + BODY,
    ],
    ids=["a value without end", "headers without end", "a line without end", "too large", "blank lines before", "too many"],
)
async def test_headers_have_a_bound(sent: bytes, start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(sent)
        assert 431 == await status_of(reader)
        assert 200 == (await proxy.get("/health")).status
    assert [] == proxy.upstream.calls


async def test_headers_that_drip_in_cost_no_memory_and_no_square_of_time(start: Start) -> None:
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()

    async def drip(writer: asyncio.StreamWriter) -> None:
        for _ in range(4_000):
            writer.write(b"a" * 16_384)
            await writer.drain()
            await asyncio.sleep(0)

    async with start() as proxy, connected(proxy) as (_, writer):
        writer.write(b"GET /health HTTP/1.1\r\nx-a: ")
        with pytest.raises((ConnectionError, OSError)):
            await drip(writer)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 20_000  # KiB, of 64 MiB sent
    assert time.process_time() - started < 5


CHUNKED = b"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"0\r\n" + (b"x: " + b"a" * 4_000 + b"\r\n") * 100, b"0\r\nx: " + b"a" * 400_000, b"2;x=" + b"a" * 400_000],
    ids=["trailers without end", "a trailer without end", "a chunk extension without end"],
)
async def test_what_stands_behind_the_headers_and_is_no_body_has_a_bound(sent: bytes, start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(CHUNKED + sent)
        assert 431 == await status_of(reader)
        assert 200 == (await proxy.get("/health")).status


async def test_trailers_are_no_headers_of_the_request(start: Start) -> None:
    trailers = b"x-groundwire-policy: other\r\nauthorization: Bearer b\r\nx-forwarded-for: 127.0.0.1\r\nx-other: 1\r\n"
    async with start(api_key="forward") as proxy, connected(proxy) as (reader, writer):
        writer.write(CHUNKED.replace(b"transfer", b"authorization: Bearer a\r\ntransfer") + b"0\r\n" + trailers + b"\r\n")
        assert 200 == await status_of(reader)
        sent = proxy.upstream.calls[0].headers
    assert ("Bearer a", None, None) == (sent["authorization"], sent.get("x-forwarded-for"), sent.get("x-other"))


async def test_a_large_body_right_behind_its_headers_is_none_of_them(start: Start) -> None:
    large = json.dumps({**CHAT, "user": "u" * 300_000}).encode()
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(head("x-a: " + "a" * 60_000, length=len(large)) + large)
        assert 200 == await status_of(reader)
    assert large == proxy.upstream.calls[0].body


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: ", head(length=50_000) + b"{"], ids=["nothing", "part", "body"]
)
async def test_who_does_not_go_on_is_let_go(sent: bytes, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_bounds, "HEADERS_S", 0.05)
    monkeypatch.setattr(http_bounds, "BODY_STALL_S", 0.05)
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(sent)
        assert 408 == await status_of(reader)


async def test_a_slow_answer_is_not_a_slow_request(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_bounds, "HEADERS_S", 0.05)
    monkeypatch.setattr(http_bounds, "BODY_STALL_S", 0.05)

    async def slow(writer: asyncio.StreamWriter, call: object) -> None:
        await asyncio.sleep(0.2)
        await reply(completion())(writer, call)  # type: ignore[arg-type]

    async with start(slow) as proxy, connected(proxy) as (reader, writer):
        writer.write(head() + BODY + b"POST /v1")  # the beginning of another
        assert 200 == await status_of(reader)


async def test_past_the_most_connections_only_questions_after_its_health_are_answered(start: Start) -> None:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(hang, config="server: {max_connections: 3, party_share: 1}"))
        for _ in range(3):
            (await stack.enter_async_context(connected(proxy)))[1].write(head() + BODY)
        while len(proxy.upstream.calls) < 3:
            await asyncio.sleep(0.002)
        async with connected(proxy) as (reader, writer):
            writer.write(head() + BODY)
            assert 503 == await status_of(reader)
        async with connected(proxy) as (reader, writer):
            writer.write(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert 200 == await status_of(reader)


async def test_past_the_reserve_a_connection_is_refused_at_once(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_bounds, "HEALTH_CONNECTIONS", 0)
    async with start(hang, config="server: {max_connections: 1, party_share: 1}") as proxy, connected(proxy) as (_, first):
        first.write(head() + BODY)
        while not proxy.upstream.calls:
            await asyncio.sleep(0.002)
        async with connected(proxy) as (reader, _):
            assert 503 == await status_of(reader)


async def test_a_client_of_messages_is_refused_in_its_own_envelope(start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n" + b"".join(b"x-%d: 1\r\n" % i for i in range(300)) + b"\r\n")
        sent = await reader.read()
    error = json.loads(sent.partition(b"\r\n\r\n")[2])
    assert ("error", "request_too_large") == (error["type"], error["error"]["type"])


@pytest.mark.parametrize("connection", ["", "connection: keep-alive\r\n"])
async def test_a_client_of_http_1_0_gets_a_stream_without_chunks(connection: str, start: Start) -> None:
    body = json.dumps({**CHAT, "stream": True}).encode()
    request = f"POST /v1/chat/completions HTTP/1.0\r\nhost: 127.0.0.1\r\n{connection}content-length: {len(body)}\r\n\r\n".encode()
    async with start(stream(streamed(["Hello ", "there."]))) as proxy, connected(proxy) as (reader, writer):
        writer.write(request + body)
        async with asyncio.timeout(10):
            answer = await reader.read()
    headers, _, rest = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in headers.lower()
    assert rest.startswith(b"data: {")
    assert rest.endswith(b"data: [DONE]\n\n")


async def test_a_client_of_http_1_0_gets_a_whole_answer_with_its_length(start: Start) -> None:
    request = f"POST /v1/chat/completions HTTP/1.0\r\nhost: 127.0.0.1\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(request + BODY)
        async with asyncio.timeout(10):
            answer = await reader.read()
    headers, _, rest = answer.partition(b"\r\n\r\n")
    assert f"content-length: {len(rest)}".encode() in headers.lower()
