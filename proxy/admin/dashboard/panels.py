"""The panels of a day or a week: for each concern one figure, what it is made of, and its course over time.

In: the buckets of `proxy.store.figures`. Out: `Panel` values, which the page shows and which it fetches anew as JSON. `FigureSource` keeps
a page from waiting: what takes longer comes by a second request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.words import NONE, many, milliseconds, number, score, share
from proxy.store.figures import Bucket, total

Span = Literal["day", "week"]
Unit = Literal["count", "share", "score"]
Counted: TypeAlias = Callable[[], Awaitable[Mapping[str, Any]]]
SPANS: Mapping[Span, tuple[float, int]] = {"day": (86_400.0, 3600), "week": (7 * 86_400.0, 6 * 3600)}
"""Seconds looked back, and of one bucket."""
ALERT_ABOVE = 0.05
"""Share of poisoned pieces above which the panel says so, as ``alert_above`` of the stage and ``monitoring/alerts.yml`` do."""
_NAMED = 3
"""Kinds that a panel names."""
_FRESH_S = 5.0


class PanelFigures(Protocol):
    """Figures over time; `proxy.store.figures.DatabaseFigures`."""

    async def between(self, since: float, until: float, bucket_s: int) -> list[Bucket]:
        """A bucket for each `bucket_s` seconds, the oldest first."""


class Series(Struct, frozen=True):
    """One line of a chart, a value for each bucket."""

    name: str
    values: tuple[float | None, ...]


class Panel(Struct, frozen=True, kw_only=True):
    """One concern."""

    name: str
    title: str
    headline: str
    """The figure."""
    meaning: str
    """What it is."""
    detail: tuple[str, ...] = ()
    unit: Unit = "count"
    series: tuple[Series, ...] = ()
    hint: str = ""
    """Where nothing was measured: what would measure it."""


class Report(Struct, frozen=True, kw_only=True):
    """All panels of a span."""

    span: Span
    starts: tuple[float, ...]
    """Of the buckets, in seconds since the epoch."""
    exchanges: int
    tiles: Mapping[str, tuple[str, str]]
    """By name: the figure and what stands below it."""
    panels: tuple[Panel, ...]


def report(span: Span, buckets: Sequence[Bucket], selection: Mapping[str, Any] = MappingProxyType({})) -> Report:
    """The buckets in words and lines; `selection` is how well tools were chosen since the server's start."""
    whole = total(buckets) or Bucket(start=0.0, seconds=0)
    made = (_poisoning, _distraction, _clashes, _compression, _quality)
    panels = [make(whole, buckets) for make in made]
    panels.insert(2, _confusion(whole, buckets, selection))
    return Report(
        span=span,
        starts=tuple(bucket.start for bucket in buckets),
        exchanges=whole.exchanges,
        tiles=_tiles(whole),
        panels=tuple(panels),
    )


class FigureSource:
    """Reports, worked out once for everybody who asks within a few seconds."""

    def __init__(self, figures: PanelFigures, counted: Counted, *, clock: Callable[[], float] = time.time) -> None:
        """`counted` tells what only counters know, since the server's start: ``tool_selection``."""
        self._figures, self._counted, self._clock = figures, counted, clock
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
        selection = (await self._counted()).get("tool_selection")
        return report(span, buckets, selection if isinstance(selection, Mapping) else {})


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
    quality = whole.quality_sum / whole.quality_count if whole.quality_count else None
    return {
        "exchanges": (number(whole.exchanges), f"{milliseconds(mean_ms)} each" if mean_ms is not None else "none yet"),
        "blocked": (number(blocked), f"{number(warned)} with a warning"),
        "errors": (number(errors), f"a check could not run; {number(verdicts.get('upstream_error', 0))} upstream"),
        "full": (number(full), "above 90%"),
        "quality": (score(quality), f"of {many(whole.quality_count, 'answer')}" if whole.quality_count else "no answer measured"),
        "tokens": (number(whole.prompt_tokens), f"{number(whole.completion_tokens)} out"),
    }


