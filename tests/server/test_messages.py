"""``POST /v1/messages`` over the wire: bytes, errors, keys, deliveries, the proxy's own tools and answers."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from proxy.exchange import Answer, Choice, Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage, Stage
from proxy.stages.registry import STAGES
from proxy.testing import reply, stream
from tests.conftest import Start
from tests.messages import ASK, PATH, STREAM, THINKING, USAGE, event, message, payloads, read, streamed, text, tool, use
from tests.own_tools import ALL as FINDING
from tests.own_tools import FIND

EVERY = (THINKING, text("Let me look. "), use(), use("list", {}, "toolu_2"))


class Marking(SentenceStage):
    """Changes sentences as they leave, by what stands in them."""

    name = "marking"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        if "SECRET" in sentence.text:
            return Verdict("marking", "warn", code="taken", replacement="")
        if "WRONG" in sentence.text:
            return Verdict("marking", "warn", code="marked", replacement=sentence.text.strip().replace("WRONG", "unclear"))
        if "BAD" in sentence.text:
            return Verdict("marking", "block", code="bad", message="that must not leave")
        return Verdict("marking", "pass")


class Answering(Stage):
    """Answers in the model's stead."""

    name = "answering"

    async def on_request(self, exchange: Exchange) -> None:
        exchange.answer = Answer((Choice(0, text="Nothing is known of it.", finish_reason="stop"),))


class Asking(Stage):
    """Asks for another answer until one is good."""

    name = "asking"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        assert exchange.answer is not None
        if "Good" not in exchange.answer.text and exchange.attempts.possible:
            said = exchange.answer.text
            exchange.retry = [*exchange.messages, {"role": "assistant", "content": said}, {"role": "user", "content": "Better, please."}]
        return Verdict("asking", "pass")


ALL = (*STAGES, Marking, Answering, Asking)
GATE, HOLD, TAP = (f"name: p\ndelivery: {how}\nstages: [marking: {{}}]\n" for how in ("gate", "hold", "tap"))
DELIVERIES = (GATE, HOLD, TAP)


async def test_a_body_and_its_answer_pass_byte_for_byte(start: Start) -> None:
    body = b'{"model":"claude-sonnet-4-5" ,"max_tokens":10,"messages":[{"role":"user","content":"Gr\\u00fc\\u00dfe"}],"x":1.0}'
    answer = json.dumps(message(*EVERY)).encode()
    async with start(reply(answer, headers={"request-id": "req_1"})) as proxy:
        got = await proxy.post(body, PATH, anthropic_version="2023-06-01", anthropic_beta="b-1", x_api_key="client")
    call = proxy.upstream.calls[0]
    assert (200, answer, body, "/v1/messages") == (got.status, got.body, call.body, call.path)
    assert ("req_1", "2023-06-01", "b-1") == (got.headers["request-id"], call.headers["anthropic-version"], call.headers["anthropic-beta"])


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_a_stream_of_which_nothing_is_changed_keeps_every_event(start: Start, policy: str) -> None:
    events = streamed(*EVERY)
    async with start(stream(events), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH + "?beta=true")
    assert [e for e in events if b"ping" not in e] == [e + b"\n\n" for e in got.body.split(b"\n\n") if e and b"ping" not in e]


