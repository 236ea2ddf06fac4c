"""What SQLite and PostgreSQL need of us: their URLs, an engine without SQLAlchemy's ORM, SQLite's file and its connections.

A URL comes in from `proxy.config.settings` and goes out to `proxy.store.database`; its password is never part of a message. SQLite's WAL
lets several workers read while one writes; https://sqlite.org/wal.html. PostgreSQL's URL is libpq's: several hosts, TLS, and what else
`_POSTGRES_OPTIONS` lists; https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS.
"""

from __future__ import annotations

import importlib
import os
import re
import sqlite3
import sys
import time
import uuid
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import sqlalchemy.ext
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from proxy.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
else:
    _PACKAGE = "sqlalchemy.ext.asyncio"
    if _PACKAGE not in sys.modules:
        with suppress(ImportError):  # a later SQLAlchemy that is cut otherwise: the next lines import all of it
            sys.modules[_PACKAGE] = _empty = ModuleType(_PACKAGE)
            _empty.__path__ = [f"{place}/asyncio" for place in sqlalchemy.ext.__path__]
            try:
                importlib.import_module(f"{_PACKAGE}.engine")
            finally:
                del sys.modules[_PACKAGE]
    _engine = sys.modules.get(f"{_PACKAGE}.engine") or importlib.import_module(_PACKAGE)
    AsyncConnection, AsyncEngine, create_async_engine = _engine.AsyncConnection, _engine.AsyncEngine, _engine.create_async_engine


__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]


_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_EXPECTED = "expected sqlite+aiosqlite:///FILE or postgresql+asyncpg://USER:PASSWORD@HOST/DATABASE"
_HOSTS = re.compile(r"(postgres[a-z+]*://(?:[^@/?]*@)?)([^/?@]*,[^/?@]*)(/[^?]*)\??(.*)", re.DOTALL)
"""A URL that names several hosts, as libpq takes them; SQLAlchemy has them in the query."""
_POSTGRES_OPTIONS: dict[str, str] = {
    "host": r".+",
    "sslmode": r"disable|allow|prefer|require|verify-ca|verify-full",
    **dict.fromkeys(("sslrootcert", "sslcert", "sslkey", "sslcrl"), r".+"),
    "target_session_attrs": r"any|read-write|read-only|primary|standby|prefer-standby",
    "application_name": r"[ -~]{1,48}",
    "pool_size": r"[1-9][0-9]{0,2}",
}
"""What PostgreSQL's URL may have behind its question mark, and of what form."""
_PORT = re.compile(r"^(?:[^:/]+|\[[^]]*\]):([^:]*)$")
"""Of a host that is no path of a socket."""
_OWN_OPTIONS = ("application_name", "pool_size")
POOL_SIZE = 15
"""Connections of a worker's requests to PostgreSQL, at most."""


def store_url(text: str, source: str = "config.yaml", path: str = "store.url") -> URL:
    """The URL with its asynchronous driver. `source` and `path` are the file and the place that a refusal names. Raises `ConfigError`."""
    if several := _HOSTS.fullmatch(text):
        text = f"{several[1]}{several[3]}?host={several[2]}{several[4] and '&' + several[4]}"
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the library's message quotes the whole URL, password and all
        raise ConfigError(source, path, f"is not a database URL; {_EXPECTED}") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ConfigError(source, path, f"unknown database or driver {url.drivername!r}; {_EXPECTED}")
    module = driver.partition("+")[2]
    if find_spec(module) is None:
        wanted = "pip install 'groundwire[postgres]'" if module == "asyncpg" else f"pip install {module}"
        raise ConfigError(source, path, f"{url.drivername} needs the driver {module}, which is not installed: {wanted}")
    if driver.startswith("sqlite") and (url.host or url.username):
        raise ConfigError(source, path, f"a SQLite URL has three slashes before a relative path, four before an absolute; {_EXPECTED}")
    if driver.startswith("postgresql"):
        _check_postgres(url, source, path)
    return url.set(drivername=driver)


def _check_postgres(url: URL, source: str, path: str) -> None:
    """Raises `ConfigError` for what a connection would be refused with, or would silently be without."""
    if not url.database:
        raise ConfigError(source, path, f"names no database; {_EXPECTED}")
    hosts = str(url.query.get("host", "")).split(",")
    ports = [found[1] for host in hosts if (found := _PORT.search(host))] + ([str(url.port)] if url.port is not None else [])
    for port in ports:
        if not (port.isdecimal() and 0 < int(port) < 2**16):
            raise ConfigError(source, path, f"no port: {port[:60]!r}; expected 1 to 65535")
    for name, value in url.query.items():
        form = _POSTGRES_OPTIONS.get(name)
        if form is None:
            raise ConfigError(source, path, f"unknown option {name!r}; known: {', '.join(_POSTGRES_OPTIONS)}")
        if not isinstance(value, str) or not re.fullmatch(form, value):
            raise ConfigError(source, path, f"{name}: expected {form if '|' in form else 'one value'}, not {str(value)[:60]!r}")
        if name.startswith("ssl") and name != "sslmode" and not os.access(value, os.R_OK):
            raise ConfigError(source, path, f"{name}: the file {value} cannot be read")


