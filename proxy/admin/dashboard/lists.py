"""The pages that list exchanges: the first page (traffic, time, cost, errors, what was caught; what waits, what came last); a run, its
exchanges and its failure records on one time line, and how its context grew; and all exchanges, with filters by all that the list shows,
words in bodies, pages, and what is downloaded of it. An address has it all.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct, structs
from starlette.requests import Request

from proxy.admin.dashboard.panels import NAMES, SPANS, Period, Report, Span, chart_label
from proxy.admin.dashboard.record import StageRow, called_tools, stage_rows
from proxy.admin.dashboard.rendering import Cut, check_choice, minute, run_path, seconds_of, with_query
from proxy.admin.dashboard.summaries import REASONS, SIGNS, WORDS, RecordSummary, codes_alike, in_words, outcome_of, summary
from proxy.errors import InvalidRequest, StoreUnavailable
from proxy.ports.panels import Panel, StagePanel
from proxy.stages.registry import HOUSEKEEPING
from proxy.store.exchange_search import ExchangeFilters, ExchangePage, ExchangeSearch
from proxy.store.feedback import Feedback
from proxy.store.records import Record

if TYPE_CHECKING:
    from proxy.admin.api import AdminParts

Failure: TypeAlias = Mapping[str, Any]
FailuresOfRun: TypeAlias = Callable[[str], Awaitable[Sequence[Failure]]]
"""Of a run's id: its failure records, with ``id``, ``signal_type``, ``code``, ``severity``, ``subject``, ``status``, ``occurrence_count``,
``created_at``, ``last_seen_at`` (seconds since the epoch) and ``recommended_adjustment``."""
TURNS_PER_PAGE = 100
_OVER = ("resolved", "superseded")
_REQUEST_HOOKS = frozenset(("request", "forward"))


class Turn(Struct, frozen=True):
    """One exchange of the run: what ran in it, in order, and what it led to."""

    summary: RecordSummary
    step: str
    changed: str
    """What the stages changed, in few words: guidance about failures is among it."""
    asked: bool
    """Whether its question is another than that of the turn before."""
    before: Sequence[StageRow]
    """Stages that had the request; `behind` are those that had the answer alone."""
    behind: Sequence[StageRow]
    calls: Sequence[str]
    """Tools that the answer calls."""
    pause_ms: float | None
    """Until the next turn came: the time of its tools, or of a person."""


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
    ordered = sorted(zip(records, rows, strict=True), key=lambda one: one[1].at)
    for (record, s), (_, later) in zip(ordered, [*ordered[1:], (None, None)], strict=True):
        detail = record.typed_detail
        stages = stage_rows(detail)
        before = [one for one in stages if _REQUEST_HOOKS & one.times_ms.keys()]
        pause_ms = max(0.0, (later.at - s.at) * 1000 - s.ms) if later is not None else None
        asked = bool(s.question) and s.question != question
        behind = [one for one in stages if one not in before]
        turn = Turn(s, record.step_id, _changed(detail.changes), asked, before, behind, called_tools(record), pause_ms)
        found.append((s.at, turn, None))
        question = s.question
    return sorted(found, key=lambda entry: entry[0])


def _changed(changes: Sequence[Mapping[str, Any]]) -> str:
    words = [WORDS["changed"].get(str(one.get("stage"))) or f"{one.get('what', '')} (by {one.get('stage', '')})" for one in changes]
    return ", ".join(dict.fromkeys(words))


def _created_at(failure: Failure) -> float:
    value = failure.get("created_at")
    return float(value) if isinstance(value, int | float) else 0.0


LATEST, PLOTTED = 8, 160
"""Exchanges of the list, and of the chart."""
WAITING = 3
"""Items that the page names."""
OVERVIEW_CUTS = (Cut('<div class="range"'),)
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


def period_of(request: Request, now: float) -> Period:
    """What the query asks for. Raises `InvalidRequest`."""
    query = request.query_params
    since, until = (seconds_of(query.get(name, "").strip(), name) for name in ("since", "until"))
    if since is not None or until is not None:
        end = now // 60 * 60 + 60 if until is None else until
        if since is None or since >= end:
            raise InvalidRequest("since, until: expected a time, and a later one", param="since")
        return Period(None, since, end)
    span = query.get("span", "day")
    check_choice("span", span, tuple(SPANS))
    return Period(cast("Span", span))


EXCHANGES_PER_PAGE = 50
WITHIN_S = {"15m": 900.0, "1h": 3600.0, "1d": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
FORMATS = ("csv", "jsonl")
"""What a list can be downloaded as."""
_FILTERS = (
    *("q", "route", "model", "client", "policy", "upstream", "verdict", "within", "run", "status", "reason", "stage", "label"),
    *("tokens", "usd", "ms"),  # at least
    "faithfulness",  # at most
    *("sort", "view"),  # `SORTS`; what somebody calls this list, whose address is all that is kept of it
    *("since", "until"),  # a minute in UTC, as a browser's field for it gives it: 2026-02-03T14:05
)
SORTS = {"": "newest first", "faithfulness": "least faithful first"}
_VERDICTS = ("", *SIGNS, "undecided", "problem", "caught", "warned", "housekeeping", "failed", "would")
_AGAINST = ("problem", "caught", "warned")
"""Of these, those that a warning of housekeeping is none of."""
_MAX_VIEW_CHARS = 80
STATEMENT_LABELS = ("contradicted", "unsupported", "unsure", "supported")
MAX_ROWS = 100_000
_READ_AT_ONCE = 500
_COLUMNS = (
    *("id", "time", "route", "run_id", "step_id", "client", "policy", "upstream", "model", "verdict", "reason", "would"),
    *("status", "stream", "prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd", "duration_ms", "overhead_ms"),
    *("question", "answer"),
)
_FORMULA = re.compile(r'^(?=[\t\r])|((?:^|[;\t\r\n])"*)(?=[=+\-@＝＋－＠])')
"""Where a cell begins that a spreadsheet would run, also inside a text: many part cells at a semicolon, too, and then know no text in
quotes, which ends with its line. https://owasp.org/www-community/attacks/CSV_Injection
"""
_STATUS = re.compile(r"[1-5]\d\d|[1-5]xx")
PATH = "/dashboard/exchanges"
EXCHANGES_CUTS = (
    Cut(f'<form method="get" action="{PATH}"'),
    Cut('<section id="found"', wait_s=0.1, meanwhile='<p class="looking" role="status">Looking through the exchanges …</p>'),
)
"""Where the page may leave in parts: its frame at once, its filters when the search takes long."""


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """What the address narrows the list to, by the names of `_FILTERS`; "" is everything. Raises `InvalidRequest`."""
    found = {name: query.get(name, "").strip() for name in _FILTERS}
    check_choice("verdict", found["verdict"], _VERDICTS)
    check_choice("within", found["within"], ("", *WITHIN_S))
    check_choice("sort", found["sort"], tuple(SORTS))
    check_choice("label", found["label"], ("", *STATEMENT_LABELS))
    found["view"] = found["view"][:_MAX_VIEW_CHARS]
    if found["status"] and _STATUS.fullmatch(found["status"].lower()) is None:
        raise InvalidRequest("status: expected a number, as 502, or a kind of them, as 5xx", param="status")
    search_filters(found, 0.0)
    return found


def search_filters(filters: Mapping[str, str], now: float) -> ExchangeFilters:
    """The same for the store. Raises `InvalidRequest`."""
    since, until = seconds_of(filters["since"], "since"), seconds_of(filters["until"], "until")
    back_s, verdict, reasons = WITHIN_S.get(filters["within"]), filters["verdict"], codes_alike(filters["reason"])
    if verdict == "housekeeping":
        reasons = tuple(code for code in sorted(HOUSEKEEPING) if not reasons or code in reasons) or ("none",)
    return ExchangeFilters(
        route={"": None, "/": ""}.get(filters["route"], filters["route"]),
        run=filters["run"],
        client=filters["client"],
        model=filters["model"],
        policy=filters["policy"],
        upstream=filters["upstream"],
        outcome="warn" if verdict in ("warned", "housekeeping") else verdict,
        reasons=reasons,
        without_warnings=tuple(sorted(HOUSEKEEPING)) if verdict in _AGAINST else (),
        stage=filters["stage"],
        label=filters["label"],
        max_faithfulness=_least(filters, "faithfulness"),
        status=filters["status"].lower(),
        min_tokens=_least(filters, "tokens"),
        min_usd=_least(filters, "usd"),
        min_ms=_least(filters, "ms"),
        since=since if back_s is None else max(since or 0.0, now - back_s),
        until=until,
        text=filters["q"],
    )


def _least(filters: Mapping[str, str], name: str) -> float | None:
    try:
        found = float(filters[name].replace(",", "") or "nan")
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf") and filters[name]:
        raise InvalidRequest(f"{name}: expected a number from 0 on", param=name)
    return found if filters[name] else None


def exchanges_page(
    found: ExchangePage, said: Sequence[Feedback], filters: Mapping[str, str], after: str, parts: AdminParts
) -> dict[str, Any]:
    """What ``exchanges.html`` shows of a search, and what people `said` of the exchanges it found."""
    reviewed = {one.record_id: f"a person called this {one.said}" for one in sorted(said, key=lambda one: one.said)}  # wrong counts more
    rows = [structs.replace(summary(row), reviewed=reviewed.get(row.id, "")) for row in found.rows]
    given = {name: value for name, value in filters.items() if value}
    return {
        "filters": filters,
        "given": given,
        "rows": rows,
        "after": after,
        "newer": with_query(PATH, **given) if after else None,
        "older": with_query(PATH, **given, after=found.next) if found.next else None,
        "looked_back_to": found.looked_back_to,
        "sorted_of": found.sorted_of if filters["sort"] else None,
        "sorts": SORTS,
        "routes": sorted({prefix or "/" for prefix in parts.routes} | {s.route for s in rows}),
        "policies": sorted({s.policy.partition("@")[0] for s in rows if s.policy}),
        "upstreams": sorted({s.upstream for s in rows if s.upstream}),
        "stages": [("", "any"), *((stage.name, stage.name.replace("_", " ")) for stage in parts.stages if stage.checks)],
        "labels": [("", "any"), *((label, label) for label in STATEMENT_LABELS)],
        "reasons": _reasons(filters["reason"]),
        "bodies": parts.bodies or any(s.question for s in rows) or bool(filters["q"]),
    }


def _reasons(chosen: str) -> list[tuple[str, str]]:
    """Each phrase once, though several codes may have it: one of them stands for all (`codes_alike`)."""
    by_words = {in_words(code): code for code in [*reversed(REASONS), chosen] if code}
    return [("", "any"), *((code, words) for words, code in sorted(by_words.items()))]


# ---- a list as a file ----


async def export_lines(search: ExchangeSearch, filters: ExchangeFilters, form: str) -> AsyncIterator[bytes]:
    """The file's bytes, newest first, `MAX_ROWS` at most; the last line says so where a store that went away cut it short."""
    written = _csv if form == "csv" else _json_lines
    if form == "csv":
        yield _csv([dict(zip(_COLUMNS, _COLUMNS, strict=True))])
    after, left = "", MAX_ROWS
    while left > 0:
        try:
            page = await search.page(filters, min(_READ_AT_ONCE, left), after)
        except StoreUnavailable as error:
            yield written([{"id": f"cut short: {error}"}])
            return
        yield written([_object(record) for record in page.rows])
        after, left = page.next, left - len(page.rows)
        if not after:
            return


def _object(record: Record) -> dict[str, Any]:
    own = {"time": datetime.fromtimestamp(record.created_at, UTC).isoformat(timespec="milliseconds"), "verdict": outcome_of(record)}
    return {name: own[name] if name in own else getattr(record, name) for name in _COLUMNS}


def _json_lines(objects: Sequence[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(one) + b"\n" for one in objects)


def _csv(objects: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    csv.DictWriter(text, _COLUMNS).writerows({name: _cell(value) for name, value in one.items()} for one in objects)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    return _FORMULA.sub(r"\1'", value) if isinstance(value, str) else value
