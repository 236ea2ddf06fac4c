"""The connection to SQLite or PostgreSQL: opened and migrated at start, watched, and reopened in the background when it is lost.

Every other class of this package asks it for a `transaction`. A store that cannot be had never stops the proxy: `available` is
then False, `problem` says why, and every operation raises `StoreUnavailable` at once instead of waiting.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import ColumnElement, Double, Executable, RowMapping, Table, TextClause, event, literal_column, select, text
from sqlalchemy import exc as sa_errors
from sqlalchemy.pool import AsyncAdaptedQueuePool
from sqlalchemy.util import greenlet_spawn

from proxy.errors import StoreUnavailable
from proxy.language.lru import LRU
from proxy.ports.deadline import AwakeTimeout
from proxy.store import drivers, schema
from proxy.store.clock import StoreClock
from proxy.store.drivers import AsyncConnection, AsyncEngine, create_async_engine, store_url, without_password
from proxy.store.schema import Revision, current_revision, upgrade

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 10.0
_MIGRATION_TIMEOUT_S = 600.0
_MIGRATION_LOCK = 0x67726F756E647772
"""Key of PostgreSQL's advisory lock: "groundwr" in ASCII."""
_WRITE_NOTHING = text("UPDATE alembic_version SET version_num = version_num WHERE version_num IS NULL")
"""Takes the lock that a write takes, and is refused where a write would be, but changes no byte."""
_BEGIN = text("BEGIN IMMEDIATE")
_BACKEND = text("SELECT pg_backend_pid()")
_ANYTHING, _PROBE_S = text("SELECT 1"), 2.0
_NOW = {"sqlite": "((julianday('now') - 2440587.5) * 86400.0)", "postgresql": "extract(epoch from clock_timestamp())::float8"}
_REFUSED = (sa_errors.IntegrityError, sa_errors.DataError, sqlite3.IntegrityError, sqlite3.DataError)
_OF_VALUES = ("invalid input for query", "integer overflow")
"""What asyncpg says of a parameter, and SQLite of a sum beyond 64 bits."""
_BROKEN = (sa_errors.OperationalError, sa_errors.InterfaceError, sqlite3.OperationalError, sqlite3.InterfaceError)
"""SQLAlchemy's errors, and the driver's own where `fetch` and `write` go to it."""


_JUST_NOW_S, _RUNS = 2.0, 4096
_READ_ONLY = "25006"
"""PostgreSQL's word for a server that takes no writes: another of the URL's hosts may, since this one is none any more that does."""


class StoreRejected(StoreUnavailable):
    """The database works but refuses these very values: trying again is of no use."""


