"""Which of a request's tools are needed: implements `proxy.ports.ToolRanker`.

A distinct set of tools is embedded and indexed once (`proxy.models.tools.index`), in the background when that takes long, and kept
for every client that offers the same set; its vectors outlive the process. Until then a question is answered out of a short list of its
likeliest tools (`proxy.models.tools.words`). A client's own outcomes are kept apart, for this client
and this set only. Everything that computes runs in a thread.

What tool calls taught is a move of each tool's embedding towards the queries that it served. After OATS (Chen et al., "Outcome-Aware Tool
Selection for Semantic Routers", arXiv 2603.13426, 2026), which interpolates a tool's embedding towards the centroid of its queries. Here
the move is fitted: each tool's embedding goes where a softmax over all tools gives its queries to it, so that it also leaves the queries
of tools that resemble it. The move has a bounded length, a tool without outcomes does not move, and the same outcomes always give the
same move.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import orjson
from msgspec import Struct
from numpy.typing import NDArray

from proxy.errors import GroundwireError
from proxy.exchange import Tool, tool_name
from proxy.models.tools.index import (
    CatalogueTexts,
    Query,
    Rows,
    ToolIndex,
    ToolRelevance,
    ToolVectors,
    parts_of,
    probability,
    shipped,
    vocabulary_of,
)
from proxy.models.tools.words import Floats, NewTools, ToolText, clipped, new_tools, rough_text, shortlist, tool_text
from proxy.offloop import LARGE, run_in_thread_if_large
from proxy.ports import Embedder, SharedVectors, ToolOutcome, ToolOutcomes, ToolRanking

log = logging.getLogger("groundwire.tools")

_T = TypeVar("_T")

MAX_INDEXED_TOOLS = 50_000
"""Of all sets that are kept; about 4.5 KB each."""
MAX_LEARNED = 256
"""Pairs of a client and a set whose moves are kept in memory."""
INTERACTIVE_TOOLS = 128
"""A set up to this size is embedded before other work of the background."""
AWAITED_TEXTS = 400
"""New texts (names, descriptions, words) for which a question waits: those of a hundred tools, or of a few new ones among thousands."""
FRESH_S = 5.0
"""How long a client's outcomes are taken to be unchanged; other workers' arrive after it."""


@dataclass(slots=True)
class _LearnedMoves:
    """What one client taught about one set of tools."""

    moves: Moves | None = None
    version: int = -1
    checked_at: float = -1e9
    """By the monotonic clock."""
    fitted_for_s: float = 0.0
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class _Building:
    """A set of tools on its way to its index."""

    read: asyncio.Task[_Read]
    index: asyncio.Task[ToolIndex]
    asked: asyncio.Event
    """Set when the first question needs no more: what goes on in the background begins behind it."""


@dataclass(slots=True)
class _Read:
    """What is known before any is embedded; nothing any more once there is an index."""

    texts: list[ToolText]
    words: tuple[str, ...]
    new: NewTools | None
    """Where so much has to be embedded that a question is answered before."""
    known: Rows
    """What other nodes have embedded of it."""


@dataclass(slots=True)
class EmbeddingToolRanker:
    """Relevance by embeddings, words and outcomes."""

    embedder: Embedder
    outcomes: ToolOutcomes
    shared: SharedVectors | None = None
    """What other nodes have embedded; None where there are no others."""
    wait_s: float = 1.0
    """How long a request waits for its set to be indexed, or its client's outcomes to be read, before it goes on without."""
    clock: Callable[[], float] = time.monotonic
    relevance: ToolRelevance = field(default_factory=shipped)
    _indexes: OrderedDict[bytes, _Building] = field(default_factory=OrderedDict)
    _learned: OrderedDict[tuple[str, bytes], _LearnedMoves] = field(default_factory=OrderedDict)
    _sizes: dict[bytes, int] = field(default_factory=dict)

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """The higher relevance of two: for the query alone, and for the query in its context."""
        key = _key(tools) if len(tools) <= INTERACTIVE_TOOLS else await run_in_thread_if_large(LARGE, _key, tools)
        building = self._index(key, tools)
        try:
            read = await _within(building.read, self.wait_s)
            if read is None:
                return None
            if read.new is not None:
                return await self._shortlisted(read.new, query, context)
        finally:
            building.asked.set()
        index = await _within(building.index, self.wait_s)
        if index is None:
            return None
        asked = await self._queries(query, context)
        moves = await self._moves(client, key, index)
        return await run_in_thread_if_large(LARGE, self._score, index, asked, moves)

    async def learn(self, tools: Sequence[Tool], query: str, called: Sequence[str], *, context: str = "", client: str = "") -> None:
        """Keep an outcome for each tool that was called; the moves follow in the background."""
        names = set(called)
        texts = [(name, tool_text(tool)) for tool in tools if (name := tool_name(tool)) in names]
        if not texts or not query.strip():
            return
        vector = (await self.embedder.embed([clipped(query)]))[0]
        digest = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        found = [ToolOutcome(tool_key=text.key, tool_name=name, query_hash=digest, vector=packed(vector)) for name, text in texts]
        await self.outcomes.add(found, client=client, embedder=self.embedder.name)
        for (owner, _), learned in self._learned.items():
            if owner == client:
                learned.checked_at = -1e9

    async def stop(self) -> None:
        """End what runs in the background."""
        building = [task for each in self._indexes.values() for task in (each.read, each.index)]
        running = [*building, *(item.task for item in self._learned.values() if item.task)]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if self.shared is not None:
            await self.shared.stop()

    @property
    def _catalogue(self) -> CatalogueTexts:
        return CatalogueTexts(self.embedder, self.shared)

    def _index(self, key: bytes, tools: Sequence[Tool]) -> _Building:
        """The tasks that make, or made, the index of `tools`."""
        known = self._indexes.get(key)
        if known is not None and not (known.index.done() and (known.index.cancelled() or known.index.exception() is not None)):
            self._indexes.move_to_end(key)
            return known
        read, asked = asyncio.create_task(self._read(tools)), asyncio.Event()
        made = self._indexes[key] = _Building(read, asyncio.create_task(self._build(read, asked)), asked)
        for task in (made.read, made.index):
            task.add_done_callback(_seen)
        self._sizes[key] = len(tools)
        while len(self._indexes) > 1 and sum(self._sizes.values()) > MAX_INDEXED_TOOLS:
            oldest, _ = self._indexes.popitem(last=False)
            del self._sizes[oldest]
        return made

    async def _read(self, tools: Sequence[Tool]) -> _Read:
        texts, words = await run_in_thread_if_large(LARGE, _read, tools)
        known = await (catalogue := self._catalogue).known(every := _embedded(texts, words))
        if await catalogue.unknown(every, known) <= AWAITED_TEXTS:
            return _Read(texts, words, None, known)
        rough = await self.embedder.rough([rough_text(text) for text in texts])
        return _Read(texts, words, await run_in_thread_if_large(LARGE, new_tools, texts, rough) if rough is not None else None, known)

    async def _build(self, read: asyncio.Task[_Read], asked: asyncio.Event) -> ToolIndex:
        found = await asyncio.shield(read)
        if found.new is not None:
            await asked.wait()
        index = await self._indexed(found.texts, found.words, found.known, bulk=len(found.texts) > INTERACTIVE_TOOLS)
        found.texts, found.words, found.new, found.known = [], (), None, {}
        return index

    async def _indexed(self, texts: Sequence[ToolText], words: Sequence[str], known: Rows, *, bulk: bool) -> ToolIndex:
        vectors = await self._catalogue.vectors(_embedded(texts, words), known, bulk=bulk)
        names, described, spoken = np.split(vectors, [len(texts), 2 * len(texts)])
        return await run_in_thread_if_large(LARGE, ToolIndex, texts, ToolVectors(names, described, spoken))

    async def _shortlisted(self, tools: NewTools, query: str, context: str) -> ToolRanking | None:
        """Of the likeliest tools, if the model is there in time; what the client taught waits for the index."""
        with suppress(TimeoutError):
            return await asyncio.wait_for(self._of_likeliest(tools, query, context), self.wait_s)
        return None

    async def _of_likeliest(self, tools: NewTools, query: str, context: str) -> ToolRanking | None:
        asking = texts_of(query, context)
        rough = await self.embedder.rough(asking)
        if rough is None:
            return None
        chosen = await run_in_thread_if_large(LARGE, shortlist, tools, asking, rough)
        texts = [tools.texts[i] for i in chosen]
        asked, index = await asyncio.gather(self._queries(query, context), self._indexed(texts, vocabulary_of(texts), {}, bulk=False))
        among = await run_in_thread_if_large(LARGE, self._score, index, asked, None)
        relevance = np.zeros(len(tools.texts))
        relevance[chosen] = among.relevance
        return ToolRanking(tuple(relevance.tolist()), shortlist=True)

    async def _queries(self, query: str, context: str) -> list[Query]:
        texts = texts_of(query, context)
        parts = parts_of(texts[0])
        vectors = await self.embedder.embed([*texts, *parts.segments, *parts.words], together=True)
        pieces, words = np.split(vectors[len(texts) :], [len(parts.segments)])
        return [Query(text, vectors[i], pieces, words, parts.words_of_segments) for i, text in enumerate(texts)]

    def _score(self, index: ToolIndex, asked: Sequence[Query], moves: Moves | None) -> ToolRanking:
        best = np.zeros(len(index.tools), np.float32)
        for query in asked:
            candidates, features = index.features(query)
            logits = self.relevance.logits(features)
            if moves is not None:
                logits = moves.applied(logits, candidates, query.vector, index.descriptions)
            best[candidates] = np.maximum(best[candidates], probability(logits))
        return ToolRanking(tuple(best.tolist()))

    async def _moves(self, client: str, key: bytes, index: ToolIndex) -> Moves | None:
        """What is known of the client's outcomes; read and fitted in the background when there is news."""
        learned = self._learned.setdefault((client, key), _LearnedMoves())
        self._learned.move_to_end((client, key))
        while len(self._learned) > MAX_LEARNED:
            self._learned.popitem(last=False)
        idle = learned.task is None or learned.task.done()
        age = self.clock() - learned.checked_at
        if idle and age > max(FRESH_S if learned.checked_at > -1e9 else 0.0, 10 * learned.fitted_for_s):
            learned.task = asyncio.create_task(self._refresh(learned, client, index))
            learned.task.add_done_callback(_seen)
        if learned.version < 0 and learned.task is not None:
            await _within(learned.task, self.wait_s)
        return learned.moves

    async def _refresh(self, learned: _LearnedMoves, client: str, index: ToolIndex) -> None:
        learned.checked_at = self.clock()
        try:
            version = await self.outcomes.version(client)
            if version == learned.version:
                return
            rows = await self.outcomes.load(client=client, embedder=self.embedder.name, tool_keys=index.keys) if version else []
        except GroundwireError as error:
            log.warning("learned tool outcomes could not be read: %s", error)
            return
        started = self.clock()
        learned.moves = await run_in_thread_if_large(LARGE, _fitted, index, rows) if rows else None
        learned.version, learned.fitted_for_s = version, self.clock() - started


