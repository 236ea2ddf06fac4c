"""Vectors of tools are embedded once for all nodes of a store, and a store that is away costs work alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from proxy.exchange import Tool
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.store.database import Database
from proxy.store.tables import memory
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from proxy.store.vectors import DatabaseVectors
from proxy.testing import HashEmbedder

TOOLS: list[Tool] = [
    {"type": "function", "function": {"name": f"{verb}_{noun}{i}", "description": f"To {verb} {noun} number {i}.", "parameters": {}}}
    for verb in ("count", "paint", "lift", "book")
    for noun in ("brick", "hotel")
    for i in range(40)
]


class NodesEmbedder(HashEmbedder):
    """Of one node: the `texts` of catalogues that it was given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def unknown(self, texts: Sequence[str]) -> int:
        return len(set(texts) - set(self.texts))

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        return await HashEmbedder.embed(self, texts)

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        if bulk:
            self.texts += texts
        return await super().embed(texts)


def node(database: Database, embedder: HashEmbedder, version: str = "hash-1") -> EmbeddingToolRanker:
    return EmbeddingToolRanker(embedder, DatabaseToolOutcomes(database), DatabaseVectors(database, lambda: version), wait_s=30)


async def indexed(ranker: EmbeddingToolRanker) -> None:
    """The set is indexed, and its vectors are in the store."""
    await ranker.rank(TOOLS, "book a hotel")
    await next(iter(ranker._indexes.values())).index
    shared = ranker.shared
    assert isinstance(shared, DatabaseVectors)
    assert shared._writing is not None
    await shared._writing


async def test_a_new_node_answers_its_first_question_as_an_old_one_does(database: Database) -> None:
    old, new = node(database, NodesEmbedder()), node(database, fresh := NodesEmbedder())
    await indexed(old)
    expected, found = await old.rank(TOOLS, "book a hotel"), await new.rank(TOOLS, "book a hotel")
    assert found is not None
    assert (expected, False, []) == (found, found.shortlist, fresh.texts)
    for ranker in (old, new):
        await ranker.stop()


async def test_what_an_old_node_learned_counts_at_a_new_one(database: Database) -> None:
    old, new = node(database, NodesEmbedder()), node(database, NodesEmbedder())
    await indexed(old)
    query = "book a room for the night"
    await old.learn(TOOLS, query, ["book_hotel7"], client="a")
    taught, expected, elsewhere = [
        await ranker.rank(TOOLS, query, client=client) for ranker, client in ((new, "a"), (old, "a"), (new, "b"))
    ]
    assert expected == taught != elsewhere
    for ranker in (old, new):
        await ranker.stop()


async def test_other_weights_have_vectors_of_their_own_and_unknown_ones_none(database: Database) -> None:
    await indexed(old := node(database, embedder := NodesEmbedder()))
    versions = [DatabaseVectors(database, lambda version=version: version) for version in ("hash-1", "hash-2", "")]  # type: ignore[misc]
    assert [1, 0, 0] == [len(await vectors.get(embedder.texts[:1])) for vectors in versions]
    await old.stop()


async def test_a_store_that_is_away_costs_work_and_no_answer(database: Database) -> None:
    await database.stop()
    ranker = node(database, embedder := NodesEmbedder())
    await ranker.rank(TOOLS, "book a hotel")
    await next(iter(ranker._indexes.values())).index
    assert 2 * len(TOOLS) < len(set(embedder.texts))
    await ranker.stop()


async def test_no_text_is_in_the_store(database: Database) -> None:
    await indexed(ranker := node(database, NodesEmbedder()))
    async with database.transaction() as connection:
        rows = (await connection.execute(select(memory).where(memory.c.kind == "vector"))).all()
    assert len(rows) > 2 * len(TOOLS)
    assert not [row for row in rows if b"hotel" in b"".join(str(value).encode() for value in row)]
    await ranker.stop()


async def test_a_question_is_not_in_the_store(database: Database) -> None:
    ranker = node(database, NodesEmbedder())
    await indexed(ranker)
    await ranker.rank(TOOLS, "a secret question", context="secret turns")
    assert {} == await DatabaseVectors(database, lambda: "hash-1").get(["a secret question", "secret turns", "secret"])
    await ranker.stop()
