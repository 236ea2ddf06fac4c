"""Steps of reflection.feature: the running proxy in front of a scripted provider."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.errors import StoreUnavailable
from proxy.exchange import Tool
from proxy.ports import Ports
from proxy.ports.stage import Stage
from proxy.stages.reflection import Reflection
from proxy.stages.reflection.wording import OPENING
from proxy.stages.registry import STAGES
from proxy.testing import MemoryFailures, ScriptedReply, completion, reply, stream, streamed
from proxy.wire.chat.completions import ChatDialect
from tests.conftest import Answer, Running, Start
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, TOOLS, Talk

scenarios("reflection.feature")

DENIED = "Error: permission denied"
FOUND = '{"id": "A7", "state": "sent"}'
PRIVATE = "Wolperdinger"
"""Stands in everything that is said: it must not be in any record."""
SCHEMA = {
    "type": "json_schema",
    "json_schema": {"name": "order", "schema": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
}


class Away(MemoryFailures):
    """A store that cannot be reached."""

    async def apply(self, *events: Any, **owner: Any) -> Any:
        raise StoreUnavailable("the disk is gone")

    async def apply_and_find(self, *events: Any, **about: Any) -> Any:
        raise StoreUnavailable("the disk is gone")

    async def relevant(self, **about: Any) -> Any:
        raise StoreUnavailable("the disk is gone")


class Storeless(Reflection):
    """The stage without its store."""

    def __init__(self, options: Any, ports: Ports) -> None:
        super().__init__(options, replace(ports, failures=Away()))


@dataclass
class World:
    """A conversation, and what came of it."""

    talk: Talk = field(default_factory=lambda: Talk(f"Find the manual of the {PRIVATE}."))
    stages: tuple[type[Stage], ...] = STAGES
    options: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    replies: list[ScriptedReply] = field(default_factory=list)
    tools: list[Tool] = field(default_factory=lambda: list(TOOLS))
    window: int = 100_000
    streams: bool = False
    answers: list[Answer] = field(default_factory=list)
    prompts: list[list[Any] | None] = field(default_factory=list)
    """What the model got, request by request; None where it was not asked."""
    failures: list[Any] = field(default_factory=list)
    revisions: list[Any] = field(default_factory=list)
    record: Any = None

    @property
    def failure(self) -> Any:
        (found,) = self.failures
        return found

    async def ask(self, start: Start, *, client: str = "Bearer sk-alice", messages: list[Any] | None = None) -> None:
        sent = list(self.talk.messages) if messages is None else messages
        body = {"model": "gpt-4o", "messages": sent, "tools": self.tools, "stream": self.streams, **self.params}
        async with self.started(start) as proxy:
            answer = await proxy.post(body, authorization=client, x_groundwire_run_id="run")
            self.answers.append(answer)
            self.prompts.append(proxy.upstream.calls[-1].json["messages"] if proxy.upstream.calls else None)
            self.record = await proxy.record(answer)
            await proxy.app.learning_tasks.stop(5.0)
            await self.look(proxy)

    def started(self, start: Start) -> Any:
        policy = "name: agent\ndelivery: tap\nretrieval_tools: ['search_*']\n"
        options = self.options if "escalate_after" in self.options else ", ".join(filter(None, (self.options, "escalate_after: 3")))
        policy += f"stages: [budget: {{reserve_output_tokens: 1}}, reflection: {{{options}}}]\n"
        replies = self.replies or [stream(streamed(["Very ", "well."])) if self.streams else reply(completion("Very well."))]
        return start(
            *replies,
            policy=policy,
            stages=self.stages,
            api_key="forward",
            config=f"models: {{gpt-4o: {{window: {self.window}, encoding: o200k_base}}}}\n",
        )

    async def look(self, proxy: Running) -> None:
        self.failures = (await proxy.get("/groundwire/v1/failures?run_id=run")).json["data"]
        if len(self.failures) == 1:
            found = await proxy.get(f"/groundwire/v1/failures/{self.failure['id']}/revisions")
            self.revisions = found.json["data"]

    async def decide(self, start: Start, what: str, body: Any) -> None:
        async with self.started(start) as proxy:
            done = await proxy.post(body, f"/groundwire/v1/failures/{self.failure['id']}/{what}")
            assert 200 == done.status
            await self.look(proxy)

    def told(self, number: int = -1) -> str:
        """The block that the model got."""
        prompt = self.prompts[number]
        assert prompt is not None
        _, opening, block = prompt[-1]["content"].partition(OPENING)
        return opening + block


@pytest.fixture
def world() -> World:
    return World()


# ---- setting up ----


@given("an agent with the tools search_docs and get_order")
def agent(world: World) -> None:
    assert ["search_docs", "get_order"] == [tool["function"]["name"] for tool in TOOLS]


@given(parsers.re("the client (?P<how>streams|waits for) the answer$"))
def reads(world: World, how: str) -> None:
    world.streams = how == "streams"


@given("the store is away")
def away(world: World) -> None:
    world.stages = tuple(Storeless if stage is Reflection else stage for stage in STAGES)


@given("the client forces a tool call")
def forces(world: World) -> None:
    world.params = {"tool_choice": "required"}


@given("search_docs with 50 results times out")
def times_out(world: World) -> None:
    world.talk.calls("search_docs", TIMED_OUT, query=PRIVATE, limit=50)


@given("search_docs with 10 results finds a page")
def finds_a_page(world: World) -> None:
    world.talk.calls("search_docs", '[{"id": 1, "text": "a page"}]', query=PRIVATE, limit=10)


@given("search_docs reports status 404")
def search_not_found(world: World) -> None:
    world.talk.calls("search_docs", NOT_FOUND, query=PRIVATE)


@given("search_docs finds nothing")
def finds_nothing(world: World) -> None:
    world.talk.calls("search_docs", "[]", query=PRIVATE)


@given(parsers.parse("search_docs finds a page with score {score:f}"))
def finds_with_score(world: World, score: float) -> None:
    world.talk.calls("search_docs", json.dumps({"results": [{"text": "How to feed it.", "score": score}]}), query=f"{PRIVATE} {score}")


@given(parsers.parse("a passage with score {score:f} comes along"))
def passage_with_score(world: World, score: float) -> None:
    world.params = {"groundwire": {"context": [{"content": f"The {PRIVATE} eats little.", "score": score}]}}


@given("get_order reports status 404")
def not_found(world: World) -> None:
    world.talk.calls("get_order", NOT_FOUND, id=f"{PRIVATE}-7")


@given("get_order reports status 404 in other words")
def not_found_otherwise(world: World) -> None:
    world.talk.calls("get_order", '{"status": 404, "error": "no order 17 here, 12:01:07, trace 9f3b"}', id=f"{PRIVATE}-7")


@given("get_order says that permission is denied")
def denied(world: World) -> None:
    world.talk.calls("get_order", DENIED, id=f"{PRIVATE}-7")


@given(parsers.re(r"(?s)get_order returns '(?P<result>.*)'$"))
def returns(world: World, result: str) -> None:
    world.talk.calls("get_order", result, id=f"{PRIVATE}-7")


@given(parsers.re(r"get_order returns '(?P<result>.*)' for \"(?P<id>\w+)\"$"))
def returns_for(world: World, result: str, id: str) -> None:
    world.talk.calls("get_order", result, id=id)


@given("the unknown tool find_docs is called")
def unknown_tool(world: World) -> None:
    world.talk.calls("find_docs", "Error: there is no tool find_docs", query=PRIVATE)


@given("get_order is called without its id")
def without_id(world: World) -> None:
    world.talk.calls("get_order", "Error: invalid arguments", number=PRIVATE)


@given("get_order is called with broken JSON")
def broken_json(world: World) -> None:
    world.talk.calls_raw("get_order", f'{{"id": "{PRIVATE}', "Error: bad arguments")


@given("the same order is looked up 3 times")
def same_call(world: World) -> None:
    for _ in range(3):
        world.talk.calls("get_order", FOUND, id=f"{PRIVATE}-7")


@given("two calls take turns for 3 rounds")
def alternating(world: World) -> None:
    for _ in range(3):
        world.talk.calls("get_order", FOUND, id=f"{PRIVATE}-7").calls("search_docs", '[{"id": 1, "text": "a page"}]', query=PRIVATE)


@given("9 tools fail, with pages read in between")
def nine_tools(world: World) -> None:
    for number in range(9):
        world.tools.append({"type": "function", "function": {"name": f"read_{number}", "parameters": {"type": "object"}}})
        world.talk.calls(f"read_{number}", NOT_FOUND, part=number)
        world.talk.calls("search_docs", json.dumps([{"id": number, "text": f"Page {number}."}]), query=PRIVATE, page=number)


@given(parsers.re(r'the user says "(?P<text>.*)"$'))
def says(world: World, text: str) -> None:
    world.talk.says(f"I have booked the {PRIVATE} for Monday.").user(text)


@given("the model's answer breaks the JSON schema")
def breaks_schema(world: World) -> None:
    world.params, world.replies = {"response_format": SCHEMA}, [reply(completion(f'{{"id": "{PRIVATE}"}}'))]


@given("the model's answer is not JSON")
def not_json(world: World) -> None:
    world.params, world.replies = {"response_format": SCHEMA}, [reply(completion(f"The {PRIVATE} is here."))]


@given(parsers.parse("the upstream fails with status {status:d}"))
def fails(world: World, status: int) -> None:
    world.replies = [reply({"error": {"message": PRIVATE, "type": "server_error", "code": None}}, status)]


@given("the upstream answers as it should")
def answers(world: World) -> None:
    world.params, world.replies = {}, []


@given("the client asks for too long an answer")
def asks_for_too_much(world: World) -> None:
    world.params = {"max_tokens": 200_000}


@given("the model's answer is cut off")
def cut_off(world: World) -> None:
    cut = completion(PRIVATE)
    cut["choices"][0]["finish_reason"] = "length"
    world.replies = [reply(cut)]


@given("the prompt fills 95% of the window")
def nearly_full(world: World) -> None:
    world.talk.says("Go on.").user(f"{PRIVATE} " * 1000)
    world.window = 4300


@given("the prompt does not fit the window")
def too_long(world: World) -> None:
    world.talk.says("Go on.").user(f"{PRIVATE} " * 1000)
    world.window = 1000


@given("the agent has shortened it")
def shortened(world: World) -> None:
    world.talk.messages[-1] = {"role": "user", "content": PRIVATE}


@given(parsers.parse('the agent takes the model "{model}"'))
def takes(world: World, model: str) -> None:
    world.params = {"model": model}


# ---- turns ----


@given("the agent asks the model")
@when("the agent asks the model")
def asks(world: World, start: Start) -> None:
    asyncio.run(world.ask(start))


@when("the proxy is started anew")
def anew(world: World) -> None:
    """Every turn meets a proxy that was just started."""


@when("another client asks with a conversation of its own in the same run")
def another(world: World, start: Start) -> None:
    asyncio.run(world.ask(start, client="Bearer sk-bob", messages=[{"role": "user", "content": "Where is order A7?"}]))


@when("the operator finds its guidance helpful")
def helpful(world: World, start: Start) -> None:
    asyncio.run(world.decide(start, "feedback", {"helpful": True, "by": "ann"}))


@when("the operator resolves it")
def resolves(world: World, start: Start) -> None:
    asyncio.run(world.decide(start, "resolve", {"reason": "mended", "by": "ann"}))


# ---- what came of it ----


@then(parsers.re(r'there is one failure "(?P<signal>\w+)" "(?P<code>\w+)" of "(?P<subject>\w*)"$'))
def one_failure(world: World, signal: str, code: str, subject: str) -> None:
    assert [(signal, code, subject)] == [(f["signal_type"], f["code"], f["subject"]) for f in world.failures]


@then("there are no failures")
def none(world: World) -> None:
    assert [] == world.failures


@then(parsers.parse('its advice is "{advice}"'))
def advice(world: World, advice: str) -> None:
    assert advice == world.failure["recommended_adjustment"]["type"]


@then("it points to a call and message")
def points_to_call(world: World) -> None:
    kinds = {ref["kind"] for ref in world.failure["context_refs"]}
    at = next(ref["message"] for ref in world.failure["context_refs"] if ref["kind"] == "message")
    assert ({"tool_call", "message"}, "tool") == (kinds, world.talk.messages[at]["role"])


@then("it points to a span")
def points_to_span(world: World) -> None:
    (ref,) = world.failure["context_refs"]
    start, end = ref["span"]
    assert world.talk.messages[ref["message"]]["role"] == "user"
    assert 0 <= start < end <= len(world.talk.messages[ref["message"]]["content"])


@then("it points to the exchange")
def points_to_exchange(world: World) -> None:
    assert world.answers[-1].headers["x-groundwire-id"] == world.failure["context_refs"][0]["record"]
    assert PRIVATE not in json.dumps(world.failures, ensure_ascii=False)


@then("no record contains a word of the conversation")
def no_words(world: World) -> None:
    told = json.dumps([world.failures, world.revisions], ensure_ascii=False)
    words = set(re.findall(r"[a-zäöüáéíóñ]{6,}", PRIVATE.lower() + " tuesday dienstag martes manual monday booked"))
    assert set() == {word for word in words if word in told.lower()}


@then(parsers.parse("it has occurred {count:d} times"))
def occurred(world: World, count: int) -> None:
    assert count == world.failure["occurrence_count"]


@then(parsers.parse('its revisions are "{kinds}"'))
def revisions(world: World, kinds: str) -> None:
    assert kinds == ", ".join(revision["event"] for revision in world.revisions)


@then(parsers.parse("the failure is {status}, helpful {helped:d}, harmful {harmed:d}"))
def judged(world: World, status: str, helped: int, harmed: int) -> None:
    failure = world.failure
    assert (status, helped, harmed) == (failure["status"], failure["helpful_count"], failure["harmful_count"])


@given(parsers.parse('the model is told "{text}"'))
@then(parsers.parse('the model is told "{text}"'))
def is_told(world: World, text: str) -> None:
    assert text in world.told()


@then(parsers.parse('the model is not told "{text}"'))
def is_not_told(world: World, text: str) -> None:
    assert text not in world.told()


@then(parsers.parse('the first failure told is of "{tool}"'))
def first_told(world: World, tool: str) -> None:
    assert tool in world.told().splitlines()[1]


@then("nothing is told")
def nothing_told(world: World) -> None:
    assert "" == world.told()


@then("all messages but the last reach the model as they were")
def prefix_stays(world: World) -> None:
    assert world.talk.messages[:-1] == (world.prompts[-1] or [])[:-1]
    assert (world.prompts[-1] or [])[-1]["content"].startswith(world.talk.messages[-1]["content"])


@then("all messages reach the model as they were")
def all_stay(world: World) -> None:
    assert world.talk.messages == world.prompts[-1]


@then("the block has at most 200 tokens")
def small(world: World) -> None:
    detail = next(v for v in world.record["detail"]["verdicts"] if v["stage"] == "reflection")["detail"]
    assert 0 < detail["tokens"] <= 200


@then(parsers.parse("the header x-groundwire-failures is {count:d}"))
def header(world: World, count: int) -> None:
    assert str(count) == world.answers[-1].headers["x-groundwire-failures"]


@then(parsers.parse("{count:d} failures are told both times, in the same words"))
def same_words(world: World, count: int) -> None:
    assert [str(count)] * 2 == [answer.headers["x-groundwire-failures"] for answer in world.answers]
    assert world.told(0) == world.told(1)


@then("the model was asked")
def asked(world: World) -> None:
    assert world.prompts[-1] is not None


@then("the model was not asked")
def not_asked(world: World) -> None:
    assert world.prompts[-1] is None


@then(parsers.parse('the answer is a question that names "{tool}"'))
def question(world: World, tool: str) -> None:
    body = world.answers[-1].body
    if world.streams:
        reader = ChatDialect().stream()
        reader.feed(body)
        said = reader.answer.text
    else:
        said = ChatDialect().parse_answer(body).text
    assert tool in said
    assert said.rstrip().endswith("?")


@then(parsers.parse('the request is refused with "{code}"'))
def refused(world: World, code: str) -> None:
    error = world.answers[-1].json["error"]
    assert (400, "policy_blocked", code) == (world.answers[-1].status, error["code"], error["param"])


@then(parsers.parse('the warnings have "{code}"'))
def warned(world: World, code: str) -> None:
    assert code in world.answers[-1].headers["x-groundwire-warnings"].split(",")
