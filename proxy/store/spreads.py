"""Times counted in classes, from which percentiles are read: what the database can add up, and what can be added up again.

A class ends 5% above its beginning, and its value is the one that is equally far from both: a percentile is wrong by 2.5% at most
(2.44%, and what its four digits leave out). What was counted apart is added up by adding its counts, so that a month's percentile comes
from its days' as exactly as from the exchanges themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sqlalchemy import ColumnElement, Integer, literal_column

_FIRST_MS, _WIDTH = 0.05, 1.05
_CLASSES = 360
"""The last begins at about half an hour."""
_BETWEEN = 2 * _WIDTH / (1 + _WIDTH)
MOST_WRONG = 0.025
"""Share of a percentile, between the first class and the last."""


def time_class(ms: str) -> ColumnElement[int]:
    """The number of a time's class, as SQL; `ms` is SQL that gives the time. A tree of comparisons, as not every SQLite has logarithms."""
    return literal_column(_tree(ms), Integer)


@cache
def _tree(ms: str) -> str:
    def between(low: int, high: int) -> str:
        if high - low == 1:
            return str(low)
        middle = (low + high) // 2
        return f"CASE WHEN {ms} < {_begin_ms(middle)!r} THEN {between(low, middle)} ELSE {between(middle, high)} END"

    return between(0, _CLASSES)


def _begin_ms(number: int) -> float:
    return _FIRST_MS * _WIDTH ** (number - 1)


def percentile(counts: Mapping[str, int], share: float) -> float | None:
    """Milliseconds that `share` of the counted are at or below, to within `MOST_WRONG`; None for nothing counted."""
    rank, seen = share * sum(counts.values()), 0
    for number in sorted(map(int, counts)):
        seen += counts[str(number)]
        if seen and seen >= rank:
            return float(f"{_begin_ms(number) * _BETWEEN:.4g}") if number else _FIRST_MS
    return None
