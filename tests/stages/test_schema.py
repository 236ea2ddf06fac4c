"""The stage `schema`: what is mended, asked again, passed and refused, in a body and in a stream, and what the client and the record see."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.cli.explain import explain_all
from proxy.errors import ConfigError
from proxy.exchange import Answer, Choice, Exchange, ToolCall, Verdict
from proxy.pipeline import Pipeline
from proxy.policy.loading import load_policy
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.stages.schema import Schema, SchemaOptions
from proxy.testing import CountedNames, chunk, completion, make_exchange, make_ports, reply, stream, streamed
from tests.conftest import CHAT, Start
from tests.language.json.test_schemas import HOSTILE_PATTERN, SEARCH
from tests.own_tools import FIND, Finder, call_events, called, calling, chunks, read, usage_event

SEARCH_TOOL = {"type": "function", "function": {"name": "search", "parameters": SEARCH}}
TOOLS = {**CHAT, "tools": [SEARCH_TOOL]}
FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
JSON = {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"name": "form", "schema": FORM}}}
GOOD, CRUMPLED, WRONG, BROKEN = '{"query": "x"}', "{'query': 'x',}", '{"query": 1}', '{"query": "x'
MENDED = '{"query": "x"}'


def policy(options: str = "", delivery: str = "hold", more: str = "") -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [schema: {{{options}}}{more}]\n"


def call(arguments: str, name: str = "search", identity: str = "call_1") -> dict[str, Any]:
    return called(name, arguments, identity)


def said(got: Any, streams: bool) -> list[str]:
    """The arguments, or else the text, that the client got."""
    if streams:
        choice = read(got.body)
        return [c.arguments for c in choice.tool_calls] or [choice.text]
    message = got.json["choices"][0]["message"]
    return [c["function"]["arguments"] for c in message.get("tool_calls") or ()] or [message["content"]]


def answering(*calls: Mapping[str, Any], streams: bool, **more: Any) -> Any:
    return stream(call_events(*calls, **more)) if streams else reply(calling(*calls, **more))


def of(record: Any, code: str = "") -> list[Any]:
    return [v for v in record["detail"]["verdicts"] if v["stage"] == "schema" and (not code or v.get("code") == code)]


@pytest.fixture(params=[True, False], ids=["stream", "body"])
def streams(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# ---- what conforms ----


async def test_an_answer_that_conforms_leaves_byte_for_byte(start: Start, streams: bool) -> None:
    events = call_events(call(GOOD))
    body = json.dumps(calling(call(GOOD)), indent=1).encode()
    async with start(stream(events) if streams else reply(body), policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "stream": streams})
        record = await proxy.record(got)
    assert (b"".join(events) if streams else body, "unsure") == (got.body, got.verdict)
    assert [{"action": "none", "calls": 1, "texts": 0}] == [v["detail"] for v in of(record)]


async def test_an_answer_with_nothing_to_check_gets_no_verdict(start: Start) -> None:
    async with start(policy=policy()) as proxy:
        record = await proxy.record(await proxy.post(TOOLS))
    assert "verdicts" not in record["detail"]


@pytest.mark.parametrize("text", ["", "Let me look."])
async def test_text_beside_a_call_need_not_be_json(start: Start, text: str) -> None:
    async with start(reply(calling(call(GOOD), text=text)), policy=policy()) as proxy:
        got = await proxy.post({**JSON, **TOOLS})
    assert ("unsure", 1) == (got.verdict, len(proxy.upstream.calls))


async def test_guided_json_is_judged_like_a_response_format(start: Start) -> None:
    async with start(reply(completion("No JSON")), policy=policy("retries: 0")) as proxy:
        record = await proxy.record(await proxy.post({**CHAT, "guided_json": FORM}))
    assert ["response_not_json"] == [verdict["code"] for verdict in of(record)]


async def test_a_refusal_and_a_filtered_answer_are_not_judged(start: Start) -> None:
    refused = completion()
    refused["choices"][0]["message"] |= {"content": None, "refusal": "No."}
    filtered = completion("Hm")
    filtered["choices"][0]["finish_reason"] = "content_filter"
    async with start(reply(refused), reply(filtered), policy=policy()) as proxy:
        assert ["unchecked", "unchecked"] == [(await proxy.post(JSON)).verdict for _ in range(2)]
    assert 2 == len(proxy.upstream.calls)


async def test_a_call_of_a_tool_that_an_earlier_stage_left_out_is_known(start: Start) -> None:
    class Fewer(Stage):
        name = "fewer"

        async def on_request(self, exchange: Exchange) -> None:
            exchange.tools = exchange.tools[:1]

    other = {"type": "function", "function": {"name": "other"}}
    async with start(reply(calling(call("{}", "other"))), policy=policy(more=", fewer"), stages=(*STAGES, Fewer)) as proxy:
        got = await proxy.post({**TOOLS, "tools": [SEARCH_TOOL, other]})
    assert ("unsure", 1) == (got.verdict, len(proxy.upstream.calls))


async def test_own_tools_and_own_answers_are_no_violation(start: Start) -> None:
    class Own(Stage):
        name = "own"

        async def on_request(self, exchange: Exchange) -> None:
            if exchange.original.messages[-1]["content"] == "Hello?":
                exchange.answer = Answer((Choice(0, "not JSON"),))

    stages = (*STAGES, Finder, Own)
    async with start(reply(calling(called())), reply(completion('{"n": 1}')), policy=policy(more=", finder, own"), stages=stages) as proxy:
        got = await proxy.post(JSON)
        own = await proxy.post({**JSON, "messages": [{"role": "user", "content": "Hello?"}]})
    assert ("unsure", '{"n": 1}') == (got.verdict, said(got, False)[0])
    assert "unchecked" == own.verdict
    assert FIND in [tool["function"]["name"] for tool in proxy.upstream.calls[0].json["tools"]]


# ---- repair ----


async def test_mended_arguments_are_what_the_client_gets(start: Start, streams: bool) -> None:
    async with start(answering(call(CRUMPLED), streams=streams), policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "stream": streams})
        record = await proxy.record(got)
    assert ([MENDED], 1) == (said(got, streams), len(proxy.upstream.calls))
    assert ("warn", "schema_repaired") == (got.verdict, got.headers["x-groundwire-warnings"])
    fixes = ["quotes", "trailing_comma"]
    assert [{"stage": "schema", "what": "repaired", "choice": 0, "call": 0, "tool": "search", "fixes": fixes}] == record["detail"][
        "changes"
    ]
    detail = of(record)[0]["detail"]
    found = {"choice": 0, "call": 0, "tool": "search", "call_id": "call_1", "code": "invalid_json", "fixes": fixes, "conforms": True}
    assert ("repaired", [found]) == (detail["action"], detail["violations"])


async def test_a_mended_stream_keeps_its_other_events_and_its_usage(start: Start) -> None:
    crumpled, good = call(CRUMPLED), call('{ "query" : "y" }', identity="call_2")
    events = [*call_events(crumpled, good, words=["Look"])[:-1], usage_event(5, 6), b"data: [DONE]\n\n"]
    async with start(stream(events), policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "stream": True, "stream_options": {"include_usage": True}})
    assert [MENDED, '{ "query" : "y" }'] == said(got, True)
    left = [event + b"\n\n" for event in got.body.split(b"\n\n") if event]
    assert [i for i, (a, b) in enumerate(zip(events, left, strict=True)) if a != b] == [3, 4]
    assert {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11, "prompt_tokens_details": {"cached_tokens": 2}} == chunks(
        got.body
    )[-1]["usage"]


async def test_a_mended_text_is_what_the_client_gets(start: Start, streams: bool) -> None:
    text = '```json\n{"n": "3"}\n```'
    async with start(stream(streamed([text[:9], text[9:]])) if streams else reply(completion(text)), policy=policy()) as proxy:
        got = await proxy.post({**JSON, "stream": streams})
    assert (['{"n": 3}'], "schema_repaired") == (said(got, streams), got.headers["x-groundwire-warnings"])


async def test_a_legacy_function_call_is_mended(start: Start) -> None:
    message = {"role": "assistant", "content": None, "function_call": {"name": "search", "arguments": CRUMPLED}}
    body = completion(choices=[{"index": 0, "message": message, "finish_reason": "function_call"}])
    deltas = [
        chunk({"function_call": {"name": "search", "arguments": CRUMPLED[:5]}}),
        chunk({"function_call": {"arguments": CRUMPLED[5:]}}),
    ]
    asked = {**CHAT, "functions": [SEARCH_TOOL["function"]]}
    async with start(reply(body), stream([*deltas, chunk({}, "function_call"), b"data: [DONE]\n\n"]), policy=policy()) as proxy:
        got = await proxy.post(asked)
        streamed_ = await proxy.post({**asked, "stream": True})
    assert MENDED == got.json["choices"][0]["message"]["function_call"]["arguments"]
    assert [MENDED] == said(streamed_, True)


async def test_every_choice_and_every_parallel_call_is_mended_alone(start: Start) -> None:
    body = calling(call(GOOD), call(CRUMPLED, identity="call_2"))
    second = {**calling(call(CRUMPLED))["choices"][0], "index": 1}
    async with start(reply({**body, "choices": [body["choices"][0], second]}), policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "n": 2})
    made = [[c["function"]["arguments"] for c in choice["message"]["tool_calls"]] for choice in got.json["choices"]]
    assert [[GOOD, MENDED], [MENDED]] == made


# ---- asking again ----


async def test_wrong_arguments_are_asked_for_again_with_what_is_wrong(start: Start, streams: bool) -> None:
    answers = [answering(call(WRONG), call(GOOD, identity="call_2"), streams=streams), answering(call(GOOD), streams=streams)]
    async with start(*answers, policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "stream": streams})
        record = await proxy.record(got)
    assert ([GOOD], "unsure", "1") == (said(got, streams), got.verdict, got.headers["x-groundwire-retries"])
    turn, wrong, right = proxy.upstream.calls[1].json["messages"][1:]
    assert [("call_1", WRONG), ("call_2", GOOD)] == [(c["id"], c["function"]["arguments"]) for c in turn["tool_calls"]]
    assert ("tool", "call_1", "tool", "call_2") == (wrong["role"], wrong["tool_call_id"], right["role"], right["tool_call_id"])
    assert 'at "/query": type, expected "string"' in wrong["content"]
    assert right["content"].startswith("Not run")
    first = record["detail"]["answers"][0]["verdicts"][0]
    assert ("arguments_mismatch", "re-asked") == (first["code"], first["detail"]["action"])
    errors = [{"pointer": "/query", "keyword": "type", "name": "query", "schema": "/properties/query/type", "expected": "string"}]
    assert errors == first["detail"]["violations"][0]["errors"]
    assert [{"action": "none", "calls": 1, "texts": 0, "retries": 1}] == [v["detail"] for v in of(record)]


@pytest.mark.parametrize(
    "thoughts",
    [{"reasoning_content": "Let me search."}, {"reasoning": "Let me search."}, {"reasoning_content": ""}],
)
async def test_the_model_gets_its_thoughts_back_with_the_turn_where_they_came(
    start: Start, streams: bool, thoughts: dict[str, str]
) -> None:
    body, events = calling(call(WRONG)), call_events(call(WRONG))
    body["choices"][0]["message"] |= thoughts
    events[1:1] = [chunk({name: piece}) for name, text in thoughts.items() for piece in (text[:4], text[4:])]
    async with start(stream(events) if streams else reply(body), answering(call(GOOD), streams=streams), policy=policy()) as proxy:
        await proxy.post({**TOOLS, "stream": streams})
    turn = proxy.upstream.calls[1].json["messages"][1]
    assert thoughts == {name: value for name, value in turn.items() if name not in ("role", "content", "tool_calls")}


async def test_an_unknown_tool_is_answered_with_the_tools_there_are(start: Start) -> None:
    async with start(reply(calling(call(GOOD, "serch"))), reply(calling(call(GOOD))), policy=policy()) as proxy:
        got = await proxy.post(TOOLS)
    result = proxy.upstream.calls[1].json["messages"][-1]["content"]
    assert ("unsure", 'there is no tool "serch". Did you mean "search"?') == (got.verdict, result[7:56].strip())


async def test_invalid_json_goes_into_the_conversation_only_as_a_quotation(start: Start) -> None:
    async with start(reply(calling(call("{query: }"))), reply(calling(call(GOOD))), policy=policy()) as proxy:
        await proxy.post(TOOLS)
    turn, result = proxy.upstream.calls[1].json["messages"][1:]
    assert "{}" == turn["tool_calls"][0]["function"]["arguments"]
    assert '"{query: }"' in result["content"]


@pytest.mark.parametrize("calls", [[call(WRONG, identity="")], [call(WRONG), call(GOOD)]])
async def test_calls_that_cannot_be_answered_by_id_are_answered_by_a_user_message(start: Start, calls: Sequence[Any]) -> None:
    async with start(reply(calling(*calls)), reply(calling(call(GOOD))), policy=policy()) as proxy:
        await proxy.post(TOOLS)
    told = proxy.upstream.calls[1].json["messages"][1:]
    assert ["user"] == [message["role"] for message in told]
    assert 'Your call of "search" with "{\\"query\\": 1}"' in told[0]["content"]


async def test_an_answer_that_is_not_the_json_asked_for_is_asked_for_again(start: Start, streams: bool) -> None:
    texts = ["Three.", '{"n": 3}']
    answers = [stream(streamed([text])) if streams else reply(completion(text)) for text in texts]
    async with start(*answers, policy=policy()) as proxy:
        got = await proxy.post({**JSON, "stream": streams})
    assert (['{"n": 3}'], "unsure") == (said(got, streams), got.verdict)
    answer, correction = proxy.upstream.calls[1].json["messages"][1:]
    assert ("Three.", "user") == (answer["content"], correction["role"])
    assert "it is not valid JSON" in correction["content"]


async def test_the_first_answer_leaves_when_no_other_conforms(start: Start, streams: bool) -> None:
    events = call_events(call(WRONG))
    body = json.dumps(calling(call(WRONG)), indent=1).encode()
    worse = answering(call(BROKEN), streams=streams)
    async with start(stream(events) if streams else reply(body), worse, policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "stream": streams})
        record = await proxy.record(got)
    assert ([WRONG], "arguments_mismatch") == (said(got, streams), got.headers["x-groundwire-warnings"])
    detail = of(record)[0]["detail"]
    assert ("passed", 1, [True, False]) == (detail["action"], detail["retries"], [a["delivered"] for a in record["detail"]["answers"]])


@pytest.mark.parametrize("retries", [0, 1, 2, 3])
async def test_the_model_is_asked_again_as_often_as_the_policy_says_without_a_growing_prompt(start: Start, retries: int) -> None:
    async with start(reply(calling(call(WRONG))), policy=policy(f"retries: {retries}")) as proxy:
        got = await proxy.post(TOOLS)
    assert (1 + retries, "warn") == (len(proxy.upstream.calls), got.verdict)
    assert [3] * retries == [len(c.json["messages"]) for c in proxy.upstream.calls[1:]]


async def test_an_answer_that_a_limit_has_cut_is_asked_for_once_more_and_says_so(start: Start) -> None:
    async with start(reply(calling(call('{"query": [true'), finish="length")), policy=policy("retries: 3")) as proxy:
        got = await proxy.post(TOOLS)
        record = await proxy.record(got)
    detail = of(record)[0]["detail"]
    assert (2, True, "invalid_json") == (len(proxy.upstream.calls), detail["truncated"], of(record)[0]["code"])
    assert "token limit" in proxy.upstream.calls[1].json["messages"][-1]["content"]


async def test_when_the_other_answer_fails_the_first_is_judged_once_more(start: Start) -> None:
    async with start(reply(calling(call(WRONG))), reply(b"", 500), policy=policy()) as proxy:
        got = await proxy.post(TOOLS)
    assert ([WRONG], "retry_failed,arguments_mismatch") == (said(got, False), got.headers["x-groundwire-warnings"].replace(", ", ","))


async def test_a_mended_answer_that_a_later_stage_prefers_leaves_mended(start: Start) -> None:
    class Again(Stage):
        name = "again"
        changes = ("answer",)

        async def on_answer(self, exchange: Exchange) -> None:
            if exchange.attempts.possible and len(exchange.attempts) == 1:
                exchange.retry = list(exchange.messages)
            else:
                exchange.deliver = 0

    answers = [reply(calling(call(CRUMPLED))), reply(calling(call('{"query": "z"}')))]
    async with start(*answers, policy=policy(more=", again"), stages=(*STAGES, Again)) as proxy:
        got = await proxy.post(TOOLS)
        record = await proxy.record(got)
    assert ([MENDED], "schema_repaired") == (said(got, False), got.headers["x-groundwire-warnings"])
    assert 1 == len(record["detail"]["changes"])


async def test_an_earlier_answer_that_conforms_is_better_than_a_later_one_that_does_not(start: Start) -> None:
    class Again(Stage):
        name = "again"

        async def on_answer(self, exchange: Exchange) -> None:
            if exchange.attempts.possible and len(exchange.attempts) == 1:
                exchange.retry = list(exchange.messages)

    answers = [reply(calling(call(CRUMPLED))), reply(calling(call(WRONG)))]
    async with start(*answers, policy=policy("retries: 0", more=", again"), stages=(*STAGES, Again)) as proxy:
        got = await proxy.post(TOOLS)
    assert ([MENDED], "schema_repaired") == (said(got, False), got.headers["x-groundwire-warnings"])


# ---- blocking, other deliveries ----


async def test_a_policy_can_refuse_what_does_not_conform_in_the_end(start: Start, streams: bool) -> None:
    async with start(answering(call(WRONG), streams=streams), policy=policy("on_violation: block")) as proxy:
        got = await proxy.post({**TOOLS, "stream": streams})
        record = await proxy.record(got)
    assert (400, "policy_blocked", "schema_violation") == (got.status, got.json["error"]["code"], got.json["error"]["param"])
    assert "search do not match the tool's schema (/query: type)" in got.json["error"]["message"]
    assert ("blocked", "arguments_mismatch") == (of(record)[-1]["detail"]["action"], of(record)[-1]["detail"]["code"])


@pytest.mark.parametrize("delivery", ["tap", "gate"])
async def test_what_has_left_is_judged_for_the_record(start: Start, delivery: str) -> None:
    events = call_events(call(CRUMPLED))
    more = ", claims" if delivery == "gate" else ""
    async with start(stream(events), policy=policy(delivery=delivery, more=more)) as proxy:
        got = await proxy.post({**TOOLS, "stream": True})
        record = await proxy.record(got)
    assert (b"".join(events), 1) == (got.body, len(proxy.upstream.calls))
    assert [("invalid_json", "passed")] == [(v["code"], v["detail"]["action"]) for v in of(record)]


async def test_a_json_answer_that_the_gate_holds_is_mended(start: Start) -> None:
    async with start(stream(streamed(["{n: ", "3}"])), policy=policy(delivery="gate", more=", claims")) as proxy:
        got = await proxy.post({**JSON, "stream": True})
    assert ['{"n": 3}'] == said(got, True)


@pytest.mark.parametrize(
    ("options", "delivery", "message"),
    [
        ("on_violation: block", "tap", "can hold back"),
        ("on_violation: block", "gate", "delivery: hold"),
        ("retries: 1", "gate", "retries: 1"),
        ("retries: 1", "tap", "retries: 1"),
        ("retries: 4", "hold", "retries"),
    ],
)
def test_what_cannot_be_is_refused_when_the_policy_is_loaded(tmp_path: Path, options: str, delivery: str, message: str) -> None:
    (tmp_path / "p.yaml").write_text(policy(options, delivery))
    with pytest.raises(ConfigError, match=message):
        load_policy(tmp_path / "p.yaml")


@pytest.mark.parametrize("options", ["", "retries: 0"])
@pytest.mark.parametrize("delivery", ["tap", "gate", "hold"])
def test_what_can_be_is_loaded_and_explained(tmp_path: Path, options: str, delivery: str) -> None:
    (tmp_path / "p.yaml").write_text(policy(options, delivery))
    assert "on_violation" in explain_all(load_policy(tmp_path / "p.yaml"))


# ---- what cannot be judged ----


def made(**options: Any) -> tuple[Schema, CountedNames]:
    counters = CountedNames()
    return Schema(msgspec.convert(options, SchemaOptions), make_ports(counters=counters)), counters


async def judged(stage: Stage, tools: Sequence[Any], *calls: ToolCall, text: str = "", **params: Any) -> list[Verdict]:
    exchange = make_exchange(tools=tools, **params)
    exchange.answer = Answer((Choice(0, text, tool_calls=calls, finish_reason="stop"),))
    await Pipeline([stage]).answer(exchange)
    return exchange.verdicts


def tool(parameters: Any, name: str = "f") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


async def test_a_clients_wrong_schema_is_a_warning_and_never_a_silent_pass() -> None:
    verdicts = await judged(made()[0], [tool({"type": "objekt"})], ToolCall("1", "f", "{}"))
    assert [("warn", "schema_invalid")] == [(v.outcome, v.code) for v in verdicts]
    assert "schema_invalid" == verdicts[0].detail["unchecked"][0]["reason"]


async def test_invalid_json_is_mended_also_where_the_schema_is_of_no_use(start: Start) -> None:
    wrong = {"type": "function", "function": {"name": "search", "parameters": {"type": "objekt"}}}
    async with start(reply(calling(call(CRUMPLED))), policy=policy()) as proxy:
        got = await proxy.post({**TOOLS, "tools": [wrong]})
    assert ([MENDED], ["schema_repaired", "schema_invalid"]) == (said(got, False), got.headers["x-groundwire-warnings"].split(","))


async def test_a_check_that_comes_to_its_bounds_is_an_error_beside_what_was_found() -> None:
    tools = [tool(HOSTILE_PATTERN), tool({"required": ["a"]}, "g"), tool({"type": 3}, "h")]
    calls = [ToolCall("1", "f", json.dumps({"a": "a" * 5000 + "b"})), ToolCall("2", "g", "{}", 1), ToolCall("3", "h", "{}", 2)]
    verdicts = await judged(made()[0], tools, *calls)
    assert ["schema_invalid", "arguments_mismatch", "schema_unchecked"] == [v.code for v in verdicts]
    assert ("error", "time") == (verdicts[-1].outcome, verdicts[-1].detail["unchecked"][0]["reason"])


async def test_hostile_schemas_end_the_check_in_time_whatever_their_number() -> None:
    calls = [ToolCall(str(i), "f", json.dumps({"a": "a" * 5000 + "b"}), i) for i in range(200)]
    stage, _ = made(timeout_ms=60_000)
    verdicts = await judged(stage, [tool(HOSTILE_PATTERN)], *calls)
    assert ["schema_unchecked"] == [v.code for v in verdicts]


async def test_counters_say_how_often(start: Start) -> None:
    stage, counters = made()
    await judged(stage, [tool({"required": ["a"]})], ToolCall("1", "f", "{}"), ToolCall("2", "g", "{}", 1))
    assert {"schema.violations_count": 2} == counters.counts


async def test_no_verdict_holds_a_value(start: Start) -> None:
    secret = json.dumps({"query": {"topsecret": "topsecret"}, "topsecret": "topsecret"})
    async with start(reply(calling(call(secret))), policy=policy("retries: 0")) as proxy:
        record = await proxy.record(await proxy.post(TOOLS))
    assert "arguments_mismatch" == of(record)[0]["code"]
    assert "topsecret" not in json.dumps(of(record))
