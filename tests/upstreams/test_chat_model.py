"""The proxy's own questions to an upstream, over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import OpenAISettings, Retries, load_settings
from proxy.errors import ConfigError, NotFound, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable
from proxy.models.tokens.counter import TiktokenCounter
from proxy.testing import CountedNames, ScriptedReply, ScriptedUpstream, completion, hang, reply
from proxy.upstreams.asking import UpstreamChat
from proxy.upstreams.openai import OpenAIUpstream
from proxy.upstreams.resilience import Resilient, Slots

ASKED = [{"role": "user", "content": "Is it so?"}]


@asynccontextmanager
async def asking(
    *replies: ScriptedReply, retries: int = 0, forwarding: tuple[str, ...] = ()
) -> AsyncIterator[tuple[UpstreamChat, ScriptedUpstream]]:
    async with ScriptedUpstream(*replies) as server:
        settings = OpenAISettings(base_url=server.base_url, api_key="sk-own")
        upstream = OpenAIUpstream("judge", settings)
        await upstream.start()
        resilient = Resilient(upstream, Retries(attempts=retries, base_s=1e-6, max_s=1e-3), Slots(1, 0), (), CountedNames())
        try:
            yield UpstreamChat({"judge": resilient}, forwarding, TiktokenCounter({})), server
        finally:
            await upstream.stop()


async def test_the_answer_s_text_comes_back() -> None:
    async with asking(reply(completion("Yes."))) as (chat, _):
        assert "Yes." == await chat.complete("judge", "small", ASKED)


async def test_a_call_costs_what_its_tier_and_its_cached_input_cost() -> None:
    took = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 400}}
    async with asking(reply(completion() | {"usage": took}), reply(completion() | {"usage": took, "service_tier": "flex"})) as (chat, _):
        usd = [(await chat.answer("judge", "gpt-5.4", ASKED)).usd for _ in range(2)]
    assert [pytest.approx((600 * 2.5 + 400 * 0.25 + 150) / 1e6), pytest.approx((600 * 1.25 + 400 * 0.13 + 75) / 1e6)] == usd


async def test_what_is_sent() -> None:
    async with asking(reply(completion())) as (chat, server):
        await chat.complete("judge", "small", ASKED, params={"temperature": 0, "stream": True})
    call = server.calls[0]
    assert ("POST", "/v1/chat/completions", "Bearer sk-own") == (call.method, call.path, call.headers["authorization"])
    assert {"model": "small", "messages": ASKED, "temperature": 0, "stream": False} == call.json


async def test_it_is_tried_again_as_clients_calls_are() -> None:
    async with asking(reply({}, 503), reply(completion("Yes.")), retries=1) as (chat, _):
        assert "Yes." == await chat.complete("judge", "small", ASKED)


async def test_an_upstream_s_error_is_told_with_its_status() -> None:
    async with asking(reply({"error": {"message": "no such model"}}, 404)) as (chat, _):
        with pytest.raises(UpstreamRefused, match="status 404: no such model") as caught:
            await chat.complete("judge", "small", ASKED)
    assert 404 == caught.value.upstream_status


@pytest.mark.parametrize("body", [b"<html>", b"{}", b"[]", {"choices": []}, completion(""), {"choices": [{"message": None}]}])
async def test_what_is_no_answer_is_an_error(body: Any) -> None:
    async with asking(reply(body)) as (chat, _):
        with pytest.raises(UpstreamUnreachable, match="chat completion"):
            await chat.complete("judge", "small", ASKED)


@pytest.mark.parametrize("message", [{"content": ""}, {"content": None}, {"role": "assistant"}])
async def test_an_answer_without_text_has_its_price(message: dict[str, Any]) -> None:
    body = {"choices": [{"message": message}], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}
    async with asking(reply(body)) as (chat, _):
        found = await chat.answer("judge", "gpt-5.4", ASKED)
    assert ("", pytest.approx((1000 * 2.5 + 150) / 1e6)) == (found.text, found.usd)


async def test_an_answer_in_parts() -> None:
    body = {"choices": [{"message": {"content": [{"type": "text", "text": "Ye"}, {"type": "text", "text": "s."}]}}]}
    async with asking(reply(body)) as (chat, _):
        assert "Yes." == await chat.complete("judge", "small", ASKED)


async def test_a_slow_upstream_is_given_up_and_its_place_is_free_again() -> None:
    async with asking(hang, reply(completion("Yes."))) as (chat, server):
        with pytest.raises(UpstreamTimeout, match=r"within 0\.05 s"):
            await chat.complete("judge", "small", ASKED, timeout_s=0.05)
        await asyncio.wait_for(server.gone.wait(), 2)
        assert "Yes." == await chat.complete("judge", "small", ASKED)


async def test_an_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.upstreams.asking._MAX_ANSWER_BYTES", 1000)
    async with asking(reply(completion("x" * 2000))) as (chat, _):
        with pytest.raises(UpstreamUnreachable, match="more than 1000 bytes"):
            await chat.complete("judge", "small", ASKED)


async def test_an_unknown_upstream_is_named_with_those_there_are() -> None:
    async with asking(reply(completion())) as (chat, _):
        with pytest.raises(NotFound, match="no upstream 'other' to ask; known: judge"):
            await chat.complete("other", "small", ASKED)


async def test_an_upstream_with_only_the_client_s_key_is_not_asked() -> None:
    async with asking(reply(completion()), forwarding=("judge",)) as (chat, server):
        with pytest.raises(NotFound, match="api_key: forward"):
            await chat.complete("judge", "small", ASKED)
    assert [] == server.calls


@pytest.mark.parametrize(
    ("name", "problem"), [("absent", "no upstream 'absent' in config.yaml; known: main"), ("main", "has no key of its own")]
)
def test_a_policy_that_asks_what_cannot_be_asked_is_refused_at_start(tmp_path: Path, name: str, problem: str) -> None:
    (tmp_path / "policy.yaml").write_text(f"name: p\njudge: {{upstream: {name}, model: m}}\nstages: [relevance: {{mode: llm}}]\n")
    (tmp_path / "config.yaml").write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/s.db'}}\n"
        "upstreams: {main: {kind: openai, base_url: 'http://127.0.0.1:9', api_key: forward}}\n"
        "routes: [{prefix: '', upstream: main, policy: policy.yaml}]\n"
    )
    with pytest.raises(ConfigError, match=problem) as caught:
        App(load_settings(tmp_path / "config.yaml", {}))
    assert "judge.upstream" == caught.value.path
