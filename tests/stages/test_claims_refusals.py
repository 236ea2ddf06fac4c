"""The stage `claims` on text in an answer's ``refusal``: a client shows it, so it is judged as the answer's content is."""

import json
from typing import Any

import pytest

from proxy.context.faithful_texts import NO_ANSWER
from proxy.exchange import Answer, Choice
from proxy.stages.claims.reading import declines
from proxy.testing import ScriptedVerifiers, chunk, completion, reply, stream
from tests.claims import LONDON, PARIS, TOWER, answering, checked, judged_by_words, labels
from tests.conftest import Start
from tests.fuzz.client import payloads, shown_of_body, shown_of_stream

BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "messages": [{"role": "user", "content": "Tell me about the Eiffel Tower."}],
    "groundwire": {"context": [{"content": TOWER}]},
}
STREAM = {**BODY, "stream": True}
PLAIN = "I'm sorry, but I can't help with that."


def policy(delivery: str, options: str) -> str:
    return f"name: p\ndelivery: {delivery}\nstages: [claims: {{{options}, fail_on: unsupported, embed: false}}]\n"


def refusing(text: str, content: str | None = None) -> dict[str, Any]:
    made = completion("")
    made["choices"][0]["message"] |= {"content": content, "refusal": text}
    return made


def events(*words: str) -> list[bytes]:
    return [chunk({"role": "assistant", "content": ""}), *(chunk({"refusal": w}) for w in words), chunk({}, "stop"), b"data: [DONE]\n\n"]


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "I can't help with that",
        "I cannot assist with that request.",
        "I won't help you build a weapon.",
        "I must decline this request.",
        "Dabei kann ich nicht helfen.",
        "Ich lehne diese Anfrage ab.",
        "No puedo ayudarte con esa solicitud.",
        "Lo siento, no puedo ayudar con eso.",
        "Je ne peux pas vous aider avec ça.",
        "Je ne peux pas répondre à cette demande.",
    ],
)
async def test_a_plain_refusal_has_no_claims(text: str) -> None:
    exchange = answering("")
    exchange.answer = Answer((Choice(0, refusal=text, finish_reason="stop"),))
    verdict = await checked(exchange, action="block")
    assert ("unchecked", {"not_checkable"}) == (verdict.outcome, set(verdict.detail["counts"]))


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that because it stands in London.",
        "I cannot provide that, the tower stands in London.",
        "I can say that it is in London.",
        "Ich kann dabei nicht helfen, weil er in London steht.",
        "It has 12 floors.",
        "No puedo ayudar porque está en Londres.",
    ],
)
def test_what_says_something_besides_is_more_than_a_refusal(text: str) -> None:
    assert not declines(text)


async def test_its_claims_are_listed_as_the_refusals() -> None:
    exchange = answering(PARIS)
    exchange.answer = Answer((Choice(0, PARIS, refusal=LONDON),))
    verdict = await checked(exchange)
    assert ("warn", "claims_contradicted") == (verdict.outcome, verdict.code)
    listed = [(claim.get("field"), claim["label"]) for claim in verdict.detail["claims"]]
    assert [(None, "supported"), ("refusal", "contradicted")] == listed
    assert (["supported"], 0.5) == (labels(exchange), exchange.facts.faithfulness)


@pytest.mark.parametrize("delivery", ["hold", "gate"])
@pytest.mark.parametrize("words", [[LONDON], [PARIS + " The Eiffel ", "Tower stands", " in London."]], ids=["one event", "several"])
async def test_a_streamed_refusal_that_contradicts_is_blocked(words: list[str], delivery: str, start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(stream(events(*words)), policy=policy(delivery, "action: block"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
    assert b"London" not in got.body.split(b'"message"')[0]
    assert b"content_filter" in got.body or "hallucination_detected" == got.json["error"]["param"]


async def test_a_refusal_in_a_body_is_blocked(start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(refusing(LONDON)), policy=policy("hold", "action: block"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
    assert (400, "hallucination_detected") == (got.status, got.json["error"]["param"])


@pytest.mark.parametrize(("action", "left"), [("redact", PARIS), ("replace", NO_ANSWER["en"])])
async def test_a_refusal_in_a_body_is_changed(action: str, left: str, start: Start) -> None:
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(reply(refusing(f"{PARIS} {LONDON}")), policy=policy("hold", f"action: {action}"), verifiers=verifiers) as proxy:
        got = await proxy.post(BODY)
    assert {("0", "refusal"): left} == shown_of_body(got.body)
    assert refusing(left) == {k: v for k, v in got.json.items() if k != "groundwire"}


@pytest.mark.parametrize(("action", "left"), [("redact", PARIS), ("replace", NO_ANSWER["en"])])
@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_streamed_refusal_is_changed(delivery: str, action: str, left: str, start: Start) -> None:
    answer = stream(events(PARIS, " ", LONDON))
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(answer, policy=policy(delivery, f"action: {action}"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert {("0", "refusal"): left} == shown_of_stream(got.body)
    assert left in json.dumps(record, ensure_ascii=False)


async def test_a_tapped_refusal_is_judged_for_the_record(start: Start) -> None:
    answer = events(LONDON)
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(stream(answer), policy=policy("tap", "action: annotate"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
        record = await proxy.record(got)
    assert b"".join(answer) == got.body
    assert ("warn", 0.0) == (record["outcome"], record["detail"]["facts"]["faithfulness"])


@pytest.mark.parametrize("delivery", ["hold", "gate"])
async def test_a_plain_refusal_leaves_with_all_its_fields(delivery: str, start: Start) -> None:
    answer = events("I'm sorry, but ", "I can't help with that.")
    verifiers = ScriptedVerifiers(judged_by_words)
    async with start(stream(answer), policy=policy(delivery, "on_error: closed, action: block"), verifiers=verifiers) as proxy:
        got = await proxy.post(STREAM)
    came, left = ([json.loads(data) for data in payloads(body)] for body in (b"".join(answer), got.body))
    assert (came, []) == (left, verifiers.asked)