class Database:
    """One worker's pool of connections."""

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float = 5.0,
        source: str = "config.yaml",
        path: str = "store.url",
        used_by: str = "requests",
        clock: StoreClock | None = None,
    ) -> None:
        """`timeout_s` bounds every operation, waiting for a lock included. Raises `ConfigError` for a URL that cannot work.

        `used_by` is what PostgreSQL's list of connections calls this pool.
        """
        self._url = store_url(url, source, path)
        self.timeout_s = timeout_s
        self.clock = clock or StoreClock()
        """For whoever writes a time into it."""
        self._used_by = used_by
        self.is_sqlite = self._url.drivername.startswith("sqlite")
        self.available = False
        """Whether operations are tried at all."""
        self.problem = "not started"
        """Why not, in words for an operator; empty while it is available."""
        self._path = drivers.file_path(self._url) if self.is_sqlite else None
        self._identity: drivers.FileIdentity | None = None
        self._engine: AsyncEngine | None = None
        self._single: AsyncEngine | None = None
        """The same connections, for statements that stand alone: with PostgreSQL each is a trip, where a transaction is three."""
        self.now: ColumnElement[float] = literal_column(_NOW["sqlite" if self.is_sqlite else "postgresql"], Double)
        """The database's clock, as SQL: seconds since the epoch."""
        self._opening: asyncio.Task[None] | None = None
        self._probing: asyncio.Task[None] | None = None
        self._writers = asyncio.Lock()
        self._without: LRU[tuple[float, set[str]]] = LRU(_RUNS)
        self._compiled: dict[Callable[[Database], Any], str] = {}
        self._rolling_back: set[asyncio.Future[None]] = set()

    @property
    def file(self) -> Path | None:
        """SQLite's; None for a database in memory and for PostgreSQL."""
        return Path(self._path) if self._path is not None else None

    @property
    def name(self) -> str:
        """The URL without its password, for logs."""
        return self._url.render_as_string(hide_password=True)

    async def start(self) -> None:
        """Connect and migrate. Returns after at most `timeout_s` whether or not it worked; it goes on trying in the background."""
        attempted = asyncio.Event()
        self._opening = asyncio.create_task(self._open_until_it_works(attempted), name="store-open")
        try:
            async with asyncio.timeout(self.timeout_s):
                await attempted.wait()
        except TimeoutError:
            self.problem = f"no answer within {self.timeout_s:g} s"
            log.warning("store %s: %s; trying on in the background", self.name, self.problem)

    async def migrate(self) -> str:
        """Bring the tables to this release, and close; the revision that they have then. Raises `StoreUnavailable`."""
        try:
            return await self._open()
        except StoreUnavailable:
            raise
        except Exception as error:
            raise StoreUnavailable(self._words(error)) from error
        finally:
            await self._dispose()

    async def inspect(self, look: Callable[[Database], Awaitable[str]]) -> str:
        """What `look` says of the store, whose tables stay as they are. Raises `StoreUnavailable`."""
        try:
            await self._connect()
            self.available = True
            return await look(self)
        except (TimeoutError, OSError, sa_errors.SQLAlchemyError) as error:
            raise StoreUnavailable(self._words(error)) from error
        finally:
            self.available = False
            await self._dispose()

    async def stop(self) -> None:
        """Close every connection."""
        tasks = [task for task in (self._opening, self._probing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.available, self.problem = False, "stopped"
        await self._dispose()

    async def wait(self) -> None:
        """Return once the store is available."""
        while not self.available and self._opening:
            await asyncio.shield(self._opening)

    async def ping(self) -> None:
        """See that the store can be written now. Raises `StoreUnavailable`, also when it is only locked."""
        async with self.transaction() as connection:
            await connection.execute(_WRITE_NOTHING)

    @asynccontextmanager
    async def transaction(self, timeout_s: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that is committed at the end, rolled back on an exception.

        Raises `StoreUnavailable` when the store is not available, locked for too long or failing, and its subclass
        `StoreRejected` when it refuses the values.
        """
        async with self._converting(timeout_s or self.timeout_s) as engine, engine.begin() as connection:
            await self._allow(connection, timeout_s)
            yield connection

    @asynccontextmanager
    async def writing(self, *, reads: bool = True, alone: bool = False, timeout_s: float | None = None) -> AsyncIterator[AsyncConnection]:
        """A transaction that will write: what is read in it cannot change before it is written. Raises as `transaction` does.

        With SQLite, which lets one write at a time and has the others try again after pauses, this process's writers queue here, so that
        none is passed over for seconds; PostgreSQL locks rows (``with_for_update``). One that `reads` nothing before it writes has
        SQLite's lock from its first write: a trip to the driver's thread less. One statement `alone` needs no transaction around it.
        """
        if not self.is_sqlite:
            alone = alone and timeout_s is None
            async with self._converting(timeout_s or self.timeout_s, alone=alone) as engine, engine.begin() as connection:
                await self._allow(connection, timeout_s)
                yield connection
            return
        try:
            async with asyncio.timeout(self.timeout_s):
                await self._writers.acquire()
        except TimeoutError:
            raise StoreUnavailable(f"other writers took longer than {self.timeout_s:g} s") from None
        try:
            async with self.transaction(timeout_s) as connection:
                if reads and not alone:
                    await fetch(connection, _BEGIN, {})
                yield connection
        finally:
            self._writers.release()

    async def _allow(self, connection: AsyncConnection, timeout_s: float | None) -> None:
        """With PostgreSQL a transaction that may take longer than most says so with a trip of its own."""
        if timeout_s is not None and not self.is_sqlite:
            await connection.exec_driver_sql(f"SET LOCAL statement_timeout = {drivers.statement_ms(timeout_s)}")

    async def put(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """A compiled statement once for each row, as a transaction of its own. Raises as `transaction` does.

        With SQLite past SQLAlchemy, which takes three times as long for it: every exchange has a part in one of these.
        """
        if not self.is_sqlite:
            async with self.writing(alone=True) as connection:
                await write(connection, statement, rows)
            return
        async with self._writers, self._converting(self.timeout_s) as engine:
            borrowed = await engine.raw_connection()
            try:
                driver: Any = borrowed.driver_connection
                await driver.executemany(statement, rows)
                await driver.commit()
            except BaseException:
                self._roll_back(borrowed)
                raise
            finally:
                await greenlet_spawn(borrowed.close)

    async def read(self, query: TextClause, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        """The rows of one SELECT that stands alone. Raises as `transaction` does, which takes several times as long for a short one.

        With SQLite it is one trip to the driver's thread, where SQLAlchemy makes six; with PostgreSQL one to the server, and not three.
        """
        async with self._converting(self.timeout_s, alone=True) as engine, engine.connect() as connection:
            return await fetch(connection, query, values)

    async def rows(self, query: Executable, *, timeout_s: float | None = None) -> Sequence[Any]:
        """The rows of one query, as a transaction of its own. Raises as `transaction` does."""
        async with self.transaction(timeout_s) as connection:
            return (await connection.execute(query)).all()

    async def mappings(self, query: Executable) -> Sequence[RowMapping]:
        """As `rows`, each by the names of its columns."""
        return [row._mapping for row in await self.rows(query)]

    async def scalar(self, query: Executable) -> Any:
        """The first value of a query's first row; None without a row. Raises as `transaction` does."""
        return next((row[0] for row in await self.rows(query)), None)

    async def execute(self, statement: Executable, *, reads: bool = True, alone: bool = False) -> int:
        """Write by one statement, in a transaction as of `writing`; how many rows it wrote. Raises as `transaction` does."""
        async with self.writing(reads=reads, alone=alone) as connection:
            return int((await connection.execute(statement)).rowcount)

    def among(self, name: str, values: Sequence[str]) -> tuple[str, dict[str, Any]]:
        """SQL for a column that has one of these values, and its parameters. With PostgreSQL the same words for any number of them, as it
        prepares each statement with a trip of its own.
        """
        if not self.is_sqlite:
            return f"= ANY(CAST(:{name} AS TEXT[]))", {name: list(values)}
        return f"IN ({', '.join(f':{name}{n}' for n in range(len(values)))})", {f"{name}{n}": value for n, value in enumerate(values)}

    def note_without(self, tables: Sequence[str], client: str, run_id: str) -> None:
        """A statement that was made anyway has seen that these tables have nothing of the run: a look just now need not be made again."""
        if tables:
            self._without.put((client, run_id), (time.monotonic() + _JUST_NOW_S, set(tables)))

    def is_without(self, table: str, client: str, run_id: str) -> bool:
        """Whether `table` was without the run just now. Each is told once: what is put afterwards is found by the next look."""
        until, tables = self._without.get((client, run_id)) or (0.0, set[str]())
        without = table in tables and time.monotonic() < until
        tables.discard(table)
        return without

    @asynccontextmanager
    async def _converting(self, limit_s: float, *, alone: bool = False) -> AsyncIterator[AsyncEngine]:
        """The engine, if the store is available; what goes wrong with it is raised as ours."""
        if not self.available or self._engine is None:
            raise StoreUnavailable(f"the store is not available: {self.problem}")
        if self._path is not None and drivers.file_identity(self._path) != self._identity:
            raise self._lost(f"the file {self._path} is gone or was replaced")
        try:
            async with AwakeTimeout(limit_s):
                yield self._single or self._engine if alone else self._engine
        except sa_errors.TimeoutError:
            raise StoreUnavailable(f"no free connection within {limit_s:g} s") from None
        except TimeoutError:
            self._probe()
            raise StoreUnavailable(f"the store gave no answer within {limit_s:g} s") from None
        except (sa_errors.SQLAlchemyError, OSError, sqlite3.Error) as error:
            raise self._converted(error) from error
        except (UnicodeError, OverflowError) as error:
            raise StoreRejected(f"a value cannot be stored: {error}") from error

    def insert(self, table: Table) -> Any:
        """The dialect's own INSERT, which knows ``on_conflict_do_nothing`` and ``on_conflict_do_update``."""
        if self.is_sqlite:
            from sqlalchemy.dialects import sqlite

            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # its seven drivers' modules: an eighth of what this package's import takes

        return postgresql.insert(table)

    def compiled(self, make: Callable[[Database], Any]) -> str:
        """The statement that `make` gives, as the driver takes it, for `exec_driver_sql` with parameters in column order; made once."""
        if make not in self._compiled:
            if self._engine is None:
                raise StoreUnavailable(f"the store is not available: {self.problem}")
            self._compiled[make] = str(make(self).compile(dialect=self._engine.dialect))
        return self._compiled[make]

    # ---- opening ----

    async def _open_until_it_works(self, attempted: asyncio.Event) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._open()
            except Exception as error:  # whatever keeps it from opening is for the operator to read, not for the proxy to die of
                problem = self._words(error)
                if problem != self.problem:
                    log.warning("store %s cannot be opened: %s; trying on in the background", self.name, problem)
                self.problem = problem
                await self._dispose()
            else:
                self.available, self.problem = True, ""
                attempted.set()
                return
            attempted.set()
            await asyncio.sleep(pause_s * random.uniform(0.75, 1.25))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    async def _connected_revision(self) -> Revision | None:
        """Connect; the revision of the tables, None where there are none."""
        await self._connect()
        assert self._engine is not None
        async with asyncio.timeout(self.timeout_s), self._engine.connect() as connection:
            return await connection.run_sync(current_revision)

    async def _open(self) -> str:
        """Connect, and bring the tables up; the revision that they have then."""
        if self._path is not None:
            self._identity = await asyncio.to_thread(drivers.prepare_file, self._path, timeout_s=self.timeout_s)
        current = await self._connected_revision()
        assert self._engine is not None
        if current is None or current.number < schema.HEAD:
            current = await self._migrate(self._engine)
        if not current.is_usable:
            raise StoreUnavailable(f"its tables are of revision {current.number}, newer than this groundwire knows ({schema.HEAD})")
        if current.is_newer:
            log.info("store %s: its tables are of revision %s, which serves this release's %s too", self.name, current.number, schema.HEAD)
        async with asyncio.timeout(self.timeout_s), self._engine.begin() as connection:
            await connection.execute(_WRITE_NOTHING)
            asked = time.monotonic()
            self.clock.compare(float((await connection.execute(select(self.now))).scalar_one()), asked)
        return current.number

    async def _migrate(self, engine: AsyncEngine) -> Revision:
        """Bring the tables up, unless another process was first; their revision then."""
        started = time.monotonic()
        async with asyncio.timeout(_MIGRATION_TIMEOUT_S), engine.begin() as connection:
            await self._allow(connection, _MIGRATION_TIMEOUT_S)
            await self._take_migration_lock(connection)
            current = await connection.run_sync(current_revision)
            if current is not None and current.number >= schema.HEAD:  # another worker was first
                return current
            await connection.run_sync(upgrade)
            log.info("store %s: migrated to revision %s in %.1f s", self.name, schema.HEAD, time.monotonic() - started)
            return Revision(schema.HEAD, schema.COMPATIBLE_FROM)

    async def _connect(self) -> None:
        """Make the engine. PostgreSQL is first met as if a pooler stood before it, and then as what it is."""
        self._engine = self._make_engine(pooler=True)
        if self.is_sqlite:
            return
        async with asyncio.timeout(self.timeout_s), self._engine.connect() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert driver is not None
            direct = await connection.scalar(_BACKEND) == driver.get_server_pid()
        if direct:  # a pooler gives each client a number of its own
            await self._engine.dispose()
            self._engine = self._make_engine(pooler=False)
            self._single = self._engine.execution_options(isolation_level="AUTOCOMMIT")

    def _make_engine(self, *, pooler: bool) -> AsyncEngine:
        if not self.is_sqlite:
            options = {"pool_timeout": self.timeout_s, "pool_use_lifo": True, **drivers.pool_sizes(self._url, self._used_by)}
            return drivers.postgres_engine(self._url, timeout_s=self.timeout_s, used_by=self._used_by, pooler=pooler, **options)
        # A database in memory lives in its one connection.
        sizes = {"pool_size": 15, "max_overflow": 0} if self._path else {"pool_size": 1, "max_overflow": 0}
        engine = create_async_engine(
            self._url,
            hide_parameters=True,
            poolclass=AsyncAdaptedQueuePool,
            pool_timeout=self.timeout_s,
            pool_use_lifo=True,
            pool_reset_on_return=None,  # every transaction has its end, and a rollback more is a trip to the driver's thread
            **sizes,
        )
        # SQLite must give up on a lock before we give up on SQLite.
        busy_timeout_ms = int(self.timeout_s * 800)
        event.listen(engine.sync_engine, "connect", lambda connection, _: drivers.set_up_connection(connection, busy_timeout_ms))
        # What is in use while the engine is given up comes back to a pool that nobody closes any more.
        event.listen(engine.sync_engine, "checkin", lambda _, record: record.invalidate() if engine is not self._engine else None)
        event.listen(engine.sync_engine, "invalidate", lambda connection, *_: self._roll_back(connection))
        return engine

    def _roll_back(self, connection: Any) -> None:
        """End the transaction of a connection whose user was cancelled, before the connection is closed.

        The statement that it was in still runs in the driver's thread, and SQLite keeps a lock as long as somebody holds its cursor,
        closed connection or not.
        """
        rolling = asyncio.ensure_future(connection.driver_connection.rollback())
        self._rolling_back.add(rolling)
        rolling.add_done_callback(self._rolled_back)

    def _rolled_back(self, rolling: asyncio.Future[None]) -> None:
        self._rolling_back.discard(rolling)
        if not rolling.cancelled() and rolling.exception() is not None:
            log.debug("store %s: a transaction that was broken off could not be rolled back: %s", self.name, rolling.exception())

    async def _take_migration_lock(self, connection: AsyncConnection) -> None:
        if self.is_sqlite:
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        else:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})

    async def _dispose(self) -> None:
        engine, self._engine, self._single = self._engine, None, None
        if engine is None:
            return
        try:
            async with asyncio.timeout(self.timeout_s):
                await engine.dispose()
        except (TimeoutError, OSError, sa_errors.SQLAlchemyError):
            log.debug("store %s: connections did not close", self.name)

    # ---- errors ----

    def _lost(self, problem: str) -> StoreUnavailable:
        """Mark the store unavailable and start to reopen it."""
        if self.available:
            self.available, self.problem = False, problem
            log.warning("store %s: %s; trying to reopen it in the background", self.name, problem)
            self._opening = asyncio.create_task(self._reopen(), name="store-open")
        return StoreUnavailable(f"the store is not available: {problem}")

    def _probe(self) -> None:
        """One operation was too slow: see whether the store answers anything. A slow query is no store that is away."""
        if self.available and (self._probing is None or self._probing.done()):
            self._probing = asyncio.create_task(self._see_whether_it_answers(), name="store-probe")

    async def _see_whether_it_answers(self) -> None:
        engine, limit_s = self._engine, min(_PROBE_S, self.timeout_s)
        if engine is None:
            return
        try:
            async with asyncio.timeout(limit_s), engine.connect() as connection:
                await connection.execute(_ANYTHING)
        except sa_errors.TimeoutError:  # every connection is in use: busy, and not away
            return
        except (sa_errors.SQLAlchemyError, OSError, sqlite3.Error) as error:  # `TimeoutError` is an `OSError`
            if engine is self._engine:
                self._lost(self._words(error))

    async def _reopen(self) -> None:
        await self._dispose()
        await self._open_until_it_works(asyncio.Event())
        log.info("store %s: open again", self.name)

    def _converted(self, error: Exception) -> StoreUnavailable:
        """A driver's error as ours; the pool is given up where the error says that the store, not the statement, is at fault."""
        words = self._words(error)
        original = getattr(error, "orig", None) or error
        state = str(getattr(original, "sqlstate", None) or "")
        if isinstance(error, _REFUSED) or state[:2] in ("22", "23") or any(said in words for said in _OF_VALUES):
            return StoreRejected(f"a value cannot be stored: {words}")
        if "locked" in words or "busy" in words:
            return StoreUnavailable(f"the store is locked by another process: {words}")
        disconnected = isinstance(error, sa_errors.DBAPIError) and error.connection_invalidated
        if disconnected or isinstance(original, OSError) or isinstance(error, _BROKEN) or state == _READ_ONLY:
            return self._lost(words)
        return StoreUnavailable(words)

    def _words(self, error: BaseException) -> str:
        """The driver's own message, on one line, without SQL, values or password."""
        if isinstance(error, TimeoutError):
            return f"no answer within {self.timeout_s:g} s"
        original = getattr(error, "orig", None) or error
        words = " ".join(str(original).split()) or type(original).__name__
        if words.startswith("<class '"):  # SQLAlchemy's asyncpg adapter puts the driver's class before its message
            words = words.partition(">: ")[2] or words
        return without_password(words, self._url)[:500]


async def write(connection: AsyncConnection, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """A compiled statement once for each row; with SQLite in one trip to the driver's thread instead of three."""
    if connection.dialect.name == "sqlite":
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        await driver.executemany(statement, rows)
    elif given := list(rows):  # without one, SQLAlchemy would execute the statement without values, which the server refuses
        await connection.exec_driver_sql(statement, given)


async def fetch(connection: AsyncConnection, query: TextClause, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """All rows of a SELECT; with SQLite in one trip to the driver's thread instead of four."""
    if connection.dialect.name == "sqlite":
        driver = (await connection.get_raw_connection()).driver_connection
        assert driver is not None
        return list(await driver.execute_fetchall(query.text, values))
    return (await connection.execute(query, values)).all()
