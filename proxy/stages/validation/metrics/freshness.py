"""How old a piece of content is, and what that is worth. Pure.

    freshness = 1                   up to `max_age_s`
                max_age_s / age     beyond: 0.5 at twice the age, 0.1 at ten times

What a timestamp may look like says `proxy.language.times`. One that lies in the future counts as now where clocks may differ; further ahead
it is no timestamp of this content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.language import times
from proxy.stages.validation.metrics.quality import Metric, unmeasured

MAX_AGE_S = 3600.0
FUTURE_S = 300.0
"""Clocks of two machines, and what a service rounds, may differ by so much."""
TIME_FIELDS = (
    "timestamp",
    "as_of",
    "asOf",
    "fetched_at",
    "fetchedAt",
    "retrieved_at",
    "retrievedAt",
    "observed_at",
    "observedAt",
    "generated_at",
    "generatedAt",
    "updated_at",
    "updatedAt",
    "last_updated",
    "lastUpdated",
    "last_modified",
    "lastModified",
)
"""Fields of a result that say when it was so. Not ``created_at`` or ``date``: an order of last year is no stale result."""
_EARLIEST = 1e8
"""Numbers below, as seconds before March 1973, are something else: a year, a duration, a counter."""


def seconds_of(value: object) -> float | None:
    """Seconds since the epoch; None for what is no time of any content."""
    return times.seconds_of(value, earliest=_EARLIEST)


def time_in(fields: object, names: Sequence[str] = TIME_FIELDS) -> float | None:
    """The first timestamp among an object's own fields; None for anything else."""
    if not isinstance(fields, Mapping):
        return None
    return next((time for name in names if (time := seconds_of(fields.get(name))) is not None), None)


def freshness(timestamp: float | None, now: float, max_age_s: float | None = MAX_AGE_S) -> Metric:
    """Of content that was so at `timestamp`, seen at `now`, both in seconds since the epoch; None lets it be of any age."""
    if timestamp is None:
        return unmeasured("no timestamp")
    age = now - timestamp
    if age < -FUTURE_S:
        return Metric(None, measured=False, note="timestamp in the future", detail={"age_s": round(age, 1)})
    age = max(0.0, age)
    if max_age_s is None:
        return Metric(None, measured=False, note="any age will do", detail={"age_s": round(age, 1)})
    value = 1.0 if age <= max_age_s else max_age_s / age
    detail: dict[str, Any] = {"age_s": round(age, 1), "max_age_s": max_age_s}
    if value < 1:
        detail["reason"] = f"{spoken(age)} old, at most {spoken(max_age_s)}"
    return Metric(value, detail=detail)


def spoken(seconds: float) -> str:
    """``45 s``, ``20 min``, ``2 h``, ``3 days``: rounded down."""
    for size, name in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (name != "days" and seconds >= size):
            return f"{int(seconds // size)} {name}"
    return f"{int(seconds)} s"
