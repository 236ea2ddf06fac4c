"""Of a request the words that say one value."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.kinds import StatedPiece
from proxy.grounding.clashes.statements.reading import read_statements
from proxy.grounding.clashes.statements.value_spans import value_span


@pytest.mark.parametrize(
    ("request_", "topic", "phrase"),
    [
        ("Find me a hotel in Rome for under 500 € with breakfast.", "budget", " for under 500 €"),
        ("Plan a trip to Rome with a budget of 500 €.", "budget", " with a budget of 500 €"),
        ("Finde mir ein Hotel in Rom für höchstens 500 €, mit Frühstück.", "budget", " für höchstens 500 €"),
        ("Busca un hotel en Roma por menos de 500 €, con desayuno.", "budget", " por menos de 500 €"),
        ("Trouve-moi un hôtel à Rome pour moins de 500 €, avec petit déjeuner.", "budget", " pour moins de 500 €"),
    ],
)
def test_of_a_request_only_the_value_is_taken(request_: str, topic: str, phrase: str) -> None:
    (found,) = read_statements([StatedPiece(request_)])
    span = value_span(found, topic)
    assert span is not None
    assert phrase == request_[slice(*span)]


@pytest.mark.parametrize(
    ("sentence", "topic"), [("My budget is 500 €.", "budget"), ("I am vegan.", "diet"), ("I live in Rome.", "location")]
)
def test_a_statement_that_says_nothing_else_is_taken_whole(sentence: str, topic: str) -> None:
    (found,) = read_statements([StatedPiece(sentence)])
    assert value_span(found, topic) is None
