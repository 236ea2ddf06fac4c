"""Slots that hold one value: what is read, and which two values can both hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.statements.places import can_both_hold
from proxy.grounding.clashes.statements.reading import as_statement
from proxy.grounding.clashes.statements.slots import clashing, compatible, read_slots


@pytest.mark.parametrize(
    ("said", "language", "slot", "value"),
    [
        ("I live in Berlin.", "en", "location", "berlin"),
        ("i live in berlin", "en", "location", "berlin"),
        ("Ich wohne in Köln.", "de", "location", "cologne"),
        ("Vivo en Sevilla.", "es", "location", "seville"),
        ("J'habite à Londres.", "fr", "location", "london"),
        ("My budget is 500 euros.", "en", "budget", "500 EUR"),
        ("My budget is 2000 dollars.", "en", "budget", "2000 USD"),
        ("Mein Budget liegt bei 2.000 €.", "de", "budget", "2000 EUR"),
        ("I am vegan.", "en", "diet", "vegan"),
        ("Ich bin Vegetarierin.", "de", "diet", "vegetarian"),
        ("Soy vegano.", "es", "diet", "vegan"),
        ("Je suis végétarienne.", "fr", "diet", "vegetarian"),
        ("Einen Gangplatz bitte.", "de", "seat", "aisle"),
        ("Answer in German.", "en", "reply_language", "de"),
        ("Antworte bitte ausführlich.", "de", "answer_length", "long"),
        ("Make it luxury.", "en", "price_level", "high"),
        ("Un hôtel pas cher, merci.", "fr", "price_level", "low"),
        ("My flight is on 2026-05-15.", "en", "date", "2026-05-15"),
        ("The meeting is at 3 pm.", "en", "time", "15:00"),
        ("Answer in JSON.", "en", "answer_format", "json"),
        ("Antworte als Tabelle.", "de", "answer_format", "table"),
        ("I want an aisle seat, not a window seat.", "en", "seat", "aisle"),
        ("We can't pay more than 100 euros.", "en", "budget", "≤100 EUR"),
    ],
)
def test_a_slots_value_is_normalised(said: str, language: str, slot: str, value: str) -> None:
    assert {found.slot: found.value for found in read_slots(said, language)}.get(slot) == value


@pytest.mark.parametrize(
    "said",
    [
        "The weather is nice.",
        "I want to go to Rome and Naples.",
        "I slept well on Tuesday.",
        "I have a meeting on Monday.",
        "The museum costs 10 euros.",
        "The window is open.",
    ],
)
def test_what_fills_no_slot_has_none(said: str) -> None:
    assert read_slots(said) == ()


def clash(older: str, newer: str, language: str = "en") -> bool:
    return clashing(as_statement(older, tongue=language), as_statement(newer, piece=1, tongue=language)) is not None


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Berlin.", "I live in Madrid."),
        ("I live in France.", "I live in Berlin."),
        ("My budget is 500 dollars.", "My budget is 900 dollars."),
        ("My budget is at most 500 euros.", "My budget is at least 800 euros."),
        ("I'm a vegetarian.", "I'm no vegetarian."),
        ("I am vegan.", "I eat steak every Friday."),
        ("I'd like a window seat.", "I want an aisle seat."),
        ("Keep your answers short.", "Write long answers."),
        ("My flight leaves on May 14.", "My flight leaves on May 21."),
        ("I live in Berlin.", "I don't live in Berlin."),
        ("We can't pay more than 100 euros.", "We can pay 400 euros."),
        ("Always answer in JSON.", "Answer in plain text."),
    ],
)
def test_two_values_of_one_slot_clash(older: str, newer: str) -> None:
    assert clash(older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("I live in Berlin.", "I live in Germany."),
        ("I live in Kreuzberg.", "I live in Berlin."),
        ("I live in Vienna.", "I live in Wien."),
        ("My budget is between 400 and 600 dollars.", "My budget is 500 dollars."),
        ("My budget is 1,200 dollars.", "My budget is 1200 dollars."),
        ("I can spend at most $900 on the flight.", "I can spend at most $200 on the hotel."),
        ("I'm vegan.", "I need gluten-free bread."),
        ("The meeting is at 3 pm.", "The meeting is at 15:00."),
        ("My flight leaves on May 14.", "My return flight is on May 21."),
        ("My train leaves on May 14.", "The journey home is on May 21."),
        ("I live in Berlin.", "I don't live in Munich."),
        ("I live in Berlin.", "The hotel is in Rome."),
        ("I live in Berlin.", "I am in Paris this week."),
        ("My meeting with Anna is at 3 pm.", "My meeting with Bob is at 5 pm."),
        ("I have a meeting on Monday.", "I have a meeting on Wednesday."),
        ("I want a cheap hotel.", "The Ritz is a luxury hotel."),
        ("The museum costs 10 euros.", "The boat trip costs 40 euros."),
    ],
)
def test_values_that_can_both_hold_do_not_clash(older: str, newer: str) -> None:
    assert not clash(older, newer)


SENTENCES = [
    "I live in Berlin.",
    "I live in Germany.",
    "My budget is 500 dollars.",
    "My budget is at most 400 dollars.",
    "I am vegan.",
    "I eat meat.",
    "I don't live in Rome.",
]


@given(st.sampled_from(SENTENCES), st.sampled_from(SENTENCES))
def test_compatibility_does_not_depend_on_order(one: str, other: str) -> None:
    assert [compatible(a, b) for a in read_slots(one) for b in read_slots(other)] == [
        compatible(b, a) for a in read_slots(one) for b in read_slots(other)
    ]


@given(st.sampled_from(SENTENCES))
def test_no_value_clashes_with_itself(said: str) -> None:
    assert all(compatible(value, value) for value in read_slots(said))


@pytest.mark.parametrize(
    ("one", "other", "possible"),
    [
        ("berlin", "germany", True),
        ("munich", "france", False),
        ("brooklyn", "nyc", True),
        ("wien", "vienna", True),
        ("oberursel", "germany", True),
        ("rome", "europe", True),
        ("france", "germany", False),
    ],
)
def test_a_place_lies_in_what_is_around_it(one: str, other: str, possible: bool) -> None:
    assert (can_both_hold(one, other), can_both_hold(other, one)) == (possible, possible)
