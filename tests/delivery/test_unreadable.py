"""A policy that refuses what it cannot check delivers no answer of which some text was not read, in whatever form it comes."""

import json
from typing import Any

import pytest

from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import chunk, completion, raw, reply, stream, streamed
from tests.conftest import CHAT, Start

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
    "a byte order mark": b"\xef\xbb\xbf" + plain(),
    "legacy text": json.dumps(with_choice(text=FALSE)).encode(),
    "a delta in a body": json.dumps(with_choice(delta={"content": FALSE})).encode(),
    "an audio transcript": json.dumps(body("", audio={"id": "a", "transcript": FALSE})).encode(),
    "a part of a strange type": json.dumps(body([{"type": "summary", "summary": FALSE}])).encode(),  # type: ignore[arg-type]
    "content that is an object": json.dumps(body({"text": FALSE})).encode(),  # type: ignore[arg-type]
    "a part of a strange type that is one word": json.dumps(body([{"type": "summary", "text": "Rome"}])).encode(),  # type: ignore[arg-type]
    "a choice that is text": json.dumps({**body(""), "choices": [FALSE, *body("")["choices"]]}).encode(),
    "events under a JSON content type": b"".join(streamed([FALSE])),
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


@pytest.mark.parametrize("form", BODIES)
async def test_a_body_is_refused(form: str, start: Start) -> None:
    async with start(reply(BODIES[form]), policy=policy("hold", "closed"), stages=ALL) as proxy:
        got = await proxy.post()
    assert (400, "policy_blocked", "answer_unreadable") == (got.status, got.json["error"]["code"], got.json["error"]["param"])
    assert b"Rome" not in got.body


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("form", EVENTS)
async def test_a_stream_is_refused(form: str, delivery: str, start: Start) -> None:
    events = [*streamed([TRUE])[:2], *EVENTS[form], *streamed(["x"])[-2:]]
    async with start(stream(events), policy=policy(delivery, "closed"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"Rome" not in got.body
    assert b"content_filter" in got.body or 400 == got.status


@pytest.mark.parametrize("form", BODIES)
async def test_an_open_policy_lets_it_through_and_says_that_it_was_not_checked(form: str, start: Start) -> None:
    async with start(reply(BODIES[form]), policy=policy("hold", "open"), stages=ALL) as proxy:
        got = await proxy.post()
    assert (BODIES[form], "error") == (got.body, got.verdict)


@pytest.mark.parametrize("form", EVENTS)
async def test_an_open_policy_passes_a_stream_and_says_so(form: str, start: Start) -> None:
    events = [*streamed([TRUE])[:2], *EVENTS[form], *streamed(["x"])[-2:]]
    async with start(stream(events), policy=policy("hold", "open"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert (b"".join(events), "error") == (got.body, got.verdict)


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("on_error", ["open", "closed"])
@pytest.mark.parametrize(
    "words",
    [
        [FALSE],
        [[{"type": "text", "text": FALSE}]],
        [[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": FALSE}]],
    ],
    ids=["a string", "parts", "thoughts before it"],
)
async def test_what_a_client_would_show_is_read_in_every_form_the_api_has(
    words: list[Any], on_error: str, delivery: str, start: Start
) -> None:
    events = [chunk({"role": "assistant", "content": TRUE}), *(chunk({"content": word}) for word in words), *streamed(["x"])[-2:]]
    async with start(stream(events), policy=policy(delivery, on_error), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"Rome" not in got.body
    assert b"content_filter" in got.body or (400, "wrong") == (got.status, got.json["error"]["param"])


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


@pytest.mark.parametrize("said", ["content", "refusal"])
@pytest.mark.parametrize("error_first", [True, False])
@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_text_beside_an_error_event_is_judged(delivery: str, error_first: bool, said: str, start: Start) -> None:
    events = [b'data: {"error": {"message": "overloaded"}}\n\n', chunk({said: FALSE}), b"data: [DONE]\n\n"]
    if not error_first:
        events[:2] = reversed(events[:2])
    async with start(stream(events), policy=policy(delivery, "closed"), stages=ALL) as proxy:
        got = await proxy.post(STREAM)
    assert b"Rome" not in got.body


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
