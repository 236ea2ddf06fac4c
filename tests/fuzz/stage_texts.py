"""Each stage with text in many scripts, wherever a request and its answer have room for text, and with requests and answers of any form.

A stage's exception is caught by the pipeline and becomes the verdict ``check_failed``: here it is a failure, and so is a missed deadline.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import replace

from proxy.errors import InvalidRequest, ProxyError
from proxy.exchange import Answer, Choice, Exchange, Prompt, Sentence
from proxy.language.text import split_sentences
from proxy.pipeline import Pipeline
from proxy.policy.loading import StageSpec, load_policy
from proxy.testing import MemoryKnowledge, make_ports
from proxy.wire.chat.completions import ChatDialect
from tests.fuzz import mutate
from tests.fuzz.inside import ErrorLog
from tests.fuzz.targets import rng_of
from tests.own_tools import Shop

_SIDE_CHARS = 1_500
"""Of the text, where it stands beside the place that has all of it."""
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "mcp": ("mcp: {servers: [shop]}",),
    "budget": ("budget: {warn_at: 0.01}",),
    "knowledge": ("knowledge: {folder: .}",),
    "validation": ("validation: {}", "validation: {action: annotate}", "validation: {action: drop}"),
    "poisoning": (
        "poisoning: {}",
        "poisoning: {roles: [assistant, tool, user, passages], on_suspicious: quarantine}",
    ),
    "clash": ("clash: {}", "clash: {strategy: merge, edits: all}", "clash: {strategy: ask_user, edits: all}"),
    "history": ("history: {max_messages: 2, action: summarize, every: 1}", "history: {max_messages: 2, action: sliding_window}"),
    "compression": ("compression: {at: 0.002, aggressive_at: 0.003, target: 0.001}",),
    "tool_rag": ("tool_rag: {above: 1, top_k: 1}",),
    "relevance": ("relevance: {}", "relevance: {action: answer, answer_below: 0.9}"),
    "faithful": ("faithful: {}", "faithful: {show_citations: false, show_confidence: false}"),
    "reflection": ("reflection: {}", "reflection: {escalate_after: 2}"),
    "schema": ("schema: {}", "schema: {on_violation: block}"),
    "citations": ("citations: {}", "citations: {action: redact}"),
    "confidence": ("confidence: {}",),
    "claims": ("claims: {}", "claims: {action: redact, fail_on: unsupported}", "claims: {action: replace, fail_on: unsure}"),
    "work_claims": ("work_claims: {}",),
}
"""Policies' entries for each stage, so that every one acts in some run."""


class _Stages:
    """A target that runs one stage on one exchange: request, answer by sentences or whole, and what is learnt from it."""

    def __init__(self, stages: Iterable[str]) -> None:
        self._runner = asyncio.Runner()
        self._specs = [_loaded(stage, entry) for stage in stages for entry in VARIANTS[stage]]
        self._log = ErrorLog()
        for one in (one for specs in self._specs for one in specs):
            one.stage(one.options, make_ports()).warm()  # as a server does at its start: compiling is not the first request's time

    def run(self, data: bytes) -> None:
        """Raises what a stage raised, too, though the pipeline catches it."""
        with self._log:
            self._runner.run(self.exchange(data, rng_of(data)))

    async def exchange(self, data: bytes, rng: random.Random) -> None:
        """One exchange made of `data`, through `through`."""
        raise NotImplementedError

    def close(self) -> None:
        self._runner.close()

    async def through(self, body: bytes, fact: str, answer: str | Answer, rng: random.Random) -> None:
        """A request's `body` and the model's `answer` to it."""
        specs = rng.choice(self._specs)
        ports = make_ports(knowledge=MemoryKnowledge(fact, "The tower stands in Paris."), tool_servers=Shop())
        stages = [one.stage(one.options, ports) for one in specs]
        pipeline, dialect = Pipeline(stages), ChatDialect()
        request = dialect.parse_request(body)
        exchange = Exchange(
            id="gw_fuzz",
            route="",
            policy="fuzz@00000000",
            upstream="main",
            client="anonymous",
            original=request,
            model=request.model,
            prompt=Prompt(request.messages, request.tools, request.params, evidence=request.passages),
            run_id="run",
            step_id="1",
            received_at=1.7e9,
        )
        try:
            await pipeline.request(exchange)
            self._check_sent(exchange, dialect.render_request(exchange))
            if exchange.answer is None:
                exchange.answer = answer if isinstance(answer, Answer) else await _said(pipeline, exchange, answer, rng)
                exchange.upstream_answer = exchange.answer
                await pipeline.answer(exchange)
            await pipeline.done(exchange)
        except ProxyError as error:
            orjson.dumps(error.envelope())
            if error.status == 500:
                raise
        finally:
            pipeline.release(exchange)
            for stage in stages:
                await stage.stop()
        failed = [v for v in exchange.verdicts if v.code in ("check_failed", "check_timeout", "check_over_budget", "unchecked_over_budget")]
        assert not failed or self._log.records, f"{failed[0].code}: {failed[0].detail}"
        orjson.dumps([[v.stage, v.outcome, v.code, v.score, v.message] for v in exchange.verdicts])

    @staticmethod
    def _check_sent(exchange: Exchange, sent: bytes) -> None:
        messages = json.loads(sent)["messages"]
        assert messages, "no message is left"
        before = exchange.original.messages
        assert not _orphans(messages) - _orphans(before), "a tool's result has lost its call"
        last = next((m for m in reversed(before) if m["role"] == "user"), {})
        words = str(last.get("content"))[:200]
        there = not last or any(message["role"] == "user" and words in str(message.get("content")) for message in messages)
        assert there or exchange.verdicts or exchange.changes, "the last user message is gone, and nothing says so"


