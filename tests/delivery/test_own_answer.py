"""A stage answers in the model's stead: the upstream is not called, the client sees a completion like any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.exchange import Answer, Choice, Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT, Start

TEXT = "This information is not in the knowledge base."
STREAM = {**CHAT, "stream": True}


class Guard(Stage):
    """Answers every question itself."""

    name = "guard"
    text = TEXT

    async def on_request(self, exchange: Exchange) -> Verdict:
        exchange.facts.relevance = 0.1
        exchange.answer = Answer((Choice(0, self.text),))
        return Verdict("guard", "warn", code="context_not_relevant", score=0.1)


class JsonGuard(Guard):
    """Answers with a JSON object."""

    name = "json_guard"
    text = '{"answer": null}'


class Late(Stage):
    """Must not be asked once a stage has answered, nor judge what it said."""

    name = "late"

    async def on_request(self, exchange: Exchange) -> Verdict:
        return Verdict("late", "block", code="asked")

    async def on_forward(self, exchange: Exchange) -> Verdict:
        return Verdict("late", "block", code="asked")

    async def on_answer(self, exchange: Exchange) -> Verdict:
        return Verdict("late", "block", code="asked")


class Clumsy(Stage):
    """Fails after it has set an answer."""

    name = "clumsy"

    async def on_request(self, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, "half"),))
        raise RuntimeError


ALL = (*STAGES, Guard, JsonGuard, Late, Clumsy)


def policy(delivery: str, *stages: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{', '.join(stages)}]\n"


def chunks(body: bytes) -> list[Any]:
    events = body.split(b"\n\n")
    assert [b"data: [DONE]", b""] == events[-2:]
    assert all(event.startswith(b"data: ") for event in events[:-1])
    return [json.loads(event[6:]) for event in events[:-2]]


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_the_client_gets_a_completion_and_the_upstream_no_call(start: Start, delivery: str) -> None:
    async with start(policy=policy(delivery, "guard", "late"), stages=ALL) as proxy:
        got = await proxy.post()
    body = got.json
    assert [] == proxy.upstream.calls
    assert (200, "application/json") == (got.status, got.headers["content-type"])
    assert ("chat.completion", "gpt-4o", f"chatcmpl-{got.headers['x-groundwire-id']}") == (body["object"], body["model"], body["id"])
    assert isinstance(body["created"], int)
    message = {"role": "assistant", "content": TEXT, "refusal": None}
    assert [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}] == body["choices"]
    assert {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0} == body["usage"]


async def test_every_header_is_known(start: Start) -> None:
    async with start(policy=policy("tap", "budget", "guard"), stages=ALL) as proxy:
        for body in (CHAT, STREAM):
            got = await proxy.post(body)
            assert ("warn", "0.10", "context_not_relevant") == (
                got.verdict,
                got.headers["x-groundwire-relevance"],
                got.headers["x-groundwire-warnings"],
            )
            assert "x-groundwire-context" not in got.headers


@pytest.mark.parametrize("delivery", ["hold", "gate", "tap"])
async def test_a_stream_says_the_same(start: Start, delivery: str) -> None:
    async with start(policy=policy(delivery, "guard", "late"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert got.headers["content-type"].startswith("text/event-stream")
    reader = ChatDialect().stream()
    reader.feed(got.body)
    assert (TEXT, True, True) == (reader.answer.text, reader.complete, reader.done)
    events = chunks(got.body)
    assert {"role": "assistant", "content": "", "refusal": None} == events[0]["choices"][0]["delta"]
    assert [None, None, "stop"] == [e["choices"][0]["finish_reason"] for e in events]
    assert 1 == len({e["id"] for e in events})
    assert not any("usage" in e for e in events)


async def test_a_stream_ends_with_its_usage_where_asked(start: Start) -> None:
    async with start(policy=policy("tap", "guard"), stages=ALL) as proxy:
        got = await proxy.post({**STREAM, "stream_options": {"include_usage": True}})
    *others, last = chunks(got.body)
    assert ([], {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}) == (last["choices"], last["usage"])
    assert all(event["usage"] is None for event in others)


@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_the_verdict_goes_inline_where_asked(start: Start, body: dict[str, Any]) -> None:
    async with start(policy=policy("gate", "guard"), stages=ALL) as proxy:
        got = await proxy.post(body, x_groundwire_inline="1")
    found = chunks(got.body)[-1] if "stream" in body else got.json
    assert ("warn", got.headers["x-groundwire-id"]) == (found["groundwire"]["verdict"], found["groundwire"]["id"])


@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_the_client_gets_as_many_choices_as_it_asked_for(start: Start, body: dict[str, Any]) -> None:
    async with start(policy=policy("tap", "guard"), stages=ALL) as proxy:
        got = await proxy.post({**body, "n": 3})
    if "stream" in body:
        reader = ChatDialect().stream()
        reader.feed(got.body)
        answer = reader.answer
    else:
        answer = ChatDialect().parse_answer(got.body)
    assert [(0, TEXT, "stop"), (1, TEXT, "stop"), (2, TEXT, "stop")] == [(c.index, c.text, c.finish_reason) for c in answer.choices]


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}},
        {"guided_json": {"type": "object"}},
        {"guided_choice": ["yes", "no"]},
    ],
)
@pytest.mark.parametrize("body", [CHAT, STREAM])
async def test_a_client_that_wants_a_form_gets_text_as_a_refusal(start: Start, body: dict[str, Any], form: dict[str, Any]) -> None:
    async with start(policy=policy("tap", "guard"), stages=ALL) as proxy:
        got = await proxy.post({**body, **form})
    if "stream" in body:
        deltas = [e["choices"][0]["delta"] for e in chunks(got.body)]
        assert (TEXT, "") == ("".join(d.get("refusal") or "" for d in deltas), "".join(d.get("content") or "" for d in deltas))
    else:
        assert {"role": "assistant", "content": None, "refusal": TEXT} == got.json["choices"][0]["message"]


async def test_a_client_that_wants_json_gets_json_as_content(start: Start) -> None:
    async with start(policy=policy("tap", "json_guard"), stages=ALL) as proxy:
        got = await proxy.post({**CHAT, "response_format": {"type": "json_object"}})
    assert {"role": "assistant", "content": '{"answer": null}', "refusal": None} == got.json["choices"][0]["message"]


async def test_the_record_says_that_no_upstream_was_asked(start: Start) -> None:
    async with start(policy=policy("hold", "budget", "guard"), stages=ALL) as proxy:
        record = await proxy.record(await proxy.post())
        figures = (await proxy.get("/groundwire/v1/metrics")).json
    assert ("groundwire", "warn", 200, None) == (record["upstream"], record["outcome"], record["status"], record.get("answer_body"))
    assert (8, 0, 0) == (record["prompt_tokens_before"], record["prompt_tokens"], record["completion_tokens"])
    assert TEXT == record["detail"]["delivered"][0]["text"]
    assert 1 == figures["counters"]["answers.own_count"]


async def test_a_stage_that_fails_has_not_answered(start: Start) -> None:
    async with start(policy=policy("tap", "clumsy"), stages=ALL) as proxy:
        got = await proxy.post()
    assert ("Hello.", "error") == (got.json["choices"][0]["message"]["content"], got.verdict)


async def test_a_stage_that_is_left_out_does_not_answer(start: Start) -> None:
    async with start(policy=policy("tap", "guard"), stages=ALL) as proxy:
        got = await proxy.post(x_groundwire_skip="guard")
    assert "Hello." == got.json["choices"][0]["message"]["content"]
