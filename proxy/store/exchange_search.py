"""Looks for exchanges by anything that a list shows of them, newest first, in steps that stay short however large the store is.

Filters are looked at in windows of the index ``records_line``, which holds all columns that they name: each window is larger than the one
before, and when the time is up the page says how far it has looked, and where the next one goes on. A run and a client have indexes of
their own. Where the first window has little, PostgreSQL is asked once for all that there is (`_few`): it knows of each megabyte of its
records what may be in it, so that a value which is nowhere, or in few places, takes milliseconds, however many records there are.

Policy and upstream are in no index, and are read from the rows of smaller windows. Words are looked for in the bodies, and a stage, a
label and a faithfulness in the details, of those exchanges that the other filters let through (``docs/decisions/words.md`` says why no
index holds them). Sorted by faithfulness are the newest `SORTED` of them, or fewer where the time is up: the page says how many.

A cursor is ``SECONDS~ID`` of the last exchange that was looked at, whether or not that exists any more.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import BigInteger, Column, ColumnElement, Select, and_, func, literal_column, or_, select

from proxy.errors import InvalidRequest, StoreUnavailable
from proxy.exchange import QUIET
from proxy.store.database import Database
from proxy.store.records import INTERRUPTED, Record, from_row
from proxy.store.tables import TOKENS, WITH_BODIES, WOULD_ACT, are_only, clean
from proxy.store.tables import records as table

LOOK_S = 0.15
"""How long a page may look: with what it takes to read its rows it is there within 300 ms."""
_LOOK_SQLITE_S = 1.2
"""Nothing but windows helps there."""
_FEW_MS = 150
"""How long PostgreSQL may take for all that there is."""
_MANY = 2000
"""Exchanges that are no longer few: windows find a page of them soon."""
_FEW_ONLY = select(
    *(
        func.set_config(name, value, literal_column("true"))
        for name, value in {
            "statement_timeout": f"{_FEW_MS}ms",
            "plan_cache_mode": "force_custom_plan",
            **dict.fromkeys(("enable_seqscan", "enable_indexscan", "enable_indexonlyscan", "jit"), "off"),
        }.items()
    )
)
"""For a transaction: what is asked for is read by what indexes say of places, and not along the line until enough is found."""
_CANCELLED = "57014"
_MAX_INT = 2**63 - 1
_FIRST_WINDOW, _LARGEST_WINDOW = 2000, 400_000
"""Exchanges; a window of the largest size takes about a tenth of a second on SQLite. Where bodies are read, the first size is kept."""
_ROW_WINDOW = 20_000
"""The largest where each exchange's row is read."""
SORTED = 5000
"""Exchanges that a page sorts: read and sorted in some tenths of a second."""
_TEXT_BATCH = 100
"""Exchanges whose bodies are read at once."""
_LISTED = [column for column in table.columns if column.name not in ("size_bytes", "request_body", "answer_body")]
UNDECIDED = ("unsure", "unchecked")
"""Outcomes of an answer of which nobody knows whether it holds."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "undecided": UNDECIDED,
    "caught": ("warn", "block"),
    "failed": ("error", "upstream_error", INTERRUPTED),
}

Place = tuple[float, str]
"""Of an exchange in the order of time: when it came, and its id."""


class ExchangeFilters(Struct, frozen=True, kw_only=True):
    """What exchanges have to be like; what is not given does not matter."""

    route: str | None = None
    """The prefix; "" for the route without one."""
    run: str = ""
    client: str = ""
    model: str = ""
    policy: str = ""
    """Its name, of every version; or ``NAME@hash8``."""
    upstream: str = ""
    outcome: str = ""
    """A verdict; ``undecided``, ``caught`` (refused or warned of), ``failed`` (by the provider, or as a check could not run), ``problem``
    for all that are bad news; ``would``: in shadow mode, but the policy would have acted."""
    reasons: Sequence[str] = ()
    """Any of these codes."""
    without_warnings: Sequence[str] = ()
    """Not those that were warned of with one of these codes; who was refused with one is among them."""
    stage: str = ""
    """A stage that warned, refused or failed."""
    label: str = ""
    """Of a statement of the answer."""
    max_faithfulness: float | None = None
    status: str = ""
    """``200``, or ``5xx``."""
    min_tokens: float | None = None
    """Of prompt and answer together."""
    min_usd: float | None = None
    min_ms: float | None = None
    since: float | None = None
    """Seconds since the epoch, inclusive; `until` is not."""
    until: float | None = None
    text: str = ""
    """Words that all stand in its bodies; those in double quotes stand together. Case does not matter."""


class ExchangePage(Struct, frozen=True):
    """Some exchanges, and where to go on."""

    rows: list[Record]
    next: str
    """Cursor of what is older; "" where there is nothing."""
    looked_back_to: float | None = None
    """Where the time was up before the page was full: when the last exchange that was looked at came."""
    sorted_of: int = 0
    """How many were sorted, for a page of the first of them."""


class _Facts(Struct, frozen=True):
    """What is looked for in a detail."""

    faithfulness: float | None = None
    claims: Mapping[str, int] | None = None


class _Verdict(Struct, frozen=True):
    stage: str = ""
    outcome: str = ""


class _Detail(Struct, frozen=True):
    facts: _Facts | None = None
    verdicts: Sequence[_Verdict] = ()


_decode = msgspec.json.Decoder(_Detail).decode
_Fits = Callable[[Sequence[Any]], bool]
"""Whether the columns of an exchange that are read for it are as wanted."""


class ExchangeSearch:
    """Finds exchanges."""

    def __init__(self, database: Database, *, look_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`look_s` is how long a page may look."""
        self._database, self._clock = database, clock
        self._look_s = look_s if look_s is not None else _LOOK_SQLITE_S if database.is_sqlite else LOOK_S

    async def page(self, filters: ExchangeFilters, limit: int, after: str = "") -> ExchangePage:
        """At most `limit` exchanges older than the cursor `after`, without bodies. Raises `InvalidRequest`, `StoreUnavailable`."""
        found, next_, looked_back_to = await self._walk(filters, limit, place_of(after) if after else None)
        return ExchangePage(await self._rows(found), next_, looked_back_to)

    async def least_faithful(self, filters: ExchangeFilters, limit: int) -> ExchangePage:
        """Of the newest `SORTED` at most, the `limit` whose faithfulness is the lowest. Raises `StoreUnavailable`."""
        places, next_, looked_back_to = await self._walk(filters, SORTED, None)
        if next_ and looked_back_to is None and places:
            looked_back_to = places[-1][0]
        scores: list[tuple[float, str]] = []
        for i in range(0, len(places), _FIRST_WINDOW):
            rows = await self._contents(places[i : i + _FIRST_WINDOW], [table.c.detail])
            scores += await asyncio.to_thread(_scores, rows)
        order = {name: i for i, (_, name) in enumerate(sorted(scores)[:limit])}
        records = await self._rows([place for place in places if place[1] in order])
        return ExchangePage(sorted(records, key=lambda row: order[row.id]), "", looked_back_to, sorted_of=len(scores))

    async def _walk(self, filters: ExchangeFilters, limit: int, start: Place | None) -> tuple[list[Place], str, float | None]:
        """At most `limit` places older than `start`, where to go on, and how far back it looked if the time was up."""
        wanted, by_row = _conditions(filters, self._database.is_sqlite), _row_conditions(filters)
        columns, fits = _contents_wanted(filters)
        largest = _FIRST_WINDOW if columns else _ROW_WINDOW if by_row else _LARGEST_WINDOW
        found, window, deadline = list[Place](), _FIRST_WINDOW, self._clock() + self._look_s
        asks = bool(wanted) and not columns and not self._database.is_sqlite
        wanted += by_row
        while True:
            if asks and window > _FIRST_WINDOW:
                asks = False
                if (few := await self._few(filters, wanted, start)) is not None:
                    found = [*found, *few]
                    return found[:limit], cursor_of(found[limit - 1]) if len(found) > limit else "", None
            end = await self._end(filters, start, window)
            places, most = self._places(filters, wanted, start, end), limit + 1 - len(found)
            found += await self._with_contents(places, columns, fits, most) if columns else await self._all(places, most)
            if len(found) > limit:
                return found[:limit], cursor_of(found[limit - 1]), None
            if end is None:
                return found, "", None
            start, window = end, min(window * 4, largest)
            if self._clock() > deadline:
                return found, cursor_of(end), end[0]

    async def _few(self, filters: ExchangeFilters, wanted: Sequence[ColumnElement[bool]], start: Place | None) -> list[Place] | None:
        """All that are as wanted, in order; None where they are many, or take too long."""
        few = self._looked_at(filters, start).where(*wanted).order_by(None).limit(_MANY)
        try:
            async with self._database.transaction() as connection:
                await connection.execute(_FEW_ONLY)
                rows = (await connection.execute(few)).all()
        except StoreUnavailable as error:
            if getattr(getattr(error.__cause__, "orig", None), "sqlstate", None) == _CANCELLED:
                return None
            raise
        return sorted(((float(at), str(name)) for at, name in rows), reverse=True) if len(rows) < _MANY else None

    async def _end(self, filters: ExchangeFilters, start: Place | None, window: int) -> Place | None:
        """The last place of a window; None where there are fewer exchanges."""
        row = await self._all(self._looked_at(filters, start).offset(window - 1), 1)
        return row[0] if row else None

    def _looked_at(self, filters: ExchangeFilters, start: Place | None) -> Select[Any]:
        """All of the time in order, or those that have an index of their own."""
        c, query = table.c, select(table.c.created_at, table.c.id)
        if filters.run:
            query = query.where(c.run_id == clean(filters.run))
        if _is_alone(filters):
            query = query.where(c.client == clean(filters.client))
        if filters.text:
            query = query.where(literal_column(f"({WITH_BODIES})"))
        if filters.outcome == "would":
            query = query.where(literal_column(WOULD_ACT))
        if filters.since is not None:
            query = query.where(c.created_at >= filters.since)
        if filters.until is not None:
            query = query.where(c.created_at < filters.until)
        if start is not None:
            # The first condition is what an index can begin at; the second alone would look through all that was read before.
            query = query.where(c.created_at <= start[0], or_(c.created_at < start[0], c.id < start[1]))
        return query.order_by(c.created_at.desc(), c.id.desc())

    def _places(
        self, filters: ExchangeFilters, wanted: Sequence[ColumnElement[bool]], start: Place | None, end: Place | None
    ) -> Select[Any]:
        """Those of a window that are as wanted."""
        c, query = table.c, self._looked_at(filters, start).where(*wanted)
        if end is None:
            return query
        return query.where(c.created_at >= end[0], or_(c.created_at > end[0], c.id >= end[1]))

    async def _all(self, query: Select[Any], most: int) -> list[Place]:
        rows = await self._database.rows(query.limit(most))
        return [(float(at), str(name)) for at, name in rows]

    async def _with_contents(self, query: Select[Any], columns: Sequence[Column[Any]], fits: _Fits, most: int) -> list[Place]:
        """Those whose bodies or details are as wanted."""
        found: list[Place] = []
        places = await self._all(query, _FIRST_WINDOW)
        for i in range(0, len(places), _TEXT_BATCH):
            some = places[i : i + _TEXT_BATCH]
            rows = await self._contents(some, columns)
            having = await asyncio.to_thread(_having, rows, fits)
            found += [place for place in some if place[1] in having]
            if len(found) >= most:
                break
        return found[:most]

    async def _contents(self, places: Sequence[Place], columns: Sequence[Column[Any]]) -> Sequence[Any]:
        query = select(table.c.id, *columns).where(table.c.id.in_([name for _, name in places]))
        return await self._database.rows(query)

    async def _rows(self, places: Sequence[Place]) -> list[Record]:
        if not places:
            return []
        query = select(*_LISTED).where(table.c.id.in_([name for _, name in places]))
        rows = await self._database.mappings(query)
        return sorted((from_row(row) for row in rows), key=lambda one: (one.created_at, one.id), reverse=True)


def words_of(text: str) -> list[str]:
    """What has to stand in a body, as JSON writes it: words, and what double quotes hold together."""
    quoted, found = text.split('"'), list[str]()
    for i, part in enumerate(quoted):
        found += [part.strip()] if i % 2 and i < len(quoted) - 1 else part.split()
    return [json.dumps(word, ensure_ascii=False)[1:-1].casefold() for word in found if word]


def place_of(cursor: str) -> Place:
    """Of a cursor. Raises `InvalidRequest`."""
    at, _, name = cursor.partition("~")
    try:
        return float(at), clean(name)
    except ValueError:
        raise InvalidRequest("after: expected what a page's link to older exchanges has there", param="after") from None


def cursor_of(place: Place) -> str:
    """To go on behind this place."""
    return f"{place[0]!r}~{place[1]}"


def _is_alone(filters: ExchangeFilters) -> bool:
    """Whether the client is all that is wanted, but for times: then its own index is read."""
    return bool(filters.client) and filters == ExchangeFilters(client=filters.client, since=filters.since, until=filters.until)


def _having(rows: Sequence[Any], fits: _Fits) -> set[str]:
    return {str(name) for name, *values in rows if fits(values)}


def _contents_wanted(filters: ExchangeFilters) -> tuple[list[Column[Any]], _Fits]:
    """What has to be read of each exchange, and whether it is as wanted; no columns where nothing has."""
    words, c = words_of(filters.text), table.c
    bodies = [c.request_body, c.answer_body] if words else []
    in_detail = bool(filters.stage or filters.label or filters.max_faithfulness is not None)

    def fits(values: Sequence[Any]) -> bool:
        text = "\n".join(bytes(body).decode("utf-8", "replace").casefold() for body in values[: len(bodies)] if body is not None)
        return all(word in text for word in words) and (not in_detail or _detail_fits(filters, values[-1]))

    return [*bodies, *([c.detail] if in_detail else [])], fits


