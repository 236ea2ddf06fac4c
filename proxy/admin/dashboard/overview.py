"""The first page: how full the contexts are, what was kept out or chosen, how good the answers were, what waits, what came last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from proxy.admin.dashboard.charts import in_words, panel_chart, usage_chart
from proxy.admin.dashboard.exchange_rows import live_rows
from proxy.admin.dashboard.frame import View, card, command, empty, heading, notice, page, tabs
from proxy.admin.dashboard.html import Child, Html, cut, el, own, shown
from proxy.admin.dashboard.panels import Report, Span
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, with_query
from proxy.ports.panels import Panel, StagePanel
from proxy.ports.review import ClashRecord, QuarantineItem

LATEST, PLOTTED = 8, 200
"""Exchanges of the list, and of the chart."""
WAITING = 3
"""Items that the page names."""
_TEXT_CHARS = 160
_TILES = (
    ("exchanges", "Exchanges"),
    ("blocked", "Blocked"),
    ("errors", "Check errors"),
    ("full", "Full contexts"),
    ("quality", "Answer quality"),
    ("tokens", "Tokens in"),
)
_VERDICTS = {"exchanges": "", "blocked": "block", "errors": "error"}
"""Tiles that lead to their exchanges."""


class Overview(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    span: Span
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


def overview(view: View, shown: Overview) -> Html:
    """The whole page."""
    newest = max((s.id for s in shown.latest), default="")
    span = {"day": "Day", "week": "Week"}
    choice = tabs("Span of the figures", [(name, f"/dashboard?span={key}", None) for key, name in span.items()], span[shown.span])
    return page(
        view,
        "Overview",
        heading("Overview", choice),
        notice(("In shadow mode, judged and left as it is: ", own(", ".join(shown.shadow))), "problem") if shown.shadow else None,
        _tiles(shown.report, shown.span),
        _usage(shown),
        _waiting(view, shown),
        _panels(shown),
        _latest(shown),
        here="Overview",
        live_after=newest,
    )


def _tiles(report: Report | None, span: Span) -> Html:
    within = {"day": "1d", "week": "7d"}[span]
    tiles = []
    for key, name in _TILES:
        figure, below = report.tiles[key] if report is not None else ("…", "")
        value, meaning = el("dd", figure, class_="figure"), el("dd", below, class_="below")
        title = el("a", name, href=with_query("/dashboard/exchanges", verdict=_VERDICTS[key], within=within)) if key in _VERDICTS else name
        tiles.append(el("div", el("dt", title), value, meaning, class_="tile", data_tile=key))
    return el("dl", tiles, class_="tiles")


def _usage(shown: Overview) -> Html:
    points = [s for s in shown.latest if s.share is not None]
    choices = [el("label", el("input", type="radio", name="by", value=by, checked=by == "route"), f" {by}") for by in ("route", "run")]
    more = el("fieldset", el("legend", "A line for each", class_="vh"), choices, class_="choice", id="usage-by")
    label = "Share of the context window that each of the latest exchanges took, with lines at 70, 80 and 90 per cent"
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
    chart = usage_chart(shown.latest, "route", label)
    return card("Context windows", el("div", said, hidden=said is None, class_="over"), chart, id_="usage", more=more, class_="chart")


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


def _panels(shown: Overview) -> Html:
    report = shown.report
    by_name: Mapping[str, Panel] = {} if report is None else {panel.name: panel for panel in report.panels}
    cards = [_panel(by_name.get(panel.name), report, panel.title, panel.name) for panel in shown.panels]
    heading_ = el("h2", "The last day" if shown.span == "day" else "The last week", id="figures-title", class_="section")
    source = f"/dashboard/figures?span={shown.span}"
    return el(
        "section",
        heading_,
        el("div", cards, class_="panels"),
        id="figures",
        aria_labelledby="figures-title",
        data_figures=source,
        data_ready=report is not None,
    )


def _panel(panel: Panel | None, report: Report | None, title: str, name: str) -> Html:
    panel = panel or Panel(name=name, title=title, headline="…", meaning="being worked out")
    return el(
        "section",
        el("h3", panel.title, id=f"panel-{name}"),
        el("p", el("span", panel.headline, class_="figure"), " ", el("span", panel.meaning, class_="meaning"), class_="headline"),
        panel_chart(panel, report.starts if report is not None else ()),
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
    return msgspec.json.encode({"span": report.span, "starts": report.starts, "tiles": report.tiles, "panels": panels})
