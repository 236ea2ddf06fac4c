"""A policy that refuses what it cannot check delivers no answer of which some text was not read, in whatever form it comes."""

import json
from typing import Any

import pytest

from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, raw, reply, stream, streamed
from tests.conftest import CHAT, Answer, Start

STREAM = {**CHAT, "stream": True}
TRUE, FALSE = "The tower stands in Paris. ", "It stands in Rome."


class Geographer(SentenceStage):
    """Blocks what says Rome."""

    name = "geographer"

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        return Verdict(self.name, "block", code="wrong", message="a wrong place") if "Rome" in sentence.text else Verdict(self.name, "pass")


ALL = (*STAGES, Geographer)


def policy(delivery: str, on_error: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [geographer: {{on_error: {on_error}}}]\n"


def body(text: str = FALSE, **message: Any) -> dict[str, Any]:
    made = completion(text)
    made["choices"][0]["message"] |= message
    return made


def with_choice(**fields: Any) -> dict[str, Any]:
    made = completion("")
    made["choices"][0] |= fields
    return made


def plain(content: Any = "") -> bytes:
    return json.dumps(body()).encode()


BODIES = {
    "a byte that is no UTF-8": plain()[:-2] + b', "x": "\xff"}',
    "a lone surrogate": plain()[:-1] + b', "x": "\\ud800"}',
    "NaN": plain().replace(b'"logprobs": null', b'"logprobs": NaN'),
    "legacy text": json.dumps(with_choice(text=FALSE)).encode(),
    "a delta in a body": json.dumps(with_choice(delta={"content": FALSE})).encode(),
    "an audio transcript": json.dumps(body("", audio={"id": "a", "transcript": FALSE})).encode(),
    "a part of a strange type": json.dumps(body([{"type": "summary", "summary": FALSE}])).encode(),  # type: ignore[arg-type]
    "content that is an object": json.dumps(body({"text": FALSE})).encode(),  # type: ignore[arg-type]
    "a part of a strange type that is one word": json.dumps(body([{"type": "summary", "text": "Rome"}])).encode(),  # type: ignore[arg-type]
    "a choice that is text": json.dumps({**body(""), "choices": [FALSE, *body("")["choices"]]}).encode(),
}
EVENTS = {
    "a message instead of a delta": [chunk({}).replace(b'"delta": {}', b'"message": ' + json.dumps({"content": FALSE}).encode())],
    "legacy text": [chunk({}).replace(b'"delta": {}', b'"text": ' + json.dumps(FALSE).encode())],
    "an audio transcript": [chunk({"audio": {"transcript": FALSE}})],
    "a part of a strange type": [chunk({"content": [{"type": "summary", "summary": FALSE}]})],
    "a byte that is no UTF-8": [b"data: " + plain()[:-2] + b', "x": "\xff"}\n\n'],
    "a part of a strange type that is one word": [chunk({"content": [{"type": "summary", "text": "Rome"}]})],
    "a choice that is text": [chunk({}).replace(b'"choices": [', b'"choices": ["Rome", ')],
    "choices that are no list": [b'data: {"choices": 5}\n\n'],
}
STREAMS = {form: [*streamed([TRUE])[:2], *events, *streamed(["x"])[-2:]] for form, events in EVENTS.items()}


async def test_a_body_is_refused(start: Start) -> None:
    async with start(*map(reply, BODIES.values()), policy=policy("hold", "closed"), stages=ALL) as proxy:
        answers = {form: await proxy.post() for form in BODIES}
    refused = (400, "policy_blocked", "answer_unreadable")
    assert dict.fromkeys(BODIES, refused) == {
        form: (got.status, got.json["error"]["code"], got.json["error"]["param"]) for form, got in answers.items()
    }
    assert [] == [form for form, got in answers.items() if b"Rome" in got.body]


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_of_a_stream_it_stays_behind(delivery: str, start: Start) -> None:
    async with start(*map(stream, STREAMS.values()), policy=policy(delivery, "closed"), stages=ALL) as proxy:
        answers = {form: await proxy.post(STREAM) for form in STREAMS}
    assert [] == [form for form, got in answers.items() if b"Rome" in got.body]
    assert ["a byte that is no UTF-8"] == [form for form, got in answers.items() if _is_refused(got)]


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_stream_is_refused(delivery: str, start: Start) -> None:
    async with start(*map(stream, STREAMS.values()), policy=policy(delivery, "closed") + "unknown: refuse\n", stages=ALL) as proxy:
        answers = {form: await proxy.post(STREAM) for form in STREAMS}
    assert [] == [form for form, got in answers.items() if b"Rome" in got.body or not _is_refused(got)]


def _is_refused(got: Answer) -> bool:
    return b"content_filter" in got.body or (got.status == 400 and got.json["error"]["param"] == "answer_unreadable")


async def test_an_open_policy_lets_it_through_and_says_that_it_was_not_checked(start: Start) -> None:
    async with start(*map(reply, BODIES.values()), policy=policy("hold", "open"), stages=ALL) as proxy:
        answers = {form: await proxy.post() for form in BODIES}
    assert {form: (given, "error") for form, given in BODIES.items()} == {form: (got.body, got.verdict) for form, got in answers.items()}


@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_what_stands_behind_a_byte_order_mark_is_judged(on_error: str, start: Start) -> None:
    async with start(reply(b"\xef\xbb\xbf" + plain()), policy=policy("hold", on_error), stages=ALL) as proxy:
        got = await proxy.post()
    assert (400, "wrong") == (got.status, got.json["error"]["param"])


async def test_an_open_policy_passes_a_stream_and_says_so(start: Start) -> None:
    async with start(*map(stream, STREAMS.values()), policy=policy("hold", "open"), stages=ALL) as proxy:
        answers = {form: await proxy.post(STREAM) for form in STREAMS}
    assert {form: (b"".join(events), "error") for form, events in STREAMS.items()} == {
        form: (got.body, got.verdict) for form, got in answers.items()
    }


WORDS = {
    "a string": [FALSE],
    "parts": [[{"type": "text", "text": FALSE}]],
    "thoughts before it": [[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": FALSE}]],
}


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_what_a_client_would_show_is_read_in_every_form_the_api_has(on_error: str, delivery: str, start: Start) -> None:
    def events(words: list[Any]) -> list[bytes]:
        return [chunk({"role": "assistant", "content": TRUE}), *(chunk({"content": word}) for word in words), *streamed(["x"])[-2:]]

    async with start(*(stream(events(words)) for words in WORDS.values()), policy=policy(delivery, on_error), stages=ALL) as proxy:
        answers = {form: await proxy.post(STREAM) for form in WORDS}
    assert [] == [form for form, got in answers.items() if b"Rome" in got.body]
    ended = {
        form: b"content_filter" in got.body or (400, "wrong") == (got.status, got.json["error"]["param"]) for form, got in answers.items()
    }
    assert dict.fromkeys(WORDS, True) == ended


async def test_a_content_type_is_known_in_any_case(start: Start) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream; charset=UTF-8\r\nconnection: close\r\n\r\n"
    async with start(raw(head + b"".join(streamed([TRUE, FALSE]))), policy=policy("gate", "closed"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert TRUE.strip() in "".join(json.loads(line[6:])["choices"][0]["delta"].get("content", "") for line in _events(got.body))
    assert b"Rome" not in got.body


def _events(body: bytes) -> list[str]:
    return [line for line in body.decode().splitlines() if line.startswith("data: {")]


async def test_choices_that_are_no_list_pass_a_tap_untouched(start: Start) -> None:
    events = [b'data: {"choices": 5}\n\n', *streamed(["Hi"])]
    async with start(stream(events)) as proxy:
        got = await proxy.post(STREAM)
    assert b"".join(events) == got.body


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_text_beside_an_error_event_is_judged(delivery: str, start: Start) -> None:
    error, end = b'data: {"error": {"message": "overloaded"}}\n\n', b"data: [DONE]\n\n"
    streams = {(said, first): [chunk({said: FALSE}), end] for said in ("content", "refusal") for first in (True, False)}
    for (_, error_first), events in streams.items():
        events.insert(0 if error_first else 1, error)
    async with start(*map(stream, streams.values()), policy=policy(delivery, "closed"), stages=ALL) as proxy:
        answers = {form: await proxy.post(STREAM) for form in streams}
    assert [] == [form for form, got in answers.items() if b"Rome" in got.body]


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_text_after_the_end_mark_is_not_delivered_by_a_closed_policy(delivery: str, start: Start) -> None:
    events = [*streamed([TRUE]), chunk({"content": FALSE})]
    async with start(stream(events), policy=policy(delivery, "closed"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"Rome" not in got.body


@pytest.mark.parametrize("on_error", ["open", "closed"])
async def test_the_refusal_of_a_body_is_read(on_error: str, start: Start) -> None:
    async with start(reply(body("", refusal=TRUE + FALSE)), policy=policy("hold", on_error), stages=ALL) as proxy:
        got = await proxy.post()
    assert (400, "wrong") == (got.status, got.json["error"]["param"])


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_the_refusal_of_a_stream_is_read(delivery: str, start: Start) -> None:
    events = [chunk({"role": "assistant", "refusal": "It stands "}), chunk({"refusal": "in Rome."}), *streamed([])[-2:]]
    async with start(stream(events), policy=policy(delivery, "open"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"Rome" not in got.body
    assert b"content_filter" in got.body or (400, "wrong") == (got.status, got.json["error"]["param"])
