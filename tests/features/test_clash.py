"""Steps of clash.feature: the running proxy in front of a scripted provider. Every turn meets a proxy that was just started."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.errors import StoreUnavailable
from proxy.exchange import QUIET
from proxy.exchange.judgements import ClaimPair, Support
from proxy.ports import Ports
from proxy.stages.clash import Clash
from proxy.testing import HashEmbedder, MemoryClashes, ScriptedVerifiers, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.apis import Api
from tests.conftest import Answer, Start

scenarios("clash.feature")
pytestmark = pytest.mark.usefixtures("api")


class Quick(Clash):
    """The stage with an embedder that needs no loading."""

    embeds = False

    def __init__(self, options: Any, ports: Ports) -> None:
        super().__init__(options, replace(ports, embedder=HashEmbedder()))


class Away(MemoryClashes):
    """A store that cannot be reached."""

    async def find(self, **about: Any) -> Any:
        raise StoreUnavailable("the disk is gone")


class Storeless(Quick):
    """The stage without its store."""

    def __init__(self, options: Any, ports: Ports) -> None:
        super().__init__(options, replace(ports, clashes=Away()))


@dataclass
class World:
    """A conversation, and what came of its last turn."""

    strategy: str = "prefer_recent"
    edits: str = ""
    between: str = ""
    critical: str = ""
    on_error: str = ""
    stage: type[Clash] = Quick
    streams: bool = False
    params: dict[str, Any] = field(default_factory=dict)
    context: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: Answer | None = None
    said: str = ""
    """By the proxy or the model."""
    sent: list[Any] | None = None
    """What the model got; None where it was not asked."""
    record: Any = None
    counters: dict[str, float] = field(default_factory=dict)

    @property
    def got(self) -> Answer:
        assert self.answer is not None
        assert 200 == self.answer.status
        return self.answer

    @property
    def verdict(self) -> Any:
        """The stage's own."""
        return next(v for v in self.record["detail"]["verdicts"] if v["stage"] == "clash" and v.get("detail"))

    @property
    def clashes(self) -> list[Any]:
        found: list[Any] = self.verdict["detail"].get("clashes", [])
        return found

    def use_tool(self, name: str, result: str) -> None:
        """A call of a tool and its result."""
        id_ = f"call_{len(self.messages)}"
        call = {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}
        self.messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        self.messages.append({"role": "tool", "tool_call_id": id_, "content": result})

    async def send(self, start: Start) -> None:
        """Send the conversation as it stands."""
        given = (("edits", self.edits), ("between", self.between), ("critical_strategy", self.critical), ("on_error", self.on_error))
        options = ", ".join([f"strategy: {self.strategy}", *(f"{key}: {value}" for key, value in given if value)])
        policy = f"name: careful\ndelivery: hold\nstages: [clash: {{{options}}}]\n"
        replied = stream(streamed(["Very ", "well."])) if self.streams else reply(completion("Very well."))
        extra = {"groundwire": {"context": self.context}} if self.context else {}
        body = {"model": "gpt-4o", "messages": self.messages, "stream": self.streams, **self.params, **extra}
        async with start(replied, policy=policy, stages=(self.stage,), verifiers=ScriptedVerifiers(_by_script)) as proxy:
            self.answer = await proxy.post(body)
            self.record = await proxy.record(self.answer)
            self.sent = proxy.upstream.calls[0].json["messages"] if proxy.upstream.calls else None
            self.counters = proxy.app.metrics.as_json()["counters"]
        self.said = _text(self.answer.body, self.streams) if self.answer.status == 200 else ""

    async def resolve(self, start: Start, resolution: str) -> None:
        """Decide the run's only clash, as an operator."""
        async with start(stages=(self.stage,)) as proxy:
            (found,) = (await proxy.get("/groundwire/v1/clashes")).json["data"]
            done = await proxy.post({"resolution": resolution, "by": "ann"}, f"/groundwire/v1/clashes/{found['id']}/resolve")
            assert 200 == done.status


