"""The panels of a day or a week: for each concern one figure, what it is made of, and its course over time.

In: the buckets of `proxy.store.figures`. Out: `Panel` values, which the page shows and which it fetches anew as JSON. `FigureSource` keeps
a page from waiting: what takes longer comes by a second request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from proxy.language.amounts import NONE, many, milliseconds, number, score
from proxy.ports.panels import Bucket, Panel, StagePanel
from proxy.stages.claims.panel import QualityPanel
from proxy.store.figures import total

log = logging.getLogger(__name__)

Span = Literal["day", "week"]
Counted: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
SPANS: Mapping[Span, tuple[float, int]] = {"day": (86_400.0, 3600), "week": (7 * 86_400.0, 6 * 3600)}
"""Seconds looked back, and of one bucket."""
_FRESH_S = 5.0


class PanelFigures(Protocol):
    """Figures over time; `proxy.store.figures.DatabaseFigures`."""

    async def between(self, since: float, until: float, bucket_s: int) -> list[Bucket]:
        """A bucket for each `bucket_s` seconds, the oldest first."""


class Report(Struct, frozen=True, kw_only=True):
    """All panels of a span."""

    span: Span
    starts: tuple[float, ...]
    """Of the buckets, in seconds since the epoch."""
    exchanges: int
    tiles: Mapping[str, tuple[str, str]]
    """By name: the figure and what stands below it."""
    panels: tuple[Panel, ...]


def report(
    span: Span, buckets: Sequence[Bucket], panels: Sequence[type[StagePanel]], counted: Mapping[str, Any] = MappingProxyType({})
) -> Report:
    """The buckets in words and lines, a panel for each of `panels`; `counted` is what only counters know, since the server's start."""
    whole = total(buckets) or Bucket(start=0.0, seconds=0)
    return Report(
        span=span,
        starts=tuple(bucket.start for bucket in buckets),
        exchanges=whole.exchanges,
        tiles=_tiles(whole),
        panels=tuple(_shown(panel, whole, buckets, counted) for panel in panels),
    )


def _shown(panel: type[StagePanel], whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
    try:
        return panel.show(whole, buckets, counted)
    except Exception:  # the code of a stage that may be anybody's: the page and the other panels are there all the same
        log.exception("panel %s cannot be shown", panel.name)
        return Panel(name=panel.name, title=panel.title, headline=NONE, meaning="could not be worked out; the log says why")


class FigureSource:
    """Reports, worked out once for everybody who asks within a few seconds."""

    def __init__(
        self, figures: PanelFigures, counted: Counted, panels: Sequence[type[StagePanel]], *, clock: Callable[[], float] = time.time
    ) -> None:
        """`counted` tells what only counters know, since the server's start."""
        self._figures, self._counted, self.panels, self._clock = figures, counted, panels, clock
        self._tasks: dict[Span, tuple[float, asyncio.Task[Report]]] = {}

    async def get(self, span: Span, wait_s: float | None = None) -> Report | None:
        """The report; None where it takes longer than `wait_s`, while it is worked on. Raises `StoreUnavailable`."""
        at, task = self._tasks.get(span, (0.0, None))
        if task is None or (task.done() and (task.exception() is not None or self._clock() - at > _FRESH_S)):
            task = asyncio.create_task(self._make(span), name="dashboard-figures")
            task.add_done_callback(_looked_at)
            self._tasks[span] = (self._clock(), task)
        done, _ = await asyncio.wait((task,), timeout=wait_s)
        return task.result() if done else None

    async def _make(self, span: Span) -> Report:
        back_s, bucket_s = SPANS[span]
        now = self._clock()
        buckets = await self._figures.between(now - back_s + bucket_s, now, bucket_s)
        return report(span, buckets, self.panels, await self._counted())


def _looked_at(task: asyncio.Task[Report]) -> None:
    """A failure that no page waits for any more is no news: the next page asks again."""
    if not task.cancelled():
        task.exception()


def _tiles(whole: Bucket) -> dict[str, tuple[str, str]]:
    verdicts = whole.verdicts
    blocked, errors = verdicts.get("block", 0), verdicts.get("error", 0)
    warned = verdicts.get("warn", 0)
    full = whole.thresholds.get("90", 0)
    mean_ms = whole.duration_ms / whole.exchanges if whole.exchanges else None
    answers = whole.of(QualityPanel)
    return {
        "exchanges": (number(whole.exchanges), f"{milliseconds(mean_ms)} each" if mean_ms is not None else "none yet"),
        "blocked": (number(blocked), f"{number(warned)} with a warning"),
        "errors": (number(errors), f"a check could not run; {number(verdicts.get('upstream_error', 0))} upstream"),
        "full": (number(full), "above 90%"),
        "quality": (score(answers.mean), f"of {many(answers.quality_count, 'answer')}" if answers.quality_count else "no answer measured"),
        "tokens": (number(whole.prompt_tokens), f"{number(whole.completion_tokens)} out"),
    }
