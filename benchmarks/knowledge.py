"""What a knowledge base of many facts costs: build, disk, memory, search; and what its compressed index loses against a full search.

Facts are made up, from a seed: "The <attribute> of <place> <place> is <value>". Their vectors are made up too, the sum of a random vector
for each word (512 dimensions, as the built-in model's), because embedding a million texts takes longer than everything else together;
``--embedder builtin`` uses the built-in model, for small numbers. Recall is that of the five facts nearest by exact cosine over all facts.

    python -m benchmarks.knowledge                      # a million facts
    python -m benchmarks.knowledge --facts 100000
    python -m benchmarks.knowledge --facts 20000 --embedder builtin
    python -m benchmarks.knowledge --facts 100000 --kinds flat "IVF512,SQ8" "HNSW32,SQ8" "IVF512,PQ64"

PostgreSQL with pgvector is not built in, and not measured: what follows is worked out from pgvector's documentation
(https://github.com/pgvector/pgvector). A knowledge base would be one table: the columns of `proxy.ports.facts.Fact`, the base's
version, the hash of the normalised text (B-tree, for exact matches), a `tsvector` (GIN, for the words) and a `halfvec(512)`, which takes
2 * 512 + 8 = 1,032 bytes. A million facts are then about 1 GB of vectors, in the rows themselves (they go out of line from 2 kB on), and
a few hundred bytes of text each. The index that keeps up with rows that come and go is HNSW (`halfvec_ip_ops`, m = 16, ef_construction =
64): it holds every vector once more, with up to 32 neighbours of 6 bytes on its lowest layer, so 1.3 to 1.5 GB, and is built much faster
where that fits into `maintenance_work_mem`. IVFFlat is smaller and quicker to build, but its lists are found from the rows that are there
when it is made. `hnsw.ef_search` must be at least the 32 candidates that are asked for (it is 40), and a condition such as `version = …`
or `valid_to > now()` is applied behind the index, so that few may be left: an iterative scan (pgvector 0.8), or a partition for each
version.

What would be gained: one copy for several machines, and updates row by row. What would be lost: the read-only snapshot that a worker maps
into memory, so that every look-up becomes a round trip of one or two queries, and the guarantee that one exchange is judged by one
version, unless the version is part of every query. It would be a second implementation of `proxy.ports.KnowledgeBase`; nothing above it
would change.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import hashlib
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from benchmarks.load.statistics import percentile
from proxy.grounding.knowledge.retrieval import CANDIDATES
from proxy.models.embedding.embedder import BatchingEmbedder, unit
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.knowledge.building import build
from proxy.models.knowledge.index import KnowledgeIndex, StoredVectors, make_index, nearest, open_index, probe

RESULTS = Path(__file__).parent / "results" / "knowledge.json"
SEED, DIMENSIONS, K = 7, 512, 5
SYLLABLES = "ka lo mi ren tas ul vor ber dan esk fin gol har ist jor kel lum nar ost pel".split()  # noqa: SIM905
ATTRIBUTES = (  # noqa: SIM905
    "population mayor altitude area founder museum river harbour airport railway cathedral university stadium theatre bridge library "
    "market hospital newspaper brewery lighthouse"
).split()
Floats = NDArray[np.float32]


class WordVectors:
    """A `proxy.ports.Embedder`: the sum of a random vector for each word, of unit length."""

    name, dimensions = "word-vectors-512@1", DIMENSIONS

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._table = np.zeros((1024, DIMENSIONS), np.float32)

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> Floats:
        """``(len(texts), 512)``"""
        words = [re.findall(r"\w+", text.lower()) or [""] for text in texts]
        flat = np.fromiter((self._row(word) for found in words for word in found), np.int64)
        starts = np.cumsum([0, *(len(found) for found in words[:-1])])
        return unit(np.add.reduceat(self._table[flat], starts)) if texts else np.zeros((0, DIMENSIONS), np.float32)

    def stop(self) -> None:
        """Nothing runs."""

    def _row(self, word: str) -> int:
        row = self._rows.setdefault(word, len(self._rows))
        if row == len(self._table):
            self._table = np.vstack([self._table, np.zeros_like(self._table)])
        if not self._table[row].any():
            seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")
            self._table[row] = np.random.default_rng(seed).standard_normal(DIMENSIONS, np.float32)
        return row


def names(count: int, rng: random.Random) -> list[str]:
    """Made-up place names."""
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(rng.choices(SYLLABLES, k=3)).capitalize()] = None
    return list(found)


def write_facts(folder: Path, count: int) -> list[tuple[str, str]]:
    """A CSV file of facts; returns some questions, each with the statement that answers it."""
    rng = random.Random(SEED)
    places = names(4000, rng)
    asked = set(rng.sample(range(count), min(count, 1000)))
    questions: list[tuple[str, str]] = []
    with (folder / "facts.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["subject", "statement", "source"])
        for i in range(count):
            place, attribute = f"{rng.choice(places)} {rng.choice(places)}", rng.choice(ATTRIBUTES)
            value = str(rng.randrange(10, 100_000)) if rng.random() < 0.5 else rng.choice(places)
            statement = f"The {attribute} of {place} is {value}."
            writer.writerow([place, statement, f"gazetteer {i % 97}"])
            if i in asked:
                questions.append((f"{place} has the {attribute} {rng.choice(places)}.", statement))
    return questions


async def measure(facts: int, builtin: bool, kinds: Sequence[str], threads: int) -> dict[str, Any]:
    """Everything, in a folder that is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="groundwire-knowledge-"))
    embedder: Any = BatchingEmbedder(UseEncoder(1)) if builtin else WordVectors()
    try:
        questions = write_facts(folder, facts)
        found: dict[str, Any] = {"facts": facts, "embedder": embedder.name if builtin else WordVectors.name}
        found |= await _build(folder, embedder, threads)
        found |= _disk(folder)
        found |= _memory(folder)
        found |= await _search(folder, embedder, questions)
        found["indexes"] = await _indexes(folder, embedder, questions, kinds or sorted({"flat", found["kind"]}), threads)
        return found
    finally:
        embedder.stop()
        shutil.rmtree(folder)


