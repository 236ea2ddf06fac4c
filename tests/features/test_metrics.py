"""Steps of metrics.feature: the real stages, and the figures as an operator and Prometheus read them."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pytest_bdd import given, parsers, scenarios, then, when

from proxy.exchange import Answer, Choice, ToolCall
from proxy.exchange.judgements import ClaimPair, Support
from proxy.observe.metrics import Metrics
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.history import History
from proxy.stages.knowledge import Knowledge
from proxy.stages.poisoning import Poisoning
from proxy.stages.tool_rag import ToolRag, ToolRagOptions
from proxy.testing import MemoryKnowledge, ScriptedVerifiers, make_exchange, make_ports
from tests.conftest import Running, Start
from tests.observe.metrics.reading import by, value
from tests.stages.clash.talk import assistant, send, user

scenarios("metrics.feature")

_FACTS = (
    "The Eiffel Tower stands in Paris.",
    "The Eiffel Tower was opened in 1889.",
    "The battery of the Aurora lamp lasts 18 hours.",
)
_FALSE = ("London", "1950", "30 hours")
_A_REQUEST = 50
"""Passages."""
_FIND = "groundwire_find_tools"


class Figures:
    """What an operator reads, and the metrics that it comes from."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.policy = ""
        self.stages: Sequence[type[Any]] = ()
        self.json: Any = None
        self.exposition: Mapping[Any, float] = {}
        self.records: list[Any] = []

    def read(self, metrics: Metrics | None = None) -> None:
        """Look."""
        from tests.observe.metrics.reading import parsed

        metrics = metrics or self.metrics
        self.json, self.exposition = metrics.as_json(), parsed(metrics.prometheus())

    def total(self, name: str, **labels: str) -> float:
        """As Prometheus has it."""
        return value(dict(self.exposition), name, **labels)


@pytest.fixture
def figures() -> Figures:
    return Figures()


# ---- poisoning ----


class WithFacts(Knowledge):
    """The stage with a knowledge base in memory."""

    def __init__(self, options: Any, ports: Ports) -> None:
        super().__init__(options, replace(ports, knowledge=MemoryKnowledge(*_FACTS)))
        self.embeds = False

    @classmethod
    def folders(cls, options: Any) -> Mapping[str, str]:
        return {}


def _contradicted(pair: ClaimPair) -> Support:
    return Support(0.02, 0.97) if any(words in pair.claim for words in _FALSE) else Support(0.3, 0.1)


@given("a proxy that blocks what its knowledge base contradicts")
def blocks(figures: Figures) -> None:
    figures.policy = (
        "name: careful\ndelivery: tap\nstages: [knowledge: {folder: facts}, poisoning: {on_invalid: block, timeout_ms: 60000}]\n"
    )
    figures.stages = (WithFacts, Poisoning)


@when(parsers.parse("clients send {count:d} new passages, of which these are false"))
def send_passages(figures: Figures, start: Start, count: int, datatable: list[list[str]]) -> None:
    false = [f"{statement} Seen on page {page}." for statement, pieces in datatable[1:] for page in range(int(pieces))]
    others = [f"Bananas of crate {number} contain potassium." for number in range(count - len(false))]
    step = len(others) // len(false)
    passages = list(itertools.chain.from_iterable([text, *others[i * step : (i + 1) * step]] for i, text in enumerate(false)))
    passages += others[len(false) * step :]

    async def work() -> None:
        async with start(policy=figures.policy, stages=figures.stages, verifiers=ScriptedVerifiers(_contradicted)) as proxy:
            for first in range(0, count, _A_REQUEST):
                context = [{"content": text} for text in passages[first : first + _A_REQUEST]]
                message = {"role": "user", "content": "What is there to see?"}
                answer = await proxy.post({"model": "gpt-4o", "messages": [message], "groundwire": {"context": context}})
                assert 200 == answer.status
            figures.read(proxy.app.metrics)
            assert figures.json["poisoning"] == (await proxy.get("/groundwire/v1/metrics")).json["poisoning"]

    asyncio.run(work())


