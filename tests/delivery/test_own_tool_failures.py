"""Tools that the proxy answers itself: bounds, errors, clients that leave."""

from __future__ import annotations

import asyncio
import json

import pytest

from proxy.delivery.own_tools import MAX_CALLS, TOO_MANY
from proxy.exchange import Exchange, ToolCall
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import completion, hang, reply, stream, streamed
from tests.conftest import CHAT, Start
from tests.own_tools import (
    ALL,
    DELIVERIES,
    FIND,
    GATE,
    HOLD,
    STREAM,
    TAP,
    TOOLS,
    Finder,
    call_events,
    called,
    calling,
    chunks,
    function,
    names,
    read,
)


async def test_the_last_answer_is_asked_for_without_own_tools(start: Start) -> None:
    async with start(*[reply(calling(called()))] * Stage.max_rounds, reply(completion("At last.")), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(TOOLS)
    assert "At last." == got.json["choices"][0]["message"]["content"]
    offered = [FIND in names(call) for call in proxy.upstream.calls]
    assert [*[True] * Stage.max_rounds, False] == offered


@pytest.mark.parametrize("legacy", [False, True])
async def test_where_all_tools_are_own_ones_the_last_answer_may_call_none(start: Start, legacy: bool) -> None:
    class Careful(Finder):
        async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
            return "nothing"

    body = {**CHAT, "functions": []} if legacy else CHAT
    async with start(*[reply(calling(called()))] * Stage.max_rounds, reply(completion()), policy=TAP, stages=(*STAGES, Careful)) as proxy:
        await proxy.post(body)
    last = proxy.upstream.calls[-1].json
    assert ("none", True) == (last["function_call" if legacy else "tool_choice"], ("functions" if legacy else "tools") in last)


@pytest.mark.parametrize("policy", DELIVERIES)
@pytest.mark.parametrize("streams", [True, False])
async def test_a_model_that_never_stops_calling_ends_without_calls(start: Start, policy: str, streams: bool) -> None:
    answer = stream(call_events(called())) if streams else reply(calling(called()))
    async with start(answer, policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else TOOLS)
        record = await proxy.record(got)
    assert FIND.encode() not in got.body
    if streams:
        assert ("", "stop", ()) == (read(got.body).text, read(got.body).finish_reason, read(got.body).tool_calls)
    else:
        choice = got.json["choices"][0]
        assert ({"role": "assistant", "content": "", "refusal": None}, "stop") == (choice["message"], choice["finish_reason"])
    assert Stage.max_rounds + 1 == len(proxy.upstream.calls)
    assert "tool_rounds_exhausted" in [verdict["code"] for verdict in record["detail"]["verdicts"] if "code" in verdict]


@pytest.mark.parametrize("delivery", ["tap", "hold", "gate"])
@pytest.mark.parametrize("streams", [True, False])
async def test_a_result_that_the_window_has_no_room_for_ends_no_run(start: Start, delivery: str, streams: bool) -> None:
    class Talkative(Finder):
        async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
            exchange.tools = [*exchange.tools, function("book_hotel")]
            return "hotel " * 1000

    policy = f"name: p\ndelivery: {delivery}\nstages: [budget: {{window: 600, reserve_output_tokens: 100}}, finder: {{}}]\n"
    said = stream(call_events(called(), words=["Let me see. "])), stream(streamed(["At last."]))
    replies = said if streams else (reply(calling(called())), reply(completion("At last.")))
    async with start(*replies, policy=policy, stages=(*STAGES, Talkative)) as proxy:
        got = await proxy.post(STREAM if streams else TOOLS)
        record = await proxy.record(got)
    text = read(got.body).text if streams else got.json["choices"][0]["message"]["content"]
    assert (200, True) == (got.status, text.endswith("At last."))
    assert record["outcome"] in ("warn", "pending")
    first, second = proxy.upstream.calls
    assert (first.json["messages"], ["search_flights"]) == (second.json["messages"], names(second))
    found = [verdict for verdict in record["detail"]["verdicts"] if verdict["stage"] == "tools"]
    assert [("tool_rounds_exhausted", {"rounds": 1, "context": "full"})] == [(verdict["code"], verdict["detail"]) for verdict in found]


@pytest.mark.parametrize(
    ("arguments", "told", "code"),
    [
        ('{"q":"boom"}', "could not be run", "check_failed"),
        ('{"q":"slow"}', "could not be run", "check_timeout"),
        ('{"q":', "not a JSON object", "tool_arguments_invalid"),
        ("[1]", "not a JSON object", "tool_arguments_invalid"),
    ],
)
async def test_the_model_is_told_what_went_wrong(start: Start, arguments: str, told: str, code: str) -> None:
    async with start(reply(calling(called(arguments=arguments))), reply(completion()), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(TOOLS)
        record = await proxy.record(got)
    turn, result = proxy.upstream.calls[1].json["messages"][1:]
    assert told in result["content"]
    assert isinstance(json.loads(turn["tool_calls"][0]["function"]["arguments"]), dict)
    assert ([code], code) == ([v["code"] for v in record["detail"]["verdicts"]], record["detail"]["changes"][0]["error"])
    assert ("warn" if "invalid" in code else "error") == got.verdict


async def test_a_call_without_arguments_has_an_empty_object(start: Start) -> None:
    async with start(reply(calling(called(arguments=""))), reply(completion()), policy=TAP, stages=ALL) as proxy:
        await proxy.post(TOOLS)
    turn, result = proxy.upstream.calls[1].json["messages"][1:]
    assert ("{}", "found for None") == (turn["tool_calls"][0]["function"]["arguments"], result["content"])


async def test_on_error_closed_refuses_the_request(start: Start) -> None:
    closed = "name: p\ndelivery: tap\nstages: [finder: {on_error: closed}]\n"
    async with start(reply(calling(called(arguments='{"q":"boom"}'))), policy=closed, stages=ALL) as proxy:
        got = await proxy.post(TOOLS)
    assert (400, "check_failed") == (got.status, got.json["error"]["param"])


@pytest.mark.parametrize("policy", DELIVERIES)
@pytest.mark.parametrize("streams", [True, False])
async def test_an_upstreams_error_passes_unchanged_while_nothing_has_left(start: Start, policy: str, streams: bool) -> None:
    error = json.dumps({"error": {"message": "busy", "code": "rate_limit"}}, indent=1).encode()
    first = stream(call_events(called())) if streams else reply(calling(called(), text="Hm."))
    async with start(first, reply(error, 429, {"retry-after": "7"}), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else TOOLS)
    assert (429, error, "7") == (got.status, got.body, got.headers["retry-after"])


async def test_an_upstreams_error_is_an_event_once_bytes_have_left(start: Start) -> None:
    error = {"message": "busy", "code": "rate_limit"}
    for policy in (TAP, GATE):
        first = stream(call_events(called(), words=["Let me look. "]))
        async with start(first, reply({"error": error}, 429), policy=policy, stages=ALL) as proxy:
            got = await proxy.post(STREAM)
        assert 200 == got.status
        assert [{"error": error}] == [event for event in chunks(got.body) if "error" in event]
        assert b"Let me look." in got.body
        assert got.body.endswith(b"data: [DONE]\n\n")


async def test_a_held_stream_becomes_the_upstreams_error(start: Start) -> None:
    first = stream(call_events(called(), words=["Let me look."]))
    async with start(first, reply({"error": {"message": "busy"}}, 429), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (429, {"error": {"message": "busy"}}) == (got.status, got.json)


async def test_an_upstream_that_answers_with_something_else_in_mid_stream_is_an_error(start: Start) -> None:
    first = stream(call_events(called(), words=["Let me look. "]))
    async with start(first, reply(b"<html><title>Maintenance</title></html>"), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert "Maintenance" == chunks(got.body)[-1]["error"]["message"]
    assert got.body.endswith(b"data: [DONE]\n\n")


async def test_a_later_stream_that_breaks_off_says_so(start: Start) -> None:
    first = stream(call_events(called(), words=["Let me look. "]))
    async with start(first, stream(streamed(["Bo"])[:2], broken=True), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"upstream_unreachable" in got.body
    assert got.body.endswith(b"data: [DONE]\n\n")


async def test_a_call_that_breaks_off_is_not_run(start: Start) -> None:
    async with start(stream(call_events(called())[:3], broken=True), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (502, "upstream_unreachable") == (got.status, got.json["error"]["code"])
    assert 1 == len(proxy.upstream.calls)


@pytest.mark.parametrize("streams", [True, False])
async def test_a_call_that_a_limit_cut_is_not_run(start: Start, streams: bool) -> None:
    cut = called(arguments='{"q":"ho')
    answer = stream(call_events(cut, finish="length")) if streams else reply(calling(cut, finish="length"))
    async with start(answer, policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else TOOLS)
    finish = read(got.body).finish_reason if streams else got.json["choices"][0]["finish_reason"]
    assert ("length", 1, False) == (finish, len(proxy.upstream.calls), FIND.encode() in got.body)


async def test_an_answer_too_long_to_keep_is_an_error(start: Start) -> None:
    config = "server: {max_answer_bytes: 500}\n"
    for answer, body in ((stream(streamed(["word "] * 50)), STREAM), (reply(completion("word " * 500)), TOOLS)):
        async with start(answer, policy=TAP, stages=ALL, config=config) as proxy:
            got = await proxy.post(body)
        assert b"max_answer_bytes" in got.body


async def test_a_client_that_leaves_stops_the_call_in_flight(start: Start) -> None:
    options = "max_concurrency: 1, retries: {attempts: 0}"
    async with start(stream(call_events(called())), hang, policy=TAP, stages=ALL, upstream_options=options) as proxy:
        request = asyncio.ensure_future(proxy.post(STREAM))
        while len(proxy.upstream.calls) < 2:
            await asyncio.sleep(0.005)
        request.cancel()
        async with asyncio.timeout(2):
            await proxy.upstream.gone.wait()
        proxy.upstream.say(reply(completion("Free again.")))
        assert "Free again." == (await proxy.post(TOOLS)).json["choices"][0]["message"]["content"]


async def test_a_round_does_not_wait_for_the_place_that_the_one_before_holds(start: Start) -> None:
    options = "max_concurrency: 1, max_queue: 0, retries: {attempts: 0}"
    async with start(reply(calling(called())), reply(completion()), policy=TAP, stages=ALL, upstream_options=options) as proxy:
        assert 200 == (await proxy.post(TOOLS)).status


async def test_a_flood_of_calls_is_not_run_to_its_end(start: Start) -> None:
    calls = [called(identity=f"call_{i}") for i in range(MAX_CALLS + 2)]
    async with start(reply(calling(*calls)), reply(completion()), policy=TAP, stages=ALL) as proxy:
        record = await proxy.record(await proxy.post(TOOLS))
    results = [message["content"] for message in proxy.upstream.calls[1].json["messages"][2:]]
    assert ["found for hotel"] * MAX_CALLS + [TOO_MANY] * 2 == results
    assert MAX_CALLS == len(record["detail"]["changes"])


async def test_a_result_that_is_not_unicode_does_not_end_the_request(start: Start) -> None:
    class Odd(Finder):
        async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
            return "\ud800"

    async with start(reply(calling(called())), reply(completion()), policy=TAP, stages=(*STAGES, Odd)) as proxy:
        assert 200 == (await proxy.post(TOOLS)).status
    assert "?" == proxy.upstream.calls[1].json["messages"][2]["content"]
