"""Makes the relevance guard's coefficients from the training half of the data.

    python -m training.relevance

Two logistic regressions of cosine and word coverage, one for passages in the question's language and one for others, then one that
makes a context's probability of its best window and of how many windows there are. Positives and negatives weigh the same, so that a
probability means: at even odds before. Writes `proxy/grounding/relevance/coefficients.py`.

XQuAD's questions were written with the passage in view, and repeat its words more than a user would. So the first regression
also sees question and passage in different languages, at a small weight: a stand-in for a paraphrase, which XQuAD has none of.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import relevance_data as data
from proxy.grounding.relevance import scoring
from proxy.language.word_overlap import Vocabulary, content_words
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.use import UseEncoder

OUT = Path(scoring.__file__).with_name("coefficients.py")
PARAPHRASE_WEIGHT = 0.1
"""Of a pair in two languages beside one in the same, for the first regression."""
CLAPNQ_WEIGHT = 2.0
"""There are fewer of them, and their questions are real."""
RIDGE = 0.05
CONTEXT_SIZES = (1, 2, 3, 5, 10)
Array = NDArray[np.float64]


@dataclass(slots=True, frozen=True)
class Pair:
    """One window with its question."""

    question: str
    window: str
    helps: bool
    weight: float


def same_language_pairs(cases: Sequence[data.Case]) -> list[Pair]:
    """Every question with each of its own passages."""
    return [pair for case in cases for pair in _pairs(case, case, CLAPNQ_WEIGHT if case.group == "clapnq" else 1.0)]


def other_language_pairs(cases: Sequence[data.Case], weight: float = 1.0) -> list[Pair]:
    """Every question with the same passages in each of the other languages."""
    by_id: dict[str, list[data.Case]] = {}
    for case in cases:
        by_id.setdefault(case.id, []).append(case)
    return [pair for same in by_id.values() for a in same for b in same if a.group != b.group for pair in _pairs(a, b, weight)]


def _pairs(asked: data.Case, quoted: data.Case, weight: float) -> Iterable[Pair]:
    positives, negatives = ([quoted.positive] if quoted.positive else []), [*quoted.hard, quoted.easy]
    yield from (Pair(asked.question, p.strip(), True, 2 * weight) for p in positives if _one_window(p))
    yield from (Pair(asked.question, n.strip(), False, weight) for n in negatives if _one_window(n))


def _one_window(passage: str) -> bool:
    """A longer one does not say which of its windows answers."""
    return len(scoring.windows(passage)) == 1


class Vectors:
    """Texts -> vectors, each text once."""

    def __init__(self, texts: Iterable[str]) -> None:
        ordered = sorted(set(texts), key=lambda text: (len(text), text))
        found = asyncio.run(_embed(ordered))
        self._rows = dict(zip(ordered, found, strict=True))

    def cosine(self, a: str, b: str) -> float:
        """Of two texts that were given."""
        return float(self._rows[a] @ self._rows[b])


async def _embed(texts: Sequence[str]) -> NDArray[np.float32]:
    embedder = BatchingEmbedder(UseEncoder())
    try:
        return await embedder.embed(texts, bulk=True)
    finally:
        embedder.stop()


def fit(features: Array, helps: Array, weights: Array) -> Array:
    """Weights and intercept of a logistic regression, by Newton's method with a small ridge."""
    x = np.column_stack([features, np.ones(len(features))])
    ridge = RIDGE * np.diag([*([1.0] * features.shape[1]), 0.0])
    found = np.zeros(x.shape[1])
    for _ in range(100):
        p = 1 / (1 + np.exp(-x @ found))
        gradient = x.T @ (weights * (p - helps)) + ridge @ found
        step = np.linalg.solve((x * (weights * p * (1 - p))[:, None]).T @ x + ridge, gradient)
        found -= step
        if np.abs(step).max() < 1e-10:
            break
    return found


