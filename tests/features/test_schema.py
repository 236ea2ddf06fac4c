"""Steps of schema.feature: the running proxy in front of a scripted provider."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.testing import reply, stream
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import CHAT, Answer, Start
from tests.own_tools import call_events, called, calling

scenarios("schema.feature")


@dataclass
class World:
    """What a scenario has set up, and what came of it."""

    start: Start
    tools: list[Any] = field(default_factory=list)
    streams: bool = False
    options: str = ""
    written: list[tuple[str, str]] = field(default_factory=list)
    answer: Answer | None = None
    record: Any = None
    asked: list[Any] = field(default_factory=list)

    @property
    def got(self) -> Answer:
        """What the client got; the model is asked when a step first wants to know."""
        if self.answer is None:
            asyncio.run(self._ask())
        assert self.answer is not None
        return self.answer

    async def _ask(self) -> None:
        calls = [called(name, arguments) for name, arguments in self.written]
        answers = [stream(call_events(call)) if self.streams else reply(calling(call)) for call in calls]
        policy = f"name: p\ndelivery: hold\nstages: [schema: {{{self.options}}}]\n"
        async with self.start(*answers, policy=policy) as proxy:
            self.answer = await proxy.post({**CHAT, "tools": self.tools, "stream": self.streams})
            self.record = await proxy.record(self.answer)
            self.asked = [call.json for call in proxy.upstream.calls]


@pytest.fixture
def world(start: Start) -> World:
    return World(start)


@given(parsers.parse('a tool "{name}" that takes a "{first}" of type "{kind}" and a "{second}" of type "{other}"'))
def tool(world: World, name: str, first: str, kind: str, second: str, other: str) -> None:
    parameters = {"type": "object", "properties": {first: {"type": kind}, second: {"type": other}}, "required": [first]}
    world.tools.append({"type": "function", "function": {"name": name, "parameters": parameters}})


@given("the client streams")
def streams(world: World) -> None:
    world.streams = True


@given("what does not conform is refused")
def refused(world: World) -> None:
    world.options = "on_violation: block"


@when(parsers.parse('the model calls "{name}" with {written}'))
@when(parsers.parse('then "{name}" with {written}'))
def calls(world: World, name: str, written: str) -> None:
    world.written.append((name, written))


@then(parsers.parse("the client gets the arguments {arguments}"))
def gets(world: World, arguments: str) -> None:
    reader = ChatDialect().stream()
    reader.feed(world.got.body) if world.streams else None
    answer = reader.answer if world.streams else ChatDialect().parse_answer(world.got.body)
    assert arguments == answer.choices[0].tool_calls[0].arguments


@then(parsers.parse('the verdict is "{verdict}", about "{code}"'))
def warns(world: World, verdict: str, code: str) -> None:
    assert (verdict, code) == (world.got.verdict, world.got.headers["x-groundwire-warnings"])


@then(parsers.parse('the verdict is "{verdict}"'))
def judged(world: World, verdict: str) -> None:
    assert verdict == world.got.verdict


@then(parsers.parse("the model was asked {number:d} times"))
def asked(world: World, number: int) -> None:
    assert number == len(world.asked)


@then(parsers.parse('the model was told "{words}"'))
def told(world: World, words: str) -> None:
    assert words.replace('\\"', '"') in world.asked[-1]["messages"][-1]["content"]


@then(parsers.parse('the record points at "" for "{keyword}" of "{name}", and holds no value'))
def recorded(world: World, keyword: str, name: str) -> None:
    detail = next(v["detail"] for v in world.record["detail"]["verdicts"] if v["stage"] == "schema")
    assert [{"pointer": "", "keyword": keyword, "name": name, "schema": "/required"}] == detail["violations"][0]["errors"]
    assert "3" not in json.dumps(detail["violations"])


@then(parsers.parse('the client gets a 400 "{code}" about "{param}"'))
def blocked(world: World, code: str, param: str) -> None:
    assert (400, code, param) == (world.got.status, world.got.json["error"]["code"], world.got.json["error"]["param"])
