"""Two policies, upstreams, models or routes over the same time: their figures side by side, and their courses in one chart each.

In: `proxy.store.figures` of both, read from their records, as kept sums know nothing of them; so of the newest `MOST` exchanges of the time
alone, which the page says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from proxy.admin.dashboard.panels import AMOUNTS, SPANS, Period, chart_label, warned
from proxy.admin.dashboard.rendering import check_choice, with_query
from proxy.language.amounts import NONE
from proxy.ports.panels import Bucket, Course, Panel, Series, Unit, ratio
from proxy.ports.upstream import OWN
from proxy.store.database import Database
from proxy.store.exchange_search import GROUPS
from proxy.store.figures import DatabaseFigures, total
from proxy.store.record_sums import percentile
from proxy.store.records import Record

BY = ("policy", "upstream", "model", "route")
PATH = "/dashboard/compare"
MOST, _DETAILS = 20_000, 5_000
"""Exchanges that are counted, of both sides together, and those of a side whose scores are read."""


def _part(*verdicts: str) -> Course:
    return lambda b: ratio(sum(b.verdicts.get(name, 0) for name in verdicts), b.exchanges)


def _mean(name: str) -> Course:
    return lambda b: ratio(b.scores.get(name, 0.0), b.scored.get(name, 0))


_FIGURES: Mapping[str, tuple[Unit, Course]] = {
    "Exchanges": ("count", lambda b: float(b.exchanges)),
    "Not decided": ("share", _part(*GROUPS["undecided"])),
    "Failed": ("share", _part(*GROUPS["failed"])),
    "Warned of": ("share", lambda b: ratio(warned(b), b.exchanges)),
    "Refused": ("share", _part("block")),
    "Held": ("share", _part("pass")),
    "Faithfulness": ("score", _mean("faithfulness")),
    "Quality": ("score", _mean("quality")),
    "Provider's time, median": ("ms", lambda b: percentile(b.provider_ms, 0.5)),
    "Provider's time, 95% within": ("ms", lambda b: percentile(b.provider_ms, 0.95)),
    "Groundwire's time, median": ("ms", lambda b: percentile(b.own_ms, 0.5)),
    "Cost of an exchange": ("usd", lambda b: b.cost_usd / b.priced if b.priced else None),
    "Prompt tokens of an exchange": ("count", lambda b: b.prompt_tokens / b.exchanges if b.exchanges else None),
}
_DRAWN = ("Not decided", "Held", "Faithfulness", "Provider's time, median", "Cost of an exchange", "Exchanges")


async def compare_page(database: Database, query: Mapping[str, str], period: Period, newest: Sequence[Record]) -> dict[str, Any]:
    """What ``compare.html`` shows; `newest` exchanges tell what can be chosen. Raises `InvalidRequest`, `StoreUnavailable`."""
    by = query.get("by", BY[0])
    check_choice("by", by, BY)
    known = _known(by, newest)
    usual = [name for name in known if by != "upstream" or name != OWN]
    sides = [query.get(name, "").strip() or first for name, first in zip("ab", [*usual[:2], "", ""], strict=False)]
    since, until, bucket_s = period.buckets(database.clock())
    first, rows, panels, starts = since, [], [], list[float]()
    if all(sides):
        both = [DatabaseFigures(database, max_details=_DETAILS, only=(by, "" if by == "route" and one == "/" else one)) for one in sides]
        first = await both[0].since_newest(since, until, MOST)
        courses = await asyncio.gather(*(one.between(first, until, bucket_s) for one in both))
        wholes = [total(buckets) or Bucket(start=first, seconds=0) for buckets in courses]
        starts = [bucket.start for bucket in courses[0]]
        rows = [(name, *(_said(unit, of(whole)) for whole in wholes)) for name, (unit, of) in _FIGURES.items()]
        panels = [_panel(name, sides, courses) for name in _DRAWN]
    return {
        "by": by,
        "sides": sides,
        "known": known,
        "rows": rows,
        "panels": [(panel, chart_label(panel)) for panel in panels],
        "starts": starts,
        "since": first if first > since else None,
        "span": period.span or "",
        "span_tabs": [(name.capitalize(), with_query(PATH, span=name, by=by, a=sides[0], b=sides[1]), None) for name in SPANS],
        "choices": BY,
    }


def _known(by: str, newest: Sequence[Record]) -> list[str]:
    """The most common first, of policies their names, then each version, so that two of one can be compared."""
    values = Counter(filter(None, (str(getattr(one, by)) or ("/" if by == "route" else "") for one in newest)))
    names = Counter[str]()
    for value, count in values.items() if by == "policy" else ():
        names[value.partition("@")[0]] += count
    return [name for counts in (names, values) for name, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))]


def _said(unit: Unit, value: float | None) -> str:
    return NONE if value is None else AMOUNTS[unit](value)


def _panel(name: str, sides: Sequence[str], courses: Sequence[Sequence[Bucket]]) -> Panel:
    unit, of = _FIGURES[name]
    series = tuple(Series(side, tuple(map(of, course))) for side, course in zip(sides, courses, strict=True))
    there = any(value is not None for one in series for value in one.values)
    return Panel(
        name=name.lower().replace(" ", "-").replace("'", ""),
        title=name,
        headline="",
        meaning="",
        unit=unit,
        series=series,
        hint="" if there else "Nothing to compare.",
    )
