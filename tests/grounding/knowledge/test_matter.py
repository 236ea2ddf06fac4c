"""Whether a fact speaks of the same subject and matter as a claim."""

import pytest

from proxy.grounding.knowledge.conflicts import Conflict, matter_of
from proxy.grounding.knowledge.reading import make_fact
from proxy.ports.facts import FactHit


@pytest.mark.parametrize(
    ("claim", "subject", "statement", "language", "subject_too", "matter_too"),
    [
        ("The capital of Norway is Bergen.", "Norway", "The capital of Norway is Oslo.", "en", True, True),
        ("The capital of Sweden is Malmö.", "Norway", "The capital of Norway is Oslo.", "en", False, False),
        ("The Atomium is made of steel.", "Atomium", "The Atomium is 102 metres tall.", "en", True, False),
        ("The Atomium is 90 metres high.", "Atomium", "The Atomium is 102 metres tall.", "en", True, True),
        ("Das Atomium ist 90 Meter hoch.", "Atomium", "Das Atomium ist 102 Meter hoch.", "de", True, True),
        ("El Atomium tiene nueve esferas.", "Atomium", "El Atomium mide 102 metros.", "es", True, False),
        ("L'Atomium mesure 90 mètres.", "Atomium", "L'Atomium mesure 102 mètres.", "fr", True, True),
        ("Oslo lies in Sweden.", "", "Oslo lies in Norway.", "en", True, True),
        ("Malmö lies in Sweden.", "", "Oslo lies in Norway.", "en", False, False),
        ("The frame of the Aurora lamp lasts one year.", "Aurora lamp – Warranty", "The frame lasts three years.", "en", True, True),
    ],
)
def test_a_fact_bears_on_a_claim_by_its_subject_and_by_what_is_said_of_it(
    claim: str, subject: str, statement: str, language: str, subject_too: bool, matter_too: bool
) -> None:
    found = matter_of(claim, FactHit(make_fact(subject, statement, "x"), 0.4), language)
    assert (subject_too, matter_too) == (found.same_subject, found.same_matter)


def test_a_hit_of_a_high_score_is_of_the_same_matter_whatever_its_words() -> None:
    fact = make_fact("Atomium", "Das Atomium steht in Brüssel.", "x")
    assert not matter_of("The Atomium stands at Ghent.", FactHit(fact, 0.59), "en").same_matter
    assert matter_of("The Atomium stands at Ghent.", FactHit(fact, 0.6), "en").same_matter


def test_another_number_in_the_place_of_the_claims_is_a_conflict() -> None:
    fact = make_fact("Atomium", "The Atomium is 102 metres tall.", "x")
    conflict = matter_of("The Atomium is 90 metres tall.", FactHit(fact, 0.5), "en").conflict
    assert Conflict("number", "90 metres", "102 metres", plain=True) == conflict
    assert matter_of("The Atomium is 102 m tall.", FactHit(fact, 0.5), "en").conflict is None


@pytest.mark.parametrize(("score", "conflict"), [(0.59, None), (0.6, Conflict("number", "90 metros", "102 metres"))])
def test_in_two_languages_only_the_search_tells_that_two_numbers_are_of_one_matter(score: float, conflict: Conflict | None) -> None:
    fact = make_fact("Atomium", "The Atomium is 102 metres tall and stands in Brussels.", "x")
    assert conflict == matter_of("El Atomium mide 90 metros de altura.", FactHit(fact, score), "es").conflict


def test_a_name_in_another_language_is_no_conflict() -> None:
    fact = make_fact("Atomium", "The Atomium stands in Ghent.", "x")
    assert matter_of("L'Atomium se trouve à Gand.", FactHit(fact, 0.9), "fr").conflict is None


@pytest.mark.parametrize(
    ("subject", "claim", "statement", "language", "settles"),
    [
        ("water", "Water boils at 100 degrees Celsius.", "Water freezes at 0 degrees Celsius.", "en", False),
        ("water", "Water freezes at 5 degrees Celsius.", "Water freezes at 0 degrees Celsius.", "en", True),
        ("Salzach", "Die Salzach entspringt auf 2300 Metern.", "Die Salzach ist bei Hallein gewöhnlich 50 Meter breit.", "de", False),
        ("Zugspitze", "Die Zugspitze ist 3500 Meter hoch.", "Die Zugspitze ist mit 2962 Metern der höchste Berg.", "de", True),
        ("agua", "El agua hierve a 100 grados.", "El agua hierve a 90 grados.", "es", True),
        ("eau", "L'eau gèle à 5 degrés.", "L'eau gèle à 0 degrés.", "fr", True),
    ],
)
def test_a_number_of_the_same_unit_settles_only_what_is_said_in_the_same_words(
    subject: str, claim: str, statement: str, language: str, settles: bool
) -> None:
    found = matter_of(claim, FactHit(make_fact(subject, statement, "x"), 0.4), language)
    assert settles == (found.same_matter and found.settles)


def test_a_name_in_another_language_is_not_lacking_but_a_number_is() -> None:
    fact = FactHit(make_fact("Eiffel Tower", "The Eiffel Tower in Paris has been 330 metres tall since the year 2022.", "x"), 0.7)
    assert not matter_of("Der Eiffelturm ist 330 Meter hoch.", fact, "de").lacks
    assert matter_of("Der Eiffelturm ist 300 Meter hoch.", fact, "de").lacks
    assert matter_of("The Eiffel Tower in London is 330 metres tall.", fact, "en").lacks