def texts_of(query: str, context: str) -> list[str]:
    """What is compared with the tools: the query, and the query in its context where there is one."""
    alone = clipped(query)
    return [alone, clipped(f"{context}\n{query}")] if context.strip() else [alone]


def _read(tools: Sequence[Tool]) -> tuple[list[ToolText], tuple[str, ...]]:
    """The tools' views, and all of their words."""
    texts = [tool_text(tool) for tool in tools]
    return texts, vocabulary_of(texts)


def _embedded(texts: Sequence[ToolText], words: Sequence[str]) -> list[str]:
    """Names, descriptions, words: in the order in which they are embedded."""
    return [*(text.name for text in texts), *(text.described for text in texts), *words]


def _fitted(index: ToolIndex, rows: Sequence[ToolOutcome]) -> Moves | None:
    """Moves out of outcomes, in an order that does not depend on the store's."""
    position = {key: i for i, key in enumerate(index.keys)}
    used = sorted((r for r in rows if r.tool_key in position and r.weight > 0), key=lambda r: (r.tool_key, r.query_hash))
    if not used:
        return None
    positions = np.array([position[r.tool_key] for r in used])
    queries = np.stack([unpacked(r.vector) for r in used])
    return fit(index.descriptions, positions, queries, np.array([r.weight for r in used], np.float32))


