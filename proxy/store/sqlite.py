"""What SQLite alone needs: its file made ready, its connections set up, its file watched.

Used by `proxy.store.database`. WAL lets several workers read while one writes; https://sqlite.org/wal.html.
"""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL

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
