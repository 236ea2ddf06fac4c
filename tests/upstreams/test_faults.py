"""What a client sees when its upstream fails, and what the upstream sees when the client leaves."""

import asyncio
import json

import pytest

from proxy.testing import chunk, hang, raw, reply, stream, streamed
from tests.conftest import CHAT, Start

STREAM = {**CHAT, "stream": True}


async def test_an_upstream_that_refuses_the_connection_is_a_502(start: Start) -> None:
    async with start() as proxy:
        await proxy.upstream.__aexit__(None)
        got = await proxy.post()
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])
    assert "cannot connect" in got.json["error"]["message"]


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (raw(b""), 502, "upstream_unreachable"),
        (raw(b"nonsense\r\n\r\n"), 502, "upstream_unreachable"),
        (raw(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: application/json\r\n\r\n{"), 502, "upstream_unreachable"),
    ],
)
async def test_broken_answers_are_502(start: Start, answer: object, status: int, code: str) -> None:
    async with start(answer) as proxy:
        got = await proxy.post()
    assert (status, code) == (got.status, got.json["error"]["code"])
    assert "sk-upstream-secret" not in got.body.decode()


async def test_an_upstream_that_does_not_answer_is_a_504(start: Start) -> None:
    async with start(hang, upstream_options="timeouts: {connect_s: 0.05, first_byte_s: 0.05}") as proxy:
        got = await proxy.post()
    assert (504, "upstream_timeout") == (got.status, got.json["error"]["code"])


async def test_an_upstream_that_stops_in_mid_answer_is_a_504(start: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\ncontent-type: application/json\r\n\r\n{"

    async with start(raw(head, close=False), upstream_options="timeouts: {between_chunks_s: 0.05}") as proxy:
        proxy.upstream.say(_then_hang(head))
        got = await proxy.post()
    assert (504, "upstream_timeout") == (got.status, got.json["error"]["code"])


def _then_hang(head: bytes) -> object:
    async def write(writer: asyncio.StreamWriter, call: object) -> None:
        writer.write(head)
        await asyncio.Event().wait()

    return write


async def test_an_upstream_that_drips_for_ever_ends_at_the_total_time(start: Start) -> None:
    async def drip(writer: asyncio.StreamWriter, call: object) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\ncontent-type: application/json\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with start(drip, upstream_options="timeouts: {total_s: 0.2}") as proxy:
        got = await proxy.post()
    assert (504, "upstream_timeout") == (got.status, got.json["error"]["code"])


async def test_a_stream_that_breaks_off_ends_with_an_error_event_and_the_end_mark(start: Start) -> None:
    events = streamed(["Hel", "lo"])[:3]
    async with start(stream(events, broken=True)) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    parts = got.body.split(b"\n\n")
    assert b"".join(events) == got.body[: len(b"".join(events))]
    assert "upstream_unreachable" == json.loads(parts[-3][6:])["error"]["code"]
    assert b"data: [DONE]" == parts[-2]
    assert "upstream_error" == record["outcome"]


async def test_a_stream_that_ends_early_without_breaking_is_told_too(start: Start) -> None:
    async with start(stream(streamed(["Hel"])[:2])) as proxy:
        got = await proxy.post(STREAM)
    assert b"upstream_unreachable" in got.body
    assert got.body.endswith(b"data: [DONE]\n\n")


async def test_a_whole_stream_without_the_end_mark_gets_one(start: Start) -> None:
    events = streamed(["Hi"])
    async with start(stream(events[:-1])) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(events) == got.body


async def test_garbage_in_a_stream_passes_and_is_noted(start: Start) -> None:
    events = [b"data: {{{\n\n", b"garbage\n\n", *streamed(["Hi"])]
    async with start(stream(events)) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert b"".join(events) == got.body
    assert ["answer_unreadable"] == [v["code"] for v in record["detail"]["verdicts"]]


async def test_a_client_that_leaves_cancels_the_upstream_call(start: Start) -> None:
    never = asyncio.Event()
    async with start(stream(streamed(["Hel", "lo"]), wait={2: never})) as proxy:
        response = await proxy.open(STREAM)
        await response.content.readany()
        response.close()
        async with asyncio.timeout(1):
            await proxy.upstream.gone.wait()
        await _until_recorded(proxy, 1)
        listed = (await proxy.get("/groundwire/v1/records")).json["data"]
    assert [499] == [r["status"] for r in listed]


async def test_a_client_that_leaves_before_the_first_byte_cancels_too(start: Start) -> None:
    async with start(hang) as proxy:
        task = asyncio.create_task(proxy.post())
        while not proxy.upstream.calls:
            await asyncio.sleep(0.001)
        task.cancel()
        async with asyncio.timeout(1):
            await proxy.upstream.gone.wait()


async def _until_recorded(proxy: object, count: int) -> None:
    while True:
        await proxy.app.records_writer.flush()  # type: ignore[attr-defined]
        if len((await proxy.get("/groundwire/v1/records")).json["data"]) >= count:  # type: ignore[attr-defined]
            return


async def test_usage_chunks_pass_only_as_the_upstream_sent_them(start: Start) -> None:
    usage = b'data: {"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n'
    with_usage = [*streamed(["a"])[:-1], usage, b"data: [DONE]\n\n"]
    null_usage = [chunk({"content": "a"}, usage=None), chunk({}, "stop", usage=None), b"data: [DONE]\n\n"]
    async with start(stream(with_usage), stream(null_usage)) as proxy:
        assert b"".join(with_usage) == (await proxy.post({**STREAM, "stream_options": {"include_usage": True}})).body
        assert b"".join(null_usage) == (await proxy.post(STREAM)).body


async def test_header_and_record_give_an_unreadable_answer_the_same_verdict(start: Start) -> None:
    async with start(reply(b"<html>hi</html>")) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
    assert "warn" == got.verdict == record["outcome"]
