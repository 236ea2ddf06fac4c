"""Tools that the proxy answers itself: the client sees one answer, whatever it took."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from proxy.exchange import Exchange, ToolCall
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, reply, stream, streamed
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
    Passing,
    call_events,
    called,
    calling,
    chunks,
    function,
    names,
    read,
    usage_event,
)

# ---- one call, one further answer ----


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_a_body_is_the_last_one_with_the_usage_of_all(start: Start, policy: str) -> None:
    last = completion("Booked.")
    async with start(reply(calling(called())), reply(last), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(TOOLS)
    assert {**last, "usage": {"prompt_tokens": 18, "completion_tokens": 6, "total_tokens": 24}} == got.json
    assert 2 == len(proxy.upstream.calls)


async def test_the_next_request_carries_the_turn_and_what_was_found(start: Start) -> None:
    async with start(reply(calling(called(), text="Let me look.")), reply(completion()), policy=TAP, stages=ALL) as proxy:
        await proxy.post({**TOOLS, "temperature": 0.5, "tool_choice": "required", "parallel_tool_calls": False})
    first, second = proxy.upstream.calls
    assert [["search_flights", FIND], ["search_flights", FIND, "book_hotel"]] == [names(first), names(second)]
    turn = {"role": "assistant", "content": "Let me look.", "tool_calls": [called()]}
    assert [*CHAT["messages"], turn, {"role": "tool", "tool_call_id": "call_1", "content": "found for hotel"}] == second.json["messages"]
    rest = {k: v for k, v in first.json.items() if k not in ("messages", "tools")}
    assert rest == {k: v for k, v in second.json.items() if k not in ("messages", "tools")}


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_a_stream_is_the_last_one_byte_for_byte_when_nothing_had_left(start: Start, policy: str) -> None:
    last = streamed(["Booked", " it."])
    async with start(stream(call_events(called())), stream(last), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(last) == got.body


@pytest.mark.parametrize("policy", [TAP, GATE])
async def test_text_that_has_left_stays_and_the_next_answer_goes_on_with_its_stream(start: Start, policy: str) -> None:
    last = streamed(["Booked", " it."])
    async with start(stream(call_events(called(), words=["Let me", " look."])), stream(last), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert ("Let me look.\n\nBooked it.", "stop", ()) == (read(got.body).text, read(got.body).finish_reason, read(got.body).tool_calls)
    events = chunks(got.body)
    assert {"one"} == {event["id"] for event in events}
    assert 1 == sum("role" in event["choices"][0]["delta"] for event in events)
    assert 1 == sum(event["choices"][0]["finish_reason"] is not None for event in events)


async def test_a_held_stream_drops_what_was_said_before_the_call(start: Start) -> None:
    Passing.seen = []
    last = streamed(["Booked it."])
    async with start(stream(call_events(called(), words=["Let me look."])), stream(last), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (b"".join(last), ["Booked it."]) == (got.body, Passing.seen)


async def test_a_client_that_wants_json_gets_no_text_from_before_the_call(start: Start) -> None:
    last = streamed(['{"a":', "1}"])
    async with start(stream(call_events(called(), words=['{"a"'])), stream(last), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post({**STREAM, "response_format": {"type": "json_object"}})
    assert b"".join(last) == got.body


async def test_text_leaves_at_once_while_the_answer_goes_on(start: Start) -> None:
    later = asyncio.Event()
    first = call_events(called(), words=["Let me look."])
    slow = stream(first, wait={2: later})
    async with start(slow, stream(streamed(["Done."])), policy=TAP, stages=ALL) as proxy, proxy.open(STREAM) as response:
        got = b""
        while b"Let me look." not in got:
            got += await response.content.readany()
        assert b"".join(first[:2]) == got
        later.set()
        got += await response.content.read()
    assert "Let me look.\n\nDone." == read(got).text


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_the_usage_chunk_counts_every_answer(start: Start, policy: str) -> None:
    first, last = call_events(called()), streamed(["Booked."])
    first.insert(-1, usage_event(10, 4))
    last.insert(-1, usage_event(20, 3, "two"))
    asked = {**STREAM, "stream_options": {"include_usage": True}}
    async with start(stream(first), stream(last), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(asked)
    found = [event for event in chunks(got.body) if event.get("usage")]
    total = {"prompt_tokens": 30, "completion_tokens": 7, "total_tokens": 37, "prompt_tokens_details": {"cached_tokens": 4}}
    assert [([], total)] == [(event["choices"], event["usage"]) for event in found]


async def test_nobody_gets_a_usage_chunk_that_was_not_asked_for(start: Start) -> None:
    async with start(stream(call_events(called())), stream(streamed(["Booked."])), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"usage" not in got.body
    assert all("stream_options" not in call.json for call in proxy.upstream.calls)


async def test_reasoning_and_unknown_fields_go_back_to_the_provider(start: Start) -> None:
    signed = called(extra_content={"signature": "s"})
    events = [
        chunk({"role": "assistant", "reasoning_content": "Hm"}),
        chunk({"reasoning_content": "m."}),
        chunk({"tool_calls": [{**signed, "index": 0}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    async with start(stream(events), stream(streamed(["Done."])), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    turn = {"role": "assistant", "content": None, "reasoning_content": "Hmm.", "tool_calls": [signed]}
    assert turn == proxy.upstream.calls[1].json["messages"][1]
    assert ("Hmm.", "Done.") == (read(got.body).reasoning, read(got.body).text)


async def test_several_own_calls_of_one_answer_are_all_answered(start: Start) -> None:
    calls = [called(), called(arguments='{"q":"taxi"}', identity="call_2")]
    for answers, body in (
        ((stream(call_events(*calls)), stream(streamed(["Done."]))), STREAM),
        ((reply(calling(*calls)), reply(completion())), TOOLS),
    ):
        async with start(*answers, policy=TAP, stages=ALL) as proxy:
            await proxy.post(body)
        results = proxy.upstream.calls[1].json["messages"][2:]
        assert [("call_1", "found for hotel"), ("call_2", "found for taxi")] == [(m["tool_call_id"], m["content"]) for m in results]


# ---- answers that are left alone ----


@pytest.mark.parametrize("policy", DELIVERIES)
@pytest.mark.parametrize("identity", ["call_1", ""])
async def test_an_answer_without_own_calls_passes_in_its_own_bytes(start: Start, policy: str, identity: str) -> None:
    theirs = called("search_flights", identity=identity)
    events = call_events(theirs, called("book", identity=identity + "2"), words=["Hm.", " "])
    events.insert(2, b": comment\n\n")
    body = json.dumps(calling(theirs, text="Hm."), indent=1).encode()
    async with start(stream(events), reply(body), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM), await proxy.post(TOOLS)
    assert body == got[1].body
    if policy != GATE:
        assert b"".join(events) == got[0].body
    assert sorted(events) == sorted(event + b"\n\n" for event in got[0].body.split(b"\n\n")[:-1])  # a gate lets calls pass text
    assert 2 == len(proxy.upstream.calls)


async def test_the_clients_own_tool_of_that_name_stays_the_clients(start: Start) -> None:
    events = call_events(called())
    for own in (TAP, "name: p\ndelivery: tap\nstages: [careless]\n"):
        async with start(stream(events), policy=own, stages=ALL) as proxy:
            got = await proxy.post({**STREAM, "tools": [function(FIND)]})
        assert b"".join(events) == got.body


@pytest.mark.parametrize("extra", [{"n": 2}, {"tool_choice": "none"}])
async def test_a_tool_whose_calls_cannot_be_answered_is_not_offered(start: Start, extra: dict[str, Any]) -> None:
    for own in (TAP, "name: p\ndelivery: tap\nstages: [careless]\n"):
        async with start(policy=own, stages=ALL) as proxy:
            await proxy.post({**TOOLS, **extra})
        assert ["search_flights"] == names(proxy.upstream.calls[0])


async def test_a_stage_that_is_left_out_answers_nothing(start: Start) -> None:
    body = calling(called())
    async with start(reply(body), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(TOOLS, x_groundwire_skip="finder")
    assert body == got.json


# ---- own and the client's calls in one answer ----


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_mixed_calls_run_and_leave_only_the_clients(start: Start, policy: str) -> None:
    mixed = [called(), called("search_flights", identity="call_2"), called(identity="call_3"), called("book", identity="call_4")]
    async with start(stream(call_events(*mixed, words=["So."])), reply(calling(*mixed)), policy=policy, stages=ALL) as proxy:
        streamed_answer = await proxy.post(STREAM)
        whole = (await proxy.post(TOOLS)).json["choices"][0]
        record = await proxy.record(streamed_answer)
    found = read(streamed_answer.body)
    left = [(0, "call_2", "search_flights", '{"q":"hotel"}'), (1, "call_4", "book", '{"q":"hotel"}')]
    assert left == [(c.index, c.id, c.name, c.arguments) for c in found.tool_calls]
    indexes = [call["index"] for event in chunks(streamed_answer.body) for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert [0, 0, 0, 1, 1, 1] == indexes
    assert ("So.", "tool_calls") == (found.text, found.finish_reason)
    assert [mixed[1], mixed[3]] == whole["message"]["tool_calls"]
    assert 2 == len(proxy.upstream.calls)
    assert 2 == len(record["detail"]["changes"])


def google(signature: str) -> dict[str, Any]:
    return {"extra_content": {"google": {"thought_signature": signature}}}


@pytest.mark.parametrize(
    ("model", "signed"), [("gemini-3-pro-preview", google("skip_thought_signature_validator")), ("gemini-2.5-pro", {})]
)
@pytest.mark.parametrize("policy", DELIVERIES)
@pytest.mark.parametrize("index", [None, 0])
async def test_a_clients_call_whose_signature_stays_with_an_own_one_says_so(
    start: Start, policy: str, model: str, signed: Any, index: int | None
) -> None:
    mixed = [called(**google("CiQB")), called("search_flights", identity="call_2"), called("book", identity="call_3")]
    places = [index if index is not None else i for i in range(3)]
    deltas = [{"tool_calls": [{**call, "index": place}]} for call, place in zip(mixed, places, strict=True)]
    events = [chunk(delta, model=model) for delta in deltas] + [chunk({}, "tool_calls", model=model), b"data: [DONE]\n\n"]
    async with start(stream(events), reply(calling(*mixed, model=model)), policy=policy, stages=ALL) as proxy:
        streamed_answer = await proxy.post(STREAM)
        whole = (await proxy.post(TOOLS)).json["choices"][0]
    assert [{**mixed[1], **signed}, mixed[2]] == whole["message"]["tool_calls"]
    told = [call for event in chunks(streamed_answer.body) for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert [{**mixed[1], **signed, "index": 0}, {**mixed[2], "index": 1}] == told


async def test_a_clients_first_call_keeps_its_own_signature(start: Start) -> None:
    calls = [called("search_flights", identity="call_2", **google("EjQK")), called()]
    async with start(reply(calling(*calls, model="gemini-3-pro-preview")), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(TOOLS)
    assert calls[:1] == got.json["choices"][0]["message"]["tool_calls"]


async def test_the_clients_call_before_an_own_one_passes_in_its_own_bytes(start: Start) -> None:
    events = call_events(called("search_flights", identity="call_2"), called())
    async with start(stream(events), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert got.body.startswith(b"".join(events[:4]))
    assert ["search_flights"] == [call.name for call in read(got.body).tool_calls]


# ---- headers and the record ----


async def test_the_record_says_which_tools_were_answered_and_no_text(start: Start) -> None:
    async with start(stream(call_events(called())), stream(streamed(["Booked."])), policy=TAP, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
        figures = (await proxy.get("/groundwire/v1/metrics")).json
    change = {"stage": "finder", "what": "answered tool", "tool": FIND, "arguments_characters": 13, "result_characters": 15}
    assert [change] == record["detail"]["changes"]
    assert ("Booked.", 2) == (json.loads(record["answer_body"])["choices"][0]["text"], record["detail"]["attempts"])
    assert "finder.tool" in record["detail"]["timings_ms"]
    assert 1 == figures["counters"]["tools.answered_count"]


async def test_the_overhead_counts_the_tool_but_not_the_model(start: Start) -> None:
    class Slow(Finder):
        async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
            await asyncio.sleep(0.05)
            return "found"

    async with start(reply(calling(called())), reply(completion()), policy=TAP, stages=(*STAGES, Slow)) as proxy:
        got = await proxy.post(TOOLS)
    assert 50 <= float(got.headers["x-groundwire-overhead-ms"])


async def test_another_request_has_another_idempotency_key(start: Start) -> None:
    async with start(reply(calling(called())), reply(completion()), policy=TAP, stages=ALL) as proxy:
        await proxy.post(TOOLS, idempotency_key="k")
    assert ["k", "k-1"] == [call.headers["idempotency-key"] for call in proxy.upstream.calls]
