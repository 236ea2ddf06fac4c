import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from proxy.errors import ModelUnavailable, StoreUnavailable
from proxy.models.tools.index import FEATURES, Query, ToolIndex, ToolVectors, shipped, vocabulary_of
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.models.tools.words import SHORTLIST, new_tools, rough_text, shortlist, tool_text
from proxy.ports import ToolOutcome
from proxy.testing import HashEmbedder, MemoryToolOutcomes

NAMES = ("search_flights", "book_hotel", "send_mail", "read_calendar", "convert_currency")


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description or name.replace("_", " ")}}


TOOLS = [tool(name) for name in NAMES]


class Outcomes(MemoryToolOutcomes):
    """Counts reads, and fails when told to."""

    loads = 0
    broken = False

    async def load(self, *, client: str, embedder: str, tool_keys: Sequence[str] | None = None) -> list[ToolOutcome]:
        self.loads += 1
        return await super().load(client=client, embedder=embedder, tool_keys=tool_keys)

    async def version(self, client: str) -> int:
        if self.broken:
            raise StoreUnavailable("gone")
        return await super().version(client)


class CountingEmbedder(HashEmbedder):
    """Counts what it embeds, and waits or fails when told to."""

    dimensions = 512  # as the built-in model has: of fewer, words that have nothing in common look alike by chance

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.go = asyncio.Event()
        self.go.set()
        self.broken = False

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        await self.go.wait()
        if self.broken:
            raise ModelUnavailable("no model")
        self.texts += texts
        return await super().embed(texts)


class NewToIt(CountingEmbedder):
    """Knows nothing yet, and has no time for bulk work until told to go."""

    def __init__(self, *, rough: bool = True) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.ready = asyncio.Event()
        self._rough = rough

    async def unknown(self, texts: Sequence[str]) -> int:
        return len(set(texts) - self.seen)

    async def rough(self, texts: Sequence[str]) -> NDArray[np.float32] | None:
        return await HashEmbedder.embed(self, texts) if self._rough else None

    async def embed(self, texts: Sequence[str], *, bulk: bool = False, together: bool = False) -> NDArray[np.float32]:
        if bulk:
            await self.ready.wait()
        self.seen |= set(texts)
        return await super().embed(texts)


MANY = [*TOOLS, *(tool(f"{verb}_{noun}{i}") for verb in ("count", "paint", "lift") for noun in ("brick", "tile") for i in range(40))]


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
async def ranker(embedder: CountingEmbedder, outcomes: Outcomes) -> AsyncIterator[EmbeddingToolRanker]:
    made = EmbeddingToolRanker(embedder, outcomes)
    yield made
    await made.stop()


async def order(ranker: EmbeddingToolRanker, query: str, client: str = "a", **more: str) -> list[str]:
    ranking = await ranker.rank(TOOLS, query, client=client, **more)
    assert ranking is not None
    return [NAMES[i] for i in np.argsort([-r for r in ranking.relevance], kind="stable")]


async def test_the_tool_that_the_query_names_comes_first(ranker: EmbeddingToolRanker) -> None:
    assert "book_hotel" == (await order(ranker, "book a hotel in Paris"))[0]
    assert "search_flights" == (await order(ranker, "search for flights"))[0]


async def test_relevance_is_a_probability_for_each_tool(ranker: EmbeddingToolRanker) -> None:
    ranking = await ranker.rank(TOOLS, "book a hotel in Paris and send a mail")
    assert ranking is not None
    assert len(TOOLS) == len(ranking.relevance)
    assert all(0 <= value <= 1 for value in ranking.relevance)


async def test_a_set_is_embedded_once_for_all_clients(ranker: EmbeddingToolRanker, embedder: CountingEmbedder) -> None:
    await asyncio.gather(*(order(ranker, "book a hotel", client) for client in "abc"))
    words = {word for name in NAMES for word in name.split("_")}
    of_tools = [text for text in embedder.texts if " " in text and text != "book a hotel"]
    assert (2 * len(TOOLS), len(words)) == (len(of_tools), len({text for text in embedder.texts if " " not in text}))


async def test_a_set_that_takes_long_is_indexed_in_the_background(embedder: CountingEmbedder, outcomes: Outcomes) -> None:
    ranker = EmbeddingToolRanker(embedder, outcomes, wait_s=0.01)
    embedder.go.clear()
    assert await ranker.rank(TOOLS, "book a hotel") is None
    embedder.go.set()
    ranker.wait_s = 10
    assert "book_hotel" == (await order(ranker, "book a hotel"))[0]
    await ranker.stop()