async def _build(folder: Path, embedder: Any, threads: int) -> dict[str, Any]:
    started = time.perf_counter()
    built = await build(folder, embedder, threads=threads)
    first = time.perf_counter() - started
    with (folder / "more.csv").open("w", encoding="utf-8") as file:
        file.write("subject,statement\nNowhere,Nowhere has one lighthouse.\n")
    started = time.perf_counter()
    again = await build(folder, embedder, threads=threads)
    return {
        "indexed": again.facts,
        "kind": again.kind,
        "duplicates": len(built.problems),
        "build_s": round(first, 1),
        "update_s": round(time.perf_counter() - started, 1),
        "embedded_in_update": again.embedded,
    }


def _disk(folder: Path) -> dict[str, Any]:
    sizes = {path.suffix: round(path.stat().st_size / 2**20, 1) for path in sorted((folder / ".index").iterdir())}
    return {
        "source_mb": round((folder / "facts.csv").stat().st_size / 2**20, 1),
        "disk_mb": round(sum(sizes.values()), 1),
        "files_mb": sizes,
    }


def _memory(folder: Path) -> dict[str, float]:
    """Of a fresh process that opens the index and makes one search: its own memory, and pages of mapped files that others may share."""
    script = (
        "import sys, json, numpy as np; from pathlib import Path\n"
        "from proxy.models.knowledge.index import open_index\n"
        "def rss(): return {l.split(':')[0]: int(l.split()[1]) / 1024 for l in open('/proc/self/status') if l.startswith('Rss')}\n"
        "before = rss(); index = open_index(Path(sys.argv[1]))\n"
        "vectors = np.eye(1, index.manifest.dimensions, dtype=np.float32)\n"
        "index.search(['The mayor of Kalomi Rentas is Ulvorber'], vectors, 5); after = rss()\n"
        "print(json.dumps({k: round(after[k] - before[k], 1) for k in after}))"
    )
    found = json.loads(subprocess.run([sys.executable, "-c", script, str(folder)], check=True, capture_output=True).stdout)
    return {"own_memory_mb": found["RssAnon"], "mapped_mb": found["RssFile"]}


