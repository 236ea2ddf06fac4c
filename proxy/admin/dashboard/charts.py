"""A chart's place in a page: its size is reserved, its data stands beside it as JSON, and as a table for who cannot see it.

What draws is ``static/charts.js``. Without a script the table is all there is, and it is enough.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.admin.dashboard.html import Html, data, el, join, own
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, record_link, run_link
from proxy.language.amounts import dollars, milliseconds, number, score, share
from proxy.ports.panels import Panel, Unit

_WORDS = {"count": number, "share": share, "score": score, "ms": milliseconds, "usd": dollars}
_TABLE_ROWS = 30
_POINT = ("id", "at", "route", "run", "share", "tokens", "window")


def usage_chart(summaries: Sequence[RecordSummary], by: str, label: str) -> Html:
    """How full the windows of these exchanges were, one line for each route or run; told live where the page is."""
    points = [s for s in reversed(summaries) if s.share is not None]
    return el(
        "figure",
        el("div", class_="plot", data_chart="usage", data_by=by, role="img", aria_label=label),
        data({"names": _POINT, "rows": [[getattr(s, name) for name in _POINT] for s in points]}),
        el("figcaption", el("ul", class_="legend"), el("p", class_="readout", aria_hidden="true")),
        el("details", el("summary", "These figures as a table"), _usage_table(points)),
        class_="usage",
    )


def _usage_table(points: Sequence[RecordSummary]) -> Html:
    rows = [
        el(
            "tr",
            el("td", moment(s.at)),
            el("td", own(s.route)),
            el("td", run_link(s.run)),
            el("td", share(s.share)),
            el("td", number(s.tokens)),
            el("td", number(s.window)),
            el("td", record_link(s.id, "exchange")),
        )
        for s in list(reversed(points))[:_TABLE_ROWS]
    ]
    heads = [el("th", name, scope="col") for name in ("Time", "Route", "Run", "Share", "Tokens", "Window", "Exchange")]
    return el(
        "div", el("table", el("thead", el("tr", heads)), el("tbody", rows)), class_="scroll", tabindex=0, role="group", aria_label="Table"
    )


def panel_chart(panel: Panel, starts: Sequence[float]) -> Html:
    """A panel's course."""
    given = {"starts": starts, "unit": panel.unit, "parts": panel.parts, "series": panel.series}
    return join(
        (
            el(
                "div",
                class_="plot small" if panel.series else "plot small bare",
                data_chart="panel",
                role="img",
                aria_label=in_words(panel),
            ),
            data(given),
        )
    )


def in_words(panel: Panel) -> str:
    """What a panel's chart shows, for who cannot see it."""
    words = [f"{s.name}: {_range(s.values, panel.unit)}" for s in panel.series]
    return f"{panel.title} over time. {'; '.join(words)}" if words else f"{panel.title}: nothing to draw yet"


def _range(values: Sequence[float | None], unit: Unit) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return "no values"
    last = next(value for value in reversed(values) if value is not None)
    said = _WORDS[unit]
    return f"from {said(min(there))} to {said(max(there))}, lately {said(last)}"
