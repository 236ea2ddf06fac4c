"""Judgements, their cache and which go together, around a model that tells what it was asked. What is shared: test_turns.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import Support
from proxy.models.verifier.verifier import BatchingVerifier, LocalVerifiers
from proxy.ports import Verifier, Verifiers
from tests.models.counting import CountingModel, answer, pair, settled


@pytest.fixture
async def model() -> CountingModel:
    return CountingModel()


@pytest.fixture
async def verifier(model: CountingModel) -> AsyncIterator[BatchingVerifier]:
    made = BatchingVerifier(lambda: model, "builtin", max_waiting=70)
    await made.load()
    yield made
    made.stop()


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


# ---- turns ----


async def test_the_oldest_goes_with_those_of_about_its_length(verifier: BatchingVerifier, model: CountingModel) -> None:
    model.batch = 3
    with model.held():
        tasks = [asking(verifier, "first")]
        await model.running()
        tasks.append(asking(verifier, "x" * 100, "y" * 10, "x" * 120, "y" * 12, "x" * 110, "x" * 105))
        await settled()
    await asyncio.gather(*tasks)
    assert [[100, 120, 110], [10, 12], [105]] == [[len(claim) for claim in claims] for claims in model.calls[1:]]


async def test_as_many_turns_run_side_by_side_as_the_model_has_lanes(verifier: BatchingVerifier, model: CountingModel) -> None:
    await verifier.verify([pair("first")])
    model.lanes = 2
    with model.held():
        asked = asking(verifier, "a", "b", "c")
        while len(model.calls) < 3:
            await asyncio.sleep(0.001)
        assert [["first"], ["a"], ["b"]] == model.calls[:1] + sorted(model.calls[1:])
    assert [answer(claim) for claim in "abc"] == await asked


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


async def test_a_model_that_answers_too_little_is_an_error(verifier: BatchingVerifier, model: CountingModel) -> None:
    model.judge = lambda pairs: []  # type: ignore[method-assign]
    with pytest.raises(ModelUnavailable, match="0 answers to 1 pairs"):
        await verifier.verify([pair("a")])


async def test_a_model_that_nobody_has_asked_for_is_no_problem(model: CountingModel) -> None:
    verifier = BatchingVerifier(lambda: model, "builtin")
    assert verifier.problem is None
    verifier.stop()


async def test_a_model_tells_its_version_when_it_is_loaded(model: CountingModel) -> None:
    verifier = BatchingVerifier(lambda: model, "builtin")
    assert "builtin" == verifier.name
    await verifier.load()
    assert "counting@1" == verifier.name
    verifier.stop()


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
