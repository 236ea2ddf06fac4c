"""Does tool RAG keep the tools that are needed, how sure is it, and what does it cost?

    python -m benchmarks.tools [--quick] [--seed N]

Data: the test parts of ``../shared/data/tools`` (`benchmarks.tool_data` says how they are split); nothing of them was trained on. Every
query is ranked over its source's whole catalogue; *own* are questions written for this, in four languages. Baselines in the same run:
BM25 (bm25s) and the plain embedding (inner product of query and description). *COMP@k* is the share of queries all of whose needed
tools are among the first k. Intervals are 95% bootstrap.

*MCP* are the tools of thirty real servers with requests written for them before any was ranked, a fifth in German, Spanish or French. None
was trained on; half of them (*development*) were looked at while features were made, half (*measured*) never. A step is found where any
tool that does it is among the first k.

*First set* is what the stage sends, as shipped, of three catalogues of 45 tools (`benchmarks.tool_families`).

*First query* is what a query gets while the catalogue is new to the proxy: its short list's tools ranked among each other.

*Outcomes*: MetaTool's training part stands for earlier calls, each of which called its needed tool. *Ten candidates* is MetaTool's own
setting, in which a query comes with ten tools: those needed, the rest drawn at random or those whose descriptions are nearest.

*False selection*: BFCL queries that no tool of theirs fits, over these and forty others of the pool; how often one of their own is at or
above `min_relevance`. *Reliability* compares relevance with how often the tool is needed, over all candidates of a catalogue's queries.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import bm25s
import numpy as np
import orjson
from numpy.typing import NDArray

from benchmarks.tool_data import SEED, Catalogue, catalogues, mcp_servers, own_questions, queries_that_fit_nothing, rough
from benchmarks.tool_families import FirstSet, families, first_sets
from proxy.models.tokens.counter import TiktokenCounter
from proxy.models.tokens.encodings import Encodings
from proxy.models.tools.index import Query, ToolIndex, probability, shipped
from proxy.models.tools.ranker import EmbeddingToolRanker, Moves, fit
from proxy.models.tools.words import SHORTLIST, new_tools, rough_text, shortlist, terms
from proxy.stages.tool_rag.selection import likely_enough
from proxy.testing import MemoryToolOutcomes

RESULTS = Path(__file__).parent / "results" / "tools.json"
Floats = NDArray[np.float32]
Ranker = Callable[[int], Floats]
"""Position of a test query -> a score for every tool."""
THRESHOLDS = (0.7, 0.1, 0.02, 0.0)
"""Of `min_relevance`."""
TOP_K = 5
LEARNED = "groundwire, outcomes"
FIRST = "groundwire, first query"
TOKEN_SHARE = 0.15
"""85% fewer tool tokens."""


def ours(catalogue: Catalogue, index: ToolIndex, moves: Moves | None = None) -> Ranker:
    """Relevance as the proxy computes it."""

    def rank(i: int) -> Floats:
        return relevance(index, catalogue.test_query(i), moves)

    return rank


def relevance(index: ToolIndex, query: Query, moves: Moves | None = None) -> Floats:
    candidates, features = index.features(query)
    logits = shipped().logits(features)
    if moves is not None:
        logits = moves.applied(logits, candidates, query.vector, index.descriptions)
    found = np.zeros(len(index.tools), np.float32)
    found[candidates] = probability(logits)
    return found


def first_query(catalogue: Catalogue, most: int = SHORTLIST) -> Ranker:
    """As the proxy ranks while a catalogue is new: out of a short list."""
    tools = new_tools(catalogue.texts, rough([rough_text(text) for text in catalogue.texts]))

    def rank(i: int) -> Floats:
        query = catalogue.test_query(i)
        chosen = shortlist(tools, [query.text], rough([query.text]), most)
        found = np.zeros(len(catalogue.tools), np.float32)
        found[chosen] = relevance(catalogue.index(chosen), query)
        return found

    return rank


def bm25(catalogue: Catalogue) -> Ranker:
    """bm25s with its defaults, over the same words as ours."""
    retriever = bm25s.BM25()
    retriever.index([list(text.terms) or [""] for text in catalogue.texts], show_progress=False)

    def rank(i: int) -> Floats:
        known = [term for term in terms(catalogue.test_query(i).text) if term in retriever.vocab_dict]
        return np.asarray(retriever.get_scores(known) if known else np.zeros(len(catalogue.tools)), np.float32)

    return rank


def embedding(catalogue: Catalogue) -> Ranker:
    return lambda i: catalogue.vectors[1] @ catalogue.test_query(i).vector


def learned(catalogue: Catalogue, index: ToolIndex, outcomes: int | None = None) -> Moves:
    """Moves out of the training part, or its first `outcomes`."""
    position = {name: i for i, name in enumerate(catalogue.names)}
    pairs = [(position[name], i) for i, asked in enumerate(catalogue.train[:outcomes]) for name in asked.needed]
    vectors = np.stack([catalogue.train_query(i).vector for _, i in pairs])
    return fit(index.descriptions, np.array([p for p, _ in pairs]), vectors, np.ones(len(pairs), np.float32))


# ---- measures ----


def measured(catalogue: Catalogue, rank: Ranker, queries: Sequence[int], tokens: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """One value for each query of every measure."""
    position = {name: i for i, name in enumerate(catalogue.names)}
    rows = []
    for i in queries:
        needed = {position[name] for name in catalogue.test[i].needed}
        scores = rank(i)
        order = np.argsort(-scores, kind="stable")
        rows.append(of_ranking(order.tolist(), needed, tokens) | selection(scores, order, needed, tokens))
    return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}


def of_ranking(order: Sequence[int], needed: set[int], tokens: NDArray[np.int64]) -> dict[str, float]:
    found: dict[str, float] = {f"recall@{k}": len(needed & set(order[:k])) / len(needed) for k in (1, 5, 10)}
    found["nDCG@5"] = ndcg(order, needed)
    found["COMP@5"] = float(needed <= set(order[:5]))
    spent = np.cumsum(tokens[list(order)])
    affordable = int(np.searchsorted(spent, TOKEN_SHARE * spent[-1], side="right"))
    found["COMP at 85% fewer tokens"] = float(needed <= set(order[:affordable]))
    return found


def ndcg(order: Sequence[int], needed: set[int], k: int = 5) -> float:
    gained = sum(1 / np.log2(rank + 2) for rank, tool in enumerate(order[:k]) if tool in needed)
    return float(gained / sum(1 / np.log2(rank + 2) for rank in range(min(k, len(needed)))))


def selection(scores: Floats, order: NDArray[np.int64], needed: set[int], tokens: NDArray[np.int64]) -> dict[str, float]:
    """What the stage keeps at several thresholds, without kin: of the top k those at or above it, and more where no tool is sure."""
    found, top, likely = {}, order[:TOP_K], order[: likely_enough(scores.tolist(), TOP_K)]
    for least in THRESHOLDS:
        sure = top[scores[top] >= least] if (scores[top] >= least).any() else top
        kept = likely if len(likely) > TOP_K else sure
        found[f"kept at {least}"] = float(len(kept))
        found[f"COMP at {least}"] = float(needed <= set(kept.tolist()))
        found[f"tokens saved at {least}"] = float(1 - tokens[kept].sum() / tokens.sum())
    return found


def interval(values: NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    """Mean with its 95% bootstrap interval."""
    random = np.random.default_rng(seed)
    means = [values[random.integers(0, len(values), len(values))].mean() for _ in range(400)]
    return float(values.mean()), float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def ten_candidates(catalogue: Catalogue, rank: Ranker, queries: Sequence[int], *, nearest: bool, seed: int) -> NDArray[np.float64]:
    """nDCG@5 where a query comes with ten tools."""
    position = {name: i for i, name in enumerate(catalogue.names)}
    alike = catalogue.vectors[1] @ catalogue.vectors[1].T
    random = np.random.default_rng(seed)
    found = []
    for i in queries:
        needed = {position[name] for name in catalogue.test[i].needed}
        by = np.argsort(-alike[next(iter(needed))]) if nearest else random.permutation(len(catalogue.tools))
        offered = [*needed, *(int(t) for t in by if t not in needed)][:10]
        scores = rank(i)
        found.append(ndcg(sorted(offered, key=lambda tool: (-scores[tool], tool)), needed))
    return np.array(found)


def reliability(pairs: Sequence[tuple[Floats, NDArray[np.bool_]]]) -> tuple[float, list[tuple[float, float, int]]]:
    """Expected calibration error over ten bins, and the curve: mean relevance, share needed, count. Relevance below 0.01 is left out:
    it is nearly all candidates and right, and would hide every other error."""
    said, true = (np.concatenate(column) for column in zip(*pairs, strict=True))
    said, true = said[said >= 0.01], true[said >= 0.01]
    bins = np.minimum((said * 10).astype(int), 9)
    curve = [(float(said[bins == b].mean()), float(true[bins == b].mean()), int((bins == b).sum())) for b in range(10) if (bins == b).any()]
    return sum(n * abs(p - t) for p, t, n in curve) / len(said), curve


def in_a_fresh_process(source: str, size: int, rounds: int) -> tuple[float, float]:
    """`latencies` where nothing else was measured before, as in a server."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_latencies, source, size, rounds).result()


