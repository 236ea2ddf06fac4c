"""Several verifiers as one, over verifiers that say what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.judging.combined import Combine, CombinedVerifier
from proxy.ports.deadline import within
from proxy.testing import ScriptedVerifiers

Word = Support | None
SURE, UNSURE, AGAINST = Support(0.9), Support(0.5, 0.1), Support(0.05, 0.9)


def pairs(n: int) -> list[ClaimPair]:
    return [ClaimPair(str(i), "evidence") for i in range(n)]


def saying(*words: Word) -> ScriptedVerifiers:
    """Its word on each claim, by the claim's number."""
    return ScriptedVerifiers(lambda pair: words[int(pair.claim)])


def failing(problem: str = "out of order") -> ScriptedVerifiers:
    verifier = ScriptedVerifiers()
    verifier.failure = ModelUnavailable(problem)
    return verifier


async def judged(combine: Combine, *members: ScriptedVerifiers, n: int = 1) -> list[Word]:
    found = await CombinedVerifier(members, combine).verify(pairs(n))
    return [word and replace(word, by="") for word in found]


async def test_a_cascade_asks_the_next_only_for_what_is_unsure_or_unjudged() -> None:
    second = saying(AGAINST, AGAINST, AGAINST, AGAINST)
    assert [SURE, AGAINST, AGAINST, AGAINST] == await judged("cascade", saying(SURE, UNSURE, None, AGAINST), second, n=4)
    assert [["1", "2"]] == [[pair.claim for pair in asked] for asked in second.asked]


async def test_a_cascade_stops_when_nothing_is_open() -> None:
    second = saying(SURE)
    await judged("cascade", saying(SURE), second)
    assert [] == second.asked


@pytest.mark.parametrize(("supported", "asked"), [(0.2, 0), (0.21, 1), (0.79, 1), (0.8, 0)])
async def test_what_unsure_means_can_be_told(supported: float, asked: int) -> None:
    second = saying(SURE)
    await CombinedVerifier([saying(Support(supported)), second], "cascade", (0.2, 0.8)).verify(pairs(1))
    assert asked == len(second.asked)


async def test_an_unsure_word_stands_where_the_next_has_none() -> None:
    assert [UNSURE] == await judged("cascade", saying(UNSURE), saying(None))
    assert [UNSURE] == await judged("cascade", saying(UNSURE), failing())


async def test_a_cascade_says_whose_word_it_is() -> None:
    first, second = saying(SURE, UNSURE, None), saying(SURE, AGAINST, AGAINST)
    first.name, second.name = "small@1", "large@1"
    found = await CombinedVerifier([first, second]).verify(pairs(3))
    assert ["small@1", "large@1", "large@1"] == [word.by for word in found if word is not None]


async def test_a_cascade_in_a_cascade_names_the_one_inside() -> None:
    inside, last = saying(SURE), saying(SURE)
    inside.name = "small@1"
    inner = CombinedVerifier([inside, saying(SURE)])
    (found,) = await CombinedVerifier([inner, last]).verify(pairs(1))
    assert found is not None
    assert "small@1" == found.by


class Slow(ScriptedVerifiers):
    """Answers when the test is long over."""

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Word]:
        await asyncio.sleep(3600)
        return await super().verify(pairs)


async def test_the_word_of_the_first_stands_where_the_next_is_not_there_in_good_time() -> None:
    async with within(0.2):
        assert [UNSURE] == await judged("cascade", saying(UNSURE), Slow())


async def test_a_first_that_is_too_slow_is_past_the_deadline() -> None:
    with pytest.raises(TimeoutError):
        async with within(0.05):
            await judged("cascade", Slow(), saying(SURE))


async def test_a_cascade_goes_on_past_a_failing_member() -> None:
    assert [SURE] == await judged("cascade", failing(), saying(SURE))


async def test_the_mean_is_over_those_that_judged() -> None:
    found = await judged("mean", saying(SURE, SURE, None), saying(AGAINST, None, None), failing(), n=3)
    first, second, third = found
    assert first is not None
    assert (0.475, 0.45) == pytest.approx((first.supported, first.contradicted))
    assert (SURE, None) == (second, third)


async def test_the_strictest_supports_least_and_contradicts_most() -> None:
    found = await judged("strictest", saying(Support(0.4, 0.5, "no")), saying(Support(0.3, 0.1, "not said")), saying(SURE))
    assert [Support(0.3, 0.5, "not said")] == found
    assert [SURE, None] == await judged("strictest", saying(None, None), saying(SURE, None), n=2)


@pytest.mark.parametrize("combine", ["cascade", "mean", "strictest"])
async def test_when_all_fail_it_is_unavailable_and_says_why(combine: Combine) -> None:
    with pytest.raises(ModelUnavailable, match="no verifier can judge: too old; too slow"):
        await judged(combine, failing("too old"), failing("too slow"))
    with pytest.raises(ModelUnavailable, match=r"^too old$"):
        await judged(combine, failing("too old"))


async def test_a_bug_of_a_member_is_not_hidden() -> None:
    broken = ScriptedVerifiers()
    broken.failure = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await judged("mean", broken, saying(SURE))


async def test_no_claims_ask_nobody() -> None:
    member = saying()
    assert [] == await judged("mean", member, n=0)
    assert [] == member.asked


def test_the_name_tells_who_judges_and_how() -> None:
    assert "scripted@1" == CombinedVerifier([saying()]).name
    assert "strictest(scripted@1, scripted@1)" == CombinedVerifier([saying(), saying()], "strictest").name


async def test_members_that_remember_do_so_for_the_client() -> None:
    class Remembering(ScriptedVerifiers):
        clients: Sequence[str] = ()

        def for_client(self, client: str) -> ScriptedVerifiers:
            self.clients = (*self.clients, client)
            return saying(SURE)

    member = Remembering()
    combined = CombinedVerifier([member, saying(AGAINST)]).for_client("ann")
    assert [replace(SURE, by="scripted@1")] == await combined.verify(pairs(1))
    assert (("ann",), []) == (member.clients, member.asked)


probability = st.floats(0, 1)
words = st.lists(st.tuples(probability, probability), min_size=1, max_size=4)


@given(words)
async def test_whatever_is_combined_stays_within_what_was_said(said: list[tuple[float, float]]) -> None:
    given_words = [Support(s, (1 - s) * c) for s, c in said]
    members = [saying(word) for word in given_words]
    for combine in ("cascade", "mean", "strictest"):
        (found,) = await judged(combine, *members)
        assert found is not None
        assert min(w.supported for w in given_words) - 1e-9 <= found.supported <= max(w.supported for w in given_words) + 1e-9
        assert found.supported + found.contradicted <= 1 + 1e-9
