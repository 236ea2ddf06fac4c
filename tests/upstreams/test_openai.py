"""The raw upstream against real sockets: connections, time-outs, big bodies, encodings."""

import asyncio
import gzip
import json
import resource
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from proxy.config.settings import GeminiSettings, OpenAISettings, Retries, Timeouts
from proxy.errors import UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call, header_of
from proxy.testing import CountedNames, ReceivedCall, ScriptedUpstream, completion, hang, raw, reply, stream
from proxy.upstreams.openai import EVENTS_SLICE_BYTES, GeminiUpstream, OpenAIUpstream
from proxy.upstreams.resilience import Resilient, Slots
from tests.conftest import CHAT, Start

CALL = Call("POST", "/chat/completions", (("content-type", "application/json"),), b"{}")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
Answering = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def opened(base_url: str, **settings: object) -> AsyncIterator[OpenAIUpstream]:
    upstream = OpenAIUpstream("main", OpenAISettings(base_url=base_url, **settings))  # type: ignore[arg-type]
    await upstream.start()
    try:
        yield upstream
    finally:
        await upstream.stop()


@asynccontextmanager
async def listening(answering: Answering) -> AsyncIterator[tuple[str, list[asyncio.StreamWriter]]]:
    """A bare server; gives its address and the connections it got."""
    connections: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        try:
            await answering(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", connections


async def _read_request(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n{}")


async def said(upstream: OpenAIUpstream, call: Call = CALL) -> bytes:
    answer = await upstream.send(call)
    try:
        return await answer.read()
    finally:
        await answer.close()


# ---- connections ----


async def test_calls_one_after_the_other_share_a_connection() -> None:
    async def always(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await _read_request(reader)
            writer.write(HEAD + b"content-length: 2\r\n\r\nok")

    async with listening(always) as (url, connections), opened(url) as upstream:
        assert [b"ok"] * 5 == [await said(upstream) for _ in range(5)]
        assert 1 == len(connections)


async def test_calls_at_once_have_a_connection_each() -> None:
    all_here = asyncio.Barrier(4)

    async def together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _read_request(reader)
        await all_here.wait()
        writer.write(HEAD + b"content-length: 2\r\n\r\nok")

    async with listening(together) as (url, connections), opened(url) as upstream, asyncio.timeout(5):
        assert [b"ok"] * 4 == await asyncio.gather(*(said(upstream) for _ in range(4)))
        assert 4 == len(connections)


async def test_an_answer_that_is_not_read_to_its_end_does_not_spoil_the_next_call() -> None:
    async with (
        ScriptedUpstream(stream([b"a" * 10, b"b"], wait={1: asyncio.Event()}), reply(b"ok")) as server,
        opened(server.base_url) as upstream,
    ):
        unread = await upstream.send(CALL)
        await unread.close()
        assert b"ok" == await said(upstream)


async def test_a_kept_connection_that_went_stale_is_replaced() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers, then closes only when the next request is already on its way."""
        await _read_request(reader)
        writer.write(HEAD + b"content-length: 2\r\n\r\nok")
        await reader.read(1)

    async with listening(once) as (url, connections), opened(url) as upstream:
        resilient = Resilient(upstream, Retries(attempts=1, base_s=1e-6), Slots(8, 8), (), CountedNames())
        for _ in range(3):
            answer = await resilient.send(CALL, {})
            assert b"ok" == await answer.read()
            await answer.close()
        assert 3 == len(connections)


async def test_a_stopped_upstream_says_so() -> None:
    upstream = OpenAIUpstream("main", OpenAISettings(base_url="http://127.0.0.1:9/v1"))
    with pytest.raises(UpstreamUnreachable, match="main is not started"):
        await upstream.send(CALL)


# ---- time-outs ----


async def test_no_connection_in_time() -> None:
    async with opened("http://192.0.2.1:9/v1", timeouts=Timeouts(connect_s=0.05)) as upstream:  # RFC 5737: an address that nobody has
        with pytest.raises((UpstreamTimeout, UpstreamUnreachable), match=r"no connection within 0\.05 s|cannot connect"):
            await upstream.send(CALL)


async def test_no_first_byte_in_time() -> None:
    async with ScriptedUpstream(hang) as server, opened(server.base_url, timeouts=Timeouts(first_byte_s=0.05)) as upstream:
        with pytest.raises(UpstreamTimeout, match=r"main .*: no first byte within 0\.05 s"):
            await upstream.send(CALL)
        async with asyncio.timeout(1):
            await server.gone.wait()


async def test_no_further_byte_in_time() -> None:
    slow = stream([b"one", b"two"], wait={1: asyncio.Event()})
    async with ScriptedUpstream(slow) as server, opened(server.base_url, timeouts=Timeouts(between_chunks_s=0.05)) as upstream:
        answer = await upstream.send(CALL)
        chunks = answer.chunks()
        assert b"one" == await anext(chunks)
        with pytest.raises(UpstreamTimeout, match=r"main .*: no further byte within 0\.05 s"):
            await anext(chunks)
        async with asyncio.timeout(1):
            await server.gone.wait()


async def test_headers_that_never_end_count_as_no_first_byte() -> None:
    async def stuck(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-ty")
        await asyncio.Event().wait()

    async with ScriptedUpstream(stuck) as server, opened(server.base_url, timeouts=Timeouts(first_byte_s=0.1)) as upstream:
        with pytest.raises(UpstreamTimeout):
            await upstream.send(CALL)


async def test_a_slow_but_steady_answer_is_read_to_its_end() -> None:
    async def drip(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(HEAD + b"content-length: 20\r\n\r\n")
        for _ in range(20):
            await asyncio.sleep(0.02)
            writer.write(b"x")

    async with (
        ScriptedUpstream(drip) as server,
        opened(server.base_url, timeouts=Timeouts(first_byte_s=0.2, between_chunks_s=0.2)) as upstream,
    ):
        assert b"x" * 20 == await said(upstream)


async def test_the_time_outs_of_one_call_do_not_reach_into_the_next() -> None:
    async def later(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        await asyncio.sleep(0.2)
        writer.write(HEAD + b"content-length: 2\r\n\r\nok")

    timeouts = Timeouts(first_byte_s=5, between_chunks_s=0.05)
    async with ScriptedUpstream(reply(b"ok"), later) as server, opened(server.base_url, timeouts=timeouts) as upstream:
        assert [b"ok", b"ok"] == [await said(upstream), await said(upstream)]


async def test_a_reader_that_takes_its_time_is_not_the_upstreams_fault() -> None:
    body = b"x" * 3_000_000
    async with ScriptedUpstream(reply(body)) as server, opened(server.base_url, timeouts=Timeouts(between_chunks_s=0.1)) as upstream:
        answer = await upstream.send(CALL)
        chunks = answer.chunks()
        got = await anext(chunks)
        await asyncio.sleep(0.3)  # the client's own pause
        got += b"".join([chunk async for chunk in chunks])
    assert len(body) == len(got)


# ---- bodies ----


async def test_five_megabytes_both_ways() -> None:
    question, answer = b'"' + b"q" * 5_000_000 + b'"', b"a" * 5_000_000
    async with ScriptedUpstream(reply(answer)) as server, opened(server.base_url) as upstream:
        got = await said(upstream, Call("POST", "/chat/completions", (), question))
    assert (True, True) == (got == answer, server.calls[0].body == question)


async def test_a_body_in_pieces_goes_on_in_pieces() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"abc"

    async with ScriptedUpstream(reply(b"ok")) as server, opened(server.base_url) as upstream:
        await said(upstream, Call("POST", "/files", (), pieces(), raw=True))
    assert b"abc" * 3 == server.calls[0].body


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_of_a_stream_what_is_read_at_once_has_a_bound(encoding: str) -> None:
    blank = b"\n\n" * 100_000
    sent = reply(
        gzip.compress(blank) if encoding == "gzip" else blank, headers={"content-type": "text/event-stream", "content-encoding": encoding}
    )
    async with ScriptedUpstream(sent) as server, opened(server.base_url) as upstream:
        pieces = [piece async for piece in (await upstream.send(CALL)).chunks()]
    assert (blank, EVENTS_SLICE_BYTES) == (b"".join(pieces), max(map(len, pieces)))


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_no_answer(status: int) -> None:
    async with (
        ScriptedUpstream(reply(b"", status, {"location": "http://127.0.0.1:9/elsewhere"})) as server,
        opened(server.base_url, api_key="sk-1") as upstream,
    ):
        with pytest.raises(UpstreamUnreachable, match=rf"redirect, {status} to http://127.0.0.1:9: redirects are not followed"):
            await upstream.send(CALL)
    assert 1 == len(server.calls)


async def test_cookies_of_one_answer_are_not_sent_with_the_next_call() -> None:
    async with ScriptedUpstream(reply(b"ok", headers={"set-cookie": "session=ann; Path=/"})) as server, opened(server.base_url) as upstream:
        await said(upstream)
        await said(upstream)
    assert "cookie" not in server.calls[1].headers


async def test_a_broken_answer_is_said_without_the_key() -> None:
    async with (
        ScriptedUpstream(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab")) as server,
        opened(server.base_url, api_key="sk-1") as upstream,
    ):
        with pytest.raises(UpstreamUnreachable, match="the connection broke before the answer was whole") as raised:
            await said(upstream)
    assert "sk-1" not in str(raised.value)


async def test_a_pause_after_a_large_answer_is_not_held_against_the_next_one() -> None:
    body = b"x" * 700_000  # more than is read ahead, so that reading pauses, and all there before its reader comes
    async with ScriptedUpstream(reply(body)) as server, opened(server.base_url, timeouts=Timeouts(between_chunks_s=0.2)) as upstream:
        for _ in range(2):
            answer = await upstream.send(CALL)
            await asyncio.sleep(0.05)
            assert len(body) == len(await answer.read())
            await answer.close()
            await asyncio.sleep(0.4)


# ---- content encodings, through the proxy ----


async def test_a_compressed_chat_answer_arrives_decoded(start: Start) -> None:
    plain = json.dumps(completion("Hello.")).encode()
    async with start(reply(gzip.compress(plain), headers={"content-encoding": "gzip"})) as proxy:
        got = await proxy.post(accept_encoding="gzip, br")
        record = await proxy.record(got)
    assert (200, plain, "identity") == (got.status, got.body, proxy.upstream.calls[0].headers["accept-encoding"])
    assert "content-encoding" not in got.headers
    assert str(len(plain)) == got.headers["content-length"]
    assert 3 == record["completion_tokens"]


async def test_a_compressed_error_arrives_decoded(start: Start) -> None:
    plain = b'{"error": {"message": "m", "code": "c"}}'
    async with start(reply(gzip.compress(plain), 429, {"content-encoding": "gzip"})) as proxy:
        got = await proxy.post(CHAT)
    assert (429, plain, "upstream_c") == (got.status, got.body, got.headers["x-groundwire-warnings"])


@pytest.mark.parametrize(
    ("told", "headers", "expected"), [('"26.66s"', {}, "27"), ('"3s"', {"retry-after": "9"}, "9"), ("null", {}, ""), ('"soon"', {}, "")]
)
async def test_a_delay_that_google_tells_in_the_body_is_a_header(told: str, headers: dict[str, str], expected: str) -> None:
    kind = '"@type": "type.googleapis.com/google.rpc.RetryInfo"'
    body = f'{{"error": {{"code": 429, "details": [{{{kind}, "retryDelay": {told}}}]}}}}'.encode()
    async with ScriptedUpstream(reply(body, 429, headers)) as server:
        upstream = GeminiUpstream("google", GeminiSettings(base_url=server.base_url))
        await upstream.start()
        found = await upstream.send(CALL)
        assert (429, expected, body) == (found.status, header_of(found.headers, "retry-after"), await found.read())
        await found.close()
        await upstream.stop()


@pytest.mark.parametrize("named", ["identity", "UTF-8", "none"])
async def test_a_charset_in_place_of_an_encoding_is_none(named: str) -> None:
    async with ScriptedUpstream(reply(b"{}", headers={"content-encoding": named})) as server, opened(server.base_url) as upstream:
        assert b"{}" == await said(upstream)


async def test_a_query_of_the_base_url_goes_with_each_call() -> None:
    async with ScriptedUpstream(reply(b"ok")) as server, opened(server.base_url + "/?api-version=2024-10-21") as upstream:
        for path in ("/chat/completions", "/models?limit=2", "/chat/completions?api-version=preview"):
            await said(upstream, structs.replace(CALL, path=path))
    version = "api-version=2024-10-21"
    paths = [f"/v1/chat/completions?{version}", f"/v1/models?limit=2&{version}", "/v1/chat/completions?api-version=preview"]
    assert paths == [call.path for call in server.calls]


async def test_a_compressed_answer_on_another_path_passes_as_it_is(start: Start) -> None:
    packed = gzip.compress(b'{"data": []}')
    async with start(reply(packed, headers={"content-encoding": "gzip"})) as proxy:
        got = await proxy.get("/v1/models", accept_encoding="gzip")
    assert (packed, "gzip", str(len(packed))) == (got.body, got.headers["content-encoding"], got.headers["content-length"])
    assert "gzip" == proxy.upstream.calls[0].headers["accept-encoding"]


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"not gzip at all", "gzip"),
        (gzip.compress(b"{}" * 999)[:-9], "gzip"),
        (b"{}", "br"),
        (b"{}", "gzip, deflate"),
        (zlib.compress(b"{}"), "gzip\t?"),
    ],
    ids=["not gzip", "cut off", "never asked for", "twice", "no name"],
)
async def test_an_answer_that_is_not_what_its_encoding_says_is_a_502(body: bytes, encoding: str, start: Start) -> None:
    async with start(reply(body, headers={"content-encoding": encoding})) as proxy:
        got = await proxy.post()
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])


@pytest.mark.parametrize(
    "packed",
    [gzip.compress, zlib.compress, lambda data: zlib.compress(data)[2:-4], lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])],
    ids=["gzip", "zlib", "raw deflate", "two members"],
)
@pytest.mark.parametrize("text", ["Hello.", "x" * 3_000_000], ids=["short", "long"])
async def test_every_form_of_zlib_is_decoded(packed: Callable[[bytes], bytes], text: str, start: Start) -> None:
    plain = json.dumps(completion(text)).encode()
    sent = packed(plain)
    async with start(reply(sent, headers={"content-encoding": "gzip" if sent[:2] == b"\x1f\x8b" else "deflate"})) as proxy:
        got = await proxy.post()
    assert (200, plain) == (got.status, got.body)


def bomb(megabytes: int) -> bytes:
    """Spaces, compressed a million at a time: the process that asks how much memory it takes has never held them all."""
    made = zlib.compressobj(wbits=31)
    first, *_, again = (made.compress(b" " * 1_000_000) + made.flush(zlib.Z_FULL_FLUSH) for _ in range(3))
    return first + again * (megabytes - 1)


@pytest.mark.parametrize("status", [200, 500])
async def test_a_small_answer_that_unpacks_into_a_huge_one_is_refused_before_it_is_there(status: int, start: Start) -> None:
    small = bomb(400)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    config = "server: {max_answer_bytes: 20000000}\n"
    async with start(reply(small, status, {"content-encoding": "gzip"}), config=config) as proxy:
        got = await proxy.post()
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 100_000  # KiB


async def test_an_error_without_end_is_refused(start: Start) -> None:
    async with start(raw(b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\n\r\n" + b"e" * 3_000_000)) as proxy:
        got = await proxy.post()
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])
