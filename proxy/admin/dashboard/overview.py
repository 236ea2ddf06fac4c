"""The first page: traffic, time, cost, errors and what was caught over a time; how full contexts are, what waits, what came last."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import msgspec
from starlette.requests import Request

from proxy.admin.dashboard.panels import SPANS, Period, Report, Span, chart_label
from proxy.admin.dashboard.rendering import Cut, check_choice, minute, seconds_of
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.traffic import NAMES
from proxy.errors import InvalidRequest
from proxy.ports.panels import Panel, StagePanel

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
