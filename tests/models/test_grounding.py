"""Cache, queue and thread, around a model that tells what it was asked."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from proxy.errors import ModelUnavailable
from proxy.grounding.verdicts import ClaimPair, Support
from proxy.models.grounding import SLICE, BatchingVerifier, LocalVerifiers
from proxy.ports import Verifier, Verifiers


def pair(claim: str, evidence: str = "e", language: str = "en") -> ClaimPair:
    return ClaimPair(claim, evidence, language)


def answer(claim: str) -> Support:
    return Support(len(claim) / 1000, 0.0, claim)


class CountingModel:
    """Its answer tells the claim; `held()` stops it at the next turn."""

    name = "counting@1"

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

    def judge(self, pairs: list[ClaimPair]) -> list[Support | None]:
        self.calls.append([p.claim for p in pairs])
        self.reached.set()
        assert self._gate.wait(20)
        if any(p.claim == "bad" for p in pairs):
            raise ValueError("cannot read bad")
        return [answer(p.claim) if p.language == "en" else None for p in pairs]

    @property
    def seen(self) -> list[str]:
        return [claim for claims in self.calls for claim in claims]

    @contextmanager
    def held(self) -> Iterator[None]:
        self._gate.clear()
        self.reached.clear()
        try:
            yield
        finally:
            self._gate.set()

    async def running(self) -> None:
        """Until the thread holds a pair."""
        assert await asyncio.to_thread(self.reached.wait, 20)


@pytest.fixture
async def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
async def verifier(model: CountingModel) -> AsyncIterator[BatchingVerifier]:
    made = BatchingVerifier(lambda: model, "builtin", max_waiting=70)
    await made.load()
    yield made
    made.stop()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def asking(verifier: Verifier, *claims: str) -> asyncio.Task[list[Support | None]]:
    return asyncio.create_task(verifier.verify([pair(claim) for claim in claims]))


# ---- what comes out ----


async def test_answers_are_in_the_order_of_the_pairs(verifier: BatchingVerifier) -> None:
    port: Verifier = verifier
    assert [answer("aaa"), answer("b"), answer("aaa")] == await port.verify([pair("aaa"), pair("b"), pair("aaa")])


async def test_no_pairs_have_no_answers(verifier: BatchingVerifier) -> None:
    assert [] == await verifier.verify([])


async def test_a_language_that_the_model_does_not_know_is_no_answer(verifier: BatchingVerifier) -> None:
    assert [None, answer("a")] == await verifier.verify([pair("a", language="fr"), pair("a")])


async def test_lone_surrogates_are_replaced(verifier: BatchingVerifier, model: CountingModel) -> None:
    await verifier.verify([pair("a\ud800"), pair("\ud83d\ude00", "\udfff")])
    assert ["a�", "😀"] == model.seen


# ---- once ----


async def test_a_pair_is_judged_once(verifier: BatchingVerifier, model: CountingModel) -> None:
    await verifier.verify([pair("a"), pair("a"), pair("b")])
    await verifier.verify([pair("b"), pair("a"), pair("c")])
    assert ["a", "b", "c"] == model.seen


async def test_that_it_cannot_be_judged_is_remembered_too(verifier: BatchingVerifier, model: CountingModel) -> None:
    for _ in range(2):
        assert [None] == await verifier.verify([pair("a", language="fr")])
    assert ["a"] == model.seen


async def test_claim_evidence_and_language_together_are_the_pair(verifier: BatchingVerifier, model: CountingModel) -> None:
    pairs = [pair("a", "bc"), pair("ab", "c"), pair("a", "bc", "de"), pair("a", "")]
    await verifier.verify(pairs)
    assert len(pairs) == len(model.seen)


async def test_the_cache_is_bounded(model: CountingModel) -> None:
    verifier = BatchingVerifier(lambda: model, "builtin", cache_size=2)
    for claim in ("a", "b", "a", "c", "a", "b"):
        await verifier.verify([pair(claim)])
    assert ["a", "b", "c", "b"] == model.seen
    verifier.stop()


async def test_concurrent_requests_share_the_judgement_that_waits_or_runs(verifier: BatchingVerifier, model: CountingModel) -> None:
    with model.held():
        running = asking(verifier, "a")
        await model.running()
        others = [asking(verifier, "a", "b") for _ in range(5)]
        await settled()
    assert [answer("a")] == await running
    assert [[answer("a"), answer("b")]] * 5 == await asyncio.gather(*others)
    assert ["a", "b"] == model.seen


# ---- turns ----


async def test_sentences_of_many_requests_leave_together(verifier: BatchingVerifier, model: CountingModel) -> None:
    model.batch = 8
    with model.held():
        tasks = [asking(verifier, "first")]
        await model.running()
        tasks += [asking(verifier, claim) for claim in "abc"]
        await settled()
    await asyncio.gather(*tasks)
    assert [["first"], ["a", "b", "c"]] == model.calls


async def test_the_oldest_goes_with_those_of_about_its_length(verifier: BatchingVerifier, model: CountingModel) -> None:
    model.batch = 3
    with model.held():
        tasks = [asking(verifier, "first")]
        await model.running()
        tasks.append(asking(verifier, "x" * 100, "y" * 10, "x" * 120, "y" * 12, "x" * 110, "x" * 105))
        await settled()
    await asyncio.gather(*tasks)
    assert [[100, 120, 110], [10, 12], [105]] == [[len(claim) for claim in claims] for claims in model.calls[1:]]


async def test_a_long_answer_takes_turns_with_other_callers(verifier: BatchingVerifier, model: CountingModel) -> None:
    long = [f"long {i}" for i in range(SLICE + 10)]
    with model.held():
        tasks = [asking(verifier, *long)]
        await model.running()
        tasks.append(asking(verifier, "short"))
        await settled()
    await asyncio.gather(*tasks)
    assert SLICE == model.seen.index("short")


# ---- who leaves ----


async def test_what_nobody_waits_for_any_more_is_not_judged(verifier: BatchingVerifier, model: CountingModel) -> None:
    with model.held():
        kept = asking(verifier, "first", "shared")
        await model.running()
        leaving = asking(verifier, "mine", "shared")
        await settled()
        leaving.cancel()
        await settled()
    await kept
    await verifier.verify([pair("last")])
    assert ["first", "shared", "last"] == model.seen
    assert leaving.cancelled()


async def test_what_runs_when_its_caller_leaves_is_kept(verifier: BatchingVerifier, model: CountingModel) -> None:
    with model.held():
        leaving = asking(verifier, "a")
        await model.running()
        leaving.cancel()
        await settled()
    await verifier.verify([pair("b")])
    await verifier.verify([pair("a")])
    assert ["a", "b"] == model.seen


# ---- what goes wrong ----


async def test_more_than_may_wait_is_refused_at_once_and_the_rest_goes_on(verifier: BatchingVerifier, model: CountingModel) -> None:
    with model.held():
        first = asking(verifier, "first")
        await model.running()
        waiting = asking(verifier, *(f"w{i}" for i in range(60)))
        await settled()
        with pytest.raises(ModelUnavailable, match=r"overloaded: 60 claims wait for it already; give the server more workers"):
            await verifier.verify([pair(f"x{i}") for i in range(11)])
        fits = asking(verifier, *(f"y{i}" for i in range(10)))
        await settled()
    await asyncio.gather(first, waiting, fits)
    assert 71 == len(model.seen)


@pytest.mark.parametrize("batch", [1, 8])
async def test_a_pair_that_the_model_fails_on_fails_alone(verifier: BatchingVerifier, model: CountingModel, batch: int) -> None:
    model.batch = batch
    with model.held():
        tasks = [asking(verifier, "fir")]
        await model.running()
        tasks += [asking(verifier, claim) for claim in ("aaa", "bad", "bbb")]
        await settled()
    _, a, bad, b = await asyncio.gather(*tasks, return_exceptions=True)
    assert ([answer("aaa")], [answer("bbb")]) == (a, b)
    assert isinstance(bad, ModelUnavailable)
    assert "the verifier counting@1 failed: ValueError: cannot read bad" == str(bad)


async def test_a_model_that_answers_too_little_is_an_error(verifier: BatchingVerifier, model: CountingModel) -> None:
    model.judge = lambda pairs: []  # type: ignore[method-assign]
    with pytest.raises(ModelUnavailable, match="0 answers to 1 pairs"):
        await verifier.verify([pair("a")])


async def test_a_model_that_cannot_load_says_what_to_do_and_is_tried_again(model: CountingModel) -> None:
    verifier = BatchingVerifier(lambda: model, "builtin")
    model.broken = True
    assert verifier.problem is None
    await verifier.load()
    assert "install it" == verifier.problem
    with pytest.raises(ModelUnavailable, match="install it"):
        await verifier.verify([pair("a"), pair("b")])
    model.broken = False
    assert [answer("a")] == await verifier.verify([pair("a")])
    assert verifier.problem is None
    verifier.stop()


async def test_a_model_is_loaded_once_and_then_tells_its_version(model: CountingModel) -> None:
    verifier = BatchingVerifier(lambda: model, "builtin")
    assert "builtin" == verifier.name
    await asyncio.gather(verifier.load(), verifier.verify([pair("a")]), verifier.load())
    assert (1, "counting@1") == (model.loads, verifier.name)
    verifier.stop()


async def test_whoever_waits_at_the_end_is_told(verifier: BatchingVerifier, model: CountingModel) -> None:
    with model.held():
        running = asking(verifier, "a")
        await model.running()
        waiting = asking(verifier, "b")
        await settled()
        verifier.stop()
        for task in (running, waiting):
            with pytest.raises(ModelUnavailable, match="stopping"):
                await task
    with pytest.raises(ModelUnavailable):
        await verifier.verify([pair("c")])


# ---- the source of verifiers ----


async def test_each_model_is_made_once_at_its_first_use() -> None:
    made: list[str] = []

    def make(name: str) -> CountingModel:
        made.append(name)
        return CountingModel()

    source = LocalVerifiers(make)
    port: Verifiers = source
    assert port.get() is port.get("")
    assert port.get("other") is not port.get()
    assert [] == made
    await port.get("other").verify([pair("a")])
    await source.load(["", "other"])
    assert ["other", ""] == made
    source.stop()


async def test_a_problem_is_shown_only_of_what_was_asked() -> None:
    def make(name: str) -> CountingModel:
        raise ModelUnavailable(f"no such model: {name}")

    source = LocalVerifiers(make)
    source.get("a")
    assert source.problem is None
    await source.load(["b"])
    assert "no such model: b" == source.problem
    source.stop()
