"""The panels of an hour, a day or any other time: for each concern one figure, what it is made of, and its course.

In: the buckets of `proxy.store.figures`. Out: `Panel` values, which the page shows and which it fetches anew as JSON. `FigureSource` keeps
a page from waiting: what takes longer comes by a second request.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.traffic import tiles, traffic_panels
from proxy.language.amounts import NONE, dollars, milliseconds, number, score, share
from proxy.ports.panels import Bucket, Panel, StagePanel, Unit
from proxy.store.figures import total

log = logging.getLogger(__name__)

Span = Literal["hour", "day", "week", "month"]
Counted: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
Between: TypeAlias = Callable[[float, float, int], Awaitable[list[Bucket]]]
"""Figures from one time to another, a bucket for so many seconds, the oldest first: `proxy.store.figures.DatabaseFigures.between`."""
SPANS: Mapping[Span, tuple[float, int]] = {
    "hour": (3600.0, 60),
    "day": (86_400.0, 3600),
    "week": (7 * 86_400.0, 6 * 3600),
    "month": (30 * 86_400.0, 86_400),
}
"""Seconds looked back, and of one bucket."""
_BUCKETS_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86_400, 7 * 86_400, 30 * 86_400)
_MOST_BUCKETS = 60
_MOST_PERIODS = 32
"""Whose figures are remembered at a time."""
_FRESH_S, _END_S = 5.0, 2.0
_AMOUNTS = {"count": number, "share": share, "score": score, "ms": milliseconds, "usd": dollars}


class Period(Struct, frozen=True):
    """What figures are of: the time up to now, or a range that somebody has chosen."""

    span: Span | None = "day"
    since: float = 0.0
    """Seconds since the epoch, where there is no span; so `until`, which is not part of it."""
    until: float = 0.0

    def buckets(self, now: float) -> tuple[float, float, int]:
        """From, to, and how long one bucket is."""
        if self.span is not None:
            back_s, bucket_s = SPANS[self.span]
            return now - back_s + bucket_s, now, bucket_s
        long_s = self.until - self.since
        return self.since, self.until, next((one for one in _BUCKETS_S if long_s <= one * _MOST_BUCKETS), math.ceil(long_s / _MOST_BUCKETS))


class Report(Struct, frozen=True, kw_only=True):
    """All panels of a period."""

    starts: tuple[float, ...]
    """Of the buckets, in seconds since the epoch."""
    tiles: Mapping[str, tuple[str, str]]
    """By name: the figure and what stands below it."""
    panels: tuple[Panel, ...]


def report(buckets: Sequence[Bucket], panels: Sequence[type[StagePanel]], counted: Mapping[str, Any] = MappingProxyType({})) -> Report:
    """The buckets in words and lines, a panel for each of `panels`; `counted` is what only counters know, since the server's start."""
    whole = total(buckets) or Bucket(start=0.0, seconds=0)
    of_stages = (_show(panel, whole, buckets, counted) for panel in panels)
    starts = tuple(bucket.start for bucket in buckets)
    return Report(starts=starts, tiles=tiles(whole), panels=(*traffic_panels(whole, buckets), *of_stages))


def _show(panel: type[StagePanel], whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
    try:
        return panel.show(whole, buckets, counted)
    except Exception:  # the code of a stage that may be anybody's: the page and the other panels are there all the same
        log.exception("panel %s cannot be shown", panel.name)
        return Panel(name=panel.name, title=panel.title, headline=NONE, meaning="could not be worked out; the log says why")


def chart_label(panel: Panel) -> str:
    """What a panel's chart shows, for who cannot see it."""
    words = [f"{s.name}: {_range(s.values, panel.unit)}" for s in panel.series]
    return f"{panel.title} over time. {'; '.join(words)}" if words else f"{panel.title}: nothing to draw yet"


def _range(values: Sequence[float | None], unit: Unit) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "no values"
    last = next(value for value in reversed(values) if value is not None)
    said = _AMOUNTS[unit]
    return f"from {said(min(there))} to {said(max(there))}, lately {said(last)}"


class FigureSource:
    """Reports, worked out once for everybody who asks within a few seconds."""

    def __init__(
        self, between: Between, counted: Counted, panels: Sequence[type[StagePanel]], *, clock: Callable[[], float] = time.time
    ) -> None:
        """`counted` tells what only counters know, since the server's start."""
        self._between, self._counted, self.panels, self._clock = between, counted, panels, clock
        self._tasks: dict[Period, tuple[float, asyncio.Task[Report]]] = {}

    async def get(self, period: Period, wait_s: float | None = None) -> Report | None:
        """The report; None where it takes longer than `wait_s`, while it is worked on. Raises `StoreUnavailable`."""
        at, task = self._tasks.pop(period, (0.0, None))
        if task is None or (task.done() and (task.exception() is not None or self._clock() - at > _FRESH_S)):
            task = asyncio.create_task(self._make(period), name="dashboard-figures")
            task.add_done_callback(_take_note)
            at = self._clock()
        self._tasks[period] = (at, task)
        while len(self._tasks) > _MOST_PERIODS:
            del self._tasks[next(iter(self._tasks))]
        done, _ = await asyncio.wait((task,), timeout=wait_s)
        return task.result() if done else None

    async def stop(self) -> None:
        """Let what is worked on come to its end, for a moment, so that the store closes after it."""
        if running := [task for _, task in self._tasks.values() if not task.done()]:
            await asyncio.wait(running, timeout=_END_S)

    async def _make(self, period: Period) -> Report:
        buckets = await self._between(*period.buckets(self._clock()))
        return report(buckets, self.panels, await self._counted())


def _take_note(task: asyncio.Task[Report]) -> None:
    """A failure that no page waits for any more is no news: the next page asks again."""
    if not task.cancelled():
        task.exception()
