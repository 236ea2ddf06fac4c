"""`proxy.grounding.knowledge.checking`: what the knowledge base says to a claim, and what happens when it cannot say."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.errors import ModelUnavailable
from proxy.exchange.judgements import Claim, ClaimPair, FactVerdict, Support
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.reading import make_fact
from proxy.ports.facts import Fact
from proxy.testing import MemoryKnowledge, ScriptedJudge, ScriptedVerifiers
from tests.examples import share

NOW = 1_700_000_000.0
ATOMIUM = make_fact("Atomium", "The Atomium is 102 metres tall.", "heights.csv")
OSLO = make_fact("Norway", "The capital of Norway is Oslo.", "capitals.csv")
KRONE = make_fact("Norway", "Die Währung von Norwegen ist die Krone.", "geld.csv")
LAKE = make_fact("Laguna Verde", "La Laguna Verde está en Bolivia.", "lagos.csv")
SEINE = make_fact("Seine", "La Seine traverse Rouen.", "fleuves.csv")
Script = Callable[[ClaimPair], Support | None]


def says(**supports: tuple[float, float]) -> Script:
    """A verifier's word by a word of the evidence; what is not named has nothing to do with the claim."""

    def script(pair: ClaimPair) -> Support:
        found = next((support for word, support in supports.items() if word in pair.evidence), (0.05, 0.05))
        return Support(*found)

    return script


def checker(*facts: Fact, script: Script | None = None, **options: Any) -> tuple[KnowledgeChecker, MemoryKnowledge, ScriptedVerifiers]:
    base, verifiers = MemoryKnowledge(*facts), ScriptedVerifiers(script)
    return KnowledgeChecker(base, verifiers, clock=lambda: NOW, **options), base, verifiers


async def verdict(claim: str, *facts: Fact, script: Script | None = None, **options: Any) -> FactVerdict:
    return await checker(*facts, script=script)[0].verify(claim, **options)


@pytest.mark.parametrize("claim", ["The capital of Norway is Oslo.", "the capital of NORWAY is  Oslo", "“The capital of Norway is Oslo”."])
async def test_a_claim_that_stands_there_is_valid_without_a_doubt(claim: str) -> None:
    check, _, verifiers = checker(OSLO)
    found = await check.verify(claim)
    assert ("VALID", 1.0, "knowledge_base", OSLO.id, "memory@1") == (
        found.status,
        found.confidence,
        found.source,
        found.fact_id,
        found.version,
    )
    assert ("capitals.csv", []) == (found.detail["fact_source"], verifiers.asked)


@pytest.mark.parametrize(("choice", "status"), [("supported", "VALID"), ("contradicted", "INVALID"), ("neither", "UNKNOWN")])
async def test_the_policy_s_judge_is_asked_about_facts_of_the_claim_s_matter(choice: str, status: str) -> None:
    judge = ScriptedJudge(lambda question: choice)
    check = KnowledgeChecker(MemoryKnowledge(OSLO, KRONE), ScriptedVerifiers(says(Oslo=(0.5, 0.3))), clock=lambda: NOW, judge=judge)
    found = await check.verify("Oslo is the capital city of Norway.", tongue="en")
    assert (status, {("The capital of Norway is Oslo.",)}) == (
        found.status,
        {tuple(piece.rpartition(") ")[2] for piece in question.evidence) for batch in judge.asked for question in batch},
    )


@pytest.mark.parametrize(
    ("claim", "fact", "tongue"),
    [
        ("Oslo is Norway's capital.", OSLO, "en"),
        ("Norwegens Währung ist die Krone.", KRONE, "de"),
        ("Bolivia tiene la Laguna Verde.", LAKE, "es"),
        ("Rouen est traversée par la Seine.", SEINE, "fr"),
    ],
)
async def test_a_claim_that_a_fact_supports_is_valid_with_its_source(claim: str, fact: Fact, tongue: str) -> None:
    check, _, verifiers = checker(OSLO, KRONE, LAKE, SEINE, script=lambda pair: Support(0.9 if pair.evidence == fact.text else 0.1, 0.02))
    found = await check.verify(claim, tongue=tongue)
    assert ("VALID", 0.9, fact.source, fact.id) == (found.status, found.confidence, found.source, found.fact_id)
    assert {tongue} == {pair.language for batch in verifiers.asked for pair in batch}


