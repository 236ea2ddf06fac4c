"""The list of exchanges: filters by all that it shows, words in bodies, pages, and what is downloaded of it. An address has it all."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from proxy.admin.dashboard.rendering import Cut, check_choice, seconds_of, with_query
from proxy.admin.dashboard.summaries import REASONS, SIGNS, codes_alike, in_words, outcome_of, summary
from proxy.errors import InvalidRequest, StoreUnavailable
from proxy.store.exchange_search import ExchangeFilters, ExchangePage, ExchangeSearch
from proxy.store.records import Record

PER_PAGE = 50
WITHIN_S = {"15m": 900.0, "1h": 3600.0, "1d": 86_400.0, "7d": 7 * 86_400.0, "30d": 30 * 86_400.0}
FORMATS = ("csv", "jsonl")
"""What a list can be downloaded as."""
_FILTERS = (
    *("q", "route", "model", "client", "verdict", "within", "run", "status", "reason"),
    *("tokens", "usd", "ms"),  # at least
    *("since", "until"),  # a minute in UTC, as a browser's field for it gives it: 2026-02-03T14:05
)
_VERDICTS = ("", *SIGNS, "problem", "caught", "failed", "would")
MAX_ROWS = 100_000
_READ_AT_ONCE = 500
_COLUMNS = (
    *("id", "time", "route", "run_id", "step_id", "client", "policy", "upstream", "model", "verdict", "reason", "would"),
    *("status", "stream", "prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd", "duration_ms", "overhead_ms"),
    *("question", "answer"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would run; https://owasp.org/www-community/attacks/CSV_Injection."""
_STATUS = re.compile(r"[1-5]\d\d|[1-5]xx")
PATH = "/dashboard/exchanges"
CUTS = (
    Cut(f'<form method="get" action="{PATH}"'),
    Cut('<section id="found"', wait_s=0.1, meanwhile='<p class="looking" role="status">Looking through the exchanges …</p>'),
)
"""Where the page may leave in parts: its frame at once, its filters when the search takes long."""


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """What the address narrows the list to, by the names of `_FILTERS`; "" is everything. Raises `InvalidRequest`."""
    found = {name: query.get(name, "").strip() for name in _FILTERS}
    check_choice("verdict", found["verdict"], _VERDICTS)
    check_choice("within", found["within"], ("", *WITHIN_S))
    if found["status"] and _STATUS.fullmatch(found["status"].lower()) is None:
        raise InvalidRequest("status: expected a number, as 502, or a kind of them, as 5xx", param="status")
    search_filters(found, 0.0)
    return found


def search_filters(filters: Mapping[str, str], now: float) -> ExchangeFilters:
    """The same for the store. Raises `InvalidRequest`."""
    since, until = seconds_of(filters["since"], "since"), seconds_of(filters["until"], "until")
    back_s = WITHIN_S.get(filters["within"])
    return ExchangeFilters(
        route={"": None, "/": ""}.get(filters["route"], filters["route"]),
        run=filters["run"],
        client=filters["client"],
        model=filters["model"],
        outcome=filters["verdict"],
        reasons=codes_alike(filters["reason"]),
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


def exchanges_page(found: ExchangePage, filters: Mapping[str, str], after: str, routes: Sequence[str], bodies: bool) -> dict[str, Any]:
    """What ``exchanges.html`` shows of a search; `routes` are the prefixes that clients can call, `bodies` says whether texts are kept."""
    rows, given = [summary(row) for row in found.rows], {name: value for name, value in filters.items() if value}
    return {
        "filters": filters,
        "given": given,
        "rows": rows,
        "after": after,
        "newer": with_query(PATH, **given) if after else None,
        "older": with_query(PATH, **given, after=found.next) if found.next else None,
        "looked_back_to": found.looked_back_to,
        "routes": sorted({prefix or "/" for prefix in routes} | {s.route for s in rows}),
        "reasons": _reasons(filters["reason"]),
        "bodies": bodies or any(s.question for s in rows) or bool(filters["q"]),
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
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
