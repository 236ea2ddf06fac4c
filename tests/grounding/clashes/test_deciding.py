"""What two statements are to each other: by rule, and by what a verifier says."""

from __future__ import annotations

import pytest

from proxy.exchange.judgements import Support
from proxy.grounding.clashes import deciding
from proxy.grounding.clashes.deciding import CONTRADICTED, questions
from proxy.grounding.clashes.kinds import Pair, StatementClash
from proxy.grounding.clashes.reading import as_statement


def pair(older: str, newer: str, language: str = "en") -> Pair:
    return Pair(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language))


def ruled(older: str, newer: str, language: str = "en") -> StatementClash | None:
    return deciding.by_rule(pair(older, newer, language))


@pytest.mark.parametrize(
    ("older", "newer", "language", "topic"),
    [
        ("I want a cheap hotel.", "I want a luxury hotel.", "en", "price level"),
        ("Ich suche ein günstiges Hotel.", "Ich möchte ein Luxushotel.", "de", "price level"),
        ("Prefiero los hoteles baratos.", "Prefiero los hoteles de lujo.", "es", "price level"),
        ("Je préfère les hôtels bon marché.", "Je préfère les hôtels de luxe.", "fr", "price level"),
        ("I am vegan.", "I eat meat.", "en", "diet"),
    ],
)
def test_two_wishes_that_exclude_each_other_are_contradictory_preferences(older: str, newer: str, language: str, topic: str) -> None:
    found = ruled(older, newer, language)
    assert found is not None
    assert (found.type, found.topic, found.score, found.update) == ("CONTRADICTORY_PREFERENCES", topic, 1.0, False)


def test_two_facts_that_exclude_each_other_are_conflicting_facts() -> None:
    found = ruled("I live in Berlin.", "I live in Madrid.")
    assert found is not None
    assert (found.type, found.topic, found.reason) == ("CONFLICTING_FACTS", "location", "location: berlin against madrid")


@pytest.mark.parametrize(
    ("older", "newer", "language"),
    [
        ("I want a cheap hotel.", "Actually, make it luxury.", "en"),
        ("Ein Tisch um 19 Uhr.", "Doch lieber um 20 Uhr.", "de"),
        ("Una mesa a las 20:00.", "Mejor a las 21:00.", "es"),
        ("Une table à 19h30.", "Plutôt à 20h30.", "fr"),
    ],
)
def test_a_change_of_mind_makes_the_older_one_outdated_and_is_no_contradiction(older: str, newer: str, language: str) -> None:
    found = ruled(older, newer, language)
    assert found is not None
    assert (found.type, found.update, found.simultaneous) == ("OUTDATED_INFORMATION", True, False)


def test_what_is_added_does_not_clash() -> None:
    assert ruled("I want to travel to Rome.", "After that I also want to travel to Naples.") is None


def test_the_same_fact_twice_is_a_duplicate() -> None:
    found = ruled("I live in Berlin.", "i live in Berlin")
    assert found is not None
    assert found.type == "DUPLICATE_FACTS"


@pytest.mark.parametrize(
    ("older", "newer", "critical"),
    [
        ("I am vegan.", "I eat meat.", True),
        ("I'm allergic to peanuts.", "I'm not allergic to peanuts.", True),
        ("My budget is 500 dollars.", "My budget is 900 dollars.", True),
        ("My budget is 500 dollars.", "My budget is 540 dollars.", False),
        ("I prefer window seats.", "I prefer aisle seats.", False),
    ],
)
def test_what_touches_health_or_much_money_is_critical(older: str, newer: str, critical: bool) -> None:
    found = ruled(older, newer)
    assert found is not None
    assert found.critical is critical


def test_values_of_one_attribute_leave_nothing_to_ask() -> None:
    assert [deciding.settled(pair("I live in Berlin.", other)) for other in ("I live in Germany.", "My car is red.")] == [True, False]


def answered(asked: Pair, *contradicted: float, supported: float = 0.02) -> StatementClash | None:
    answers = {question: Support(supported, share) for question, share in zip(questions(asked), contradicted, strict=True)}
    return deciding.judged(asked, answers)


@pytest.mark.parametrize(("one_way", "found"), [(CONTRADICTED, True), (CONTRADICTED - 0.01, False)])
def test_what_the_verifier_finds_contradicted_both_ways_is_a_clash(one_way: float, found: bool) -> None:
    clash = answered(pair("My car is old.", "My car is brand new."), 0.99, one_way)
    assert found == (clash is not None and (clash.type, clash.topic, clash.score) == ("CONFLICTING_FACTS", "car", one_way))


def test_what_is_added_to_a_wish_goes_with_it_whatever_the_verifier_says() -> None:
    assert answered(pair("I want to see Rome.", "I also want to see Naples."), 0.99, 0.99) is None


def test_facts_that_support_each_other_are_duplicates() -> None:
    found = answered(pair("The shop opens at nine.", "At nine the shop opens its doors."), 0.01, 0.01, supported=0.97)
    assert found is not None
    assert found.type == "DUPLICATE_FACTS"
