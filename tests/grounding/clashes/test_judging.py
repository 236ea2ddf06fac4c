"""Statements or messages -> clashes: what is asked, what is judged once, and what happens without a verifier."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting import judging as clashes
from proxy.grounding.clashes.detecting.judging import ClashDetector, detect_clash
from proxy.grounding.clashes.kinds import StatedPiece
from proxy.grounding.clashes.statements.reading import read_statements
from proxy.testing import HashEmbedder, ScriptedVerifiers

CARS = ["My car is old.", "My car is brand new."]


def contradicting(pair: ClaimPair) -> Support:
    return Support(0.01, 0.99)


async def test_messages_are_read_and_their_clashes_found() -> None:
    said = [
        {"role": "user", "content": "I live in Berlin."},
        {"role": "assistant", "content": "Nice!"},
        {"role": "user", "content": "I live in Rome."},
    ]
    (found,) = await detect_clash(said)
    assert (found.type, found.topic, found.older.message, found.newer.message) == ("CONFLICTING_FACTS", "location", 0, 2)


async def test_the_verifier_decides_where_no_rule_does() -> None:
    found = await detect_clash(CARS, verifier=ScriptedVerifiers(contradicting), embedder=HashEmbedder())
    assert [clash.type for clash in found] == ["CONFLICTING_FACTS"]


async def test_it_is_asked_in_both_directions() -> None:
    verifier = ScriptedVerifiers(contradicting)
    await detect_clash(CARS, verifier=verifier)
    assert {(pair.claim, pair.evidence) for pair in verifier.asked[0]} == {(CARS[1], CARS[0]), (CARS[0], CARS[1])}


async def test_a_pair_that_a_rule_decides_is_not_asked() -> None:
    verifier = ScriptedVerifiers(contradicting)
    await detect_clash(["I live in Berlin.", "I live in Rome."], verifier=verifier)
    assert verifier.asked == []


async def test_without_a_verifier_other_pairs_stay_open() -> None:
    found = await ClashDetector().detect(read_statements([StatedPiece(text, "user", i) for i, text in enumerate(CARS)]))
    assert (found.clashes, found.judged, len(found.open), found.problem) == ((), (), 1, "verifier_unavailable")


async def test_a_verifier_that_fails_leaves_rules() -> None:
    verifier = ScriptedVerifiers()
    verifier.failure = ModelUnavailable("no model")
    statements = read_statements([StatedPiece(text, "user", i) for i, text in enumerate([*CARS, "I live in Rome.", "I live in Oslo."])])
    found = await ClashDetector(verifier).detect(statements)
    assert ([clash.topic for clash in found.clashes], found.problem) == (["location"], "verifier_unavailable")


class Slow:
    """A verifier that never answers."""

    name = "slow@1"

    async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
        await asyncio.Event().wait()
        raise AssertionError


async def test_past_the_deadline_what_is_open_stays_open() -> None:
    statements = read_statements([StatedPiece(text, "user", i) for i, text in enumerate(CARS)])
    found = await ClashDetector(Slow()).detect(statements, deadline_s=0.01)
    assert (found.clashes, found.problem, len(found.open)) == ((), "timeout", 1)


async def test_a_pair_that_the_verifier_has_no_answer_for_stays_open() -> None:
    statements = read_statements([StatedPiece(text, "user", i) for i, text in enumerate(CARS)])
    found = await ClashDetector(ScriptedVerifiers(lambda pair: None)).detect(statements)
    assert (found.clashes, found.judged, len(found.open), found.problem) == ((), (), 1, "not_judged")


async def test_statements_and_messages_together_are_refused() -> None:
    (statement,) = read_statements([StatedPiece("I live in Rome.")])
    with pytest.raises(TypeError, match="not both"):
        await detect_clash([statement, "I live in Oslo."])  # type: ignore[list-item]


async def test_a_second_turn_asks_for_what_is_new_only() -> None:
    verifier = ScriptedVerifiers(lambda pair: Support(0.1, 0.1))
    detector = ClashDetector(verifier)
    first = read_statements([StatedPiece(text, "user", i) for i, text in enumerate(CARS)])
    judged = (await detector.detect(first)).judged
    await detector.detect(first, judged=judged)
    assert len(verifier.asked) == 1


async def test_more_pairs_than_one_call_judges_stay_open() -> None:
    texts = [f"My {colour} car is number {n}." for n in range(8) for colour in ("red", "blue", "green", "white")]
    statements = read_statements([StatedPiece(text, "user", i) for i, text in enumerate(texts)])
    found = await ClashDetector(ScriptedVerifiers(lambda pair: Support(0.1, 0.1))).detect(statements)
    assert (len(found.judged), found.problem) == (clashes.MAX_PAIRS, "too_many")


async def test_known_pairs_are_not_judged_again() -> None:
    (found,) = await detect_clash(["I live in Berlin.", "I live in Rome."])
    assert await detect_clash(["I live in Berlin.", "I live in Rome."], known={found.pair_hash}) == []


async def test_questions_suppositions_quotes_and_other_people_do_not_clash() -> None:
    said = [
        "I love spicy food.",
        "Do I hate spicy food?",
        "If I were ill, I would hate spicy food.",
        '"I hate spicy food."',
        "My wife hates spicy food.",
    ]
    assert await detect_clash(said, verifier=ScriptedVerifiers(contradicting)) == []


async def test_a_system_prompt_and_a_user_who_want_other_languages_clash() -> None:
    said = [{"role": "system", "content": "Always answer in German."}, {"role": "user", "content": "Please answer in French."}]
    (found,) = await detect_clash(said)
    assert (found.topic, found.older.origin, found.newer.origin) == ("reply language", "system", "user")
