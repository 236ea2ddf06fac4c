"""Connections of the HTTP client: kept or not, limits, bodies that wait for the other side, addresses, TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import groundwire_http1 as http1
import pytest
from groundwire_http1.pool import turned

from proxy.config.settings import Timeouts
from proxy.errors import UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call
from tests.upstreams.http1.raw_server import GET, OK, POST, read_request, said, saying, talking
from tests.upstreams.test_openai import opened

CERTIFICATE = Path(__file__).parents[2] / "data" / "tls" / "localhost.pem"
LIMITS = http1.Limits(5.0, 5.0, 5.0)


async def connected(url: str, limits: http1.Limits = LIMITS, **options: object) -> tuple[http1.Pool, http1.Connection]:
    pool = http1.Pool(http1.Origin(url), limits, **options)  # type: ignore[arg-type]
    return pool, await pool.connect()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def test_a_connection_that_is_silent_for_long_stays_known_to_what_lies_between() -> None:
    async with saying(OK) as server:
        pool, connection = await connected(server.url)
        sock = connection._transport.get_extra_info("socket")
        assert 1 == sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert 60 == sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        await pool.close()


# ---- kept connections ----


async def test_a_connection_that_was_kept_too_long_is_closed() -> None:
    async with saying(OK) as server:
        pool, connection = await connected(server.url, http1.Limits(5.0, 5.0, 5.0, idle_s=0.05))
        await connection.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None, 5.0)
        assert b"ok" == connection.take()
        connection.release()
        async with asyncio.timeout(2):
            await server.ended.wait()
        assert pool.kept() is None
        await pool.close()


async def test_a_connection_is_kept_no_longer_than_its_server_says() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=9\r\ncontent-length: 0\r\n\r\n") as server:
        pool, connection = await connected(server.url)
        await connection.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None, 5.0)
        connection.release()
        now = asyncio.get_running_loop().time()
        assert (True, False) == (connection.fresh(now + 7.5), connection.fresh(now + 8.5))
        await pool.close()


async def test_a_connection_that_was_closed_before_it_was_asked_says_so() -> None:
    async def shut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return

    async with talking(shut) as server:
        _, connection = await connected(server.url)
        await server.ended.wait()
        await asyncio.sleep(0.02)
        with pytest.raises(http1.Closed):
            await connection.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None, 5.0)


async def test_a_connection_that_its_server_closed_meanwhile_is_not_used() -> None:
    async with saying(OK, close=True) as server, opened(server.url) as upstream:
        await said(upstream)
        await server.ended.wait()
        await asyncio.sleep(0.02)
        assert b"ok" == await said(upstream)
    assert 2 == server.connections


@pytest.mark.parametrize(("call", "error"), [(GET, None), (POST, "the connection was closed before an answer")])
async def test_what_may_be_repeated_is_sent_again_when_a_kept_connection_was_stale(call: Call, error: str | None) -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await reader.read(1)  # the next request is on its way

    async with talking(once) as server, opened(server.url) as upstream:
        await said(upstream)
        if error is None:
            assert b"ok" == await said(upstream, call)
        else:
            with pytest.raises(UpstreamUnreachable, match=error):
                await said(upstream, call)
    assert (1 if error else 2) == server.connections


async def test_what_was_answered_in_part_is_not_sent_again() -> None:
    async with saying(OK, b"HTTP/1.1 20") as server, opened(server.url, timeouts=Timeouts(first_byte_s=5)) as upstream:
        await said(upstream)
        answering = asyncio.create_task(said(upstream, GET))
        while server.received.count(b"HTTP/1.1") < 2:
            await asyncio.sleep(0.001)
        server.hang_up()
        with pytest.raises(UpstreamUnreachable, match="the connection was closed before an answer"):
            await answering
    assert 1 == server.connections


async def test_a_post_that_is_read_and_dropped_is_not_sent_over_one_kept_connection_after_the_other() -> None:
    """Of a kept connection nobody knows whether its server closed it before the request; of a new one everybody does."""
    together, dropping, dropped = asyncio.Barrier(3), False, 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dropped
        while await read_request(reader):
            if dropping:
                dropped += 1
                return
            await together.wait()
            writer.write(OK)

    async with talking(talk) as server, opened(server.url) as upstream:
        await asyncio.gather(*(said(upstream) for _ in range(3)))
        dropping = True
        ends = []
        while not ends or ends[-1]:
            with pytest.raises(UpstreamUnreachable) as raised:
                await said(upstream)
            ends.append(raised.value.repeatable)
    assert ([True, False], 2, 4) == (ends, dropped, server.connections)


async def test_a_new_connection_that_is_closed_is_not_tried_again() -> None:
    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)

    async with talking(never) as server, opened(server.url) as upstream:
        with pytest.raises(UpstreamUnreachable, match="the connection was closed before an answer"):
            await said(upstream, GET)
    assert 1 == server.connections


async def test_stopping_ends_a_call_that_waits() -> None:
    asked = asyncio.Event()

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()

    async with talking(listens) as server, opened(server.url) as upstream:
        waiting = asyncio.create_task(upstream.send(POST))
        await asked.wait()  # a connection that the server has seen may still be opening on this side
        await upstream.stop()
        with pytest.raises(UpstreamUnreachable, match="the connection was closed before an answer"):
            await waiting


async def test_a_call_that_is_cancelled_drops_its_connection() -> None:
    async with talking(_silent) as server, opened(server.url) as upstream:
        waiting = asyncio.create_task(upstream.send(POST))
        while not server.connections:
            await asyncio.sleep(0.001)
        waiting.cancel()
        async with asyncio.timeout(1):
            await server.ended.wait()


# ---- limits ----


async def test_a_head_that_drips_ends_at_the_total_time() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            writer.write(b"x")
            await asyncio.sleep(0.01)

    async with talking(drip) as server, opened(server.url, timeouts=Timeouts(total_s=0.2)) as upstream:
        with pytest.raises(UpstreamTimeout, match="not whole within its total time"):
            await upstream.send(POST)


async def test_a_server_that_does_not_read_a_large_body_is_not_waited_for_forever() -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with talking(deaf, limit=2**10) as server, opened(server.url, timeouts=Timeouts(first_byte_s=0.2)) as upstream:
        with pytest.raises(UpstreamTimeout, match=r"no first byte within 0\.2 s"):
            await upstream.send(Call("POST", "/files", (), b"x" * 40_000_000))


# ---- bodies ----


async def test_a_body_is_not_taken_faster_than_its_server_reads_it() -> None:
    given = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(600):
            given += 1
            yield b"x" * 100_000

    go_on = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        got = 0
        while got < 60_000_000:
            got += len(await reader.read(2**20))
        writer.write(OK)

    async with talking(late, limit=2**10) as server, opened(server.url) as upstream:
        sending = asyncio.create_task(said(upstream, Call("POST", "/files", (("content-length", "60000000"),), pieces(), raw=True)))
        before = -1
        while given != before:
            before = given
            await asyncio.sleep(0.1)
        assert 0 < given < 600
        go_on.set()
        assert b"ok" == await sending
    assert 600 == given


async def test_an_answer_is_not_read_faster_than_its_reader_takes_it() -> None:
    sent = 0

    async def plenty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 60000000\r\n\r\n")
        for _ in range(600):
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 1
        await reader.read()

    async with talking(plenty) as server, opened(server.url) as upstream:
        answer = await upstream.send(POST)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.1)
        assert 0 < sent < 600
        assert 60_000_000 == sum([len(piece) async for piece in answer.chunks()])
        await answer.close()


async def test_after_a_readers_pause_the_servers_time_counts_again() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n" + b"x" * 3_000_000)
        await reader.read()

    async with talking(half) as server, opened(server.url, timeouts=Timeouts(between_chunks_s=0.1)) as upstream:
        answer = await upstream.send(POST)
        await asyncio.sleep(0.2)
        with pytest.raises(UpstreamTimeout, match=r"no further byte within 0\.1 s"):
            await answer.read()


@pytest.mark.parametrize("large", [False, True])
async def test_an_answer_that_comes_before_the_body_was_sent_ends_the_sending(large: bool) -> None:
    ended = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            yield b"abc"
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await asyncio.sleep(0.5)

    async with talking(early, limit=2**10) as server, opened(server.url) as upstream:
        for _ in range(2):
            answer = await upstream.send(Call("POST", "/files", (), b"x" * 40_000_000 if large else pieces(), raw=True))
            assert (413, b"no") == (answer.status, await answer.read())
            await answer.close()
        if not large:
            await ended.wait()
    assert 2 == server.connections


@pytest.mark.parametrize(("length", "error"), [("2", "longer than its content-length"), ("4", "shorter"), ("x", "longer")])
async def test_a_body_of_another_length_than_was_said_is_an_error(length: str, error: str) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"abc"

    async with saying(OK) as server, opened(server.url) as upstream:
        with pytest.raises(UpstreamUnreachable, match=error):
            await upstream.send(Call("POST", "/files", (("content-length", length),), pieces(), raw=True))
        assert b"ok" == await said(upstream)


async def test_what_goes_wrong_in_a_bodys_source_is_raised_as_it_is() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"abc"
        raise LookupError("gone")

    async with talking(_silent) as server, opened(server.url) as upstream:
        async with aclosing(pieces()) as body:
            with pytest.raises(LookupError, match="gone"):
                await upstream.send(Call("POST", "/files", (), body, raw=True))
        async with asyncio.timeout(1):
            await server.ended.wait()


# ---- connecting ----


async def test_an_address_in_brackets() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert f"\r\nHost: {server.url[7:-3]}\r\n".encode() in await read_request(reader)
        writer.write(OK)

    try:
        async with talking(talk, "::1") as server, opened(server.url) as upstream:
            assert b"ok" == await said(upstream)
    except OSError:
        pytest.skip("no IPv6 here")


async def test_the_next_address_is_tried_when_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    async def both(self: http1.Pool, host: str, port: int) -> list[object]:
        nonlocal asked
        asked += 1
        found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", port, type=1)
        return [(*found[0][:4], ("127.0.0.1", 1)), *found]

    monkeypatch.setattr(http1.Pool, "_look_up", both)
    async with saying(OK) as server, opened(server.url) as upstream:
        assert [b"ok"] * 3 == await asyncio.gather(*(said(upstream) for _ in range(3)))
    assert 1 == asked


def test_each_connection_begins_with_another_address_of_each_family() -> None:
    six, four = [(10, "a"), (10, "b")], [(2, "c"), (2, "d"), (2, "e")]
    assert [six + four, [*six[::-1], *four[1:], four[0]], [*six, four[2], *four[:2]]] == [turned(six + four, by) for by in range(3)]


async def test_servers_behind_one_name_share_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    async with saying(OK, close=True) as one, saying(OK, close=True) as other:

        async def both(self: http1.Pool, host: str, port: int) -> list[object]:
            found = await asyncio.get_running_loop().getaddrinfo("127.0.0.1", port, type=1)
            return [(*found[0][:4], ("127.0.0.1", int(server.url.split(":")[2].removesuffix("/v1")))) for server in (one, other)]

        monkeypatch.setattr(http1.Pool, "_look_up", both)
        async with opened("http://many.test/v1", headers={"connection": "close"}) as upstream:
            for _ in range(6):
                assert b"ok" == await said(upstream)
    assert (3, 3) == (one.connections, other.connections)


async def test_a_change_of_dns_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By new connections, and by all of them once those of before are old."""
    async with saying(OK) as before, saying(OK) as after:
        now = before

        async def there(self: http1.Pool, host: str, port: int) -> list[object]:
            return list(await asyncio.get_running_loop().getaddrinfo("127.0.0.1", now.url.split(":")[2].removesuffix("/v1"), type=1))

        monkeypatch.setattr(http1.Pool, "_look_up", there)
        monkeypatch.setattr("groundwire_http1.pool._ADDRESSES_S", 0.0)
        pool = http1.Pool(http1.Origin("http://moved.test/v1"), http1.Limits(5.0, 5.0, 5.0, max_age_s=0.2))

        async def ask() -> None:
            connection = pool.kept() or await pool.connect()
            await connection.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None, 5.0)
            assert b"ok" == connection.take()
            connection.release()

        await ask()
        await ask()
        now = after
        await asyncio.sleep(0.25)
        await ask()
        assert (1, 1) == (before.connections, after.connections)
        await pool.close()


