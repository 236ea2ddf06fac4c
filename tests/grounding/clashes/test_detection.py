"""What two statements are to each other: by rule, and by what a verifier says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.detecting import detection
from proxy.grounding.clashes.detecting.candidates import Pair
from proxy.grounding.clashes.detecting.features import FEATURES, coefficients, features, regression
from proxy.grounding.clashes.detecting.questions import questions
from proxy.grounding.clashes.kinds import StatedPiece, StatementClash
from proxy.grounding.clashes.statements import categories
from proxy.grounding.clashes.statements.reading import as_statement, read_statements
from proxy.grounding.clashes.statements.stance import read_stance


def pair(older: str, newer: str, language: str = "en") -> Pair:
    return Pair(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language))


def ruled(older: str, newer: str, language: str = "en") -> StatementClash | None:
    return detection.by_rule(pair(older, newer, language))


@pytest.mark.parametrize(
    ("older", "newer", "language", "topic"),
    [
        ("I want a cheap hotel.", "I want a luxury hotel.", "en", "price level"),
        ("Ich suche ein günstiges Hotel.", "Ich möchte ein Luxushotel.", "de", "price level"),
        ("Busco un hotel barato.", "Quiero un hotel de lujo.", "es", "price level"),
        ("Je cherche un hôtel pas cher.", "Je veux un hôtel de luxe.", "fr", "price level"),
        ("I love sushi.", "I don't like sushi.", "en", "sushi"),
        ("Ich mag Hunde.", "Ich mag keine Hunde.", "de", "hunde"),
        ("Me gusta el pescado.", "No me gusta el pescado.", "es", "pescado"),
        ("J'aime les chats.", "Je n'aime pas les chats.", "fr", "chats"),
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
        ("Ich suche ein günstiges Hotel.", "Doch lieber ein Luxushotel.", "de"),
        ("Busco un hotel barato.", "Mejor un hotel de lujo.", "es"),
        ("Je cherche un hôtel pas cher.", "Finalement, un hôtel de luxe.", "fr"),
    ],
)
def test_a_change_of_mind_makes_the_older_one_outdated_and_is_no_contradiction(older: str, newer: str, language: str) -> None:
    found = ruled(older, newer, language)
    assert found is not None
    assert (found.type, found.update, found.simultaneous) == ("OUTDATED_INFORMATION", True, False)


def test_what_is_added_does_not_clash() -> None:
    assert ruled("I want to travel to Rome.", "After that I also want to travel to Naples.") is None


@pytest.mark.parametrize(
    ("older", "newer", "language"),
    [
        ("I don't eat meat.", "I'd like a beef burger.", "en"),
        ("Ich esse kein Fleisch.", "Ich hätte gern ein Steak.", "de"),
        ("Soy vegetariano.", "Quiero un filete de pollo.", "es"),
        ("Je suis végane.", "Je mange du poulet tous les jours.", "fr"),
    ],
)
def test_one_of_a_kind_that_somebody_never_has_clashes(older: str, newer: str, language: str) -> None:
    found = ruled(older, newer, language)
    assert found is not None
    assert found.type == "CONTRADICTORY_PREFERENCES"


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I'm allergic to nuts.", "I'd like a nut-free dessert."),
        ("I'm a vegetarian.", "I'd like a vegan burger."),
        ("I like tea.", "I like coffee."),
        ("I dislike crowded bars.", "I want a bar near the hotel."),
    ],
)
def test_what_goes_with_a_dislike_does_not_clash(older: str, newer: str) -> None:
    assert ruled(older, newer) is None


def test_love_and_hate_leave_nothing_to_ask() -> None:
    assert detection.settled(pair("I love sushi.", "I don't like sushi."))


def test_the_same_fact_twice_is_a_duplicate() -> None:
    found = ruled("I live in Berlin.", "i live in Berlin")
    assert found is not None
    assert found.type == "DUPLICATE_FACTS"


def test_a_later_answer_of_a_tool_outdates_an_earlier_one() -> None:
    pieces = [StatedPiece(f'{{"order_id": "A1", "status": "{status}"}}', "tool_result", i) for i, status in enumerate(("open", "sent"))]
    older, newer = read_statements(pieces)
    found = detection.by_rule(Pair(older, newer))
    assert found is not None
    assert (found.type, found.topic, found.reason) == ("OUTDATED_INFORMATION", "status", "status: open against sent")


def test_two_records_of_one_answer_conflict_at_the_same_time() -> None:
    text = '[{"order_id": "A1", "status": "open"}, {"order_id": "A1", "status": "sent"}]'
    older, newer = read_statements([StatedPiece(text, "tool_result", 0)])
    found = detection.by_rule(Pair(older, newer))
    assert found is not None
    assert (found.type, found.simultaneous) == ("CONFLICTING_FACTS", True)


@pytest.mark.parametrize(
    ("older", "newer", "critical"),
    [
        ("I am vegan.", "I eat steak.", True),
        ("I'm allergic to peanuts.", "I'd like the noodles with peanuts, please.", True),
        ("Ich bin allergisch gegen Nüsse.", "Ich möchte Müsli mit Nüssen.", True),
        ("My budget is 500 dollars.", "My budget is 900 dollars.", True),
        ("My budget is 500 dollars.", "My budget is 520 dollars.", False),
        ("I'd like a window seat.", "I want an aisle seat.", False),
    ],
)
def test_what_touches_health_or_much_money_is_critical(older: str, newer: str, critical: bool) -> None:
    found = ruled(older, newer)
    assert found is not None
    assert found.critical is critical


def test_values_of_one_slot_leave_nothing_to_ask() -> None:
    assert [detection.settled(pair("I live in Berlin.", other)) for other in ("I live in Germany.", "My car is red.")] == [True, False]


def answered(asked: Pair, contradicted: float, supported: float = 0.02) -> StatementClash | None:
    answers = {question: Support(supported, contradicted) for question in questions(asked.older, asked.newer)[:2]}
    return detection.judged(asked, answers, {(asked.older.text, asked.newer.text): 0.8})


def test_what_the_verifier_finds_contradicted_both_ways_is_a_clash() -> None:
    found = answered(pair("My car is old.", "My car is brand new."), 0.999)
    assert found is not None
    assert (found.type, found.topic) == ("CONFLICTING_FACTS", "car")


def test_what_it_does_not_is_none() -> None:
    assert answered(pair("My car is red.", "My bike is in the yard."), 0.03) is None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I like tea.", "I like coffee."),
        ("I don't like fish.", "I don't like mushrooms."),
    ],
)
def test_two_likes_or_two_dislikes_go_together_whatever_the_verifier_says(older: str, newer: str) -> None:
    assert answered(pair(older, newer), 0.7) is None


def test_facts_that_support_each_other_are_duplicates() -> None:
    found = answered(pair("The shop opens at nine.", "At nine the shop opens its doors."), 0.01, 0.97)
    assert found is not None
    assert found.type == "DUPLICATE_FACTS"


def test_more_contradiction_never_makes_a_clash_less_likely() -> None:
    asked = pair("My car is old.", "My car is brand new.")
    judge = regression(asked.older, asked.newer)
    scores = []
    for contradicted in (0.05, 0.5, 0.95):
        answers = {question: Support(0.02, contradicted) for question in questions(asked.older, asked.newer)}
        scores.append(judge.probability(features(asked.older, asked.newer, answers, {})))
    assert scores == sorted(scores)
    assert scores[0] < scores[-1]


def test_the_coefficients_fit_the_features() -> None:
    given = coefficients()
    assert given.features == FEATURES
    assert {len(given.statements.weights), len(given.proposals.weights)} == {len(FEATURES) + 1}


def test_of_a_wish_the_verifier_is_asked_what_it_is_against() -> None:
    asked = Pair(as_statement("I don't like horror films."), as_statement("A haunted house film.", kind="fact", piece=1))
    assert ClaimPair("horror films", "A haunted house film.", "en") in questions(asked.older, asked.newer)


@pytest.mark.parametrize(
    ("said", "liked", "disliked"),
    [
        ("I prefer trains and never fly.", ("trains",), ("fly",)),
        ("I'm not a fan of horror movies.", (), ("horror movies",)),
        ("Fisch mag ich nicht.", (), ("Fisch",)),
        ("Ich mag Hunde nicht mehr.", (), ("Hunde",)),
        ("No me gusta el pescado, prefiero la carne.", ("carne",), ("pescado",)),
        ("Je n'aime pas le poisson.", (), ("poisson",)),
        ("I want a sulfate-free soap.", ("sulfate-free soap",), ("sulfate",)),
        ("I'd like the noodles with peanuts, please.", ("noodles with peanuts",), ()),
        ("Book me a flight to Oslo.", ("flight to Oslo",), ()),
    ],
)
def test_a_sentence_is_for_some_things_and_against_others(said: str, liked: tuple[str, ...], disliked: tuple[str, ...]) -> None:
    stance = read_stance(said)
    assert (stance.liked, stance.disliked) == (liked, disliked)


@pytest.mark.parametrize(
    ("whole", "part", "named"),
    [
        ("meat", "a grilled steak", True),
        ("dairy", "dairy-free cheese", False),
        ("nuts", "almond cake", True),
        ("meat", "a vegan burger", False),
        ("nuts", "a vegan almond cake", True),
        ("Nüsse", "Müsli mit Mandeln", True),
    ],
)
def test_a_kind_is_known_by_its_members(whole: str, part: str, named: bool) -> None:
    assert categories.names_member(whole, part) is named


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_two_texts_have_finite_features(one: str, other: str) -> None:
    found = features(as_statement(one), as_statement(other, piece=1), {}, {})
    assert all(math.isfinite(value) for value in astuple(found))