def _by_script(pair: ClaimPair) -> Support:
    """Opening hours contradict each other, and nothing else does."""
    return Support(0.01, 0.98) if "opens" in pair.claim and "opens" in pair.evidence else Support(0.05, 0.05)


def _text(body: bytes, streams: bool) -> str:
    if not streams:
        return ChatDialect().parse_answer(body).choices[0].text
    reader = ChatDialect().stream()
    reader.feed(body)
    assert reader.done
    return reader.answer.choices[0].text


def _said(text: str) -> str:
    return text.replace("\\n", "\n")


@pytest.fixture
def world() -> World:
    return World()


# ---- setting up ----


@given(parsers.re(r"the policy resolves clashes by (?P<strategy>\w+)$"))
def strategy(world: World, strategy: str) -> None:
    world.strategy = strategy


@given("it takes out what no longer counts, whoever has said it")
def edits_all(world: World) -> None:
    world.edits = "all"


@given("it only reports")
def edits_none(world: World) -> None:
    world.edits = "none"


@given(parsers.re(r"it compares (?P<parts>[\w, ]+)$"))
def compares(world: World, parts: str) -> None:
    world.between = f"[{parts}]"


@given("the policy asks about critical clashes")
def critical(world: World) -> None:
    world.critical = "ask_user"


@given("nothing that cannot be checked passes")
def closed(world: World) -> None:
    world.on_error = "closed"


@given("the store is away")
def away(world: World) -> None:
    world.stage = Storeless


@given(parsers.re("the client (?P<how>streams|waits for) the answer$"))
def reads(world: World, how: str) -> None:
    world.streams = how == "streams"


@given("the client asks for JSON")
def wants_json(world: World) -> None:
    world.params = {"response_format": {"type": "json_object"}}


@given("the client asks for 2 choices")
def wants_choices(world: World, api: Api) -> None:
    if api.name != "chat":
        pytest.skip("only chat completions have several choices")
    world.params = {"n": 2}


@given("the client waits for a tool call")
def wants_a_call(world: World) -> None:
    tool = {"type": "function", "function": {"name": "book", "parameters": {}}}
    world.params = {"tools": [tool], "tool_choice": {"type": "function", "function": {"name": "book"}}}


@given(parsers.parse('a passage from "{source}" that says "{text}"'))
def passage(world: World, source: str, text: str) -> None:
    world.context.append({"content": text, "source": source})


@given(parsers.re(r'the (?P<role>user|assistant|system) said "(?P<text>.*)"$'))
def has_said(world: World, role: str, text: str) -> None:
    world.messages.append({"role": role, "content": _said(text)})


@given(parsers.re(r'the user said "(?P<text>.*)" (?P<hours>\d+) hours? ago$'))
def has_said_long_ago(world: World, text: str, hours: str) -> None:
    world.messages.append({"role": "user", "content": text, "groundwire": {"timestamp": time.time() - int(hours) * 3600}})


@given(parsers.re(r"the tool (?P<name>\w+) returned '(?P<result>.*)'$"))
def has_returned(world: World, name: str, result: str) -> None:
    world.use_tool(name, result)


# ---- turns ----


@given(parsers.re(r'the user says "(?P<text>.*)"$'))
@when(parsers.re(r'the user says "(?P<text>.*)"$'))
def says(world: World, start: Start, text: str) -> None:
    world.messages.append({"role": "user", "content": text})
    asyncio.run(world.send(start))


@when("the conversation is sent")
def is_sent(world: World, start: Start) -> None:
    asyncio.run(world.send(start))


@when(parsers.re(r"""the tool (?P<name>\w+) returns (?P<mark>["'])(?P<result>.*)(?P=mark)$"""))
def returns(world: World, start: Start, name: str, result: str) -> None:
    world.use_tool(name, result)
    asyncio.run(world.send(start))


@when(parsers.re(r'the user (?:replies|goes on with) "(?P<text>.*)"$'))
def goes_on(world: World, start: Start, text: str) -> None:
    """The client keeps what it was told, as any does."""
    world.messages.append({"role": "assistant", "content": world.said})
    says(world, start, text)


