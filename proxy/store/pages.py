"""The store as pages and reports use it: with PostgreSQL they read in a pool of their own, and at a replica if there is one.

Their queries take long and may wait; what they write (a decision, feedback, a key, a sum) is small, and goes with what requests write. What
follows from a read (the figures' builder, a list on which a person decides) is read at the primary; lists of exchanges, figures and reports
are read at the replica, which may be a moment behind. While that is away, or its replay stands still, they are read at the primary.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import TextClause, text

from proxy.errors import ConfigError, StoreUnavailable
from proxy.ports.background import RepeatedTask
from proxy.store import schema
from proxy.store.database import Database
from proxy.store.drivers import AsyncConnection, AsyncEngine

log = logging.getLogger(__name__)

PAGES_S = 30.0
"""For an operation of a page, as `Database.timeout_s`."""
REPLICA = "store.replica_url"
MAX_LAG_S, LOOK_S = 60.0, 5.0
"""A standby further behind is not read; how often its lag is measured. A long query may rightly stop the replay for half as long:
https://www.postgresql.org/docs/current/runtime-config-replication.html#GUC-MAX-STANDBY-STREAMING-DELAY"""
_WRITTEN = text("SELECT CASE WHEN NOT pg_is_in_recovery() THEN CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') AS BIGINT) END")
_REPLAYED = text("SELECT CASE WHEN pg_is_in_recovery() THEN CAST(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0') AS BIGINT) END")
"""Bytes of the write-ahead log; NULL at a server that is not the primary, and not a standby."""


class PagesDatabase(Database):
    """Another pool of the same database, which only reads."""

    def __init__(
        self, url: str, requests: Database, *, used_by: str = "pages", source: str = "config.yaml", path: str = "store.url"
    ) -> None:
        super().__init__(url, timeout_s=PAGES_S, used_by=used_by, clock=requests.clock, source=source, path=path)
        self._requests = requests

    @asynccontextmanager
    async def writing(self, *, reads: bool = True, alone: bool = False, timeout_s: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection of the requests' pool. Raises as theirs does."""
        async with self._requests.writing(reads=reads, alone=alone, timeout_s=timeout_s) as connection:
            yield connection

    async def put(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """With a connection of the requests' pool. Raises as theirs does."""
        await self._requests.put(statement, rows)


class ReplayLag:
    """How long a standby has been without what the primary had written: by this process's clock alone, and 0 where nothing is written."""

    def __init__(self) -> None:
        self._awaited = (-1, 0.0)
        """A position in the primary's log, and when it was read there."""

    def measure_s(self, written: int, replayed: int, now: float) -> float:
        """The two servers' positions, in bytes, as read after `now`, by `time.monotonic`. Short by the pause between two calls at most."""
        if replayed >= self._awaited[0] or self._awaited[0] < 0:
            self._awaited = (written, now)
        return now - self._awaited[1]


class Replica(PagesDatabase):
    """A hot standby, in whose place the primary is read while it is away or behind; nothing is written and nothing migrated there.

    https://www.postgresql.org/docs/current/hot-standby.html
    """

    def __init__(
        self,
        url: str,
        pages: Database,
        requests: Database,
        *,
        source: str = "config.yaml",
        max_lag_s: float = MAX_LAG_S,
        look_s: float = LOOK_S,
    ) -> None:
        """`pages` is the primary's pool. Raises `ConfigError` for a URL that is none of PostgreSQL's, or beside another store."""
        if pages.is_sqlite:
            raise ConfigError(source, REPLICA, "store.url is SQLite, which has no replica; expected PostgreSQL there")
        super().__init__(url, requests, used_by="replica", source=source, path=REPLICA)
        if self.is_sqlite:
            raise ConfigError(source, REPLICA, "expected postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE")
        self._pages = pages
        self._max_lag_s, self._look_s = max_lag_s, look_s
        self._lag = ReplayLag()
        self._is_behind = False
        problem = f"store {self.name}: its lag was not measured"
        self._looks = RepeatedTask(self._look, look_s, name="replica-lag", problem=problem, log=log, end_s=1.0)

    @property
    def name(self) -> str:
        """As of every store."""
        return f"replica {super().name}"

    @property
    def is_read(self) -> bool:
        """Whether it is, and not the primary. One that is behind is better than a primary that is away."""
        return self.available and not (self._is_behind and self._pages.available)

    async def start(self) -> None:
        """As the base class's, and measure its lag from then on."""
        await super().start()
        self._looks.start(self._look_s)

    async def stop(self) -> None:
        """As the base class's."""
        await self._looks.stop()
        await super().stop()

    @asynccontextmanager
    async def transaction(self, timeout_s: float | None = None) -> AsyncIterator[AsyncConnection]:
        """For reading only. Raises as the base class's."""
        if not self.is_read:
            async with self._pages.transaction(timeout_s) as connection:
                yield connection
            return
        async with super().transaction(timeout_s) as connection:
            yield connection

    async def read(self, query: TextClause, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """As the base class's."""
        return await (super().read(query, values) if self.is_read else self._pages.read(query, values))

    async def _look(self) -> None:
        """Measure the lag. Raises `StoreUnavailable` where a server is away or keeps its positions to itself: nothing is known then."""
        now = time.monotonic()
        ((written,),), ((replayed,),) = await self._pages.read(_WRITTEN, {}), await super().read(_REPLAYED, {})
        if written is not None and replayed is not None:
            self._note_lag(self._lag.measure_s(written, replayed, now))

    def _note_lag(self, lag_s: float) -> None:
        was_behind, self._is_behind = self._is_behind, lag_s > self._max_lag_s
        if self._is_behind:
            self.problem = f"it has replayed nothing that the primary wrote in the last {lag_s:.0f} s"
            if not was_behind:
                log.warning("store %s: %s; the primary is read until it has", self.name, self.problem)
        elif was_behind:
            self.problem = ""
            log.info("store %s: it has what the primary wrote; read again", self.name)

    def _make_engine(self, *, pooler: bool) -> AsyncEngine:
        return super()._make_engine(pooler=pooler).execution_options(postgresql_readonly=True)

    async def _open(self) -> str:
        """Connect. Tables of an earlier revision are those that the primary is migrating: they come."""
        current = await self._connected_revision()
        if current is None or current.number < schema.HEAD or not current.is_usable:
            number = current.number if current is not None else "none"
            raise StoreUnavailable(f"its tables are of revision {number}, expected {schema.HEAD}")
        log.info("store %s: pages and reports read there", self.name)
        return current.number


def pages_of(requests: Database, url: str) -> Database:
    """The pool of pages; with SQLite the same, as its readers wait for nobody."""
    return requests if requests.is_sqlite else PagesDatabase(url, requests)


def reports_of(pages: Database, requests: Database, replica_url: str, source: str = "config.yaml") -> Database:
    """Where lists of exchanges, figures and reports are read. Raises `ConfigError`."""
    return Replica(replica_url, pages, requests, source=source) if replica_url else pages
