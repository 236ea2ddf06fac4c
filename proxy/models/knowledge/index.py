"""An index over facts: one SQLite file, in memory or on disk, and a FAISS index beside it, searched by words and vectors together.

    FOLDER/.index/facts.sqlite      the facts with their vectors and terms, and the `Manifest`
    FOLDER/.index/<name>.faiss      the vector index, which the manifest names

A build writes both under other names and then puts the SQLite file in the place of the one before, in one step: who reads finds the old one
or the new one, whole. The vector index before stays until the next build, for those who are just opening it.

`proxy.grounding.knowledge.retrieval` says how candidates are found and scored. Names and numbers weigh in the terms, other wordings and
languages in the vectors.

Vectors: which FAISS index a base gets goes by its size, by measurement (`benchmarks/knowledge.py`): up to `FLAT_FACTS` every vector is
compared (float32, exact); above, inverted lists over vectors of 8 bits a dimension (`IVF<lists>,SQ8`). What the index brings up is ordered
again by the exact vectors, which are read from the file (float16), so that compression costs candidates, not order. It is made anew from
the vectors in every build: that takes seconds where embedding takes minutes, and the same facts give the same index whatever was built
before.

Words: terms are those of grounding (`proxy.grounding.evidence.retrieval.terms`). A fact's score for a text is the share of the text's terms
that it has, weighted by inverse document frequency (Robertson and Spärck Jones 1976), 0 to 1. Function words, and in a large base terms of
more than a tenth of its facts, are left out unless a text has no others.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.errors import ConfigError
from proxy.grounding.knowledge.retrieval import (
    COMMON_SHARE,
    LARGE,
    MAX_TERMS,
    candidates,
    first_that_holds,
    name_of,
    sayings,
    wanted_terms,
)
from proxy.models.knowledge.bases import FILE, FOLDER, build_command
from proxy.ports.facts import Fact, FactHit, normalised

FORMAT = 2
FLAT_FACTS = 20_000
"""512 dimensions: 40 MB and a few milliseconds a search."""
LISTS_PER_ROOT = 2
"""Lists for each square root of the number of facts: 2,000 for a million."""
PROBED_PER_ROOT = 1.5
"""Lists that a search looks into for each square root of their number: 34 of 512, 68 of 2,048."""
TRAINED_PER_LIST = 64
"""Vectors that the lists' centres are found from; FAISS asks for at least 39."""
_TRAINED_ROUNDS = 8
_BLOCK = 65_536
SEED = 20240501
_MAPPED_BYTES = 2**31
"""Of the file; SQLite's own limit. All workers of a server share its pages."""
_TRIES = 5
"""To open an index while builds go on."""
Vectors = NDArray[np.float16]
Floats = NDArray[np.float32]
_of_json = msgspec.json.Decoder(Fact).decode


class Manifest(Struct, frozen=True, kw_only=True):
    """What a build was made of."""

    format: int = FORMAT
    version: str
    """Hash of all facts, their order and sources, and of the embedder's name."""
    embedder: str
    dimensions: int
    facts: int
    kind: str
    """Of the vector index; `faiss` is the name of its file, "" where there is none."""
    faiss: str = ""
    files: Mapping[str, tuple[int, int]] = {}
    """Size and time of change (nanoseconds) of each file that was read, by path."""


class StoredVectors:
    """The vectors of a file by row, as much of an array as reading needs: a slice, or ascending rows."""

    def __init__(self, file: sqlite3.Connection, facts: int, dimensions: int) -> None:
        self._file, self.shape = file, (facts, dimensions)
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Vectors:
        wanted = range(*rows.indices(len(self))) if isinstance(rows, slice) else rows.tolist()
        read = self._file.execute
        found = [read("SELECT vector FROM facts WHERE row = ?", (row,)).fetchone()[0] for row in wanted]
        return np.frombuffer(b"".join(found), "<f2").reshape(-1, self.shape[1])


