"""What SQLite and PostgreSQL need of us: their URLs, an engine without SQLAlchemy's ORM, SQLite's file and its connections.

A URL comes in from `proxy.config.settings` and goes out to `proxy.store.database`; its password is never part of a message. SQLite's WAL
lets several workers read while one writes; https://sqlite.org/wal.html.
"""

from __future__ import annotations

import importlib
import os
import sqlite3
import sys
import time
from contextlib import suppress
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


def store_url(text: str, source: str = "config.yaml") -> URL:
    """The URL with its asynchronous driver. `source` is the file named in a refusal. Raises `ConfigError`."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # not chained: the library's message quotes the whole URL, password and all
        raise ConfigError(source, "store.url", f"is not a database URL; {_EXPECTED}") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise ConfigError(source, "store.url", f"unknown database or driver {url.drivername!r}; {_EXPECTED}")
    module = driver.partition("+")[2]
    if find_spec(module) is None:
        wanted = "pip install 'groundwire[postgres]'" if module == "asyncpg" else f"pip install {module}"
        raise ConfigError(source, "store.url", f"{url.drivername} needs the driver {module}, which is not installed: {wanted}")
    if driver.startswith("sqlite") and (url.host or url.username):
        raise ConfigError(
            source, "store.url", f"a SQLite URL has three slashes before a relative path, four before an absolute; {_EXPECTED}"
        )
    if driver.startswith("postgresql") and not url.database:
        raise ConfigError(source, "store.url", f"names no database; {_EXPECTED}")
    return url.set(drivername=driver)


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
    """Create the file if it is missing and switch it to WAL. Blocking: call it in a thread.

    `auto_vacuum` takes effect only before the first table. Raises `sqlite3.Error` or `OSError`.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"the folder {folder} does not exist")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise PermissionError(f"{path} is not writable")
    deadline = time.monotonic() + timeout_s
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


def set_up_connection(connection: Any, busy_timeout_ms: int) -> None:
    """Pragmas of each new connection. NORMAL loses nothing when the process dies, the last commits when the machine does."""
    cursor = connection.cursor()
    try:
        cursor.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
        cursor.execute("PRAGMA synchronous = NORMAL")
        cursor.execute("PRAGMA foreign_keys = ON")
    finally:
        cursor.close()
