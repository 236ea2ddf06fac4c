"""Steps of validation.feature: the running proxy with its real models and a folder of facts, in front of a scripted provider."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pytest_bdd import given, parsers, scenarios, then, when

from tests.conftest import Answer, Start

pytestmark = pytest.mark.slow
scenarios("validation.feature")


@dataclass
class World:
    """What a scenario has set up, and what came of it."""

    question: str = ""
    before: list[dict[str, Any]] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=lambda: {"timeout_ms": 60_000})
    sent: list[dict[str, Any]] = field(default_factory=list)
    answer: Answer | None = None
    record: Any = None
    forwarded: list[Any] = field(default_factory=list)
    """The messages of each call of the provider."""

    @property
    def piece(self) -> dict[str, Any]:
        verdicts = [v for v in self.record["detail"]["verdicts"] if v["stage"] == "validation"]
        [piece] = verdicts[-1]["detail"]["pieces"]
        return dict(piece)

    def value(self, metric: str) -> float:
        return round(self.piece["metrics"][metric]["value"], 2)

    @property
    def warnings(self) -> str:
        assert self.answer is not None
        return self.answer.headers.get("x-groundwire-warnings", "")


@pytest.fixture
def world() -> World:
    return World()


@given("a knowledge base that knows")
def knowledge_base(tmp_path: Path, datatable: list[list[str]]) -> None:
    (tmp_path / "facts").mkdir()
    rows = [",".join([f'"{subject}"', f'"{statement}"']) for subject, statement in datatable[1:]]
    (tmp_path / "facts" / "graz.csv").write_text("\n".join(["subject,statement", *rows]) + "\n", encoding="utf-8")


@given(parsers.parse('the user asks "{question}"'))
def question_is(world: World, question: str) -> None:
    world.question = question


@given(parsers.parse('the user has said "{text}"'))
def user_said(world: World, text: str) -> None:
    world.before = [{"role": "user", "content": text}, {"role": "assistant", "content": "Noted."}]


@given("the policy drops what is stale")
def policy_drops(world: World) -> None:
    world.options["action"] = {"freshness": "drop"}


@given("the policy rejects what falls short")
def policy_rejects(world: World) -> None:
    world.options["action"] = "reject"


@given(parsers.parse('the policy requires the fields "{names}"'))
def policy_requires(world: World, names: str) -> None:
    world.options["required_fields"] = {"look_up": names.split(", ")}


@when(parsers.parse('a tool returns "{text}" fetched {age:d} seconds ago'))
def text_returned(world: World, start: Start, text: str, age: int) -> None:
    asyncio.run(_send(world, start, text, age))


@when(parsers.parse("a tool returns the record {record}"))
def record_returned(world: World, start: Start, record: str) -> None:
    asyncio.run(_send(world, start, record, 60))


async def _send(world: World, start: Start, content: str, age: int) -> None:
    function = {"name": "look_up", "arguments": json.dumps({"about": "the Uhrturm, the clock tower of Graz"})}
    world.sent = [
        *world.before,
        {"role": "user", "content": world.question},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": content, "groundwire": {"timestamp": time.time() - age}},
    ]
    options = {"action": "annotate", "max_age_s": 3600} | world.options
    policy = (
        f"name: careful\ndelivery: gate\nstages: [knowledge: {{folder: facts, timeout_ms: 60000}}, validation: {json.dumps(options)}]\n"
    )
    async with start(policy=policy) as proxy:
        world.answer = await proxy.post({"model": "gpt-4o", "messages": world.sent})
        world.record = await proxy.record(world.answer)
        if world.answer.status == 200:
            more = [{"role": "assistant", "content": "I see."}, {"role": "user", "content": "And who built it?"}]
            await proxy.post({"model": "gpt-4o", "messages": [*world.sent, *more]})
        world.forwarded = [call.json["messages"] for call in proxy.upstream.calls]


@then(parsers.parse("its {metric} is {value:f}"))
def metric_is(world: World, metric: str, value: float) -> None:
    assert value == world.value(metric)


@then(parsers.parse("its {metric} is below {value:f}"))
def metric_below(world: World, metric: str, value: float) -> None:
    assert world.value(metric) < value


@then(parsers.parse("its score is at least {value:f}"))
def score_at_least(world: World, value: float) -> None:
    assert world.piece["score"] >= value


@then(parsers.parse('there is no warning "{code}"'))
def no_warning(world: World, code: str) -> None:
    assert code not in world.warnings


@then(parsers.parse('the warnings are "{codes}"'))
def warnings_are(world: World, codes: str) -> None:
    assert codes == world.warnings


@then(parsers.parse('the warnings hold "{code}"'))
def warnings_hold(world: World, code: str) -> None:
    assert code in world.warnings.split(",")


@then(parsers.parse('the stage\'s verdict is "{verdict}"'))
def verdict_is(world: World, verdict: str) -> None:
    (found,) = [one["outcome"] for one in world.record["detail"]["verdicts"] if one["stage"] == "validation"]
    assert verdict == found


@then(parsers.parse('the model sees a note in its place that says "{words}"'))
def note_seen(world: World, words: str) -> None:
    content = world.forwarded[0][-1]["content"]
    assert words in content
    assert world.sent[-1]["content"] not in content


@then("the model sees the result as it was sent")
def result_seen(world: World) -> None:
    assert world.sent[-1]["content"] == world.forwarded[0][-1]["content"]


@then("the next turn forwards the same messages as before")
def same_prefix(world: World) -> None:
    first, second = world.forwarded
    assert first == second[: len(first)]


@then(parsers.parse('the record says that known is "{fact}"'))
def known_fact(world: World, fact: str) -> None:
    assert fact == world.piece["metrics"]["accuracy"]["wrong"][0]["correct_fact"]


@then(parsers.parse('the request is refused with {status:d}, "{code}" and "{param}"'))
def refused(world: World, status: int, code: str, param: str) -> None:
    assert world.answer is not None
    error = world.answer.json["error"]
    assert (status, code, param) == (world.answer.status, error["code"], error["param"])


@then(parsers.parse('the refusal says "{words}"'))
def refusal_says(world: World, words: str) -> None:
    assert world.answer is not None
    assert words in world.answer.json["error"]["message"]


@then("the model is not asked")
def not_asked(world: World) -> None:
    assert [] == world.forwarded
