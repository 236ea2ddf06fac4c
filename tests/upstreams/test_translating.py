"""What of a call and its reply changes beside the body."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.config.settings import Api, OpenAISettings
from proxy.errors import InvalidRequest, UpstreamUnreachable
from proxy.ports.upstream import Call, Reply
from proxy.testing import ReceivedCall, ScriptedUpstream, reply
from proxy.upstreams.openai import OpenAIUpstream
from proxy.upstreams.translating import Translating, is_openai, translated_paths
from tests.wire.translation import chat_api
from tests.wire.translation.pairs import QUESTION

ASK = {"model": "m", "max_tokens": 9, "messages": [QUESTION]}
HEADERS = [("content-type", "application/json"), ("anthropic-version", "2023-06-01"), ("x-stainless-lang", "python"), ("x-trace", "1")]


async def sent(call: Call, answer: Any, speaks: Sequence[Api] = ("chat",), **more: Any) -> tuple[Reply, bytes, list[ReceivedCall]]:
    """The reply, its body, and what arrived."""
    async with ScriptedUpstream(answer) as server:
        inner = OpenAIUpstream("main", OpenAISettings(base_url=server.base_url, api_key="sk-own"))
        upstream = Translating(inner, speaks, **more)
        await upstream.start()
        try:
            found = await upstream.send(call)
            try:
                return found, await found.read(), server.calls
            finally:
                await found.close()
        finally:
            await upstream.stop()


def ask(path: str = "/messages?beta=true", body: Any = None) -> Call:
    return Call("POST", path, HEADERS, json.dumps(body or ASK).encode())


async def test_headers_of_the_clients_own_api_stay_here_and_the_request_id_has_its_name() -> None:
    answer = reply(chat_api.whole(), headers={"x-request-id": "req_1", "x-ratelimit-limit-requests": "9"})
    found, body, (call,) = await sent(ask(), answer)
    assert ("/v1/chat/completions", "1", "Bearer sk-own") == (call.path, call.headers["x-trace"], call.headers["authorization"])
    assert not [name for name in call.headers if name.startswith(("anthropic-", "x-stainless-"))]
    told = dict(found.headers)
    assert ("req_1", "9") == (told["request-id"], told["x-ratelimit-limit-requests"])
    assert "content-length" not in told
    assert "message" == json.loads(body)["type"]


async def test_an_answer_that_is_too_long_is_not_held() -> None:
    with pytest.raises(UpstreamUnreachable, match="longer than 100 bytes"):
        await sent(ask(), reply(chat_api.whole()), max_bytes=100)


@pytest.mark.parametrize("path", ["/embeddings", "/messages/count_tokens", "/chat/completions"])
async def test_other_paths_and_its_servers_own_go_on_as_they_are(path: str) -> None:
    answer = json.dumps({"odd": 1}, indent=2).encode()
    _, body, (call,) = await sent(ask(path, {"odd": 2}), reply(answer))
    assert (answer, "/v1" + path, {"odd": 2}) == (body, call.path, call.json)


async def test_it_says_what_it_takes() -> None:
    upstream = Translating(OpenAIUpstream("main", OpenAISettings(base_url="http://x/v1")), ["chat"])
    odd = ask(body={**ASK, "mcp_servers": [{}]})
    assert [True, False, True] == [upstream.takes(call) for call in (ask(), odd, ask("/chat/completions", {"mcp_servers": 1}))]
    with pytest.raises(InvalidRequest, match="mcp_servers"):
        await upstream.send(odd)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", True),
        ("https://eu.api.openai.com/v1", True),
        ("https://mine.openai.azure.com/openai/v1", True),
        ("http://127.0.0.1:8000/v1", False),
        ("https://notopenai.com/v1", False),
    ],
)
def test_openais_own_servers_are_known(url: str, expected: bool) -> None:
    assert expected == is_openai(url)


def test_what_is_translated_is_what_is_not_spoken() -> None:
    assert {"/responses": "chat", "/messages": "chat", "/generateContent": "chat"} == translated_paths(["chat"])