def _poisoning(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    found = sum(whole.poisoned.values())
    states = ", ".join(f"{count:,} {name}" for name, count in sorted(whole.quarantine.items()))
    return Panel(
        name="poisoning",
        title="Poisoning",
        headline=number(found),
        meaning="pieces of context kept out"
        + (f", {found / whole.poisoning_checked:.1%} of those checked" if whole.poisoning_checked else ""),
        detail=_said(
            f"alert: more than {ALERT_ABOVE:.0%} of what came in" if found > ALERT_ABOVE * (whole.poisoning_checked or found) else "",
            f"{whole.poisoning_checked:,} new pieces checked" if whole.poisoning_checked else "",
            states,
            _common(whole.poisoned),
        ),
        series=(Series("kept out", tuple(float(sum(b.poisoned.values())) for b in buckets)),) if found else (),
        hint="" if found or whole.poisoning_checked else "Add the stage poisoning to a policy to check new content before it enters.",
    )


def _distraction(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    alerts = sum(whole.distractions.values())
    return Panel(
        name="distraction",
        title="Distraction",
        headline=number(alerts),
        meaning="alerts: histories that are too long",
        detail=_said(_common(whole.distractions), "recommended: " + _common(whole.recommended) if whole.recommended else ""),
        series=(Series("alerts", tuple(float(sum(b.distractions.values())) for b in buckets)),) if alerts else (),
        hint="" if alerts else "The stage history tells when a conversation has outgrown what a model attends to.",
    )


def _confusion(whole: Bucket, buckets: Sequence[Bucket], selection: Mapping[str, Any]) -> Panel:
    requests, before = whole.tool_requests, whole.tool_tokens_before
    saved = (before - whole.tool_tokens_after) / before if before else None
    averages = f"{whole.tools_kept / requests:.1f} of {whole.tools_offered / requests:.1f} tools in context" if requests else ""
    accuracy = selection.get("selection_accuracy")
    incidents = (
        many(selection["confusion_incidents"], "request") + " with all of too many tools" if selection.get("confusion_incidents") else ""
    )
    foreseen = f"{accuracy:.1%} of {selection['calls']:,} tool calls foreseen since the start" if accuracy is not None else ""
    course = tuple(_over(b.tool_tokens_before - b.tool_tokens_after, b.tool_tokens_before) for b in buckets)
    return Panel(
        name="confusion",
        title="Confusion (tool selection)",
        headline=share(saved),
        meaning="of tool description tokens saved",
        unit="share",
        detail=_said(
            many(requests, "request") + " with a choice of tools" if requests else "",
            averages,
            incidents,
            foreseen,
        ),
        series=(Series("tokens saved", course),) if requests else (),
        hint="" if requests else "The stage tool_rag chooses among many tools; none had to be chosen from.",
    )


def _clashes(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    found = sum(whole.clashes.values())
    by_policy = sum(whole.clash_strategies.values())
    return Panel(
        name="clashes",
        title="Clashes",
        headline=number(found),
        meaning="contradictions found",
        detail=_said(
            f"{by_policy:,} ({by_policy / found:.0%}) resolved by the policy, {whole.clashes_open:,} open" if found else "",
            _common(whole.clashes),
            "by " + _common(whole.clash_strategies) if by_policy else "",
        ),
        series=_two("found", [sum(b.clashes.values()) for b in buckets], "open", [b.clashes_open for b in buckets]) if found else (),
        hint="" if found else "The stage clash finds statements of one conversation that contradict each other.",
    )


def _compression(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    before, after = whole.compression_tokens_before, whole.compression_tokens_after
    ratio = f"{before / after:.1f}×" if after else NONE
    return Panel(
        name="compression",
        title="Compression",
        headline=ratio,
        meaning="smaller, where compressed",
        detail=_said(
            many(whole.compressions, "prompt") + f" compressed, {before - after:,} tokens taken out" if whole.compressions else ""
        ),
        series=(Series("compressed", tuple(float(b.compressions) for b in buckets)),) if whole.compressions else (),
        hint="" if whole.compressions else "The stage compression begins where a prompt fills 80% of its window.",
    )


def _quality(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    quality = whole.quality_sum / whole.quality_count if whole.quality_count else None
    faithful = whole.faithfulness_sum / whole.faithfulness_count if whole.faithfulness_count else None
    series = _pair(
        "quality",
        [_over(b.quality_sum, b.quality_count) for b in buckets],
        "faithfulness",
        [_over(b.faithfulness_sum, b.faithfulness_count) for b in buckets],
    )
    return Panel(
        name="quality",
        title="Answer quality",
        headline=score(quality),
        meaning="mean quality of answers, 0 to 1",
        unit="score",
        detail=_said(
            f"faithfulness {score(faithful)} over {many(whole.faithfulness_count, 'answer')}" if whole.faithfulness_count else "",
            many(whole.quality_count, "answer") + " measured" if whole.quality_count else "",
        ),
        series=series if whole.quality_count or whole.faithfulness_count else (),
        hint="" if whole.quality_count else "The stages claims and citations check answers against their context.",
    )


def _common(counts: Mapping[str, int]) -> str:
    """The most common kinds."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{_plain(name)} {count:,}" for name, count in ordered[:_NAMED] if name]
    rest = len(ordered) - _NAMED
    return ", ".join(named) + (f" and {many(rest, 'more kind')}" if rest > 0 else "")


def _plain(name: str) -> str:
    return name.replace("_", " ").lower()[:60]


def _said(*parts: str) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


def _over(value: float, by: float) -> float | None:
    return round(value / by, 4) if by else None


def _two(one: str, first: Sequence[int], other: str, second: Sequence[int]) -> tuple[Series, ...]:
    return Series(one, tuple(map(float, first))), Series(other, tuple(map(float, second)))


def _pair(one: str, first: Sequence[float | None], other: str, second: Sequence[float | None]) -> tuple[Series, ...]:
    return Series(one, tuple(first)), Series(other, tuple(second))