async def test_a_failed_index_is_tried_again(ranker: EmbeddingToolRanker, embedder: CountingEmbedder) -> None:
    embedder.broken = True
    with pytest.raises(ModelUnavailable):
        await ranker.rank(TOOLS, "book a hotel")
    embedder.broken = False
    assert "book_hotel" == (await order(ranker, "book a hotel"))[0]


async def test_context_brings_up_what_the_query_leaves_unsaid(ranker: EmbeddingToolRanker) -> None:
    alone = await ranker.rank(TOOLS, "yes please")
    told = await ranker.rank(TOOLS, "yes please", context="Shall I convert the currency?")
    assert alone is not None
    assert told is not None
    assert told.relevance[4] > alone.relevance[4]


async def test_outcomes_move_a_tool_towards_its_queries(ranker: EmbeddingToolRanker) -> None:
    assert "read_calendar" != (await order(ranker, "am I free on Tuesday"))[0]
    for query in ("am I free on Monday", "am I free at noon", "am I free on Friday"):
        await ranker.learn(TOOLS, query, ["read_calendar"], client="a")
    await order(ranker, "am I free on Tuesday")
    await asyncio.gather(*(item.task for item in ranker._learned.values() if item.task))
    assert "read_calendar" == (await order(ranker, "am I free on Tuesday"))[0]


async def test_what_one_client_taught_does_not_change_anothers_ranking(ranker: EmbeddingToolRanker) -> None:
    before = await ranker.rank(TOOLS, "am I free on Tuesday", client="b")
    await ranker.learn(TOOLS, "am I free on Tuesday", ["read_calendar"], client="a")
    await order(ranker, "am I free on Tuesday", client="a")
    after = await EmbeddingToolRanker(ranker.embedder, ranker.outcomes).rank(TOOLS, "am I free on Tuesday", client="b")
    assert before == after


async def test_another_worker_learns_of_outcomes_when_they_are_no_longer_fresh(embedder: CountingEmbedder, outcomes: Outcomes) -> None:
    now = 100.0
    other = EmbeddingToolRanker(embedder, outcomes, clock=lambda: now)
    await order(other, "am I free on Tuesday")
    teacher = EmbeddingToolRanker(embedder, outcomes)
    await teacher.learn(TOOLS, "am I free on Tuesday", ["read_calendar"], client="a")
    loads = outcomes.loads
    await order(other, "am I free on Tuesday")
    assert loads == outcomes.loads
    now += 60
    await order(other, "am I free on Tuesday")
    await asyncio.gather(*(item.task for item in other._learned.values() if item.task))
    assert "read_calendar" == (await order(other, "am I free on Tuesday"))[0]


async def test_a_store_that_is_gone_leaves_the_ranking_as_it_was(ranker: EmbeddingToolRanker, outcomes: Outcomes) -> None:
    outcomes.broken = True
    assert "book_hotel" == (await order(ranker, "book a hotel"))[0]


async def test_an_unknown_call_and_an_empty_query_teach_nothing(ranker: EmbeddingToolRanker, outcomes: Outcomes) -> None:
    await ranker.learn(TOOLS, "book a hotel", ["no_such_tool"], client="a")
    await ranker.learn(TOOLS, "  ", ["book_hotel"], client="a")
    assert {} == outcomes.rows


@pytest.mark.parametrize("odd", ["", " ", "\0", "\ud800", "?!", "x" * 100_000, "天気"])
async def test_any_query_is_ranked(ranker: EmbeddingToolRanker, odd: str) -> None:
    ranking = await ranker.rank([*TOOLS, {"type": "web_search"}, {"function": None}], odd)
    assert ranking is not None
    assert len(TOOLS) + 2 == len(ranking.relevance)


async def test_one_tool_is_a_set_too(ranker: EmbeddingToolRanker) -> None:
    ranking = await ranker.rank(TOOLS[:1], "search for flights")
    assert ranking is not None
    assert 1 == len(ranking.relevance)


