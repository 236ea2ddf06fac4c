"""The store as a report reads it: opened read-only, without a server, leaving no trace.

Nothing is created and nothing migrated. In: a store's URL, a period, perhaps a route. Out: exchanges page by page, and counts of what is in
quarantine, clashed or failed. A SQLite file that no process has open (there is no ``-wal`` beside it) is read as immutable, as even a
read-only connection would leave files beside it otherwise (https://sqlite.org/wal.html#read_only_databases); `overtaken` says afterwards
whether a server has started to write meanwhile. On PostgreSQL every transaction is a read-only one.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import and_, func, or_, select
from sqlalchemy import exc as sa_errors
from sqlalchemy.pool import NullPool

from proxy.errors import StoreUnavailable
from proxy.store import sqlite as lite
from proxy.store.async_engine import AsyncEngine, create_async_engine
from proxy.store.database import Database
from proxy.store.schema import HEAD, current_revision
from proxy.store.tables import clashes, clean, failures, quarantine, records

PAGE = 1000
_TIMEOUT_S = 60.0
"""For one query: more than a server's operations get, as this one may go through all records."""


class ReadOnlyDatabase(Database):
    """A `Database` that changes nothing, and that gives up where that one would try on."""

    def __init__(self, url: str, *, timeout_s: float = 10.0, source: str = "config.yaml") -> None:
        """Raises `ConfigError` for a URL that cannot work."""
        super().__init__(url, timeout_s=timeout_s, source=source)
        self._immutable = False
        self._stamp: tuple[int, ...] = ()

    @property
    def overtaken(self) -> bool:
        """Whether the file was read as one that nobody writes, and somebody has written."""
        return self._immutable and (self._is_open_elsewhere() or self._stamp != self._stamped())

    async def start(self) -> None:
        """Connect. Raises `StoreUnavailable`: no store, no tables, tables of another version, no answer."""
        try:
            await self._open()
        except StoreUnavailable:
            await self._dispose()
            raise
        except (sa_errors.SQLAlchemyError, sqlite3.Error, OSError, TimeoutError) as error:
            await self._dispose()
            raise StoreUnavailable(f"the store {self.name} cannot be read: {self._words(error)}") from error
        self.available, self.problem = True, ""

    async def _open(self) -> None:
        if self.is_sqlite:
            self._find_file()
        self._engine = self._make_engine()
        async with asyncio.timeout(self.timeout_s), self._engine.connect() as connection:
            current = await connection.run_sync(current_revision)
        if current is None:
            raise StoreUnavailable(f"the store {self.name} has no tables yet: no server has used it")
        if current != HEAD:
            advice = "start the server once, which brings it up to date" if current < HEAD else "it is used by a newer groundwire"
            raise StoreUnavailable(f"the tables of the store {self.name} are of revision {current}, expected {HEAD}: {advice}")

    def _find_file(self) -> None:
        if self._path is None:
            raise StoreUnavailable(f"the store {self.name} is in a server's memory: only that server can be asked for it")
        if not Path(self._path).is_file():
            raise StoreUnavailable(f"there is no store at {Path(self._path).absolute()}")
        self._immutable = not self._is_open_elsewhere()
        self._identity, self._stamp = lite.file_identity(self._path), self._stamped()

    def _is_open_elsewhere(self) -> bool:
        return Path(f"{self._path}-wal").exists()

    def _stamped(self) -> tuple[int, ...]:
        try:
            found = Path(self._path or "").stat()
        except OSError:
            return ()
        return found.st_size, found.st_mtime_ns

    def _make_engine(self) -> AsyncEngine:
        if not self.is_sqlite:
            settings = {"default_transaction_read_only": "on", "application_name": "groundwire report"}
            connect = {"timeout": self.timeout_s, "server_settings": settings}
            return create_async_engine(self._url, hide_parameters=True, poolclass=NullPool, connect_args=connect)
        import aiosqlite

        options = "mode=ro&immutable=1" if self._immutable else "mode=ro"
        uri = f"file:{quote(str(Path(self._path or '').absolute()))}?{options}"

        def connect_file() -> Any:
            return aiosqlite.connect(uri, uri=True, timeout=self.timeout_s)

        return create_async_engine(self._url, hide_parameters=True, poolclass=NullPool, async_creator=connect_file)

    def _lost(self, problem: str) -> StoreUnavailable:
        """Nothing is tried again."""
        return StoreUnavailable(f"the store cannot be read: {problem}")


