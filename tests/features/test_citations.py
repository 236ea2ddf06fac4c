"""Steps of citations.feature and confidence.feature: the running proxy with a scripted verifier, in front of a scripted provider."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.exchange.judgements import ClaimPair, Support
from proxy.testing import ScriptedVerifiers, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import Answer, Start

scenarios("citations.feature", "confidence.feature")


@dataclass
class World:
    """What a scenario has set up, and what came of it."""

    passages: list[dict[str, str]] = field(default_factory=list)
    delivery: str = "hold"
    citations: str = "annotate"
    confidence: str = "annotate"
    verifiers: ScriptedVerifiers = field(default_factory=ScriptedVerifiers)
    said: str = ""
    answer: Answer | None = None
    record: Any = None

    @property
    def got(self) -> Answer:
        assert self.answer is not None
        return self.answer

    @property
    def policy(self) -> str:
        stages = f"faithful: {{}}, citations: {{action: {self.citations}}}, confidence: {{action: {self.confidence}}}, claims: {{}}"
        return f"name: cited\ndelivery: {self.delivery}\nstages: [{stages}]\n"

    @property
    def text(self) -> str:
        if self.delivery == "hold":
            return ChatDialect().parse_answer(self.got.body).text
        reader = ChatDialect().stream()
        reader.feed(self.got.body)
        assert reader.done
        return reader.answer.text


@pytest.fixture
def world() -> World:
    return World()


@given(parsers.parse('the passage {number:d} from "{source}": "{text}"'))
def passage(world: World, number: int, source: str, text: str) -> None:
    world.passages.append({"content": text, "source": source})
    assert number == len(world.passages)


@given(parsers.re("citations that do not hold are taken out, and the client (?P<how>streams|waits for) the answer"))
def taken_out(world: World, how: str) -> None:
    world.citations, world.delivery = "redact", "gate" if how == "streams" else "hold"


@given("citations that do not hold are refused")
def citations_refused(world: World) -> None:
    world.citations = "block"


@given("too little support is refused")
def support_refused(world: World) -> None:
    world.confidence = "block"


@given(parsers.parse("the verifier gives every claim a support of {support:f}"))
def scripted(world: World, support: float) -> None:
    world.verifiers = ScriptedVerifiers(lambda pair: Support(support, 1 - support))


@given(parsers.parse("the verifier gives every claim a support of {support:f}, and the passage's own words one of {own:f}"))
def scripted_by_words(world: World, support: float, own: float) -> None:
    def judged(pair: ClaimPair) -> Support:
        share = own if pair.claim.strip() in pair.evidence else support
        return Support(share, 1 - share, decides=True)

    world.verifiers = ScriptedVerifiers(judged)


@when(parsers.parse('the model says "{text}"'))
def says(world: World, start: Start, text: str) -> None:
    asyncio.run(_ask(world, start, text))


async def _ask(world: World, start: Start, text: str) -> None:
    world.said = text
    streams = world.delivery == "gate"
    said = stream(streamed([text[i : i + 7] for i in range(0, len(text), 7)])) if streams else reply(completion(text))
    question = {"role": "user", "content": "Where is the tower, and how tall is it?"}
    body = {"model": "gpt-4o", "messages": [question], "stream": streams, "groundwire": {"context": world.passages}}
    async with start(said, policy=world.policy, verifiers=world.verifiers) as proxy:
        world.answer = await proxy.post(body)
        world.record = await proxy.record(world.answer)


@then("the client gets it unchanged")
def unchanged(world: World) -> None:
    assert world.said == world.text


@then(parsers.re(r'the client gets "(?P<text>.*)"$'))
def gets(world: World, text: str) -> None:
    assert text == world.text


@then(parsers.parse('the verdict is "{verdict}"'))
def verdict_is(world: World, verdict: str) -> None:
    assert verdict == world.got.verdict


@then(parsers.parse('the warnings hold "{code}"'))
def warned(world: World, code: str) -> None:
    assert code in world.got.headers["x-groundwire-warnings"].split(",")


@then("the headers say")
def headers_say(world: World, datatable: list[list[str]]) -> None:
    expected = {f"x-groundwire-{name}": value for name, value in datatable[1:]}
    assert expected == {name: world.got.headers.get(name) for name in expected}


@then(parsers.parse("the quality is below {limit:f}"))
def quality_below(world: World, limit: float) -> None:
    assert float(world.got.headers["x-groundwire-quality"]) < limit
    assert {"faithfulness", "consistency", "context_use"} <= world.record["detail"]["facts"]["quality_parts"].keys()


@then(parsers.parse('the client gets a 400 "{code}" about "{param}" that names "{words}"'))
def refused(world: World, code: str, param: str, words: str) -> None:
    error = world.got.json["error"]
    assert (400, code, param) == (world.got.status, error["code"], error["param"])
    assert words in error["message"]


@then(parsers.parse("the record says that the support is {support:f}, and that the policy asks for {least:f}"))
def recorded_support(world: World, support: float, least: float) -> None:
    verdict = _of_confidence(world)
    assert (support, least) == (verdict["detail"]["choices"][0]["support"], verdict["detail"]["min_confidence"])


@then(parsers.parse('the record calls the rating "{rating}"'))
def recorded_rating(world: World, rating: str) -> None:
    assert rating == _of_confidence(world)["detail"]["rating"]


def _of_confidence(world: World) -> Any:
    return next(v for v in world.record["detail"]["verdicts"] if v["stage"] == "confidence" and v.get("detail"))