async def test_the_shipped_model_is_of_the_features_that_the_index_makes() -> None:
    texts = [tool_text(tool) for tool in TOOLS]
    embedder = HashEmbedder()
    views = [t.name for t in texts], [t.described for t in texts], vocabulary_of(texts)
    index = ToolIndex(texts, ToolVectors(*[await embedder.embed(view) for view in views]))
    vector = (await embedder.embed(["book a hotel"]))[0]
    candidates, features = index.features(
        Query("book a hotel", vector, np.zeros((0, 64), np.float32), await embedder.embed(["book", "hotel"]))
    )
    assert (len(candidates), len(FEATURES)) == features.shape
    assert np.isfinite(shipped().logits(features)).all()


# ---- a set that nothing is known of ----


async def test_the_first_question_is_answered_out_of_a_short_list(outcomes: Outcomes) -> None:
    embedder = NewToIt()
    ranker = EmbeddingToolRanker(embedder, outcomes)
    ranking = await ranker.rank(MANY, "book a hotel")
    assert ranking is not None
    assert (True, len(MANY), 1) == (ranking.shortlist, len(ranking.relevance), int(np.argmax(ranking.relevance)))
    assert SHORTLIST == len([text for text in embedder.seen if "." in text])
    await ranker.stop()


async def test_once_all_are_embedded_all_are_compared(outcomes: Outcomes) -> None:
    embedder = NewToIt()
    ranker = EmbeddingToolRanker(embedder, outcomes)
    await ranker.rank(MANY, "book a hotel")
    embedder.ready.set()
    await next(iter(ranker._indexes.values())).index
    asked = await ranker.rank(MANY, "book a hotel")
    assert asked == await EmbeddingToolRanker(CountingEmbedder(), outcomes).rank(MANY, "book a hotel")
    assert asked is not None
    assert not asked.shortlist
    await ranker.stop()


async def test_with_few_new_texts_the_question_waits_for_all(outcomes: Outcomes) -> None:
    embedder = NewToIt()
    embedder.ready.set()
    ranker = EmbeddingToolRanker(embedder, outcomes)
    await ranker.rank(MANY, "book a hotel")
    await next(iter(ranker._indexes.values())).index
    changed = await ranker.rank([*MANY[1:], tool("read_minds")], "book a hotel")
    assert changed is not None
    assert not changed.shortlist
    await ranker.stop()


async def test_a_model_without_rough_vectors_is_waited_for(outcomes: Outcomes) -> None:
    embedder = NewToIt(rough=False)
    ranker = EmbeddingToolRanker(embedder, outcomes, wait_s=0.01)
    assert await ranker.rank(MANY, "book a hotel") is None
    embedder.ready.set()
    ranker.wait_s = 10
    found = await ranker.rank(MANY, "book a hotel")
    assert found is not None
    assert not found.shortlist
    await ranker.stop()


async def test_where_not_even_a_short_list_comes_in_time_there_is_no_ranking_yet(outcomes: Outcomes) -> None:
    embedder = NewToIt()
    embedder.go.clear()
    ranker = EmbeddingToolRanker(embedder, outcomes, wait_s=0.01)
    assert await ranker.rank(MANY, "book a hotel") is None
    await ranker.stop()


async def test_who_leaves_before_the_short_list_does_not_keep_the_index_from_being_made(outcomes: Outcomes) -> None:
    embedder = NewToIt()
    embedder.go.clear()
    ranker = EmbeddingToolRanker(embedder, outcomes, wait_s=10)
    asking = asyncio.create_task(ranker.rank(MANY, "book a hotel"))
    while not ranker._indexes or not next(iter(ranker._indexes.values())).read.done():
        await asyncio.sleep(0.001)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    embedder.go.set()
    embedder.ready.set()
    assert len(MANY) == len((await next(iter(ranker._indexes.values())).index).tools)
    await ranker.stop()


async def test_words_in_turns_with_rough_vectors_make_the_short_list() -> None:
    texts = [tool_text(tool) for tool in MANY]
    tools = new_tools(texts, await HashEmbedder().embed([rough_text(text) for text in texts]))
    nearest = await HashEmbedder().embed(["paint a tile 7"])
    assert 1 in shortlist(tools, ["hotel"], nearest, 2)
    assert MANY[shortlist(tools, ["no such words"], await HashEmbedder().embed([rough_text(texts[40])]), 1)[0]] is MANY[40]
    assert list(range(len(MANY))) == shortlist(tools, ["hotel"], nearest, 1000)
