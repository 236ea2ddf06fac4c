"""A folder of facts -> its index, on disk (``groundwire knowledge build``) or, of a small folder, in memory.

A build reads every file, embeds only the texts that the index before has no vector of, and leaves out what has gone. It writes beside what
is there and puts itself in its place at the end (`proxy.models.knowledge.index`), so that a server may read all the while.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import time
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

import faiss
import msgspec
import numpy as np

from proxy.errors import ConfigError
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.knowledge.reading import FileProblem, files_of, read_folder
from proxy.grounding.knowledge.retrieval import BLOCK, BuildReport, key_of, name_of, sayings
from proxy.models.knowledge.bases import FILE, FOLDER, stamps_of
from proxy.models.knowledge.index import (
    KnowledgeIndex,
    Manifest,
    connected,
    kind_for,
    make_index,
    read_manifest,
)
from proxy.ports import Embedder
from proxy.ports.facts import Fact

_TABLES = (
    "PRAGMA journal_mode = OFF",  # the file counts only when it is whole
    "PRAGMA synchronous = OFF",
    "CREATE TABLE manifest (value BLOB NOT NULL)",
    "CREATE TABLE facts (row INTEGER PRIMARY KEY, fact BLOB NOT NULL, key BLOB NOT NULL, vector BLOB NOT NULL)",
    "CREATE TABLE said (name INTEGER NOT NULL, row INTEGER NOT NULL)",
    "CREATE TABLE terms (term TEXT PRIMARY KEY, rows BLOB NOT NULL)",
)
_INDEXES = ("CREATE INDEX by_key ON facts (key)", "CREATE INDEX by_name ON said (name)")
Progress = Callable[[int], None]
"""Is called with how many facts have their vector."""


class _Writer:
    """Takes facts with their vectors, in their order, into an empty file."""

    def __init__(self, file: sqlite3.Connection, embedder: Embedder) -> None:
        for statement in _TABLES:
            file.execute(statement)
        self._file, self._embedder, self.count = file, embedder, 0
        self._version = hashlib.blake2b(embedder.name.encode(), digest_size=8)
        self._ids: dict[str, int] = {}
        self._terms, self._rows = array("i"), array("i")

    def add(self, facts: Sequence[Fact], vectors: Iterable[bytes]) -> None:
        """The next facts; `vectors` are float16, little endian."""
        rows = range(self.count, self.count + len(facts))
        encoded = [(row, msgspec.json.encode(fact), key_of(fact), v) for row, fact, v in zip(rows, facts, vectors, strict=True)]
        self._file.executemany("INSERT INTO facts VALUES (?, ?, ?, ?)", encoded)
        said = [(name_of(text), row) for row, fact in zip(rows, facts, strict=True) for text in dict.fromkeys(sayings(fact))]
        self._file.executemany("INSERT INTO said VALUES (?, ?)", said)
        for row, fact in zip(rows, facts, strict=True):
            self._version.update(fact.id.encode() + fact.source.encode("utf-8", "replace") + b"\0")
            for term in set(terms(fact.text)):
                self._terms.append(self._ids.setdefault(term, len(self._ids)))
                self._rows.append(row)
        self.count += len(facts)

    def finish(self, files: Mapping[str, tuple[int, int]], faiss_name: str = "", threads: int = 1) -> KnowledgeIndex:
        """With all that a search needs; `faiss_name` is the file that the vector index will stand in."""
        names, of_term, rows = list(self._ids), np.array(self._terms, np.int32), np.array(self._rows, "<i4")
        ends = np.cumsum(counts := np.bincount(of_term, minlength=len(names)))
        by_term = rows[np.argsort(of_term, kind="stable")]
        postings = ((name, by_term[end - count : end].tobytes()) for name, count, end in zip(names, counts, ends, strict=True))
        self._file.executemany("INSERT INTO terms VALUES (?, ?)", postings)
        for statement in _INDEXES:
            self._file.execute(statement)
        manifest = Manifest(
            version=self._version.hexdigest(),
            embedder=self._embedder.name,
            dimensions=self._embedder.dimensions,
            facts=self.count,
            kind=kind_for(self.count),
            faiss=faiss_name if self.count else "",
            files=files,
        )
        self._file.execute("INSERT INTO manifest VALUES (?)", (msgspec.json.encode(manifest),))
        self._file.commit()
        index = KnowledgeIndex(self._file, manifest, None)
        index.faiss = make_index(index.vectors, threads=threads) if self.count else None
        return index


class _KnownVectors:
    """The vectors of the index before, by their text; none where another embedder made them, or they cannot be read."""

    def __init__(self, folder: Path, embedder: str) -> None:
        self.faiss, self._used, self._file = "", set[bytes](), None
        with suppress(ConfigError):
            if (file := connected(folder)) is None:
                return
            weakref.finalize(self, file.close)
            if (manifest := read_manifest(file, folder)).embedder == embedder:
                self._file, self.faiss = file, manifest.faiss

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The vectors of texts by their keys, as far as there are any."""
        if self._file is None:
            return {}
        marks = ",".join("?" * len(keys))
        found = dict(self._file.execute(f"SELECT key, vector FROM facts WHERE key IN ({marks})", keys))  # noqa: S608 - only marks
        self._used |= found.keys()
        return found

    def unused(self) -> int:
        """How many of them nothing has asked for; the end of it."""
        if self._file is None:
            return 0
        with closing(self._file) as file:
            return int(file.execute("SELECT count(DISTINCT key) FROM facts").fetchone()[0]) - len(self._used)


