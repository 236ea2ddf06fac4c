"""Signs of life in a stream: in every delivery, before its first event and between two, and never within one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.exchange import Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import ReceivedCall, ScriptedReply, reply, stream, streamed
from tests.conftest import CHAT, Start

STREAM = {**CHAT, "stream": True}
CONFIG = "server: {keep_alive_s: 0.02}\n"
SIGN = b": keep-alive\n\n"


class Refuses(Stage):
    """Blocks an answer that says LATE."""

    name = "refuses"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        return Verdict("refuses", "block" if "LATE" in exchange.answer.text else "pass", code="hallucination_detected", message="late")


ALL = (*STAGES, Refuses)


def policy(delivery: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{'budget' if delivery == 'tap' else 'refuses'}: {{}}]\n"


def after(go: asyncio.Event, then: ScriptedReply) -> ScriptedReply:
    """Nothing at all, until `go`."""

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        await go.wait()
        await then(writer, call)

    return write


async def read(response: Any, go: asyncio.Event, *, signs: int = 2) -> bytes:
    got = b""
    while got.count(SIGN) < signs:
        got += await response.content.readany()
    go.set()
    rest: bytes = await response.content.read()
    return got + rest


@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
async def test_before_the_upstream_answers(delivery: str, start: Start) -> None:
    go = asyncio.Event()
    silent = after(go, stream(streamed(["Hello ", "there."])))
    async with start(silent, policy=policy(delivery), stages=ALL, config=CONFIG) as proxy, proxy.open(STREAM) as response:
        got = await read(response, go)
        record = await proxy.record_of(response)
    assert (200, "pending") == (response.status, response.headers["x-groundwire-verdict"])
    assert response.headers["content-type"].startswith("text/event-stream")
    assert got.replace(SIGN, b"") == b"".join(streamed(["Hello ", "there."]))
    assert record["status"] == 200


@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
async def test_in_mid_stream(delivery: str, start: Start) -> None:
    go, events = asyncio.Event(), streamed(["Hello ", "there."])
    async with (
        start(stream(events, wait={2: go}), policy=policy(delivery), stages=ALL, config=CONFIG) as proxy,
        proxy.open(STREAM) as response,
    ):
        got = await read(response, go)
    assert got.replace(SIGN, b"") == b"".join(events)
    assert all(line.startswith((b"data: ", b": ")) for line in got.splitlines() if line)


async def test_never_within_an_event(start: Start) -> None:
    go, body = asyncio.Event(), b"".join(streamed(["Hello ", "there."]))
    cut = stream([body[:100], body[100:]], wait={1: go})
    async with start(cut, policy=policy("tap"), stages=ALL, config=CONFIG) as proxy, proxy.open(STREAM) as response:
        asyncio.get_running_loop().call_later(0.2, go.set)
        got = await response.content.read()
    assert got.replace(SIGN, b"") == body
    assert all(json.loads(line[6:]) for line in got.splitlines() if line.startswith(b"data: {"))


@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
async def test_an_upstreams_error_is_then_an_event(delivery: str, start: Start) -> None:
    go = asyncio.Event()
    failing = after(go, reply({"error": {"message": "Slow down", "type": "rate_limit", "code": "rate_limit_exceeded"}}, 429))
    async with start(failing, policy=policy(delivery), stages=ALL, config=CONFIG) as proxy, proxy.open(STREAM) as response:
        got = await read(response, go)
    *_, error, done, _ = got.replace(SIGN, b"").split(b"\n\n")
    assert (b"data: [DONE]", "Slow down") == (done, json.loads(error.removeprefix(b"data: "))["error"]["message"])


async def test_a_failure_of_the_connection_is_then_an_event(start: Start) -> None:
    go = asyncio.Event()

    async def breaks(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        await go.wait()
        writer.transport.abort()

    async with start(breaks, policy=policy("hold"), stages=ALL, config=CONFIG) as proxy, proxy.open(STREAM) as response:
        got = await read(response, go)
    assert b'"code":"upstream_unreachable"' in got
    assert got.endswith(b"data: [DONE]\n\n")


async def test_a_held_answer_that_is_refused_then_ends_as_a_filter_ends_one(start: Start) -> None:
    go = asyncio.Event()
    silent = after(go, stream(streamed(["LATE"])))
    async with start(silent, policy=policy("hold"), stages=ALL, config=CONFIG) as proxy, proxy.open(STREAM) as response:
        got = await read(response, go)
        record = await proxy.record_of(response)
    assert b"LATE" not in got
    assert b'"finish_reason":"content_filter"' in got
    assert got.endswith(b"data: [DONE]\n\n")
    assert record["outcome"] == "block"


@pytest.mark.parametrize("pieces", [["Hello ", "there."]])
async def test_what_comes_in_time_gets_none_and_all_its_headers(pieces: Sequence[str], start: Start) -> None:
    async with start(stream(streamed(pieces)), policy=policy("hold"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert SIGN not in got.body
    assert got.verdict != "pending"
