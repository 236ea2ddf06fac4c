"""Which of a request's tools are needed: implements `proxy.ports.ToolRanker`.

A distinct set of tools is embedded and indexed once (`proxy.models.tools.index`), in the background when that takes long, and kept
for every client that offers the same set. A client's own outcomes (`proxy.models.tools.outcomes`) are kept apart, for this client and this
set only. Everything that computes runs in a thread.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from proxy.errors import GroundwireError
from proxy.exchange import Tool, tool_name
from proxy.models.tools.index import Query, ToolIndex, ToolVectors, parts_of, vocabulary_of
from proxy.models.tools.outcomes import Moves, fit, packed, unpacked
from proxy.models.tools.relevance import ToolRelevance, probability, shipped
from proxy.models.tools.text import clipped, tool_text
from proxy.offloop import LARGE, aside
from proxy.ports import Embedder, ToolOutcome, ToolOutcomes, ToolRanking

log = logging.getLogger("groundwire.tools")

_T = TypeVar("_T")

MAX_INDEXED_TOOLS = 50_000
"""Of all sets that are kept; about 4.5 KB each."""
MAX_LEARNED = 256
"""Pairs of a client and a set whose moves are kept in memory."""
INTERACTIVE_TOOLS = 128
"""A set up to this size is embedded before other work of the background."""
WORDS_TOGETHER = 32
"""Of a set's words, in one pass of the model: some ten milliseconds, for which a query may have to wait."""
FRESH_S = 5.0
"""How long a client's outcomes are taken to be unchanged; other workers' arrive after it."""


@dataclass(slots=True)
class _Learned:
    """What one client taught about one set of tools."""

    moves: Moves | None = None
    version: int = -1
    checked_at: float = -1e9
    """By the monotonic clock."""
    fitted_for_s: float = 0.0
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class EmbeddingToolRanker:
    """Relevance by embeddings, words and outcomes."""

    embedder: Embedder
    outcomes: ToolOutcomes
    wait_s: float = 1.0
    """How long a request waits for its set to be indexed, or its client's outcomes to be read, before it goes on without."""
    clock: Callable[[], float] = time.monotonic
    relevance: ToolRelevance = field(default_factory=shipped)
    _indexes: OrderedDict[bytes, asyncio.Task[ToolIndex]] = field(default_factory=OrderedDict)
    _learned: OrderedDict[tuple[str, bytes], _Learned] = field(default_factory=OrderedDict)
    _sizes: dict[bytes, int] = field(default_factory=dict)

    async def rank(self, tools: Sequence[Tool], query: str, *, context: str = "", client: str = "") -> ToolRanking | None:
        """The higher relevance of two: for the query alone, and for the query in its context."""
        key = _key(tools) if len(tools) <= INTERACTIVE_TOOLS else await aside(LARGE, _key, tools)
        building = self._index(key, tools)
        index = await _within(building, self.wait_s)
        if index is None:
            return None
        asked = await self._queries(query, context)
        moves = await self._moves(client, key, index)
        return await aside(LARGE, self._score, index, asked, moves)

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
        running = [*self._indexes.values(), *(item.task for item in self._learned.values() if item.task)]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _index(self, key: bytes, tools: Sequence[Tool]) -> asyncio.Task[ToolIndex]:
        """The task that makes, or made, the index of `tools`."""
        task = self._indexes.get(key)
        if task is not None and not (task.done() and (task.cancelled() or task.exception() is not None)):
            self._indexes.move_to_end(key)
            return task
        task = self._indexes[key] = asyncio.create_task(self._build(tools))
        task.add_done_callback(_seen)
        self._sizes[key] = len(tools)
        while len(self._indexes) > 1 and sum(self._sizes.values()) > MAX_INDEXED_TOOLS:
            oldest, _ = self._indexes.popitem(last=False)
            del self._sizes[oldest]
        return task

    async def _build(self, tools: Sequence[Tool]) -> ToolIndex:
        texts = await aside(LARGE, lambda: [tool_text(tool) for tool in tools])
        bulk = len(texts) > INTERACTIVE_TOOLS
        names = await self.embedder.embed([text.name for text in texts], bulk=bulk)
        described = await self.embedder.embed([text.described for text in texts], bulk=bulk)
        words = await aside(LARGE, vocabulary_of, texts)
        parts = [words[start : start + WORDS_TOGETHER] for start in range(0, len(words), WORDS_TOGETHER)]
        known = [await self.embedder.embed(part, bulk=bulk, together=True) for part in parts]
        spoken = np.concatenate(known) if known else np.zeros((0, names.shape[1]), np.float32)
        return await aside(LARGE, ToolIndex, texts, ToolVectors(names, described, spoken))

    async def _queries(self, query: str, context: str) -> list[Query]:
        alone = clipped(query)
        texts = [alone, clipped(f"{context}\n{query}")] if context.strip() else [alone]
        parts = parts_of(alone)
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
        learned = self._learned.setdefault((client, key), _Learned())
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

    async def _refresh(self, learned: _Learned, client: str, index: ToolIndex) -> None:
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
        learned.moves = await aside(LARGE, _fitted, index, rows) if rows else None
        learned.version, learned.fitted_for_s = version, self.clock() - started


def _fitted(index: ToolIndex, rows: Sequence[ToolOutcome]) -> Moves | None:
    """Moves out of outcomes, in an order that does not depend on the store's."""
    position = {key: i for i, key in enumerate(index.keys)}
    used = sorted((r for r in rows if r.tool_key in position and r.weight > 0), key=lambda r: (r.tool_key, r.query_hash))
    if not used:
        return None
    positions = np.array([position[r.tool_key] for r in used])
    queries = np.stack([unpacked(r.vector) for r in used])
    weights: NDArray[np.float32] = np.array([r.weight for r in used], np.float32)
    return fit(index.descriptions, positions, queries, weights)


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
