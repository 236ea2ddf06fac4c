"""Statements -> clashes: what is asked, what is judged once, and what happens without a verifier."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detector import MAX_PAIRS, ClashDetector
from proxy.grounding.clashes.kinds import Origin, Statement, TextPiece
from proxy.grounding.clashes.reading import read_statements
from proxy.ports.judge import AskAbout
from proxy.testing import HashEmbedder, ScriptedJudge, ScriptedVerifiers

CARS = ["My car is old.", "My car is brand new."]
MOVED = ["I live in Berlin.", "I live in Rome."]


def contradicting(pair: ClaimPair) -> Support:
    return Support(0.01, 0.99)


def compatible(pair: ClaimPair) -> Support:
    return Support(0.1, 0.1)


def read(texts: Sequence[str], origin: Origin = "user") -> list[Statement]:
    return read_statements([TextPiece(text, origin, i) for i, text in enumerate(texts)], "en")


@pytest.mark.parametrize(("ask", "asked"), [("unsure", 0), ("all", 1)])
async def test_the_policy_s_judge_is_asked_what_can_both_be_true(ask: AskAbout, asked: int) -> None:
    judge = ScriptedJudge(lambda question: "no", ask)
    found = await ClashDetector(ScriptedVerifiers(compatible), judge=judge).detect(read(CARS))
    assert (asked, asked) == (sum(map(len, judge.asked)), len(found.clashes))


async def test_the_judge_takes_back_what_the_verifier_calls_a_clash() -> None:
    judge = ScriptedJudge(lambda question: "yes")
    found = await ClashDetector(ScriptedVerifiers(contradicting), embedder=HashEmbedder(), judge=judge).detect(read(CARS))
    assert ([], 1) == (found.clashes, sum(map(len, judge.asked)))
    (question,) = judge.asked[0]
    assert all(text in question.statement for text in CARS)


async def test_what_rules_decide_is_not_the_judge_s() -> None:
    judge = ScriptedJudge(lambda question: "yes", "all")
    found = await ClashDetector(ScriptedVerifiers(contradicting), judge=judge).detect(read(MOVED))
    assert (1, []) == (len(found.clashes), judge.asked)


async def test_a_rule_decides_without_a_verifier() -> None:
    (found,) = (await ClashDetector().detect(read(MOVED))).clashes
    assert (found.type, found.topic, found.older.message, found.newer.message) == ("CONFLICTING_FACTS", "location", 0, 1)


async def test_the_verifier_decides_where_no_rule_does() -> None:
    found = await ClashDetector(ScriptedVerifiers(contradicting), embedder=HashEmbedder()).detect(read(CARS))
    assert [clash.type for clash in found.clashes] == ["CONFLICTING_FACTS"]


async def test_it_is_asked_in_both_directions() -> None:
    verifier = ScriptedVerifiers(contradicting)
    await ClashDetector(verifier).detect(read(CARS))
    assert {(pair.claim, pair.evidence) for pair in verifier.asked[0]} == {(CARS[1], CARS[0]), (CARS[0], CARS[1])}


async def test_a_pair_that_a_rule_decides_is_not_asked() -> None:
    verifier = ScriptedVerifiers(contradicting)
    await ClashDetector(verifier).detect(read(MOVED))
    assert verifier.asked == []


async def test_without_a_verifier_rules_count_alone_and_that_is_no_problem() -> None:
    found = await ClashDetector().detect(read(CARS))
    assert (found.clashes, found.judged, found.problem) == ([], 0, "")


async def test_a_verifier_that_fails_leaves_rules() -> None:
    verifier = ScriptedVerifiers()
    verifier.failure = ModelUnavailable("no model")
    found = await ClashDetector(verifier).detect(read([*CARS, "I live in Rome.", "I live in Oslo."]))
    assert ([clash.topic for clash in found.clashes], found.problem) == (["location"], "verifier_unavailable")


class Slow:
    """A verifier that never answers."""

    name = "slow@1"

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        await asyncio.Event().wait()
        raise AssertionError


async def test_past_the_deadline_what_is_open_stays_open_and_rules_count() -> None:
    until = asyncio.get_running_loop().time() + 0.01
    found = await ClashDetector(Slow()).detect(read([*CARS, *MOVED]), until=until)
    assert ([clash.topic for clash in found.clashes], found.problem, found.compatible) == (["location"], "timeout", [])


async def test_a_pair_that_the_verifier_has_no_answer_for_stays_open() -> None:
    found = await ClashDetector(ScriptedVerifiers(lambda pair: None)).detect(read(CARS))
    assert (found.clashes, found.judged, found.compatible, found.problem) == ([], 0, [], "not_judged")


async def test_what_the_verifier_finds_compatible_need_not_be_judged_again() -> None:
    verifier = ScriptedVerifiers(compatible)
    detector = ClashDetector(verifier)
    (pair,) = (await detector.detect(read(CARS))).compatible
    await detector.detect(read(CARS), known=lambda one: one.hash == pair.hash)
    assert len(verifier.asked) == 1


async def test_more_pairs_than_it_may_judge_are_skipped() -> None:
    texts = [f"My {colour} car is number {n}." for n in range(8) for colour in ("red", "blue", "green", "white")]
    found = await ClashDetector(ScriptedVerifiers(compatible)).detect(read(texts))
    assert (found.judged, found.skipped > 0, found.problem) == (MAX_PAIRS, True, "")


async def test_statements_that_were_compared_before_are_not_compared_by_rules_again() -> None:
    said = read([*MOVED, "I am vegan."])
    assert (await ClashDetector().detect(said, seen={one.hash for one in said})).clashes == []


async def test_a_memory_that_says_the_same_twice_is_a_duplicate_and_a_user_who_does_is_none() -> None:
    twice = ["I live in Rome.", "I live in Rome."]
    found = [await ClashDetector().detect(read(twice, origin)) for origin in ("memory", "user")]  # type: ignore[arg-type]
    assert [["DUPLICATE_FACTS"], []] == [[clash.type for clash in one.clashes] for one in found]


async def test_questions_suppositions_quotes_and_other_people_do_not_clash() -> None:
    said = [
        "I love spicy food.",
        "Do I hate spicy food?",
        "If I were ill, I would hate spicy food.",
        '"I hate spicy food."',
        "My wife hates spicy food.",
    ]
    assert (await ClashDetector(ScriptedVerifiers(contradicting)).detect(read(said))).clashes == []


async def test_a_system_prompt_and_a_user_who_want_other_languages_clash() -> None:
    pieces = [TextPiece("Always answer in German.", "system", 0), TextPiece("Please answer in French.", "user", 1)]
    (found,) = (await ClashDetector().detect(read_statements(pieces))).clashes
    assert (found.topic, found.older.origin, found.newer.origin) == ("reply language", "system", "user")
