"""The panels of an hour, a day or any other time: for each concern one figure, what it is made of, its course; and the tiles above them.

In: the buckets of `proxy.store.figures`. Out: `Panel` values, which the page shows and which it fetches anew as JSON: first those that
every server has (what nobody decided, what failed, what was caught, housekeeping, traffic, time, cost, what people said), then the stages'
own. `FigureSource` keeps a page from waiting: what takes longer comes by a second request.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from proxy.admin.dashboard.summaries import WORDS, in_words
from proxy.language.amounts import NONE, dollars, many, milliseconds, number, score, share
from proxy.ports.panels import Bucket, Course, Lines, Panel, StagePanel, Unit, feedback_by_stage, interval, make_panel, most_common
from proxy.stages.registry import HOUSEKEEPING
from proxy.store.exchange_search import UNDECIDED
from proxy.store.figures import total
from proxy.store.record_sums import percentile
from proxy.store.records import INTERRUPTED, NOTHING

NAMES = WORDS["panels"]
"""Titles of the panels, in order."""
NO_FINDING = re.compile(r"^(upstream_|judge_)|_unchecked$|_length_exceeded$")
"""Codes that say nothing of a text, beside those of housekeeping."""
_STATUSES = 4
"""Drawn each on a line of its own."""


def traffic_panels(whole: Bucket, buckets: Sequence[Bucket]) -> tuple[Panel, ...]:
    """In the order of `NAMES`."""
    makers = (_undecided, _failed, _caught, _housekeeping, _traffic, _latency, _cost, _feedback)
    return tuple(make(whole, buckets) for make in makers)


def _panel(name: str, figure: str, meaning: str, detail: Sequence[str], buckets: Sequence[Bucket], lines: Lines, **more: Any) -> Panel:
    return make_panel(name, NAMES[name], figure, meaning, detail, buckets, lines, **more)


def _undecided(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """What nobody could decide, beside what held: the one is never taken for the other."""
    counts = {name: whole.verdicts.get(name, 0) for name in UNDECIDED}
    held = whole.verdicts.get("pass", 0)
    why = {in_words(name.partition(": ")[2]): count for name, count in whole.reasons.items() if name.startswith("unchecked: ")}
    detail = (most_common(why), f"{held:,} of {many(whole.exchanges, 'exchange')} held: every statement was checked, and supported")
    lines = {words: _count_of("verdicts", name) for name, words in (("unsure", "unsure"), ("unchecked", "not checked"), ("pass", "held"))}
    hint = "" if sum(counts.values()) + held else "No answer was left undecided."
    return _panel("undecided", number(sum(counts.values())), "answers that nobody decided", detail, buckets, lines, parts=True, hint=hint)


def _failed(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    statuses = sorted(whole.statuses, key=lambda one: (-whole.statuses[one], one))
    unable = whole.verdicts.get("error", 0)
    detail = (most_common(whole.statuses), f"{many(unable, 'exchange')} in which a check could not run" if unable else "")
    hint = "" if statuses or unable else "Nothing went wrong."
    lines: Lines = {one: _count_of("statuses", one) for one in statuses[:_STATUSES]}
    figure, meaning = number(sum(whole.statuses.values())), "with a status of 400 or more, without what a policy refused"
    return _panel("failed", figure, meaning, detail, buckets, lines, parts=True, hint=hint)


def _caught(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """What speaks against answers, or what they rest on."""
    count = caught(whole)
    said = {name: n for name, n in whole.warnings.items() if name not in HOUSEKEEPING and not NO_FINDING.search(name)}
    codes = {in_words(name): n for name, n in said.items()}
    hint = "" if count else "No check had anything to say."
    lines: Lines = {"refused": _count_of("verdicts", "block"), "with a warning": lambda bucket: float(warned(bucket))}
    return _panel("caught", number(count), "refused, or with a warning", [most_common(codes)], buckets, lines, parts=True, hint=hint)


def caught(bucket: Bucket) -> int:
    """Exchanges that were refused, or warned of because of what they say."""
    return bucket.verdicts.get("block", 0) + warned(bucket)


def warned(bucket: Bucket) -> int:
    """Exchanges with a warning that speaks against them: of those of housekeeping the answer may be as it should."""
    return bucket.verdicts.get("warn", 0) - bucket.caused("warn", HOUSEKEEPING)


def _housekeeping(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """Windows that fill, tools and history that were left out."""
    codes = {in_words(name): count for name, count in whole.warnings.items() if name in HOUSEKEEPING}
    full = whole.thresholds.get("90", 0)
    lines: Lines = {"warned of housekeeping": lambda bucket: float(bucket.caused("warn", HOUSEKEEPING))}
    detail = (most_common(codes), f"{many(full, 'prompt')} above 90% of the window" if full else "")
    hint = "" if codes or full else "No prompt had to be kept in shape."
    figure, meaning = number(whole.caused("warn", HOUSEKEEPING)), "warned of the prompt's size or tools, and of nothing else"
    return _panel("housekeeping", figure, meaning, detail, buckets, lines, hint=hint)


def _traffic(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    tokens = f"{number(whole.prompt_tokens)} tokens in, {number(whole.completion_tokens)} out" if whole.exchanges else ""
    taken = whole.tokens_before - whole.tokens_after
    detail = (tokens, f"{number(taken)} tokens taken out of prompts" if taken > 0 else "")
    hint = "" if whole.exchanges else "No exchange came."
    meaning = "exchange" if whole.exchanges == 1 else "exchanges"
    return _panel("traffic", number(whole.exchanges), meaning, detail, buckets, {"exchanges": lambda b: float(b.exchanges)}, hint=hint)


def _latency(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    half, most = percentile(whole.provider_ms, 0.5), percentile(whole.provider_ms, 0.95)
    own, own_most = percentile(whole.own_ms, 0.5), percentile(whole.own_ms, 0.95)
    ours = f"Groundwire: {milliseconds(own)} at the median, 95% within {milliseconds(own_most)}" if own is not None else ""
    times = {"provider": "provider_ms", "Groundwire": "own_ms"}
    lines: Lines = {f"{who} p{p}": _percentile_of(name, p / 100) for who, name in times.items() for p in (50, 95)}
    hint = "" if half is not None else "Nothing was timed yet."
    meaning = f"the provider's median, 95% within {milliseconds(most)}"
    return _panel("latency", milliseconds(half), meaning, [ours], buckets, lines, unit="ms", hint=hint)


def _cost(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    unknown, meaning = whole.exchanges - whole.priced, "by the list of prices"
    hint = "" if whole.priced else "A cost is known where the model is in the list of prices, and the provider answered."
    without = f"{many(unknown, 'exchange')} without a known price or usage" if unknown else ""
    detail = (f"{dollars(whole.cost_usd / whole.priced)} each" if whole.priced else "", without)
    figure = dollars(whole.cost_usd) if whole.priced else NONE
    return _panel("cost", figure, meaning, detail, buckets, {"cost": lambda b: b.cost_usd}, unit="usd", hint=hint)


def _feedback(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """Precision as users see it: of what they looked at and said something of."""
    right, wrong = (sum(count for name, count in whole.feedback.items() if name.endswith(f":{word}")) for word in ("right", "wrong"))
    if not right + wrong:
        hint = "The page Review, and an exchange's beside each finding, ask whether it is right."
        return _panel("feedback", NONE, "", [], buckets, {}, hint=hint)
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
    """By name: the figure and what stands below it. What needs a person comes first; only what was decided is said to hold."""
    unsure, unchecked, blocked, unable, held = (whole.verdicts.get(name, 0) for name in (*UNDECIDED, "block", "error", "pass"))
    provider, broken = whole.verdicts.get("upstream_error", 0), whole.verdicts.get(INTERRUPTED, 0)
    own = percentile(whole.own_ms, 0.5)
    failed = f"{number(provider)} by the provider, {number(unable)} of checks" + (f", {number(broken)} interrupted" if broken else "")
    return {
        "undecided": (number(unsure + unchecked), f"{number(unsure)} unsure, {number(unchecked)} not checked"),
        "failed": (number(provider + unable + broken), failed),
        "warned": (number(warned(whole)), "with a warning about the answer or its context"),
        "refused": (number(blocked), "by a policy"),
        "held": (number(held), f"of {many(whole.exchanges, 'exchange')}, each statement checked and supported"),
        "exchanges": (number(whole.exchanges), f"{number(whole.prompt_tokens)} tokens in" if whole.exchanges else "none yet"),
        "latency": (
            milliseconds(percentile(whole.provider_ms, 0.5)),
            f"and {milliseconds(own)} of ours, at the median" if own is not None else "nothing timed yet",
        ),
        "cost": (dollars(whole.cost_usd), f"of {many(whole.priced, 'exchange')}") if whole.priced else (NONE, "no price known"),
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
AMOUNTS: Mapping[Unit, Callable[[Any], str]] = {"count": number, "share": share, "score": score, "ms": milliseconds, "usd": dollars}


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
    amount = AMOUNTS[unit]
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
