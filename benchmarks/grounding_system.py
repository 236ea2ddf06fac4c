"""The product's own path in `benchmarks.grounding`: its claims, its choice of evidence, its verifier, its judgements."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.grounding_baselines import ROOT, Floats, kept
from benchmarks.grounding_data import Pair
from proxy.exchange import Evidence
from proxy.exchange.judgements import Claim, Judgement
from proxy.grounding.evidence.gathering import EvidenceBase
from proxy.grounding.judging.grounder import Grounder
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
from proxy.models.verifier.verifier import LocalVerifiers
from proxy.offloop import available_cores

if TYPE_CHECKING:
    from proxy.models.verifier.verifier import PairModel

_CODE = ("proxy/grounding", "proxy/models", "proxy/language/text.py")
"""What a score depends on beside the model's files."""
TOGETHER = 64
"""Claims judged at a time."""


class Product:
    """A `benchmarks.grounding_baselines.System`, and answers as a whole."""

    name = "groundwire"
    threshold = 0.5
    """`min_support`, as the stage has it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder or FOLDER
        self._loop = asyncio.new_event_loop()
        self._verifiers = LocalVerifiers(self._model)
        self._embedder = BatchingEmbedder(UseEncoder())
        self._grounder = Grounder(self._verifiers.get(), embedder=self._embedder)

    def _model(self, name: str) -> PairModel:
        return OnnxVerifier(self.folder, threads=available_cores())

    def fingerprint(self) -> str:
        """Of the model's files and of the code around it."""
        digest = hashlib.sha256()
        code = [path for name in _CODE for path in sorted((ROOT / name).rglob("*.py") if (ROOT / name).is_dir() else [ROOT / name])]
        for path in [*sorted(file for file in self.folder.glob("*") if file.is_file()), *code]:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:12]

    def score(self, pairs: Sequence[Pair]) -> Floats:
        """Each claim judged as one, by the evidence that the product finds for it in its context; its language is told, not detected."""
        texts = [[pair.claim, pair.context, pair.language] for pair in pairs]
        return kept(f"product-{self.fingerprint()}", texts, lambda: self._loop.run_until_complete(self._score(pairs)))

    async def _score(self, pairs: Sequence[Pair]) -> Floats:
        found: list[tuple[float, float]] = []
        bases: dict[str, EvidenceBase] = {}
        for start in range(0, len(pairs), TOGETHER):
            part = pairs[start : start + TOGETHER]
            for pair in part:
                bases.setdefault(pair.context, EvidenceBase([Evidence(pair.context)]))
            said = await asyncio.gather(
                *(self._grounder.judge([Claim(pair.claim, 0, len(pair.claim))], bases[pair.context], tongue=pair.language) for pair in part)
            )
            found += [_probabilities(judgement) for (judgement,) in said]
        return np.array(found)

    def judged(self, claims: Sequence[Claim], context: str) -> list[Judgement]:
        """The judgements of one answer's claims, nothing kept from before but what the verifier keeps of the same pairs."""
        return self._loop.run_until_complete(self._grounder.judge(claims, EvidenceBase([Evidence(context)])))


def _probabilities(judgement: Judgement) -> tuple[float, float]:
    if judgement.label == "error":
        return float("nan"), float("nan")
    if judgement.score is None:  # no evidence at all
        return 0.0, 0.0
    return judgement.score, judgement.contradiction or 0.0


def why_not(folder: Path | None) -> str:
    """Why the product cannot be measured; "" if it can."""
    model = (folder or FOLDER) / "model.onnx"
    return "" if model.exists() else f"{model} is not there"
