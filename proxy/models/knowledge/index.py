"""An index over facts: made of a folder, in memory or on disk, and searched by words and vectors together.

A text's candidates are the facts nearest to it by vectors and those that share most of its terms; each gets the mean of its cosine and of
the share of the text's terms that it has. Names and numbers weigh in the one, other wordings and languages in the other.

Vectors: which FAISS index a base gets goes by its size, by measurement (`benchmarks/knowledge.py`): up to `FLAT_FACTS` every vector is
compared (float32, exact); above, inverted lists over vectors of 8 bits a dimension (`IVF<lists>,SQ8`). What the index brings up is ordered
again by the exact vectors, which are read from disk (float16, 2 bytes a dimension, memory-mapped), so that compression costs candidates,
not order. It is made anew from the vectors in every build: that takes seconds where embedding takes minutes, and the same facts give the
same index whatever was built before.

Words: terms are those of grounding (`proxy.grounding.evidence.retrieval.terms`), named by a hash of 64 bits, in arrays that can be read
from disk without being loaded. A fact's score for a text is the share of the text's terms that it has, weighted by inverse document
frequency (Robertson and Spärck Jones 1976), 0 to 1. Function words, and in a large base terms of more than a tenth of its facts, are left
out unless a text has no others.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import faiss
import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.errors import ConfigError
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.models.knowledge.files import ARRAYS, Manifest, current_of, manifest_of, read_array
from proxy.ports.facts import Fact, FactHit, normalised

CANDIDATES = 32
"""Facts that either search brings up, at least; four for each fact that is asked for."""
Vectors = NDArray[np.float16]


class FactIndex(Protocol):
    """The facts by row."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> Fact: ...


class Exact(msgspec.Struct, frozen=True):
    """Facts by the hash of what they say."""

    names: NDArray[np.uint64]
    """Ascending."""
    rows: NDArray[np.int32]

    def candidates(self, text: str) -> list[int]:
        """Rows that may say it, ascending: hashes can collide."""
        name = np.uint64(name_of(normalised(text)))
        start, end = np.searchsorted(self.names, name, "left"), np.searchsorted(self.names, name, "right")
        return sorted(self.rows[start:end].tolist())


class KnowledgeIndex:
    """Facts that can be searched. Never changes."""

    def __init__(self, version: str, facts: FactIndex, vectors: Vectors, index: Any, words: WordIndex, exact: Exact) -> None:
        """`vectors` is ``(len(facts), d)``, and `index` a FAISS index over it; both are None for no facts."""
        self.version, self.facts = version, facts
        self._vectors, self._index, self._words, self._exact = vectors, index, words, exact

    def __len__(self) -> int:
        return len(self.facts)

    def search(self, texts: Sequence[str], vectors: Floats, k: int) -> list[list[FactHit]]:
        """For each text, with its vector, at most `k` facts, best first; of equals, the earlier one."""
        if not len(self) or not texts or k < 1:
            return [[] for _ in texts]
        most = max(CANDIDATES, 4 * k)
        near = nearest(self._index, vectors, most)
        return [self._ranked(text, vector, rows[rows >= 0], k, most) for text, vector, rows in zip(texts, vectors, near, strict=True)]

    def exact(self, text: str) -> Fact | None:
        """The fact that says `text` word by word; one that holds now before one that does not."""
        wanted, now = normalised(text), time.time()
        if not wanted:
            return None
        found = [fact for row in self._exact.candidates(text) if wanted in _said(fact := self.facts[row])]
        return next((fact for fact in found if fact.holds_at(now)), found[0] if found else None)

    def _ranked(self, text: str, vector: Floats, near: NDArray[np.int64], k: int, most: int) -> list[FactHit]:
        sharing, shares = self._words.coverage(text)
        rows = np.union1d(near, best(sharing, shares, most))
        cosines = np.clip(self._vectors[rows].astype(np.float32) @ vector, 0, 1)
        scores = ((cosines + value_at(sharing, shares, rows)) / 2).round(6)
        order = np.lexsort((rows, -scores))[:k]
        return [FactHit(self.facts[int(rows[i])], float(scores[i])) for i in order]


