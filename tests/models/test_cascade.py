"""The large model behind the small one, over verifiers that say what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.models.verifier.verifier import Cascade
from proxy.ports.deadline import within
from proxy.testing import ScriptedVerifiers

Word = Support | None
SURE, UNSURE, AGAINST = Support(0.9), Support(0.5, 0.1), Support(0.05, 0.9)


def saying(*words: Word) -> ScriptedVerifiers:
    """Its word on each claim, by the claim's number."""
    return ScriptedVerifiers(lambda pair: words[int(pair.claim)])


def failing(problem: str = "out of order") -> ScriptedVerifiers:
    verifier = ScriptedVerifiers()
    verifier.failure = ModelUnavailable(problem)
    return verifier


async def judged(small: ScriptedVerifiers, large: ScriptedVerifiers, n: int = 1) -> list[Word]:
    found = await Cascade(small, large).verify([ClaimPair(str(i), "evidence") for i in range(n)])
    return [word and replace(word, by="") for word in found]


async def test_the_large_one_is_asked_only_for_what_is_unsure_or_unjudged() -> None:
    large = saying(AGAINST, AGAINST, AGAINST, AGAINST)
    assert [SURE, AGAINST, AGAINST, AGAINST] == await judged(saying(SURE, UNSURE, None, AGAINST), large, n=4)
    assert [["1", "2"]] == [[pair.claim for pair in asked] for asked in large.asked]


@pytest.mark.parametrize(("supported", "asked"), [(0.2, 0), (0.21, 1), (0.79, 1), (0.8, 0)])
async def test_unsure_is_between_two_probabilities(supported: float, asked: int) -> None:
    large = saying(SURE)
    await judged(saying(Support(supported)), large)
    assert asked == len(large.asked)


async def test_an_unsure_word_stands_where_the_large_one_has_none() -> None:
    assert [UNSURE] == await judged(saying(UNSURE), saying(None))
    assert [UNSURE] == await judged(saying(UNSURE), failing())


async def test_each_word_says_whose_it_is() -> None:
    small, large = saying(SURE, UNSURE, None), saying(SURE, AGAINST, AGAINST)
    small.name, large.name = "small@1", "large@1"
    found = await Cascade(small, large).verify([ClaimPair(str(i), "evidence") for i in range(3)])
    assert ["small@1", "large@1", "large@1"] == [word.by for word in found if word is not None]


class Slow(ScriptedVerifiers):
    """Answers when the test is long over."""

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Word]:
        await asyncio.sleep(3600)
        return await super().verify(pairs)


async def test_the_small_one_s_word_stands_where_the_large_one_is_not_there_in_good_time() -> None:
    async with within(0.2):
        assert [UNSURE] == await judged(saying(UNSURE), Slow())


async def test_a_small_one_that_fails_leaves_all_to_the_large_one() -> None:
    assert [SURE] == await judged(failing(), saying(SURE))
    with pytest.raises(ModelUnavailable, match="too slow"):
        await judged(failing("too old"), failing("too slow"))