async def build(folder: Path, embedder: Embedder, *, progress: Progress | None = None, threads: int = 1) -> BuildReport:
    """Build the folder's index on disk. Raises `ConfigError` (no folder, not writable, another build) and `ModelUnavailable`."""
    files = files_of(folder)
    await embedder.embed([""])  # its name and dimensions are known once it is loaded
    with writing(folder) as where:
        stamps, known, problems = stamps_of(folder, files), _KnownVectors(folder, embedder.name), list[FileProblem]()
        new, embedded = where / f"{FILE}.new", 0
        new.unlink(missing_ok=True)
        with closing(sqlite3.connect(new)) as file:
            writer = _Writer(file, embedder)
            reading = facts_in(folder, problems)
            while block := list(islice(reading, BLOCK)):
                embedded += await _add(writer, block, known, embedder)
                if progress is not None:
                    progress(writer.count)
            index = writer.finish(stamps, f"{time.time_ns()}.faiss", threads)
        removed, made = known.unused(), index.manifest
        _put_in_place(where, new, index, known.faiss)
        return BuildReport(made.version, made.facts, embedded, removed, made.kind, tuple(problems))


async def build_in_memory(facts: Sequence[Fact], embedder: Embedder) -> KnowledgeIndex:
    """The same index without a file. Raises `ModelUnavailable`."""
    vectors = await embedder.embed([fact.text for fact in facts], bulk=True)
    writer = _Writer(sqlite3.connect(":memory:", check_same_thread=False), embedder)
    writer.add(facts, map(_pack, vectors))
    return writer.finish({})


def facts_in(folder: Path, problems: list[FileProblem]) -> Iterator[Fact]:
    """The facts of a folder, as they are read; what is wrong with its files is added to the `problems`."""
    for found in read_folder(folder):
        if isinstance(found, FileProblem):
            problems.append(found)
        else:
            yield found


@contextmanager
def writing(folder: Path) -> Iterator[Path]:
    """The folder of indexes while no other build writes. Raises `ConfigError` where one does, or the folder cannot be written."""
    where = folder / FOLDER
    with ExitStack() as held:
        try:
            where.mkdir(exist_ok=True)
            lock = held.enter_context(closing(sqlite3.connect(where / "lock", timeout=0)))
            lock.execute("BEGIN EXCLUSIVE")
        except (OSError, sqlite3.Error) as error:
            busy = "locked" in str(error)
            raise ConfigError(
                str(where), "", "another build of this folder is running" if busy else f"cannot be written: {error}"
            ) from error
        yield where  # closing it ends the lock, also when the process dies


async def _add(writer: _Writer, facts: Sequence[Fact], known: _KnownVectors, embedder: Embedder) -> int:
    """Write these facts; returns how many were embedded."""
    keys = [key_of(fact) for fact in facts]
    vectors = known.get(keys)
    missing = {key: fact.text for key, fact in zip(keys, facts, strict=True) if key not in vectors}
    made = await embedder.embed([*missing.values()], bulk=True) if missing else ()
    vectors |= zip(missing, map(_pack, made), strict=True)
    writer.add(facts, [vectors[key] for key in keys])
    return len(missing)


def _put_in_place(where: Path, new: Path, index: KnowledgeIndex, before: str) -> None:
    """Let it count, and clear away all but the vector index `before`."""
    name = index.manifest.faiss
    if name:
        faiss.write_index(index.faiss, str(where / name))
    for path in (new, where / name) if name else (new,):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    new.replace(where / FILE)
    for old in where.iterdir():
        if old.is_dir():  # of a release before
            shutil.rmtree(old, ignore_errors=True)
        elif old.name not in (FILE, name, before, "lock"):
            old.unlink(missing_ok=True)


def _pack(vector: Any) -> bytes:
    return np.asarray(vector, "<f2").tobytes()