def _said(fact: Fact) -> tuple[str, str]:
    return normalised(fact.statement), normalised(fact.text)


def name_of(text: str) -> int:
    """A hash of a term, or of a normalised text, of 64 bits: among ten million two share one once in 370,000 times."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "little")


class FactsOnDisk:
    """Facts of ``facts.jsonl``, one read where it is asked for."""

    def __init__(self, generation: Path) -> None:
        self._offsets = read_array(generation, "offsets")
        with (generation / "facts.jsonl").open("rb") as file:
            self._data: mmap.mmap | bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(self) else b""
        self._decode = msgspec.json.Decoder(Fact).decode

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int, /) -> Fact:
        return self._decode(self._data[int(self._offsets[row]) : int(self._offsets[row + 1])])


def open_generation(generation: Path) -> tuple[KnowledgeIndex, Manifest]:
    """What a build has written; all of it stays on disk, mapped into memory. Raises `ConfigError`, `OSError`, `ValueError`."""
    manifest = manifest_of(generation)
    facts = FactsOnDisk(generation)
    if len(facts) != manifest.facts:
        raise ValueError(f"{generation}: {len(facts)} facts where the manifest says {manifest.facts}")
    arrays = {name: read_array(generation, name) for name in ARRAYS if name not in ("offsets", "keys")}
    index = probe(read_index(generation / "vectors.faiss")) if len(facts) else None
    words = WordIndex(arrays["names"], arrays["starts"], arrays["rows"], len(facts))
    exact = Exact(arrays["exact_names"], arrays["exact_rows"])
    return KnowledgeIndex(manifest.version, facts, read_array(generation, "vectors"), index, words, exact), manifest


def open_current(folder: Path) -> tuple[KnowledgeIndex, Manifest] | None:
    """The generation that counts, None where nothing was built. Raises as `open_generation` does."""
    generation = current_of(folder)
    while generation is not None:
        try:
            return open_generation(generation)
        except (ConfigError, OSError, ValueError):
            named = current_of(folder)
            if named == generation:
                raise
            generation = named  # builds went on meanwhile, and cleared away what was being opened
    return None


class VersionHash:
    """The version of a knowledge base: its facts in order, with their sources, and the embedder's name."""

    def __init__(self, embedder: str) -> None:
        self._digest = hashlib.blake2b(embedder.encode(), digest_size=8)

    def add(self, fact: Fact) -> None:
        """The next fact."""
        self._digest.update(fact.id.encode() + fact.source.encode("utf-8", "replace") + b"\0")

    @property
    def value(self) -> str:
        """16 hexadecimal digits."""
        return self._digest.hexdigest()


Floats = NDArray[np.float32]

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


def kind_for(facts: int) -> str:
    """``flat``, or a FAISS factory string, for so many facts."""
    if facts <= FLAT_FACTS:
        return "flat"
    return f"IVF{max(64, 2 ** round(math.log2(LISTS_PER_ROOT * math.sqrt(facts))))},SQ8"


def make_index(vectors: NDArray[np.float16] | Floats, kind: str = "", threads: int = 1) -> Any:
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


def _train(index: Any, vectors: NDArray[np.float16] | Floats) -> None:
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
    """`index`, told how many of its lists to look into."""
    inverted = faiss.try_extract_index_ivf(index)
    if inverted is not None:
        inverted.nprobe = round(PROBED_PER_ROOT * math.sqrt(inverted.nlist))
    return index


def write_index(index: Any, path: Path) -> None:
    """To a file."""
    faiss.write_index(index, str(path))


def read_index(path: Path) -> Any:
    """From a file, which is mapped into memory and not copied: all workers of a server share its pages."""
    return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)


def nearest(index: Any, vectors: Floats, most: int) -> NDArray[np.int64]:
    """``(len(vectors), most)`` rows, best first; -1 where there are fewer."""
    faiss.omp_set_num_threads(1)  # of this thread: a search takes less than waking others does
    _, rows = index.search(np.ascontiguousarray(vectors, np.float32), min(most, index.ntotal))
    found: NDArray[np.int64] = rows
    return found


