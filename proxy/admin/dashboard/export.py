"""A list of exchanges as a file: CSV for a spreadsheet, JSON Lines for a program. It is written page by page, as it is read."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from proxy.admin.dashboard.summaries import outcome_of
from proxy.errors import StoreUnavailable
from proxy.store.exchange_search import ExchangeFilters, ExchangeSearch
from proxy.store.records import Record

MAX_ROWS = 100_000
_PAGE = 500
_COLUMNS = (
    *("id", "time", "route", "run_id", "step_id", "client", "policy", "upstream", "model", "verdict", "reason", "would"),
    *("status", "stream", "prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd", "duration_ms", "overhead_ms"),
    *("question", "answer"),
)
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would run; https://owasp.org/www-community/attacks/CSV_Injection."""


async def exported(search: ExchangeSearch, filters: ExchangeFilters, form: str) -> AsyncIterator[bytes]:
    """The file's bytes, newest first, `MAX_ROWS` at most; the last line says so where a store that went away cut it short."""
    if form == "csv":
        yield _csv([_COLUMNS])
    after, left = "", MAX_ROWS
    while left > 0:
        try:
            page = await search.page(filters, min(_PAGE, left), after)
        except StoreUnavailable as error:
            yield _lines(form, [{"id": f"cut short: {error}"}])
            return
        yield _lines(form, [_object(record) for record in page.rows])
        after, left = page.next, left - len(page.rows)
        if not after:
            return


def _lines(form: str, objects: Sequence[dict[str, Any]]) -> bytes:
    if form == "csv":
        return _csv([[_cell(one.get(name)) for name in _COLUMNS] for one in objects])
    return b"".join(msgspec.json.encode(one) + b"\n" for one in objects)


def _object(record: Record) -> dict[str, Any]:
    own = {"time": datetime.fromtimestamp(record.created_at, UTC).isoformat(timespec="milliseconds"), "verdict": outcome_of(record)}
    return {name: own[name] if name in own else getattr(record, name) for name in _COLUMNS}


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8", "replace")


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