@then(parsers.parse("{checked:d} pieces were checked, {attempts:d} were poisoned and {blocked:d} were blocked"))
def pieces_were(figures: Figures, checked: int, attempts: int, blocked: int) -> None:
    assert (checked, attempts, blocked) == tuple(figures.json["poisoning"][name] for name in ("checked", "attempts", "blocked"))


@then(parsers.parse("the poisoning rate is {percent:g}%"))
def poisoning_rate(figures: Figures, percent: float) -> None:
    assert percent / 100 == figures.json["poisoning"]["rate"]


@then("the types are, the most common first")
def types_are(figures: Figures, datatable: list[list[str]]) -> None:
    expected = [(name, int(pieces)) for name, pieces in datatable[1:]]
    assert expected == list(figures.json["poisoning"]["types"].items())
    assert dict(expected) == by(dict(figures.exposition), "groundwire_poisoning_types_total", "type")


@then("Prometheus divides its own figures to the same rate, below what wakes somebody")
def prometheus_rate(figures: Figures) -> None:
    rate = figures.total("groundwire_poisoning_attempts_total") / figures.total("groundwire_poisoning_checked_total")
    assert figures.json["poisoning"]["rate"] == rate
    assert rate < 0.05


# ---- distraction ----


@given(parsers.parse("a proxy that watches over histories of more than {messages:d} messages"))
def watches(figures: Figures, messages: int) -> None:
    figures.policy = f"name: watchful\ndelivery: tap\nstages: [history: {{max_messages: {messages}, max_tokens: 100000}}]\n"
    figures.stages = (History,)


@when(parsers.re(r"clients send histories of (?P<sizes>[\d, and]+) messages"))
def send_histories(figures: Figures, start: Start, sizes: str) -> None:
    async def work() -> None:
        async with start(policy=figures.policy, stages=figures.stages) as proxy:
            for number in sizes.replace("and", ",").replace(" ", "").split(","):
                figures.records.append(await _record_of(proxy, int(number)))
            figures.read(proxy.app.metrics)

    asyncio.run(work())


async def _record_of(proxy: Running, size: int) -> Any:
    roles = ("user", "assistant") if size % 2 else ("assistant", "user")
    messages = [{"role": roles[i % 2], "content": f"Sentence {i} of {size}."} for i in range(size)]
    return await proxy.record(await proxy.post({"model": "gpt-4o", "messages": messages}))


@then(parsers.parse("there are {count:d} distraction alerts"))
def alerts(figures: Figures, count: int) -> None:
    assert count == figures.json["distraction"]["alerts"]
    assert float(count) == figures.total("groundwire_context_distraction_total")


@then(parsers.re(r"(?P<count>\d+) of them (?:are|is) (?P<severity>\w+) and recommends? (?P<action>\w+)"))
def recommended(figures: Figures, count: str, severity: str, action: str) -> None:
    told = figures.json["distraction"]
    assert (int(count), int(count)) == (told["severities"][severity], told["recommended_actions"][action])
    assert float(count) == figures.total("groundwire_distraction_alerts_total", severity=severity, action=action)


@then("each alert stands in the record of its exchange, and the short history has none")
def in_the_records(figures: Figures) -> None:
    found = [[v["detail"]["recommended_action"] for v in record["detail"].get("verdicts", ())] for record in figures.records]
    assert [["summarize"], ["summarize"], ["sliding_window"], []] == found


# ---- tools ----


@given(parsers.parse("a proxy that selects among the {count:d} tools of an agent"))
def selects(figures: Figures, count: int) -> None:
    figures.records = [_tool(f"handle_subject{i}") for i in range(count)]


def _tool(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {f"field{i}": {"type": "string", "description": "what it is about"} for i in range(4)}}
    return {"type": "function", "function": {"name": name, "description": f"Does what is asked with {name}.", "parameters": parameters}}