def _latencies(source: str, size: int, rounds: int) -> tuple[float, float]:
    found = {catalogue.name: catalogue for catalogue in catalogues()}
    return asyncio.run(latencies(found["seal-tools"], size, [asked.text for asked in found[source].test[:rounds]]))


async def latencies(catalogue: Catalogue, size: int, queries: Sequence[str]) -> tuple[float, float]:
    """p50 and p95 in ms of a whole `rank` of a new query over so many tools of a catalogue, indexed."""
    from proxy.models.embedding.embedder import BatchingEmbedder
    from proxy.models.embedding.encoders import UseEncoder

    tools = list(catalogue.tools)[:size]
    while len(tools) < size:
        tools += [
            {**t, "function": {**t["function"], "name": f"{t['function']['name']}_{len(tools)}"}}
            for t in catalogue.tools[: size - len(tools)]
        ]
    embedder = BatchingEmbedder(UseEncoder())
    ranker = EmbeddingToolRanker(embedder, MemoryToolOutcomes(), wait_s=600)
    await ranker.rank(tools, "warm up")
    gc.collect()
    gc.freeze()  # as the server does: the figures measured before are no part of it
    taken = []
    for query in queries:
        started = time.perf_counter()
        await ranker.rank(tools, query)
        taken.append((time.perf_counter() - started) * 1000)
    await ranker.stop()
    embedder.stop()
    return float(np.quantile(taken, 0.5)), float(np.quantile(taken, 0.95))