COMMON_SHARE = 0.1
LARGE = 10_000
"""Facts from which on common terms are left out."""
_MAX_TERMS = 64
"""Of one text: the rarest."""


class WordIndex(Struct, frozen=True):
    """An inverted index."""

    names: NDArray[np.uint64]
    """``(terms,)``: hashes, ascending."""
    starts: NDArray[np.int64]
    """``(terms + 1,)``: the facts of term i are ``rows[starts[i]:starts[i + 1]]``."""
    rows: NDArray[np.int32]
    size: int
    """Facts."""

    def coverage(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The facts that share a term with `text`, ascending, and how much of its terms each has, 0 to 1."""
        found, total = self._wanted(text)
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        rows = np.concatenate([self.rows[start:end] for start, end, _ in found])
        weights = np.concatenate([np.full(end - start, weight, np.float32) for start, end, weight in found])
        distinct, inverse = np.unique(rows, return_inverse=True)
        shares = np.bincount(inverse, weights, len(distinct)) / total
        return distinct.astype(np.int64), np.minimum(1.0, shares).astype(np.float32)

    def _wanted(self, text: str) -> tuple[list[tuple[int, int, float]], float]:
        """Where the facts of each term stand, with its weight; and the weight of all terms, of those that no fact has, too."""
        said = set(terms(text))
        known = [(self._place(term), term) for term in sorted(said - FUNCTION_WORDS or said)]
        weighed = [(start, end, self._weight(end - start)) for (start, end), _ in known]
        total = sum(weight for _, _, weight in weighed)
        there = sorted((item for item in weighed if item[1] > item[0]), key=lambda item: (item[1] - item[0], item[0]))[:_MAX_TERMS]
        rare = [item for item in there if self.size < LARGE or item[1] - item[0] <= COMMON_SHARE * self.size]
        return rare or there[:1], total or 1.0

    def _place(self, term: str) -> tuple[int, int]:
        name = np.uint64(name_of(term))
        i = int(np.searchsorted(self.names, name))
        if i == len(self.names) or self.names[i] != name:
            return 0, 0
        return int(self.starts[i]), int(self.starts[i + 1])

    def _weight(self, facts: int) -> float:
        return math.log(1 + (self.size - facts + 0.5) / (facts + 0.5))


class WordsBuilder:
    """Takes facts one after another."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._terms, self._rows = array("i"), array("i")
        self._size = 0

    def add(self, text: str) -> None:
        """The next fact's text."""
        for term in set(terms(text)):
            self._terms.append(self._ids.setdefault(term, len(self._ids)))
            self._rows.append(self._size)
        self._size += 1

    def build(self) -> WordIndex:
        """The index."""
        names = np.fromiter(map(name_of, self._ids), np.uint64, len(self._ids))
        order = np.argsort(names, kind="stable")
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        term_of = place[np.frombuffer(self._terms, np.int32)] if self._terms else np.zeros(0, np.int32)
        rows = np.frombuffer(self._rows, np.int32) if self._rows else np.zeros(0, np.int32)
        starts = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.bincount(term_of, minlength=len(order)), out=starts[1:])
        return WordIndex(names[order], starts, rows[np.argsort(term_of, kind="stable")], self._size)


def best(rows: NDArray[np.int64], scores: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """The `most` rows of the highest scores, the earlier of equals first."""
    if len(rows) > most:
        floor = np.partition(scores, len(scores) - most)[len(scores) - most]
        kept = scores >= floor
        rows, scores = rows[kept], scores[kept]
    order: NDArray[np.int64] = rows[np.lexsort((rows, -scores))][:most]
    return order


def value_at(rows: NDArray[np.int64], values: NDArray[np.float32], wanted: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """The values of the rows `wanted`, 0 for those that are not in `rows` (ascending)."""
    asked = np.asarray(wanted, np.int64)
    if not len(rows):
        return np.zeros(len(asked), np.float32)
    at = np.minimum(np.searchsorted(rows, asked), len(rows) - 1)
    found: NDArray[np.float32] = np.where(rows[at] == asked, values[at], np.float32(0))
    return found
