"""The panels that every server has, whatever its stages: traffic, time, cost, errors, what was caught, and the tiles above them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from proxy.admin.dashboard.reasons import in_words
from proxy.language.amounts import NONE, dollars, many, milliseconds, number, score, share
from proxy.ports.panels import Bucket, Panel, Series, most_common, said
from proxy.stages.claims.panel import QualityPanel
from proxy.store.records import NOTHING
from proxy.store.spreads import percentile

Course = Callable[[Bucket], float | None]
NAMES = {
    "traffic": "Traffic",
    "latency": "Time",
    "cost": "Cost",
    "failed": "Errors",
    "caught": "What was caught",
    "feedback": "What people say of it",
}
"""Of the panels, in order."""
_DID = {"block": "refused", "retry": "asked again", "answer": "answered itself", "ask": "asked the user", "edit": "changed"}
_STATUSES = 4
"""Drawn each on a line of its own."""


def traffic_panels(whole: Bucket, buckets: Sequence[Bucket]) -> tuple[Panel, ...]:
    """In the order of `NAMES`."""
    return tuple(make(whole, buckets) for make in (_traffic, _latency, _cost, _failed, _caught, _feedback))


def _lines(buckets: Sequence[Bucket], lines: Mapping[str, Course]) -> tuple[Series, ...]:
    return tuple(Series(name, tuple(course(bucket) for bucket in buckets)) for name, course in lines.items())


def _traffic(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    tokens = f"{number(whole.prompt_tokens)} tokens in, {number(whole.completion_tokens)} out"
    taken = whole.tokens_before - whole.tokens_after
    return Panel(
        name="traffic",
        title=NAMES["traffic"],
        headline=number(whole.exchanges),
        meaning="exchange" if whole.exchanges == 1 else "exchanges",
        detail=said(tokens if whole.exchanges else "", f"{number(taken)} tokens taken out of prompts" if taken > 0 else ""),
        series=_lines(buckets, {"exchanges": lambda b: float(b.exchanges)}) if whole.exchanges else (),
    )


def _latency(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    half, most = percentile(whole.provider_ms, 0.5), percentile(whole.provider_ms, 0.95)
    own, own_most = percentile(whole.own_ms, 0.5), percentile(whole.own_ms, 0.95)
    ours = f"Groundwire: {milliseconds(own)} at the median, 95% within {milliseconds(own_most)}"
    lines: dict[str, Course] = {
        "provider p50": lambda b: percentile(b.provider_ms, 0.5),
        "provider p95": lambda b: percentile(b.provider_ms, 0.95),
        "Groundwire p50": lambda b: percentile(b.own_ms, 0.5),
        "Groundwire p95": lambda b: percentile(b.own_ms, 0.95),
    }
    return Panel(
        name="latency",
        title=NAMES["latency"],
        headline=milliseconds(half),
        meaning=f"the provider's median, 95% within {milliseconds(most)}" if half is not None else "nothing timed yet",
        detail=said(ours if own is not None else ""),
        unit="ms",
        series=_lines(buckets, lines) if half is not None else (),
    )


def _cost(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    unknown = whole.exchanges - whole.priced
    return Panel(
        name="cost",
        title=NAMES["cost"],
        headline=dollars(whole.cost_usd) if whole.priced else NONE,
        meaning="by the list of prices",
        detail=said(
            f"{dollars(whole.cost_usd / whole.priced)} each" if whole.priced else "",
            f"{many(unknown, 'exchange')} without a known price or usage" if unknown and whole.priced else "",
        ),
        unit="usd",
        series=_lines(buckets, {"cost": lambda b: b.cost_usd}) if whole.priced else (),
        hint="" if whole.priced else "A cost is known where the model is in the list of prices, and the provider told its usage.",
    )


def _failed(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    statuses = sorted(whole.statuses, key=lambda one: (-whole.statuses[one], one))
    unable = whole.verdicts.get("error", 0)
    lines: dict[str, Course] = {one: _count_of("statuses", one) for one in statuses[:_STATUSES]}
    return Panel(
        name="failed",
        title=NAMES["failed"],
        headline=number(sum(whole.statuses.values())),
        meaning="with a status of 400 or more",
        detail=said(
            most_common(whole.statuses),
            f"{many(unable, 'exchange')} in which a check could not run" if unable else "",
        ),
        series=_lines(buckets, lines) if statuses else (),
        parts=True,
        hint="" if statuses or unable else "Nothing went wrong.",
    )


def _caught(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    found = {name: whole.verdicts.get(name, 0) for name in ("block", "warn")}
    names = {"block": "refused", "warn": "with a warning"}
    codes = {in_words(name): count for name, count in whole.warnings.items() if not name.startswith("upstream_")}
    return Panel(
        name="caught",
        title=NAMES["caught"],
        headline=number(sum(found.values())),
        meaning="refused, or with a warning",
        detail=said(most_common(codes)),
        series=_lines(buckets, {words: _count_of("verdicts", name) for name, words in names.items()}) if sum(found.values()) else (),
        parts=True,
        hint="" if sum(found.values()) else "No check had anything to say.",
    )


def _feedback(whole: Bucket, buckets: Sequence[Bucket]) -> Panel:
    """Precision as users see it: of what they looked at and said something of."""
    stages = sorted({name.rpartition(":")[0] for name in whole.feedback})
    by_stage = {stage: tuple(whole.feedback.get(f"{stage}:{word}", 0) for word in ("right", "wrong")) for stage in stages}
    right, wrong = (sum(counts[i] for counts in by_stage.values()) for i in (0, 1))
    words = {"right": "right", "wrong": "wrong"}
    lines: dict[str, Course] = {name: _spoken(word) for word, name in words.items()}
    return Panel(
        name="feedback",
        title=NAMES["feedback"],
        headline=share(right / (right + wrong)) if right + wrong else NONE,
        meaning=f"right, of {many(right + wrong, 'finding')} that people looked at" if right + wrong else "nobody has said anything yet",
        detail=tuple(f"{stage}: {good} of {good + bad} right" for stage, (good, bad) in by_stage.items()),
        series=_lines(buckets, lines) if right + wrong else (),
        parts=True,
        hint="" if right + wrong else "An exchange's page asks beside each finding whether it is right.",
    )


def _spoken(word: str) -> Course:
    return lambda bucket: float(sum(count for name, count in bucket.feedback.items() if name.endswith(f":{word}")))


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
    did = ", ".join(f"{_DID.get(name, name)} {count:,}" for name, count in sorted(held.items(), key=lambda one: -one[1]))
    return f"{sum(held.values()):,} of {judged:,}", did