class KnowledgeIndex:
    """Facts that can be searched. Never changes."""

    def __init__(self, file: sqlite3.Connection, manifest: Manifest, index: Any) -> None:
        """`index` is a FAISS index over the file's vectors; None for no facts."""
        self._file, self.manifest, self.faiss = file, manifest, index
        self.version = manifest.version
        self.vectors = StoredVectors(file, manifest.facts, manifest.dimensions)
        weakref.finalize(self, file.close)  # searches go on in an index that a new one has replaced

    def __len__(self) -> int:
        return self.manifest.facts

    def fact(self, row: int) -> Fact:
        """The fact of a row."""
        return _of_json(self._file.execute("SELECT fact FROM facts WHERE row = ?", (row,)).fetchone()[0])

    def search(self, texts: Sequence[str], vectors: Floats, k: int) -> list[list[FactHit]]:
        """For each text, with its vector, at most `k` facts, best first; of equals, the earlier one."""
        if not len(self) or not texts or k < 1:
            return [[] for _ in texts]
        most = candidates(k)
        near = nearest(self.faiss, vectors, most)
        return [self._rank(text, vector, rows[rows >= 0], k, most) for text, vector, rows in zip(texts, vectors, near, strict=True)]

    def exact(self, text: str) -> Fact | None:
        """The fact that says `text` word by word; one that holds now before one that does not."""
        wanted, now = normalised(text), time.time()
        if not wanted:
            return None
        rows = self._file.execute("SELECT row FROM said WHERE name = ? ORDER BY row", (name_of(wanted),)).fetchall()
        found = [fact for (row,) in rows if wanted in sayings(fact := self.fact(row))]  # hashes can collide
        return first_that_holds(found, now)

    def coverage(self, text: str) -> tuple[NDArray[np.int64], Floats]:
        """The facts that share a term with `text`, ascending, and how much of its terms each has, 0 to 1."""
        wanted, size = wanted_terms(text), len(self)
        names = json.dumps(wanted)
        counts = self._file.execute(
            "SELECT length(rows) / 4, term FROM terms WHERE term IN (SELECT value FROM json_each(?)) ORDER BY 1, term", (names,)
        ).fetchall()
        total = sum(_weight(count, size) for count, _ in counts) + (len(wanted) - len(counts)) * _weight(0, size)
        chosen = [one for one in counts[:MAX_TERMS] if size < LARGE or one[0] <= COMMON_SHARE * size] or counts[:1]
        if not chosen:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        data = [self._file.execute("SELECT rows FROM terms WHERE term = ?", (term,)).fetchone()[0] for _, term in chosen]
        weights = np.repeat(np.array([_weight(count, size) for count, _ in chosen], np.float32), [count for count, _ in chosen])
        distinct, inverse = np.unique(np.frombuffer(b"".join(data), "<i4"), return_inverse=True)
        shares = np.bincount(inverse, weights, len(distinct)) / (total or 1.0)
        return distinct.astype(np.int64), np.minimum(1.0, shares).astype(np.float32)

    def _rank(self, text: str, vector: Floats, near: NDArray[np.int64], k: int, most: int) -> list[FactHit]:
        sharing, shares = self.coverage(text)
        rows = np.union1d(near, best(sharing, shares, most))
        cosines = np.clip(self.vectors[rows].astype(np.float32) @ vector, 0, 1)
        scores = ((cosines + value_at(sharing, shares, rows)) / 2).round(6)
        order = np.lexsort((rows, -scores))[:k]
        return [FactHit(self.fact(int(rows[i])), float(scores[i])) for i in order]


def _weight(facts: int, size: int) -> float:
    return math.log(1 + (size - facts + 0.5) / (facts + 0.5))


def open_index(folder: Path) -> KnowledgeIndex | None:
    """What a build of the folder has written; None where nothing was. Raises `ConfigError`."""
    for attempt in range(_TRIES):
        file = connected(folder)
        if file is None:
            return None
        try:
            manifest = read_manifest(file, folder)
            index = probe(_read_faiss(folder / FOLDER / manifest.faiss)) if manifest.faiss else None
            return KnowledgeIndex(file, manifest, index)
        except ConfigError:
            file.close()
            raise
        except (RuntimeError, OSError) as error:
            file.close()
            if attempt == _TRIES - 1:  # else builds went on meanwhile, and cleared away what was being opened
                raise ConfigError(str(folder / FOLDER), "", f"cannot be read ({error}): {build_command(folder)}") from error
    return None


