"""What the models' inference takes alone, with nothing around it: the lower bound beside which `benchmarks.stage_costs` stands."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from benchmarks.load.statistics import percentile
from benchmarks.stage_costs_texts import Texts
from proxy.exchange.judgements import ClaimPair
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier

ROUNDS = 20
T = TypeVar("T")


def bare(seed: str) -> dict[str, float]:
    """Milliseconds of CPU by what is computed, in one thread, medians of new texts."""
    texts = Texts(f"{seed} bare")
    encoder, verifier = UseEncoder(1), OnnxVerifier(FOLDER, 1)
    encoder.load()
    verifier.load()
    drawn = [texts.passages(5, 150) for _ in range(ROUNDS)]
    pairs = [ClaimPair(facts[0][0], " ".join(passages), "en") for _, passages, facts in drawn]
    fed = [verifier.feed(pair) for pair in pairs]
    passages = [texts.passages(1, 200)[1][0] for _ in range(ROUNDS)]
    return {
        "a pair of 256 tokens": _median(verifier.run, fed),
        "a passage of 200 words embedded": _median(lambda text: encoder.encode([text]), passages),
        "a question embedded": _median(lambda text: encoder.encode([text]), (texts.question() for _ in range(ROUNDS))),
    }


def _median(work: Callable[[T], object], items: Iterable[T]) -> float:
    times = []
    for item in items:
        started = time.process_time()
        work(item)
        times.append((time.process_time() - started) * 1000)
    return percentile(times, 0.5)
