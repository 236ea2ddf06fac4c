"""A folder of facts -> its index, on disk (``groundwire knowledge build``) or, of a small folder, in memory.

A build reads every file, embeds only the texts that the index before has no vector of, and leaves out what has gone. It writes beside what
is there and puts itself in its place at the end (`proxy.models.knowledge.files`), so that a server may read all the while.
"""

from __future__ import annotations

import hashlib
import os
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import msgspec
import numpy as np
from msgspec import Struct
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from proxy.errors import ConfigError
from proxy.grounding.knowledge.reading import FileProblem, files_of, read_folder
from proxy.models.knowledge.files import (
    FORMAT,
    Manifest,
    current_of,
    finish_generation,
    manifest_of,
    read_array,
    stamps_of,
    start_generation,
    writing,
)
from proxy.models.knowledge.index import (
    Exact,
    KnowledgeIndex,
    VersionHash,
    WordIndex,
    WordsBuilder,
    kind_for,
    make_index,
    name_of,
    write_index,
)
from proxy.ports import Embedder
from proxy.ports.facts import Fact, normalised

BLOCK = 1024
"""Texts that are embedded at a time."""
KEY_BYTES = 16
Progress = Callable[[int, int], None]
"""Is told how many facts of how many have their vector."""


class Built(Struct, frozen=True):
    """What a build did."""

    version: str
    facts: int
    embedded: int
    """Facts that no earlier index had a vector of."""
    removed: int
    """Vectors of the index before that nothing needs any more."""
    kind: str
    problems: tuple[FileProblem, ...]
    generation: Path


class _Read(Struct):
    """What is gathered of the facts while they are read."""

    version: VersionHash
    words: WordsBuilder
    offsets: array[int]
    names: array[int]
    rows: array[int]
    keys: bytearray
    problems: list[FileProblem]
    count: int = 0

    def add(self, fact: Fact) -> None:
        """The next fact."""
        self.version.add(fact)
        self.words.add(fact.text)
        for said in dict.fromkeys((normalised(fact.statement), normalised(fact.text))):
            self.names.append(name_of(said))
            self.rows.append(self.count)
        self.keys += _key(fact.text)
        self.count += 1

    def exact(self) -> Exact:
        """Sorted for the search."""
        names = np.array(self.names, np.uint64)
        order = np.argsort(names, kind="stable")
        return Exact(names[order], np.array(self.rows, np.int32)[order])


def _reading(embedder: str) -> _Read:
    return _Read(VersionHash(embedder), WordsBuilder(), array("q", [0]), array("Q"), array("i"), bytearray(), [])


async def build(folder: Path, embedder: Embedder, *, progress: Progress | None = None, threads: int = 1) -> Built:
    """Build the folder's index on disk. Raises `ConfigError` (no folder, not writable, another build) and `ModelUnavailable`."""
    files = files_of(folder)
    await embedder.embed([""])  # its name and dimensions are known once it is loaded
    with writing(folder) as where:
        known = _Known(folder, embedder.name)
        partial = start_generation(where, str(os.getpid()))
        stamps = stamps_of(folder, files)
        read = _reading(embedder.name)
        with (partial / "facts.jsonl").open("wb") as file:
            for found in read_folder(folder):
                if isinstance(found, FileProblem):
                    read.problems.append(found)
                else:
                    read.add(found)
                    _write_fact(file, found, read.offsets)
        embedded = await _write_vectors(partial, read, known, embedder, progress)
        kind = _write_arrays(partial, read, threads)
        manifest = Manifest(
            format=FORMAT,
            version=read.version.value,
            embedder=embedder.name,
            dimensions=embedder.dimensions,
            facts=read.count,
            kind=kind,
            files=stamps,
            made_at=time.time(),
        )
        removed = known.size - len(known.used)
        return Built(manifest.version, read.count, embedded, removed, kind, tuple(read.problems), finish_generation(partial, manifest))


async def build_in_memory(facts: Sequence[Fact], embedder: Embedder) -> KnowledgeIndex:
    """The same index without a file. Raises `ModelUnavailable`."""
    vectors = (await embedder.embed([fact.text for fact in facts], bulk=True)).astype(np.float16)
    read = _reading(embedder.name)
    for fact in facts:
        read.add(fact)
    index = make_index(vectors) if len(facts) else None
    return KnowledgeIndex(read.version.value, tuple(facts), vectors, index, read.words.build(), read.exact())


