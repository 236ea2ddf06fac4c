"""What a detector of unsupported claims is worth: figures with 95% intervals by bootstrap over groups of rows.

The positive class is "not supported", as in the literature on hallucination detection. Every figure is a function of row weights
``(r, n)``: the first row of weights is ones and gives the value, each further one says how often a resample drew the row's group and
gives one draw for the interval. So a figure is computed for all resamples at once, and groups (rows of the same context) stay together.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 500
RECALL = 0.90
"""Where `precision_at_recall` looks."""
BINS = 10
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(slots=True, frozen=True)
class Estimate:
    """A figure with its 95% interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return "-" if np.isnan(self.value) else f"{self.value:.3f} [{self.low:.3f} {self.high:.3f}]"


def row_weights(groups: Sequence[str], seed: int, resamples: int = RESAMPLES) -> Floats:
    """``(1 + resamples, n)``; groups are drawn with replacement, as many as there are."""
    names, group_of = np.unique(np.array(groups), return_inverse=True)
    draws = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    return np.vstack([np.ones(len(groups)), draws[:, group_of]]).astype(np.float64)


def seed_of(seed: int, name: str) -> int:
    """A seed of its own for each source, so that sources are resampled independently."""
    return seed * 1_000_003 + zlib.crc32(name.encode())


def estimate(replicates: Floats) -> Estimate:
    """Value and interval of one figure's replicates; resamples in which it is not defined (a class is missing) are left out."""
    drawn = replicates[1:][np.isfinite(replicates[1:])]
    if not np.isfinite(replicates[0]) or not len(drawn):
        return Estimate(float(replicates[0]), float("nan"), float("nan"))
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(float(replicates[0]), float(low), float(high))


def estimates(replicates: Mapping[str, Floats]) -> dict[str, Estimate]:
    """`estimate` of each."""
    return {name: estimate(values) for name, values in replicates.items()}


def macro(replicates: Sequence[Floats]) -> Estimate:
    """The mean over sources, each weighing the same; sources in which the figure is not defined are left out."""
    defined = [values for values in replicates if np.isfinite(values[0])]
    return estimate(np.mean(defined, axis=0)) if defined else Estimate(float("nan"), float("nan"), float("nan"))


# ---- figures ----


def figures(weights: Floats, supported: Floats, positive: Bools, called: Bools) -> dict[str, Floats]:
    """All figures of one system on rows: `supported` is its probability of support, `called` what it calls not supported."""
    return {
        **detection(weights, positive, called),
        "auroc": auroc(weights, 1 - supported, positive),
        "precision@90": _centred(precision_at_recall(weights, 1 - supported, positive)),
        "ece": _centred(calibration_error(weights, supported, ~positive)),
    }


def detection(weights: Floats, positive: Bools, called: Bools) -> dict[str, Floats]:
    """Precision, recall and F1 of the positive class, the share of the others that pass, and balanced accuracy."""
    found, missed, false, passed = (
        weights @ rows for rows in (positive & called, positive & ~called, ~positive & called, ~positive & ~called)
    )
    recall, specificity = _share(found, found + missed), _share(passed, passed + false)
    return {
        "precision": _share(found, found + false),
        "recall": recall,
        "f1": _share(2 * found, np.where(found + missed > 0, 2 * found + false + missed, 0)),
        "passed": specificity,
        "balanced": (recall + specificity) / 2,
    }


def auroc(weights: Floats, risk: Floats, positive: Bools) -> Floats:
    """Chance that a positive row has a higher risk than another; ties count half (Hanley and McNeil 1982)."""
    positives, negatives = _by_value(weights, risk, positive)
    below = np.cumsum(negatives, axis=1) - negatives
    area = (positives * (below + negatives / 2)).sum(axis=1)
    return _share(area, positives.sum(axis=1) * negatives.sum(axis=1))


def precision_at_recall(weights: Floats, risk: Floats, positive: Bools, recall: float = RECALL) -> Floats:
    """The best precision of any threshold that finds at least `recall` of the positive rows."""
    positives, negatives = (np.cumsum(part[:, ::-1], axis=1) for part in _by_value(weights, risk, positive))
    total = positives[:, -1:]
    enough = positives >= recall * total - 1e-9
    best = np.where(enough, _share(positives, positives + negatives), -1.0).max(axis=1)
    return np.where(total[:, 0] > 0, best, np.nan)


def calibration_error(weights: Floats, probability: Floats, true: Bools, bins: int = BINS) -> Floats:
    """Expected calibration error over `bins` of equal width (Naeini et al. 2015), rows as they come."""
    bin_of = np.minimum((probability * bins).astype(int), bins - 1)
    error = np.zeros((len(true), bins))
    error[np.arange(len(true)), bin_of] = true - probability
    return _share(np.abs(weights @ error).sum(axis=1), weights.sum(axis=1))


def _centred(replicates: Floats) -> Floats:
    """Resamples moved so that their mean is the value: a best threshold and a sum of absolute errors come out too high in resamples."""
    drawn = replicates[1:][np.isfinite(replicates[1:])]
    if not len(drawn) or not np.isfinite(replicates[0]):
        return replicates
    return np.r_[replicates[0], np.clip(replicates[1:] - drawn.mean() + replicates[0], 0, 1)]


def _share(part: Floats, whole: Floats) -> Floats:
    """`part` / `whole`; NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


def _by_value(weights: Floats, risk: Floats, positive: Bools) -> tuple[Floats, Floats]:
    """Weight of the positive and of the other rows at each distinct risk, ascending: ``(r, distinct)`` both."""
    order = np.argsort(risk, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(risk[order]) > 0])
    sorted_weights, sorted_positive = weights[:, order], positive[order]
    return tuple(np.add.reduceat(sorted_weights * rows, starts, axis=1) for rows in (sorted_positive, ~sorted_positive))  # type: ignore[return-value]


# ---- spans ----

Span = tuple[int, int]


def covered(spans: Sequence[Span], length: int) -> Bools:
    """Which of `length` characters lie in one of `spans`."""
    found = np.zeros(length, np.bool_)
    for start, end in spans:
        found[start:end] = True
    return found


def characters(predicted: Sequence[Span], gold: Sequence[Span], length: int) -> tuple[int, int, int]:
    """Characters in both, in a predicted span, in a gold span; one in two spans counts once."""
    said, true = covered(predicted, length), covered(gold, length)
    return int((said & true).sum()), int(said.sum()), int(true.sum())


def span_figures(weights: Floats, counts: Sequence[tuple[int, int, int]]) -> dict[str, Floats]:
    """Precision, recall and F1 by characters, summed over all answers before dividing, as RAGTruth and LettuceDetect define them."""
    both, said, true = (weights @ np.array(column, np.float64) for column in zip(*counts, strict=True))
    return {"precision": _share(both, said), "recall": _share(both, true), "f1": _share(2 * both, np.where(true > 0, said + true, 0))}
