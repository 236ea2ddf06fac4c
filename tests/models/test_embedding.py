"""Cache, queue and thread, around an encoder that tells what it was given."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from proxy.errors import ModelUnavailable
from proxy.models.embedding import SLICE, BatchingEmbedder, VectorCache, key_of, unit, valid
from proxy.ports import Embedder


class CountingEncoder:
    """A vector is the text's length and its first character; `held()` stops it at the next text."""

    name, dimensions = "counting", 2

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self.calls: list[list[str]] = []
        self.loads = 0
        self.broken = False
        self.reached, self._gate = threading.Event(), threading.Event()
        self._gate.set()

    def load(self) -> None:
        self.loads += 1
        if self.broken:
            raise ModelUnavailable("install it")

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        self.calls.append(texts)
        self.reached.set()
        assert self._gate.wait(20)
        if "bad" in texts:
            raise ValueError("cannot read bad")
        return np.array([[len(text), ord(text[0]) if text else 0] for text in texts], np.float32)

    @property
    def seen(self) -> list[str]:
        return [text for texts in self.calls for text in texts]

    @contextmanager
    def held(self) -> Iterator[None]:
        self._gate.clear()
        self.reached.clear()
        try:
            yield
        finally:
            self._gate.set()

    async def running(self) -> None:
        """Until the thread holds a text."""
        assert await asyncio.to_thread(self.reached.wait, 20)


@pytest.fixture
async def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
async def embedder(encoder: CountingEncoder) -> AsyncIterator[BatchingEmbedder]:
    made = BatchingEmbedder(encoder, max_chars=50)
    yield made
    made.stop()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


# ---- what comes out ----


async def test_rows_are_float32_of_unit_length_in_the_order_of_the_texts(embedder: BatchingEmbedder) -> None:
    port: Embedder = embedder
    found = await port.embed(["aaa", "b", "aaa"])
    assert (3, 2) == found.shape
    assert np.float32 == found.dtype
    assert np.allclose(1, np.linalg.norm(found, axis=1))
    assert np.allclose([3, 97] / np.linalg.norm([3, 97]), found[0])
    assert (found[0] == found[2]).all()


async def test_no_texts_give_no_rows(embedder: BatchingEmbedder) -> None:
    assert (0, 2) == (await embedder.embed([])).shape


