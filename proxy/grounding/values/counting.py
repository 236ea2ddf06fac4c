"""What a text lists, counted: items, rows, the members of JSON arrays and those that share a value; and the columns of numbers in these.

For `proxy.grounding.values.arithmetic`. Pure; bounded by `MAX_ARRAYS` arrays of a text.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from proxy.language.quantities import Quantity

MAX_ARRAYS = 60
MAX_JSON_CHARS = 200_000
MAX_ROW_CHARS = 120
"""Lines that are no longer are rows of a list, and counted."""
_BULLET = re.compile(r"^[ \t]{0,12}(?:[-*•+]|\d{1,3}[.)])[ \t]+\S", re.M)
_TABLE_ROW = re.compile(r"^[ \t]{0,8}\|.*\|[ \t]*$", re.M)


def is_counted(number: Quantity, texts: Sequence[str]) -> bool:
    """Whether something that was said has so many members: an array, its members with one value, list items, rows."""
    value = number.values[0]
    if number.dimension not in ("", "data") and not number.spelled:
        return False
    return value == int(value) and any(int(value) in _arrays(text)[0] for text in texts)


def sums_and_means(texts: Sequence[str], *, sums: bool, means: bool) -> Iterator[float]:
    """Of the columns of numbers in JSON arrays."""
    for column in (column for text in texts for column in _arrays(text)[1]) if sums or means else ():
        if sums:
            yield sum(column)
        if means:
            yield sum(column) / len(column)


@lru_cache(maxsize=64)
def _arrays(text: str) -> tuple[frozenset[int], tuple[tuple[float, ...], ...]]:
    """The lengths of what a text lists, and the columns of numbers in it."""
    counts = {len(_BULLET.findall(text)), max(0, len(_TABLE_ROW.findall(text)) - 2)}
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 2 and all(len(line) <= MAX_ROW_CHARS for line in lines):
        counts |= {len(lines), len(lines) - 1}
    counts.discard(0)
    columns: list[tuple[float, ...]] = []
    if text.lstrip()[:1] in ("{", "[") and len(text) <= MAX_JSON_CHARS:
        try:
            for array in list(_lists(json.loads(text), 8))[:MAX_ARRAYS]:
                counts |= _tallies(array)
                columns += _columns(array)
        except (ValueError, RecursionError):
            pass
    return frozenset(counts), tuple(columns)


def _lists(value: Any, depth: int) -> Iterator[list[Any]]:
    if depth and isinstance(value, list | dict):
        if isinstance(value, list):
            yield value
        for inner in value if isinstance(value, list) else value.values():
            yield from _lists(inner, depth - 1)


def _tallies(array: list[Any]) -> set[int]:
    """How many members it has, and how many of them share a value."""
    shared = Counter(
        (key, value) for one in array if isinstance(one, dict) for key, value in one.items() if isinstance(value, str | int | bool)
    )
    return {len(array), *shared.values()}


def _columns(array: list[Any]) -> list[tuple[float, ...]]:
    found: dict[str, list[float]] = {}
    for one in array:
        for key, value in one.items() if isinstance(one, dict) else (("", one),):
            if isinstance(value, int | float) and not isinstance(value, bool):
                found.setdefault(str(key), []).append(float(value))
    return [tuple(values) for values in found.values() if len(values) > 1]