def first_facts(folder: Path, most: int) -> tuple[list[Fact], list[FileProblem]]:
    """At most `most` facts of a folder, and what is wrong with its files as far as they were read."""
    facts: list[Fact] = []
    problems: list[FileProblem] = []
    for found in read_folder(folder):
        if isinstance(found, FileProblem):
            problems.append(found)
        else:
            facts.append(found)
            if len(facts) == most:
                break
    return facts, problems


class _Known:
    """The vectors of the index before, by their text."""

    def __init__(self, folder: Path, embedder: str) -> None:
        self.used: set[int] = set()
        self.size = 0
        self._rows: dict[bytes, int] = {}
        generation = current_of(folder)
        if generation is None:
            return
        try:
            if manifest_of(generation).embedder != embedder:
                return
            keys, self._vectors = read_array(generation, "keys"), read_array(generation, "vectors")
        except (ConfigError, OSError, ValueError):  # unreadable: everything is embedded anew
            return
        data = keys.tobytes()
        self._rows = {data[i : i + KEY_BYTES]: i // KEY_BYTES for i in range(0, len(data), KEY_BYTES)}
        self.size = len(self._rows)

    def get(self, key: bytes) -> NDArray[np.float16] | None:
        """The vector of a text's key."""
        row = self._rows.get(key)
        if row is None:
            return None
        self.used.add(row)
        found: NDArray[np.float16] = self._vectors[row]
        return found


async def _write_vectors(partial: Path, read: _Read, known: _Known, embedder: Embedder, progress: Progress | None) -> int:
    """``vectors.npy``, in the facts' order; returns how many were embedded."""
    shape = (read.count, embedder.dimensions)
    vectors = open_memmap(partial / "vectors.npy", "w+", np.float16, shape) if read.count else np.zeros(shape, np.float16)
    embedded = 0
    for start, texts in _blocks(partial, read):
        keys = [bytes(read.keys[i * KEY_BYTES : (i + 1) * KEY_BYTES]) for i in range(start, start + len(texts))]
        open_ = []
        for i, key in enumerate(keys):
            if (vector := known.get(key)) is not None:
                vectors[start + i] = vector
            else:
                open_.append(i)
        if open_:
            vectors[[start + i for i in open_]] = await embedder.embed([texts[i] for i in open_], bulk=True)
            embedded += len(open_)
        if progress is not None:
            progress(start + len(texts), read.count)
    if isinstance(vectors, np.memmap):
        vectors.flush()
    else:
        np.save(partial / "vectors.npy", vectors)
    return embedded


def _blocks(partial: Path, read: _Read) -> Iterator[tuple[int, list[str]]]:
    """The facts' texts again, from the file that was just written: all of them may be more than memory holds."""
    decode = msgspec.json.Decoder(Fact).decode
    with (partial / "facts.jsonl").open("rb") as file:
        for start in range(0, read.count, BLOCK):
            yield start, [decode(line).text for line in islice(file, BLOCK)]


def _write_arrays(partial: Path, read: _Read, threads: int) -> str:
    """Everything but facts and vectors; returns the kind of the vector index."""
    words, exact = read.words.build(), read.exact()
    arrays = {
        "offsets": np.array(read.offsets, np.int64),
        **{name: getattr(words, name) for name in WordIndex.__struct_fields__ if name != "size"},
        "exact_names": exact.names,
        "exact_rows": exact.rows,
        "keys": np.frombuffer(bytes(read.keys), np.uint8),
    }
    for name, values in arrays.items():
        np.save(partial / f"{name}.npy", values)
    if read.count:
        write_index(make_index(read_array(partial, "vectors"), threads=threads), partial / "vectors.faiss")
    return kind_for(read.count)


def _write_fact(file: BinaryIO, fact: Fact, offsets: array[int]) -> None:
    line = msgspec.json.encode(fact) + b"\n"
    file.write(line)
    offsets.append(offsets[-1] + len(line))


def _key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=KEY_BYTES).digest()