def postgres_engine(url: URL, *, timeout_s: float, used_by: str, pooler: bool, **options: Any) -> AsyncEngine:
    """For PostgreSQL. Behind a `pooler` that lends a connection for a transaction alone, a statement is prepared within its transaction,
    under a name that no other client has; else it is prepared once for a connection. The server ends what takes longer than
    `statement_ms(timeout_s)`, also where nobody is left who would cancel it.
    """
    import asyncpg  # type: ignore[import-untyped]

    bound = {} if pooler else {"statement_timeout": str(statement_ms(timeout_s))}
    settings = bound | {
        "application_name": f"{url.query.get('application_name', 'groundwire')} {used_by}",
        **options.pop("server_settings", {}),
    }
    dsn = url.difference_update_query(_OWN_OPTIONS).set(drivername="postgresql").render_as_string(hide_password=False)
    arguments: dict[str, Any] = {"async_creator_fn": partial(asyncpg.connect, dsn, timeout=timeout_s, server_settings=settings)}
    if pooler:
        arguments["async_creator_fn"] = partial(arguments["async_creator_fn"], connection_class=_pooled(statement_ms(timeout_s)))
        arguments |= {"prepared_statement_cache_size": 0, "statement_cache_size": 0}
        arguments["prepared_statement_name_func"] = lambda: f"groundwire_{uuid.uuid4().hex}"
    return create_async_engine("postgresql+asyncpg://", hide_parameters=True, connect_args=arguments, **options)


def statement_ms(timeout_s: float) -> int:
    """PostgreSQL's ``statement_timeout`` for work that is given up after `timeout_s`: less, so that the connection stays one that works."""
    return int(timeout_s * 800)


def _pooled(longest_ms: int) -> type:
    """A connection whose transactions bring their ``statement_timeout`` along, in one trip with ``BEGIN``: a pooler takes no setting at a
    connection's start, and what one client sets for a session is the next one's.
    """
    from asyncpg import Connection

    class Pooled(Connection):  # type: ignore[misc]
        async def execute(self, query: str, *args: Any, **options: Any) -> str:
            if not args and query.startswith("BEGIN"):
                query = f"{query.rstrip(';')}; SET LOCAL statement_timeout = {longest_ms}"
            return str(await super().execute(query, *args, **options))

    return Pooled


def pool_sizes(url: URL, used_by: str) -> dict[str, int]:
    """Connections that stay, and further ones; pages and reports have a third of those that requests have."""
    most = int(str(url.query.get("pool_size", POOL_SIZE)))
    most = most if used_by == "requests" else max(1, most // 3)
    return {"pool_size": max(1, most // 3), "max_overflow": most - max(1, most // 3)}


def without_password(message: str, url: URL) -> str:
    """`message` with the URL's password, in plain or percent-encoded form, taken out."""
    if not url.password:
        return message
    password = str(url.password)
    encoded = URL.create("x", username="u", password=password).render_as_string(hide_password=False)[len("x://u:") :].rstrip("@")
    for form in {password, encoded} - {""}:
        message = message.replace(form, "***")
    return message


FileIdentity = tuple[int, int]
"""Device and inode."""


def file_path(url: URL) -> str | None:
    """The database file of a SQLite URL; None for one in memory. A ``file:`` URI is taken apart."""
    name = url.database or ""
    if name in ("", ":memory:") or "mode=memory" in name or url.query.get("mode") == "memory":
        return None
    return name.removeprefix("file:").partition("?")[0] if name.startswith("file:") else name


def prepare_file(path: str, *, timeout_s: float) -> FileIdentity:
    """Create the file if it is missing, for its owner alone (SQLite gives its companions the same mode), and switch it to WAL. Blocking:
    call it in a thread.

    `auto_vacuum` takes effect only before the first table. Raises `sqlite3.Error` or `OSError`.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {folder} does not exist")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} is not writable")
    deadline = time.monotonic() + timeout_s
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None)
    try:
        while True:
            try:
                if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
                    connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # Two workers that switch a new file to WAL at once: SQLite answers "locked" here without waiting.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
    finally:
        connection.close()
    identity = file_identity(path)
    if identity is None:
        raise FileNotFoundError(f"{path} is gone")
    return identity


def file_identity(path: str) -> FileIdentity | None:
    """Which file stands at `path` now; None when there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def empty_log(path: str) -> bool:
    """Bring SQLite's write-ahead log, which has what was deleted, into the file and cut it to nothing; False where somebody reads or
    writes just then. Waits for nobody. Blocking: call it in a thread. Raises `sqlite3.Error`.
    """
    connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    try:
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError as error:
        if "locked" not in str(error) and "busy" not in str(error):
            raise
        return False
    finally:
        connection.close()


def set_up_connection(connection: Any, busy_timeout_ms: int) -> None:
    """Pragmas of each new connection. NORMAL loses nothing when the process dies, the last commits when the machine does."""
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA secure_delete = ON")  # what is deleted leaves no bytes behind; Debian's SQLite has it so, others not
    finally:
        cursor.close()