@when(parsers.parse("the model answers {count:d} requests with a tool call, {wrong:d} of them to a tool that was left out"))
def calls(figures: Figures, count: int, wrong: int) -> None:
    tools = figures.records
    options = msgspec.convert({"above": 30, "top_k": 5, "min_relevance": 0.7, "timeout_ms": 60000}, ToolRagOptions)
    pipeline = Pipeline([ToolRag(options, make_ports(counters=figures.metrics))])

    async def work() -> None:
        for number in range(count):
            wanted = number % len(tools)
            exchange = make_exchange([{"role": "user", "content": f"Please handle subject{wanted}."}], tools)
            exchange.run_id = f"run_{number}"  # what one run was shown, it is shown again
            await pipeline.request(exchange)
            called = tools[(wanted + (number < wrong)) % len(tools)]["function"]["name"]
            exchange.answer = Answer((Choice(0, tool_calls=(ToolCall("c", called, "{}"),)),))
            await pipeline.done(exchange)

    asyncio.run(work())
    figures.read()


@then(parsers.parse("the selection accuracy is {percent:d}%"))
def accuracy(figures: Figures, percent: int) -> None:
    assert percent / 100 == figures.json["tool_selection"]["selection_accuracy"]


@then(parsers.parse("an average of {offered:d} tools was offered, and of {sent:d} sent"))
def averages(figures: Figures, offered: int, sent: int) -> None:
    told = figures.json["tool_selection"]
    assert (offered, sent) == (told["average_tools_offered"], told["average_tools"])


@then(parsers.parse("more than {percent:d}% of the description tokens were saved"))
def savings(figures: Figures, percent: int) -> None:
    assert percent / 100 < figures.json["tool_selection"]["token_savings"] < 1


@then(parsers.parse("Prometheus has {count:d} calls, {found:d} of them foreseen"))
def prometheus_calls(figures: Figures, count: int, found: int) -> None:
    names = ("groundwire_context_tool_calls_total", "groundwire_context_tool_calls_found_total")
    assert (count, found) == tuple(figures.total(name) for name in names)


# ---- clashes ----


@given("a proxy that prefers recent statements, and asks where health is concerned")
def prefers(figures: Figures) -> None:
    figures.records = [make_ports(counters=figures.metrics, verifiers=ScriptedVerifiers(_allergies))]


def _allergies(pair: ClaimPair) -> Support:
    return Support(0.01, 0.99) if "allerg" in pair.claim and "allerg" in pair.evidence else Support(0.05, 0.05)


@when(parsers.parse("{moving:d} users move house and {unsure:d} users contradict themselves about an allergy"))
def contradict(figures: Figures, moving: int, unsure: int) -> None:
    (ports,) = figures.records
    moved = [user("I live in Berlin."), assistant(), user("I live in Munich. Which doctor is near?")]
    allergic = [user("I am allergic to nuts."), assistant(), user("I am not allergic to nuts. What can I cook?")]

    async def work() -> None:
        for number in range(moving + unsure):
            talk = moved if number < moving else allergic
            await send(ports, talk, id_=f"gw_{number}", client=f"client {number}", strategy="prefer_recent", critical_strategy="ask_user")

    asyncio.run(work())
    figures.read()


@then(parsers.parse("{found:d} clashes were found and {resolved:d} were resolved automatically"))
def resolved(figures: Figures, found: int, resolved: int) -> None:
    told = figures.json["clash"]
    assert (found, resolved, resolved / found) == (told["found"], told["auto_resolved"], told["auto_resolved_rate"])
    assert float(resolved) == figures.total("groundwire_clash_auto_resolved_total")


@then(parsers.parse("{count:d} needed an intervention, for which the user was asked"))
def interventions(figures: Figures, count: int) -> None:
    assert (count, count) == tuple(figures.json["clash"][name] for name in ("interventions", "asked"))


@then(parsers.parse("all that was resolved was resolved by {strategy}"))
def by_strategy(figures: Figures, strategy: str) -> None:
    assert {strategy: figures.json["clash"]["auto_resolved"]} == figures.json["clash"]["strategies"]


@then(parsers.parse("the types of the {count:d} clashes are told"))
def by_type(figures: Figures, count: int) -> None:
    told = figures.json["clash"]["types"]
    assert count == sum(told.values())
    assert told == by(dict(figures.exposition), "groundwire_clash_types_total", "type")


# ---- every subject ----


@then("among the figures of the contexts are")
def of_the_contexts(figures: Figures, datatable: list[list[str]]) -> None:
    expected = {name: json.loads(told) for name, told in datatable[1:]}
    assert expected == {name: figures.json["context"][name] for name in expected}
