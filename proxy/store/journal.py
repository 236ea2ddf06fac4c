"""What is open in a process on SQLite, in a file beside the database that outlives a killed process: a line for each exchange at its start.

The page cache keeps a line through ``kill -9`` as it keeps SQLite's commits (``synchronous=NORMAL``), at a tenth of the CPU of a row of
the table (``python -m benchmarks.hop``). A process holds a lock on its file while it lives; https://man7.org/linux/man-pages/man2/flock.2.html.
Who can lock a file finds what its process left open.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

import msgspec

from proxy.store.records import PENDING, Record
from proxy.store.tables import clean

try:
    import fcntl
except ImportError:  # Windows: nothing is kept there
    fcntl = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_FIELDS = ("id", "created_at", "client", "route", "policy", "upstream", "path", "model", "run_id", "step_id", "stream", "reason")
_values = attrgetter(*_FIELDS)
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder(list[str | float | bool]).decode
_MAX_LINE_BYTES, _MAX_TEXT_CHARS = 4096, 250
_ROOM_BYTES = 256 * 1024
"""Of lines that are not needed any more: then the file is written anew."""


class Journal:
    """Of one process."""

    def __init__(self, database: Path, process: str) -> None:
        """`database` is SQLite's file, `process` as no other is called."""
        self._folder, self._prefix = database.parent, f"{database.name}-open-"
        self._header = b"groundwire " + os.fsencode(database.name) + b"\n"
        """The first line: another file may be called as one of these is, as another database's."""
        self.path = self._folder / f"{self._prefix}{process}"
        self._lines: dict[str, bytes] = {}
        self._open_bytes = 0
        """Of `_lines`."""
        self._file, self._size = -1, 0
        self._failing = False

    @property
    def is_open(self) -> bool:
        """Whether it takes lines."""
        return self._file >= 0

    def start(self) -> None:
        """Open it. A folder that cannot be written has no database either, and that is said elsewhere."""
        if fcntl is not None:
            with suppress(OSError):
                self._write_anew()

    def stop(self) -> None:
        """What is still open stays behind for whoever comes next; else the file goes."""
        if self._file >= 0:
            if not self._lines:
                self.path.unlink(missing_ok=True)
            os.close(self._file)
            self._file = -1

    def begin(self, record: Record) -> None:
        """An exchange has begun; never raises."""
        try:
            line = _encode(_values(record)) + b"\n"
        except UnicodeEncodeError:
            line = b""
        if not 0 < len(line) <= _MAX_LINE_BYTES:
            line = _encode([clean(one, _MAX_TEXT_CHARS) if isinstance(one, str) else one for one in _values(record)]) + b"\n"
        self._lines[record.id] = line
        self._open_bytes += len(line)
        self._write(line)

    def end(self, ids: Iterable[str]) -> None:
        """These have their records in the database, or never will."""
        for record_id in ids:
            self._open_bytes -= len(self._lines.pop(record_id, b""))
        if self._size > _ROOM_BYTES and self._size > 4 * self._open_bytes:
            try:
                self._write_anew()
            except OSError as error:
                self._report(error)

    def _write(self, line: bytes) -> None:
        try:
            self._size += os.write(self._file, line)
        except OSError as error:
            self._report(error)
        else:
            self._failing = False

    def _report(self, error: OSError) -> None:
        if not self._failing:
            log.warning("%s cannot be written, a process that is killed now loses what is open: %s", self.path, error)
        self._failing = True

    def _write_anew(self) -> None:
        """Another file with what is open takes this one's place, locked before it does. Raises `OSError`."""
        new = _unfinished(self.path)
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lines = self._header + b"".join(self._lines.values())
            if os.write(file, lines) < len(lines):
                raise OSError("the disk is full")
            new.rename(self.path)
        except OSError:
            os.close(file)
            new.unlink(missing_ok=True)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = file, len(lines)

    # ---- of other processes ----

    def find(self, record_id: str) -> Record | None:
        """An exchange that goes on, or went on, in any process of this database. Reads files."""
        for path in self._paths():
            with suppress(OSError), path.open("rb") as file:
                for record in self._read(file):
                    if record.id == record_id:
                        return record
        return None

    def abandoned(self) -> list[Abandoned]:
        """What processes that are gone have left. Reads files."""
        found = []
        for path in self._paths():
            if path == self.path:
                continue
            with suppress(OSError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_whole = path.stat().st_ino == os.fstat(file.fileno()).st_ino  # else it was written anew: its process lives
                if is_whole and file.peek(len(self._header)).startswith(self._header):
                    found.append(Abandoned(path, tuple(self._read(file))))
        return found

    def _paths(self) -> list[Path]:
        if fcntl is None:
            return []
        with suppress(OSError):
            return [path for path in self._folder.iterdir() if path.name.startswith(self._prefix)]
        return []

    def _read(self, file: BinaryIO) -> Iterator[Record]:
        """Nothing where it is no journal of this database's."""
        if file.readline(len(self._header)) != self._header:
            return
        for line in file.read().split(b"\n")[:-1]:  # the last one may be torn
            with suppress(msgspec.DecodeError, TypeError):
                yield Record(status=0, outcome=PENDING, **dict(zip(_FIELDS, _decode(line), strict=False)))  # type: ignore[arg-type]


class Abandoned(msgspec.Struct, frozen=True):
    """One file."""

    path: Path
    records: tuple[Record, ...]
    """Of exchanges that were open, or just over."""

    def remove(self) -> None:
        """Its records are in the database."""
        for path in (_unfinished(self.path), self.path):
            path.unlink(missing_ok=True)


def _unfinished(path: Path) -> Path:
    """The file that is to take its place."""
    return path.with_name(f".{path.name}")
