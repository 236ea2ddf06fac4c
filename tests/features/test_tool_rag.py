"""Steps of tool_rag.feature, against a running proxy with the real embedding model."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, ClassVar, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.exchange.answers import OutputRequirements
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.ports import ToolOutcomes
from proxy.testing import ReceivedCall, ScriptedReply, completion, reply
from tests.apis import Api
from tests.conftest import Answer, Running, Start
from tests.features.office_tools import QUESTIONS, TOOLS

scenarios("tool_rag.feature")
pytestmark = pytest.mark.usefixtures("api")

FIND = "groundwire_find_tools"
POLICY = """
name: agent
delivery: tap
stages: [budget: {}, tool_rag: {above: 30, top_k: 5, min_relevance: 0.7, when_none: keep, timeout_ms: 60000}]
"""
T = TypeVar("T")


class CountingEncoder(UseEncoder):
    """Remembers what it was given; computes no text twice over all scenarios."""

    _computed: ClassVar[dict[str, NDArray[np.float32]]] = {}

    def __init__(self) -> None:
        super().__init__(2)
        self.texts: list[str] = []

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.texts += texts
        if new := [text for text in dict.fromkeys(texts) if text not in self._computed]:
            self._computed.update(zip(new, super().encode(new), strict=True))
        return np.stack([self._computed[text] for text in texts])


class World:
    """The running proxy, and what happened so far."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner, self.stack = runner, AsyncExitStack()
        self.tools: list[dict[str, Any]] = list(TOOLS)
        self.proxy: Running
        self.encoder = CountingEncoder()
        self.answers: list[Answer] = []
        self.embedded_before = 0
        self.figures: dict[str, float] = {}
        self.asked = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def ask(self, question: str, before: tuple[Any, ...] = (), **headers: str) -> None:
        self.answers.append(self.run(self.post(question, before, **headers)))

    async def post(self, question: str, before: tuple[Any, ...] = (), **headers: str) -> Answer:
        messages = [*before, {"role": "user", "content": question}]
        return await self.proxy.post({"model": "gpt-4o", "messages": messages, "tools": self.tools}, **headers)

    def sent(self, call: int = -1) -> list[Any]:
        """The tools that the model got."""
        return list(self.proxy.upstream.calls[call].json["tools"])

    def sent_names(self) -> list[str]:
        """Without the proxy's own."""
        return [name for tool in self.sent() if (name := tool["function"]["name"]) != FIND]

    def verdict(self) -> Any:
        record = self.run(self.proxy.record(self.answers[-1]))
        return next(v for v in record["detail"]["verdicts"] if v["stage"] == "tool_rag")


@pytest.fixture
def world() -> Iterator[World]:
    with asyncio.Runner() as runner:
        made = World(runner)
        yield made
        runner.run(made.stack.aclose())


@given("an agent with 45 tools, whose descriptions take about 3500 tokens")
def an_agent(world: World) -> None:
    counter = TiktokenCounter({})
    use = world.run(counter.count_request((), world.tools, OutputRequirements(), counter.model("gpt-4o")))
    assert len(world.tools) == 45
    assert 3200 <= use.components["tool_descriptions"] <= 3800