@when(parsers.parse('a person resolves the clash as "{resolution}"'))
def decides(world: World, start: Start, resolution: str) -> None:
    asyncio.run(world.resolve(start, resolution))


# ---- what came of it ----


@then(parsers.re(r"""the model gets (?P<mark>["'])(?P<text>.*)(?P=mark) as message (?P<index>\d+)$"""))
def gets(world: World, text: str, index: str) -> None:
    assert world.sent is not None
    assert len(world.messages) == len(world.sent)
    assert _said(text).strip() == world.sent[int(index)]["content"].strip()


@then("the model gets what the client sent")
def gets_all(world: World) -> None:
    assert [{k: v for k, v in message.items() if k != "groundwire"} for message in world.messages] == world.sent


@given(parsers.parse('the user is asked to choose from "{older}" and "{newer}"'))
@then(parsers.parse('the user is asked to choose from "{older}" and "{newer}"'))
def asked(world: World, older: str, newer: str) -> None:
    assert world.sent is None
    assert f"1. {older}\n2. {newer}\n3. I am flexible: both are fine." in world.said


@then(parsers.parse('the user is asked to choose from the facts "{older}" and "{newer}"'))
def asked_of_facts(world: World, older: str, newer: str) -> None:
    assert world.sent is None
    expected = f"1. {older} (the other one is an error)\n2. {newer} (it has changed)\n3. Both are right."
    assert expected in world.said.replace(" (memory)", "")


@then(parsers.re(r"(?P<count>\d+) clash(?:es are| is) found(?:, of the type (?P<kind>\w+))?$"))
def found(world: World, count: str, kind: str | None) -> None:
    assert count == world.got.headers["x-groundwire-clashes"]
    assert int(count) == len(world.clashes)
    assert kind is None or [kind] == [clash["type"] for clash in world.clashes]


@then("no clash is found")
def none_found(world: World) -> None:
    assert "0" == world.got.headers["x-groundwire-clashes"]


@then(parsers.re(r"the verdict is (?P<verdict>\w+)(?: with the warning (?P<code>\w+))?$"))
@given(parsers.re(r"the verdict is (?P<verdict>\w+)(?: with the warning (?P<code>\w+))?$"))
def verdict_is(world: World, verdict: str, code: str | None) -> None:
    if verdict in QUIET:  # a check of the request says nothing of the answer
        own = [found["outcome"] for found in world.record["detail"].get("verdicts", ()) if found["stage"] == "clash"] or ["unchecked"]
        assert (verdict, code, "unchecked") == (own[-1], None, world.got.verdict)
    else:
        assert (verdict, code) == (world.got.verdict, world.got.headers["x-groundwire-warnings"].partition(",")[0])


@then(parsers.parse("the request is refused with {status:d}, to be tried again"))
def refused(world: World, status: int) -> None:
    assert world.answer is not None
    assert (status, "overloaded", "1") == (world.answer.status, world.answer.json["error"]["code"], world.answer.headers.get("retry-after"))


@then(parsers.parse('the reason is "{reason}"'))
def reason_is(world: World, reason: str) -> None:
    assert [reason] == [clash["reason"] for clash in world.clashes]


@then(parsers.parse("the clash is resolved by the user as {resolution}"))
def resolved(world: World, resolution: str) -> None:
    assert [("user", "resolved", resolution)] == [(clash["by"], clash["status"], clash["resolution"]) for clash in world.clashes]


@then("a person finds 1 clash to look at")
def listed(world: World, start: Start) -> None:
    async def clashes() -> list[Any]:
        async with start(stages=(world.stage,)) as proxy:
            found: list[Any] = (await proxy.get("/groundwire/v1/clashes")).json["data"]
            return found

    assert 1 == len(asyncio.run(clashes()))


@then("the counters are")
def counted(world: World, datatable: list[list[str]]) -> None:
    assert {name: float(value) for name, value in datatable} == {name: world.counters.get(name) for name, _ in datatable}
