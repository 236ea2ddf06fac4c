"""Whom does the relevance guard refuse? Whole turns, half of them elliptical or short, over passages that came in different ways.

    python -m benchmarks.relevance_turns [--show]

Data: ``data/relevance_turns.jsonl``, written for this in English, German, Spanish and French before the rules that it measures: passages
that the user pasted, that came as ``groundwire.context``, from a search, in the system message or in this project's own template, and
none at all, under questions that they answer or do not. Each turn goes through the stage as the policy `rag` has it.

A refusal of an *answerable* turn is the harm (limit: none), a silent pass or an `unchecked` of an unanswerable one is the miss.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proxy.context.faithful import build_context_block, texts
from proxy.exchange import Exchange, Message, Prompt
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.relevance import Relevance, RelevanceOptions
from proxy.testing import make_ports
from proxy.wire.chat.completions import ChatDialect

FILE = Path(__file__).parent / "data" / "relevance_turns.jsonl"
OUTCOMES = ("refused", "warned", "noted", "unchecked", "pass")
LABELS = {"en": "Documents", "de": "Dokumente", "es": "Documentos", "fr": "Documents"}


@dataclass(slots=True, frozen=True)
class Turn:
    """A question, where its passages stand, and whether they answer it."""

    id: str
    language: str
    place: str
    """``pasted``, ``context``, ``tool``, ``system``, ``own template``."""
    form: str
    """``whole``, ``short``, ``elliptical``, ``follow-up``."""
    answerable: bool
    """Also where nothing is to be looked up: thanks, arithmetic."""
    passages: tuple[str, ...]
    question: str
    before: tuple[str, ...]
    """User's and assistant's words in turn."""


def load() -> list[Turn]:
    """Every turn."""
    rows = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return [Turn(**{**row, "passages": tuple(row["passages"]), "before": tuple(row["before"])}) for row in rows]


def body(turn: Turn) -> dict[str, Any]:
    """The request that a client would send."""
    messages: list[Message] = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(turn.before)]
    messages.append({"role": "user", "content": turn.question})
    text, more = "\n\n".join(turn.passages), {}
    if turn.place == "context":
        more = {"groundwire": {"context": [{"content": passage} for passage in turn.passages]}}
    elif turn.place == "pasted":
        messages[-1]["content"] = f"<context>\n{text}\n</context>\n\n{turn.question}"
    elif turn.place == "system":
        rules = "Answer from the documents."
        messages.insert(0, {"role": "system", "content": f"{rules}\n\n**{LABELS[turn.language]}:**\n{text}"})
    elif turn.place == "own template":
        block = build_context_block(list(turn.passages), language=turn.language)
        messages[-1]["content"] = texts(turn.language).template(cite=True, rate=True).format(context_block=block, question=turn.question)
    else:
        call = {"id": "c1", "type": "function", "function": {"name": "search_docs", "arguments": "{}"}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "c1", "content": text})
    return {"model": "gpt-4o", "messages": messages, **more}


def exchange_of(sent: Mapping[str, Any]) -> Exchange:
    """The exchange that the proxy makes of a body."""
    request = ChatDialect().parse_request(json.dumps(sent).encode())
    return Exchange(
        id="gw_bench",
        route="",
        policy="rag@00000000",
        upstream="openai",
        client="bench",
        original=request,
        model=request.model,
        prompt=Prompt(request.messages, request.tools, request.params, evidence=request.passages),
        run_id="run",
        step_id="1",
    )


async def outcome(turn: Turn, ports: Ports) -> tuple[str, float | None, str]:
    """One of `OUTCOMES`, the probability, and why."""
    exchange = exchange_of(body(turn))
    await Pipeline([Relevance(RelevanceOptions(), ports)]).request(exchange)
    verdict = exchange.verdicts[-1]
    reason = f"{verdict.detail.get('reason')}; {verdict.detail.get('unsure', '')}"
    if exchange.answer is not None:
        return "refused", exchange.facts.relevance, reason
    known = {"pass": "pass", "warn": "warned"}.get(verdict.outcome) or ("noted" if verdict.code else "unchecked")
    return known, exchange.facts.relevance, reason


async def measure(show: bool) -> int:
    """Print the figures; how many answerable turns were refused."""
    embedder = BatchingEmbedder(UseEncoder())
    ports, turns = make_ports(embedder=embedder), load()
    await embedder.embed(["the model is loaded before anything is measured"])
    found = [(turn, *await outcome(turn, ports)) for turn in turns]
    embedder.stop()
    print(f"{len(turns)} turns, {len({t.language for t in turns})} languages")
    for label, answerable in (("answerable", True), ("unanswerable", False)):
        counts = Counter(result for turn, result, *_ in found if turn.answerable is answerable)
        print(f"{label:13} n {counts.total():3}  " + "  ".join(f"{name} {counts[name]}" for name in OUTCOMES))
    for turn, result, score, reason in found if show else ():
        shown = "-" if score is None else f"{score:.3f}"
        print(f"{turn.id:26} {'yes' if turn.answerable else 'no':4}{result:10} {shown:6} {turn.question}  [{reason}]")
    return sum(result == "refused" for turn, result, *_ in found if turn.answerable)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", action="store_true", help="every turn with what became of it")
    raise SystemExit(1 if asyncio.run(measure(parser.parse_args().show)) else 0)


if __name__ == "__main__":
    main()
