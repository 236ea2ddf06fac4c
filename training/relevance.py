"""Makes the relevance guard's coefficients from the training half of the data.

    python -m training.relevance

Two logistic regressions of a window's features (`proxy.grounding.relevance_scoring.features`), one for passages in the question's language
and one for others, then one that makes a context's probability of its best window and of how many windows there are. Each group of the
data weighs the same, and in it positives and negatives, so that a probability means: at even odds before. Writes
`proxy/grounding/relevance_coefficients.py`, and prints what the guard's two thresholds would refuse and let through on this half.

A negative is mostly a passage about something else; one of the same article counts little (`HARD_WEIGHT`): whether it answers is for the
checks of the answer to say, and a score that tries to tell loses right contexts.

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
from proxy.context.question import find_question
from proxy.grounding import relevance_scoring as scoring
from proxy.language.words import Vocabulary, content_words
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder

OUT = Path(scoring.__file__).with_name("relevance_coefficients.py")
PARAPHRASE_WEIGHT = 0.1
"""Of a pair in two languages beside one in the same, for the first regression."""
HARD_WEIGHT = 0.25
GROUP_WEIGHTS = {"indirect": 0.5}
"""Of so few sentences, all of one hand."""
RIDGE = 0.05
CONTEXT_SIZES = (1, 2, 3, 5, 10)
Array = NDArray[np.float64]
Weights = tuple[float, ...]


@dataclass(slots=True, frozen=True)
class Pair:
    """One window with the readings of its question."""

    group: str
    readings: tuple[str, ...]
    window: str
    helps: bool
    weight: float


def same_language_pairs(cases: Sequence[data.Case]) -> list[Pair]:
    """Every question with each of its own passages."""
    return [pair for case in cases for pair in _pairs(case, case)]


def other_language_pairs(cases: Sequence[data.Case]) -> list[Pair]:
    """Every question with the same passages in each of the other languages."""
    by_id: dict[str, list[data.Case]] = {}
    for case in cases:
        if case.group in data.LANGUAGES:
            by_id.setdefault(case.id, []).append(case)
    return [pair for same in by_id.values() for a in same for b in same if a.group != b.group for pair in _pairs(a, b)]


def _pairs(asked: data.Case, quoted: data.Case) -> Iterable[Pair]:
    readings = readings_of(asked)
    for passage, helps, weight in (
        (quoted.positive, True, 1.0),
        (quoted.easy, False, 1.0),
        *((hard, False, HARD_WEIGHT) for hard in quoted.hard),
    ):
        if readings and passage and _one_window(passage):
            yield Pair(quoted.group, readings, passage.strip(), helps, weight)


def readings_of(case: data.Case) -> tuple[str, ...]:
    """The question as the guard reads it."""
    return find_question(case.messages).readings


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


def balanced(groups: Sequence[str], helps: Sequence[bool], weights: Sequence[float]) -> Array:
    """`weights` so that each group has the same sum, and in it what helps and what does not."""
    sums: dict[tuple[str, bool], float] = {}
    for group, helped, weight in zip(groups, helps, weights, strict=True):
        sums[group, helped] = sums.get((group, helped), 0.0) + weight
    share = len(groups) / len(sums)
    rows = zip(groups, helps, weights, strict=True)
    return np.array([weight * share * GROUP_WEIGHTS.get(group, 1.0) / sums[group, helped] for group, helped, weight in rows])


def fit_pairs(pairs: Sequence[Pair], more: Sequence[Pair], vectors: Vectors) -> Weights:
    """The regression of a window; `more` are pairs that count little."""
    chosen = [*pairs, *more]
    rows = [max((_features(reading, pair.window, vectors) for reading in pair.readings), key=lambda f: f[0] + f[1]) for pair in chosen]
    weights = [balanced([p.group for p in some], [p.helps for p in some], [p.weight for p in some]) for some in (pairs, more) if some]
    weights = [weights[0], *(PARAPHRASE_WEIGHT * w for w in weights[1:])]
    return _rounded(fit(np.array(rows), np.array([float(p.helps) for p in chosen]), np.concatenate(weights)))


def _features(question: str, window: str, vectors: Vectors) -> tuple[float, ...]:
    wanted = content_words(question)
    cut = scoring.Window(0, window, True, Vocabulary(window).coverage(wanted), len(wanted))
    return scoring.features(cut, vectors.cosine(question, window))


def _rounded(values: Array) -> Weights:
    return tuple(round(float(v), 3) for v in values)


@dataclass(slots=True, frozen=True)
class Context:
    """Passages under a question, and whether one of them helps."""

    case: data.Case
    passages: list[str]
    helps: bool
    near: bool
    """Whether a passage of the same article is among them."""


def contexts(cases: Sequence[data.Case]) -> list[Context]:
    """For each case and size, one that helps and one that does not."""
    source = random.Random(data.SEED)
    found = []
    for case in cases:
        for size in CONTEXT_SIZES:
            others = data.distractors(cases, case, size, source)
            near = list(case.hard) if source.random() < HARD_WEIGHT else []
            if case.positive:
                found.append(Context(case, [case.positive, *near, *others][:size], True, bool(near)))
                found.append(Context(case, [*near, *others][:size], False, bool(near)))
    return found


def fit_contexts(rows: Sequence[Context], weights: Weights, vectors: Vectors) -> tuple[Weights, Array]:
    """Slope of the best window's logit, weight of log(windows), intercept; and the logit of each of `rows` by them."""
    inputs = np.array([_best_window(row, weights, vectors) for row in rows])
    helps = [row.helps for row in rows]
    found = _rounded(fit(inputs, np.array(helps, float), balanced([row.case.group for row in rows], helps, [1.0] * len(rows))))
    return found, inputs @ np.array(found[:2]) + found[2]


