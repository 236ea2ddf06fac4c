"""Steps of grounding.feature: the running proxy with a verifier that judges by words, in front of a scripted provider."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.errors import ModelUnavailable
from proxy.testing import ReceivedCall, ScriptedVerifiers, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.claims import judged_by_words
from tests.conftest import Answer, Start

scenarios("grounding.feature")
pytestmark = pytest.mark.usefixtures("api")

POLICIES = {
    "annotates": ("hold", "action: annotate"),
    "watches": ("tap", "action: annotate"),
    "is strict": ("hold", "action: block, on_error: closed"),
    "redacts at the gate": ("gate", "action: redact"),
    "blocks at the gate": ("gate", "action: block"),
    "replaces": ("hold", "action: replace, fail_on: unsupported"),
    "asks again": ("hold", "action: retry"),
}


@dataclass
class World:
    """What a scenario has set up, and what came of it."""

    passages: list[dict[str, str]] = field(default_factory=list)
    policy: str = ""
    streams: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    verifiers: ScriptedVerifiers = field(default_factory=lambda: ScriptedVerifiers(judged_by_words))
    answer: Answer | None = None
    record: Any = None
    verdict: Any = None
    calls: list[ReceivedCall] = field(default_factory=list)

    @property
    def got(self) -> Answer:
        assert self.answer is not None
        return self.answer

    @property
    def choice(self) -> Any:
        """The choice that the client got."""
        if not self.streams:
            return ChatDialect().parse_answer(self.got.body).choices[0]
        reader = ChatDialect().stream()
        reader.feed(self.got.body)
        assert reader.done
        return reader.answer.choices[0]

    @property
    def claims(self) -> list[Any]:
        """The claims in the record's verdicts."""
        verdicts = [v for v in self.record["detail"]["verdicts"] if v["stage"] == "claims"]
        return [claim for verdict in verdicts for claim in verdict.get("detail", {}).get("claims", [])]


@pytest.fixture
def world() -> World:
    return World()


@given(parsers.parse('a passage from "{source}" that says "{text}"'))
def passage(world: World, source: str, text: str) -> None:
    world.passages = [{"content": text, "source": source}]


@given("there is no passage")
def no_passage(world: World) -> None:
    world.passages = []


@given(parsers.re(f"the policy (?P<name>{'|'.join(POLICIES)})"))
def policy(world: World, name: str) -> None:
    delivery, options = POLICIES[name]
    world.policy = f"name: grounded\ndelivery: {delivery}\nstages: [faithful: {{ask_for: []}}, claims: {{{options}, embed: false}}]\n"


@given(parsers.re("the client (?P<how>streams|waits for) the answer"))
def client_reads(world: World, how: str) -> None:
    world.streams = how == "streams"


@given("the client asks for JSON")
def asks_for_json(world: World) -> None:
    world.params = {"response_format": {"type": "json_object"}}


@given("the verifier is overloaded")
def overloaded(world: World) -> None:
    world.verifiers.failure = ModelUnavailable("more is waiting than it can do")


@when(parsers.re(r"""the model says (?P<mark>["'])(?P<text>((?!" and then ").)*)(?P=mark)$"""))
def says(world: World, start: Start, text: str) -> None:
    asyncio.run(_ask(world, start, [text]))


@when(parsers.parse('the model says "{first}" and then "{second}"'))
def says_twice(world: World, start: Start, first: str, second: str) -> None:
    asyncio.run(_ask(world, start, [first, second]))


async def _ask(world: World, start: Start, texts: list[str]) -> None:
    def replied(text: str) -> Any:
        return stream(streamed([text[i : i + 7] for i in range(0, len(text), 7)])) if world.streams else reply(completion(text))

    question = {"role": "user", "content": "Tell me about the tower."}
    body = {"model": "gpt-4o", "messages": [question], "stream": world.streams, "groundwire": {"context": world.passages}, **world.params}
    async with start(*map(replied, texts), policy=world.policy, verifiers=world.verifiers) as proxy:
        world.answer = await proxy.post(body)
        path = f"/groundwire/v1/verdicts/{world.answer.headers['x-groundwire-id']}?wait_ms=10000"
        world.verdict = (await proxy.get(path)).json
        world.record = await proxy.record(world.answer)
        world.calls = proxy.upstream.calls


