"""A stage's panel of the dashboard: what it adds up of a day's or a week's records, and how that is shown.

A stage names its class in `Stage.panel`. `proxy.store.figures` reads the records' details and gives each to `StagePanel.add`, once for
every bucket of time; `proxy.admin.dashboard` shows what `StagePanel.show` makes of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct, field

from proxy.exchange import Facts, VerdictView
from proxy.language.amounts import many, number

P = TypeVar("P", bound="StagePanel")
T = TypeVar("T")
Unit = Literal["count", "share", "score", "ms", "usd"]
_Z = 1.96
"""Of 95% of a normal distribution."""
_MAX_NAMED = 3
"""Kinds that a panel names."""


class RecordedVerdict(VerdictView, Protocol):
    """What a stage found, as the record has it."""

    def noted(self, kind: type[T]) -> T:
        """Its detail as a struct, whose fields have defaults: what is missing or of another shape is left out."""


class Series(Struct, frozen=True):
    """One line of a chart, a value for each bucket."""

    name: str
    values: tuple[float | None, ...]


class Panel(Struct, frozen=True, kw_only=True):
    """A panel as it is shown."""

    name: str
    title: str
    headline: str
    """The figure."""
    meaning: str
    """What it is."""
    detail: tuple[str, ...] = ()
    unit: Unit = "count"
    series: tuple[Series, ...] = ()
    """Counts and amounts are drawn as bars, everything else as lines."""
    parts: bool = False
    """Whether the series are parts of a whole, so that their bars stand on each other; otherwise each stands before those before it."""
    hint: str = ""
    """Where nothing was measured, and the page leaves it out: what would measure it."""


class StagePanel(Struct):
    """One concern over some time. Fields are numbers, and numbers by kind (`dict[str, int]`), all with a default of nothing."""

    name: ClassVar[str]
    title: ClassVar[str]
    meaning: ClassVar[str] = ""
    """What the first field counts, where `show` is not its own."""
    revision: ClassVar[int] = 1
    """To be raised when `add` counts differently with the same fields: what was added up of past exchanges is then made anew."""

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        """Count one exchange."""

    @classmethod
    def show(cls, whole: Bucket, buckets: Sequence[Bucket], counted: Mapping[str, Any]) -> Panel:
        """The panel of a span; `counted` is what only counters know, since the server's start (``GET /groundwire/v1/metrics``).

        Unless a panel has its own: the first field and its course, and the others, which are to be numbers too.
        """
        found, first = whole.of(cls), cls.__struct_fields__[0]
        others = [f"{name.replace('_', ' ')} {number(getattr(found, name))}" for name in cls.__struct_fields__[1:]]
        lines: Lines = {cls.meaning: lambda bucket: float(getattr(bucket.of(cls), first))}
        return make_panel(cls.name, cls.title, number(getattr(found, first)), cls.meaning, others, buckets, lines)


class Bucket(Struct, kw_only=True):
    """What happened from `start` on for `seconds`: the figures of the dashboard and of reports, added up by `proxy.store.record_sums`.

    Who adds a field, or counts one in another way, raises `_REVISION` of `proxy.store.rollups`: else past times keep the old sums.
    """

    start: float
    """Seconds since the epoch, a multiple of `seconds`."""
    seconds: int
    exchanges: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    """Exchanges with a status of 500 or more."""
    statuses: dict[str, int] = field(default_factory=dict)
    """Exchanges with a status of 400 or more, by it; without those that a policy refused."""
    would: dict[str, int] = field(default_factory=dict)
    """Exchanges in shadow mode, by the gravest thing that the policy would have done; ``nothing`` for most."""
    cost_usd: float = 0.0
    priced: int = 0
    """Exchanges whose cost is known."""
    provider_ms: dict[str, int] = field(default_factory=dict)
    """Exchanges by how long they took outside of the proxy, in classes of time (`proxy.store.record_sums`); in `own_ms`, within it."""
    own_ms: dict[str, int] = field(default_factory=dict)
    duration_ms: float = 0.0
    """Of all exchanges together, as every sum here."""
    prompt_tokens: int = 0
    """As they went upstream."""
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompts', what came from providers' caches."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Exchanges that were refused, failed, were warned of or not checked, by verdict and code: ``block: hallucination_detected``."""
    details: int = 0
    """Exchanges whose detail was read: what follows, but for decisions, is of these. Less than `exchanges` where those are too many.
    """
    judged: dict[str, int] = field(default_factory=dict)
    """Exchanges of which statements were judged, by verdict: they have a faithfulness."""
    tokens_before: int = 0
    """Prompt tokens as the client sent them, where they were counted; `tokens_after` are these prompts as they went upstream, by the same
    count: a provider's own would differ where nothing was left out."""
    tokens_after: int = 0
    saved_tokens: dict[str, int] = field(default_factory=dict)
    """The difference, by ``UPSTREAM/MODEL``; below 0 where stages put in more than they left out."""
    warnings: dict[str, int] = field(default_factory=dict)
    """Exchanges with a verdict that warns, refuses or failed, by its code."""
    thresholds: dict[str, int] = field(default_factory=dict)
    """Prompts, as sent, that took 70, 80 and 90% of the window or more."""
    scored: dict[str, int] = field(default_factory=dict)
    """Answers with a score, by its name; of ``citations``, all of them."""
    scores: dict[str, float] = field(default_factory=dict)
    """These scores together; of ``citations``, those that were verified."""
    quarantined: dict[str, int] = field(default_factory=dict)
    """Pieces that came into quarantine, by type, those that were blocked at once too."""
    quarantine: dict[str, int] = field(default_factory=dict)
    """The same by what was decided until now."""
    clashes: dict[str, int] = field(default_factory=dict)
    """Clashes found, by type."""
    clash_strategies: dict[str, int] = field(default_factory=dict)
    """Of these, what the policy resolved, by strategy."""
    clashes_open: int = 0
    """Of these, what nobody has resolved until now."""
    failures: dict[str, int] = field(default_factory=dict)
    """Failures of runs by signal and what became of them until now: ``tool_error:active``."""
    feedback: dict[str, int] = field(default_factory=dict)
    """What people said of flags, by stage and word: ``claims:wrong``."""
    panels: dict[str, StagePanel] = field(default_factory=dict)
    """What the stages' panels add up, by name."""

    def caused(self, verdict: str, codes: Iterable[str]) -> int:
        """Exchanges with this verdict and one of these codes, of `reasons`."""
        return sum(self.reasons.get(f"{verdict}: {code}", 0) for code in codes)

    def of(self, panel: type[P]) -> P:
        """What this panel has added up; nothing where it has not."""
        found = self.panels.get(panel.name)
        return found if isinstance(found, panel) else panel()


