"""What a report adds up with: percentiles without keeping the values, means, the runs in most trouble, counts by name. All bounded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

MAX_NAMES = 200
"""Of warnings, reasons, upstreams: what is beyond it is counted as `OTHER`."""
OTHER = "other"
MAX_RUNS = 20_000
"""Runs in trouble that are told apart; beyond it those with the least are forgotten, and the list says so."""
_WIDTH = math.log(1.02)


class ValueSpread:
    """Values at or above 0, for their percentiles."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.count = 0

    def add(self, value: float) -> None:
        """One value; what is no number is left out."""
        if math.isfinite(value):
            index = math.ceil(math.log(value) / _WIDTH) if value > 1e-6 else -1000
            self._counts[index] = self._counts.get(index, 0) + 1
            self.count += 1

    def quantile(self, share: float) -> float | None:
        """The value that `share` of all are at or below; None without any."""
        rank, seen = max(1, math.ceil(share * self.count)), 0
        for index in sorted(self._counts):
            seen += self._counts[index]
            if seen >= rank:
                return 2 * math.exp(index * _WIDTH) / (1 + math.exp(_WIDTH)) if index > -1000 else 0.0
        return None

    def as_json(self) -> dict[str, float | int | None]:
        """Count, p50 and p95."""
        found = {name: self.quantile(share) for name, share in (("p50", 0.5), ("p95", 0.95))}
        return {"count": self.count, **{name: None if value is None else round(value, 2) for name, value in found.items()}}


class Mean(Struct):
    """A mean of scores."""

    count: int = 0
    total: float = 0.0

    def add(self, value: float | None) -> None:
        """One, if there is one."""
        if value is not None and math.isfinite(value):
            self.count, self.total = self.count + 1, self.total + value

    def as_json(self) -> dict[str, Any]:
        """Count and mean."""
        return {"count": self.count, "mean": share(self.total, self.count)}


class Runs:
    """Runs with errors, blocked answers or warnings; the number kept is bounded."""

    def __init__(self, most: int = MAX_RUNS) -> None:
        self._most = most
        self._found: dict[str, list[int]] = {}
        self.complete = True
        """Whether none was forgotten, so that the counts are exact."""

    def add(self, run: str, *, failed: bool, warned: bool) -> None:
        """An exchange of `run`."""
        if not run or not (failed or warned):
            return
        if run not in self._found and len(self._found) >= self._most:
            self.complete = False
            kept = sorted(self._found.items(), key=_trouble)[: self._most // 2]
            self._found = dict(kept)
        counts = self._found.setdefault(run, [0, 0])
        counts[0] += failed
        counts[1] += warned

    def top(self, number: int) -> list[dict[str, Any]]:
        """Those in most trouble: by exchanges that failed, then by those with warnings."""
        found = sorted(self._found.items(), key=_trouble)[:number]
        return [{"run_id": run, "failed": failed, "warned": warned} for run, (failed, warned) in found]


def _trouble(item: tuple[str, list[int]]) -> tuple[int, int, str]:
    return -item[1][0], -item[1][1], item[0]


def raised(counts: dict[str, int], name: str, by: int = 1) -> None:
    """Count `name`; of more than `MAX_NAMES` names, the later ones are `OTHER`."""
    name = name if name in counts or len(counts) < MAX_NAMES else OTHER
    counts[name] = counts.get(name, 0) + by


def ranked(counts: Mapping[str, int]) -> dict[str, int]:
    """The highest first."""
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def share(part: float, whole: float) -> float | None:
    """A ratio to four digits; None where there is nothing to divide by."""
    return round(part / whole, 4) if whole else None
