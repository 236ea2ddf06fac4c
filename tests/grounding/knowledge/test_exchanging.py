"""A claim with a fact's value in it: which exchanges are asked about, and when they show that only the value differs."""

from __future__ import annotations

import pytest

from proxy.exchange.judgements import ClaimPair, FactVerdict, Support
from proxy.grounding.knowledge.checking import KnowledgeChecker
from proxy.grounding.knowledge.conflicts import exchanges_of, in_the_facts_words
from proxy.grounding.knowledge.reading import make_fact
from proxy.testing import MemoryKnowledge, ScriptedVerifiers

KILN = "The Moor kiln fires about 2.1 million bricks a year."


@pytest.mark.parametrize(
    ("claim", "fact", "language", "expected"),
    [
        ("The Moor kiln fires 500 million bricks a year.", KILN, "en", ["The Moor kiln fires 2.1 million bricks a year."]),
        ("Der Moor-Ofen brennt 500 Mio. Ziegel im Jahr.", KILN, "de", ["Der Moor-Ofen brennt 2.1 million Ziegel im Jahr."]),
        ("El horno Moor cuece 40 mil ladrillos al año.", KILN, "es", ["El horno Moor cuece 2.1 million ladrillos al año."]),
        ("The Moor kiln fires 2.14 million bricks a year.", KILN, "en", []),
        ("Der Moor-Ofen brennt rund zwei Millionen Ziegel.", KILN, "de", []),
        ("The vat must be below 14 °C.", "The vat must be below 24 °C.", "en", ["The vat must be below 24 °C."]),
        ("The vat is at 20 °C.", "The vat must be below 24 °C.", "en", []),
        ("Es hat 1.000,5 kg.", "It weighs 1,000.5 kg.", "de", []),
    ],
)
def test_a_value_is_exchanged_for_the_facts_where_the_two_do_not_agree(claim: str, fact: str, language: str, expected: list[str]) -> None:
    assert expected == [one.text for one in exchanges_of(claim, fact, set(), language)]


def test_the_subject_is_never_exchanged() -> None:
    assert [] == exchanges_of("The Louvre is in Paris.", "The Atomium is in Paris.", {"atomiu"}, "en")


@pytest.mark.parametrize(
    ("claim", "language", "expected"),
    [
        ("It fires 2,102,650 bricks.", "en", "It fires 2.1 million bricks."),
        ("Er brennt gut zwei Millionen Ziegel.", "de", "Er brennt gut 2.1 million Ziegel."),
        ("It fires 3 million bricks.", "en", "It fires 3 million bricks."),
        ("It fires more than a million bricks.", "en", "It fires more than a million bricks."),
    ],
)
def test_a_number_that_agrees_is_asked_about_as_the_fact_writes_it(claim: str, language: str, expected: str) -> None:
    assert expected == in_the_facts_words(claim, KILN, language)


async def verdict(claim: str, fact: str, subject: str, tongue: str = "en") -> FactVerdict:
    def judged(pair: ClaimPair) -> Support:
        return Support(0.92, 0.02) if "2.1 million" in pair.claim and "2.1 million" in pair.evidence else Support(0.2, 0.3)

    return await KnowledgeChecker(MemoryKnowledge(make_fact(subject, fact, "x")), ScriptedVerifiers(judged)).verify(claim, tongue=tongue)


@pytest.mark.parametrize(
    ("claim", "tongue", "expected"),
    [
        ("The Moor kiln fires 500 million bricks a year.", "en", ("INVALID", "number 500 million (evidence: 2.1 million)")),
        ("Der Moor-Ofen brennt 500 Mio. Ziegel im Jahr.", "de", ("INVALID", "number 500 Mio. (evidence: 2.1 million)")),
        ("The Moor kiln fires 2.14 million bricks a year.", "en", ("VALID", "")),
        ("Der Ofen in Ulm brennt 500 Mio. Ziegel im Jahr.", "de", ("UNKNOWN", "no_fact")),
    ],
)
async def test_an_approximate_fact_contradicts_what_is_far_off_and_not_what_is_near(
    claim: str, tongue: str, expected: tuple[str, str]
) -> None:
    found = await verdict(claim, KILN, "Moor kiln", tongue)
    assert expected == (found.status, found.reason)
