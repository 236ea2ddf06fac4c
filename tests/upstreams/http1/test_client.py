"""The HTTP client against servers that say exactly what they are told to: where an answer ends, what a request looks like."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest

from proxy.errors import ConfigError, UpstreamUnreachable
from proxy.ports.upstream import Call
from tests.upstreams.http1.raw_server import OK, POST, read_request, said, saying, talking
from tests.upstreams.test_openai import opened

# ---- framing ----


@pytest.mark.parametrize(
    ("answer", "body", "connections"),
    [
        (OK, b"ok", 1),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n1;a=b\r\no\r\n1 \r\nk\r\n0\r\nx-t: 1\r\n\r\n", b"ok", 1),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"", 1),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b"", 1),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", b"", 1),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\ncontent-encoding: br\r\ncontent-length: 0\r\n\r\n" + OK,
            b"ok",
            1,
        ),
        (b"HTTP/1.1 200\r\nkeep-alive: timeout=9\r\ncontent-length: 2\r\n\r\nok", b"ok", 1),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", b"ok", 1),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", b"ok", 2),
        (b"HTTP/1.1 200 OK\r\nconnection: Close\r\ncontent-length: 2\r\n\r\nok", b"ok", 2),
        (b"HTTP/1.1 200 OK\r\nkeep-alive: max=5, timeout=1\r\ncontent-length: 2\r\n\r\nok", b"ok", 2),
    ],
)
async def test_where_an_answer_ends_and_whether_its_connection_is_kept(answer: bytes, body: bytes, connections: int) -> None:
    async with saying(answer) as server, opened(server.url) as upstream:
        assert [body, body] == [await said(upstream), await said(upstream)]
    assert connections == server.connections


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True) as server, opened(server.url) as upstream:
        assert [b"all of it"] * 2 == [await said(upstream), await said(upstream)]
    assert 2 == server.connections


async def test_an_answer_without_a_length_is_not_whole_when_its_connection_breaks() -> None:
    async def broken(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhalf of")
        await asyncio.sleep(0.05)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, no end
        writer.transport.abort()

    async with talking(broken) as server, opened(server.url) as upstream:
        answer = await upstream.send(POST)
        chunks = answer.chunks()
        assert b"half of" == await anext(chunks)
        with pytest.raises(UpstreamUnreachable, match="the connection broke before the answer was whole"):
            await anext(chunks)


async def test_the_answer_to_head_has_no_body() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    async with saying(head) as server, opened(server.url) as upstream:
        answer = await upstream.send(Call("HEAD", "/models", (), b"", raw=True))
        assert (b"", [("content-length", "5")]) == (await answer.read(), answer.headers)
        await said(upstream, Call("HEAD", "/models", (), b"", raw=True))
    assert 2 == server.connections


async def test_headers_come_in_order_in_lower_case_without_the_space_around_them() -> None:
    answer = b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nX-B:  b \t\r\nset-cookie: \xc3\xa9\xff\r\nContent-Length: 0\r\n\r\n"
    async with saying(answer) as server, opened(server.url) as upstream:
        reply = await upstream.send(POST)
        await reply.close()
    assert [("set-cookie", "a"), ("x-b", "b"), ("set-cookie", "é\udcff"), ("content-length", "0")] == reply.headers


async def test_an_answer_that_was_not_read_leaves_nothing_for_the_next() -> None:
    async with saying(b"HTTP/1.1 500 No\r\ncontent-length: 3\r\n\r\nbad", OK) as server, opened(server.url) as upstream:
        await (await upstream.send(POST)).close()
        assert b"ok" == await said(upstream)
    assert 1 == server.connections


# ---- what is sent ----


async def test_requests_look_as_they_always_have() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"ab", b"", b"c" * 17):
            yield piece

    calls = [
        Call("GET", "/models?a=b%20c", (("accept", "*/*"), ("user-agent", "U")), b"", raw=True),
        Call("POST", "/chat/completions", (("x-a", "1"), ("x-a", "é"), ("user-agent", "U")), b"{}"),
        Call("POST", "/files", (("user-agent", "U"),), pieces(), raw=True),
        Call("POST", "/files", (("user-agent", "U"), ("content-length", "19")), pieces(), raw=True),
    ]
    async with saying(OK) as server, opened(server.url) as upstream:
        for call in calls:
            await said(upstream, call)
    host = server.url.removeprefix("http://").removesuffix("/v1").encode()
    expected = (
        b"GET /v1/models?a=b%20c HTTP/1.1\r\nHost: HOST\r\naccept: */*\r\nuser-agent: U\r\nContent-Length: 0\r\n\r\n"
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: HOST\r\nx-a: 1\r\nx-a: \xc3\xa9\r\nuser-agent: U\r\n"
        b"accept-encoding: identity\r\nContent-Length: 2\r\n\r\n{}"
        b"POST /v1/files HTTP/1.1\r\nHost: HOST\r\nuser-agent: U\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nab\r\n11\r\nccccccccccccccccc\r\n0\r\n\r\n"
        b"POST /v1/files HTTP/1.1\r\nHost: HOST\r\nuser-agent: U\r\ncontent-length: 19\r\n\r\nabccccccccccccccccc"
    ).replace(b"HOST", host)
    assert expected == bytes(server.received)
    assert 1 == server.connections


async def test_a_calls_own_framing_is_not_sent() -> None:
    headers = (("host", "evil"), ("transfer-encoding", "chunked"), ("content-length", "1"), ("expect", "100-continue"), ("user-agent", "U"))
    async with saying(OK) as server, opened(server.url) as upstream:
        await said(upstream, Call("POST", "/x", headers, b"{}", raw=True))
    host = server.url.removeprefix("http://").removesuffix("/v1").encode()
    assert b"POST /v1/x HTTP/1.1\r\nHost: " + host + b"\r\nuser-agent: U\r\nContent-Length: 2\r\n\r\n{}" == bytes(server.received)


@pytest.mark.parametrize(
    "call",
    [
        Call("POST", "/x", (("x-a", "1\r\nx-b: 2"),), b""),
        Call("POST", "/x", (("x-a", "1\n"),), b""),
        Call("POST", "/x", (("x-a", "1\r"),), b""),
        Call("POST", "/x", (("x-a", "1\0"),), b""),
        Call("POST", "/x", (("x-a: 1\r\nx-b", "2"),), b""),
        Call("POST", "/x", (("x-a", "\udc80"),), b""),
        Call("POST", "/x HTTP/1.1", (), b""),
        Call("POST /", "/x", (), b""),
    ],
)
async def test_what_would_be_another_header_or_request_is_not_sent(call: Call) -> None:
    async with saying(OK) as server, opened(server.url) as upstream:
        with pytest.raises(UpstreamUnreachable, match="the request cannot be sent"):
            await upstream.send(call)
    assert (0, b"") == (server.connections, bytes(server.received))


async def test_credentials_of_the_url_go_as_basic() -> None:
    async with saying(OK) as server:
        url = server.url.replace("http://", "http://us%20er:p%C3%A9@")
        async with opened(url) as upstream:
            await said(upstream)
        async with opened(url, api_key="sk-1") as upstream:
            with pytest.raises(UpstreamUnreachable, match="beside the credentials in base_url"):
                await said(upstream)
    assert b"\r\nAuthorization: Basic dXMgZXI6cOk=\r\n" in server.received


async def test_the_operators_host_and_close_are_kept_to() -> None:
    async with saying(OK) as server, opened(server.url, headers={"Host": "inner", "Connection": "close"}) as upstream:
        for _ in range(2):
            await said(upstream)
    assert (2, 2) == (server.connections, server.received.count(b"\r\nHost: inner\r\n"))


async def test_a_url_that_is_none_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"upstreams\.main\.base_url"):
        async with opened("http://example.com:99999/v1"):
            pass
