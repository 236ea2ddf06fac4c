"""One client, or one address, takes all that it can of what is scarce: another one still gets its answer."""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Any

import pytest

from proxy.testing import completion, hang, reply
from tests.conftest import CHAT, Running, Start

BODY = json.dumps(CHAT).encode()
ANN, BOB = "gw-ann", "gw-bob"
KEYS = "keys: [" + ", ".join(f"{{name: {k[3:]}, sha256: {sha256(k.encode()).hexdigest()}}}" for k in (ANN, BOB)) + "]\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
own_addresses = pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of every Linux machine, and not of others")


def head(*more: str, length: int = len(BODY)) -> bytes:
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json", f"content-length: {length}", *more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


@asynccontextmanager
async def connected(proxy: Running, source: str = "127.0.0.1", receive_bytes: int = 0) -> AsyncIterator[Streams]:
    sock = socket.socket()
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    sock.bind((source, 0))
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", int(proxy.url.rpartition(":")[2])))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**10)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def status_of(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(10):
        return int((await reader.readline()).split()[1])


async def asked(streams: Streams, *more: str) -> int:
    streams[1].write(head(*more) + BODY)
    return await status_of(streams[0])


async def until(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.002)


async def endless(writer: asyncio.StreamWriter, call: object) -> None:
    """A stream that goes on as long as somebody reads it."""
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "' + b"word " * 400 + b'"}}]}\n\n'
    while True:
        writer.write(event)
        await writer.drain()


async def test_idle_connections_of_one_address_make_room_for_its_next_one(start: Start) -> None:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(config="server: {max_connections: 8}"))
        for _ in range(40):
            await stack.enter_async_context(connected(proxy))
        assert 200 == await asked(await stack.enter_async_context(connected(proxy)))
        metrics = (await proxy.get("/metrics")).body.decode()
    assert "groundwire_ledger_connection_closed_total 0.0" not in metrics


@own_addresses
async def test_busy_connections_of_one_address_leave_some_for_another(start: Start) -> None:
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(config="server: {max_connections: 8}"))
        refused = []
        for n in range(12):
            reader, writer = await stack.enter_async_context(connected(proxy))
            writer.write(head(length=len(BODY) + 1) + BODY)  # a byte is missing
            if n < 6:
                await until(lambda n=n: proxy.app.ledger.bodies.total - proxy.app.ledger.bodies.free == (n + 1) * len(BODY))
            else:
                refused.append(await status_of(reader))
        assert [503] * 6 == refused
        assert 200 == await asked(await stack.enter_async_context(connected(proxy, "127.0.0.2")))


@pytest.mark.parametrize("length", [f"content-length: {10**6}", "transfer-encoding: chunked"], ids=["length", "chunked"])
async def test_bodies_that_never_end_have_a_bound_for_all_and_for_each(length: str, start: Start) -> None:
    config = KEYS + "server: {max_body_bytes: 1000000, max_bodies_bytes: 2000000}"
    line = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {ANN}\r\n{length}\r\n\r\n".encode()
    piece = b"x" * 500_000 if "length" in length.partition(":")[0] else b"7a120\r\n" + b"x" * 500_000 + b"\r\n"
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(config=config))
        readers = []
        for _ in range(8):
            reader, writer = await stack.enter_async_context(connected(proxy))
            readers.append(asyncio.create_task(status_of(reader)))
            writer.write(line + piece)
        await until(lambda: sum(reader.done() for reader in readers) >= 4)
        assert {503} == {reader.result() for reader in readers if reader.done()}
        assert 2_000_000 > proxy.app.ledger.bodies.total - proxy.app.ledger.bodies.free > 500_000
        assert 200 == (await proxy.post(authorization=f"Bearer {BOB}")).status
        for reader in readers:
            reader.cancel()
    assert proxy.app.ledger.bodies.total == proxy.app.ledger.bodies.free


async def test_what_a_body_had_is_free_once_its_answer_is_there_or_its_client_gone(start: Start) -> None:
    async with start(reply(completion()), hang) as proxy:
        await proxy.post()
        async with connected(proxy) as (_, writer):
            writer.write(head() + BODY)
            await until(lambda: len(proxy.upstream.calls) == 2)
            assert len(BODY) == proxy.app.ledger.bodies.total - proxy.app.ledger.bodies.free
        await until(lambda: proxy.app.ledger.bodies.total == proxy.app.ledger.bodies.free)


