"""One exchange as a row of a list: what `static/rows.js` makes of one that comes while the page is open, too."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.admin.dashboard.frame import badge
from proxy.admin.dashboard.html import Child, Html, el, own
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, record_path, run_path, short
from proxy.language.amounts import NONE, dollars, milliseconds, number, share

COLUMNS = (
    ("when", "Time"),
    ("verdict", "What happened"),
    ("route", "Route, run"),
    ("model", "Model, client"),
    ("status", "Status"),
    ("tokens", "Tokens in → out, window"),
    ("usd", "Cost"),
    ("ms", "Took"),
    ("words", "Question and answer"),
)
"""Class and heading of each; most have a second line below the first."""


def table(rows: Sequence[Html]) -> Html:
    """Rows under their headings."""
    heads = [el("th", name, scope="col", class_=class_) for class_, name in COLUMNS]
    return el("table", el("thead", el("tr", heads)), el("tbody", rows), class_="rows")


def live_rows(rows: Sequence[RecordSummary], slots: int) -> Html:
    """The newest few: as many rows as there will ever be, the free ones empty, so that a new exchange moves nothing on the page."""
    made = [row(s) for s in rows] + [_free() for _ in range(slots - len(rows))]
    hint = el("p", "What comes in shows up here at once.", class_="hint", hidden=bool(rows))
    return el("div", hint, table(made), id="live-rows", data_known=" ".join(s.id for s in rows))


def row(s: RecordSummary) -> Html:
    """One exchange."""
    run = el("a", own(short(s.run)), href=run_path(s.run), title=s.run) if s.run else NONE
    wrong = "code wrong" if s.status >= 400 else "code"
    cells: dict[str, Child] = {
        "when": el("a", moment(s.at), href=record_path(s.id)),
        "verdict": (badge(s.outcome), _second(own(s.why)) if s.why else None),
        "route": (own(s.route), _second(run)),
        "model": (own(s.model) if s.model else NONE, _second(own(s.client)) if s.client else None),
        "status": el("span", s.status or NONE, class_=wrong),
        "tokens": (
            f"{number(s.tokens)} → {number(s.answer)}",
            _second(bar(s.share), el("span", share(s.share), class_="share")) if s.share is not None else None,
        ),
        "usd": dollars(s.usd),
        "ms": (milliseconds(s.ms), _second("ours ", milliseconds(s.own_ms)) if s.own_ms is not None else None),
        "words": (own(s.question), _second(own(s.said)) if s.said else None) if s.question or s.said else NONE,
    }
    return el("tr", [_cell(class_, name, cells[class_]) for class_, name in COLUMNS], data_id=s.id)


def _second(*children: Child) -> Html:
    return el("span", *children, class_="second")


def _free() -> Html:
    return el("tr", [_cell(class_, name, "\u00a0") for class_, name in COLUMNS], class_="free", aria_hidden="true")


def _cell(class_: str, name: str, child: Child) -> Html:
    return el("td", child, class_=class_, data_name=name)


def bar(value: float, class_: str = "") -> Html:
    """A share as a bar with marks at 70, 80 and 90%; the words for it stand beside it."""
    level = "full" if value >= 0.9 else "high" if value >= 0.8 else "raised" if value >= 0.7 else "low"
    width = f"{min(max(value, 0.0), 1.0) * 100:.1f}"
    marks = [el("line", x1=at, x2=at, y1=0, y2=10) for at in (70, 80, 90)]
    return el(
        "svg",
        el("rect", width=100, height=10, class_="track"),
        el("rect", width=width, height=10, class_="fill"),
        marks,
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        class_=f"bar {level} {class_}".strip(),
        aria_hidden="true",
    )
