"""What the embedder and the verifier share: jobs, turns and the thread. Every test runs with both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from proxy.errors import ModelUnavailable
from proxy.models.embedding import embedder as embedding
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.verifier import verifier as grounding
from proxy.models.verifier.verifier import BatchingVerifier
from tests.models.counting import CountingEncoder, CountingModel, answer, pair, settled


class Embedding:
    slice_items, room, failed = embedding.SLICE, "embedding", "the embedding model counting failed"

    def __init__(self, *, cached: bool = True) -> None:
        self.model = CountingEncoder()
        self.turns = BatchingEmbedder(self.model, cache_mb=64 if cached else 0)

    def ask(self, *items: str) -> asyncio.Task[list[Any]]:
        return asyncio.create_task(self._ask(items))

    async def _ask(self, items: tuple[str, ...]) -> list[Any]:
        return [row.tolist() for row in await self.turns.embed(items)]

    def results(self, *items: str) -> list[Any]:
        return [row.tolist() for row in embedding.unit(CountingEncoder().encode(list(items)))]


class Grounding:
    slice_items, room, failed = grounding.SLICE, "grounding", "the verifier counting@1 failed"

    def __init__(self, *, cached: bool = True) -> None:
        self.model = CountingModel()
        self.turns = BatchingVerifier(lambda: self.model, "builtin", cache_size=1000 if cached else 0)

    def ask(self, *items: str) -> asyncio.Task[list[Any]]:
        return asyncio.create_task(self.turns.verify([pair(claim) for claim in items]))

    def results(self, *items: str) -> list[Any]:
        return [answer(claim) for claim in items]


Shared = Embedding | Grounding


@pytest.fixture(params=[Embedding, Grounding])
async def shared(request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    made = request.param()
    await made.turns.load()
    yield made
    made.turns.stop()


@pytest.fixture(params=[Embedding, Grounding])
async def uncached(request: pytest.FixtureRequest) -> AsyncIterator[Shared]:
    made = request.param(cached=False)
    yield made
    made.turns.stop()


# ---- once ----


async def test_an_item_is_computed_once(shared: Shared) -> None:
    assert shared.results("a", "a", "b") == await shared.ask("a", "a", "b")
    assert shared.results("b", "a", "c") == await shared.ask("b", "a", "c")
    assert ["a", "b", "c"] == shared.model.seen


async def test_concurrent_callers_share_the_computation_that_waits_or_runs(shared: Shared) -> None:
    with shared.model.held():
        running = shared.ask("a")
        await shared.model.running()
        others = [shared.ask("a", "b") for _ in range(5)]
        await settled()
    assert shared.results("a") == await running
    assert [shared.results("a", "b")] * 5 == await asyncio.gather(*others)
    assert ["a", "b"] == shared.model.seen


# ---- turns ----


async def test_items_that_come_while_it_works_leave_together(shared: Shared) -> None:
    shared.model.batch = 8
    with shared.model.held():
        tasks = [shared.ask("first")]
        await shared.model.running()
        tasks += [shared.ask(item) for item in "abc"]
        await settled()
    await asyncio.gather(*tasks)
    assert [["first"], ["a", "b", "c"]] == shared.model.calls


async def test_a_long_call_takes_turns_with_other_callers(shared: Shared) -> None:
    long = [f"long {i}" for i in range(shared.slice_items + 10)]
    with shared.model.held():
        tasks = [shared.ask(*long)]
        await shared.model.running()
        tasks.append(shared.ask("short"))
        await settled()
    await asyncio.gather(*tasks)
    assert shared.slice_items == shared.model.seen.index("short")


# ---- who leaves ----


async def test_what_nobody_waits_for_any_more_is_not_computed(shared: Shared) -> None:
    with shared.model.held():
        kept = shared.ask("first", "shared")
        await shared.model.running()
        leaving = shared.ask("mine", "shared")
        await settled()
        leaving.cancel()
        await settled()
    assert shared.results("first", "shared") == await kept
    await shared.ask("last")
    assert ["first", "shared", "last"] == shared.model.seen
    assert leaving.cancelled()


async def test_what_was_dropped_is_computed_when_it_is_asked_for_again(shared: Shared) -> None:
    with shared.model.held():
        first = shared.ask("first")
        await shared.model.running()
        leaving = shared.ask("mine")
        await settled()
        leaving.cancel()
        await settled()
        again = shared.ask("mine")
        await settled()
    async with asyncio.timeout(20):
        assert [shared.results("first"), shared.results("mine")] == await asyncio.gather(first, again)


async def test_what_runs_when_its_caller_leaves_is_kept(shared: Shared) -> None:
    with shared.model.held():
        leaving = shared.ask("a")
        await shared.model.running()
        leaving.cancel()
        await settled()
    await shared.ask("b")
    await shared.ask("a")
    assert ["a", "b"] == shared.model.seen


@pytest.mark.parametrize("later", range(4))
async def test_leaving_a_finished_item_does_not_drop_its_next_computation(uncached: Shared, later: int) -> None:
    async def again() -> None:
        while uncached.turns._jobs:  # until the first computation has ended, and its caller has not gone on yet
            await asyncio.sleep(0)
        for _ in range(later):
            await asyncio.sleep(0)
        await uncached.ask("a")

    with uncached.model.held():
        first = uncached.ask("a")
        await uncached.model.running()
        second = asyncio.create_task(again())
        await settled()
    async with asyncio.timeout(20):
        await asyncio.gather(first, second)
    assert ["a", "a"] == uncached.model.seen


# ---- what goes wrong ----


@pytest.mark.parametrize("batch", [1, 8])
async def test_an_item_that_the_model_fails_on_fails_alone(shared: Shared, batch: int) -> None:
    shared.model.batch = batch
    with shared.model.held():
        tasks = [shared.ask("fir")]
        await shared.model.running()
        tasks += [shared.ask(item) for item in ("aaa", "bad", "bbb")]
        await settled()
    _, a, bad, b = await asyncio.gather(*tasks, return_exceptions=True)
    assert (shared.results("aaa"), shared.results("bbb")) == (a, b)
    assert isinstance(bad, ModelUnavailable)
    assert f"{shared.failed}: ValueError: cannot read bad" == str(bad)


async def test_a_model_that_cannot_load_says_what_to_do_and_is_tried_again(uncached: Shared, caplog: pytest.LogCaptureFixture) -> None:
    uncached.model.broken = True
    await uncached.turns.load()
    assert [(f"groundwire.{uncached.room}", 40, "install it")] == caplog.record_tuples
    assert "install it" == uncached.turns.problem
    with pytest.raises(ModelUnavailable, match="install it"):
        await uncached.ask("a", "b")
    uncached.model.broken = False
    assert uncached.results("a") == await uncached.ask("a")
    assert uncached.turns.problem is None
    assert 1 + 1 + 1 == uncached.model.loads  # once for all that waited


async def test_a_model_is_loaded_once(uncached: Shared) -> None:
    await asyncio.gather(uncached.turns.load(), uncached.ask("a"), uncached.turns.load())
    assert 1 == uncached.model.loads


async def test_whoever_waits_at_the_end_is_told(shared: Shared) -> None:
    with shared.model.held():
        running = shared.ask("a")
        await shared.model.running()
        waiting = shared.ask("b")
        await settled()
        shared.turns.stop()
        for task in (running, waiting):
            with pytest.raises(ModelUnavailable, match="stopping"):
                await task
    with pytest.raises(ModelUnavailable, match="stopping"):
        await shared.ask("c")