class StageText(_Stages):
    """Text through one stage. Implements `tests.fuzz.targets.Target`."""

    folder = "text"
    mutate = staticmethod(mutate.of_text)

    def __init__(self, stage: str) -> None:
        super().__init__([stage])
        self.name = f"text-{stage}"

    async def exchange(self, data: bytes, rng: random.Random) -> None:
        text = data.decode("utf-8", "replace")
        await self.through(orjson.dumps(conversation(text, rng)), text[:_SIDE_CHARS], text, rng)


class StageRequest(_Stages):
    """A request of any form through any stage. Implements `tests.fuzz.targets.Target`."""

    name, folder = "stages-request", "request"
    mutate = staticmethod(mutate.of_json)

    def __init__(self) -> None:
        super().__init__(VARIANTS)

    async def exchange(self, data: bytes, rng: random.Random) -> None:
        with suppress(InvalidRequest):
            ChatDialect().parse_request(data)
            await self.through(data, "The tower is tall.", "It stands in Paris. It is 330 m tall [1].", rng)


class StageAnswer(_Stages):
    """An answer of any form through any stage. Implements `tests.fuzz.targets.Target`."""

    name, folder = "stages-answer", "answer"
    mutate = staticmethod(mutate.of_json)

    def __init__(self) -> None:
        super().__init__(VARIANTS)

    async def exchange(self, data: bytes, rng: random.Random) -> None:
        try:
            answer = ChatDialect().parse_answer(data)
        except ValueError:
            return
        await self.through(orjson.dumps(conversation("Where does the tower stand? ", rng)), "The tower is tall.", answer, rng)


async def _said(pipeline: Pipeline, exchange: Exchange, text: str, rng: random.Random) -> Answer:
    """The answer with this text, as it has left where the gate has judged it."""
    exchange.gated = pipeline.judges_sentences(exchange) and rng.random() < 0.5
    choices = []
    for index, words in enumerate((text, text[:_SIDE_CHARS])):
        left, offset, cuts = [], 0, split_sentences(words)
        assert "".join(cuts) == words, "the sentences are not the text"
        for i, cut in enumerate(cuts if exchange.gated else ()):
            left.append(await pipeline.sentence(exchange, Sentence(cut, index, i, offset, i == len(cuts) - 1)))
            offset += len(cut)
        released = "".join(left) if exchange.gated else words
        choices.append(Choice(index, released, refusal=text[:200] if rng.random() < 0.2 else "", finish_reason="stop"))
    return Answer(tuple(choices), "gpt-4o")


def _orphans(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    """The calls, by their ids, that a tool's result answers although none of the messages before it makes them."""
    known, found = set[str](), set[str]()
    for message in messages:
        calls = message.get("tool_calls")
        known |= {str(call.get("id")) for call in calls if isinstance(call, dict)} if isinstance(calls, list) else set()
        if message["role"] == "tool" and str(message.get("tool_call_id")) not in known:
            found.add(str(message.get("tool_call_id")))
    return found


def _loaded(stage: str, entry: str) -> Sequence[StageSpec]:
    """The entry's checked options, with the stage `budget`, which counts tokens, before it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "policy.yaml"
        needs = "" if stage == "budget" else "  - budget: {}\n"
        file.write_text(f"name: p\ndelivery: hold\nstages:\n{needs}  - {entry}\n", encoding="utf-8")
        return [
            StageSpec(one.stage, replace(one.options, timeout_ms=60_000)) for one in load_policy(file).stages
        ]  # CPU time is what counts


def conversation(text: str, rng: random.Random) -> dict[str, Any]:
    """A request with `text` in every place, all of it in one of them."""
    side, places = text[:_SIDE_CHARS], ["system", "user", "assistant", "arguments", "result", "question", "passage", "tool"]
    whole = rng.choice(places)
    at = {place: text if place == whole else side for place in places}
    call = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": json.dumps({"q": at["arguments"]})}}
    if rng.random() < 0.2:
        call["function"] = {"name": "search", "arguments": at["arguments"]}
    tool = {"type": "function", "function": {"name": "search", "description": at["tool"], "parameters": _schema(at["tool"])}}
    other = {"type": "function", "function": {"name": at["tool"][:60] or "f", "description": side}}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": _schema(side)}} if rng.random() < 0.2 else {"type": "text"}
    return {
        "model": "gpt-4o",
        "messages": [
            {"role": "system", "content": f"Answer from the context.\n<context>\n{at['system']}\n</context>"},
            {"role": "user", "content": at["user"]},
            {"role": "assistant", "content": at["assistant"]},
            {"role": "user", "content": [{"type": "text", "text": side}, {"type": "image_url", "image_url": {"url": "data:,x"}}]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": at["result"]},
            {"role": "user", "content": at["question"] or "?"},
        ],
        "tools": [tool, other],
        "response_format": form,
        "groundwire": {"context": [{"content": at["passage"], "source": side[:200]}, {"content": "The tower stands in Paris."}]},
    }


def _schema(text: str) -> dict[str, Any]:
    key = text[:30] or "q"
    return {"type": "object", "properties": {key: {"type": "string", "description": text[:300]}}, "required": [key]}
