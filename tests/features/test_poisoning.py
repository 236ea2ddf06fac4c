"""Steps of poisoning.feature: the running proxy in front of a scripted provider. Every turn meets a proxy that was just started."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Ports
from proxy.ports.stage import Stage
from proxy.stages.claims import Claims
from proxy.stages.knowledge import Knowledge
from proxy.stages.poisoning import Poisoning
from proxy.testing import MemoryKnowledge, ScriptedVerifiers, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import Answer, Running, Start

scenarios("poisoning.feature")

_FALSE = ("London", "1950", "30 hours", "can be repaired")
"""What the verifier finds contradicted; of other statements it knows only whether the evidence has their words."""
_ADMIN = "/groundwire/v1/quarantine"


@dataclass
class World:
    """A conversation, and what came of its last turn."""

    facts: list[str] = field(default_factory=list)
    options: str = ""
    delivery: str = "hold"
    checks_answers: bool = False
    verifiers: ScriptedVerifiers = field(default_factory=lambda: ScriptedVerifiers(_by_words))
    streams: bool = False
    says: str = "Very well."
    """The model."""
    context: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: Answer | None = None
    said: str = ""
    """What the client got."""
    sent: list[Any] | None = None
    """What the model got; None where it was not asked."""
    record: Any = None
    counters: Mapping[str, float] = field(default_factory=dict)
    items: list[Any] = field(default_factory=list)

    @property
    def got(self) -> Answer:
        assert self.answer is not None
        return self.answer

    @property
    def policy(self) -> str:
        claims = ", claims: {embed: false}" if self.checks_answers else ""
        wanted = {"on_invalid": "block", "on_suspicious": "quarantine", "on_inexact": "block", "answers": "contradicted"}
        given = {name: value for name, value in wanted.items() if f"{name}:" not in self.options}
        options = ", ".join([*([self.options] if self.options else []), *(f"{name}: {value}" for name, value in given.items())])
        return f"name: careful\ndelivery: {self.delivery}\nstages: [knowledge: {{folder: facts}}, poisoning: {{{options}}}{claims}]\n"

    @property
    def stages(self) -> tuple[type[Stage], ...]:
        facts = self.facts

        class WithFacts(Knowledge):
            """The stage with these facts."""

            def __init__(self, options: Any, ports: Ports) -> None:
                super().__init__(options, replace(ports, knowledge=MemoryKnowledge(*facts)))
                self.embeds = False

            @classmethod
            def folders(cls, options: Any) -> Mapping[str, str]:
                return {}

        return WithFacts, Poisoning, Claims

    async def send(self, start: Start, **headers: str) -> None:
        """Send the conversation as it stands."""
        replied = stream(streamed([self.says[:9], self.says[9:]])) if self.streams else reply(completion(self.says))
        extra = {"groundwire": {"context": self.context}} if self.context else {}
        body = {"model": "gpt-4o", "messages": self.messages, "stream": self.streams, **extra}
        self.verifiers.asked.clear()
        async with start(replied, policy=self.policy, stages=self.stages, verifiers=self.verifiers) as proxy:
            self.answer = await proxy.post(body, x_groundwire_run_id="run-1", **headers)
            self.record = await proxy.record(self.answer)
            self.sent = proxy.upstream.calls[0].json["messages"] if proxy.upstream.calls else None
            self.counters = proxy.app.metrics.as_json()["counters"]
            self.items = (await proxy.get(_ADMIN)).json["data"]
        self.said = _text(self.got.body, self.streams) if self.got.status == 200 else ""

    async def ask(self, start: Start, work: Any) -> Any:
        """What `work` finds out from a running proxy."""
        async with start(policy=self.policy, stages=self.stages, verifiers=self.verifiers) as proxy:
            return await work(proxy)


def _by_words(pair: ClaimPair) -> Support:
    if any(words in pair.claim for words in _FALSE):
        return Support(0.02, 0.97)
    return Support(0.96, 0.01) if set(pair.claim.lower().split()) <= set(pair.evidence.lower().split()) else Support(0.3, 0.2)


def _text(body: bytes, streams: bool) -> str:
    if not streams:
        return ChatDialect().parse_answer(body).choices[0].text
    reader = ChatDialect().stream()
    reader.feed(body)
    assert reader.done
    return reader.answer.choices[0].text


def _unescaped(text: str) -> str:
    return text.replace("\\r\\n", "\r\n").replace("\\t", "\t").replace("\\u0301", "\u0301").replace("\\u200b", "\u200b")


@pytest.fixture
def world() -> World:
    return World()


# ---- setting up ----


@given("a knowledge base that says")
def knowledge(world: World, datatable: list[list[str]]) -> None:
    world.facts = [row[0] for row in datatable[1:]]


@given(parsers.re("the client (?P<how>streams|waits for) the answer$"))
def reads(world: World, how: str) -> None:
    world.streams = how == "streams"


@given(parsers.parse('the policy has "{options}"'))
def policy_has(world: World, options: str) -> None:
    world.options = options


@given(parsers.parse("the policy checks answers under delivery: {delivery}"))
def checks_answers(world: World, delivery: str) -> None:
    world.checks_answers, world.delivery = True, delivery


@given("the verifier is away")
def verifier_away(world: World) -> None:
    world.verifiers.failure = ModelUnavailable("the verifier's file is missing")


@given(parsers.parse('the model answers "{text}"'))
def model_answers(world: World, text: str) -> None:
    world.says = text


@given(parsers.re(r'the assistant said "(?P<text>.*)"$'))
def has_said(world: World, text: str) -> None:
    world.messages.append({"role": "assistant", "content": _unescaped(text)})


@given("the assistant said 30 different things that are not false")
def has_said_much(world: World) -> None:
    world.messages += [{"role": "assistant", "content": f"Bananas number {i} contain potassium."} for i in range(30)]


@given(parsers.re(r'the tool (?P<name>\w+) returned "(?P<text>.*)"$'))
def has_returned(world: World, name: str, text: str) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    world.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    world.messages.append({"role": "tool", "tool_call_id": "c1", "content": text})


@given(parsers.re(r'a passage that says "(?P<text>.*)"$'))
def passage(world: World, text: str) -> None:
    world.context.append({"content": text, "source": "guide.md"})


# ---- turns ----


@given(parsers.parse('the user says "{text}"'))
@when(parsers.parse('the user says "{text}"'))
def says(world: World, start: Start, text: str) -> None:
    world.messages.append({"role": "user", "content": text})
    asyncio.run(world.send(start))


@when(parsers.parse('the user goes on with "{text}"'))
def goes_on(world: World, start: Start, text: str) -> None:
    """The client keeps what it was told, as any does."""
    world.messages.append({"role": "assistant", "content": world.said})
    says(world, start, text)


@when("another client sends the same")
def another_client(world: World, start: Start) -> None:
    asyncio.run(world.send(start, authorization="Bearer sk-somebody-else"))


@given(parsers.re(r"a person (?P<decides>approves|rejects) the item$"))
@when(parsers.re(r"a person (?P<decides>approves|rejects) the item$"))
def person_decides(world: World, start: Start, decides: str) -> None:
    [item] = world.items

    async def decide(proxy: Running) -> int:
        body = {"by": "ann", "reason": "checked with the maker"}
        return (await proxy.post(body, f"{_ADMIN}/{item['id']}/{decides.removesuffix('s')}")).status

    assert 200 == asyncio.run(world.ask(start, decide))


# ---- what came of it ----


@then(parsers.re(r'the model gets "(?P<text>.*)" as message (?P<index>\d+)$'))
def gets(world: World, text: str, index: str) -> None:
    assert 200 == world.got.status
    assert world.sent is not None
    assert len(world.messages) == len(world.sent)
    assert text == world.sent[int(index)]["content"].strip()


@then(parsers.parse('no message to the model holds "{text}"'))
def holds_not(world: World, text: str) -> None:
    assert world.sent is not None
    assert not any(text in str(message) for message in world.sent)


@then(parsers.parse("message {index:d} still answers its tool call"))
def answers_call(world: World, index: int) -> None:
    assert world.sent is not None
    assert ("tool", world.sent[index - 1]["tool_calls"][0]["id"]) == (world.sent[index]["role"], world.sent[index]["tool_call_id"])


@then(parsers.re(r'the request is refused as (?P<param>\w+): "(?P<message>.*)"$'))
def refused(world: World, param: str, message: str) -> None:
    error = world.got.json["error"]
    assert (400, "policy_blocked", param, None) == (world.got.status, error["code"], error["param"], world.sent)
    assert error["message"].startswith(message)


@then(parsers.re(r"the verdict is (?P<verdict>\w+) with the warning (?P<code>\w+)$"))
def verdict_is(world: World, verdict: str, code: str) -> None:
    assert (verdict, code) == (world.got.verdict, world.got.headers["x-groundwire-warnings"])


@then(parsers.parse("the quarantine has 1 item, which is {status}, of the type {kind}"))
def one_item(world: World, status: str, kind: str) -> None:
    assert [(status, kind)] == [(item["status"], item["type"]) for item in world.items]


@then("the record names the item's id")
def record_names(world: World) -> None:
    [verdict] = [v for v in world.record["detail"]["verdicts"] if v["stage"] == "poisoning"]
    assert [world.items[0]["id"]] == [one["quarantine"] for one in verdict["detail"]["content"]]
    assert world.record["id"] == world.items[0]["record_id"]


@then(parsers.parse('nobody was asked about "{claim}"'))
def nobody_asked(world: World, claim: str) -> None:
    assert claim not in [pair.claim for batch in world.verifiers.asked for pair in batch]


@then(parsers.parse('the audit trail has 1 decision: {status} by {name}, because "{reason}"'))
def trail(world: World, start: Start, status: str, name: str, reason: str) -> None:
    async def read(proxy: Running) -> Any:
        return (await proxy.get(f"{_ADMIN}/{world.items[0]['id']}")).json

    shown = asyncio.run(world.ask(start, read))
    [decision] = shown["decisions"]
    assert (status, name, reason) == (decision["decision"], decision["decided_by"], decision["reason"])
    assert shown["created_at"] < decision["decided_at"]


@then(parsers.re(r"the item's content is \"(?P<text>.*)\", byte for byte$"))
def content(world: World, start: Start, text: str) -> None:
    path = f"{_ADMIN}/{world.items[0]['id']}"

    async def read(proxy: Running) -> tuple[bytes, Any]:
        return (await proxy.get(f"{path}/content")).body, (await proxy.get(path)).json["content"]

    body, shown = asyncio.run(world.ask(start, read))
    assert (_unescaped(text).encode(), _unescaped(text)) == (body, shown), base64.b64encode(body)


@then("the counters are")
def counted(world: World, datatable: list[list[str]]) -> None:
    assert {name: float(value) for name, value in datatable} == {name: world.counters.get(name) for name, _ in datatable}