def connected(folder: Path) -> sqlite3.Connection | None:
    """The folder's file, for reading; None where nothing was built. Raises `ConfigError` for what an earlier release built."""
    path = (folder / FOLDER / FILE).absolute()
    if path.is_file():
        file = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        file.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        return file
    if (folder / FOLDER / "current").exists():
        raise ConfigError(str(path.parent), "", f"another release built it: {build_command(folder)}")
    return None


def read_manifest(file: sqlite3.Connection, folder: Path) -> Manifest:
    """Raises `ConfigError` where it cannot be read, or another release wrote it."""
    path = str(folder / FOLDER / FILE)
    try:
        raw = msgspec.json.decode(file.execute("SELECT value FROM manifest").fetchone()[0])
        if raw.get("format") != FORMAT:
            raise ConfigError(path, "", f"another release built it ({raw.get('format')}, not {FORMAT}): {build_command(folder)}")
        return msgspec.convert(raw, Manifest)
    except (sqlite3.Error, TypeError, ValueError) as error:
        raise ConfigError(path, "", f"cannot be read ({error}): {build_command(folder)}") from error


def _read_faiss(path: Path) -> Any:
    """From a file, which is mapped into memory and not copied: all workers of a server share its pages."""
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)


def kind_for(facts: int) -> str:
    """``flat``, or a FAISS factory string, for so many facts."""
    if facts <= FLAT_FACTS:
        return "flat"
    return f"IVF{max(64, 2 ** round(math.log2(LISTS_PER_ROOT * math.sqrt(facts))))},SQ8"


def make_index(vectors: StoredVectors | Vectors | Floats, kind: str = "", threads: int = 1) -> Any:
    """A FAISS index (inner product) over ``(n, d)`` vectors of unit length."""
    faiss.omp_set_num_threads(threads)
    n, dimensions = vectors.shape
    kind = kind or kind_for(n)
    if kind == "flat":
        index: Any = faiss.IndexFlatIP(dimensions)
    else:
        index = faiss.index_factory(dimensions, kind, faiss.METRIC_INNER_PRODUCT)
        _train(index, vectors)
    for start in range(0, n, _BLOCK):
        index.add(np.ascontiguousarray(vectors[start : start + _BLOCK], np.float32))
    return index


def _train(index: Any, vectors: StoredVectors | Vectors | Floats) -> None:
    """On a sample that is the same for the same vectors."""
    inverted = faiss.try_extract_index_ivf(index)
    lists = inverted.nlist if inverted is not None else 256
    if inverted is not None:
        inverted.cp.niter, inverted.cp.seed = _TRAINED_ROUNDS, SEED
        inverted.cp.max_points_per_centroid = TRAINED_PER_LIST
    count = min(len(vectors), lists * TRAINED_PER_LIST)
    sample = np.sort(np.random.default_rng(SEED).choice(len(vectors), count, replace=False))
    index.train(np.ascontiguousarray(vectors[sample], np.float32))


def probe(index: Any) -> Any:
    """`index`, with how many of its lists to look into."""
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.nprobe = round(PROBED_PER_ROOT * math.sqrt(inverted.nlist))
    return index


def nearest(index: Any, vectors: Floats, most: int) -> NDArray[np.int64]:
    """``(len(vectors), most)`` rows, best first; -1 where there are fewer."""
    faiss.omp_set_num_threads(1)  # of this thread: a search takes less than waking others does
    _, rows = index.search(np.ascontiguousarray(vectors, np.float32), min(most, index.ntotal))
    found: NDArray[np.int64] = rows
    return found


def best(rows: NDArray[np.int64], scores: Floats, most: int) -> NDArray[np.int64]:
    """The `most` rows of the highest scores, the earlier of equals first."""
    if len(rows) > most:
        floor = np.partition(scores, len(scores) - most)[len(scores) - most]
        kept = scores >= floor
        rows, scores = rows[kept], scores[kept]
    order: NDArray[np.int64] = rows[np.lexsort((rows, -scores))][:most]
    return order


def value_at(rows: NDArray[np.int64], values: Floats, wanted: NDArray[np.int64]) -> Floats:
    """The values of the rows `wanted`, 0 for those that are not in `rows` (ascending)."""
    if not len(rows):
        return np.zeros(len(wanted), np.float32)
    at = np.minimum(np.searchsorted(rows, wanted), len(rows) - 1)
    found: Floats = np.where(rows[at] == wanted, values[at], np.float32(0))
    return found
