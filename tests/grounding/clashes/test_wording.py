"""Sentences that differ in one thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.detecting.wording import difference


@pytest.mark.parametrize(
    ("older", "newer", "language", "words"),
    [
        ("My car is red.", "My car is blue.", "en", ("red", "blue")),
        ("Mein Auto ist rot.", "Mein Auto ist grün.", "de", ("rot", "grun")),
        ("The flat has two bedrooms.", "The flat has 4 bedrooms.", "en", ("two", "4")),
        ("El piso tiene dos habitaciones.", "El piso tiene cuatro habitaciones.", "es", ("dos", "cuatro")),
        ("The parcel has arrived.", "The parcel hasn't arrived yet.", "en", ("", "not")),
        ("Das Paket ist noch nicht angekommen.", "Das Paket ist angekommen.", "de", ("not", "")),
        ("Tengo mascotas.", "No tengo mascotas.", "es", ("", "not")),
        ("Le colis est arrivé.", "Le colis n'est pas encore arrivé.", "fr", ("", "not")),
    ],
)
def test_one_word_that_excludes_another_is_found(older: str, newer: str, language: str, words: tuple[str, str]) -> None:
    assert difference(older, newer, language) == words


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("My car is red.", "My car is fast."),
        ("My car is red.", "My bike is blue."),
        ("Room 12 has a window.", "Room 14 has a window."),
        ("I live in house 12.", "I live in house 14."),
        ("My car is grey.", "My car is gray."),
        ("I have two cats.", "I have 2 cats."),
        ("The parcel has arrived.", "The letter has not arrived."),
    ],
)
def test_other_differences_are_none(older: str, newer: str) -> None:
    assert difference(older, newer) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_the_difference_does_not_depend_on_order(one: str, other: str) -> None:
    there, back = difference(one, other), difference(other, one)
    assert there == (None if back is None else back[::-1])
