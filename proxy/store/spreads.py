"""Times counted in classes, from which percentiles are read: what the database can add up, and what can be added up again.

A class is 20% wider than the one before, so that a percentile is right to within a tenth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Integer, case, literal_column

_FIRST_MS, _WIDTH = 0.05, 1.2
_CLASSES = 96
"""The last begins at about half an hour."""


def time_class(ms: ColumnElement[Any]) -> ColumnElement[int]:
    """The number of a time's class, as SQL: a tree of comparisons, since not every SQLite has logarithms."""

    def between(low: int, high: int) -> ColumnElement[int]:
        if high - low == 1:
            return literal_column(str(low), Integer)
        middle = (low + high) // 2
        edge: ColumnElement[Any] = literal_column(f"{_FIRST_MS * _WIDTH**middle:.6f}")
        return case((ms < edge, between(low, middle)), else_=between(middle, high))

    return between(0, _CLASSES)


def percentile(counts: Mapping[str, int], share: float) -> float | None:
    """Milliseconds that `share` of the counted are at or below, to within a tenth; None for nothing counted."""
    rank, seen = share * sum(counts.values()), 0
    for number in sorted(map(int, counts)):
        seen += counts[str(number)]
        if seen and seen >= rank:
            return float(f"{_FIRST_MS * _WIDTH ** (number + 0.5):.3g}") if number else _FIRST_MS
    return None
