"""Percentiles and seeded bootstrap intervals, in plain Python."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

SEED = 7
_RESAMPLES = 2000
_Z = 1.959964


@dataclass(slots=True, frozen=True)
class Estimate:
    """A mean over rounds with its 95% bootstrap interval."""

    mean: float
    low: float
    high: float
    n: int

    def as_json(self) -> dict[str, float]:
        return {key: round(value, 5) for key, value in asdict(self).items()}

    def text(self, digits: int = 2) -> str:
        return f"{self.mean:,.{digits}f} [{self.low:,.{digits}f}, {self.high:,.{digits}f}]"


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: a value that was seen, not one between two."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def estimate(values: Sequence[float]) -> Estimate:
    """Mean of `values`, one a round; the interval resamples rounds."""
    draw = random.Random(SEED)
    n = len(values)
    means = sorted(sum(draw.choices(values, k=n)) / n for _ in range(_RESAMPLES))
    low, high = means[int(0.025 * _RESAMPLES)], means[int(0.975 * _RESAMPLES) - 1]
    return Estimate(sum(values) / n, low, high, n)


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Bounds of a share's 95% interval (Wilson 1927)."""
    if not n:
        return 0.0, 1.0
    share, z = hits / n, _Z * _Z
    middle, half = (share + z / (2 * n)) / (1 + z / n), _Z / (1 + z / n) * math.sqrt(share * (1 - share) / n + z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)