@pytest.mark.parametrize("policy", [GATE, HOLD])
async def test_a_changed_sentence_leaves_the_blocks_around_it_as_they_were(start: Start, policy: str) -> None:
    events = streamed(THINKING, text("It is clear. The day is WRONG here. Go on."), use())
    async with start(stream(events), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    assert [THINKING, text("It is clear. The day is unclear here. Go on."), use()] == read(got.body)["content"]


@pytest.mark.parametrize("policy", [GATE, HOLD])
async def test_a_block_that_checks_have_emptied_is_left_out(start: Start, policy: str) -> None:
    events = streamed(text("All is well."), THINKING, text("The SECRET is out."), use())
    async with start(stream(events), policy=policy, stages=ALL) as proxy:
        got = read((await proxy.post(STREAM, PATH)).body)
    assert [text("All is well."), THINKING, use()] == got["content"]


async def test_a_body_changes_where_a_sentence_did(start: Start) -> None:
    whole = message(THINKING, text("It is clear. "), text("The day is WRONG here."), use())
    async with start(reply(whole), policy=HOLD, stages=ALL) as proxy:
        got = (await proxy.post(ASK, PATH)).json
    assert {**whole, "content": [THINKING, text("It is clear. "), text("The day is unclear here."), use()]} == got


async def test_the_gate_ends_a_blocked_stream_as_a_refusal(start: Start) -> None:
    events = streamed(THINKING, text("Fine so far. This is BAD. More."), use())
    async with start(stream(events), policy=GATE, stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
        record = await proxy.record(got)
    whole = read(got.body)
    assert ([THINKING, text("Fine so far.")], "refusal") == (whole["content"], whole["stop_reason"])
    assert ("message_stop", "block") == (payloads(got.body)[-1]["type"], record["outcome"])


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_a_block_before_anything_left_is_the_apis_error(start: Start, body: dict[str, Any]) -> None:
    blocks = [text("This is BAD.")]
    async with start(stream(streamed(*blocks)) if "stream" in body else reply(message(*blocks)), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(body, PATH)
    error = got.json["error"]
    assert (400, "error") == (got.status, got.json["type"])
    assert ("invalid_request_error", "policy_blocked", "bad") == (error["type"], error["code"], error["param"])


@pytest.mark.parametrize("body", [ASK, STREAM])
async def test_a_stages_own_answer_is_a_message(start: Start, body: dict[str, Any]) -> None:
    async with start(policy="name: p\ndelivery: gate\nstages: [answering: {}]\n", stages=ALL) as proxy:
        got = await proxy.post(body, PATH, x_groundwire_inline="1")
    whole = read(got.body) if "stream" in body else got.json
    assert ([text("Nothing is known of it.")], "end_turn", "assistant") == (whole["content"], whole["stop_reason"], whole["role"])
    last = payloads(got.body)[-1] if "stream" in body else whole
    assert ("unchecked", []) == (last["groundwire"]["verdict"], proxy.upstream.calls)


@pytest.mark.parametrize("policy", DELIVERIES)
async def test_the_inline_verdict_is_a_field_of_the_message_or_of_its_last_event(start: Start, policy: str) -> None:
    async with start(stream(streamed()), reply(message()), policy=policy, stages=ALL) as proxy:
        events = payloads((await proxy.post(STREAM, PATH, x_groundwire_inline="1")).body)
        whole = (await proxy.post(ASK, PATH, x_groundwire_inline="1")).json
    assert ["message_stop"] == [e["type"] for e in events if "groundwire" in e]
    assert ("unsure", "unsure", message()) == (
        events[-1]["groundwire"]["verdict"],
        whole["groundwire"]["verdict"],
        {key: value for key, value in whole.items() if key != "groundwire"},
    )


@pytest.mark.parametrize("streaming", [False, True])
async def test_another_answer_is_asked_for_and_its_usage_is_that_of_both(start: Start, streaming: bool) -> None:
    first, second = (text("Poor."),), (THINKING, text("Good."))
    replies = [stream(streamed(*blocks)) if streaming else reply(message(*blocks)) for blocks in (first, second)]
    async with start(*replies, policy="name: p\ndelivery: hold\nstages: [asking: {}]\n", stages=ALL) as proxy:
        got = await proxy.post(STREAM if streaming else ASK, PATH)
    whole = read(got.body) if streaming else got.json
    assert [THINKING, text("Good.")] == whole["content"]
    assert {name: 2 * tokens for name, tokens in USAGE.items()} == {name: whole["usage"][name] for name in USAGE}
    more = [{"role": "assistant", "content": "Poor."}, {"role": "user", "content": "Better, please."}]
    assert [*ASK["messages"], *more] == proxy.upstream.calls[1].json["messages"]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("how", ["tap", "gate", "hold"])
async def test_the_proxys_own_tools_are_answered_and_never_seen(start: Start, how: str, streaming: bool) -> None:
    stages = "finder: {timeout_ms: 200}, listening: {}"
    first = (THINKING, text("Let me look."), use(FIND, {"q": "hotel"}))
    second = (text("Booked."), use("search_flights", {"to": "Oslo"}, "toolu_9"))
    replies = [stream(streamed(*b)) if streaming else reply(message(*b)) for b in (first, second)]
    body = {**(STREAM if streaming else ASK), "tools": [tool("search_flights")]}
    async with start(*replies, policy=f"name: p\ndelivery: {how}\nstages: [{stages}]\n", stages=FINDING) as proxy:
        got = await proxy.post(body, PATH)
    whole = read(got.body) if streaming else got.json
    seen = [*first[:2], *second] if streaming and how != "hold" else list(second)
    assert (seen, "tool_use") == (whole["content"], whole["stop_reason"])
    assert (18, 6) == (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"])
    asked = proxy.upstream.calls[1].json
    assert ["search_flights", FIND, "book_hotel"] == [one["name"] for one in asked["tools"]]
    turn, answered = asked["messages"][-2:]
    assert {"role": "assistant", "content": list(first)} == turn
    assert {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "found for hotel"}]} == answered


async def test_an_error_between_two_answers_is_told_in_the_stream(start: Start) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    first = stream(streamed(text("Let me look."), use(FIND, {"q": "hotel"})))
    policy = "name: p\ndelivery: tap\nstages: [finder: {timeout_ms: 200}]\n"
    async with start(first, reply(error, 529), policy=policy, stages=FINDING) as proxy:
        got = await proxy.post({**STREAM, "tools": [tool("search_flights")]}, PATH)
    assert error == payloads(got.body)[-1]


# ---- errors ----


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        ({**ASK, "messages": "x"}, "messages"),
        ({**ASK, "messages": [{"role": "user", "content": [{"text": "x"}]}]}, "messages[0].content[0].type"),
        ({**ASK, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        ({**ASK, "system": 5}, "system"),
        ({**ASK, "tools": [5]}, "tools[0]"),
        ({**ASK, "stream": "yes"}, "stream"),
        ({**ASK, "groundwire": {"context": 5}}, "groundwire"),
    ],
    ids=str,
)
async def test_bad_input_is_refused_in_the_apis_envelope_with_the_fields_path(start: Start, body: object, param: str | None) -> None:
    async with start() as proxy:
        got = await proxy.post(body, PATH)
    error = got.json["error"]
    assert (400, "error", "invalid_request_error", param) == (got.status, got.json["type"], error["type"], error["param"])
    assert [] == proxy.upstream.calls


@pytest.mark.parametrize(
    "brought", [{"thread": {"type": "create"}}, {"thread": {"type": "continue", "previous_message_id": "msg_1"}, "messages": []}]
)
async def test_a_thread_is_refused_so_that_the_apis_libraries_send_the_whole_conversation(start: Start, brought: dict[str, Any]) -> None:
    async with start() as proxy:
        got = await proxy.post({**ASK, **brought}, PATH)
    error = got.json["error"]
    assert (400, "thread", {"error_code": "thread_unsupported_request"}) == (got.status, error["param"], error["details"])
    assert [] == proxy.upstream.calls


async def test_the_proxys_errors_have_the_apis_types(start: Start) -> None:
    key = "keys: [{name: k, sha256: " + "ab" * 32 + "}]\n"
    async with start(config=key) as proxy:
        wrong = await proxy.post(ASK, PATH, x_api_key="nobody")
        none = await proxy.post(ASK, PATH)
        counting = await proxy.post(ASK, PATH + "/count_tokens", x_api_key="nobody")
        listing = await proxy.get("/v1/models", anthropic_version="2023-06-01")
        nowhere = await proxy.post(ASK, "/nowhere/v1/messages")
    assert [401, 401, 401, 401, 404] == [got.status for got in (wrong, none, counting, listing, nowhere)]
    assert ["authentication_error"] * 4 + ["not_found_error"] == [
        got.json["error"]["type"] for got in (wrong, none, counting, listing, nowhere)
    ]
    assert "x-api-key: KEY" in none.json["error"]["message"]


async def test_a_client_is_known_by_either_header(start: Start) -> None:
    digest = hashlib.sha256(b"gw-1").hexdigest()
    async with start(reply(message()), config=f"keys: [{{name: k, sha256: {digest}}}]\n") as proxy:
        answers = [await proxy.post(ASK, PATH, **header) for header in ({"x_api_key": "gw-1"}, {"authorization": "Bearer gw-1"})]
        clients = {(await proxy.record(answer))["client"] for answer in answers}
    assert ([200, 200], {"k"}) == ([answer.status for answer in answers], clients)
    assert "gw-1" not in str([call.headers for call in proxy.upstream.calls])


async def test_an_upstreams_own_error_passes_unchanged(start: Start) -> None:
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}, "request_id": "r"}).encode()
    long = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    async with start(reply(body, 529, {"retry-after": "17"}), reply(long, 400)) as proxy:
        got, too_long = await proxy.post(ASK, PATH), await proxy.post(ASK, PATH)
    assert (529, body, "17") == (got.status, got.body, got.headers["retry-after"])
    assert ("upstream_overloaded_error", "upstream_context_length_exceeded") == (
        got.headers["x-groundwire-warnings"],
        too_long.headers["x-groundwire-warnings"],
    )


