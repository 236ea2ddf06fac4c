"""Closed policies: what stands beside an answer's text (thoughts, what calls take) is given to a check, however the answer ends."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.exchange import Answer, Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, reply, stream
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.gemini.dialect import GeminiDialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests import gemini, messages
from tests import responses_api as responses
from tests.conftest import CHAT, Start

THOUGHT, GIVEN = "They ask for a tower.", '{"place": "Rome"}'


class Reader(SentenceStage):
    """Remembers what it was given; refuses calls with Rome."""

    name = "reader"
    read: list[Answer] = []

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        return Verdict(self.name, "pass")

    async def on_answer(self, exchange: Exchange) -> Verdict | None:
        assert exchange.answer is not None
        self.read.append(exchange.answer)
        refused = any("Rome" in call.arguments for choice in exchange.answer.choices for call in choice.tool_calls)
        return Verdict(self.name, "block" if refused else "pass", code="wrong")


ALL = (*STAGES, Reader)


def policy(delivery: str = "gate", on_error: str = "closed") -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [reader: {{on_error: {on_error}}}]\n"


SPOKEN: dict[str, Dialect] = {
    "chat": ChatDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
    "gemini": GeminiDialect(),
}
KINDS = {"gemini": "gemini"}
FUNCTION = {"name": "look_up", "parameters": {"type": "object", "properties": {}}}
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {**CHAT, "tools": [{"type": "function", "function": FUNCTION}], "stream": True}),
    "responses": ("/v1/responses", {"model": "m", "input": "Where?", "tools": [{"type": "function", **FUNCTION}], "stream": True}),
    "messages": (
        "/v1/messages",
        {**messages.ASK, "tools": [{"name": "look_up", "input_schema": FUNCTION["parameters"]}], "stream": True},
    ),
    "gemini": (gemini.STREAM, {**gemini.ASK, "tools": [{"functionDeclarations": [FUNCTION]}]}),
}
THINKING: dict[str, list[bytes]] = {
    "chat": [chunk({"role": "assistant"}), *(chunk({"reasoning_content": word}) for word in THOUGHT.split(" "))],
    "responses": responses.events({**responses.reasoning_item(), "summary": [{"type": "summary_text", "text": THOUGHT}]})[:-1],
    "messages": messages.streamed({"type": "thinking", "thinking": THOUGHT, "signature": "Ab=="})[:-2],
    "gemini": gemini.streamed({"text": THOUGHT, "thought": True}, gemini.text("x"))[:-1],
}
"""Streams that break off behind a thought."""
STRANGE: dict[str, bytes] = {
    "chat": b"data: {\n\n",
    "responses": b"event: response.output_text.delta\ndata: {\n\n",
    "messages": b"event: content_block_start\ndata: {\n\n",
    "gemini": b"data: {\n\n",
}


def calling(dialect: str, arguments: str = GIVEN) -> list[bytes]:
    """A stream that calls the tool between two texts."""
    if dialect == "responses":
        return responses.events(responses.text_item("I look. "), responses.call_item("look_up", arguments), responses.text_item("So."))
    if dialect == "messages":
        return messages.streamed(messages.text("I look. "), messages.use("look_up", json.loads(arguments)), messages.text("So."))
    if dialect == "gemini":
        return gemini.streamed(gemini.text("I look. "), gemini.call("look_up", json.loads(arguments), "c"), gemini.text("So."), size=9)
    call = {"index": 0, "id": "c", "type": "function", "function": {"name": "look_up", "arguments": ""}}
    return [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "I look. "}),
        chunk({"tool_calls": [call]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]


async def given(start: Start, dialect: str, events: Sequence[bytes], **how: str) -> tuple[bytes, list[Answer]]:
    """What leaves, and what the check read."""
    Reader.read = []
    path, ask = ASKS[dialect]
    async with start(stream(events), policy=policy(**how), stages=ALL, kind=KINDS.get(dialect, "openai")) as proxy:
        got = await proxy.post(ask, path)
    return got.body, Reader.read


@pytest.mark.parametrize("ends", ["broken", "strange"])
@pytest.mark.parametrize("dialect", ASKS)
async def test_a_thought_is_read_where_the_answer_is_never_whole(dialect: str, ends: str, start: Start) -> None:
    Reader.read, shown, body = [], asyncio.Event(), b""
    events = [*THINKING[dialect], STRANGE[dialect] if ends == "strange" else b": over\n\n"]
    path, ask = ASKS[dialect]
    async with (
        start(stream(events, wait={len(events) - 1: shown}), policy=policy(), stages=ALL, kind=KINDS.get(dialect, "openai")) as proxy,
        proxy.open(ask, path) as response,
    ):
        while b"tower." not in body:
            body += await response.content.readany()
        shown.set()
        await response.content.read()
    assert [THOUGHT.replace(" ", "")] == [answer.choices[0].reasoning.replace(" ", "") for answer in Reader.read]


@pytest.mark.parametrize("dialect", ASKS)
async def test_what_a_call_takes_waits_for_the_checks(dialect: str, start: Start) -> None:
    body, read = await given(start, dialect, calling(dialect))
    assert (True, False) == (b"I look." in body, b"Rome" in body)
    assert [json.loads(GIVEN)] == [call.parsed for answer in read for call in answer.choices[0].tool_calls]


@pytest.mark.parametrize("dialect", ASKS)
async def test_of_a_stream_that_breaks_off_no_call_leaves(dialect: str, start: Start) -> None:
    body, _ = await given(start, dialect, calling(dialect)[:-2])
    assert (True, False) == (b"I look." in body, b"Rome" in body)


@pytest.mark.parametrize("dialect", ASKS)
async def test_a_call_that_is_right_leaves_where_it_stood(dialect: str, start: Start) -> None:
    events = calling(dialect, '{"place": "Oslo"}')
    body, read = await given(start, dialect, events)
    reader = SPOKEN[dialect].stream()
    reader.feed(b"".join(events))
    whole = reader.answer
    reader = type(reader)()
    reader.feed(body)
    assert (whole, True, "") == (reader.answer, reader.complete, reader.unreadable)
    assert [whole] == read


async def test_under_an_open_policy_calls_leave_as_they_come(start: Start) -> None:
    body, _ = await given(start, "chat", calling("chat")[:-2], on_error="open")
    assert b"Rome" in body


SERVED = [
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "towers of Rome"}},
    {"id": "ci_1", "type": "code_interpreter_call", "status": "completed", "code": "print('Rome')", "container_id": "c", "outputs": []},
    {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c", "name": "run", "input": "go to Rome"},
]
CUSTOM = {"id": "c", "type": "custom", "custom": {"name": "run", "input": "go to Rome"}}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "towers of Rome"}}
RUN = {"executableCode": {"language": "PYTHON", "code": "print('Rome')"}}
WHOLE: dict[str, tuple[Dialect, Any, bytes, set[str]]] = {
    "chat": (
        ChatDialect(),
        {**completion(""), "choices": [{"index": 0, "message": {"content": None, "tool_calls": [CUSTOM]}, "finish_reason": "tool_calls"}]},
        chunk({"tool_calls": [{**CUSTOM, "index": 0}]}),
        {"go to Rome"},
    ),
    "responses": (
        ResponsesDialect(),
        responses.response(*SERVED),
        b"".join(responses.events(*SERVED)),
        {"towers of Rome", "print('Rome')", "go to Rome"},
    ),
    "messages": (MessagesDialect(), messages.message(SEARCH), b"".join(messages.streamed(SEARCH)), {"towers of Rome"}),
    "gemini": (GeminiDialect(), gemini.answer(RUN), b"".join(gemini.streamed(RUN)), {"print('Rome')"}),
}


@pytest.mark.parametrize("dialect", WHOLE)
def test_what_calls_take_that_are_no_functions_is_read(dialect: str) -> None:
    known, body, events, expected = WHOLE[dialect]
    reader = known.stream()
    reader.feed(events)
    for answer in (known.parse_answer(json.dumps(body).encode()), reader.answer):
        read = " ".join(answer.choices[0].inputs)
        assert {text for text in expected if text in read} == expected
        assert () == answer.choices[0].tool_calls


def told_otherwise(**fields: Any) -> list[bytes]:
    """A call of which one telling takes what the others do not."""
    call = responses.call_item("look_up", '{"a": 1}')
    made = [json.loads(one.split(b"data: ")[1]) for one in responses.events(call)]
    for one in made:
        if one["type"] in fields:
            holder = one.get("item") or (one.get("response") or {"output": [one]})["output"][0]
            holder["arguments"] = fields[one["type"]]
    return [responses.encode(one) for one in made]


@pytest.mark.parametrize(
    "kind",
    ["response.function_call_arguments.done", "response.output_item.added", "response.output_item.done", "response.completed"],
)
@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_call_takes_the_same_in_all_its_tellings(delivery: str, kind: str, start: Start) -> None:
    body, read = await given(start, "responses", told_otherwise(**{kind: GIVEN}), delivery=delivery)
    assert (True, False) == (b'{\\"a\\": 1}' in body, b"Rome" in body)
    assert ['{"a": 1}'] == [call.arguments for answer in read for call in answer.choices[0].tool_calls]


async def test_a_call_of_two_kinds_is_one_of_a_custom_tool(start: Start) -> None:
    two = {**CUSTOM, "type": "function", "function": {"name": "never_offered", "arguments": GIVEN}}
    made = {**completion(""), "choices": [{"index": 0, "message": {"content": None, "tool_calls": [two]}, "finish_reason": "tool_calls"}]}
    ask = {**CHAT, "tools": [{"type": "custom", "custom": {"name": "run"}}]}
    async with start(reply(made), policy=policy("hold"), stages=ALL) as proxy:
        got = await proxy.post(ask)
    assert [CUSTOM] == got.json["choices"][0]["message"]["tool_calls"]


def test_a_whole_answers_thoughts_are_read_as_clients_join_them() -> None:
    summary = [{"type": "summary_text", "text": text} for text in ("They ask for R", "ome.")]
    made = responses.response({**responses.reasoning_item(), "summary": summary})
    assert "They ask for Rome." == ResponsesDialect().parse_answer(json.dumps(made).encode()).choices[0].reasoning


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("dialect", ["chat", "responses", "messages"])
async def test_a_call_goes_on_as_what_it_began(dialect: str, delivery: str, start: Start) -> None:
    function = {"index": 0, "id": "c", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
    events = [
        chunk({"role": "assistant", "tool_calls": [function]}),
        chunk({"tool_calls": [{"index": 0, "custom": {"name": "look_up", "input": "Rome"}}]}),
        chunk({}, "tool_calls"),
        b"data: [DONE]\n\n",
    ]
    Reader.read = []
    path, ask = ASKS[dialect]
    async with start(stream(events), policy=policy(delivery), stages=ALL, apis="[chat]") as proxy:
        got = await proxy.post(ask, path)
    assert (b"look_up" in got.body, b"Rome" in got.body) == (True, False)
    assert ["{}"] == [call.arguments for answer in Reader.read for call in answer.choices[0].tool_calls]
