"""The first page: traffic, time, cost, errors and what was caught over a time; how full contexts are, what waits, what came last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from proxy.admin.dashboard.arriving import Cut
from proxy.admin.dashboard.charts import in_words, panel_chart, usage_chart
from proxy.admin.dashboard.exchange_rows import live_rows
from proxy.admin.dashboard.frame import View, card, command, empty, heading, page, tabs
from proxy.admin.dashboard.html import Child, Html, cut, el, own, shown
from proxy.admin.dashboard.panels import SPANS, Period, Report
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.traffic import NAMES
from proxy.admin.dashboard.words import minute, moment, with_query
from proxy.ports.panels import Panel, StagePanel
from proxy.ports.review import ClashRecord, QuarantineItem

LATEST, PLOTTED = 8, 200
"""Exchanges of the list, and of the chart."""
WAITING = 3
"""Items that the page names."""
_TEXT_CHARS = 160
_TILES = (
    ("exchanges", "Exchanges", ""),
    ("caught", "Caught", "caught"),
    ("failed", "Failed", "failed"),
    ("latency", "Provider's time", ""),
    ("cost", "Cost", ""),
    ("full", "Full contexts", ""),
    ("quality", "Answer quality", ""),
)
"""Name of the figure, title, and the verdict of the exchanges that it leads to."""
_WITHIN = {"hour": "1h", "day": "1d", "week": "7d", "month": "30d"}
"""Of the list of exchanges, by span."""


class Overview(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    period: Period
    report: Report | None
    """None while it is worked out; the page's script asks for it then."""
    latest: Sequence[RecordSummary]
    """Newest first."""
    pending: Sequence[QuarantineItem]
    """With their contents."""
    clashes: Sequence[ClashRecord]
    """Open ones."""
    first_call: str
    """A command that makes the first exchange."""
    shadow: Sequence[str] = ()
    """Routes in shadow mode."""
    panels: Sequence[type[StagePanel]] = ()
    """Those that there are, also while `report` is worked out."""


CUTS = (Cut('<div class="range"'),)
"""Where the page may leave in parts."""


def frame(view: View, period: Period) -> Html:
    """The page without what is read for it."""
    return page(view, "Overview", _heading(period), _range(period), here="Overview", live_after="")


def _heading(period: Period) -> Html:
    current = (period.span or "").capitalize()
    return heading(
        "Overview", tabs("Time of the figures", [(name.capitalize(), f"/dashboard?span={name}", None) for name in SPANS], current)
    )


def overview(view: View, shown: Overview) -> Html:
    """The whole page."""
    newest = max((s.id for s in shown.latest), default="")
    return page(
        view,
        "Overview",
        _heading(shown.period),
        _range(shown.period),
        _shadow(shown) if shown.shadow else None,
        _tiles(shown),
        _figures(shown),
        _usage(shown),
        _waiting(view, shown),
        _latest(shown),
        here="Overview",
        live_after=newest,
    )


def _range(period: Period) -> Html:
    """From when to when, for who has no mouse to drag over a chart, and to see what was dragged."""
    fields = [
        el("label", el("span", title), el("input", type="datetime-local", name=name, value=minute(at) if period.span is None else None))
        for title, name, at in (("From (UTC)", "since", period.since), ("To (UTC)", "until", period.until))
    ]
    form = el("form", fields, el("button", "Show"), method="get", action="/dashboard", class_="filters", aria_label="Time of the figures")
    words = ("From ", moment(period.since), " to ", moment(period.until), ". ") if period.span is None else ()
    more = el("details", el("summary", "Another time"), form, open=period.span is None)
    return el("div", el("p", words, "Drag over a chart to look closer.", class_="hint"), more, class_="range")


def _list(shown: Overview, verdict: str = "") -> str:
    """The address of the exchanges that the figures are of."""
    period = shown.period
    if period.span is not None:
        return with_query("/dashboard/exchanges", verdict=verdict, within=_WITHIN[period.span])
    return with_query("/dashboard/exchanges", verdict=verdict, since=minute(period.since), until=minute(period.until))


def _shadow(shown: Overview) -> Html:
    """What the routes in shadow mode would have done."""
    figure, did = shown.report.tiles["shadow"] if shown.report is not None else ("…", "")
    routes = own(", ".join(shown.shadow))
    return el(
        "section",
        el(
            "p",
            el("strong", "Shadow mode"),
            " on ",
            routes,
            ": judged, and left as it is. Would have acted on ",
            el("span", figure, class_="figure"),
            " exchanges. ",
            el("span", did, class_="below"),
            " ",
            el("a", "Show them", href=_list(shown, "would")),
        ),
        class_="card shadow",
        aria_label="Shadow mode",
        data_tile="shadow",
    )


def _tiles(shown: Overview) -> Html:
    made = []
    for key, name, verdict in _TILES:
        figure, below = shown.report.tiles[key] if shown.report is not None else ("…", "")
        value, meaning = el("dd", figure, class_="figure"), el("dd", below, class_="below")
        leads = verdict or key == "exchanges"
        title = el("a", name, href=_list(shown, verdict)) if leads else name
        made.append(el("div", el("dt", title), value, meaning, class_="tile", data_tile=key))
    return el("dl", made, class_="tiles")


