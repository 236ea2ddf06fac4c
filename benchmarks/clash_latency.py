"""What does the stage `clash` add to a turn? `make bench-clash` prints it, too.

    python -m benchmarks.clash_latency [--semantic]

Four loads of about 2,000 tokens a turn: a conversation of 20 turns that grows, ten passages of 200 words beside a question, one user
message of 1,500 words, and a first request of ten turns that nothing is known of yet. Each is built anew from the sentences of the
written statements (`benchmarks/data/clash_statements.tsv`), drawn with a seed, so that nothing is remembered of the round before.
Milliseconds of the stage as the policy runs it; `--semantic` has the built-in verifier judge what no rule decides, as all policies did.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from benchmarks.verifiers import local_verifiers
from proxy.exchange import Evidence, Exchange
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.ports import Ports
from proxy.stages.clash import Clash, ClashOptions
from proxy.testing import make_exchange, make_ports

DATA = Path(__file__).parent / "data" / "clash_statements.tsv"
RESULTS = Path(__file__).parent / "results" / "clash_latency.json"
SEED = 11
ROUNDS = 30
Message = dict[str, Any]


class Talk:
    """Sentences in any number, drawn from the written statements and numbered apart."""

    def __init__(self, seed: int) -> None:
        lines = [line.split("\t") for line in DATA.read_text("utf-8").splitlines() if line and not line.startswith("#")]
        self._sentences = [text for *_, older, newer in lines for text in (older, newer)]
        self._random = random.Random(seed)

    def words(self, count: int) -> str:
        """About so many words of sentences."""
        said: list[str] = []
        while sum(sentence.count(" ") + 1 for sentence in said) < count:
            sentence = self._random.choice(self._sentences)
            said.append(sentence if self._random.random() < 0.5 else f"{sentence[:-1]}, as of note {self._random.randint(1, 9999)}.")
        return " ".join(said)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def loads(talk: Talk) -> Iterator[tuple[str, list[list[Message]], list[Evidence]]]:
    """``(name, the requests of one run, passages)``."""
    turns: list[Message] = []
    run: list[list[Message]] = []
    for _ in range(20):
        turns = [*turns, user(talk.words(40))]
        run.append(turns)
        turns = [*turns, assistant(talk.words(40))]
    yield "20 turns, each turn", run, []
    passages = [Evidence(talk.words(200), f"passage {i}") for i in range(10)]
    yield "10 passages of 200 words", [[user("Where is the office, and when does it open?")]], passages
    yield "user message of 1,500 words", [[user(talk.words(1500))]], []
    first = [message for _ in range(10) for message in (user(talk.words(75)), assistant(talk.words(75)))]
    yield "first request, 10 turns", [[*first, user(talk.words(20))]], []


async def measured(stage: Clash, name: str, requests: Sequence[Sequence[Message]], passages: list[Evidence]) -> list[tuple[float, float]]:
    """Milliseconds of the stage for each request of a run, as they pass and of the processor."""
    taken = []
    for i, messages in enumerate(requests):
        exchange: Exchange = make_exchange(list(messages))
        exchange.id, exchange.run_id = f"gw_{name}_{i}", name
        exchange.original = replace(exchange.original, passages=tuple(passages))
        exchange.passages, exchange.evidence = tuple(passages), list(passages)
        started, busy = time.perf_counter(), time.process_time()
        await stage.on_request(exchange)
        taken.append(((time.perf_counter() - started) * 1000, (time.process_time() - busy) * 1000))
    return taken


async def run(ports: Ports, options: ClashOptions, rounds: int) -> dict[str, dict[str, float]]:
    """p50 and p95 of each load."""
    stage = Clash(options, ports)
    await stage.on_request(make_exchange([user("I live in Berlin."), assistant("Noted."), user("I live in Munich.")]))
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(rounds):
        for name, requests, passages in loads(Talk(SEED + seed)):
            found.setdefault(name, []).extend(await measured(stage, f"{name} {seed}", requests, passages))
    return {name: _figures(np.array(taken)) for name, taken in found.items()}


def _figures(taken: NDArray[np.float64]) -> dict[str, float]:
    wall, busy = taken[:, 0], taken[:, 1]
    names = {"p50_ms": (wall, 0.5), "p95_ms": (wall, 0.95), "cpu_p50_ms": (busy, 0.5), "cpu_p95_ms": (busy, 0.95)}
    return {name: float(np.quantile(of, at)) for name, (of, at) in names.items()} | {"n": len(taken)}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--semantic", action="store_true", help="with the built-in verifier and embedder")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    verifiers = local_verifiers() if given.semantic else None
    embedder = BatchingEmbedder(UseEncoder()) if given.semantic else None
    ports = make_ports(**({"verifiers": verifiers, "embedder": embedder} if given.semantic else {}))
    options = msgspec.convert({"semantic": True} if given.semantic else {}, ClashOptions)
    report = asyncio.run(run(ports, options, given.rounds))
    for name, line in report.items():
        figures = "  ".join(f"{key} {value:7.1f}" for key, value in line.items() if key != "n")
        print(f"{name:30} n {line['n']:4}  {figures}")
    if not given.semantic:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({"seed": SEED, "rounds": given.rounds, "loads": report}, indent=2) + "\n", "utf-8")
    if verifiers is not None and embedder is not None:
        verifiers.stop()
        embedder.stop()


if __name__ == "__main__":
    main()