def fit_pairs(pairs: Sequence[Pair], vectors: Vectors) -> scoring.RelevanceWeights:
    """The regression of a window."""
    features = [[vectors.cosine(p.question, p.window), Vocabulary(p.window).coverage(content_words(p.question))] for p in pairs]
    found = fit(np.array(features), np.array([float(p.helps) for p in pairs]), np.array([p.weight for p in pairs]))
    return scoring.RelevanceWeights(*(round(float(v), 3) for v in found))


def contexts(cases: Sequence[data.Case]) -> list[tuple[str, list[str], bool]]:
    """Question, passages and whether one of them helps: for each case and size, one that helps and one that does not."""
    source = random.Random(data.SEED)
    found = []
    for case in cases:
        for size in CONTEXT_SIZES:
            others = data.distractors(cases, case, size, source)
            near = list(case.hard) if source.random() < 0.5 else []
            if case.positive:
                found.append((case.question, [case.positive, *near, *others][:size], True))
            if case.group != "clapnq" or not case.positive:  # ClapNQ's questions have one passage each
                found.append((case.question, [*near, *others][:size], False))
    return found


def fit_contexts(cases: Sequence[data.Case], weights: scoring.RelevanceWeights, vectors: Vectors) -> Array:
    """Slope of the best window's logit, weight of log(windows), intercept."""
    rows, helps = [], []
    for question, passages, helped in contexts(cases):
        pieces = [window for passage in passages for window in scoring.windows(passage)]
        wanted = content_words(question)
        logits = [_logit(weights, vectors.cosine(question, w), Vocabulary(w).coverage(wanted)) for w in pieces]
        rows.append([max(logits), math.log(len(pieces))])
        helps.append(float(helped))
    labels = np.array(helps)
    balanced = np.where(labels == 1, len(labels) / labels.sum(), len(labels) / (1 - labels).sum())
    return fit(np.array(rows), labels, balanced / 2)


def _logit(weights: scoring.RelevanceWeights, cosine: float, coverage: float) -> float:
    return weights.cosine * cosine + weights.coverage * coverage + weights.intercept


TEMPLATE = '''"""Written by ``python -m training.relevance``; edit that instead.

Data: the training half of XQuAD (en, de, es; cut by article) and ClapNQ (cut by title), {cases} questions, SHA-256 of their ids
{digest}. Embedding model: {model}.
"""

SAME_LANGUAGE = {same}
"""Cosine, coverage, intercept of a window in the question's language."""
OTHER_LANGUAGE = {other}
"""The same of a window in another language."""
CONTEXT_SLOPE = {slope}
"""Of the best window's logit."""
CONTEXT_LOG_WINDOWS = {windows}
"""Of the natural logarithm of the number of windows."""
CONTEXT_INTERCEPT = {intercept}
'''


def main() -> None:
    """Fit, write, print."""
    if not data.available():
        raise SystemExit(f"no training data in {data.FOLDER}")
    cases = data.load(held_out=False)
    texts = [c.question for c in cases] + [w for c in cases for p in (c.positive, *c.hard, c.easy) for w in scoring.windows(p)]
    vectors = Vectors(texts)
    same = fit_pairs([*same_language_pairs(cases), *other_language_pairs(cases, PARAPHRASE_WEIGHT)], vectors)
    other = fit_pairs(other_language_pairs(cases), vectors)
    slope, windows, intercept = (round(float(v), 3) for v in fit_contexts(cases, same, vectors))
    digest = hashlib.sha256("\n".join(f"{c.group} {c.id}" for c in cases).encode()).hexdigest()[:16]
    text = TEMPLATE.format(
        cases=len(cases),
        digest=digest,
        model=UseEncoder.name,
        same=tuple(_plain(same)),
        other=tuple(_plain(other)),
        slope=slope,
        windows=windows,
        intercept=intercept,
    )
    OUT.write_text(text, encoding="utf-8")
    print(text)


def _plain(weights: scoring.RelevanceWeights) -> tuple[float, float, float]:
    return (weights.cosine, weights.coverage, weights.intercept)


if __name__ == "__main__":
    main()
