"""The litellm upstream: its pure parts, and, marked slow because litellm takes seconds to import, the whole against a local provider."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from proxy.config.settings import LiteLLMSettings, Timeouts
from proxy.errors import UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call, Upstream
from proxy.upstreams.litellm import _MODEL, LiteLLMUpstream
from proxy.upstreams.litellm_answers import clean_answer, clean_chunk, error_reply, scrubber, without_secrets
from proxy.upstreams.translating import Translating
from tests.upstreams.http1.raw_server import OK, saying

KEY = "sk-the-operators-key"
CLIENT_KEY = "sk-the-clients-own-key"
EMPTY = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def call(content: Any, path: str = "/chat/completions", method: str = "POST") -> Call:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return Call(method, path, [("content-type", "application/json"), ("authorization", f"Bearer {CLIENT_KEY}")], body)


def ask(model: str = "plain", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **more}


# --- pure parts


def test_an_answer_loses_what_litellm_fills_in() -> None:
    message = {"role": "assistant", "content": None, "function_call": None, "provider_specific_fields": {"refusal": None}, "refusal": "no"}
    cleaned = clean_answer({**EMPTY, "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "service_tier": None})
    assert {
        **EMPTY,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": None, "refusal": "no"}}],
    } == cleaned


def test_provider_fields_with_content_stay() -> None:
    assert {"provider_specific_fields": {"a": 1}} == clean_answer({"provider_specific_fields": {"a": 1, "b": None}})


def test_a_usage_chunk_has_no_choices() -> None:
    chunk = {**EMPTY, "choices": [{"index": 0, "delta": {"content": None}, "finish_reason": None}], "usage": {"total_tokens": 1}}
    assert [{**EMPTY, "choices": [], "usage": {"total_tokens": 1}}] == list(clean_chunk(chunk, usage=True))


def test_usage_that_nobody_asked_for_is_left_out() -> None:
    chunk = {**EMPTY, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}], "usage": {"total_tokens": 1}}
    assert [{**EMPTY, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}] == list(clean_chunk(chunk, usage=False))


def test_a_chunk_with_text_and_usage_becomes_two() -> None:
    chunk = {**EMPTY, "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}], "usage": {"total_tokens": 1}}
    assert [1, 0] == [len(piece["choices"]) for piece in clean_chunk(chunk, usage=True)]


def test_tool_call_deltas_have_an_index() -> None:
    calls = [{"id": "a", "function": {"arguments": ""}}, {"id": "b", "index": None, "function": {"arguments": ""}}]
    (chunk,) = clean_chunk({**EMPTY, "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]}, usage=False)
    assert [0, 1] == [tool_call["index"] for tool_call in chunk["choices"][0]["delta"]["tool_calls"]]


def test_chunks_without_choices_keep_what_they_carry() -> None:
    chunk = {**EMPTY, "choices": [], "prompt_filter_results": [1]}
    assert [chunk] == list(clean_chunk(chunk, usage=False))


def test_an_exception_without_status_is_no_answer() -> None:
    found = error_reply(KeyError("x"), "claude")
    assert isinstance(found, UpstreamUnreachable)


def test_secrets_are_blackened_at_every_depth() -> None:
    assert {"a": ["key ***!", 1]} == without_secrets({"a": [f"key {KEY}!", 1]}, scrubber([KEY, ""]))


# --- what needs no litellm


@pytest.fixture
def cold() -> LiteLLMUpstream:
    """Not started: these calls must be answered without litellm."""
    return LiteLLMUpstream("claude", LiteLLMSettings(model_prefix="anthropic/", api_key=KEY, models=("a", "b")))


async def answer(upstream: Upstream, made: Call) -> tuple[int, Any]:
    reply = await upstream.send(made)
    content = json.loads(await reply.read())
    await reply.close()
    return reply.status, content


async def test_models_are_those_of_the_settings(cold: LiteLLMUpstream) -> None:
    status, content = await answer(cold, call(b"", "/models", "GET"))
    assert (200, ["a", "b"]) == (status, [model["id"] for model in content["data"]])


@pytest.mark.parametrize(
    ("made", "status", "code"),
    [
        (call(b"", "/models/zz", "GET"), 404, "not_found"),
        (call({}, "/responses"), 404, "not_found"),
        (call(b"{no"), 400, "invalid_request"),
        (call([]), 400, "invalid_request"),
        (call(b'{"model": "a", "x": "\xff"}'), 400, "invalid_request"),
        (call({"messages": []}), 400, "invalid_request"),
        (call(ask("https://elsewhere.example/model")), 400, "invalid_request"),
        (call(ask("../../../v1/admin")), 400, "invalid_request"),
        (call(ask("claude/../admin")), 400, "invalid_request"),
        (call(ask("claude%2F..%2Fadmin")), 400, "invalid_request"),
        (call(ask("claude?key=x")), 400, "invalid_request"),
        (call(ask("claude#x")), 400, "invalid_request"),
        (call(ask("claude\\admin")), 400, "invalid_request"),
        (call(ask("claude//admin")), 400, "invalid_request"),
        (call(ask("claude\n")), 400, "invalid_request"),
        (call(ask("c" * 301)), 400, "invalid_request"),
        (call(ask(api_base="https://elsewhere.example")), 400, "invalid_request"),
        (call(ask(extra_headers={"a": "b"})), 400, "invalid_request"),
    ],
)
async def test_what_cannot_be_sent_gets_an_envelope(cold: LiteLLMUpstream, made: Call, status: int, code: str) -> None:
    found, content = await answer(cold, made)
    assert (status, code) == (found, content["error"]["code"])


@pytest.mark.parametrize(
    "model",
    [
        "gpt-4o",
        "claude-sonnet-4-5@20250929",
        "meta-llama/Llama-3.1-8B:free",
        "arn:aws:bedrock:eu-1:1:inference-profile/eu.anthropic.x-v1:0",
    ],
)
def test_the_names_that_providers_give_their_models_are_names(model: str) -> None:
    assert _MODEL.fullmatch(model)


async def test_without_a_prefix_only_the_models_of_the_list_can_be_asked_for() -> None:
    upstream = LiteLLMUpstream("any", LiteLLMSettings(models=("gemini/gemini-2.5-pro",)))
    status, content = await answer(upstream, call(ask("bedrock/anthropic.claude")))
    assert (404, "not_found", "model") == (status, content["error"]["code"], content["error"]["param"])


async def test_a_forwarded_key_must_be_there() -> None:
    upstream = LiteLLMUpstream("claude", LiteLLMSettings(api_key="forward"))
    status, content = await answer(upstream, Call("POST", "/chat/completions", [], json.dumps(ask()).encode()))
    assert (401, "invalid_api_key") == (status, content["error"]["code"])


@pytest.mark.process
def test_the_package_imports_without_litellm() -> None:
    program = "import sys, proxy.upstreams.litellm; sys.exit('litellm' in sys.modules)"
    assert 0 == subprocess.run([sys.executable, "-c", program], check=False).returncode


# --- the whole, against a provider on loopback


class Provider:
    """Speaks OpenAI's dialect; the model's name says what happens."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.left = asyncio.Event()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append((request.headers["authorization"], body))
        errors = {
            "rate": (429, {"message": "slow down", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}),
            "long": (400, {"message": "This model's maximum context length is 8 tokens.", "code": "context_length_exceeded"}),
            "leaky": (401, {"message": f"wrong key {request.headers['authorization']}", "code": "invalid_api_key"}),
        }
        if body["model"] in errors:
            status, error = errors[body["model"]]
            return web.json_response({"error": error}, status=status, headers={"retry-after": "7"})
        if body["model"] == "silent":
            await asyncio.Event().wait()
        if body.get("stream"):
            return await self.stream(request, body)
        message = {"role": "assistant", "content": "Hé", "annotations": []}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        return web.json_response({**EMPTY, "object": "chat.completion", "choices": choices, "usage": USAGE})

    async def stream(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)

        async def write(delta: dict[str, Any], finish: str | None = None, **more: Any) -> None:
            chunk = {**EMPTY, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
            await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

        await write({"role": "assistant", "content": ""})
        match body["model"]:
            case "tools":
                for index, id_, arguments in ((0, "t0", '{"a"'), (1, "t1", "{}"), (0, None, ":1}")):
                    function = {"name": "f", "arguments": arguments} if id_ else {"arguments": arguments}
                    start = {"id": id_, "type": "function"} if id_ else {}
                    await write({"tool_calls": [{"index": index, **start, "function": function}]})
            case "stuck":
                await write({"content": "a"})
                try:
                    await asyncio.Event().wait()
                finally:
                    self.left.set()
            case "broken":
                await write({"content": "a"})
                assert request.transport is not None
                request.transport.close()
                return response
            case "overloaded":
                await write({"content": "a"})
                await response.write(b'data: {"error": {"message": "overloaded", "type": "server_error", "code": "x"}}\n\n')
                return response
            case _:
                await write({"content": "H\u00e9"})
                await write({"content": "llo", "reasoning_content": "hm"})
        await write({}, "stop")
        if (body.get("stream_options") or {}).get("include_usage"):
            await write({}, choices=[], usage=USAGE)
        await response.write(b"data: [DONE]\n\n")
        return response

    async def messages(self, request: web.Request) -> web.Response:
        self.requests.append((request.headers.get("x-api-key", ""), await request.json()))
        usage = {"input_tokens": 3, "output_tokens": 2}
        content = [{"type": "text", "text": "Hé"}]
        named = {"id": "msg_1", "type": "message", "role": "assistant", "model": "c", "stop_reason": "end_turn"}
        return web.json_response({**named, "content": content, "usage": usage})

    async def embeddings(self, request: web.Request) -> web.Response:
        self.requests.append((request.headers["authorization"], await request.json()))
        data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
        return web.json_response({"object": "list", "model": "e", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}})


