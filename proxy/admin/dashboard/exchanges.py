"""The list of exchanges: filters by all that it shows, words in bodies, pages, and what is downloaded of it. An address has it all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from proxy.admin.dashboard.arriving import Cut
from proxy.admin.dashboard.exchange_rows import row, table
from proxy.admin.dashboard.frame import OUTCOMES, SIGNS, View, command, empty, heading, notice, page, pages
from proxy.admin.dashboard.html import Child, Html, el
from proxy.admin.dashboard.reasons import REASONS, in_words
from proxy.admin.dashboard.summaries import RecordSummary
from proxy.admin.dashboard.words import moment, seconds_of, with_query
from proxy.errors import InvalidRequest
from proxy.store.exchange_search import ExchangeFilters

PER_PAGE = 50
WITHIN: Mapping[str, tuple[str, float | None]] = {
    "": ("any time", None),
    "15m": ("last 15 minutes", 900.0),
    "1h": ("last hour", 3600.0),
    "1d": ("last day", 86_400.0),
    "7d": ("last week", 7 * 86_400.0),
    "30d": ("last month", 30 * 86_400.0),
}
FORMATS = {"csv": "CSV", "jsonl": "JSON Lines"}
"""What a list can be downloaded as."""
_HAPPENED = {
    "problem": "anything wrong",
    "caught": "refused or warned of",
    "failed": "failed",
    "would": "shadow mode: would have acted",
}
_STATUS = re.compile(r"[1-5]\d\d|[1-5]xx")
_PATH = "/dashboard/exchanges"
_FOUND = "found"
CUTS = (
    Cut(f'<form method="get" action="{_PATH}"'),
    Cut(
        f'<section id="{_FOUND}"',
        wait_s=0.1,
        meanwhile=str(el("p", "Looking through the exchanges …", class_="looking", role="status")),
    ),
)
"""Where the page may leave in parts: its frame at once, its filters when the search takes long."""
"""The id of the section with the list."""
_MORE = ("run", "status", "reason", "tokens", "usd", "ms", "since", "until")
"""Filters that stand folded away until one is given."""


class ListFilters(Struct, frozen=True, kw_only=True):
    """What the list is narrowed to, as the address has it; "" is everything."""

    q: str = ""
    """Words in bodies."""
    route: str = ""
    model: str = ""
    client: str = ""
    verdict: str = ""
    within: str = ""
    run: str = ""
    status: str = ""
    reason: str = ""
    tokens: str = ""
    """At least; so are `usd` and `ms`."""
    usd: str = ""
    ms: str = ""
    since: str = ""
    """A minute in UTC, as a browser's field for it gives it: ``2026-02-03T14:05``."""
    until: str = ""

    @property
    def given(self) -> dict[str, str]:
        """Those that narrow it."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name))}

    def wanted(self, now: float) -> ExchangeFilters:
        """For the store. Raises `InvalidRequest`."""
        since, until = seconds_of(self.since, "since"), seconds_of(self.until, "until")
        back_s = WITHIN[self.within][1]
        return ExchangeFilters(
            route={"": None, "/": ""}.get(self.route, self.route),
            run=self.run,
            client=self.client,
            model=self.model,
            outcome=self.verdict,
            reason=self.reason,
            status=self.status.lower(),
            min_tokens=_least(self.tokens, "tokens"),
            min_usd=_least(self.usd, "usd"),
            min_ms=_least(self.ms, "ms"),
            since=since if back_s is None else max(since or 0.0, now - back_s),
            until=until,
            text=self.q,
        )


def filters_of(query: Mapping[str, str]) -> ListFilters:
    """The page's query. Raises `InvalidRequest`."""
    found = ListFilters(**{name: query.get(name, "").strip() for name in ListFilters.__struct_fields__})
    if found.verdict and found.verdict not in (*OUTCOMES, *_HAPPENED):
        raise InvalidRequest(f"verdict: expected one of {', '.join((*OUTCOMES, *_HAPPENED))}", param="verdict")
    if found.within not in WITHIN:
        raise InvalidRequest(f"within: expected one of {', '.join(filter(None, WITHIN))}", param="within")
    if found.status and _STATUS.fullmatch(found.status.lower()) is None:
        raise InvalidRequest("status: expected a number, as 502, or a kind of them, as 5xx", param="status")
    found.wanted(0.0)
    return found


class Listed(Struct, frozen=True, kw_only=True):
    """What the page shows."""

    rows: Sequence[RecordSummary]
    next: str
    """Cursor of what is older; "" where there is nothing."""
    looked_back_to: float | None
    """Where the time was up before the page was full."""
    after: str
    routes: Sequence[str]
    bodies: bool
    """Whether texts are kept, so that words can be looked for."""
    first_call: str
    newest: str = ""
    """Id of the newest exchange of all: what comes after it is news."""


