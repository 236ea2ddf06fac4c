"""A hook that fails leaves no trace in the exchange, wherever it fails: every stage, every hook, at each of its awaits and at its end."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Generator
from itertools import count
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace

from proxy import offloop
from proxy.context.archive import READ_ARCHIVE
from proxy.context.passages import RETRIEVAL_TOOLS
from proxy.exchange import Answer, Choice, CompressionResult, Evidence, Exchange, JudgeUse, Sentence, ToolCall, ToolSelection, Verdict
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.ports.stage import SentenceStage, Stage, StageOptions
from proxy.stages.claims import Claims
from proxy.stages.compression import Compression
from proxy.stages.knowledge import Knowledge
from proxy.stages.reflection import Reflection
from proxy.stages.registry import STAGES
from proxy.stages.tool_rag import ToolRag
from proxy.testing import MemoryKnowledge, ScriptedVerifiers, WordCounter, make_exchange, make_ports
from tests.claims import GOLD, LONDON, PARIS, TOWER, WHERE, answering, make_stage
from tests.conversations import turns
from tests.own_tools import Shop
from tests.stages.poisoning.contexts import INSTRUCTION, judged

OPTIONS: dict[str, dict[str, Any]] = {
    "knowledge": {"folder": "facts"},
    "validation": {"action": "drop", "thresholds": {"score": 1.0}},
    "poisoning": {"on_suspicious": "quarantine", "roles": ["assistant", "tool", "user", "passages"]},
    "clash": {"strategy": "merge", "edits": "all"},
    "history": {"max_messages": 4, "action": "sliding_window", "every": 1},
    "compression": {"at": 0.002, "aggressive_at": 0.003, "target": 0.001},
    "tool_rag": {"above": 3, "top_k": 1, "min_relevance": 0.9},
    "relevance": {"answer_below": 0.9},
    "faithful": {"show_citations": False, "show_confidence": False},
    "citations": {"action": "redact"},
    "confidence": {"action": "replace"},
    "mcp": {"servers": ["shop"]},
    "claims": {"action": "retry", "fail_on": "unsupported"},
}
"""What makes each stage act."""
CALLS = {
    "tool_rag": ("groundwire_find_tools", {"query": "book hotels"}),
    "history": (READ_ARCHIVE, {"id": "x"}),
    "compression": (READ_ARCHIVE, {"id": "x"}),
}
CHANGES = {
    "request": {
        *("mcp", "budget", "knowledge", "validation", "poisoning", "clash", "history"),
        *("compression", "tool_rag", "relevance", "faithful", "reflection"),
    },
    "forward": {"budget", "faithful"},
    "answer": {"schema", "citations", "confidence", "claims", "faithful"},
    "tool": {"tool_rag"},
    "sentence": {"claims", "faithful"},
}
"""Hooks that are known to change something here, so that there is something to undo."""


class Broken(Exception):
    """What no stage expects."""


class BrokenAt:
    """Awaits `work` up to its `at`-th suspension, or to its end where that comes first, and breaks there."""

    def __init__(self, work: Awaitable[Any], at: int) -> None:
        self._work, self._at = work, at
        self.ended = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps, sent = self._work.__await__(), None
        for step in count(1):
            try:
                waiting = steps.throw(Broken()) if step == self._at + 1 else steps.send(sent)
            except StopIteration:
                self.ended = True
                raise Broken from None
            sent = yield waiting


class Pausing:
    """A port, each of whose calls has to wait."""

    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._port, name)
        if not callable(found):
            return found

        async def wait(*args: Any, **named: Any) -> Any:
            await asyncio.sleep(0)
            return await found(*args, **named)

        def call(*args: Any, **named: Any) -> Any:
            result = found(*args, **named)
            return Pausing(result) if type(result).__module__.startswith("proxy.testing") else result

        return wait if inspect.iscoroutinefunction(found) else call


def ports() -> Ports:
    made = make_ports(
        tokens=WordCounter(2000),
        verifiers=ScriptedVerifiers(judged),
        knowledge=MemoryKnowledge("The Eiffel Tower stands in Paris."),
        tool_servers=Shop(),
    )
    return Ports(**{name: port if name == "counters" else Pausing(port) for name, port in asdict(made).items()})


def tool(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": f"{name} now", "parameters": {"type": "object"}}}


def exchange_of() -> Exchange:
    """A request that gives each stage something to do."""
    called = {"id": "c", "type": "function", "function": {"name": "search_docs", "arguments": "{}"}}
    messages = [
        *turns(8, 40),
        {"role": "user", "content": "Hello. I live in Berlin."},
        {"role": "assistant", "content": LONDON},
        {"role": "user", "content": "Read the page."},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c", "content": f"{TOWER} {INSTRUCTION}"},
        {"role": "assistant", "content": "Done."},
        {"role": "user", "content": f"I live in Munich. {WHERE}"},
    ]
    tools = [tool(f"{verb}_{noun}") for noun in ("flights", "hotels", "mail") for verb in ("search", "book", "delete")]
    exchange = make_exchange(messages, tools)
    passages = (Evidence(TOWER, source="a.txt"), Evidence("Bananas contain potassium.", source="b.txt"))
    exchange.original = replace(exchange.original, passages=passages, has_context=True)
    exchange.evidence, exchange.retrieval_tools = passages, RETRIEVAL_TOOLS
    return exchange


def answered(exchange: Exchange) -> None:
    """A request with an answer: one to be mended, redacted, asked again."""
    call = ToolCall("1", "search_flights", "{'a': 1,}")
    text = f"{LONDON} [1] {GOLD} [7]\n\nConfidence: HIGH"
    calls = (call,) if exchange.id == "gw_schema" else ()
    exchange.attempts.possible = True
    exchange.attempts.present(exchange, Answer((Choice(0, text, tool_calls=calls, finish_reason="stop"),), "gpt-4o"), 1.0)


def state(exchange: Exchange) -> dict[str, Any]:
    """All that an exchange holds, but for what is measured."""
    names = set(exchange.__struct_fields__) - {"timings", "marks", "running", "attempts", "work", "memo"}
    return {name: repr(getattr(exchange, name)) for name in names} | {"attempts": repr(list(exchange.attempts))}


class Trial:
    """One hook of one stage that breaks off."""

    def __init__(self, kind: type[Stage], phase: str, *, silent: bool = True) -> None:
        self.stage = kind(msgspec.convert(OPTIONS.get(kind.name, {}), kind.Options), ports())
        if silent:  # about what is said on purpose
            self.stage.on_hook_failed = lambda exchange, hook: None  # type: ignore[method-assign]
        self.pipeline, self.exchange, self.phase = Pipeline([self.stage]), exchange_of(), phase
        self.exchange.id = f"gw_{kind.name}"

    async def prepare(self) -> None:
        """What comes before the hook."""
        if self.phase == "request":
            self.exchange.passages = self.exchange.original.passages
            return
        await self.pipeline.request(self.exchange)
        self.exchange.answer = None
        if self.phase == "forward":  # something new to tell of
            self.exchange.messages = [*self.exchange.messages, {"role": "user", "content": "More. " * 30}]
        if self.phase == "answer":
            answered(self.exchange)

    def hook(self) -> Callable[[Exchange], Awaitable[Any]]:
        """As the pipeline calls it."""
        if self.phase == "tool":
            name, arguments = CALLS[self.stage.name]
            return lambda e: self.stage.on_tool_call(e, ToolCall("1", name, json.dumps(arguments)))
        if isinstance(self.stage, SentenceStage) and self.phase == "sentence":
            stage = self.stage
            return lambda e: stage.on_sentence(e, Sentence(f"{LONDON} [1]", 0, 0, 0, final=True))
        return getattr(self.stage, "on_" + self.phase)

    async def run(self, at: int) -> tuple[bool, bool]:
        """Whether the hook came to its end, and whether it had changed anything until it broke."""
        await self.prepare()
        before, then, hook = state(self.exchange), {}, self.hook()

        async def breaking(exchange: Exchange) -> Verdict | None:
            work = BrokenAt(hook(exchange), at)
            try:
                return await work
            finally:
                then.update(state(exchange), ended=work.ended)

        verdict = await self.pipeline._run(self.stage, breaking, self.phase, self.exchange)
        ended = then.pop("ended")
        assert verdict is not None
        assert ("error", "check_failed", "Broken") == (verdict.outcome, verdict.code, verdict.detail["exception"])
        assert verdict is self.exchange.verdicts.pop()
        assert before == state(self.exchange)
        self.stage.release(self.exchange)
        await self.stage.stop()
        return ended, before != then


HOOKS = [
    (kind, phase)
    for kind in STAGES
    for phase, name in (("request", "on_request"), ("forward", "on_forward"), ("answer", "on_answer"), ("sentence", "on_sentence"))
    if getattr(kind, name, None) not in (getattr(Stage, name, None), getattr(SentenceStage, name, None))
] + [(kind, "tool") for kind in STAGES if kind.answers]


@pytest.mark.parametrize(("kind", "phase"), HOOKS, ids=[f"{kind.name}-{phase}" for kind, phase in HOOKS])
async def test_a_hook_that_breaks_leaves_the_exchange_as_it_was(kind: type[Stage], phase: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offloop, "LARGE", -1)  # all work that may go to a thread does, and has to be waited for
    changed = False
    for at in count(1):
        ended, did = await Trial(kind, phase).run(at)
        changed |= did
        if ended:
            break
    assert changed == (kind.name in CHANGES[phase])


async def broken_at_its_end(kind: type[Stage], phase: str) -> Exchange:
    """What is said of a hook that breaks after all that it does."""
    trial = Trial(kind, phase, silent=False)
    await trial.prepare()
    hook = trial.hook()

    async def breaking(exchange: Exchange) -> None:
        await hook(exchange)
        raise Broken

    await trial.pipeline._run(trial.stage, breaking, phase, trial.exchange)
    return trial.exchange


@pytest.mark.parametrize(
    ("kind", "fact", "said"),
    [
        (Compression, "compression", CompressionResult(reason="failed-kept-original")),
        (ToolRag, "tools", ToolSelection(9, 9, "error")),
        (Reflection, "failures_injected", 0),
    ],
)
async def test_headers_say_what_became_of_a_prompt_whose_stage_broke(kind: type[Stage], fact: str, said: object) -> None:
    assert said == getattr((await broken_at_its_end(kind, "request")).facts, fact)


async def test_claims_are_checked_by_a_knowledge_base_whose_look_up_broke() -> None:
    assert (await broken_at_its_end(Knowledge, "request")).knowledge is not None


async def test_what_was_judged_before_the_check_broke_is_known() -> None:
    exchange = await broken_at_its_end(Claims, "answer")
    failing = [judgement.claim.text for judgement in exchange.judgements[0] if judgement.label == "contradicted"]
    assert (None, 0.15, 1) == (exchange.retry, exchange.facts.faithfulness, len(failing))


async def test_a_check_that_breaks_when_it_has_chosen_tells_of_the_answer_that_leaves() -> None:
    stage, exchange = make_stage(action="retry"), answering()
    for text in (PARIS, GOLD):
        exchange.attempts.present(exchange, Answer((Choice(0, text),)), 1.0)
        await stage.on_answer(exchange)
        exchange.retry = None
    exchange.deliver = None
    stage.on_hook_failed(exchange, "answer")
    assert (0.04, [GOLD]) == (exchange.facts.faithfulness, [judgement.claim.text for judgement in exchange.judgements[0]])


class Careless(Stage):
    """Edits in place whatever can be edited, and breaks."""

    name = "careless"

    async def on_answer(self, exchange: Exchange) -> None:
        exchange.evidence += (Evidence("more"),)
        exchange.cleaned = []
        exchange.verdicts.append(Verdict(self.name, "warn", code="own"))
        exchange.changes.append({"stage": self.name})
        exchange.facts.retries, exchange.facts.quality = 3, 0.5
        exchange.judgements[0] = []
        exchange.marked[0] = "said"
        exchange.retry, exchange.deliver = [], 1
        raise Broken

    def on_hook_failed(self, exchange: Exchange, hook: str) -> None:
        raise Broken


async def test_what_was_edited_in_place_is_put_back_also_when_the_stage_cannot_say_that_it_failed() -> None:
    exchange = exchange_of()
    answered(exchange)
    before = state(exchange)
    await Pipeline([Careless(StageOptions(), make_ports())]).answer(exchange)
    assert ["check_failed"] == [verdict.code for verdict in exchange.verdicts]
    exchange.verdicts.clear()
    assert before == state(exchange)


class Slow(SentenceStage):
    """Breaks at the first choice's sentence when the second choice's was judged; a tool that it runs meanwhile takes the tools away."""

    name = "slow"
    answers = ("own",)

    def __init__(self, options: StageOptions, ports: Ports) -> None:
        super().__init__(options, ports)
        self.judged = asyncio.Event()

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict | None:
        if sentence.choice == 0:
            await self.judged.wait()
            raise Broken
        exchange.facts.confidence = "HIGH"
        return Verdict(self.name, "warn", code="second")

    async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
        exchange.tools = ()
        self.judged.set()
        if not call.parsed:
            raise Broken
        return "done"


async def test_what_others_have_found_meanwhile_stays_when_a_sentence_fails() -> None:
    pipeline, exchange = Pipeline([Slow(StageOptions(), make_ports())]), exchange_of()
    first, second = (Sentence("Yes.", choice, 0, 0, final=True) for choice in range(2))
    failing = asyncio.create_task(pipeline.sentence(exchange, first))
    await asyncio.sleep(0)
    await pipeline.sentence(exchange, second)
    await pipeline.own_calls.answer(exchange, [ToolCall("1", "own", '{"keep": 1}')])
    await failing
    assert ["second", "check_failed"] == [verdict.code for verdict in exchange.verdicts]
    assert ("HIGH", (), []) == (exchange.facts.confidence, exchange.tools, exchange.running)


async def test_the_prompt_is_put_back_when_a_tool_fails_beside_a_sentence() -> None:
    pipeline, exchange = Pipeline([Slow(StageOptions(), make_ports())]), exchange_of()
    judging = asyncio.create_task(pipeline.sentence(exchange, Sentence("Yes.", 0, 0, 0, final=True)))
    await asyncio.sleep(0)
    await pipeline.own_calls.answer(exchange, [ToolCall("1", "own", "{}")])
    await judging
    assert exchange.original.tools == exchange.tools


async def test_what_a_server_gave_stays_evidence_when_a_call_beside_it_fails() -> None:
    class Servers(Stage):
        name = "servers"
        answers = ("own",)
        results_from_outside = True

        async def on_tool_call(self, exchange: Exchange, call: ToolCall) -> str:
            if call.parsed:
                return "shipped"
            while exchange.evidence[-1].content != "shipped":
                await asyncio.sleep(0)
            raise Broken

    pipeline, exchange = Pipeline([Servers(StageOptions(), make_ports())]), exchange_of()
    async with asyncio.timeout(10):
        results = await pipeline.own_calls.answer(exchange, [ToolCall("1", "own", '{"order": 1}'), ToolCall("2", "own", "{}")])
    assert ["shipped", "Error: own could not be run. Go on without it."] == results
    assert "shipped" == exchange.evidence[-1].content


async def test_what_a_judge_was_asked_is_known_though_its_check_failed() -> None:
    class Asking(Stage):
        name = "asking"

        async def on_request(self, exchange: Exchange) -> Verdict | None:
            exchange.facts.judge = JudgeUse("a/b", asked=1)
            raise ZeroDivisionError

    exchange = make_exchange()
    await Pipeline([Asking(StageOptions(), make_ports())]).request(exchange)
    assert (["error"], JudgeUse("a/b", asked=1)) == ([verdict.outcome for verdict in exchange.verdicts], exchange.facts.judge)
