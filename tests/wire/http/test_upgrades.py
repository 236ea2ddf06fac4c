"""What a WebSocket's client may send, and how slowly, whoever it is: frames by hand, on a real connection."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from typing import Any

import pytest

from proxy.server import sockets
from proxy.testing import completion, reply, stream
from proxy.wire.http import upgrades
from tests.conftest import CHAT, Running, Start
from tests.responses_api import events, text_item
from tests.wire.http.test_bounds import Streams, connected, status_of

KEY = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
HANDSHAKE = ("connection: Upgrade", "upgrade: websocket", "sec-websocket-version: 13", KEY)
MESSAGE = json.dumps({"type": "response.create", "model": "gpt-5", "input": "Hi"}).encode()
TEXT, CONT, CLOSE, PING, PONG = 1, 0, 8, 9, 10


def head(*more: str, method: str = "GET", path: str = "/v1/responses", version: str = "1.1") -> bytes:
    return ("\r\n".join([f"{method} {path} HTTP/{version}", "host: 127.0.0.1", *HANDSHAKE, *more]) + "\r\n\r\n").encode()


def frame(kind: int, payload: bytes, *, fin: bool = True, length: int | None = None) -> bytes:
    size, mask = len(payload) if length is None else length, os.urandom(4)
    begin = bytes([(0x80 if fin else 0) | kind]) + (bytes([0x80 | size]) if size < 126 else b"\xff" + struct.pack("!Q", size))
    return begin + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    async with asyncio.timeout(10):
        kind, size = await reader.readexactly(2)
        if size == 126:
            (size,) = struct.unpack("!H", await reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await reader.readexactly(8))
        return kind & 15, await reader.readexactly(size)


async def open_socket(streams: Streams) -> None:
    reader, writer = streams
    writer.write(head())
    assert 101 == await status_of(reader)
    async with asyncio.timeout(10):
        await reader.readuntil(b"\r\n\r\n")


async def close_code(reader: asyncio.StreamReader) -> int:
    while (got := await read_frame(reader))[0] != CLOSE:
        pass
    return int(struct.unpack("!H", got[1][:2])[0])


async def completes(streams: Streams) -> bool:
    while b"response.completed" not in (await read_frame(streams[0]))[1]:
        pass
    return True


HELLO = events(text_item("Hello there."))


@pytest.mark.parametrize("cuts", [[1], [2, 7, 30], list(range(1, 60))], ids=str)
async def test_a_message_arrives_whole_whatever_its_frames_and_pieces(cuts: list[int], start: Start) -> None:
    parts = [MESSAGE[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(MESSAGE)], strict=True)]
    frames = [frame(TEXT if i == 0 else CONT, part, fin=i == len(parts) - 1) for i, part in enumerate(parts)]
    frames.insert(1, frame(PING, b"between"))
    async with start(stream(HELLO)) as proxy, connected(proxy) as streams:
        await open_socket(streams)
        for byte in b"".join(frames):
            streams[1].write(bytes([byte]))
            await streams[1].drain()
        assert (PONG, b"between") == await read_frame(streams[0])
        assert await completes(streams)
    assert "Hi" == proxy.upstream.calls[0].json["input"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head(method="POST"), 426),
        (head("content-length: 2") + b"{}", 426),
        (head("x-a: " + "a" * 9000), 426),
        (head(*["x-a: a"] * 150), 426),
        (head(version="1.0"), 426),
        (head().replace(b"version: 13", b"version: 8"), 400),
        (head().replace(KEY.encode(), b"x-a: a"), 400),
        (head(path="/v1/responses/"), 400),
        (head(path="//v1/responses"), 404),
        (head().replace(b"upgrade: websocket", b"upgrade: h2c"), 404),
    ],
    ids=["post", "body", "long header", "many headers", "1.0", "version", "no key", "slash", "two slashes", "h2c"],
)
async def test_what_is_no_handshake_gets_an_answer_over_http(sent: bytes, status: int, start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(sent)
        assert status == await status_of(reader)
    assert [] == proxy.upstream.calls


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [1, 100, 10_000])
async def test_who_asks_for_http_2_on_the_way_is_answered_over_http_1(size: int, chunked: bool, start: Start) -> None:
    """As Java's own client does with each first request."""
    body = json.dumps(CHAT).encode()
    asks = ["connection: Upgrade, HTTP2-Settings", "http2-settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA", "upgrade: h2c"]
    length = "transfer-encoding: chunked" if chunked else f"content-length: {len(body)}"
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", *asks, length, "content-type: application/json"]
    sent = ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body)
    async with start(reply(completion()), reply(completion())) as proxy, connected(proxy) as (reader, writer):
        for _ in range(2):  # the connection goes on
            for begin in range(0, len(sent), size):
                writer.write(sent[begin : begin + size])
                await writer.drain()
            assert 200 == await status_of(reader)
            headers = (await reader.readuntil(b"\r\n\r\n")).decode()
            await reader.readexactly(int(headers.partition("content-length: ")[2].partition("\r\n")[0]))
    assert [body, body] == [call.body for call in proxy.upstream.calls]
    assert not {"upgrade", "http2-settings"} & {name for call in proxy.upstream.calls for name in call.headers}