@then(parsers.re(r"""the client gets (?P<mark>["'])(?P<text>.*)(?P=mark)$"""))
def client_gets(world: World, text: str) -> None:
    assert (200, text) == (world.got.status, world.choice.text)


@then(parsers.parse('the client gets a {status:d} with the code "{code}" and the parameter "{param}"'))
def client_gets_error(world: World, status: int, code: str, param: str) -> None:
    error = world.got.json["error"]
    assert (status, code, param) == (world.got.status, error["code"], error["param"])


@then(parsers.parse('the answer\'s headers say "{verdict}"'))
def headers_say(world: World, verdict: str) -> None:
    assert verdict == world.got.verdict


@then(parsers.parse('the client\'s own question says "{verdict}" with the warning "{code}"'))
def own_verdict(world: World, verdict: str, code: str) -> None:
    assert (verdict, [code]) == (world.verdict["verdict"], world.verdict["warnings"])
    assert world.record["outcome"] == verdict


@then(parsers.re(r'"(?P<text>.*)" is told as "(?P<label>\w+)" (?P<where>where it stands|and stands nowhere)'))
def told_where(world: World, text: str, label: str, where: str) -> None:
    (claim,) = [claim for claim in world.verdict["claims"] if claim["text"] == text]
    stands = None if claim["span"] is None else world.choice.text[slice(*claim["span"])]
    assert (label, text if where == "where it stands" else None) == (claim["label"], stands)


@then(parsers.parse('the message names "{word}"'))
def message_names(world: World, word: str) -> None:
    assert word in world.got.json["error"]["message"]


@then(parsers.parse('the answer ends with "{reason}"'))
def ends_with(world: World, reason: str) -> None:
    assert reason == world.choice.finish_reason


@then(parsers.parse('the verdict is "{verdict}" without warnings'))
def verdict_alone(world: World, verdict: str) -> None:
    assert (verdict, None) == (world.got.verdict, world.got.headers.get("x-groundwire-warnings"))


@then(parsers.parse('the verdict is "{verdict}" with the warning "{code}"'))
def verdict_with_warning(world: World, verdict: str, code: str) -> None:
    assert (verdict, code) == (world.got.verdict, world.got.headers["x-groundwire-warnings"])


@then(parsers.parse('the faithfulness is "{share}"'))
def faithfulness_is(world: World, share: str) -> None:
    assert share == world.got.headers["x-groundwire-faithfulness"]


@then(parsers.parse('the claims are "{counts}"'))
def claims_are(world: World, counts: str) -> None:
    assert counts == world.got.headers["x-groundwire-claims"]


@then("there is no faithfulness")
def no_faithfulness(world: World) -> None:
    assert "x-groundwire-faithfulness" not in world.got.headers
    assert "faithfulness" not in world.record["detail"].get("facts", {})


@then(parsers.parse('the record says "{outcome}" with a faithfulness of {share:f}'))
def recorded(world: World, outcome: str, share: float) -> None:
    assert (outcome, share) == (world.record["outcome"], round(world.record["detail"]["facts"]["faithfulness"], 2))


@then(parsers.parse('the claim "{text}" is "{label}" by "{evidence}" from "{source}"'))
def claim_is(world: World, text: str, label: str, evidence: str, source: str) -> None:
    (claim,) = [claim for claim in world.claims if claim["text"] == text]
    span = claim["evidence"]
    assert (label, evidence, source) == (claim["label"], span["text"], span["source"])
    assert evidence == world.passages[0]["content"][slice(*span["span"])]


@then(parsers.parse('instead the context says "{text}"'))
def instead(world: World, text: str) -> None:
    assert [text] == [claim["instead"] for claim in world.claims if claim["label"] == "contradicted"]


@then(parsers.parse('the model was told of "{claim}" and of "{evidence}"'))
def told(world: World, claim: str, evidence: str) -> None:
    _, again = world.calls
    said = again.json["messages"][-1]["content"]
    assert json.dumps(claim) in said
    assert json.dumps(evidence) in said
