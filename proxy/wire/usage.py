"""The usage of several answers, as their upstream reported it, added up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from proxy.wire.bodies import is_number


def summed(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> dict[str, Any]:
    """Two usage objects added up, figure by figure."""
    total = dict(now)
    for key, value in (before or {}).items():
        other = total.get(key)
        if isinstance(value, dict):
            total[key] = summed(value, other if isinstance(other, dict) else {})
        elif is_number(value):
            total[key] = value + other if is_number(other) else value
        elif other is None:
            total[key] = value
    return total


def added_up(usages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The usage of several answers, figure by figure; what is no figure is the last one's."""
    return reduce(summed, usages, {})
