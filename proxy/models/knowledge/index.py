"""An index over facts: made of a folder, in memory or on disk, and searched by words and vectors together.

A text's candidates are the facts nearest to it by vectors and those that share most of its terms; each gets the mean of its cosine and of
the share of the text's terms that it has. Names and numbers weigh in the one, other wordings and languages in the other.
"""

from __future__ import annotations

import hashlib
import mmap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from proxy.errors import ConfigError
from proxy.models.knowledge.files import ARRAYS, Manifest, current_of, manifest_of, read_array
from proxy.models.knowledge.vectors import Floats, nearest, probe, read_index
from proxy.models.knowledge.words import WordIndex, best, value_at
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
        name = np.uint64(exact_name(normalised(text)))
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


def exact_name(said: str) -> int:
    """The hash of a normalised text, 64 bits."""
    return int.from_bytes(hashlib.blake2b(said.encode("utf-8", "replace"), digest_size=8).digest(), "little")


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
