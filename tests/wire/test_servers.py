"""Servers' dialects of Chat Completions: what a recorded answer says to stages, and to a client of each API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.config.settings import Api
from proxy.ports.upstream import Past
from proxy.testing import reply, stream
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.chat.forms import to_whole
from proxy.wire.dialect import Dialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from proxy.wire.translation.translate import Exchange, Server
from tests.conftest import Start
from tests.exchanges import Exchanged, recorded

DIALECTS: Mapping[Api, Dialect] = {"chat": ChatDialect(), "responses": ResponsesDialect(), "messages": MessagesDialect()}
SERVERS = {one.name: one for one in recorded("servers")}
TEXT, THOUGHT, NOON = ["It turns at noon.", "", [], "stop"], ["It turns at noon.", "Noon.", [], "stop"], {"pier": 1}
SAYS: Mapping[str, list[Any]] = {
    "azure": TEXT,
    "bedrock-litellm": ["I look.", "", [("read_gauge", NOON)], "tool_calls"],
    "deepseek": THOUGHT,
    "gemini": ["", "", [("read_gauge", NOON), ("read_gauge", {"pier": 2})], "tool_calls"],
    "groq": TEXT,
    "llama.cpp": THOUGHT,
    "lm-studio": ["", "", [("read_gauge", NOON)], "tool_calls"],
    "mistral": ["", "", [("read_gauge", NOON)], "tool_calls"],
    "ollama": ["", "", [("read_gauge", NOON), ("read_gauge", {"pier": 2})], "tool_calls"],
    "openrouter": THOUGHT,
    "sglang": TEXT,
    "tgi": TEXT,
    "vllm": THOUGHT,
}
"""Text, thoughts, calls and end, by the server."""
ASK: Mapping[Api, Mapping[str, Any]] = {
    "responses": {"model": "m", "input": "When does the tide turn?"},
    "messages": {"model": "m", "max_tokens": 99, "messages": [{"role": "user", "content": "When does the tide turn?"}]},
}


def read(dialect: Dialect, body: bytes, *, streams: bool, size: int = 7) -> list[Any]:
    if not streams:
        answer = dialect.parse_answer(body)
    else:
        reader = dialect.stream(separate=True)
        for i in range(0, len(body), size):
            reader.feed(body[i : i + size])
        reader.finish()
        assert (True, None, "") == (reader.complete, reader.error, reader.unreadable)
        answer = reader.answer
    (choice,) = answer.choices
    calls = [(call.name, json.loads(call.arguments)) for call in choice.tool_calls]
    return [choice.text, choice.reasoning, calls, choice.finish_reason]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("server", SAYS)
def test_what_is_said_to_stages_is_right(server: str, streams: bool) -> None:
    one = SERVERS[server]
    assert SAYS[server] == read(DIALECTS["chat"], one.events if streams else one.answer, streams=streams)


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("client", ["responses", "messages"])
@pytest.mark.parametrize("server", SAYS)
def test_translated_it_says_the_same(server: str, client: Api, streams: bool) -> None:
    assert SAYS[server] == read(DIALECTS[client], translated(SERVERS[server], client, streams=streams), streams=streams)


def translated(one: Exchanged, client: Api, *, streams: bool) -> bytes:
    exchange = Exchange(client, Server("main", "chat"), 1700000000)
    exchange.request(json.dumps({**ASK[client], "stream": streams}).encode(), Past())
    return exchange.feed(one.events) + exchange.finish() if streams else exchange.answer(one.answer)


@pytest.mark.parametrize("server", SAYS)
async def test_no_byte_of_it_changes_for_a_client_of_chat(server: str, start: Start) -> None:
    one = SERVERS[server]
    async with start(stream([one.events]), reply(one.answer)) as proxy:
        streamed, whole = await proxy.post(one.streamed_request), await proxy.post(one.request)
        query = await proxy.post(one.request, "/v1/chat/completions?api-version=2024-10-21")
        assert "/v1/chat/completions?api-version=2024-10-21" == proxy.upstream.calls[-1].path
    assert (200, one.answer, one.answer) == (query.status, whole.body, query.body)
    end = b"" if b"[DONE]" in one.events else b"data: [DONE]\n\n"
    assert one.events + end == streamed.body


def test_azures_first_chunk_which_has_no_name_gives_the_answer_none() -> None:
    events, name = SERVERS["azure"].events, ("chatcmpl-B9", "chat.completion.chunk", "gpt-4o-2024-11-20")
    reader = DIALECTS["chat"].stream()
    reader.feed(events)
    block = json.loads(reader.encode_block([0]).removeprefix(b"data: "))
    assert (name[2], name) == (reader.answer.model, (block["id"], block["object"], block["model"]))
    payloads = [json.loads(line[6:]) for line in events.splitlines() if line.startswith(b"data: {")]
    whole = to_whole(payloads, marked=True) or {}
    assert (name[0], name[2]) == (whole["id"], whole["model"])
    begun = json.loads(translated(SERVERS["azure"], "messages", streams=True).split(b"\n\n")[0].partition(b"data: ")[2])
    assert ("message_start", name[2]) == (begun["type"], begun["message"]["model"])


async def test_an_openrouter_error_is_one_whole_and_in_mid_stream(start: Start) -> None:
    one = SERVERS["openrouter-error"]
    async with start(reply(one.answer), stream([one.events])) as proxy:
        whole, streamed = await proxy.post(one.request), await proxy.post(one.streamed_request)
    assert (502, "Provider returned error") == (whole.status, whole.json["error"]["message"])
    assert one.events == streamed.body
    told = translated(one, "messages", streams=True)
    assert b"event: error" in told
    assert b"Provider disconnected" in told
    assert b"message_stop" not in told


def test_every_server_has_its_row() -> None:
    assert set(SERVERS) == {*SAYS, "openrouter-error"}
