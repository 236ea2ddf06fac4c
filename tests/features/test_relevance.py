"""Steps of relevance.feature: the running proxy with its real embedding model, in front of a scripted provider."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.faithful import wrap_with_context_faithful_prompt
from proxy.testing import ReceivedCall
from tests.conftest import Answer, Start

pytestmark = pytest.mark.slow
scenarios("relevance.feature")


@dataclass
class World:
    """What a scenario has set up, and what came of it."""

    passages: list[str] = field(default_factory=list)
    action: str = "answer"
    tools: list[dict[str, Any]] = field(default_factory=list)
    label: str = ""
    """Above the passages, where they stand in the system message."""
    template: str = ""
    """The language of this project's own template, where it makes the prompt."""
    poisoning: bool = False
    hints: bool = False
    """Whether the passages come in the body's groundwire field, not in the user's message."""
    answer: Answer | None = None
    record: Any = None
    calls: list[ReceivedCall] = field(default_factory=list)

    @property
    def policy(self) -> str:
        options = f"{{action: {self.action}, min: 0.4, timeout_ms: 30000}}"
        before = "poisoning: {timeout_ms: 30000}, " * self.poisoning
        return f"name: manuals\ndelivery: gate\nstages: [{before}relevance: {options}, faithful: {{}}]\n"

    @property
    def headers(self) -> Any:
        assert self.answer is not None
        return self.answer.headers

    def body(self, question: str, stream: bool) -> dict[str, Any]:
        tools = {"tools": self.tools} if self.tools else {}
        if self.label:
            rules = "Answer from the documents alone.\n\n" + self.label + "\n" + "\n\n".join(self.passages)
            messages = [{"role": "system", "content": rules}, {"role": "user", "content": question}]
            return {"model": "gpt-4o", "messages": messages, "stream": stream}
        if self.template:
            suffix, asked = wrap_with_context_faithful_prompt(question, [], language=self.template)
            messages = [{"role": "system", "content": f"You help.{suffix}"}, {"role": "user", "content": asked}]
            return {"model": "gpt-4o", "messages": messages, "stream": stream}
        if self.hints:
            hints = {"context": [{"content": passage} for passage in self.passages]}
            messages = [{"role": "user", "content": question}]
            return {"model": "gpt-4o", "messages": messages, "stream": stream, "groundwire": hints, **tools}
        context = "\n\n".join(f"### Passage {i}\n{text}" for i, text in enumerate(self.passages, 1))
        messages = [{"role": "user", "content": f"<context>\n{context}\n</context>\n\nQuestion: {question}"}]
        return {"model": "gpt-4o", "messages": messages, "stream": stream, **tools}


@pytest.fixture
def world() -> World:
    return World()


@given("a knowledge base of product manuals")
def knowledge_base(world: World, datatable: list[list[str]]) -> None:
    world.passages = [row[0] for row in datatable[1:]]


@given(parsers.parse('the policy\'s action is "{action}"'))
def policy_action(world: World, action: str) -> None:
    world.action = action


@given(parsers.parse('the request offers the tool "{name}"'))
def offered_tool(world: World, name: str) -> None:
    world.tools = [{"type": "function", "function": {"name": name, "description": "Searches.", "parameters": {"type": "object"}}}]


@given("the passages come as groundwire.context")
def passages_as_hints(world: World) -> None:
    world.hints = True


@given(parsers.re(r"the passages stand in the (?P<place>hints|user's message|system message)"))
def passages_in_a_place(world: World, place: str) -> None:
    world.hints = place == "hints"
    world.label = "**Documents:**" if place == "system message" else ""


@given(parsers.parse('the passages stand in the system message below "{label}"'))
def passages_in_the_system_message(world: World, label: str) -> None:
    world.label = label


@given(parsers.parse('the prompt is made by this project\'s template in "{language}" without a passage'))
def own_template(world: World, language: str) -> None:
    world.template = language


@given("the policy keeps poisoned passages out")
def policy_poisoning(world: World) -> None:
    world.poisoning = True


@given("the user pastes the passages")
def passages_pasted(world: World) -> None:
    world.hints = False