async def test_a_long_text_is_cut_and_shares_the_vector_of_its_beginning(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    found = await embedder.embed(["x" * 50, "x" * 70])
    assert (found[0] == found[1]).all()
    assert ["x" * 50] == encoder.seen


async def test_a_changed_row_does_not_change_the_cache(embedder: BatchingEmbedder) -> None:
    first = await embedder.embed(["a"])
    kept = first.copy()
    first[:] = 0
    assert (kept == await embedder.embed(["a"])).all()


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_text_becomes_valid_unicode(text: str) -> None:
    cut = valid(text, 20)
    cut.encode()
    assert len(cut) <= 20


def test_a_pair_of_surrogates_becomes_its_character_and_a_lone_one_is_replaced() -> None:
    assert "😀�" == valid("\ud83d\ude00\ud83d", 10)


def test_rows_without_direction_get_one() -> None:
    found = unit(np.array([[0, 0], [np.nan, 1], [np.inf, 1], [3, 4], [1e-30, 0], [3e38, 3e38]], np.float32))
    assert np.allclose([[1, 0], [1, 0], [1, 0], [0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]], found)


# ---- once ----


async def test_a_text_is_embedded_once(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    await embedder.embed(["a", "b", "a"])
    await embedder.embed(["b", "c"], bulk=True)
    assert ["a", "b", "c"] == encoder.seen


async def test_concurrent_requests_share_the_computation_that_waits_or_runs(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        running = asyncio.create_task(embedder.embed(["a"]))
        await encoder.running()
        others = [asyncio.create_task(embedder.embed(["a", "b"])) for _ in range(5)]
        await settled()
    found = await asyncio.gather(running, *others)
    assert ["a", "b"] == encoder.seen
    assert all((found[0][0] == other[0]).all() for other in found[1:])


async def test_texts_that_come_while_it_works_leave_together(encoder: CountingEncoder) -> None:
    encoder.batch = 8
    embedder = BatchingEmbedder(encoder)
    with encoder.held():
        tasks = [asyncio.create_task(embedder.embed(["first"]))]
        await encoder.running()
        tasks += [asyncio.create_task(embedder.embed([text])) for text in "abc"]
        await settled()
    await asyncio.gather(*tasks)
    assert [["first"], ["a", "b", "c"]] == encoder.calls
    embedder.stop()


async def test_the_cache_forgets_what_was_unused_for_longest() -> None:
    row = np.zeros(2, np.float32)
    cache = VectorCache(2 * (row.nbytes + VectorCache.OVERHEAD_BYTES))
    for text in "ab":
        cache.put(key_of(text), row)
    assert cache.get(key_of("a")) is not None
    cache.put(key_of("c"), row)
    assert [True, False, True] == [cache.get(key_of(text)) is not None for text in "abc"]
    assert 2 == len(cache)


async def test_a_cache_too_small_for_one_vector_still_answers(encoder: CountingEncoder) -> None:
    embedder = BatchingEmbedder(encoder, cache_mb=0)
    assert (await embedder.embed(["a"]) == await embedder.embed(["a"])).all()
    assert ["a", "a"] == encoder.seen
    embedder.stop()


# ---- who goes first ----


async def test_a_query_waits_for_one_text_of_bulk_work(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    catalogue = [f"tool {i}" for i in range(20)]
    with encoder.held():
        bulk = asyncio.create_task(embedder.embed(catalogue, bulk=True))
        await encoder.running()
        query = asyncio.create_task(embedder.embed(["query"]))
        await settled()
    await query
    await bulk
    assert ["tool 0", "query", *catalogue[1:]] == encoder.seen


async def test_bulk_work_has_a_share_under_load(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        tasks = [asyncio.create_task(embedder.embed(["first"]))]
        await encoder.running()
        tasks.append(asyncio.create_task(embedder.embed(["t0", "t1"], bulk=True)))
        tasks.append(asyncio.create_task(embedder.embed([f"q{i}" for i in range(100)])))
        await settled()
    await asyncio.gather(*tasks)
    assert encoder.seen.index("t0") < encoder.seen.index("q99") < encoder.seen.index("t1")


async def test_bulk_work_that_a_query_needs_becomes_urgent(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        tasks = [asyncio.create_task(embedder.embed(["first"]))]
        await encoder.running()
        tasks.append(asyncio.create_task(embedder.embed(["t0", "t1", "t2"], bulk=True)))
        await settled()
        tasks.append(asyncio.create_task(embedder.embed(["t2"])))
        await settled()
    await asyncio.gather(*tasks)
    assert ["first", "t2", "t0", "t1"] == encoder.seen


async def test_a_long_list_takes_turns_with_other_callers(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    long = [f"long {i}" for i in range(SLICE + 10)]
    with encoder.held():
        tasks = [asyncio.create_task(embedder.embed(long))]
        await encoder.running()
        tasks.append(asyncio.create_task(embedder.embed(["short"])))
        await settled()
    await asyncio.gather(*tasks)
    assert SLICE == encoder.seen.index("short")


# ---- who leaves ----


async def test_work_that_nobody_waits_for_any_more_is_dropped(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        kept = asyncio.create_task(embedder.embed(["first", "shared"]))
        await encoder.running()
        leaving = asyncio.create_task(embedder.embed(["mine", "shared"]))
        bulk = asyncio.create_task(embedder.embed(["bulk"], bulk=True))
        await settled()
        leaving.cancel()
        bulk.cancel()
        await settled()
    assert (2, 2) == (await kept).shape
    await embedder.embed(["last"])
    assert ["first", "shared", "last"] == encoder.seen
    assert leaving.cancelled()


async def test_bulk_work_dropped_while_its_turn_runs_does_not_come_back(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        bulk = asyncio.create_task(embedder.embed([f"tool {i}" for i in range(20)], bulk=True))
        await encoder.running()
        query = asyncio.create_task(embedder.embed(["query"]))
        await settled()
        bulk.cancel()
        await settled()
    await query
    await embedder.embed(["last"])
    assert ["tool 0", "query", "last"] == encoder.seen


async def test_what_runs_when_its_caller_leaves_is_kept(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        leaving = asyncio.create_task(embedder.embed(["a"]))
        await encoder.running()
        leaving.cancel()
        await settled()
    await embedder.embed(["b"])
    await embedder.embed(["a"])
    assert ["a", "b"] == encoder.seen


@pytest.mark.parametrize("later", range(4))
async def test_leaving_a_finished_text_does_not_drop_its_next_computation(encoder: CountingEncoder, later: int) -> None:
    embedder = BatchingEmbedder(encoder, cache_mb=0)

    async def again() -> None:
        while embedder._jobs:  # until the first computation has ended, and its caller has not gone on yet
            await asyncio.sleep(0)
        for _ in range(later):
            await asyncio.sleep(0)
        await embedder.embed(["a"])

    with encoder.held():
        first = asyncio.create_task(embedder.embed(["a"]))
        await encoder.running()
        second = asyncio.create_task(again())
        await settled()
    async with asyncio.timeout(20):
        await asyncio.gather(first, second)
    embedder.stop()


# ---- what goes wrong ----


async def test_a_full_queue_refuses_and_goes_on(encoder: CountingEncoder) -> None:
    embedder = BatchingEmbedder(encoder, max_waiting=3)
    with encoder.held():
        first = asyncio.create_task(embedder.embed(["first"]))
        await encoder.running()
        waiting = asyncio.create_task(embedder.embed(["a", "b"]))
        await settled()
        with pytest.raises(ModelUnavailable, match="2 texts wait"):
            await embedder.embed(["c", "d"])
        bulk = asyncio.create_task(embedder.embed(["e", "f"], bulk=True))  # a queue of its own
    await asyncio.gather(first, waiting, bulk)
    assert ["first", "a", "b", "e", "f"] == encoder.seen
    embedder.stop()


@pytest.mark.parametrize("batch", [1, 8])
async def test_a_text_that_the_model_fails_on_fails_alone(encoder: CountingEncoder, batch: int) -> None:
    encoder.batch = batch
    embedder = BatchingEmbedder(encoder)
    with encoder.held():
        tasks = [asyncio.create_task(embedder.embed(["first"]))]
        await encoder.running()
        tasks += [asyncio.create_task(embedder.embed([text])) for text in ("a", "bad", "b")]
        await settled()
    _, a, bad, b = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    assert isinstance(bad, ModelUnavailable)
    assert "the embedding model counting failed: ValueError: cannot read bad" == str(bad)
    embedder.stop()


async def test_a_model_that_cannot_load_says_what_to_do_and_is_tried_again(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    encoder.broken = True
    assert "still loading" == embedder.problem
    await embedder.load()
    assert "install it" == embedder.problem
    with pytest.raises(ModelUnavailable, match="install it"):
        await embedder.embed(["a", "b"])
    encoder.broken = False
    assert (1, 2) == (await embedder.embed(["a"])).shape
    assert embedder.problem is None
    assert 3 == encoder.loads


async def test_a_model_is_loaded_once(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    await asyncio.gather(embedder.load(), embedder.embed(["a"]), embedder.load())
    assert 1 == encoder.loads


async def test_dimensions_that_only_the_loaded_model_tells(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    encoder.dimensions = 0
    with pytest.raises(ModelUnavailable, match="not loaded"):
        _ = embedder.dimensions


async def test_whoever_waits_at_the_end_is_told(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        running = asyncio.create_task(embedder.embed(["a"]))
        await encoder.running()
        waiting = asyncio.create_task(embedder.embed(["b"]))
        await settled()
        embedder.stop()
        for task in (running, waiting):
            with pytest.raises(ModelUnavailable, match="stopping"):
                await task
    with pytest.raises(ModelUnavailable):
        await embedder.embed(["c"])
