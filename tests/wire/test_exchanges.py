"""Recorded exchanges of every dialect, in the form that stages see: each says the same in all of them, however its bytes are cut.

What becomes of them on their way through the proxy, byte for byte, is in `tests/golden`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from proxy.exchange import Answer, Request
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.gemini.dialect import GeminiDialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests.exchanges import recorded

DIALECTS: Mapping[str, Dialect] = {
    "chat": ChatDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
    "gemini": GeminiDialect(),
}
EXCHANGES = {dialect: {one.name: one for one in recorded(dialect)} for dialect in DIALECTS}


def _read(dialect: Dialect, body: bytes, streamed: bool) -> list[Any]:
    """What a client of the dialect reads: the answer, and whether the stream tells of an error."""
    if not streamed:
        return answer_of(dialect.parse_answer(body))
    reader = dialect.stream()
    reader.feed(body)
    reader.finish()
    return [*answer_of(reader.answer), reader.error is not None]


def request_of(request: Request) -> list[Any]:
    """What a request says to stages: its messages without their dialect's extras, its tools, what it wants."""
    messages = [(said["role"], _text(said.get("content")), _calls(said), said.get("tool_call_id")) for said in request.messages]
    functions = [tool["function"] for tool in request.tools if tool.get("type") == "function"]
    tools = [(function["name"], function["description"], function["parameters"]) for function in functions]
    return [[said for said in messages if any(said[1:])], tools, request.wants.form, request.stream]


def answer_of(answer: Answer) -> list[Any]:
    """What an answer says to stages."""
    (choice,) = answer.choices
    said = choice.text or choice.refusal
    return [said, [(call.name, json.loads(call.arguments)) for call in choice.tool_calls], answer.unread]


def _calls(said: Mapping[str, Any]) -> list[Any]:
    return [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in said.get("tool_calls") or ()]


def _text(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_every_exchange(dialect: str) -> None:
    assert set(EXCHANGES["chat"]) == set(EXCHANGES[dialect])


@pytest.mark.parametrize("dialect", ["responses", "messages", "gemini"])
def test_an_exchange_says_the_same_to_stages_in_every_dialect(dialect: str) -> None:
    ours, chat = DIALECTS[dialect], DIALECTS["chat"]
    said, expected = {}, {}
    for name, one in EXCHANGES[dialect].items():
        for found, speaker, its in ((said, ours, one), (expected, chat, EXCHANGES["chat"][name])):
            found[name] = [request_of(speaker.parse_request(its.streamed_request)), _read(speaker, its.events, True)]
            if its.status == 200:
                found[name].append(_read(speaker, its.answer, False))
    assert expected == said


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("separate", [False, True])
def test_a_stream_may_be_cut_at_every_byte(dialect: str, separate: bool) -> None:
    for name, one in EXCHANGES[dialect].items():
        whole, cut = (DIALECTS[dialect].stream(separate=separate) for _ in range(2))
        events = [*whole.feed(one.events), *whole.finish()]
        pieces = [piece for i in range(len(one.events)) for piece in cut.feed(one.events[i : i + 1])] + cut.finish()
        assert (name, [piece.raw for piece in events]) == (name, [piece.raw for piece in pieces])
        assert (name, whole.answer, whole.complete, whole.error) == (name, cut.answer, cut.complete, cut.error)
        if not separate:
            assert (name, one.events) == (name, b"".join(piece.raw for piece in events))
