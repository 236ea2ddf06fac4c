"""A fact's name, and the form in which two texts are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.knowledge.reading import make_fact, names_subject
from proxy.ports.facts import Fact, fact_id, normalised


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The  Eiffel Tower\tis 330 m tall.", "the eiffel tower is 330 m tall"),
        ("“Paris” is a city", '"Paris" is a city.'),
        ("Paris is the capital of France!", "Paris is the capital of France"),
        ("Die STRASSE ist gesperrt", "Die Straße ist gesperrt."),
        ("Le café est à l’étage", "le cafe\u0301 est à l'étage"),
        ("El niño — dijo", "el nin\u0303o - dijo"),
    ],
)
def test_the_same_said_in_other_marks_is_the_same(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It uses 5 mW", "It uses 5 MW"),
        ("It is -5 °C", "It is 5 °C"),
        ("It holds .5 l", "It holds 5 l"),
        ("It is 10² m", "It is 102 m"),
        ("Paris is the capital of France.", "Is Paris the capital of France?"),
        ("It is 3.5 m", "It is 35 m"),
    ],
)
def test_another_value_or_a_question_is_not_the_same(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


@given(st.text())
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    assert once == normalised(once)


def test_an_id_goes_by_what_is_said_and_when_not_by_its_source() -> None:
    assert make_fact("Paris", "Paris is a city.", "a.csv").id == make_fact("paris", "PARIS is a city", "b.csv").id
    assert fact_id("Paris", "Paris is a city.") != fact_id("Paris", "Paris is a city.", None, 0.0)


def test_the_text_names_the_subject_where_the_statement_does_not() -> None:
    assert "Eiffel Tower: It is 330 metres tall." == make_fact("Eiffel Tower", "It is 330 metres tall.", "x").text
    assert "The Eiffel Tower is tall." == make_fact("Eiffel Tower", "The Eiffel Tower is tall.", "x").text


def test_a_subject_is_named_by_all_its_words_in_any_inflection() -> None:
    assert names_subject("Die Städte der Schweiz sind sauber.", "Schweiz")
    assert names_subject("La torre Eiffel mide 330 metros.", "torre Eiffel")
    assert not names_subject("The tower of London is old.", "Eiffel Tower")
    assert not names_subject("Anything.", "")


@pytest.mark.parametrize(
    ("valid_from", "valid_to", "holds", "over"),
    [(None, None, True, False), (10.0, None, False, False), (None, 5.0, False, True), (5.0, 6.0, True, False), (1.0, 5.0, False, True)],
)
def test_a_fact_holds_from_its_beginning_until_before_its_end(
    valid_from: float | None, valid_to: float | None, holds: bool, over: bool
) -> None:
    fact = Fact("kf_", "", "x", "", valid_from, valid_to)
    assert (holds, over) == (fact.holds_at(5.0), fact.is_over(5.0))