async def _within(task: asyncio.Task[_T], seconds: float) -> _T | None:
    """The task's result if it comes in time; the task goes on in any case."""
    if not task.done():
        await asyncio.wait([task], timeout=seconds)
    return task.result() if task.done() else None


def _seen(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from reporting a failure that each waiting request has had."""
    if not task.cancelled():
        task.exception()


def _key(tools: Sequence[Tool]) -> bytes:
    return hashlib.blake2b(orjson.dumps(tools, default=str), digest_size=16).digest()


SHARPNESS = 20.0
"""Of the softmax over inner products of unit vectors; the best of 10, 20, 30 on MetaTool's training part (`benchmarks.tools`)."""
MAX_MOVE = 40.0
"""Longest move, in units of 1/`SHARPNESS`: about twice the length of an embedding."""
PRECISION = 0.1
"""Of the Gaussian prior that a tool does not move: one outcome moves it by about 4, fifty by about 15. 0.05 to 0.2 are equally good on
MetaTool's training part, from ten outcomes to ten thousand; without it, few outcomes do harm."""
MAX_TOOLS = 512
"""In a larger catalogue only the tools that have outcomes compete for the queries, which bounds the time of a fit."""
LEAST_NEEDED = 0.5
"""Tools that outcomes alone may say are needed."""
_STEPS, _RATE, _BIAS_INPUT = 80, 0.3, 0.3


class Moves(Struct, frozen=True):
    """Of some tools of an index: positions ``(k,)``, ascending, their moves ``(k, d)``, and what each gains for every query ``(k,)``."""

    positions: NDArray[np.int64]
    vectors: Floats
    bias: Floats

    def gains(self, query: Floats, tools: int) -> Floats:
        """What every tool's log odds gain for the query ``(d,)``: ``(tools,)``, 0 where nothing was learned."""
        found = np.zeros(tools, np.float32)
        found[self.positions] = self.vectors @ query + self.bias
        return found

    def applied(self, logits: Floats, candidates: NDArray[np.int64], query: Floats, descriptions: Floats) -> Floats:
        """The candidates' log odds after what was learned; `logits` are those before, ``descriptions`` of all tools ``(n, d)``.

        The moves were fitted on top of the embedding's own scores, so these have half a say beside `logits`. A softmax knows only which
        tool is the better one: the result is lowered until as many tools are expected to be needed as before; or as the outcomes say, up
        to `LEAST_NEEDED`, where they know a query that no description is like.
        """
        gains = self.gains(query, len(descriptions))[candidates]
        most = max(_expected(logits), min(LEAST_NEEDED, _expected(logits + gains)))
        found: Floats = np.asarray((logits + SHARPNESS * (descriptions[candidates] @ query)) / 2 + gains, np.float32)
        low, high = 0.0, 40.0
        while _expected(found - np.float32(low)) > most and high - low > 1e-4:
            middle = (low + high) / 2
            low, high = (middle, high) if _expected(found - np.float32(middle)) > most else (low, middle)
        return np.asarray(found - np.float32(low), np.float32)


def fit(descriptions: Floats, positions: NDArray[np.int64], queries: Floats, weights: Floats) -> Moves:
    """`positions` ``(m,)`` are the tools that served the `queries` ``(m, d)``, as often as `weights` ``(m,)`` say, all above 0."""
    served = np.unique(positions)
    competing = np.arange(len(descriptions)) if len(descriptions) <= MAX_TOOLS else served
    target = np.searchsorted(competing, positions)
    inputs = np.concatenate([queries, np.full((len(queries), 1), _BIAS_INPUT, np.float32)], axis=1)
    before = np.float32(SHARPNESS) * (queries @ descriptions[competing].T)
    total = np.float32(weights.sum())
    share = (weights / total)[:, None]
    moves = np.zeros((len(competing), inputs.shape[1]), np.float32)
    mean, square = np.zeros_like(moves), np.zeros_like(moves)
    for step in range(1, _STEPS + 1):  # Adam, Kingma and Ba 2015, over all outcomes at once
        chances = _softmax(np.asarray(before + inputs @ moves.T, np.float32))
        chances[np.arange(len(target)), target] -= 1
        slope = (chances * share).T @ inputs + np.float32(PRECISION) / total * moves
        mean = 0.9 * mean + 0.1 * slope
        square = 0.99 * square + 0.01 * slope * slope
        rate = np.float32(_RATE * (1 - (step - 1) / _STEPS))
        moves -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    kept = moves[np.searchsorted(competing, served)]
    lengths = np.linalg.norm(kept, axis=1, keepdims=True)
    kept *= np.minimum(1, MAX_MOVE / np.maximum(lengths, 1e-9))
    return Moves(served, kept[:, :-1], kept[:, -1] * _BIAS_INPUT)


def packed(vector: Floats) -> bytes:
    """A vector as it is stored: half precision, little endian."""
    return vector.astype("<f2").tobytes()


def unpacked(data: bytes) -> Floats:
    """The vector of `packed`."""
    return np.frombuffer(data, "<f2").astype(np.float32)


def _expected(logits: NDArray[np.floating[Any]]) -> float:
    """How many of these tools are needed, on average."""
    return float((1 / (1 + np.exp(-np.clip(logits, -30, 30)))).sum())


def _softmax(scores: Floats) -> Floats:
    scores = scores - scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores
