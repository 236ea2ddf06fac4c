"""Looks for exchanges by anything that a list shows of them, newest first, in steps that stay short however large the store is.

Filters are looked at in windows of the index ``records_line``, which holds all columns that they name: each window is larger than the one
before, and when the time is up the page says how far it has looked, and where the next one goes on. A run and a client have indexes of
their own. Where the first window has little, PostgreSQL is asked once for all that there is (`_few`): it knows of each megabyte of its
records what may be in it, so that a value which is nowhere, or in few places, takes milliseconds, however many records there are.

Words are looked for in the bodies of those exchanges that have some and that the other filters let through
(``docs/decisions/words.md`` says why no index holds them).

A cursor is ``SECONDS~ID`` of the last exchange that was looked at, whether or not that exists any more.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, ColumnElement, Select, and_, func, literal_column, or_, select

from proxy.errors import InvalidRequest, StoreUnavailable
from proxy.store.database import Database
from proxy.store.records import INTERRUPTED, Record, from_row
from proxy.store.tables import TOKENS, WITH_BODIES, WOULD_ACT, clean
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
_TEXT_BATCH = 100
"""Exchanges whose bodies are read at once."""
_LISTED = [column for column in table.columns if column.name not in ("size_bytes", "request_body", "answer_body")]
_CAUGHT, _FAILED = ("warn", "block"), ("error", "upstream_error", INTERRUPTED)

Place = tuple[float, str]
"""Of an exchange in the order of time: when it came, and its id."""


class ExchangeFilters(Struct, frozen=True, kw_only=True):
    """What exchanges have to be like; what is not given does not matter."""

    route: str | None = None
    """The prefix; "" for the route without one."""
    run: str = ""
    client: str = ""
    model: str = ""
    outcome: str = ""
    """A verdict; ``caught`` (refused or warned of), ``failed`` (by the provider, or as a check could not run), ``problem`` for all that are
    bad news; ``would``: in shadow mode, but the policy would have acted."""
    reasons: Sequence[str] = ()
    """Any of these codes."""
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


class ExchangeSearch:
    """Finds exchanges."""

    def __init__(self, database: Database, *, look_s: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """`look_s` is how long a page may look."""
        self._database, self._clock = database, clock
        self._look_s = look_s if look_s is not None else _LOOK_SQLITE_S if database.is_sqlite else LOOK_S

    async def page(self, filters: ExchangeFilters, limit: int, after: str = "") -> ExchangePage:
        """At most `limit` exchanges older than the cursor `after`, without bodies. Raises `InvalidRequest`, `StoreUnavailable`."""
        wanted, words = _conditions(filters, self._database.is_sqlite), words_of(filters.text)
        start, found = place_of(after) if after else None, list[Place]()
        window, deadline = _FIRST_WINDOW, self._clock() + self._look_s
        asks = bool(wanted) and not words and not self._database.is_sqlite
        while True:
            if asks and window > _FIRST_WINDOW:
                asks = False
                if (few := await self._few(filters, wanted, start)) is not None:
                    found = [*found, *few]
                    more = len(found) > limit
                    return ExchangePage(await self._rows(found[:limit]), cursor_of(found[limit - 1]) if more else "")
            end = await self._end(filters, start, window)
            places, most = self._places(filters, wanted, start, end), limit + 1 - len(found)
            found += await self._with_words(places, words, most) if words else await self._all(places, most)
            if len(found) > limit:
                return ExchangePage(await self._rows(found[:limit]), cursor_of(found[limit - 1]))
            if end is None:
                return ExchangePage(await self._rows(found), "")
            start, window = end, window if words else min(window * 4, _LARGEST_WINDOW)
            if self._clock() > deadline:
                return ExchangePage(await self._rows(found), cursor_of(end), end[0])

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
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.limit(most))).all()
        return [(float(at), str(name)) for at, name in rows]

    async def _with_words(self, query: Select[Any], words: Sequence[str], most: int) -> list[Place]:
        """Those whose bodies have all the words."""
        found: list[Place] = []
        places = await self._all(query, _FIRST_WINDOW)
        for i in range(0, len(places), _TEXT_BATCH):
            some = places[i : i + _TEXT_BATCH]
            bodies = select(table.c.id, table.c.request_body, table.c.answer_body).where(table.c.id.in_([name for _, name in some]))
            async with self._database.transaction() as connection:
                rows = (await connection.execute(bodies)).all()
            having = await asyncio.to_thread(_having, rows, words)
            found += [place for place in some if place[1] in having]
            if len(found) >= most:
                break
        return found[:most]

    async def _rows(self, places: Sequence[Place]) -> list[Record]:
        if not places:
            return []
        query = select(*_LISTED).where(table.c.id.in_([name for _, name in places]))
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query)).mappings().all()
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


def _having(rows: Sequence[Any], words: Sequence[str]) -> set[str]:
    """Ids of those whose bodies have all the words."""
    found = set()
    for name, *bodies in rows:
        text = "\n".join(bytes(body).decode("utf-8", "replace").casefold() for body in bodies if body is not None)
        if all(word in text for word in words):
            found.add(name)
    return found


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
    if filters.outcome == "problem":
        found.append(or_(c.outcome.in_(_CAUGHT + _FAILED), c.status >= 400))
    elif filters.outcome in ("caught", "failed"):
        found.append(c.outcome.in_(_CAUGHT if filters.outcome == "caught" else _FAILED))
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