def _detail_fits(filters: ExchangeFilters, stored: bytes) -> bool:
    detail, most = _read(stored), filters.max_faithfulness
    facts = detail.facts or _Facts()
    if most is not None and (facts.faithfulness is None or facts.faithfulness > most):
        return False
    if filters.label and not (facts.claims or {}).get(filters.label):
        return False
    return not filters.stage or any(one.stage == filters.stage and one.outcome not in QUIET for one in detail.verdicts)


def _scores(rows: Sequence[Any]) -> list[tuple[float, str]]:
    """Faithfulness and id of those that have one."""
    found = [((_read(detail).facts or _Facts()).faithfulness, str(name)) for name, detail in rows]
    return [(score, name) for score, name in found if score is not None]


def _read(stored: bytes) -> _Detail:
    try:
        return _decode(bytes(stored))
    except msgspec.DecodeError:  # another version's, which nothing is known of
        return _Detail()


def _row_conditions(filters: ExchangeFilters) -> list[ColumnElement[bool]]:
    """On columns that are in no index."""
    return [are_only((name, value)) for name in ("policy", "upstream") if (value := getattr(filters, name))]


def _conditions(filters: ExchangeFilters, is_sqlite: bool) -> list[ColumnElement[bool]]:
    """On columns of the index alone."""
    c, found = table.c, list[ColumnElement[bool]]()
    if filters.route is not None:
        found.append(c.route == clean(filters.route))
    if filters.client and not _is_alone(filters):
        # As a plain column the client would have SQLite read the index on clients: each of its exchanges from its row.
        found.append((func.coalesce(c.client, "") if is_sqlite else c.client) == clean(filters.client))
    if filters.model:
        found.append(c.model == clean(filters.model))
    if filters.reasons:
        found.append(c.reason.in_([clean(reason) for reason in filters.reasons]))
    if filters.without_warnings:
        found.append(or_(c.outcome != "warn", c.reason.not_in([clean(reason) for reason in filters.without_warnings])))
    if filters.outcome == "problem":
        found.append(or_(c.outcome.in_(GROUPS["caught"] + GROUPS["failed"]), c.status >= 400))
    elif filters.outcome in GROUPS:
        found.append(c.outcome.in_(GROUPS[filters.outcome]))
    elif filters.outcome and filters.outcome != "would":
        found.append(c.outcome == clean(filters.outcome))
    if filters.status:
        first = int(filters.status[0]) * 100
        found.append(and_(c.status >= first, c.status < first + 100) if filters.status.endswith("xx") else c.status == int(filters.status))
    if filters.min_tokens is not None:
        found.append(literal_column(TOKENS, BigInteger) >= min(math.ceil(filters.min_tokens), _MAX_INT))
    if filters.min_usd is not None:
        found.append(c.cost_usd >= filters.min_usd)
    if filters.min_ms is not None:
        found.append(c.duration_ms >= filters.min_ms)
    return found
