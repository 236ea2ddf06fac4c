"""An answer has the form that its client asked for, whatever its server's, and an error is one, whatever its status."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.exchange import Exchange, Verdict
from proxy.ports.stage import Stage
from proxy.ports.upstream import BodyReply, Call, Reply
from proxy.stages.registry import STAGES
from proxy.testing import completion, reply, stream, streamed
from proxy.upstreams.translating import as_asked
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.gemini.dialect import GeminiDialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests.conftest import CHAT, Start
from tests.cost import below
from tests.delivery.test_keep_alive import after
from tests.exchanges import recorded

DIALECTS: dict[str, Dialect] = {
    "chat": ChatDialect(),
    "responses": ResponsesDialect(),
    "messages": MessagesDialect(),
    "gemini": GeminiDialect(),
}
KINDS = {"chat": "openai", "responses": "openai", "messages": "anthropic", "gemini": "gemini"}
STREAM = {**CHAT, "stream": True}
SAYING = [(name, one) for name in DIALECTS for one in recorded(name) if one.name != "error"]


class Pieces(BodyReply):
    """A stream of an upstream's, cut as it arrives."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__("main", 200, [("content-type", "text/event-stream")], b"")
        self._pieces = pieces

    async def chunks(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


class Looks(Stage):
    """Reads every answer."""

    name = "looks"

    async def on_answer(self, exchange: Exchange) -> Verdict:
        return Verdict("looks", "pass")


ALL = (*STAGES, Looks)


def policy(delivery: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [{'budget' if delivery == 'tap' else 'looks'}: {{}}]\n"


def said(dialect: Dialect, body: bytes, *, streams: bool) -> list[Any]:
    """What a client reads: words, thoughts, calls and the end."""
    if streams:
        reader = dialect.stream()
        reader.feed(body)
        reader.finish()
        assert (True, None, "") == (reader.complete, reader.error, reader.unreadable)
        answer = reader.answer
    else:
        answer = dialect.parse_answer(body)
    (choice,) = answer.choices
    calls = [(call.id, call.name, json.loads(call.arguments)) for call in choice.tool_calls]
    return [choice.text, choice.refusal, choice.reasoning, calls, choice.finish_reason, answer.usage]


@pytest.mark.parametrize("delivery", ["tap", "hold"])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_the_other_form_becomes_the_one_asked_for(dialect: str, streams: bool, delivery: str, start: Start) -> None:
    found, expected = {}, {}
    async with start(policy=policy(delivery), stages=ALL, kind=KINDS[dialect]) as proxy:
        for name, one in SAYING:
            if name != dialect:
                continue
            proxy.upstream.say(reply(one.answer) if streams else stream([one.events]))
            got = await proxy.post(one.streamed_request if streams else one.request, "/v1" + DIALECTS[dialect].path)
            assert (200, streams) == (got.status, got.headers["content-type"].startswith("text/event-stream"))
            theirs = one.answer if streams else one.events
            found[one.name] = said(DIALECTS[dialect], got.body, streams=streams)[:5]
            expected[one.name] = said(DIALECTS[dialect], theirs, streams=not streams)[:5]
    assert expected == found


@pytest.mark.parametrize("kind", ["text/plain", "application/json", "application/octet-stream"])
@pytest.mark.parametrize("delivery", ["tap", "hold"])
async def test_events_under_another_name_are_events_byte_for_byte(kind: str, delivery: str, start: Start) -> None:
    events = b"".join(streamed(["Hello ", "there."]))
    async with start(reply(events, headers={"content-type": kind}), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (200, events) == (got.status, got.body)
    assert got.headers["content-type"].startswith("text/event-stream")


async def test_several_choices_and_their_log_probabilities_are_not_lost(start: Start) -> None:
    body = completion("One.")
    tokens = {"content": [{"token": "One.", "logprob": -0.1, "bytes": None, "top_logprobs": []}], "refusal": None}
    first = {**body["choices"][0], "logprobs": tokens}
    body["choices"] = [first, {**first, "index": 1, "message": {"role": "assistant", "content": "Two."}}]
    async with start(reply(body)) as proxy:
        events = (await proxy.post(STREAM)).body
    reader = ChatDialect().stream()
    reader.feed(events)
    assert ["One.", "Two."] == [choice.text for choice in reader.answer.choices]
    assert 2 == events.count(b'"logprob":-0.1')
    async with start(stream([events])) as proxy:
        whole = (await proxy.post()).json
    assert ["One.", "Two."] == [choice["message"]["content"] for choice in whole["choices"]]
    assert tokens["content"] == whole["choices"][1]["logprobs"]["content"]


ERROR = {"error": {"message": "Too many", "code": 429}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (ERROR, 429),
        ([ERROR], 429),
        ({"detail": "Too many"}, 502),
        ({"choices": [], "error": "Too many"}, 502),
        ({**ERROR, "choices": None}, 429),
    ],
)
@pytest.mark.parametrize("rule", ["name: p\ndelivery: tap\nstages: []\n", "name: p\ndelivery: hold\nstages: [looks: {on_error: closed}]\n"])
@pytest.mark.parametrize("streams", [False, True])
async def test_an_error_with_a_status_of_success_is_an_error(body: Any, status: int, rule: str, streams: bool, start: Start) -> None:
    async with start(reply(body), policy=rule, stages=ALL) as proxy:
        got = await proxy.post(STREAM if streams else CHAT)
    assert (status, "Too many") == (got.status, got.json["error"]["message"])
    assert "upstream_error" == got.verdict


@pytest.mark.parametrize("delivery", ["tap", "hold"])
async def test_a_stream_that_has_begun_early_gets_events_whatever_comes(delivery: str, start: Start) -> None:
    config = "server: {keep_alive_s: 0.02}\n"
    for answer, expected in ((reply(completion("Late.")), b"Late."), (reply(ERROR), b"Too many"), (reply(b"<html>"), b'"error"')):
        go = asyncio.Event()
        async with start(after(go, answer), policy=policy(delivery), stages=ALL, config=config) as proxy, proxy.open(STREAM) as response:
            got = b""
            while b"keep-alive" not in got:
                got += await response.content.readany()
            go.set()
            got += await response.content.read()
        assert expected in got
        assert got.endswith(b"data: [DONE]\n\n")
        assert all(event.startswith((b":", b"data: ")) for event in got.split(b"\n\n") if event)


async def test_an_error_among_events_for_a_client_that_wants_a_body(start: Start) -> None:
    events = [*streamed(["Half "])[:2], b'data: {"error": {"message": "Gone", "code": 503}}\n\n']
    async with start(stream(events)) as proxy:
        got = await proxy.post()
    assert (503, "Gone") == (got.status, got.json["error"]["message"])


async def test_a_body_by_the_name_of_a_stream(start: Start) -> None:
    for body, status, begins, ends in (
        (completion("Hi."), 200, b"data: ", b"data: [DONE]\n\n"),
        (ERROR, 429, json.dumps(ERROR).encode(), b"}"),
    ):
        async with start(reply(body, headers={"content-type": "text/event-stream"})) as proxy:
            got = await proxy.post(STREAM)
        assert (status, True, True) == (got.status, got.body.startswith(begins), got.body.endswith(ends))


OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
FIRST_EVENTS = [
    ("chat", b'data: {"error": {"message": "Overloaded", "code": 503}}\n\n'),
    ("chat", b': waits\n\ndata: {"error": {"message": "Overloaded", "code": "overloaded"}}\r\n\r\n'),
    ("messages", b"event: error\ndata: " + json.dumps(OVERLOADED).encode() + b"\n\n"),
    ("responses", b'event: error\ndata: {"type": "error", "code": "overloaded", "message": "Overloaded", "param": null}\n\n'),
    ("responses", b'data: {"type":"response.failed","response":{"error":{"code":"overloaded","message":"Overloaded"},"output":[]}}\n\n'),
    ("gemini", b'data: {"error": {"code": 503, "message": "Overloaded", "status": "UNAVAILABLE"}}\n\n'),
]


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("delivery", ["tap", "hold"])
@pytest.mark.parametrize(("dialect", "event"), FIRST_EVENTS)
async def test_an_error_as_first_event_is_one_before_the_first_byte(
    dialect: str, event: bytes, delivery: str, cut: bool, start: Start
) -> None:
    request = next(one for name, one in SAYING if name == dialect)
    path = "/v1" + DIALECTS[dialect].path
    at = event.index(b"Over") + 2
    events = stream([event[:at], event[at:]] if cut else [event])
    options = "retries: {attempts: 1, base_s: 0.001}"
    async with start(events, policy=policy(delivery), stages=ALL, kind=KINDS[dialect], upstream_options=options) as proxy:
        refused = await proxy.post(request.streamed_request, path)
        assert (503, 2, "upstream_error") == (refused.status, len(proxy.upstream.calls), refused.verdict)
        assert "Overloaded" == refused.json["error"]["message"]
        proxy.upstream.say(events, stream([request.events]))
        got = await proxy.post(request.streamed_request, path)
    assert (200, request.events) == (got.status, got.body)


@pytest.mark.cost
@pytest.mark.parametrize("between", [b" ", b"\n"])
async def test_a_first_event_of_many_pieces_costs_what_its_length_does(between: bytes) -> None:
    start_of = b'data: {"type":"response.created","response":{"error":null}' if between == b" " else b""
    pieces = [start_of + between, *[between * 2000] * 4000, b'data: {"x":1}\n\n']
    call = Call("POST", "/responses", [], b"{}", stream=True)

    async def sending() -> Reply:
        return Pieces(pieces)

    with below(0.5):
        got = await as_asked(sending(), "responses", call, 2**25)
    assert b"".join(pieces) == b"".join([piece async for piece in got.chunks()])


@pytest.mark.parametrize("delivery", ["tap", "hold"])
async def test_an_error_behind_the_first_event_ends_the_stream(delivery: str, start: Start) -> None:
    events = [*streamed(["Half "])[:2], b'data: {"error": {"message": "Gone", "code": 503}}\n\n']
    async with start(stream([b"".join(events)]), policy=policy(delivery), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
        assert (200, 1, True) == (got.status, len(proxy.upstream.calls), b"Half" in got.body and b"Gone" in got.body)


CLOSED = "name: p\ndelivery: hold\nstages: [looks: {on_error: closed}]\n"


@pytest.mark.parametrize("rule", [policy("tap"), policy("hold"), CLOSED], ids=["tap", "hold", "closed"])
async def test_a_byte_order_mark_before_a_body_is_no_part_of_it(rule: str, start: Start) -> None:
    body = json.dumps(completion("Hi.")).encode()
    async with start(reply(b"\xef\xbb\xbf" + body), policy=rule, stages=ALL) as proxy:
        got = await proxy.post()
    assert (200, json.loads(body)) == (got.status, json.loads(got.body.decode()))
    assert "answer_unreadable" not in got.headers.get("x-groundwire-warnings", "")


@pytest.mark.parametrize("event", [[{"error": {"message": "Gone", "code": 503}}], {"error": "Gone"}, {"detail": "Gone"}])
async def test_an_error_among_events_in_another_form_under_a_closed_policy(event: Any, start: Start) -> None:
    events = [*streamed(["Half "])[:2], b"data: " + json.dumps(event).encode() + b"\n\n"]
    async with start(stream(events), policy=CLOSED, stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b'"message":"Gone"' in got.body
    assert "upstream_error" == got.verdict