async def test_a_claim_that_a_fact_of_the_same_matter_contradicts_is_invalid_and_corrected() -> None:
    found = await verdict("The capital of Norway is Bergen.", OSLO, script=says(Norway=(0.03, 0.95)))
    assert ("INVALID", 0.95, "The capital of Norway is Oslo.", "capitals.csv", "Oslo") == (
        found.status,
        found.confidence,
        found.correct_fact,
        found.source,
        found.detail["instead"],
    )


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        ("The Atomium is made of steel.", "other_matter"),
        ("The capital of Sweden is Stockholm.", "no_fact"),
        ("I would like a cup of tea.", "no_fact"),
    ],
)
async def test_what_the_facts_say_nothing_to_is_unknown_even_if_the_verifier_sees_a_contradiction(claim: str, reason: str) -> None:
    found = await verdict(claim, OSLO, ATOMIUM, script=lambda pair: Support(0.02, 0.97))
    assert ("UNKNOWN", 0.0, "", reason, False) == (found.status, found.confidence, found.correct_fact, found.reason, found.valid)


async def test_a_number_that_differs_without_a_clear_contradiction_is_suspicious() -> None:
    found = await verdict("The Atomium is 90 metres tall.", ATOMIUM, script=says(Atomium=(0.2, 0.3)))
    assert ("SUSPICIOUS", "values_differ", ATOMIUM.text, "102 metres") == (
        found.status,
        found.reason,
        found.correct_fact,
        found.detail["instead"],
    )


async def test_a_number_of_something_else_said_of_the_subject_makes_nothing_invalid() -> None:
    freezing = make_fact("water", "Water freezes at 0 degrees Celsius.", "units.csv")
    found = await verdict("Water boils at 100 degrees Celsius.", freezing, script=says(freezes=(0.02, 0.95)))
    assert ("UNKNOWN", "other_matter") == (found.status, found.reason)


@pytest.mark.parametrize(("support", "status"), [(0.7, "UNKNOWN"), (0.9, "VALID")])
async def test_a_fact_that_lacks_a_value_of_the_claim_must_support_it_clearly(support: float, status: str) -> None:
    found = await verdict("The Atomium in Ghent is 102 metres tall.", ATOMIUM, script=says(Atomium=(support, 0.1)))
    assert (status, "unsure" if status == "UNKNOWN" else "") == (found.status, found.reason)


async def test_what_is_only_unlike_a_fact_is_unknown_however_unsure_the_verifier_is() -> None:
    found = await verdict("The capital of Norway is Oslo Kommune.", OSLO, script=says(Norway=(0.4, 0.75)))
    assert ("UNKNOWN", "unsure", 0.0) == (found.status, found.reason, found.confidence)


async def test_a_verifier_that_has_hardly_a_doubt_needs_no_value_that_differs() -> None:
    found = await verdict("The Atomium is a small thing of 102 metres.", ATOMIUM, script=says(Atomium=(0.02, 0.85)))
    assert ("INVALID", "contradicted") == (found.status, found.reason)


@pytest.mark.parametrize(
    ("claim", "fact", "tongue", "differs"),
    [
        ("The Atomium is located in Ghent.", "The Atomium stands in Brussels.", "en", "name Ghent (evidence: Brussels)"),
        ("Das Atomium wurde 1961 eröffnet.", "Das Atomium wurde 1958 eröffnet.", "de", "date 1961 (evidence: 1958)"),
        ("El Atomium se encuentra en Gante.", "El Atomium está situado en Bruselas.", "es", "name Gante (evidence: Bruselas)"),
        ("L'Atomium mesure 90 mètres.", "L'Atomium mesure 102 mètres.", "fr", "number 90 mètres (evidence: 102 mètres)"),
    ],
)
async def test_another_value_in_the_same_place_is_against_a_claim(claim: str, fact: str, tongue: str, differs: str) -> None:
    subject = "Drava" if "Drava" in claim else "Atomium"
    found = await verdict(claim, make_fact(subject, fact, "x"), script=lambda pair: Support(0.1, 0.6), tongue=tongue)
    assert ("INVALID", differs) == (found.status, found.reason)


@pytest.mark.parametrize(
    ("claim", "fact", "tongue"),
    [
        ("The Atomium is a steel tower in Brussels, Belgium.", "The Atomium stands in Brussels and was opened in 1958.", "en"),
        ("The Atomium was built from 1956 until it opened in April 1958.", "The Atomium was opened on 17 April 1958.", "en"),
        ("Das Atomium wurde 2006 renoviert.", "Das Atomium wurde 1958 eröffnet.", "de"),
        ("El Atomium fue renovado en 2006.", "The Atomium was opened in 1958.", "es"),
        ("L'Atomium a été rénové en 2006.", "L'Atomium fut inauguré en 1958.", "fr"),
    ],
)
async def test_a_true_claim_that_says_more_or_something_else_is_not_even_doubtful(claim: str, fact: str, tongue: str) -> None:
    found = await verdict(claim, make_fact("Atomium", fact, "x"), script=lambda pair: Support(0.2, 0.75), tongue=tongue)
    assert "UNKNOWN" == found.status


