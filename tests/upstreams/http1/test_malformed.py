"""Answers that are none, could be read in two ways, or never end: refused, and their connection is not used again."""

import asyncio
from collections.abc import Iterator

import pytest

from proxy.errors import UpstreamUnreachable
from tests.upstreams.http1.raw_server import OK, POST, read_request, said, saying, talking
from tests.upstreams.test_openai import opened

OK_HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK_HEAD + b"transfer-encoding: chunked\r\n\r\n"

NO_HEADS = {
    "both lengths": OK_HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "both lengths, the other way round": OK_HEAD + b"transfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "two content-lengths": OK_HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\nok!",
    "one content-length twice": OK_HEAD + b"content-length: 2\r\ncontent-length: 2\r\n\r\nok",
    "a list of content-lengths": OK_HEAD + b"content-length: 2, 2\r\n\r\nok",
    "a sign in content-length": OK_HEAD + b"content-length: +2\r\n\r\nok",
    "an empty content-length": OK_HEAD + b"content-length: \r\n\r\nok",
    "a content-length that is too large": OK_HEAD + b"content-length: 99999999999999999999\r\n\r\nok",
    "another transfer coding": OK_HEAD + b"transfer-encoding: gzip\r\n\r\nok",
    "another before chunked": OK_HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "another behind chunked": OK_HEAD + b"transfer-encoding: chunked, identity\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "chunked twice": OK_HEAD + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "nearly chunked": OK_HEAD + b"transfer-encoding: xchunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    "a folded header": OK_HEAD + b"x: a\r\n b\r\ncontent-length: 2\r\n\r\nok",
    "a folded length": OK_HEAD + b"content-length:\r\n 2\r\n\r\nok",
    "line feeds alone": b"HTTP/1.1 200 OK\ncontent-length: 2\n\nok",
    "a line feed inside": OK_HEAD + b"x: a\ncontent-length: 2\r\n\r\nok",
    "a carriage return inside": OK_HEAD + b"x: a\rcontent-length: 2\r\n\r\nok",
    "a NUL inside": OK_HEAD + b"x: a\0\r\ncontent-length: 2\r\n\r\nok",
    "a space before the colon": OK_HEAD + b"content-length : 2\r\n\r\nok",
    "a line without a colon": OK_HEAD + b"content-length\r\n\r\nok",
    "no name": OK_HEAD + b": 2\r\n\r\nok",
    "no HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "another version": b"HTTP/3.7 200 OK\r\n\r\n",
    "status 0": b"HTTP/1.1 000 OK\r\ncontent-length: 2\r\n\r\nok",
    "status 20": b"HTTP/1.1 20 OK\r\ncontent-length: 2\r\n\r\nok",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n" + OK,
    "another protocol, unnamed": b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + OK,
    "too many headers": OK_HEAD + b"x: 1\r\n" * 129 + b"\r\n",
    "too long a header": OK_HEAD + b"x: " + b"x" * 70_000 + b"\r\n\r\n",
    "too many bytes of headers": OK_HEAD + (b"x: " + b"x" * 1000 + b"\r\n") * 70 + b"\r\n",
}
NO_BODIES = {
    "a chunk size below 0": CHUNKED + b"-2\r\nok\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x2\r\nok\r\n0\r\n\r\n",
    "a chunk size that is too large": CHUNKED + b"1" + b"0" * 17 + b"\r\nok\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"2\r\nok!\r\n0\r\n\r\n",
    "a line feed behind a chunk's size": CHUNKED + b"2\nok\r\n0\r\n\r\n",
    "a length in the trailer": CHUNKED + b"2\r\nok\r\n0\r\ncontent-length: 2\r\n\r\n",
}
BEHIND = {
    "another answer": OK + b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
    "the beginning of another": OK + b"HTT",
    "no answer": OK + b"\0",
    "behind chunks": CHUNKED + b"2\r\nok\r\n0\r\n\r\nHTTP/1.1",
    "a body where none may be": b"HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\nok",
    "behind a close": OK_HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n",
}


@pytest.mark.parametrize("answer", NO_HEADS.values(), ids=NO_HEADS.keys())
async def test_a_head_that_is_none_is_refused(answer: bytes) -> None:
    async with saying(answer, OK) as server, opened(server.url) as upstream:
        with pytest.raises(UpstreamUnreachable, match="not a usable HTTP answer"):
            await upstream.send(POST)
        assert b"ok" == await said(upstream)
    assert 2 == server.connections


@pytest.mark.parametrize("answer", NO_BODIES.values(), ids=NO_BODIES.keys())
async def test_a_body_that_is_none_is_refused(answer: bytes) -> None:
    async with saying(answer, OK) as server, opened(server.url) as upstream:
        reply = await upstream.send(POST)
        with pytest.raises(UpstreamUnreachable, match="the connection broke before the answer was whole"):
            await reply.read()
        assert b"ok" == await said(upstream)
    assert 2 == server.connections


@pytest.mark.parametrize("answer", BEHIND.values(), ids=BEHIND.keys())
async def test_a_connection_with_bytes_behind_the_answer_is_not_used_again(answer: bytes) -> None:
    async with saying(answer, OK) as server, opened(server.url) as upstream:
        assert [await said(upstream), b"ok"] == [b"" if b"204" in answer else b"ok", await said(upstream)]
    assert 2 == server.connections


async def test_a_connection_on_which_something_comes_that_nobody_asked_for_is_not_used_again() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(OK)
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil")
        await reader.read()

    async with talking(talk) as server, opened(server.url) as upstream:
        await said(upstream)
        async with asyncio.timeout(1):
            await server.ended.wait()
        assert b"ok" == await said(upstream)
    assert 2 == server.connections


def _endless_header() -> Iterator[bytes]:
    yield OK_HEAD + b"x: "
    while True:
        yield b"x" * 5000


def _endless_interim() -> Iterator[bytes]:
    while True:
        yield b"HTTP/1.1 102 Processing\r\n\r\n" * 200


def _endless_extension() -> Iterator[bytes]:
    yield CHUNKED + b"2\r\nok\r\n2;"
    while True:
        yield b"x" * 5000


def _endless_trailer() -> Iterator[bytes]:
    yield CHUNKED + b"2\r\nok\r\n0\r\n"
    while True:
        yield b"x: 1\r\n" * 1000


@pytest.mark.parametrize("endless", [_endless_header, _endless_interim, _endless_extension, _endless_trailer])
async def test_what_never_comes_to_a_body_is_given_up(endless: object) -> None:
    written = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await read_request(reader)
        for piece in endless():  # type: ignore[operator]
            writer.write(piece)
            written += len(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async with talking(talk) as server, opened(server.url) as upstream:
        with pytest.raises(UpstreamUnreachable, match=r"not a usable HTTP answer|the connection broke"):
            await said(upstream)
        async with asyncio.timeout(1):
            await server.ended.wait()
    assert written < 2_000_000


async def test_a_long_stream_of_small_chunks_is_no_endless_head() -> None:
    async with (
        saying(CHUNKED + b"1;x=yyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n.\r\n" * 20_000 + b"0\r\n\r\n") as server,
        opened(server.url) as upstream,
    ):
        assert b"." * 20_000 == await said(upstream)
