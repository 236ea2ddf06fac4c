"""Strategy ``trim``: of what is older than `max_age_s` the oldest leaves the prompt; where no ages are known, of all. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from proxy.context.compaction.parts import Part
from proxy.context.compaction.runs import Run, foldable_runs
from proxy.language.times import seconds_of


def message_ages(hints: Mapping[int, Mapping[str, Any]], first_seen: Sequence[float] | None, count: int, now: float) -> list[float | None]:
    """Age in seconds of each of `count` messages: by the client's timestamp, or else since it was first seen; None when not known."""
    times = [seconds_of(hints.get(i, {}).get("timestamp")) for i in range(count)]
    if first_seen is not None:
        times = [seen if time is None else time for time, seen in zip(times, first_seen, strict=True)]
    return [None if time is None else now - time for time in times]


def old_runs(
    parts: Sequence[Part],
    end: int,
    last_user: int | None,
    ages: Sequence[float | None],
    max_age_s: float,
    tokens: Sequence[int],
    most_tokens: int | None = None,
) -> list[Run]:
    """The first blocks before `end` all of whose messages are older than `max_age_s`, until they hold `most_tokens`; all where it is None.

    `tokens` are those of each part.
    """

    def old(block: Sequence[Part]) -> bool:
        inside = [ages[i] for part in block for i in range(part.start, part.end)]
        return bool(inside) and all(age is not None and age > max_age_s for age in inside)

    return foldable_runs(parts, end, last_user, _until(most_tokens, parts, tokens, old))


def oldest_runs(parts: Sequence[Part], end: int, last_user: int | None, tokens: Sequence[int], excess_tokens: int) -> list[Run]:
    """The first blocks before `end` until they hold `excess_tokens`; `tokens` are those of each part."""
    return foldable_runs(parts, end, last_user, _until(excess_tokens, parts, tokens, lambda block: True))


def _until(
    most_tokens: int | None, parts: Sequence[Part], tokens: Sequence[int], wanted: Callable[[Sequence[Part]], bool]
) -> Callable[[Sequence[Part]], bool]:
    """As `wanted`, of blocks that are asked about in order, until those that were wanted hold `most_tokens`."""
    taken = 0
    by_part = {id(part): count for part, count in zip(parts, tokens, strict=True)}

    def next_oldest(block: Sequence[Part]) -> bool:
        nonlocal taken
        if (most_tokens is not None and taken >= most_tokens) or not wanted(block):
            return False
        taken += sum(by_part[id(part)] for part in block)
        return True

    return next_oldest