def opposed(pair: ClaimPair) -> Support:
    """Bergen supports, Oslo contradicts."""
    return Support(0.9, 0.02) if "Bergen" in pair.evidence else Support(0.02, 0.9)


VARGA = make_fact("", "Anna Varga (* 14 April 1866), better known as the Lamp, taught in Kassel.", "people.csv")


@pytest.mark.parametrize(("supported", "status"), [("1866", "INVALID"), ("never", "UNKNOWN")])
async def test_a_value_is_false_in_whatever_words_where_the_facts_own_value_makes_the_claim_supported(supported: str, status: str) -> None:
    def script(pair: ClaimPair) -> Support:
        return Support(0.9, 0.02) if supported in pair.claim else Support(0.05, 0.7)

    found = await verdict("Anna Varga was born in 1862.", VARGA, script=script, tongue="en")
    assert status == found.status


async def test_two_facts_that_disagree_make_it_suspicious() -> None:
    bergen = make_fact("Norway", "The capital of Norway is Bergen.", "other.csv")
    found = await verdict("The capital of Norway, by and large", OSLO, bergen, script=opposed)
    assert ("SUSPICIOUS", "conflicting_facts") == (found.status, found.reason)


@pytest.mark.parametrize(("claim", "status"), [("Bergen, capital of Norway", "VALID"), ("Oslo, capital of Norway", "INVALID")])
async def test_of_two_facts_that_disagree_the_clearly_nearer_one_holds(claim: str, status: str) -> None:
    bergen = make_fact("Norway", "The capital of Norway is Bergen.", "other.csv")
    assert status == (await verdict(claim, OSLO, bergen, script=opposed)).status


@pytest.mark.parametrize(("begin", "end"), [(None, NOW), (NOW + 1, None)])
async def test_what_only_a_fact_of_another_time_says_is_suspicious(begin: float | None, end: float | None) -> None:
    fact = make_fact("Norway", "The union of Norway is with Sweden.", "union.csv", begin, end)
    for claim in ("The union of Norway is with Sweden.", "Norway is in a union with Sweden."):
        found = await verdict(claim, fact, script=says(union=(0.9, 0.02)))
        assert ("SUSPICIOUS", "outdated", fact.text) == (found.status, found.reason, found.correct_fact)


async def test_what_was_so_is_invalid_where_a_present_fact_says_otherwise() -> None:
    over = make_fact("Norway", "The currency of Norway is the daler.", "old.csv", None, NOW)
    holds = make_fact("Norway", "The currency of Norway is the krone.", "new.csv", NOW - 1)
    found = await verdict(over.statement, over, holds, script=says(krone=(0.03, 0.9), daler=(0.95, 0.0)))
    assert ("INVALID", holds.text) == (found.status, found.correct_fact)


async def test_a_fact_that_has_ended_supports_nothing_where_it_once_did() -> None:
    fact = make_fact("Ada", "Ada leads the team.", "team.csv", NOW - 10, NOW)
    assert "SUSPICIOUS" == (await verdict("Ada leads the team.", fact)).status
    early = KnowledgeChecker(MemoryKnowledge(fact), ScriptedVerifiers(), clock=lambda: NOW - 1)
    assert "SUSPICIOUS" != (await early.verify("Ada is who leads the team.")).status


# ---- checks that cannot run ----


async def test_a_verifier_that_is_missing_is_an_error_and_never_valid() -> None:
    check, _, verifiers = checker(OSLO)
    verifiers.failure = ModelUnavailable("no weights")
    found = await check.verify("Oslo is Norway's capital.")
    assert ("ERROR", "verifier_unavailable", 0.0, False) == (found.status, found.reason, found.confidence, found.valid)


async def test_a_knowledge_base_that_is_missing_is_an_error_for_every_claim() -> None:
    check, base, _ = checker(OSLO)
    base.failure = ModelUnavailable("not loaded")
    found = await check.verify_many(["The capital of Norway is Oslo.", "Tea is hot."])
    assert [("ERROR", "knowledge_unavailable")] * 2 == [(one.status, one.reason) for one in found]


async def test_a_language_that_the_verifier_does_not_know_is_an_error() -> None:
    assert ("ERROR", "not_judged") == (
        (found := await verdict("Oslo is Norway's capital.", OSLO, script=lambda pair: None)).status,
        found.reason,
    )


