"""Sentences in everybody's words about the sample knowledge base: does the fact check keep true ones in and false ones out?

    python -m benchmarks.sample_facts [--show dev] [--facts sample|operator]

``data/sample_facts.jsonl`` has true and false sentences about ``examples/knowledge`` in four languages, none of them in a fact's words, and
written before the rules that they measure. True ones say what a fact says, or more, or something else of the same subject; false ones have
another number, date, name or place, or the opposite. The half ``dev`` may be looked at; of ``held_out`` only the figures are printed.

``--facts operator`` measures ``data/operator_facts.jsonl`` instead: twenty facts as an operator writes them (a warehouse, a fee, a shop's
hours), in English, each with four true and four false sentences in four languages. The facts of the two halves are others, too.

Each sentence is asked about alone, with the built-in verifier. *Doubted* is one called SUSPICIOUS or INVALID, *blocked* one that the stage
`poisoning` takes out of an assistant's message with ``on_invalid: block`` and everything else at its default. Intervals: 95% (Wilson).
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.poisoning import OneBase, forwarded, share, shown
from benchmarks.verifiers import local_verifiers
from proxy.exchange.judgements import FactVerdict
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.reading import make_fact, read_folder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.knowledge.bases import KnowledgeSnapshot
from proxy.models.knowledge.building import build_in_memory
from proxy.ports.facts import Fact
from proxy.stages.poisoning import Poisoning, PoisoningOptions
from proxy.testing import make_exchange, make_ports

ROWS = Path(__file__).parent / "data" / "sample_facts.jsonl"
OPERATOR = Path(__file__).parent / "data" / "operator_facts.jsonl"
FACTS = Path(__file__).parents[1] / "examples" / "knowledge"
DOUBTED_TARGET = 0.03
_HOUR_MS = 3_600_000


class Row(Struct, frozen=True):
    """A sentence, and what was found of it."""

    text: str
    false: bool
    language: str
    split: str
    verdict: FactVerdict = FactVerdict("UNKNOWN")
    blocked: bool = False


def sample() -> tuple[list[Fact], list[Row]]:
    """The facts of the sample knowledge base, and every sentence about them."""
    with ROWS.open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    facts = [fact for fact in read_folder(FACTS) if isinstance(fact, Fact)]
    return facts, [Row(row["text"], row["label"] == "false", row["language"], row["split"]) for row in found]


def operator() -> tuple[list[Fact], list[Row]]:
    """The facts of an operator's own, and every sentence about them."""
    with OPERATOR.open(encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    facts = [make_fact(row["subject"], row["statement"], "operator") for row in found]
    labels = ("true", "false")
    return facts, [
        Row(one["text"], label == "false", one["language"], row["split"]) for row in found for label in labels for one in row[label]
    ]


SETS: Mapping[str, Callable[[], tuple[list[Fact], list[Row]]]] = {"sample": sample, "operator": operator}


async def measured(facts: Sequence[Fact], sentences: Sequence[Row]) -> list[Row]:
    """Each sentence with the fact check's word, and with what the stage does of it."""
    embedder = BatchingEmbedder(UseEncoder(), cache_mb=64)
    verifiers = local_verifiers()
    base = OneBase(KnowledgeSnapshot(await build_in_memory(facts, embedder), embedder))
    stage = Poisoning(
        PoisoningOptions(timeout_ms=_HOUR_MS, on_invalid="block"),
        make_ports(embedder=embedder, verifiers=verifiers, knowledge=base),
    )
    checker = KnowledgeChecker(base.get("facts"), verifiers.get())
    found = []
    for i, row in enumerate(sentences):
        exchange = make_exchange([{"role": "assistant", "content": row.text}, {"role": "user", "content": "And then?"}])
        exchange.run_id, exchange.knowledge = f"run_{i}", checker
        await stage.on_request(exchange)
        verdict = await checker.verify(row.text)
        found.append(Row(row.text, row.false, row.language, row.split, verdict, row.text not in forwarded(exchange)))
    embedder.stop()
    verifiers.stop()
    return found


def figures(found: Sequence[Row]) -> dict[str, Any]:
    """Shares of the true and of the false sentences."""
    true, false = [row for row in found if not row.false], [row for row in found if row.false]
    doubts = ("SUSPICIOUS", "INVALID")
    return {
        "true: doubted": share(sum(row.verdict.status in doubts for row in true), len(true)),
        "true: called false": share(sum(row.verdict.status == "INVALID" for row in true), len(true)),
        "true: blocked": share(sum(row.blocked for row in true), len(true)),
        "false: doubted": share(sum(row.verdict.status in doubts for row in false), len(false)),
        "false: called false": share(sum(row.verdict.status == "INVALID" for row in false), len(false)),
        "false: blocked": share(sum(row.blocked for row in false), len(false)),
        "false: called true": share(sum(row.verdict.status == "VALID" for row in false), len(false)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", choices=("dev",), help="print what is found of each sentence of this half")
    parser.add_argument("--facts", choices=tuple(SETS), default="sample", help="which facts, and sentences about them")
    options = parser.parse_args()
    found = asyncio.run(measured(*SETS[options.facts]()))
    for row in found:
        if row.split == options.show:
            verdict, scores = row.verdict, (row.verdict.detail.get(name, 0) for name in ("support", "contradiction"))
            said = f"{verdict.status:10} {verdict.reason:16} " + " ".join(f"{score:.2f}" for score in scores)
            print(f"{'false' if row.false else 'true ':5} {said} {row.text}  [{verdict.correct_fact}]")
    for split in ("dev", "held_out"):
        for language in ("all", "en", "de", "es", "fr"):
            part = [row for row in found if row.split == split and language in ("all", row.language)]
            for name, figure in figures(part).items():
                if language == "all" or (name == "false: blocked"):
                    print(f"{split:9} {language:4} {name:20} {shown(figure)}")
    worst = figures([row for row in found if row.split == "held_out"])["true: doubted"]["value"]
    print(f"held out, true sentences doubted: {worst:.1%}, goal <= {DOUBTED_TARGET:.0%}: {'met' if worst <= DOUBTED_TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
