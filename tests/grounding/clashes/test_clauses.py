"""Sentences that say several things, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.kinds import StatedPiece
from proxy.grounding.clashes.statements.clauses import read_clauses, value_span


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("I am allergic to nuts and I live in Berlin.", ["I am allergic to nuts", "I live in Berlin"]),
        ("I live in Berlin, I have two kids, and my budget is 500 €.", ["I live in Berlin", "I have two kids", "my budget is 500 €"]),
        ("Ich bin Vegetarier und wohne in Berlin.", ["Ich bin Vegetarier", "wohne in Berlin"]),
        ("Vivo en Madrid y soy alérgica a los frutos secos.", ["Vivo en Madrid", "soy alérgica a los frutos secos"]),
        ("Je suis végétarien et j'habite à Paris.", ["Je suis végétarien", "j'habite à Paris"]),
    ],
)
def test_what_is_said_side_by_side_is_a_statement_each(sentence: str, parts: list[str]) -> None:
    assert parts == [statement.text for statement in read_clauses([StatedPiece(sentence)])]


@pytest.mark.parametrize(
    "sentence",
    [
        "I prefer cheap, clean hotels.",
        "I want to see Rome and Naples.",
        "Find me a hotel in Rome for under 500 € with breakfast and a pool.",
        "No wait, actually I live in Munich.",
        "I live in Berlin.",
    ],
)
def test_what_is_one_statement_stays_whole(sentence: str) -> None:
    assert [sentence] == [statement.text for statement in read_clauses([StatedPiece(sentence)])]


def test_actually_at_the_beginning_is_said_of_all_that_follows() -> None:
    assert [True, True] == [statement.update for statement in read_clauses([StatedPiece("Actually, I live in Rome and I am vegan now.")])]


def test_a_change_of_mind_at_the_end_is_of_the_end() -> None:
    assert [False, True] == [statement.update for statement in read_clauses([StatedPiece("I live in Rome, but actually I am vegan.")])]


def test_what_is_said_of_somebody_else_stays_theirs() -> None:
    found = read_clauses([StatedPiece("My wife is vegan and lives in Berlin.")])
    assert {"wife"} == {statement.subject for statement in found}


_PARTS = ("I live in Berlin", "my budget is 500 €", "I am vegan", "I love long walks", "we are two people", "hello", "what is new")
_JOINS = (", ", " and ", ", and ", "; ", ". ", " but ")


@given(st.lists(st.tuples(st.sampled_from(_PARTS), st.sampled_from(_JOINS)), min_size=1, max_size=5))
def test_a_part_stands_where_it_says(parts: list[tuple[str, str]]) -> None:
    text = "".join(part + join for part, join in parts) + "Thanks."
    found = read_clauses([StatedPiece("Hello."), StatedPiece(text, message=3)])
    assert [statement.text for statement in found] == [text[statement.start : statement.end] for statement in found]
    assert {(1, 3)} >= {(statement.piece, statement.message) for statement in found}


@pytest.mark.parametrize(
    ("request_", "topic", "phrase"),
    [
        ("Find me a hotel in Rome for under 500 € with breakfast.", "budget", " for under 500 €"),
        ("Plan a trip to Rome with a budget of 500 €.", "budget", " with a budget of 500 €"),
        ("Plan a trip to Rome with a budget of 500 €.", "destination", " to Rome"),
        ("Finde mir ein Hotel in Rom für höchstens 500 €, mit Frühstück.", "budget", " für höchstens 500 €"),
        ("Busca un hotel en Roma por menos de 500 €, con desayuno.", "budget", " por menos de 500 €"),
        ("Trouve-moi un hôtel à Rome pour moins de 500 €, avec petit déjeuner.", "budget", " pour moins de 500 €"),
    ],
)
def test_of_a_request_only_the_value_is_taken(request_: str, topic: str, phrase: str) -> None:
    (found,) = read_clauses([StatedPiece(request_)])
    span = value_span(found, topic)
    assert span is not None
    assert phrase == request_[slice(*span)]


@pytest.mark.parametrize(
    ("sentence", "topic"), [("My budget is 500 €.", "budget"), ("I am vegan.", "diet"), ("I live in Rome.", "location")]
)
def test_a_statement_that_says_nothing_else_is_taken_whole(sentence: str, topic: str) -> None:
    (found,) = read_clauses([StatedPiece(sentence)])
    assert value_span(found, topic) is None