def exchanges(view: View, shown: Listed, filters: ListFilters) -> Html:
    """The whole page."""
    rows = shown.rows
    older = with_query(_PATH, **filters.given, after=shown.next) if shown.next else None
    newer = with_query(_PATH, **filters.given) if shown.after else None
    body: Child
    if rows:
        body = (table([row(s) for s in rows]), pages(len(rows), newer, None if shown.looked_back_to else older, "exchange"))
    elif shown.looked_back_to is not None:
        body = None
    elif filters.given or shown.after:
        body = empty("No exchange is like that.", el("p", el("a", "Show all exchanges", href=_PATH)))
    else:
        body = empty(
            "No exchange yet.",
            el("p", "Point a client's ", el("code", "base_url"), " at this server, or send a first one:"),
            command(shown.first_call),
        )
    fresh = el("p", el("a", "", href=with_query(_PATH, **filters.given), class_="fresh", hidden=True), class_="fresh-line", role="status")
    newest = None if shown.after else shown.newest
    return page(
        view,
        "Exchanges",
        heading("Exchanges", _downloads(filters)),
        _form(filters, shown),
        fresh,
        el("section", body, _looked(shown, older), id=_FOUND, aria_label="Exchanges", class_="card"),
        here="Exchanges",
        live_after=newest,
    )


def _looked(shown: Listed, older: str | None) -> Html | None:
    """Where the search stopped, and how to go on."""
    if shown.looked_back_to is None:
        return None
    words = ("Looked back to ", moment(shown.looked_back_to), ". ", el("a", "Look further back", href=older, class_="button", rel="next"))
    return notice(words, "pause")


def _downloads(filters: ListFilters) -> Html:
    links = [
        el("a", name, href=with_query(f"{_PATH}/export", format=key, **filters.given), class_="button", download=True)
        for key, name in FORMATS.items()
    ]
    return el("div", el("span", "Download as", class_="dim"), links, class_="acts")


def _form(filters: ListFilters, shown: Listed) -> Html:
    verdicts = [
        ("", "anything"),
        *_HAPPENED.items(),
        *((name, f"{SIGNS[name]} {name.replace('_', ' ')}") for name in OUTCOMES if name != "pending"),
    ]
    spans = [(key, words) for key, (words, _) in WITHIN.items()]
    known = {name: sorted({getattr(s, name) for s in shown.rows} - {""}) for name in ("model", "client")}
    words = _input("q", filters.q, "words in questions, answers", 22, type="search")
    more = any(getattr(filters, name) for name in _MORE)
    return el(
        "form",
        _field("Search", words) if shown.bodies else None,
        _suggested("Route", "route", filters.route, shown.routes),
        _suggested("Model", "model", filters.model, known["model"]),
        _suggested("Client", "client", filters.client, known["client"]),
        _field("What happened", _select("verdict", verdicts, filters.verdict)),
        _field("Time", _select("within", spans, filters.within)),
        el("details", el("summary", "More filters"), el("div", _more_fields(filters), class_="more"), open=more),
        el("div", el("button", "Filter"), el("a", "Clear", href=_PATH) if filters.given else None, class_="acts"),
        method="get",
        action=_PATH,
        class_="filters",
        role="search",
        aria_label="Exchanges",
    )


def _more_fields(filters: ListFilters) -> list[Html]:
    reasons = [("", "any"), *sorted(((code, words) for code, words in REASONS.items()), key=lambda one: one[1])]
    if filters.reason not in dict(reasons):
        reasons.append((filters.reason, in_words(filters.reason)))
    return [
        _field("Reason", _select("reason", reasons, filters.reason)),
        _field("Status", _input("status", filters.status, "502 or 5xx", 7)),
        _field("Run", _input("run", filters.run, "any run", 18)),
        _field("Tokens, at least", _input("tokens", filters.tokens, "any", 8, inputmode="numeric")),
        _field("Cost in $, at least", _input("usd", filters.usd, "any", 8, inputmode="decimal")),
        _field("Took ms, at least", _input("ms", filters.ms, "any", 8, inputmode="numeric")),
        _field("From (UTC)", el("input", type="datetime-local", name="since", value=filters.since)),
        _field("To (UTC)", el("input", type="datetime-local", name="until", value=filters.until)),
    ]


def _input(name: str, value: str, hint: str, size: int, **more: str) -> Html:
    return el("input", name=name, value=value, placeholder=hint, size=size, autocomplete="off", spellcheck="false", **more)


def _suggested(title: str, name: str, value: str, known: Sequence[str]) -> Html:
    listed = el("datalist", [el("option", value=one) for one in known], id=f"known-{name}")
    field = el("input", name=name, value=value, list=f"known-{name}", placeholder=f"any {name}", size=10, autocomplete="off")
    return el("label", el("span", title), field, listed)


def _field(name: str, field: Html) -> Html:
    return el("label", el("span", name), field)


def _select(name: str, options: Sequence[tuple[str, str]], chosen: str) -> Html:
    return el("select", [el("option", words, value=value, selected=value == chosen) for value, words in options], name=name)


def _least(text: str, name: str) -> float | None:
    if not text:
        return None
    try:
        found = float(text.replace(",", ""))
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise InvalidRequest(f"{name}: expected a number from 0 on", param=name)
    return found