@given(parsers.parse('the only passage is "{passage}"'))
def only_passage(world: World, passage: str) -> None:
    world.passages = [passage]


@given("the search found nothing")
def found_nothing(world: World) -> None:
    world.passages = []


@when(parsers.parse('the user asks "{question}"'))
def ask(world: World, start: Start, question: str) -> None:
    asyncio.run(_ask(world, start, question, stream=False))


@when(parsers.parse('the user asks "{question}" and streams'))
def ask_streaming(world: World, start: Start, question: str) -> None:
    asyncio.run(_ask(world, start, question, stream=True))


async def _ask(world: World, start: Start, question: str, *, stream: bool) -> None:
    async with start(policy=world.policy) as proxy:
        world.answer = await proxy.post(world.body(question, stream))
        world.record = await proxy.record(world.answer)
        world.calls = proxy.upstream.calls


@then(parsers.parse('the answer is "{text}"'))
def answer_is(world: World, text: str) -> None:
    assert world.answer is not None
    assert text == world.answer.json["choices"][0]["message"]["content"]


@then(parsers.parse('the answer contains "{text}"'))
def answer_contains(world: World, text: str) -> None:
    assert world.answer is not None
    assert text in world.answer.json["choices"][0]["message"]["content"]


@then("the model was not called")
def not_called(world: World) -> None:
    assert [] == world.calls


@then("the model was called once with all passages")
def called_with_all(world: World) -> None:
    assert 1 == len(world.calls)
    sent = world.calls[0].json["messages"][-1]["content"]
    assert all(passage in sent for passage in world.passages)


@then(parsers.parse('the model saw only the passage about "{subject}"'))
def called_with_one(world: World, subject: str) -> None:
    sent = world.calls[0].json["messages"][-1]["content"]
    assert [subject in passage for passage in world.passages] == [passage in sent for passage in world.passages]


@then("the guard lets it pass")
def lets_pass(world: World) -> None:
    """A check of the request says nothing of the answer."""
    assert ("unchecked", "unchecked_no_answer_check") == (world.headers["x-groundwire-verdict"], world.headers["x-groundwire-warnings"])
    assert float(world.headers["x-groundwire-relevance"]) >= 0.4


@then(parsers.parse('the verdict is "{verdict}" with the warning "{code}"'))
def verdict_with_warning(world: World, verdict: str, code: str) -> None:
    assert (verdict, code) == (world.headers["x-groundwire-verdict"], world.headers["x-groundwire-warnings"])


@then(parsers.parse("the relevance is below {limit:f}"))
def relevance_below(world: World, limit: float) -> None:
    assert float(world.headers["x-groundwire-relevance"]) < limit


@then(parsers.parse("the relevance is at least {limit:f}"))
def relevance_at_least(world: World, limit: float) -> None:
    assert float(world.headers["x-groundwire-relevance"]) >= limit


@then("the record says that the stage answered, and scores every passage")
def recorded(world: World) -> None:
    verdict = next(v for v in world.record["detail"]["verdicts"] if v["stage"] == "relevance")
    assert ("low_relevance", "answer") == (verdict["code"], verdict["detail"]["action"])
    assert [0, 1, 2] == [passage["index"] for passage in verdict["detail"]["passages"]]
    assert all(0 <= passage["score"] < 0.4 for passage in verdict["detail"]["passages"])


@then("the relevance stage found that no passage was left")
def none_left(world: World) -> None:
    verdict = next(v for v in world.record["detail"]["verdicts"] if v["stage"] == "relevance")
    assert "no passage was left in the context" == verdict["detail"]["reason"]


@then(parsers.parse('the events are a whole chat completion stream that says "{text}"'))
def streamed_answer(world: World, text: str) -> None:
    assert world.answer is not None
    assert world.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in world.answer.body.decode().split("\n\n") if line]
    assert "[DONE]" == events[-1]
    chunks = [json.loads(event) for event in events[:-1]]
    assert {"chat.completion.chunk"} == {chunk["object"] for chunk in chunks}
    deltas = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert text in "".join(choice["delta"].get("content") or "" for choice in deltas)
    assert "stop" == deltas[-1]["finish_reason"]
