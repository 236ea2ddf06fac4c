"""The list of exchanges: filters by route, run, verdict and time, and pages. Also the rows that the overview keeps up to date."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from proxy.admin.dashboard.frame import OUTCOMES, SIGNS, View, badge, command, empty, heading, page, pages
from proxy.admin.dashboard.html import Child, Html, el, own
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, record_path, run_path, with_query
from proxy.errors import InvalidRequest
from proxy.language.amounts import NONE, milliseconds, number, share

PER_PAGE = 50
WITHIN: Mapping[str, tuple[str, float | None]] = {
    "": ("any time", None),
    "15m": ("last 15 minutes", 900.0),
    "1h": ("last hour", 3600.0),
    "1d": ("last day", 86_400.0),
    "7d": ("last week", 7 * 86_400.0),
}
_MINUTE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")
_COLUMNS = (
    ("when", "Time"),
    ("verdict", "Verdict"),
    ("route", "Route"),
    ("run", "Run"),
    ("model", "Model"),
    ("context", "Context"),
    ("tokens", "Tokens in, out"),
    ("ms", "Duration"),
)
_PATH = "/dashboard/exchanges"


class ListFilters(Struct, frozen=True, kw_only=True):
    """What the list is narrowed to; "" is everything."""

    route: str = ""
    run: str = ""
    verdict: str = ""
    within: str = ""
    since: str = ""
    """A minute in UTC, as a browser's field for it gives it: ``2026-02-03T14:05``."""
    until: str = ""

    @property
    def given(self) -> dict[str, str]:
        """Those that narrow it."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}

    def times(self, now: float) -> tuple[float | None, float | None]:
        """Seconds since the epoch, from (inclusive) and to (exclusive). Raises `InvalidRequest`."""
        since, until = _minute(self.since, "since"), _minute(self.until, "until")
        back_s = WITHIN[self.within][1]
        if back_s is not None:
            since = max(since or 0.0, now - back_s)
        return since, until


def filters_of(query: Mapping[str, str]) -> ListFilters:
    """The page's query. Raises `InvalidRequest`."""
    found = ListFilters(**{name: query.get(name, "").strip() for name in ListFilters.__struct_fields__})
    if found.verdict and found.verdict not in OUTCOMES:
        raise InvalidRequest(f"verdict: expected one of {', '.join(OUTCOMES)}", param="verdict")
    if found.within not in WITHIN:
        raise InvalidRequest(f"within: expected one of {', '.join(filter(None, WITHIN))}", param="within")
    found.times(0.0)
    return found


def exchanges(
    view: View, rows: Sequence[RecordSummary], has_more: bool, filters: ListFilters, after: str, routes: Sequence[str], first_call: str
) -> Html:
    """The whole page; `routes` are suggested."""
    older = with_query(_PATH, **filters.given, after=rows[-1].id) if has_more and rows else None
    newer = with_query(_PATH, **filters.given) if after else None
    body: Child
    if rows:
        body = (_table([_row(s) for s in rows]), pages(len(rows), newer, older, "exchange"))
    elif filters.given or after:
        body = empty("No exchange is like that.", el("p", el("a", "Show all exchanges", href=_PATH)))
    else:
        body = empty(
            "No exchange yet.",
            el("p", "Point a client's ", el("code", "base_url"), " at this server, or send a first one:"),
            command(first_call),
        )
    fresh = el("p", el("a", "", href=with_query(_PATH, **filters.given), class_="fresh", hidden=True), class_="fresh-line", role="status")
    newest = None if after else (rows[0].id if rows else "")
    return page(
        view,
        "Exchanges",
        heading("Exchanges"),
        _form(filters, routes),
        fresh,
        el("section", body, aria_label="Exchanges", class_="card"),
        here="Exchanges",
        live_after=newest,
    )


def live_rows(rows: Sequence[RecordSummary], slots: int) -> Html:
    """The newest few: as many rows as there will ever be, the free ones empty, so that a new exchange moves nothing on the page."""
    made = [_row(s) for s in rows] + [_free() for _ in range(slots - len(rows))]
    hint = el("p", "What comes in shows up here at once.", class_="hint", hidden=bool(rows))
    return el("div", hint, _table(made), id="live-rows", data_known=" ".join(s.id for s in rows))


def _form(filters: ListFilters, routes: Sequence[str]) -> Html:
    verdicts = [("", "any verdict"), *((name, f"{SIGNS[name]} {name.replace('_', ' ')}") for name in OUTCOMES if name != "pending")]
    spans = [(key, words) for key, (words, _) in WITHIN.items()]
    more = filters.since or filters.until
    return el(
        "form",
        _field(
            "Route", el("input", name="route", value=filters.route, list="routes", placeholder="any route", size=12, autocomplete="off")
        ),
        el("datalist", [el("option", value=route) for route in routes], id="routes"),
        _field("Run", el("input", name="run", value=filters.run, placeholder="any run", size=18, autocomplete="off", spellcheck="false")),
        _field("Verdict", _select("verdict", verdicts, filters.verdict)),
        _field("Time", _select("within", spans, filters.within)),
        el(
            "details",
            el("summary", "From, to"),
            _field("From (UTC)", el("input", type="datetime-local", name="since", value=filters.since)),
            _field("To (UTC)", el("input", type="datetime-local", name="until", value=filters.until)),
            open=bool(more),
        ),
        el("div", el("button", "Filter"), el("a", "Clear", href=_PATH) if filters.given else None, class_="acts"),
        method="get",
        action=_PATH,
        class_="filters",
        role="search",
        aria_label="Exchanges",
    )


def _field(name: str, field: Html) -> Html:
    return el("label", el("span", name), field)


def _select(name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    return el("select", [el("option", words, value=value, selected=value == chosen) for value, words in options], name=name)


def _table(rows: Sequence[Html]) -> Html:
    heads = [el("th", name, scope="col", class_=class_) for class_, name in _COLUMNS]
    return el("table", el("thead", el("tr", heads)), el("tbody", rows), class_="rows")


def _row(s: RecordSummary) -> Html:
    cells: dict[str, Child] = {
        "when": el("a", moment(s.at), href=record_path(s.id)),
        "verdict": badge(s.outcome),
        "route": own(s.route),
        "run": el("a", own(s.run), href=run_path(s.run)) if s.run else NONE,
        "model": own(s.model) if s.model else NONE,
        "context": _context(s),
        "tokens": f"{number(s.tokens)} → {number(s.answer)}",
        "ms": milliseconds(s.ms),
    }
    return el("tr", [_cell(class_, name, cells[class_]) for class_, name in _COLUMNS], data_id=s.id)


def _free() -> Html:
    return el("tr", [_cell(class_, name, "\u00a0") for class_, name in _COLUMNS], class_="free", aria_hidden="true")


def _cell(class_: str, name: str, child: Child) -> Html:
    return el("td", child, class_=class_, data_name=name)


def _context(s: RecordSummary) -> Child:
    """A bar with its share in words."""
    if s.share is None:
        return NONE
    return (bar(s.share), el("span", share(s.share), class_="share"))


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


def _minute(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        if _MINUTE.fullmatch(text) is None:
            raise ValueError(text)
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise InvalidRequest(f"{name}: expected a minute in UTC, as 2026-02-03T14:05", param=name) from None
