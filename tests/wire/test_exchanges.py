"""Recorded exchanges of every dialect through the proxy, and what they say in the form that stages see.

The matrix is exchange × dialect of the client × kind of the upstream × streamed or not. Where the upstream speaks the client's dialect, no
byte changes; where it speaks another, both sides say the same in the form of the stages. A new pair is a line in `CELLS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Struct

from proxy.exchange import Answer, Exchange, Request, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import reply, stream
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests.conftest import Running, Start
from tests.exchanges import Exchanged, recorded

DIALECTS: Mapping[str, Dialect] = {"chat": ChatDialect(), "responses": ResponsesDialect(), "messages": MessagesDialect()}
EXCHANGES = {dialect: {one.name: one for one in recorded(dialect)} for dialect in DIALECTS}
PIECE_BYTES = 23


class Cell(Struct, frozen=True):
    """A client's dialect and an upstream's kind."""

    dialect: str
    kind: str
    speaks: str
    """The upstream's dialect."""


CELLS = [
    Cell("chat", "openai", speaks="chat"),
    Cell("responses", "openai", speaks="responses"),
    Cell("messages", "anthropic", speaks="messages"),
]


class Passing(SentenceStage):
    """Reads every sentence and lets it pass."""

    name = "passing"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict:
        return Verdict("passing", "pass")


EMPTY = "name: empty\ndelivery: {}\nstages: []\n"
READ = "name: read\ndelivery: {}\nstages: [passing]\n"
MATRIX = pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.dialect}-{cell.kind}")


@MATRIX
@pytest.mark.parametrize("policy", [EMPTY.format("tap"), EMPTY.format("gate"), READ.format("hold")], ids=["tap", "gate", "read"])
async def test_a_policy_that_changes_nothing_changes_no_byte(start: Start, cell: Cell, policy: str) -> None:
    assert {} == await _differences(start, cell, policy, exact=True)


@MATRIX
async def test_a_stream_that_is_judged_sentence_by_sentence_says_the_same(start: Start, cell: Cell) -> None:
    assert {} == await _differences(start, cell, READ.format("gate"), exact=False)


async def _differences(start: Start, cell: Cell, policy: str, *, exact: bool) -> dict[str, str]:
    """What of the exchanges is not as it should be: byte for byte with `exact`, where both sides speak one dialect."""
    found = {}
    async with start(policy=policy, kind=cell.kind, stages=(*STAGES, Passing)) as proxy:
        for name, one in EXCHANGES[cell.dialect].items():
            theirs = EXCHANGES[cell.speaks][name]
            for streamed in (False, True):
                if said := await _difference(proxy, cell, one, theirs, streamed, exact and cell.dialect == cell.speaks):
                    found[f"{name}, {'streamed' if streamed else 'whole'}"] = said
    return found


async def _difference(proxy: Running, cell: Cell, ours: Exchanged, theirs: Exchanged, streamed: bool, exact: bool) -> str:
    """What is not as it should be, or ""."""
    pieces = [theirs.events[i : i + PIECE_BYTES] for i in range(0, len(theirs.events), PIECE_BYTES)]
    proxy.upstream.say(stream(pieces) if streamed else reply(theirs.answer, theirs.status))
    sent = ours.streamed_request if streamed else ours.request
    got = await proxy.post(sent, "/v1" + DIALECTS[cell.dialect].path)
    arrived = proxy.upstream.calls[-1]
    if got.status != (200 if streamed else theirs.status):
        return f"status {got.status}: {got.body.decode()[:300]}"
    if "/v1" + DIALECTS[cell.speaks].path != arrived.path:
        return f"sent to {arrived.path}"
    if not exact:
        return _said_otherwise(cell, sent, arrived.body, got.body, theirs, streamed)
    if arrived.body != sent:
        return f"the request became {arrived.body.decode()[:300]}"
    expected = theirs.events if streamed else theirs.answer
    return "" if got.body == expected else f"the answer became {got.body.decode()[:300]}"


def _said_otherwise(cell: Cell, sent: bytes, arrived: bytes, got: bytes, theirs: Exchanged, streamed: bool) -> str:
    """Where a client and an upstream of two dialects do not say the same to each other."""
    ours, other = DIALECTS[cell.dialect], DIALECTS[cell.speaks]
    asked, came = request_of(ours.parse_request(sent)), request_of(other.parse_request(arrived))
    if asked != came:
        return f"asked {asked}, came as {came}"
    if theirs.status != 200 and not streamed:
        return "" if ours.error_code(got) else f"no error: {got.decode()[:300]}"
    said, read = _read(other, theirs.events if streamed else theirs.answer, streamed), _read(ours, got, streamed)
    return "" if said == read else f"said {said}, read {read}"


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


@pytest.mark.parametrize("dialect", ["responses", "messages"])
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