def _usage(shown: Overview) -> Html:
    points = [s for s in shown.latest if s.share is not None]
    choices = [el("label", el("input", type="radio", name="by", value=by, checked=by == "run"), f" {by}") for by in ("run", "route")]
    more = el("fieldset", el("legend", "A line for each", class_="vh"), choices, class_="choice", id="usage-by")
    label = "Share of the context window that each of the latest exchanges took, a line for each run, with marks at 70, 80 and 90 per cent"
    if not shown.latest:
        said: Child = empty("No exchange yet.", el("p", "Send a first one:"), command(shown.first_call))
    elif not points:
        said = empty(
            "The contexts of these exchanges were not measured.",
            el(
                "p",
                "The stage ",
                el("code", "budget"),
                " measures them; it needs the model's window, which ",
                el("code", "models:"),
                " in config.yaml gives where the bundled list does not know it.",
            ),
        )
    else:
        said = None
    chart = usage_chart(shown.latest, "run", label)
    return card("How full contexts are", el("div", said, hidden=said is None, class_="over"), chart, id_="usage", more=more, class_="chart")


def _waiting(view: View, shown: Overview) -> Html:
    items = [_item(item) for item in shown.pending[:WAITING]] + [_clash(record) for record in shown.clashes[:WAITING]]
    counts = el(
        "p",
        el("a", "In quarantine: ", el("span", f"{view.pending:,}", data_count="quarantine"), href="/dashboard/quarantine"),
        " · ",
        el("a", "open clashes: ", el("span", f"{view.open_clashes:,}", data_count="clashes"), href="/dashboard/clashes"),
        class_="sums",
    )
    nothing = empty(
        "Nothing waits for you.",
        el("p", "Suspicious content and contradictions that a policy leaves to a person will be listed here."),
    )
    return card("Waits for a decision", el("ul", items, class_="waiting") if items else nothing, id_="waiting", more=counts)


def _item(item: QuarantineItem) -> Html:
    text = cut(item.content[: 4 * _TEXT_CHARS].decode("utf-8", "replace"), _TEXT_CHARS)
    head = el("span", el("strong", own(item.type.replace("_", " "))), " · ", moment(item.created_at), class_="kind")
    link = el("a", "Decide", el("span", " on this piece of context", class_="vh"), href=f"/dashboard/quarantine#{item.id}", class_="button")
    return el("li", el("div", head, el("p", shown(text), class_="clip", dir="auto")), link)


def _clash(record: ClashRecord) -> Html:
    older, newer = (cut(str(side.get("text", "")), _TEXT_CHARS) for side in (record.older, record.newer))
    head = el("span", el("strong", "clash: ", own(record.topic)), " · ", moment(record.created_at), class_="kind")
    link = el("a", "Resolve", el("span", " this clash", class_="vh"), href=f"/dashboard/clashes#{record.id}", class_="button")
    return el("li", el("div", head, el("p", own(older), el("span", " ⇄ ", class_="versus"), own(newer), class_="clip")), link)


def _figures(shown: Overview) -> Html:
    report, period = shown.report, shown.period
    by_name: Mapping[str, Panel] = {} if report is None else {panel.name: panel for panel in report.panels}
    general = [_panel(by_name.get(name), report, title, name) for name, title in NAMES.items()]
    stages = [_panel(by_name.get(panel.name), report, panel.title, panel.name) for panel in shown.panels]
    words = {"hour": "The last hour", "day": "The last day", "week": "The last week", "month": "The last month"}
    query = {"span": period.span} if period.span is not None else {"since": minute(period.since), "until": minute(period.until)}
    return el(
        "section",
        el("h2", words[period.span] if period.span is not None else "The time that you chose", id="figures-title", class_="section"),
        el("div", general, class_="panels wide"),
        el("h2", "What the checks did", class_="section later") if stages else None,
        el("div", stages, class_="panels wide"),
        id="figures",
        aria_labelledby="figures-title",
        data_figures=with_query("/dashboard/figures", **query),
        data_ready=report is not None,
    )


def _panel(panel: Panel | None, report: Report | None, title: str, name: str) -> Html:
    panel = panel or Panel(name=name, title=title, headline="…", meaning="being worked out")
    return el(
        "section",
        el("h3", panel.title, id=f"panel-{name}"),
        el("p", el("span", panel.headline, class_="figure"), " ", el("span", panel.meaning, class_="meaning"), class_="headline"),
        panel_chart(panel, report.starts if report is not None else ()),
        el("ul", class_="legend key"),
        el("p", " · ".join(panel.detail) or panel.hint, class_="detail"),
        class_="card panel",
        data_panel=name,
        aria_labelledby=f"panel-{name}",
    )


def _latest(shown: Overview) -> Html:
    more = el("a", "All exchanges", href="/dashboard/exchanges")
    body = live_rows(shown.latest[:LATEST], LATEST)
    return card("Latest exchanges", body, id_="latest", more=more, class_="latest")


def figures_json(report: Report) -> bytes:
    """What the page's script fetches: panels with their charts in words."""
    panels = [msgspec.structs.asdict(panel) | {"label": in_words(panel)} for panel in report.panels]
    return msgspec.json.encode({"starts": report.starts, "tiles": report.tiles, "panels": panels})