@pytest.mark.parametrize("policy", [GATE, TAP])
async def test_a_stream_that_breaks_off_ends_with_the_apis_error_event(start: Start, policy: str) -> None:
    async with start(stream(streamed(text("It goes on. And on."))[:-4], broken=True), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
    last = payloads(got.body)[-1]
    assert ("error", "api_error", "upstream_unreachable") == (last["type"], last["error"]["type"], last["error"]["code"])


@pytest.mark.parametrize("policy", [GATE, HOLD, TAP])
async def test_an_error_event_of_the_upstreams_own_passes_and_ends_the_stream(start: Start, policy: str) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    async with start(stream([*streamed(text("It goes on."))[:-4], event(error)]), policy=policy, stages=ALL) as proxy:
        got = await proxy.post(STREAM, PATH)
        record = await proxy.record(got)
    assert (error, "upstream_error") == (payloads(got.body)[-1], record["outcome"])


async def test_count_tokens_is_passed_through(start: Start) -> None:
    body = json.dumps({key: value for key, value in ASK.items() if key != "max_tokens"}).encode()
    async with start(reply({"input_tokens": 14}), policy=HOLD, stages=ALL) as proxy:
        got = await proxy.post(body, PATH + "/count_tokens")
    assert ({"input_tokens": 14}, "skipped", body) == (got.json, got.verdict, proxy.upstream.calls[0].body)


@pytest.mark.parametrize(
    ("status", "answer", "expected"),
    [
        (404, b"<html>no such path</html>", 200),
        (405, json.dumps({"error": {"message": "m", "type": "t", "code": "c"}}).encode(), 200),
        (404, json.dumps({"type": "error", "error": {"type": "not_found_error", "message": "model: x"}}).encode(), 404),
        (429, json.dumps({"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}}).encode(), 429),
    ],
    ids=["no path", "no method", "no model", "too many"],
)
async def test_tokens_are_counted_here_only_where_the_upstream_cannot(start: Start, status: int, answer: bytes, expected: int) -> None:
    async with start(reply(answer, status)) as proxy:
        got = await proxy.post({key: value for key, value in ASK.items() if key != "max_tokens"}, PATH + "/count_tokens")
    assert expected == got.status
    if expected == 200:
        assert ("tokens_estimated", True) == (got.headers["x-groundwire-warnings"], 5 < got.json["input_tokens"] < 30)
    else:
        assert answer == got.body


async def test_a_tool_choice_of_an_odd_shape_is_the_providers_to_refuse(start: Start) -> None:
    async with start(reply({"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}, 400)) as proxy:
        got = await proxy.post({**ASK, "tool_choice": {"type": []}}, PATH)
    assert (400, "no") == (got.status, got.json["error"]["message"])
