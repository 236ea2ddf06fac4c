"""The store as a report reads it: opened read-only, without a server, leaving no trace.

Nothing is created and nothing upgraded. A SQLite file that no process has open (no ``-wal`` stands beside it) is read as immutable, as even
a read-only connection would leave files beside it otherwise (https://sqlite.org/wal.html#read_only_databases). Whether a server has started
to write meanwhile is said afterwards by `overtaken`. On PostgreSQL every transaction is a read-only one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import exc as sa_errors
from sqlalchemy.pool import NullPool

from proxy.errors import StoreUnavailable
from proxy.store import drivers, schema
from proxy.store.database import Database
from proxy.store.drivers import AsyncEngine, create_async_engine


class ReadOnlyDatabase(Database):
    """A `Database` that changes nothing, and that gives up where that one would try on."""

    def __init__(self, url: str, *, timeout_s: float = 10.0, source: str = "config.yaml", path: str = "store.url") -> None:
        """Raises `ConfigError` for a URL that cannot work."""
        super().__init__(url, timeout_s=timeout_s, source=source, path=path)
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

    async def _open(self) -> str:
        if self.is_sqlite:
            self._find_file()
        current = await self._connected_revision()
        if current is None:
            raise StoreUnavailable(f"the store {self.name} has no tables yet: no server has used it")
        if current.number < schema.HEAD or not current.is_usable:
            advice = "it is used by a newer groundwire" if current.is_newer else "start the server once, which brings it up to date"
            found = f"are of revision {current.number}, expected {schema.HEAD}"
            raise StoreUnavailable(f"the tables of the store {self.name} {found}: {advice}")
        return current.number

    def _find_file(self) -> None:
        if self._path is None:
            raise StoreUnavailable(f"the store {self.name} is in a server's memory: only that server can be asked for it")
        if not Path(self._path).is_file():
            raise StoreUnavailable(f"there is no store at {Path(self._path).absolute()}")
        self._immutable = not self._is_open_elsewhere()
        self._identity, self._stamp = drivers.file_identity(self._path), self._stamped()

    def _is_open_elsewhere(self) -> bool:
        return Path(f"{self._path}-wal").exists()

    def _stamped(self) -> tuple[int, ...]:
        try:
            found = Path(self._path or "").stat()
        except OSError:
            return ()
        return found.st_size, found.st_mtime_ns

    def _make_engine(self, *, pooler: bool) -> AsyncEngine:
        if not self.is_sqlite:
            # Not as a setting at the connection's start: a pooler takes none.
            options: dict[str, Any] = {"poolclass": NullPool, "execution_options": {"postgresql_readonly": True}}
            return drivers.postgres_engine(self._url, timeout_s=self.timeout_s, used_by="report", pooler=pooler, **options)
        import aiosqlite

        mode = "mode=ro&immutable=1" if self._immutable else "mode=ro"
        uri = f"file:{quote(str(Path(self._path or '').absolute()))}?{mode}"

        def connect_file() -> Any:
            return aiosqlite.connect(uri, uri=True, timeout=self.timeout_s)

        return create_async_engine(self._url, hide_parameters=True, poolclass=NullPool, async_creator=connect_file)

    def _lost(self, problem: str) -> StoreUnavailable:
        """Nothing is tried again."""
        return StoreUnavailable(f"the store cannot be read: {problem}")