class StoreReading:
    """What a report asks of a store."""

    def __init__(self, database: Database, route: str | None = None) -> None:
        """`route` is a prefix, "" for the route without one; None for all."""
        self._database, self._route = database, route

    async def exchanges(self, since: float, until: float, columns: Sequence[str] = ("id", "created_at")) -> AsyncIterator[Sequence[Any]]:
        """Pages of the exchanges that came in [since, until), the newest first; `id` and `created_at` must be among the columns.

        Raises `StoreUnavailable`.
        """
        c, last = records.c, None
        while True:
            query = select(*(c[name] for name in columns)).where(c.created_at >= since, c.created_at < until)
            if self._route is not None:
                query = query.where(c.route == clean(self._route))
            if last is not None:
                # The first condition is what an index can begin at; the second alone would look through all that was read before.
                at, seen = last.created_at, last.id
                query = query.where(c.created_at <= at, or_(c.created_at < at, and_(c.created_at == at, c.id < seen)))
            async with self._database.transaction(_TIMEOUT_S) as connection:
                rows = (await connection.execute(query.order_by(c.created_at.desc(), c.id.desc()).limit(PAGE))).all()
            if rows:
                yield rows
            if len(rows) < PAGE:
                return
            last = rows[-1]

    async def pieces(self, since: float, until: float) -> list[tuple[str, str, int]]:
        """Pieces that came into quarantine in [since, until): type, status now, how many. Raises `StoreUnavailable`."""
        q = quarantine.c
        query = select(q.type, q.status, func.count()).where(q.created_at >= since, q.created_at < until, *self._of_route(q.record_id))
        return [(kind, status, int(number)) for kind, status, number in await self._rows(query.group_by(q.type, q.status))]

    async def clashes(self, since: float, until: float) -> list[tuple[str, str, str, int]]:
        """Clashes found in [since, until): type, status now, who resolved it, how many. Raises `StoreUnavailable`."""
        c = clashes.c
        query = select(c.type, c.status, c.resolved_by, func.count()).where(
            c.created_at >= since, c.created_at < until, *self._of_route(c.record_id)
        )
        found = await self._rows(query.group_by(c.type, c.status, c.resolved_by))
        return [(kind, status, by, int(number)) for kind, status, by, number in found]

    async def failures(self, since: float, until: float) -> list[tuple[str, str, int]]:
        """Failures of runs first seen in [since, until): signal, status now, how many. Raises `StoreUnavailable`."""
        f = failures.c
        query = select(f.signal_type, f.status, func.count()).where(f.created_at >= since, f.created_at < until)
        if self._route is not None:
            query = query.where(select(records.c.id).where(records.c.run_id == f.run_id, records.c.route == clean(self._route)).exists())
        return [(signal, status, int(number)) for signal, status, number in await self._rows(query.group_by(f.signal_type, f.status))]

    async def waiting(self) -> int:
        """Pieces in quarantine that wait for a decision now. Raises `StoreUnavailable`."""
        q = quarantine.c
        rows = await self._rows(select(func.count()).select_from(quarantine).where(q.status == "pending", *self._of_route(q.record_id)))
        return int(rows[0][0])

    async def newest(self) -> float | None:
        """When the last exchange came, whatever the period; None where there is none. Raises `StoreUnavailable`."""
        query = select(func.max(records.c.created_at))
        if self._route is not None:
            query = query.where(records.c.route == clean(self._route))
        rows = await self._rows(query)
        return None if rows[0][0] is None else float(rows[0][0])

    async def _rows(self, query: Any) -> Sequence[Any]:
        async with self._database.transaction(_TIMEOUT_S) as connection:
            return (await connection.execute(query)).all()

    def _of_route(self, record_id: Any) -> list[Any]:
        """That what was first seen in `record_id` came by the route; it is not told apart once that record has gone."""
        if self._route is None:
            return []
        return [select(records.c.id).where(records.c.id == record_id, records.c.route == clean(self._route)).exists()]
