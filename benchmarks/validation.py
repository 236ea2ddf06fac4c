"""What does it cost to validate a piece of context, and how right are relevance and consistency? `make bench-validation`

    python -m benchmarks.validation [--quick] [--only latency,relevance,consistency] [--seed N]

*Latency*: pieces of 300 to 1,000 tokens (o200k), made of Wikipedia passages (XQuAD, ClapNQ) that no model has in its cache, in batches of
1, 8 and 32, through `validate` with the built-in models: all five metrics, with a question, required fields, a timestamp, an
existing context on the same subjects, and a knowledge base of some hundred facts, two of which are on the subject of each piece. Per
piece is a batch's time divided by its pieces; CPU is that of the whole process, for a machine that does something else beside.

*Relevance* at the default threshold: passages with their question (positive), with one on the same article (hard negative) or on another
one; tool results of tau-bench's airline runs by the question alone, with the call that asked for them, and for another task.

*Consistency*: pieces of some ten sentences. Texts that agree: the second half of a paragraph with its first as the context; a claim that
its evidence supports, planted into another text. Texts that contradict: a claim that its evidence refutes, planted likewise. The data have
been used to choose the thresholds: the figures say where they stand, and are no test on unseen data.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import platform
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.load.statistics import percentile
from proxy.context.conversation import answered_calls
from proxy.context.question import find_question
from proxy.grounding.claims.claims import read_content
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.reading import make_fact
from proxy.language.text import split_sentences
from proxy.language.words import content_words
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.knowledge.bases import KnowledgeSnapshot
from proxy.models.knowledge.building import build_in_memory
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
from proxy.models.verifier.verifier import BatchingVerifier
from proxy.ports import Embedder, Verifier
from proxy.stages.validation.content import FEW_WORDS, Candidate, Content, existing_base, purpose_of
from proxy.stages.validation.quality import QualityThresholds
from proxy.stages.validation.relevance import readings_of, relevance_of
from proxy.stages.validation.validator import Models, consistency_of, validate

DATA = Path(__file__).parents[2] / "shared" / "data"
RESULTS = Path(__file__).parent / "results" / "validation.json"
TOKENS = (300, 1000)
BATCHES = {1: 60, 8: 16, 32: 5}
"""Pieces in a batch, and how many batches."""
FACTS = 300
TARGET_MS = 100.0


def rows(name: str) -> list[dict[str, Any]]:
    path = DATA / f"{name}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(f"{path} is missing: this benchmark needs the development data in ../shared/data")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def passages(source: random.Random) -> list[tuple[str, str]]:
    """Question and passage, each passage once."""
    found = {row["passage"]: row["question"] for row in rows("relevance/clapnq_dev")}
    for language in ("en", "de", "es"):
        found |= {row["positive"]: row["question"] for row in rows(f"relevance/xquad_{language}")}
    pairs = [(question, passage) for passage, question in found.items()]
    source.shuffle(pairs)
    return pairs


# ---- latency ----


def pieces(source: random.Random, counter: TiktokenCounter) -> Iterator[tuple[str, str, str]]:
    """Question, piece, and what the context says already on its subject; endless, but the same text never comes twice in a batch."""
    model = counter.model("gpt-4o")
    while True:
        waiting = passages(source)
        while len(waiting) > 20:
            question, first = waiting.pop()
            sentences = split_sentences(first)
            half = len(sentences) // 2
            text, wanted = "".join(sentences[half:]), source.randint(*TOKENS)
            while counter.count_text(text, model) < wanted and waiting:
                text += "\n\n" + waiting.pop()[1]
            while counter.count_text(text, model) > TOKENS[1]:
                text = text[: int(len(text) * 0.95)]
            yield question, text, "".join(sentences[:half])


async def latency(source: random.Random, quick: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    made = pieces(source, TiktokenCounter({}))
    machine = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    print(f"\nmilliseconds per piece of {TOKENS[0]} to {TOKENS[1]} tokens; target p95 {TARGET_MS:g}; {machine}")
    print(f"{'batch':>6}{'batches':>9}{'p50':>8}{'p95':>8}{'max':>8}{'CPU p50':>9}{'CPU p95':>9}")
    for size, count in BATCHES.items():
        embedder, verifier = await models()
        wall, cpu, others = [], [], [split_sentences(text)[0].strip() for _, text in passages(source)[:FACTS]]
        for turn in range(-1, max(3, count // 4) if quick else count):
            batch = [next(made) for _ in range(size)]
            said = [sentence.strip() for _, _, known in batch for sentence in split_sentences(known)[:2]]
            facts = [make_fact("", text, "facts.csv") for text in dict.fromkeys((*others, *said)) if text]
            knowledge = KnowledgeSnapshot(await build_in_memory(facts, embedder), embedder)
            asked = Models(embedder, verifier, KnowledgeChecker(knowledge, verifier))
            base = existing_base([known for *_, known in batch])
            candidates = [
                Candidate(
                    Content(text, time.time() - 60, fields={"title": "x", "url": "y"}, required_fields=("title", "url", "date")),
                    *readings_of(question),
                    base,
                )
                for question, text, _ in batch
            ]
            started, used = time.perf_counter(), time.process_time()
            qualities = await validate(candidates, [time.time()] * size, asked)
            if turn >= 0:  # the first one loads what is loaded late
                wall.append((time.perf_counter() - started) * 1000 / size)
                cpu.append((time.process_time() - used) * 1000 / size)
            assert not any(quality.errors for quality in qualities)
        row = {"n": len(wall), **{k: percentile(wall, s) for k, s in (("p50", 0.5), ("p95", 0.95), ("max", 1.0))}}
        row |= {"cpu_p50": percentile(cpu, 0.5), "cpu_p95": percentile(cpu, 0.95)}
        found[str(size)] = row
        print(
            f"{size:6}{len(wall):9}{row['p50']:8.1f}{row['p95']:8.1f}{row['max']:8.1f}{row['cpu_p50']:9.1f}{row['cpu_p95']:9.1f}",
            flush=True,
        )
    return found


# ---- relevance ----


async def relevance(source: random.Random, quick: bool, embedder: Embedder) -> dict[str, Any]:
    n = 40 if quick else 150
    cases: dict[str, list[Candidate]] = {}
    for language in ("en", "de", "es"):
        some = source.sample(rows(f"relevance/xquad_{language}"), n)
        for kind in ("positive", "hard_negative", "easy_negative"):
            cases[f"xquad_{language} {kind}"] = [Candidate(Content(row[kind]), *readings_of(row["question"])) for row in some]
    for answerable in (True, False):
        some = source.sample([row for row in rows("relevance/clapnq_dev") if bool(row["answerable"]) == answerable], n)
        name = "clapnq answers" if answerable else "clapnq came up, does not answer"
        cases[name] = [Candidate(Content(row["passage"]), *readings_of(row["question"])) for row in some]
    cases |= tool_results(source, n)
    found = {}
    minimum = QualityThresholds().relevance
    print(f"\nshare of pieces with relevance >= {minimum:g}, and quartiles")
    for name, candidates in cases.items():
        values = [metric.value for metric in await relevance_of(candidates, embedder) if metric.value is not None]
        share = sum(value >= minimum for value in values) / len(values)
        quartiles = [percentile(values, part) for part in (0.25, 0.5, 0.75)]
        found[name] = {"n": len(values), "share": share, "quartiles": quartiles}
        print(f"{name:44}{len(values):5}{share:8.1%}   {' / '.join(f'{value:.2f}' for value in quartiles)}", flush=True)
    return found


def tool_results(source: random.Random, n: int) -> dict[str, list[Candidate]]:
    """Of runs of an agent: with what was asked, what was called, and what another task asked."""
    every: list[tuple[int, tuple[str, ...], str, str]] = []
    for row in rows("compression/tau_airline")[::4]:
        messages, calls = row["messages"], answered_calls(row["messages"])
        for i, message in enumerate(messages):
            if (call := calls.get(i)) is not None:
                every.append((row["task_id"], find_question(messages[:i]).readings, purpose_of(call), message["content"]))
    long = [one for one in every if len(content_words(one[3][:2000])) >= FEW_WORDS]
    short = [one for one in every if len(content_words(one[3][:2000])) < FEW_WORDS]
    pairs = [(a, b) for a, b in (source.sample(long, 2) for _ in range(2 * n)) if a[0] != b[0]][:n]
    return {
        "tau results, by the question": [Candidate(Content(text), asked) for _, asked, _, text in long],
        "tau results, by question or call": [Candidate(Content(text, purposes=(call,)), asked) for _, asked, call, text in long],
        "tau results of few words, by either": [Candidate(Content(text, purposes=(call,)), asked) for _, asked, call, text in short],
        "tau results, by another task's question": [Candidate(Content(b[3]), a[1]) for a, b in pairs],
    }


# ---- consistency ----


async def consistency(source: random.Random, quick: bool, verifier: Verifier) -> dict[str, Any]:
    n = 40 if quick else 200
    found = {}
    print("\nshare of pieces with consistency 0.0; compared is the share of which anything was compared")
    for name, agree, pairs in consistency_cases(source, n):
        candidates = [Candidate(Content(new), existing=existing_base(old)) for old, new in pairs]
        metrics = await consistency_of(candidates, [read_content(c.content.text) for c in candidates], verifier)
        share = sum(metric.value == 0 for metric in metrics) / len(metrics)
        compared = sum(metric.measured for metric in metrics) / len(metrics)
        found[name] = {"n": len(metrics), "contradicted": share, "compared": compared, "agree": agree}
        print(f"{'agree     ' if agree else 'contradict'}  {name:36}{len(metrics):5}{share:8.1%}   compared {compared:.0%}", flush=True)
    return found


def consistency_cases(source: random.Random, n: int) -> Iterator[tuple[str, bool, list[tuple[str, str]]]]:
    """Name, whether the two texts agree, and pairs of existing context and piece."""
    english = [row["passage"] for row in rows("relevance/clapnq_dev")]
    german = sorted({row["context"] for row in rows("grounding/mlqa_de")})
    for name, texts in (("halves, clapnq (en)", english), ("halves, mlqa (de)", german)):
        yield name, True, [halves(text) for text in source.sample(texts, min(n, len(texts)))]
    for name, filler in (("fever_symmetric", english), ("rte3_german", german), ("rte3_french", german)):
        every = rows(f"grounding/{name}")
        for label in ("supported", "contradicted"):
            some = [row for row in every if row["label"] == label]
            some = source.sample(some, min(n, len(some)))
            yield f"{name}, {label}", label == "supported", [planted(row, filler, source) for row in some]


def halves(text: str) -> tuple[str, str]:
    sentences = split_sentences(text)
    half = len(sentences) // 2
    return "".join(sentences[:half]), "".join(sentences[half:])


def planted(row: dict[str, Any], filler: Sequence[str], source: random.Random) -> tuple[str, str]:
    new, old = source.sample(filler, 2)
    sentences = [sentence.strip() for sentence in split_sentences(new)[:8]]
    sentences.insert(source.randint(0, len(sentences)), row["claim"])
    return f"{row['context']} {old}", " ".join(sentences)


# ---- all of it ----


async def models() -> tuple[BatchingEmbedder, BatchingVerifier]:
    """Loaded, with nothing in their caches."""
    embedder, verifier = BatchingEmbedder(UseEncoder()), BatchingVerifier(lambda: OnnxVerifier(FOLDER, 2), "builtin")
    await embedder.load()
    await verifier.load()
    return embedder, verifier


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="latency,relevance,consistency")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    embedder, verifier = await models()
    found: dict[str, Any] = {"seed": given.seed, "quick": given.quick, "python": platform.python_version(), "verifier": verifier.name}
    print(f"seed {given.seed}, verifier {verifier.name}, embedder {embedder.name}, Python {found['python']}")
    only = given.only.split(",")
    if "latency" in only:
        found["latency_ms"] = await latency(random.Random(given.seed), given.quick)
    if "relevance" in only:
        found["relevance"] = await relevance(random.Random(given.seed), given.quick, embedder)
    if "consistency" in only:
        found["consistency"] = await consistency(random.Random(given.seed), given.quick, verifier)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    embedder.stop()
    verifier.stop()


if __name__ == "__main__":
    asyncio.run(main())
