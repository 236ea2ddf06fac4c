"""What `benchmarks.clash` and `training.clash` share: the rows of `../shared/data`, and what the shipped verifier says of pairs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.verifiers import local_verifiers
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.deciding import questions
from proxy.grounding.clashes.kinds import Pair
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder

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
    """The shipped verifier and embedder."""

    def __init__(self) -> None:
        self.verifiers = local_verifiers()
        self.verifier = self.verifiers.get()
        self.embedder = BatchingEmbedder(UseEncoder())

    async def ask(self, pairs: Sequence[Pair]) -> dict[ClaimPair, Support]:
        """What the verifier says of all of them."""
        answers: dict[ClaimPair, Support] = {}
        asked = list(dict.fromkeys(question for pair in pairs for question in questions(pair)))
        for start in range(0, len(asked), TOGETHER):
            some = asked[start : start + TOGETHER]
            replies = zip(some, await self.verifier.verify(some), strict=True)
            answers |= {question: support for question, support in replies if support is not None}
        return answers

    def stop(self) -> None:
        """End their threads."""
        self.verifiers.stop()
        self.embedder.stop()