@given("a proxy that selects among more than 30 tools, at most 5 at a time")
def a_proxy(world: World, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def models(settings: object, outcomes: ToolOutcomes, shared: object) -> tuple[BatchingEmbedder, EmbeddingToolRanker]:
        embedder = BatchingEmbedder(world.encoder)
        return embedder, EmbeddingToolRanker(embedder, outcomes, wait_s=60)  # so that a busy machine does not change the result

    monkeypatch.setattr("proxy.app.make_models", models)
    world.proxy = world.run(world.stack.enter_async_context(start(policy=POLICY)))
    world.run(world.proxy.app.models.load())  # as a server that is ready


@given("a policy that keeps all tools where none is sure")
def all_where_unsure(world: World, start: Start) -> None:
    world.proxy = world.run(world.stack.enter_async_context(start(policy=POLICY.replace("when_none: keep", "when_none: all"))))
    world.run(world.proxy.app.models.load())


@given(parsers.parse("the agent has only {count:d} of its tools"))
def fewer_tools(world: World, count: int) -> None:
    world.tools = world.tools[:count]


@given(parsers.parse('the agent has no "{name}"'))
def without(world: World, name: str) -> None:
    world.tools = [tool for tool in world.tools if tool["function"]["name"] != name]


@given("a model that calls the tool which the question needs, and searches when it is not listed")
def a_model(world: World) -> None:
    world.proxy.upstream.say(calling)


@given(parsers.parse('a model that searches for "{name}" and then calls it'))
def a_searching_model(world: World, name: str) -> None:
    world.proxy.upstream.say(tool_call(FIND, {"query": f"the tool {name}"}), tool_call(name), reply(completion("It is done.")))


@when(parsers.parse('the user asks "{question}"'))
def the_user_asks(world: World, question: str) -> None:
    world.ask(question)


@when(parsers.parse('another client asks "{question}"'))
def another_client_asks(world: World, question: str) -> None:
    world.embedded_before = len(world.encoder.texts)
    world.ask(question, authorization="Bearer another")


@when(parsers.parse('the same run goes on with "{question}"'))
def the_run_goes_on(world: World, question: str) -> None:
    before = ({"role": "user", "content": "search for flights"}, {"role": "assistant", "content": "Where to?"})
    world.ask(question, before)


@when("500 questions have been asked")
def many_questions(world: World, api: Api) -> None:
    """In chat; in other APIs 100, each of the different ones five times: the figures are the same code's, made of what their readers give."""
    world.asked = 500 if api.name == "chat" else 100

    async def ask_all() -> None:
        for number, question in zip(range(world.asked), itertools.cycle(QUESTIONS), strict=False):
            answer = await world.post(question, x_groundwire_run_id=f"run-{number}")
            assert answer.status == 200

    world.run(ask_all())


@then(parsers.parse('the answer calls "{name}" and nothing else'))
def the_answer_calls(world: World, name: str) -> None:
    message = world.answers[-1].json["choices"][0]["message"]
    assert [call["function"]["name"] for call in message["tool_calls"]] == [name]


@then(parsers.parse('the model has got "{name}" at the end of the tools it had'))
def added_at_the_end(world: World, name: str) -> None:
    first, second = world.sent(0), world.sent(1)
    assert (second[:-1], second[-1]["function"]["name"]) == (first, name)


@then(parsers.parse('the operator sees that a client taught "{name}", and can delete it'))
def learned_and_deleted(world: World, name: str) -> None:
    path = "/groundwire/v1/tool-outcomes"

    async def listed() -> list[Any]:
        for _ in range(500):  # it is learned after the answer has left
            if found := (await world.proxy.get(path)).json["data"]:
                return list(found)
        return []

    async def delete(client: str) -> int:
        async with world.proxy._session.delete(f"{world.proxy.url}{path}", params={"client": client}) as response:
            return int((await response.json())["deleted"])

    found = world.run(listed())
    assert [entry["tool"] for entry in found] == [name]
    assert world.run(delete(found[0]["client"])) == 1
    assert world.run(world.proxy.get(path)).json["data"] == []


@then(parsers.parse("at most {count:d} of the agent's tools reach the model"))
def at_most(world: World, count: int) -> None:
    assert 0 < len(world.sent_names()) <= count


@then(parsers.parse('"{name}" is among them'))
def is_among_them(world: World, name: str) -> None:
    assert name in world.sent_names()


@then(parsers.parse('none of "{others}" is among them'))
def are_not_among_them(world: World, others: str) -> None:
    assert not set(others.split(", ")) & set(world.sent_names())


@then("the model is offered a search for the other tools")
def a_search_is_offered(world: World) -> None:
    assert world.sent()[0]["function"]["name"] == FIND


@then("the response tells that 45 tools were offered and how many were kept")
def the_header_tells(world: World) -> None:
    assert world.answers[-1].headers["x-groundwire-tools"] == f"45->{len(world.sent_names())}"


@then("all 45 tools have been embedded")
def all_embedded(world: World) -> None:
    said = "\n".join(world.encoder.texts)
    assert all(tool["function"]["description"] in said for tool in world.tools)


@then("the selection was not waiting for the index")
def indexed(world: World) -> None:
    assert world.verdict()["detail"]["ranking"] == "ok"


@then("only the new question has been embedded")
def only_the_question(world: World) -> None:
    assert set(world.encoder.texts[world.embedded_before :]) <= {"book a hotel in Paris", "book", "hotel", "paris"}


@then("the tools of the first request stand first, as they were")
def prefix_is_kept(world: World) -> None:
    first = world.sent(0)
    assert world.sent()[: len(first)] == first


@then(parsers.parse("all {count:d} tools reach the model, byte for byte"))
def untouched(world: World, count: int) -> None:
    assert world.sent() == world.tools[:count]
    assert json.dumps(world.tools).encode() in world.proxy.upstream.calls[-1].body


@then(parsers.parse('the response says "{value}"'))
def the_header_says(world: World, value: str) -> None:
    assert world.answers[-1].headers["x-groundwire-tools"] == value


@then(parsers.parse("at least {share:d}% of its tool calls were to tools that were listed"))
def accuracy(world: World, share: int) -> None:
    async def counted() -> dict[str, float]:
        for _ in range(500):  # a call is counted after its answer has left
            found = (await world.proxy.get("/groundwire/v1/metrics")).json["tool_selection"]
            if found["calls"] == world.asked:
                break
        return dict(found)

    world.figures = world.run(counted())
    assert (world.figures["requests"], world.figures["calls"]) == (world.asked, world.asked)
    assert world.figures["selection_accuracy"] >= share / 100


@then(parsers.parse("at most {most:d} tools were in context on average, of {offered:d}"))
def average(world: World, most: int, offered: int) -> None:
    assert world.figures["average_tools"] <= most
    assert world.figures["average_tools_offered"] == offered


@then(parsers.parse("at least {share:d}% of the tool tokens were saved"))
def savings(world: World, share: int) -> None:
    assert world.figures["token_savings"] >= share / 100


@then("the dashboard shows these figures")
def on_the_dashboard(world: World) -> None:
    page = world.run(world.proxy.get("/dashboard/figures")).body.decode()
    assert f"{world.figures['selection_accuracy']:.1%} of {world.asked} requests had the tool they called in their first set" in page


def calling(writer: asyncio.StreamWriter, call: ReceivedCall) -> Awaitable[None]:
    """The model: one call of the tool that the question needs, or of the search."""
    body = call.json
    question = next(m["content"] for m in reversed(body["messages"]) if m["role"] == "user")
    listed = {tool["function"]["name"] for tool in body["tools"]}
    needed = QUESTIONS[question]
    return tool_call(*((needed, {}) if needed in listed else (FIND, {"query": needed})))(writer, call)


def tool_call(name: str, arguments: object = ()) -> ScriptedReply:
    """An answer that is one call."""
    function = {"name": name, "arguments": json.dumps(arguments or {})}
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}
    return reply(completion(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}]))