def _server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


async def test_a_certificate_that_is_trusted_and_of_that_name() -> None:
    names: list[str] = []
    tls = _server_tls()
    tls.sni_callback = lambda _socket, name, _context: names.append(name)
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3000000\r\n\r\n" + b"x" * 3_000_000)

    async with talking(talk, ssl=tls) as server:
        pool, connection = await connected(server.url.replace("http://127.0.0.1", "https://localhost"), tls=trusting)
        for _ in range(2):
            await connection.ask(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n", b"y" * 3_000_000, None, 5.0)
            size = 0
            while piece := await connection.piece():
                size += len(piece)
            assert 3_000_000 == size
            connection.release()
            assert connection is pool.kept()
        await pool.close()
        with pytest.raises(http1.NotConnected, match=r"CERTIFICATE_VERIFY_FAILED.*not valid for '127\.0\.0\.1'"):
            await connected(server.url.replace("http://", "https://"), tls=trusting)
    assert "localhost" == names[0]


async def test_a_certificate_that_nobody_signed_is_refused() -> None:
    async with (
        talking(_silent, ssl=_server_tls()) as server,
        opened(server.url.replace("http://127.0.0.1", "https://localhost")) as upstream,
    ):
        with pytest.raises(UpstreamUnreachable, match=r"cannot connect: .*CERTIFICATE_VERIFY_FAILED"):
            await upstream.send(POST)


@pytest.mark.parametrize("goodbye", [True, False])
async def test_over_tls_an_answer_without_a_length_is_whole_only_after_close_notify(goodbye: bool) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await asyncio.sleep(0.05)
        if not goodbye:  # the end of the TCP connection, as anyone on the way can make it
            with socket.socket(fileno=os.dup(writer.get_extra_info("socket").fileno())) as same:
                same.shutdown(socket.SHUT_WR)
            await asyncio.sleep(1)

    async with talking(talk, ssl=_server_tls()) as server:
        trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
        pool, connection = await connected(server.url.replace("http://127.0.0.1", "https://localhost"), tls=trusting)
        await connection.ask(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n", b"", None, 5.0)
        assert b"half of" == await connection.piece()
        if goodbye:
            assert b"" == await connection.piece()
        else:
            with pytest.raises(http1.Broken):
                await connection.piece()
        await pool.close()
