"""What `benchmarks.clash` and `training.clash` share: the rows of `../shared/data`, and the features of pairs by the shipped models."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting.candidates import Pair
from proxy.grounding.clashes.detecting.features import Answers, Cosines, Features, features
from proxy.grounding.clashes.detecting.judging import ClashDetector
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.use import UseEncoder, available_cores
from proxy.models.verifier.onnx import FOLDER as MODEL
from proxy.models.verifier.onnx import OnnxVerifier
from proxy.models.verifier.verifier import LocalVerifiers

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"
TOGETHER = 64
"""Pairs that are asked about at a time."""


def available() -> bool:
    """Whether the data is there."""
    return (FOLDER / "clash" / "prefeval.jsonl.gz").exists()


def rows(name: str, *, split: str = "") -> list[dict[str, Any]]:
    """A file's rows, of one split where one is named."""
    with gzip.open(FOLDER / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = [json.loads(line) for line in lines]
    return [row for row in found if not split or row["split"] == split]


class Models:
    """The shipped verifier and embedder, and a detector that asks them."""

    def __init__(self) -> None:
        self.verifiers = LocalVerifiers(lambda name: OnnxVerifier(MODEL, threads=available_cores()))
        self.verifier = self.verifiers.get()
        self.embedder = BatchingEmbedder(UseEncoder())
        self.detector = ClashDetector(self.verifier, embedder=self.embedder)

    async def ask(self, pairs: Sequence[Pair]) -> tuple[Answers, Cosines]:
        """What verifier and embedder say of all of them."""
        answers: dict[ClaimPair, Support] = {}
        cosines: dict[tuple[str, str], float] = {}
        for start in range(0, len(pairs), TOGETHER):
            said, alike = await self.detector.ask(pairs[start : start + TOGETHER])
            answers.update(said)
            cosines.update(alike)
        return answers, cosines

    async def features(self, pairs: Sequence[Pair]) -> list[Features]:
        """`proxy.grounding.clashes.detecting.features.features` of each pair."""
        answers, cosines = await self.ask(pairs)
        return [features(pair.older, pair.newer, answers, cosines) for pair in pairs]

    def stop(self) -> None:
        """End their threads."""
        self.verifiers.stop()
        self.embedder.stop()