async def test_a_handshake_of_odd_bytes_leaves_nothing_behind(start: Start) -> None:
    async with start() as proxy, connected(proxy) as (reader, writer):
        writer.write(head("x\x7fa: a"))
        async with asyncio.timeout(10):
            assert b"101" not in await reader.read()
        await free(proxy)


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"x")[:1] + b"\x01x", 1002),
        (bytes([0xF1, 0x80, 0, 0, 0, 0]), 1002),
        (frame(TEXT, b"", length=2**40), 1009),
        (frame(2, b"{}"), 1003),
        (frame(CLOSE, struct.pack("!H", 1000)), 1000),
    ],
    ids=["no utf-8", "no mask", "reserved bits", "too large", "binary", "goodbye"],
)
async def test_what_breaks_the_protocol_ends_the_connection_with_its_code(sent: bytes, code: int, start: Start) -> None:
    async with start() as proxy, connected(proxy) as streams:
        await open_socket(streams)
        streams[1].write(sent)
        assert code == await close_code(streams[0])
        await free(proxy)


async def test_a_message_that_comes_too_slowly_ends_the_connection(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(upgrades, "BODY_STALL_S", 0.05)
    async with start() as proxy, connected(proxy) as streams:
        await open_socket(streams)
        streams[1].write(frame(TEXT, b"{", length=1000))
        assert 1008 == await close_code(streams[0])
        await free(proxy)
    assert "127.0.0.1: its WebSocket is closed: less than 8192 bytes of a message" in caplog.text


async def test_who_sends_nothing_between_messages_may_stay(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrades, "BODY_STALL_S", 0.01)
    async with start(stream(HELLO)) as proxy, connected(proxy) as streams:
        await open_socket(streams)
        for _ in range(2):
            await asyncio.sleep(0.05)
            streams[1].write(frame(TEXT, MESSAGE))
            assert await completes(streams)


async def test_messages_that_are_not_whole_take_room(start: Start) -> None:
    async with start() as proxy, connected(proxy) as streams:
        proxy.app.ledger.bodies.total = proxy.app.ledger.bodies.free = 10_000
        await open_socket(streams)
        streams[1].write(frame(TEXT, b"x" * 9_000, length=12_000))
        async with asyncio.timeout(10):
            while proxy.app.ledger.bodies.free > 1_000:
                await asyncio.sleep(0.002)
        streams[1].write(b"x" * 2_000)
        assert 1013 == await close_code(streams[0])
        await free(proxy)
        assert 10_000 == proxy.app.ledger.bodies.free


async def test_a_reader_that_reads_nothing_is_let_go(start: Start) -> None:
    many = events(text_item("word " * 400_000))
    async with start(stream(many), config="server: {write_stall_s: 0.2}\n") as proxy, connected(proxy) as streams:
        await open_socket(streams)
        streams[1].write(frame(TEXT, MESSAGE))
        await asyncio.sleep(0)
        await free(proxy)
        assert b"groundwire_ledger_reader_stalled_total 1.0" in (await proxy.get("/metrics")).body


async def test_an_idle_connection_makes_room_for_another(start: Start) -> None:
    async with start(stream(HELLO), config="server: {max_connections: 2, party_share: 0.5}\n") as proxy, connected(proxy) as first:
        await open_socket(first)
        first[1].write(frame(TEXT, MESSAGE))
        assert await completes(first)
        async with connected(proxy) as second:
            second[1].write(b"GET /v1/models HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            assert 200 == await status_of(second[0])
            async with asyncio.timeout(10):
                assert b"" == await first[0].read()


async def free(proxy: Running) -> None:
    """Wait until the connection's place is."""
    async with asyncio.timeout(10):
        while proxy.app.ledger.connections.free < proxy.app.ledger.connections.total:
            await asyncio.sleep(0.002)


async def test_http_goes_on_beside_it(start: Start) -> None:
    async with start(reply(completion())) as proxy, connected(proxy) as streams:
        await open_socket(streams)
        assert 200 == (await proxy.post()).status


@pytest.mark.parametrize("sent", [MESSAGE, b"no json"], ids=["message", "no message"])
@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "breaks the protocol"])
async def test_who_goes_while_a_message_is_read_leaves_nothing_behind(
    sent: bytes, leaves: bool, start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reads, on = asyncio.Event(), asyncio.Event()
    remembered = frame(TEXT, MESSAGE.replace(b"{", b'{"store": false,', 1))
    async with start(stream(HELLO), stream(HELLO)) as proxy, connected(proxy) as streams:
        whole = proxy.app.ledger.bodies.free
        await open_socket(streams)
        streams[1].write(remembered)
        assert await completes(streams)

        async def slowly(size: int, work: Any, *given: Any) -> Any:
            reads.set()
            await on.wait()
            return work(*given)

        monkeypatch.setattr(sockets, "run_in_thread_if_large", slowly)
        streams[1].write(frame(TEXT, sent))
        await reads.wait()
        if leaves:
            streams[1].transport.abort()
        else:
            streams[1].write(bytes([0xF1, 0x80, 0, 0, 0, 0]))
            assert 1002 == await close_code(streams[0])
        await free(proxy)
        on.set()
        async with asyncio.timeout(10):
            while proxy.app.ledger.bodies.free < whole:
                await asyncio.sleep(0.002)
        assert 0 == proxy.app.ledger.connections.total - proxy.app.ledger.connections.free
        assert 1 == len(proxy.upstream.calls)
    assert "Exception" not in caplog.text


async def test_what_is_said_behind_the_server_s_own_end_is_no_failure(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As while what has been said before has not left yet, and the connection is not over."""
    reads, on, over = asyncio.Event(), asyncio.Event(), list[Any]()
    lost = upgrades.BoundedSocket.connection_lost
    monkeypatch.setattr(upgrades.BoundedSocket, "connection_lost", lambda *given: over.append(given))

    async def slowly(size: int, work: Any, *given: Any) -> Any:
        reads.set()
        await on.wait()
        return work(*given)

    async with start(stream(HELLO)) as proxy, connected(proxy) as streams:
        whole = proxy.app.ledger.bodies.free
        await open_socket(streams)
        streams[1].write(frame(TEXT, MESSAGE.replace(b"{", b'{"store": false,', 1)))
        assert await completes(streams)
        monkeypatch.setattr(sockets, "run_in_thread_if_large", slowly)
        streams[1].write(frame(TEXT, b"no json"))
        await reads.wait()
        streams[1].write(bytes([0xF1, 0x80, 0, 0, 0, 0]))
        assert 1002 == await close_code(streams[0])
        on.set()
        async with asyncio.timeout(10):
            while proxy.app.ledger.bodies.free < whole:
                await asyncio.sleep(0.002)
        assert "Exception" not in caplog.text
        for given in over:
            lost(*given)


async def test_small_pieces_of_a_large_message_are_not_copied_each_time(start: Start) -> None:
    """8 MB and then 20,000 frames of one byte: copied each time that were 160 GB, which takes tens of seconds."""
    text = MESSAGE + b" " * 8_000_000
    async with start(stream(HELLO)) as proxy, connected(proxy) as streams:
        await open_socket(streams)
        streams[1].write(frame(TEXT, b"", fin=False) + masked(text, fin=False) + frame(CONT, b" ", fin=False) * 20_000 + frame(CONT, b""))
        assert await completes(streams)


def masked(payload: bytes, *, fin: bool) -> bytes:
    """A frame whose mask leaves everything as it is."""
    return bytes([(0x80 if fin else 0) | CONT]) + b"\xff" + struct.pack("!Q", len(payload)) + bytes(4) + payload