async def test_one_clients_calls_leave_places_at_the_upstream_for_another(start: Start) -> None:
    options = "retries: {attempts: 0}, max_concurrency: 8, max_queue: 8"
    async with start(*[hang] * 6, reply(completion()), config=KEYS, upstream_options=options) as proxy:
        calls = [asyncio.create_task(proxy.post(authorization=f"Bearer {ANN}")) for _ in range(14)]
        await until(lambda: len(proxy.upstream.calls) == 6 and sum(call.done() for call in calls) == 2)
        assert [503, 503] == [call.result().status for call in calls if call.done()]
        assert 200 == (await proxy.post(authorization=f"Bearer {BOB}")).status
        for call in calls:
            call.cancel()


async def test_a_call_does_not_wait_for_a_place_for_ever(start: Start) -> None:
    options = "retries: {attempts: 0}, max_concurrency: 1, timeouts: {queue_s: 0.05}"
    async with start(hang, upstream_options=options) as proxy:
        first = asyncio.create_task(proxy.post())
        await until(lambda: proxy.upstream.calls)
        answer = await proxy.post()
        first.cancel()
    assert (503, "overloaded", "1") == (answer.status, answer.json["error"]["code"], answer.headers["retry-after"])


@pytest.mark.parametrize("stages", ["[]", "[claims: {}]"])
async def test_who_reads_nothing_of_an_answer_is_let_go_and_its_place_is_free(stages: str, start: Start) -> None:
    options = "retries: {attempts: 0}, max_concurrency: 1"
    config, policy = "server: {write_stall_s: 0.2}", f"name: p\ndelivery: tap\nstages: {stages}\n"
    async with start(endless, reply(completion()), config=config, policy=policy, upstream_options=options) as proxy:
        async with connected(proxy, receive_bytes=2048) as (_, writer):
            asking = json.dumps({**CHAT, "stream": True}).encode()
            writer.write(head(length=len(asking)) + asking)
            await until(lambda: proxy.upstream.calls)
            assert 200 == (await proxy.post()).status
        metrics = (await proxy.get("/metrics")).body.decode()
    assert "groundwire_ledger_reader_stalled_total 1.0" in metrics


async def test_who_reads_slowly_gets_all_of_its_answer(start: Start) -> None:
    text = "word " * 100_000
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(reply(completion(text)), config="server: {write_stall_s: 0.1}"))
        reader, writer = await stack.enter_async_context(connected(proxy, receive_bytes=2048))
        writer.write(head() + BODY)
        size, loop = 0, asyncio.get_running_loop()
        began = loop.time()
        while size < len(text):
            size += len(await reader.read(2**16))
            await asyncio.sleep(0.004)
    assert loop.time() - began > 0.1  # as long as it may stand still


async def test_who_never_reads_the_end_of_an_answer_is_let_go(start: Start) -> None:
    text = "word " * 2_000_000
    async with AsyncExitStack() as stack:
        proxy = await stack.enter_async_context(start(reply(completion(text)), config="server: {write_stall_s: 0.1}"))
        _, writer = await stack.enter_async_context(connected(proxy, receive_bytes=2048))
        writer.write(head("connection: close") + BODY)
        await until(lambda: proxy.upstream.calls)
        await until(lambda: proxy.app.ledger.connections.free < proxy.app.ledger.connections.total)
        await until(lambda: proxy.app.ledger.connections.free == proxy.app.ledger.connections.total)


async def test_wrong_admin_keys_wait_as_bearer_and_as_form_alike_and_the_right_one_never(start: Start) -> None:
    async with start(config="server: {admin_key: right-key-of-the-operator}") as proxy:
        wrong = [(await proxy.get("/groundwire/v1/records", authorization=f"Bearer wrong-{n}")).status for n in range(300)]
        form = await proxy.request("POST", "/dashboard/sign-in", b"key=wrong")
        right = await proxy.get("/groundwire/v1/records", authorization="Bearer right-key-of-the-operator")
        nothing = await proxy.get("/groundwire/v1/records")
    assert ([401] * 5 + [429] * 295, 200, 401) == (wrong, right.status, nothing.status)
    assert form.status in (400, 429)


async def test_wrong_client_keys_wait_and_right_ones_never(start: Start) -> None:
    async with start(config=KEYS) as proxy:
        wrong = [(await proxy.post(authorization=f"Bearer gw-wrong-{n}")) for n in range(40)]
        right = await proxy.post(authorization=f"Bearer {ANN}")
    assert ([401] * 30 + [429] * 10, 200) == ([answer.status for answer in wrong], right.status)
    assert "rate_limited" == wrong[-1].json["error"]["code"]
    assert wrong[-1].headers["retry-after"].isdecimal()
