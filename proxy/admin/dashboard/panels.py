"""The panels of an hour, a day or any other time: for each concern one figure, what it is made of, its course; and the tiles above them.

In: the buckets of `proxy.store.figures`. Out: `Panel` values, which the page shows and which it fetches anew as JSON: first those that
every server has (traffic, time, cost, errors, what was caught, what people said), then the stages' own. `FigureSource` keeps a page from
waiting: what takes longer comes by a second request.
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

from proxy.admin.dashboard.summaries import WORDS, in_words
from proxy.language.amounts import NONE, dollars, many, milliseconds, number, score, share
from proxy.ports.panels import Bucket, Panel, Series, StagePanel, Unit, feedback_by_stage, interval, most_common, non_empty
from proxy.stages.claims.reporting import QualityPanel
from proxy.store.figures import total
from proxy.store.record_sums import percentile
from proxy.store.records import NOTHING

Course = Callable[[Bucket], float | None]
Lines: TypeAlias = Mapping[str, Course]
"""Of a chart, by title."""
NAMES = WORDS["panels"]
"""Titles of the panels, in order."""
_STATUSES = 4
"""Drawn each on a line of its own."""


def traffic_panels(whole: Bucket, buckets: Sequence[Bucket]) -> tuple[Panel, ...]:
    """In the order of `NAMES`."""
    return tuple(make(whole, buckets) for make in (_traffic, _latency, _cost, _failed, _caught, _feedback))


def _panel(name: str, figure: str, meaning: str, detail: Sequence[str], buckets: Sequence[Bucket], lines: Lines, **more: Any) -> Panel:
    """A panel with a line of its chart for each of `lines`; without lines there is nothing to draw."""
    series = tuple(Series(title, tuple(course(bucket) for bucket in buckets)) for title, course in lines.items())
    return Panel(name=name, title=NAMES[name], headline=figure, meaning=meaning, detail=non_empty(*detail), series=series, **more)


def _traffic(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    tokens = f"{number(whole.prompt_tokens)} tokens in, {number(whole.completion_tokens)} out" if whole.exchanges else ""
    taken = whole.tokens_before - whole.tokens_after
    detail = (tokens, f"{number(taken)} tokens taken out of prompts" if taken > 0 else "")
    lines: Lines = {"exchanges": lambda b: float(b.exchanges)} if whole.exchanges else {}
    return _panel("traffic", number(whole.exchanges), "exchange" if whole.exchanges == 1 else "exchanges", detail, buckets, lines)


def _latency(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    half, most = percentile(whole.provider_ms, 0.5), percentile(whole.provider_ms, 0.95)
    own, own_most = percentile(whole.own_ms, 0.5), percentile(whole.own_ms, 0.95)
    ours = f"Groundwire: {milliseconds(own)} at the median, 95% within {milliseconds(own_most)}" if own is not None else ""
    if half is None:
        return _panel("latency", milliseconds(half), "nothing timed yet", [ours], buckets, {}, unit="ms")
    times = {"provider": "provider_ms", "Groundwire": "own_ms"}
    lines: Lines = {f"{who} p{p}": _percentile_of(name, p / 100) for who, name in times.items() for p in (50, 95)}
    meaning = f"the provider's median, 95% within {milliseconds(most)}"
    return _panel("latency", milliseconds(half), meaning, [ours], buckets, lines, unit="ms")


def _cost(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    unknown, meaning = whole.exchanges - whole.priced, "by the list of prices"
    if not whole.priced:
        hint = "A cost is known where the model is in the list of prices, and the provider told its usage."
        return _panel("cost", NONE, meaning, [], buckets, {}, unit="usd", hint=hint)
    without = f"{many(unknown, 'exchange')} without a known price or usage" if unknown else ""
    detail = (f"{dollars(whole.cost_usd / whole.priced)} each", without)
    return _panel("cost", dollars(whole.cost_usd), meaning, detail, buckets, {"cost": lambda b: b.cost_usd}, unit="usd")


def _failed(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    statuses = sorted(whole.statuses, key=lambda one: (-whole.statuses[one], one))
    unable = whole.verdicts.get("error", 0)
    detail = (most_common(whole.statuses), f"{many(unable, 'exchange')} in which a check could not run" if unable else "")
    hint = "" if statuses or unable else "Nothing went wrong."
    lines: Lines = {one: _count_of("statuses", one) for one in statuses[:_STATUSES]}
    figure = number(sum(whole.statuses.values()))
    return _panel("failed", figure, "with a status of 400 or more", detail, buckets, lines, parts=True, hint=hint)


def _caught(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    count = sum(whole.verdicts.get(name, 0) for name in ("block", "warn"))
    codes = {in_words(name): count for name, count in whole.warnings.items() if not name.startswith("upstream_")}
    hint = "" if count else "No check had anything to say."
    lines: Lines = {"refused": _count_of("verdicts", "block"), "with a warning": _count_of("verdicts", "warn")} if count else {}
    return _panel("caught", number(count), "refused, or with a warning", [most_common(codes)], buckets, lines, parts=True, hint=hint)


def _feedback(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """Precision as users see it: of what they looked at and said something of."""
    right, wrong = (sum(count for name, count in whole.feedback.items() if name.endswith(f":{word}")) for word in ("right", "wrong"))
    if not right + wrong:
        hint = "The page Review, and an exchange's beside each finding, ask whether it is right."
        return _panel("feedback", NONE, "nobody has said anything yet", [], buckets, {}, parts=True, hint=hint)
    detail = [
        f"{stage}: {good} of {n} right, {share(low)} to {share(high)}"
        for stage, (good, n) in feedback_by_stage(whole).items()
        for low, high in (interval(good, n),)
    ]
    meaning = f"right, of {many(right + wrong, 'flag')} that people looked at; by stage with the 95% interval of its precision"
    lines: Lines = {word: _spoken(word) for word in ("right", "wrong")}
    return _panel("feedback", share(right / (right + wrong)), meaning, detail, buckets, lines, parts=True)


def _spoken(word: str) -> Course:
    return lambda bucket: float(sum(count for name, count in bucket.feedback.items() if name.endswith(f":{word}")))


def _percentile_of(spread: str, share_: float) -> Course:
    return lambda bucket: percentile(getattr(bucket, spread), share_)


def _count_of(what: str, name: str) -> Course:
    return lambda bucket: float(getattr(bucket, what).get(name, 0))


def tiles(whole: Bucket) -> dict[str, tuple[str, str]]:
    """By name: the figure and what stands below it."""
    verdicts = whole.verdicts
    blocked, warned, unable = (verdicts.get(name, 0) for name in ("block", "warn", "error"))
    provider = verdicts.get("upstream_error", 0)
    answers = whole.of(QualityPanel)
    own = percentile(whole.own_ms, 0.5)
    return {
        "exchanges": (number(whole.exchanges), f"{number(whole.prompt_tokens)} tokens in" if whole.exchanges else "none yet"),
        "caught": (number(blocked + warned), f"{number(blocked)} refused, {number(warned)} warned"),
        "failed": (number(provider + unable), f"{number(provider)} by the provider, {number(unable)} of checks"),
        "latency": (
            milliseconds(percentile(whole.provider_ms, 0.5)),
            f"and {milliseconds(own)} of ours, at the median" if own is not None else "nothing timed yet",
        ),
        "cost": (dollars(whole.cost_usd), f"of {many(whole.priced, 'exchange')}") if whole.priced else (NONE, "no price known"),
        "full": (number(whole.thresholds.get("90", 0)), "above 90% of the window"),
        "quality": (score(answers.mean), f"of {many(answers.quality_count, 'answer')}" if answers.quality_count else "no answer measured"),
        "shadow": _shadow(whole),
    }


def _shadow(whole: Bucket) -> tuple[str, str]:
    """What shadow mode held back: the figure, and what it would have been."""
    judged = sum(whole.would.values())
    held = {name: count for name, count in whole.would.items() if name != NOTHING}
    words = WORDS["did"]
    did = ", ".join(f"{words.get(name, name)} {count:,}" for name, count in sorted(held.items(), key=lambda one: -one[1]))
    return f"{sum(held.values()):,} of {judged:,}", did


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
    amount = _AMOUNTS[unit]
    return f"from {amount(min(there))} to {amount(max(there))}, lately {amount(last)}"


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