def _opened(folder: Path) -> KnowledgeIndex:
    index = open_index(folder)
    assert index is not None
    return index


async def _search(folder: Path, embedder: Any, questions: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Words and vectors together, a question at a time; the question's vector is there already."""
    index = _opened(folder)
    vectors = await embedder.embed([text for text, _ in questions])
    took, hits = [], 0
    for (text, statement), vector in zip(questions, vectors, strict=True):
        started = time.perf_counter()
        [found] = index.search([text], vector[None], K)
        took.append((time.perf_counter() - started) * 1e3)
        hits += any(hit.fact.statement == statement for hit in found)
    return {
        "questions": len(questions),
        "found_at_5": round(hits / len(questions), 4),
        "search_p50_ms": round(percentile(took, 0.5), 2),
        "search_p95_ms": round(percentile(took, 0.95), 2),
    }


async def _indexes(folder: Path, embedder: Any, questions: Sequence[tuple[str, str]], kinds: Sequence[str], threads: int) -> dict[str, Any]:
    """Vector indexes of several kinds over the same vectors: time to make, size, recall of the five nearest after exact re-ranking."""
    stored = _opened(folder).vectors
    asked = (await embedder.embed([text for text, _ in questions]))[:500]
    truth = _exact(stored, asked)
    found: dict[str, Any] = {}
    for kind in kinds:
        started = time.perf_counter()
        index = probe(make_index(stored, kind, threads))
        made = time.perf_counter() - started
        path = folder / "candidate.faiss"
        faiss.write_index(index, str(path))
        took, recalls = [], []
        for vector, nearest_five in zip(asked, truth, strict=True):
            started = time.perf_counter()
            rows = nearest(index, vector[None], CANDIDATES)[0]
            rows = np.sort(rows[rows >= 0])
            ranked = rows[np.argsort(-(stored[rows].astype(np.float32) @ vector), kind="stable")[:K]]
            took.append((time.perf_counter() - started) * 1e3)
            recalls.append(len(set(ranked.tolist()) & nearest_five) / K)
        found[kind] = {
            "make_s": round(made, 1),
            "mb": round(path.stat().st_size / 2**20, 1),
            "recall_at_5": round(float(np.mean(recalls)), 4),
            "p50_ms": round(percentile(took, 0.5), 2),
            "p95_ms": round(percentile(took, 0.95), 2),
        }
        print(f"  {kind:14s} {found[kind]}", flush=True)
    return found


def _exact(stored: StoredVectors, asked: Floats) -> list[set[int]]:
    """The rows of the five nearest of all, block by block."""
    faiss.omp_set_num_threads(1)
    scores = np.full((len(asked), K), -np.inf, np.float32)
    rows = np.full((len(asked), K), -1, np.int64)
    for start in range(0, len(stored), 65_536):
        block = stored[start : start + 65_536].astype(np.float32)
        near = asked @ block.T
        best = np.argpartition(-near, min(K, near.shape[1] - 1), axis=1)[:, :K]
        scores = np.hstack([scores, np.take_along_axis(near, best, 1)])
        rows = np.hstack([rows, best + start])
        kept = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        scores, rows = np.take_along_axis(scores, kept, 1), np.take_along_axis(rows, kept, 1)
    return [set(row.tolist()) for row in rows]


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="20,000 facts")
    parser.add_argument("--embedder", choices=("words", "builtin"), default="words")
    parser.add_argument("--kinds", nargs="*", default=[], help="FAISS factory strings to compare")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    facts = 20_000 if arguments.quick else arguments.facts
    found = asyncio.run(measure(facts, arguments.embedder == "builtin", arguments.kinds, arguments.threads))
    print("\n".join(f"  {name}: {value}" for name, value in found.items() if name != "indexes"))
    known = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    known[f"{found['embedder']} {facts}"] = {**found, "seed": SEED, "threads": arguments.threads}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(known, indent=1))


if __name__ == "__main__":
    main()