async def test_past_the_deadline_what_is_open_is_an_error_and_what_is_settled_stays() -> None:
    class Hanging(ScriptedVerifiers):
        async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
            await asyncio.Event().wait()
            raise AssertionError

    check = KnowledgeChecker(MemoryKnowledge(OSLO), Hanging())
    found = await check.verify_many([OSLO.statement, "Oslo is Norway's capital."], deadline_s=0.05)
    assert [("VALID", "exact"), ("ERROR", "timeout")] == [(one.status, one.reason) for one in found]
    assert ["memory@1"] * 2 == [one.version for one in found]


# ---- many claims ----


async def test_claims_keep_their_order_and_are_asked_about_once() -> None:
    check, base, _ = checker(OSLO, ATOMIUM)
    claims = ["Norway Oslo", OSLO.statement, "Norway Oslo", "tea"]
    found = await check.verify_many(claims)
    assert ["VALID", "VALID", "VALID", "UNKNOWN"] == [one.status for one in found]
    assert ["Norway Oslo", "tea"] == base.searched


async def test_all_claims_of_a_call_are_judged_side_by_side() -> None:
    class Meeting(ScriptedVerifiers):
        """Answers when three pairs wait."""

        def __init__(self) -> None:
            super().__init__()
            self.waiting = asyncio.Barrier(3)

        async def verify(self, pairs: Sequence[ClaimPair]) -> list[Support | None]:
            await self.waiting.wait()
            return await super().verify(pairs)

    check = KnowledgeChecker(MemoryKnowledge(OSLO), Meeting())
    async with asyncio.timeout(10):
        await check.verify_many([f"{word} is Norway's capital." for word in ("Oslo", "Bergen", "Hamar")])


async def test_nothing_is_asked_for_nothing() -> None:
    check, base, verifiers = checker(OSLO)
    assert ([], [], []) == (await check.verify_many([]), base.searched, verifiers.asked)


words = st.sampled_from(["Norway", "Oslo", "Bergen", "capital", "Atomium", "tall", "102", "90", "metres", "is", "the", "of", "tea"])


@settings(max_examples=share(0.6))
@given(st.lists(st.lists(words, min_size=1, max_size=7).map(" ".join), min_size=1, max_size=6))
async def test_a_verdict_does_not_depend_on_what_is_asked_beside_it(claims: list[str]) -> None:
    check = checker(OSLO, ATOMIUM, script=lambda pair: Support(len(pair.claim) % 10 / 10, len(pair.claim) % 7 / 10))[0]
    alone = [await check.verify(claim) for claim in claims]
    assert alone == await check.verify_many(claims)


@settings(max_examples=share(0.6))
@given(st.lists(words, min_size=1, max_size=8).map(" ".join), st.floats(0, 1), st.floats(0, 1))
async def test_a_verdict_says_what_its_status_promises(claim: str, support: float, contradiction: float) -> None:
    found = await verdict(claim, OSLO, ATOMIUM, script=lambda pair: Support(support, contradiction))
    assert 0 <= found.confidence <= 1
    assert found.valid is (found.status == "VALID")
    assert bool(found.fact_id) is (found.status in ("VALID", "INVALID", "SUSPICIOUS"))
    assert bool(found.correct_fact) is (found.status in ("INVALID", "SUSPICIOUS"))
    assert bool(found.source) is bool(found.fact_id)
    if found.status == "VALID" and found.reason != "exact":
        assert support >= 0.5


# ---- for answers ----


async def test_verdicts_in_the_words_of_grounding() -> None:
    script = says(Norway=(0.03, 0.95), Atomium=(0.2, 0.3))
    check = checker(OSLO, ATOMIUM, script=script)[0]
    texts = [OSLO.statement, "The capital of Norway is Bergen.", "The Atomium is 90 metres tall.", "Tea is hot."]
    claims = [Claim(text, 0, len(text)) for text in texts]
    found = await check.judge([*claims, Claim("Hello!", 0, 6, checkable=False, reason="greeting")])
    assert ["supported", "contradicted", "unsupported", None, None] == [one and one.label for one in found]
    contradicted = found[1]
    assert contradicted is not None
    assert contradicted.evidence is not None
    assert ("Oslo", "knowledge@memory@1", "knowledge", "capitals.csv", OSLO.text) == (
        contradicted.instead,
        contradicted.verifier,
        contradicted.evidence.kind,
        contradicted.evidence.source,
        contradicted.evidence.text,
    )


async def test_a_search_leaves_out_what_does_not_hold_now() -> None:
    over = make_fact("Norway", "Norway has a union with Sweden.", "union.csv", None, NOW)
    hits, version = await checker(OSLO, over)[0].search("Norway", 5)
    assert ([OSLO], "memory@1") == ([hit.fact for hit in hits], version)
