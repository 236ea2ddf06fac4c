"""What happened over a time, as pages: the first page (traffic, time, cost, errors, what was caught; what waits, what came last), and that
of a run: its exchanges and its failure records on one time line, and how its context grew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import msgspec
from msgspec import Struct
from starlette.requests import Request

from proxy.admin.dashboard.panels import NAMES, SPANS, Period, Report, Span, chart_label
from proxy.admin.dashboard.rendering import Cut, check_choice, minute, run_path, seconds_of, with_query
from proxy.admin.dashboard.summaries import WORDS, RecordSummary, summary
from proxy.errors import InvalidRequest
from proxy.ports.panels import Panel, StagePanel
from proxy.store.records import Record

Failure: TypeAlias = Mapping[str, Any]
FailuresOfRun: TypeAlias = Callable[[str], Awaitable[Sequence[Failure]]]
"""Of a run's id: its failure records, with ``id``, ``signal_type``, ``code``, ``severity``, ``subject``, ``status``, ``occurrence_count``,
``created_at``, ``last_seen_at`` (seconds since the epoch) and ``recommended_adjustment``."""
PER_PAGE = 100
_OVER = ("resolved", "superseded")


class Turn(Struct, frozen=True):
    """One exchange of the run."""

    summary: RecordSummary
    step: str
    changed: str
    """What the stages changed, in few words: guidance about failures is among it."""
    asked: bool
    """Whether its question is another than that of the turn before."""


def run_page(run_id: str, records: Sequence[Record], failures: Sequence[Failure], more: bool, after: str) -> dict[str, Any]:
    """What ``run.html`` shows; `records` newest first. Without a time line nothing is known of the run."""
    if not records and not failures:
        return {"run_id": run_id, "timeline": ()}
    rows = [summary(record) for record in records]
    times = [s.at for s in rows] + [_created_at(failure) for failure in failures]
    costs = [s.usd for s in rows if s.usd is not None]
    return {
        "run_id": run_id,
        "timeline": _timeline(records, rows, failures),
        "began": min(times),
        "last_seen": max(times),
        "exchanges": len(rows),
        "ended": ", ".join(f"{count:,} {name}" for name, count in Counter(s.outcome for s in rows).most_common()),
        "failures": len(failures),
        "unresolved": sum(str(failure.get("status", "")) not in _OVER for failure in failures),
        "prompt_tokens": sum(s.tokens or 0 for s in rows),
        "completion_tokens": sum(s.answer or 0 for s in rows),
        "usd": sum(costs) if costs else None,
        "provider_ms": sum(s.ms - (s.own_ms or 0.0) for s in rows),
        "plotted": [s for s in rows if s.share is not None],
        "more": more,
        "after": after,
        "older": with_query(run_path(run_id), after=rows[-1].id) if more else "",
    }


def _timeline(
    records: Sequence[Record], rows: Sequence[RecordSummary], failures: Sequence[Failure]
) -> list[tuple[float, Turn | None, Failure | None]]:
    found: list[tuple[float, Turn | None, Failure | None]] = [(_created_at(failure), None, failure) for failure in failures]
    question = ""
    for record, s in sorted(zip(records, rows, strict=True), key=lambda one: one[1].at):
        turn = Turn(s, record.step_id, _changed(record.typed_detail.changes), bool(s.question) and s.question != question)
        found.append((s.at, turn, None))
        question = s.question
    return sorted(found, key=lambda entry: entry[0])


def _changed(changes: Sequence[Mapping[str, Any]]) -> str:
    words = [WORDS["changed"].get(str(one.get("stage"))) or f"{one.get('what', '')} (by {one.get('stage', '')})" for one in changes]
    return ", ".join(dict.fromkeys(words))


def _created_at(failure: Failure) -> float:
    value = failure.get("created_at")
    return float(value) if isinstance(value, int | float) else 0.0


LATEST, PLOTTED = 8, 200
"""Exchanges of the list, and of the chart."""
WAITING = 3
"""Items that the page names."""
CUTS = (Cut('<div class="range"'),)
"""Where the page may leave in parts."""
_WITHIN = {"hour": "1h", "day": "1d", "week": "7d", "month": "30d"}
"""Of the list of exchanges, by span."""


def frame(period: Period) -> dict[str, Any]:
    """What the page shows before anything is read."""
    return {"period": period, "span_tabs": [(name.capitalize(), f"/dashboard?span={name}", None) for name in SPANS]}


def overview_page(
    period: Period, report: Report | None, panels: Sequence[type[StagePanel]], summaries: Sequence[RecordSummary]
) -> dict[str, Any]:
    """What ``overview.html`` shows, beside what waits; `panels` are those of stages, `summaries` the newest exchanges.

    Without a `report`, which is still worked out, its panels are there all the same: the page's script asks for their figures.
    """
    chosen = {"since": minute(period.since), "until": minute(period.until)}
    by_name = {} if report is None else {panel.name: panel for panel in report.panels}

    def panel(name: str, title: str) -> tuple[Panel, str]:
        found = by_name.get(name) or Panel(name=name, title=title, headline="…", meaning="being worked out")
        return found, chart_label(found)

    return frame(period) | {
        "list_query": {"within": _WITHIN[period.span]} if period.span is not None else chosen,
        "figures_query": {"span": period.span} if period.span is not None else chosen,
        "tiles": None if report is None else report.tiles,
        "starts": () if report is None else report.starts,
        "general": [panel(name, title) for name, title in NAMES.items()],
        "of_stages": [panel(one.name, one.title) for one in panels],
        "latest": summaries[:LATEST],
        "slots": LATEST,  # as many rows as there will ever be, so that a new exchange moves nothing on the page
        "newest": max((s.id for s in summaries), default=""),
        "plotted": [s for s in summaries if s.share is not None],
    }


def figures_json(report: Report) -> bytes:
    """What the page's script fetches: panels with their charts in words."""
    panels = [msgspec.structs.asdict(panel) | {"label": chart_label(panel)} for panel in report.panels]
    return msgspec.json.encode({"starts": report.starts, "tiles": report.tiles, "panels": panels})


def period_of(request: Request) -> Period:
    """What the query asks for. Raises `InvalidRequest`."""
    query = request.query_params
    since, until = (seconds_of(query.get(name, "").strip(), name) for name in ("since", "until"))
    if since is not None or until is not None:
        end = time.time() // 60 * 60 + 60 if until is None else until
        if since is None or since >= end:
            raise InvalidRequest("since, until: expected a time, and a later one", param="since")
        return Period(None, since, end)
    span = query.get("span", "day")
    check_choice("span", span, tuple(SPANS))
    return Period(cast("Span", span))