Course = Callable[[Bucket], float | None]
Lines: TypeAlias = Mapping[str, Course]
"""Of a chart, by title."""


def make_panel(
    name: str,
    title: str,
    headline: str,
    meaning: str,
    detail: Sequence[str],
    buckets: Sequence[Bucket],
    lines: Lines,
    *,
    hint: str = "",
    **more: Any,
) -> Panel:
    """A panel with a line of its chart for each of `lines`; with a `hint`, which says that nothing was measured, it has none."""
    series = () if hint else tuple(Series(line, tuple(map(course, buckets))) for line, course in lines.items())
    return Panel(name=name, title=title, headline=headline, meaning=meaning, detail=non_empty(*detail), series=series, hint=hint, **more)


def ratio(value: float, by: float) -> float | None:
    """None where there is nothing to divide by."""
    return round(value / by, 4) if by else None


def feedback_by_stage(bucket: Bucket) -> dict[str, tuple[int, int]]:
    """Of each stage's flags how many people called right, and of how many they said something."""
    stages = sorted({name.rpartition(":")[0] for name in bucket.feedback})
    counts = [[bucket.feedback.get(f"{stage}:{word}", 0) for word in ("right", "wrong")] for stage in stages]
    return {stage: (right, right + wrong) for stage, (right, wrong) in zip(stages, counts, strict=True)}


def interval(hits: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share (Wilson, 1927); all that it can be where there is nothing to divide by."""
    if not n:
        return 0.0, 1.0
    share, spread = hits / n, 1 + _Z**2 / n
    centre, half = share + _Z**2 / (2 * n), _Z * math.sqrt(share * (1 - share) / n + _Z**2 / (4 * n**2))
    return max(0.0, (centre - half) / spread), min(1.0, (centre + half) / spread)


def most_common(counts: Mapping[str, int]) -> str:
    """The most common kinds, in words."""
    ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    named = [f"{count:,} × {name.replace('_', ' ').lower()[:60]}" for name, count in ordered[:_MAX_NAMED] if name]
    rest = len(ordered) - _MAX_NAMED
    return ", ".join(named) + (f" and {many(rest, 'more kind')}" if rest > 0 else "")


def non_empty(*parts: str) -> tuple[str, ...]:
    """Those that say something."""
    return tuple(part for part in parts if part)


N = TypeVar("N", int, float)


def raise_count(counts: dict[str, N], name: str, by: N = 1) -> None:
    """Count `name`."""
    counts[name] = counts.get(name, 0) + by


def ranked(counts: Mapping[str, float]) -> dict[str, int]:
    """As whole numbers, the highest first."""
    return {name: int(count) for name, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))}
