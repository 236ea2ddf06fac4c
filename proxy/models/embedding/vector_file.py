"""Vectors on the disk, by the hash of their text: there after a restart, and for every worker on the machine.

Beneath `BatchingEmbedder`, which keeps there what comes again: catalogues of tools, passages; no question. One SQLite file for each model
and its weights holds rows of float32 to the last bit, bounded in bytes: those unused for longest go. No text is in it.

It can always be made again, so nothing that goes wrong is anybody's error: on a disk that is full or read-only nothing is kept, and a torn
file is begun anew.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from proxy.errors import ModelUnavailable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.float32]

T = TypeVar("T")
R = TypeVar("R")

FORMAT = 2
"""Of the file and of the vectors: raised whenever the same text and weights would give others."""
_PAGE_BYTES = 16_384
"""Seven vectors of 512 dimensions; SQLite's own 4 KB would hold one."""
_WAIT_S = 0.1
"""For another worker's writing, some milliseconds long; who waits longer keeps nothing."""
_MAX_WAITING = 16
"""Batches that are still to be written; more are not kept."""
_AT_ONCE = 500
"""Keys in one question; SQLite's least limit is 999."""
_TRIES = 3
"""To open the file: it may be torn, or another worker may be making it."""
_DAY_S = 86_400
_OPENING = (
    f"PRAGMA page_size = {_PAGE_BYTES}",
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = OFF",
    "PRAGMA wal_autocheckpoint = 128",
    "CREATE TABLE IF NOT EXISTS vectors (key BLOB NOT NULL UNIQUE, used INTEGER NOT NULL, row BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS by_use ON vectors (used)",
)
_SELECT = "SELECT key, used, row FROM vectors WHERE key IN "
_TOUCH = "UPDATE vectors SET used = ? WHERE key IN "
_DROP = "DELETE FROM vectors WHERE rowid IN (SELECT rowid FROM vectors ORDER BY used, rowid LIMIT ?)"
log = logging.getLogger("groundwire.embedding")


class VectorFile:
    """One model's. Works in a thread of its own, from one event loop; opened at its first use."""

    def __init__(self, folder: Path, model: Callable[[], str], most_bytes: int, *, clock: Callable[[], float] = time.time) -> None:
        """`model` names the model and its weights' checksum, and may read files; where it gives "" nothing is kept."""
        self._folder, self._model, self._most_bytes, self._clock = folder, model, most_bytes, clock
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kept-vectors")
        self._connection: sqlite3.Connection | None = None
        self._tries, self._complained, self._waiting, self._stopped = _TRIES, False, 0, False

    async def get(self, keys: Collection[bytes]) -> dict[bytes, Rows]:
        """Those that are kept, which then count as used today."""
        if not keys or self._stopped:
            return {}
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._tried, self._read, keys) or {}

    def put(self, rows: Mapping[bytes, Rows]) -> None:
        """Keep them, soon; nobody needs to wait for it."""
        if not rows or self._stopped or self._waiting >= _MAX_WAITING:
            return
        self._waiting += 1
        self._thread.submit(self._tried, self._write, dict(rows)).add_done_callback(self._written)

    def stop(self) -> None:
        """Once what is to be written is written: some milliseconds."""
        if not self._stopped:
            self._stopped = True
            self._thread.submit(self._close)
            self._thread.shutdown(wait=True)

    def _written(self, _: object) -> None:
        self._waiting -= 1

    # ---- in the thread ----

    def _tried(self, work: Callable[[sqlite3.Connection, T], R], given: T) -> R | None:
        """What `work` gives; None where the disk does not let it. A torn file is begun anew."""
        try:
            if self._connection is None and self._tries:
                self._connection = self._first_opened()
            return work(self._connection, given) if self._connection is not None else None
        except (sqlite3.OperationalError, OSError, ModelUnavailable) as error:  # full, read-only, another worker's for too long
            self._complain(error)
        except sqlite3.DatabaseError as error:
            self._complain(error)
            with suppress(OSError, ModelUnavailable):
                self._begin_anew()
        return None

    def _first_opened(self) -> sqlite3.Connection | None:
        """Another worker that makes the file at the same time is waited for: SQLite itself does not wait to change the journal's mode."""
        while True:
            self._tries -= 1
            try:
                return self._open()
            except sqlite3.OperationalError:
                if not self._tries:
                    raise
                time.sleep(_WAIT_S)

    def _open(self) -> sqlite3.Connection | None:
        """None where nothing can be kept."""
        file = self._file()
        if file is None:
            return None
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = sqlite3.connect(file, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            for statement in _OPENING:
                made.execute(statement).fetchall()
        except sqlite3.Error:
            made.close()
            raise
        return made

    def _file(self) -> Path | None:
        model = "".join(c if c.isalnum() or c in "-." else "_" for c in self._model())
        return self._folder / f"{model}-{FORMAT}.sqlite" if model else None

    def _read(self, connection: sqlite3.Connection, keys: Collection[bytes]) -> dict[bytes, Rows]:
        found: dict[bytes, Rows] = {}
        today, stale = int(self._clock() // _DAY_S), list[bytes]()
        for some in _parts(keys):
            for key, used, data in connection.execute(_SELECT + _any_of(some), some):
                found[key] = np.frombuffer(data, "<f4").astype(np.float32)[None]
                if used != today:
                    stale.append(key)
        self._touch(connection, stale, today)
        return found

    def _touch(self, connection: sqlite3.Connection, keys: Collection[bytes], today: int) -> None:
        try:
            for some in _parts(keys):
                connection.execute(_TOUCH + _any_of(some), [today, *some])
        except sqlite3.OperationalError as error:  # what was read is good all the same
            self._complain(error)

    def _write(self, connection: sqlite3.Connection, rows: Mapping[bytes, Rows]) -> None:
        today = int(self._clock() // _DAY_S)
        connection.execute("BEGIN IMMEDIATE")
        try:
            values = [(key, today, row.astype("<f4").tobytes()) for key, row in rows.items()]
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", values)
            while _size_bytes(connection) > self._most_bytes and _drop_oldest(connection):
                pass
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        connection.executescript("PRAGMA incremental_vacuum")  # `execute` would give back a single page

    def _begin_anew(self) -> None:
        """Other workers that have the old file open go on with it until they stop."""
        self._close()
        if (file := self._file()) is not None:
            for end in ("", "-wal", "-shm"):
                file.with_name(file.name + end).unlink(missing_ok=True)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _complain(self, error: object) -> None:
        """Once: it is no news that a disk is still full."""
        if not self._complained:
            log.info("vectors are not kept in %s: %s (embeddings.disk_mb: 0 asks for none)", self._folder, error)
        self._complained = True


def _size_bytes(connection: sqlite3.Connection) -> int:
    pages, free = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count"))
    return int((pages - free) * _PAGE_BYTES)


def _drop_oldest(connection: sqlite3.Connection) -> bool:
    """An eighth of all; whether there was anything."""
    count = connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
    connection.execute(_DROP, [count // 8 + 1])
    return bool(count)


def _any_of(keys: Sequence[bytes]) -> str:
    return f"({','.join('?' * len(keys))})"


def _parts(keys: Iterable[bytes]) -> Iterable[list[bytes]]:
    left = iter(keys)
    while some := list(islice(left, _AT_ONCE)):
        yield some