OTHERS = [
    ("/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}),
    ("/responses", {"model": "m", "input": "hi"}),
]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
NEEDS_LITELLM = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
async def provider() -> Provider:
    return Provider()


@pytest.fixture
async def address(provider: Provider) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", provider.chat)
    app.router.add_post("/v1/embeddings", provider.embeddings)
    app.router.add_post("/v1/messages", provider.messages)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


def settings(address: str, **more: Any) -> LiteLLMSettings:
    return LiteLLMSettings(**{"model_prefix": "openai/", "base_url": address, "api_key": KEY, **more})


@pytest.fixture
async def upstream(address: str) -> AsyncIterator[LiteLLMUpstream]:
    started = LiteLLMUpstream("other", settings(address))
    await started.start()
    yield started
    await started.stop()


async def chunks(upstream: LiteLLMUpstream, content: dict[str, Any]) -> list[dict[str, Any]]:
    reply = await upstream.send(call({**content, "stream": True}))
    *pieces, end = [piece async for piece in reply.chunks()]
    await reply.close()
    assert (200, b"data: [DONE]\n\n") == (reply.status, end)
    return [json.loads(piece.removeprefix(b"data: ")) for piece in pieces]


class TestProvider:
    pytestmark = NEEDS_LITELLM

    async def test_an_answer_looks_like_openais(self, upstream: LiteLLMUpstream, provider: Provider) -> None:
        status, content = await answer(upstream, call(ask()))
        assert (200, "chat.completion", USAGE) == (status, content["object"], content["usage"])
        assert "Hé" == content["choices"][0]["message"]["content"]
        assert [f"Bearer {KEY}"] == [key for key, _ in provider.requests]

    async def test_a_stream_looks_like_openais(self, upstream: LiteLLMUpstream) -> None:
        found = await chunks(upstream, ask())
        deltas = [chunk["choices"][0]["delta"] for chunk in found]
        assert "Héllo" == "".join(delta.get("content", "") for delta in deltas)
        assert "hm" == deltas[2]["reasoning_content"]
        assert [None, None, None, "stop"] == [chunk["choices"][0]["finish_reason"] for chunk in found]
        assert not [chunk for chunk in found if "usage" in chunk]

    async def test_usage_is_streamed_when_asked_for(self, upstream: LiteLLMUpstream) -> None:
        *_, last = await chunks(upstream, ask(stream_options={"include_usage": True}))
        assert ([], 5) == (last["choices"], last["usage"]["total_tokens"])

    async def test_parallel_tool_call_deltas_keep_their_index(self, upstream: LiteLLMUpstream) -> None:
        found = [chunk["choices"][0]["delta"].get("tool_calls", []) for chunk in await chunks(upstream, ask("tools"))]
        deltas = [(delta["index"], delta["function"]["arguments"]) for calls in found for delta in calls]
        assert [(0, '{"a"'), (1, "{}"), (0, ":1}")] == deltas

    async def test_unknown_fields_reach_the_provider_and_steer_nothing(self, upstream: LiteLLMUpstream, provider: Provider) -> None:
        more = {"foo": {"a": 1}, "metadata": {"k": "v"}, "mock_response": "mine", "fallbacks": ["x"], "num_retries": 3, "caching": True}
        _, content = await answer(upstream, call(ask(**more)))
        assert "Hé" == content["choices"][0]["message"]["content"]
        assert more.items() <= provider.requests[0][1].items()

    async def test_anthropic_gets_no_field_that_its_api_does_not_have(self, address: str, provider: Provider) -> None:
        upstream = LiteLLMUpstream("claude", LiteLLMSettings(model_prefix="anthropic/", base_url=address.removesuffix("/v1"), api_key=KEY))
        await upstream.start()
        status, content = await answer(upstream, call(ask("claude-sonnet-4-5", foo={"a": 1}, temperature=0.5)))
        await upstream.stop()
        sent = provider.requests[0][1]
        assert (200, "Hé") == (status, content["choices"][0]["message"]["content"])
        assert (0.5, []) == (sent["temperature"], [name for name in ("foo", "extra_body") if name in sent])

    @pytest.mark.parametrize(("path", "body"), OTHERS)
    async def test_clients_of_other_apis_are_answered_in_them(
        self, upstream: LiteLLMUpstream, path: str, body: dict[str, Any], provider: Provider
    ) -> None:
        every = Translating(upstream, ["chat"])
        status, content = await answer(every, Call("POST", path, [], json.dumps(body).encode()))
        said = content["content"] if path == "/messages" else content["output"][0]["content"]
        assert (200, "Hé") == (status, said[0]["text"])
        assert [{"role": "user", "content": "hi"}] == provider.requests[0][1]["messages"]

    async def test_a_forwarded_key_is_the_clients(self, address: str, provider: Provider) -> None:
        upstream = LiteLLMUpstream("other", settings(address, api_key="forward"))
        await upstream.start()
        await answer(upstream, call(ask()))
        await upstream.stop()
        assert [f"Bearer {CLIENT_KEY}"] == [key for key, _ in provider.requests]

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_providers_error_keeps_status_and_retry_after(
        self, upstream: LiteLLMUpstream, provider: Provider, stream: bool
    ) -> None:
        reply = await upstream.send(call(ask("rate", stream=stream)))
        error = json.loads(await reply.read())["error"]
        assert (429, "7") == (reply.status, dict(reply.headers)["retry-after"])
        assert ("slow down", "rate_limit_exceeded") == (error["message"], error["code"])
        assert 1 == len(provider.requests)  # litellm itself does not retry

    async def test_a_full_window_has_its_code(self, upstream: LiteLLMUpstream) -> None:
        status, content = await answer(upstream, call(ask("long")))
        assert (400, "context_length_exceeded") == (status, content["error"]["code"])

    @pytest.mark.parametrize("prefix", ["gemini/", "ollama/", "mistral/"])
    async def test_what_a_client_names_in_this_network_is_not_fetched(self, prefix: str, unused_tcp_port: int) -> None:
        upstream = LiteLLMUpstream("other", settings(f"http://127.0.0.1:{unused_tcp_port}", model_prefix=prefix))
        await upstream.start()
        async with saying(OK) as inside:
            parts = {"type": "image_url", "image_url": {"url": inside.url}}, {"type": "file", "file": {"file_id": inside.url}}
            for part in (*parts, {"type": "image_url", "image_url": {"url": "file:///etc/hostname"}}):
                with suppress(UpstreamUnreachable):
                    asked = ask(messages=[{"role": "user", "content": [{"type": "text", "text": "What is it?"}, part]}])
                    assert 400 == (await answer(upstream, call(asked)))[0]
        await upstream.stop()
        assert 0 == inside.connections

    async def test_no_key_in_messages(self, upstream: LiteLLMUpstream) -> None:
        status, content = await answer(upstream, call(ask("leaky")))
        assert (401, "wrong key Bearer ***") == (status, content["error"]["message"])

    @pytest.mark.parametrize("prefix", ["openai/", "anthropic/"])
    async def test_a_refused_connection_is_unreachable(self, prefix: str, unused_tcp_port: int) -> None:
        upstream = LiteLLMUpstream("other", settings(f"http://127.0.0.1:{unused_tcp_port}", model_prefix=prefix))
        await upstream.start()
        with pytest.raises(UpstreamUnreachable):
            await upstream.send(call(ask()))
        await upstream.stop()

    @pytest.mark.parametrize("model", ["silent", "stuck"])
    async def test_missed_times_are_timeouts(self, address: str, model: str) -> None:
        timeouts = Timeouts(connect_s=0.1, first_byte_s=0.2, between_chunks_s=0.2)
        upstream = LiteLLMUpstream("other", settings(address, timeouts=timeouts))
        await upstream.start()
        await upstream._litellm()
        with pytest.raises(UpstreamTimeout):
            await answer(upstream, call(ask(model, stream=True)))
        await upstream.stop()

    async def test_a_broken_stream_is_unreachable(self, upstream: LiteLLMUpstream) -> None:
        reply = await upstream.send(call(ask("broken", stream=True)))
        with pytest.raises(UpstreamUnreachable):
            await reply.read()

    async def test_an_error_inside_a_stream_is_an_event_and_no_done(self, upstream: LiteLLMUpstream) -> None:
        reply = await upstream.send(call(ask("overloaded", stream=True)))
        *_, last = [piece async for piece in reply.chunks()]
        assert "overloaded" in json.loads(last.removeprefix(b"data: "))["error"]["message"]

    async def test_a_client_that_leaves_ends_the_call(self, upstream: LiteLLMUpstream, provider: Provider) -> None:
        reply = await upstream.send(call(ask("stuck", stream=True)))
        await anext(reply.chunks())
        await reply.close()
        async with asyncio.timeout(1):
            await provider.left.wait()

    async def test_embeddings(self, upstream: LiteLLMUpstream, provider: Provider) -> None:
        status, content = await answer(upstream, call({"model": "e", "input": "x"}, "/embeddings"))
        assert (200, [0.5], 1) == (status, content["data"][0]["embedding"], content["usage"]["prompt_tokens"])

    async def test_nothing_is_printed(self, upstream: LiteLLMUpstream, capfd: pytest.CaptureFixture[str]) -> None:
        await answer(upstream, call(ask("leaky")))
        await answer(upstream, call(ask()))
        assert ("", "") == capfd.readouterr()
