"""Two statements that can both hold, in one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.clash.merging import merged
from tests.stages.clash.making import amount, clash, statement


def bounded(text: str, said: str, low: float | None, high: float | None, **more: object) -> object:
    return statement(text, slots=(amount(said, text, low, high),), **more)


@pytest.mark.parametrize(
    ("older", "newer", "language", "expected"),
    [
        (
            ("My budget is 100 € per night.", "100 €", 100, 100),
            ("Actually, my budget is 150 € per night.", "150 €", 150, 150),
            "en",
            "My budget is between 100 € and 150 € per night.",
        ),
        (
            ("I can spend between 100 and 200 €.", "between 100 and 200 €", 100, 200),
            ("It should cost at most 150 € a night.", "150 €", None, 150),
            "en",
            "It should cost between 100 and 150 € a night.",
        ),
        (
            ("Höchstens 200 € pro Nacht.", "200 €", None, 200),
            ("Mindestens 100 € pro Nacht.", "100 €", 100, None),
            "de",
            "zwischen 100 € und 200 € pro Nacht.",
        ),
        (
            ("Puedo gastar hasta 300 €.", "300 €", None, 300),
            ("Quiero gastar al menos 100 €.", "100 €", 100, None),
            "es",
            "Quiero gastar entre 100 € y 300 €.",
        ),
        (
            ("Mon budget est de 80 €.", "80 €", 80, 80),
            ("Je peux mettre 120 €.", "120 €", 120, 120),
            "fr",
            "Je peux mettre entre 80 € et 120 €.",
        ),
    ],
)
def test_two_amounts_become_a_range(older: tuple, newer: tuple, language: str, expected: str) -> None:
    found = clash(bounded(*older, language=language), bounded(*newer, language=language, message=2), topic="budget")
    assert expected == merged(found)


@pytest.mark.parametrize(
    ("older", "newer", "language", "expected"),
    [
        ("I prefer window seats.", "I prefer aisle seats.", "en", "I prefer window or aisle seats."),
        ("Ich sitze gern am Fenster.", "Ich sitze gern am Gang.", "de", "Ich sitze gern am Fenster oder Gang."),
        ("Me gusta viajar en tren.", "Me gusta viajar en coche.", "es", "Me gusta viajar en tren o coche."),
        ("J'aime voyager en train.", "J'aime voyager en voiture.", "fr", "J'aime voyager en train ou voiture."),
    ],
)
def test_a_list_names_what_is_welcome(older: str, newer: str, language: str, expected: str) -> None:
    assert expected == merged(clash(statement(older, language=language), statement(newer, language=language, message=2), topic="seat"))


def test_two_price_levels_are_alternatives_with_their_amounts() -> None:
    older, newer = statement("I prefer budget hotels, under $50 a night."), statement("I prefer luxury 5-star hotels.", message=2)
    expected = "I prefer budget hotels, under $50 a night or luxury 5-star hotels."
    assert expected == merged(clash(older, newer, topic="price level"))


@pytest.mark.parametrize(
    ("older", "newer", "topic"),
    [
        ("I am vegan.", "I eat steak.", "diet"),
        ("I live in Berlin.", "I live in Munich.", "location"),
        ("I like trains.", "I do not like trains.", "transport"),
        ("Cheap if possible.", "Make it luxury.", "price level"),
    ],
)
def test_what_excludes_each_other_is_not_merged(older: str, newer: str, topic: str) -> None:
    polarity = -1 if "not" in newer else 1
    assert merged(clash(statement(older), statement(newer, message=2, polarity=polarity), topic=topic)) is None


def test_ranges_that_do_not_meet_are_not_merged() -> None:
    older, newer = bounded("Under 200 €.", "200 €", None, 200), bounded("Over 300 €.", "300 €", 300, None, message=2)
    assert merged(clash(older, newer, topic="budget")) is None


def test_counts_are_no_range() -> None:
    one, other = "A table for 2.", "A table for 4."
    older = statement(one, slots=(amount("2", one, 2, 2, slot="people", unit=""),))
    newer = statement(other, message=2, slots=(amount("4", other, 4, 4, slot="people", unit=""),))
    assert merged(clash(older, newer, topic="people")) is None


def test_facts_are_no_range() -> None:
    older = bounded("The ticket costs 10 €.", "10 €", 10, 10, kind="fact")
    newer = bounded("The ticket costs 12 €.", "12 €", 12, 12, kind="fact", message=2)
    assert merged(clash(older, newer, type="CONFLICTING_FACTS")) is None


def test_two_languages_are_merged_in_the_newer_ones_words() -> None:
    older = bounded("My budget is 100 €.", "100 €", 100, 100)
    newer = bounded("Mein Budget beträgt 150 €.", "150 €", 150, 150, message=2, language="de")
    assert "Mein Budget beträgt zwischen 100 € und 150 €." == merged(clash(older, newer))


@given(st.integers(1, 500), st.integers(1, 500))
def test_a_range_runs_from_the_lower_to_the_higher_amount(one: int, other: int) -> None:
    older = bounded(f"I pay {one} €.", f"{one} €", one, one)
    newer = bounded(f"I pay {other} €.", f"{other} €", other, other, message=2)
    low, high = sorted((one, other))
    assert (f"I pay between {low} € and {high} €." if low < high else None) == merged(clash(older, newer))