def _best_window(row: Context, weights: Weights, vectors: Vectors) -> tuple[float, float]:
    """Its logit, and the logarithm of how many there are."""
    pieces = [window for passage in row.passages for window in scoring.windows(passage)]
    logits = [
        sum(w * f for w, f in zip(weights, (*_features(reading, piece, vectors), 1.0), strict=True))
        for reading in readings_of(row.case)
        for piece in pieces
    ]
    return max(logits, default=0.0), math.log(len(pieces))


def thresholds(rows: Sequence[Context], logits: Array) -> None:
    """Print, for some probabilities, the shares below them of contexts that help, and above them of others, by group."""
    found = np.array([scoring.probability(logit) for logit in logits])
    groups, helps = np.array([row.case.group for row in rows]), np.array([row.helps for row in rows])
    other = np.array([not row.near and not row.helps for row in rows])
    for title, sizes in (("one passage", (1,)), ("several", CONTEXT_SIZES[1:])):
        chosen = np.array([len(row.passages) in sizes for row in rows])
        print(f"\n{title}: right contexts below, other topics' above\n{'':12}{'mean':>13}" + "".join(f"{g:>13}" for g in data.GROUPS))
        for limit in (0.01, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
            good = [np.mean(found[(groups == g) & helps & chosen] < limit) for g in data.GROUPS]
            bad = [np.mean(found[(groups == g) & other & chosen] >= limit) for g in data.GROUPS]
            cells = [f"{g:.3f} {b:.3f}" for g, b in zip((np.mean(good), *good), (np.mean(bad), *bad), strict=True)]
            print(f"{limit:<12}" + "".join(f"{cell:>13}" for cell in cells))


TEMPLATE = '''"""Written by ``python -m training.relevance``; edit that instead.

Data: the training half of `benchmarks.relevance_data`, {cases} questions, SHA-256 of their ids
{digest}. Embedding model: {model}.
"""

SAME_LANGUAGE = {same}
"""Cosine, coverage, logarithm of the question's words, structure, intercept, of a window in the question's language."""
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
    texts = [reading for case in cases for reading in readings_of(case)]
    texts += [window for c in cases for passage in (c.positive, *c.hard, c.easy) for window in scoring.windows(passage)]
    vectors = Vectors(texts)
    crossed = other_language_pairs(cases)
    same, other = fit_pairs(same_language_pairs(cases), crossed, vectors), fit_pairs(crossed, (), vectors)
    rows = contexts(cases)
    (slope, windows, intercept), logits = fit_contexts(rows, same, vectors)
    thresholds(rows, logits)
    digest = hashlib.sha256("\n".join(f"{c.group} {c.id}" for c in cases).encode()).hexdigest()[:16]
    text = TEMPLATE.format(
        cases=len(cases),
        digest=digest,
        model=UseEncoder.name,
        same=same,
        other=other,
        slope=slope,
        windows=windows,
        intercept=intercept,
    )
    OUT.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
