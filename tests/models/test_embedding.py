"""Vectors, their cache and who goes first, around an encoder that tells what it was given. What is shared: test_turns.py."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import numpy as np
import pytest

from proxy.errors import ModelUnavailable
from proxy.models.embedding.embedder import BULK_CHARS, OVERHEAD_BYTES, BatchingEmbedder, key_of, unit, vector_cache
from proxy.ports import Embedder
from tests.models.counting import CountingEncoder, settled


@pytest.fixture
async def encoder() -> CountingEncoder:
    return CountingEncoder()


@pytest.fixture
async def embedder(encoder: CountingEncoder) -> AsyncIterator[BatchingEmbedder]:
    made = BatchingEmbedder(encoder, max_chars=50)
    yield made
    made.stop()


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


def test_rows_without_direction_get_one() -> None:
    found = unit(np.array([[0, 0], [np.nan, 1], [np.inf, 1], [3, 4], [1e-30, 0], [3e38, 3e38]], np.float32))
    assert np.allclose([[1, 0], [1, 0], [1, 0], [0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]], found)


# ---- together ----


async def test_texts_embedded_together_take_one_pass(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    found = await embedder.embed(["aaa", "b", "x" * 70], together=True)
    assert (await BatchingEmbedder(CountingEncoder(), max_chars=50).embed(["aaa", "b", "x" * 70]) == found).all()
    assert [["aaa", "b", "x" * 50]] == encoder.calls


async def test_texts_embedded_together_are_kept_together(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    for _ in range(2):
        await embedder.embed(["a", "b"], together=True)
    await embedder.embed(["b", "a"], together=True)
    await embedder.embed(["a"])
    assert [["a", "b"], ["b", "a"], ["a"]] == encoder.calls


async def test_one_text_together_is_that_text(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    assert (await embedder.embed(["a"]) == await embedder.embed(["a"], together=True)).all()
    assert ["a"] == encoder.seen


async def test_no_texts_together_give_no_rows(embedder: BatchingEmbedder) -> None:
    assert (0, 2) == (await embedder.embed([], together=True)).shape


async def test_of_texts_embedded_together_one_that_cannot_be_read_fails_all(embedder: BatchingEmbedder) -> None:
    alone, together = embedder.embed(["a"]), embedder.embed(["b", "bad"], together=True)
    found = await asyncio.gather(alone, together, return_exceptions=True)
    assert [np.ndarray, ModelUnavailable] == [type(result) for result in found]


# ---- once ----


async def test_a_text_of_a_query_is_not_embedded_again_as_bulk_work(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    await embedder.embed(["a", "b", "a"])
    await embedder.embed(["b", "c"], bulk=True)
    assert ["a", "b", "c"] == encoder.seen


async def test_the_cache_forgets_what_was_unused_for_longest() -> None:
    row = np.zeros(2, np.float32)
    cache = vector_cache(2 * (row.nbytes + OVERHEAD_BYTES))
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


# ---- who leaves ----


async def test_bulk_work_that_nobody_waits_for_any_more_is_dropped(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    with encoder.held():
        kept = asyncio.create_task(embedder.embed(["first", "shared"]))
        await encoder.running()
        bulk = asyncio.create_task(embedder.embed(["bulk", "shared"], bulk=True))
        await settled()
        bulk.cancel()
        await settled()
    assert (2, 2) == (await kept).shape
    await embedder.embed(["last"])
    assert ["first", "shared", "last"] == encoder.seen


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


async def test_a_model_is_waited_for_only_where_it_was_to_be_loaded(
    embedder: BatchingEmbedder, encoder: CountingEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threading.Event()
    monkeypatch.setattr(encoder, "load", read.wait)
    assert embedder.problem is None
    loading = asyncio.create_task(embedder.load())
    await asyncio.sleep(0)
    assert "still loading" == embedder.problem
    read.set()
    await loading
    assert embedder.problem is None


async def test_dimensions_that_only_the_loaded_model_tells(embedder: BatchingEmbedder, encoder: CountingEncoder) -> None:
    encoder.dimensions = 0
    with pytest.raises(ModelUnavailable, match="not loaded"):
        _ = embedder.dimensions


async def test_bulk_work_is_done_in_batches_of_about_the_same_length() -> None:
    encoder = CountingEncoder(batch=8)
    embedder = BatchingEmbedder(encoder)
    words, long = [f"word{i}" for i in range(100)], ["x" * (BULK_CHARS - 10), "y" * (2 * BULK_CHARS)]
    await embedder.embed(["read"])
    await embedder.embed([*words, *long], bulk=True)
    assert [words, long[:1], long[1:]] == encoder.calls[1:]
    embedder.stop()