class Report:
    """Prints as it goes and keeps everything for the file."""

    def __init__(self, seed: int, queries: int | None) -> None:
        self.seed, self.queries = seed, queries
        self.found: dict[str, Any] = {"seed": seed, "catalogues": {}}
        self._encodings = Encodings()
        self._encodings.load("o200k_base")

    def catalogue(self, catalogue: Catalogue) -> None:
        """One catalogue under every ranker."""
        queries = [int(i) for i in np.random.default_rng(self.seed).permutation(len(catalogue.test))[: self.queries]]
        index = catalogue.index()
        rankers = {"BM25": bm25(catalogue), "embedding": embedding(catalogue), "groundwire": ours(catalogue, index)}
        if len(catalogue.tools) > SHORTLIST:
            rankers[FIRST] = first_query(catalogue)
        if catalogue.name == "metatool":
            rankers[LEARNED] = ours(catalogue, index, learned(catalogue, index))
        tokens = np.array([self._encodings.count(orjson.dumps(tool).decode(), "o200k_base").tokens for tool in catalogue.tools])
        print(f"\n{catalogue.name}: {len(catalogue.tools)} tools, {tokens.sum()} tokens, {len(queries)} queries")
        table = self.found["catalogues"][catalogue.name] = {}
        for name, rank in rankers.items():
            values = measured(catalogue, rank, queries, tokens)
            table[name] = {measure: interval(v, self.seed) for measure, v in values.items()}
            print(f"  {name}\n" + "".join(f"    {m:26s} {told(v)}\n" for m, v in table[name].items()), end="")
        if catalogue.name == "metatool":
            table["ten candidates"] = self._ten_candidates(catalogue, rankers, queries)
            table["learning"] = self._learning(catalogue, index, queries)
        self._curves(catalogue, rankers, queries)

    def _ten_candidates(self, catalogue: Catalogue, rankers: dict[str, Ranker], queries: list[int]) -> dict[str, Any]:
        found = {}
        for nearest in (False, True):
            for name, rank in rankers.items():
                label = f"{'nearest' if nearest else 'random'}, {name}"
                found[label] = interval(ten_candidates(catalogue, rank, queries, nearest=nearest, seed=self.seed), self.seed)
                print(f"  ten candidates, {label}: nDCG@5 {told(found[label])}")
        return found

    def _learning(self, catalogue: Catalogue, index: ToolIndex, queries: list[int]) -> dict[int, Any]:
        position = {name: i for i, name in enumerate(catalogue.names)}
        found = {}
        for outcomes in (10, 30, 100, 300, 1000, 3000):
            rank = ours(catalogue, index, learned(catalogue, index, outcomes))
            values = [ndcg(np.argsort(-rank(i), kind="stable").tolist(), {position[n] for n in catalogue.test[i].needed}) for i in queries]
            found[outcomes] = interval(np.array(values), self.seed)
            print(f"  after {outcomes} outcomes: nDCG@5 {told(found[outcomes])}")
        return found

    def _curves(self, catalogue: Catalogue, rankers: dict[str, Ranker], queries: list[int]) -> None:
        position = {name: i for i, name in enumerate(catalogue.names)}
        for name in [name for name in rankers if name.startswith("groundwire")]:
            pairs = []
            for i in queries:
                said = rankers[name](i)
                pairs.append((said, np.isin(np.arange(len(said)), [position[n] for n in catalogue.test[i].needed])))
            error, curve = reliability(pairs)
            self.found["catalogues"][catalogue.name][name] |= {"calibration_error": error, "reliability": curve}
            points = "  ".join(f"{said:.2f}:{true:.2f}" for said, true, _ in curve)
            print(f"  reliability of {name}: expected calibration error {error:.3f}; said:needed {points}")

    def mcp(self) -> None:
        """Requests to real MCP servers: names with their server's before them, and without."""
        for catalogue in (mcp_servers(), mcp_servers(prefixed=False)):
            index, position = catalogue.index(), {name: i for i, name in enumerate(catalogue.names)}
            table = self.found["catalogues"][catalogue.name] = {}
            steps = [[{position[tool] for tool in step} for step in asked.steps] for asked in catalogue.test]
            print(f"\n{catalogue.name}: {len(catalogue.tools)} tools, {len(steps)} requests")
            own = {"groundwire": ours(catalogue, index), FIRST: first_query(catalogue)}
            for name, rank in {"BM25": bm25(catalogue), "embedding": embedding(catalogue), **own}.items():
                orders = [np.argsort(-rank(i), kind="stable").tolist() for i in range(len(steps))]
                for part, k in ((part, k) for k in (5, 10) for part in ("development", "measured", "")):
                    found = [
                        np.mean([bool(step & set(order[:k])) for step in wanted])
                        for order, wanted, asked in zip(orders, steps, catalogue.test, strict=True)
                        if asked.part.startswith(part)
                    ]
                    value = table[f"{part or 'all'}, {name}, recall@{k}"] = interval(np.array(found), self.seed)
                    print(f"  {name:23s} {part or 'all':11s} recall@{k:<2d} {told(value)}")

    def first_sets(self) -> None:
        """What the stage sends of 45 tools."""
        print()
        found: dict[str, list[FirstSet]] = asyncio.run(sets_of_families())
        for name, sets in [*found.items(), ("all three", list(chain.from_iterable(found.values())))]:
            kept = interval(np.array([float(one.kept) for one in sets]), self.seed)
            saved = interval(np.array([one.saved for one in sets]), self.seed)
            tools = float(np.mean([one.tools for one in sets]))
            self.found[f"first set, {name}"] = {"n": len(sets), "kept": kept, "tools": tools, "saved": saved}
            right = sum(one.kept for one in sets)
            print(f"first set, {name}: {right} of {len(sets)} kept {told(kept)}, {tools:.1f} of 45 tools, tokens saved {told(saved)}")

    def misfits(self) -> None:
        """How often a tool is chosen for a query that none fits."""
        drawn = list(queries_that_fit_nothing("test", np.random.default_rng(self.seed)))
        best = np.array([relevance(index, query)[judged].max() for query, index, judged in drawn])
        for least in THRESHOLDS:
            value = self.found[f"false_selection_at_{least}"] = interval((best >= least).astype(np.float64), self.seed)
            print(f"false selection at min_relevance {least}: {told(value)} of {len(drawn)} queries that no tool fits")

    def latency(self) -> None:
        """A new query over an indexed catalogue."""
        for source in ("bfcl", "seal-tools"):
            for size in (50, 500, 5000):
                p50, p95 = in_a_fresh_process(source, size, self.queries or 400)
                self.found[f"latency_ms_{size}_tools_{source}"] = {"p50": p50, "p95": p95}
                print(f"{size} tools, indexed, a new query of {source}: p50 {p50:.1f} ms, p95 {p95:.1f} ms")


async def sets_of_families() -> dict[str, list[FirstSet]]:
    from proxy.models.embedding.embedder import BatchingEmbedder
    from proxy.models.embedding.encoders import UseEncoder

    embedder, tokens = BatchingEmbedder(UseEncoder()), TiktokenCounter({})
    tokens.load()
    found = {name: await first_sets(tools, asked, embedder, tokens) for name, tools, asked in families()}
    embedder.stop()
    return found


def told(value: tuple[float, float, float]) -> str:
    """A mean with its interval."""
    return f"{value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="200 queries of each catalogue")
    parser.add_argument("--seed", type=int, default=SEED)
    options = parser.parse_args()
    report = Report(options.seed, 200 if options.quick else None)
    for catalogue in [*catalogues(), *own_questions()]:
        report.catalogue(catalogue)
    report.mcp()
    report.first_sets()
    print()
    report.misfits()
    report.latency()
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report.found, indent=1))


if __name__ == "__main__":
    main()
