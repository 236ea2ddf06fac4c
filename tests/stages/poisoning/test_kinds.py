"""A false statement is called by what differs from the evidence."""

import pytest

from proxy.stages.poisoning.rules import kind_of

TOWER = "The Eiffel Tower is located in Paris, was opened in 1889 and is 330 metres tall."


@pytest.mark.parametrize(
    ("statement", "evidence", "language", "kind"),
    [
        ("The Eiffel Tower is located in Berlin.", TOWER, "en", "wrong_location"),
        ("The Eiffel Tower was opened in 1921.", TOWER, "en", "wrong_date"),
        ("Marie Curie died on 4 July 1934.", "Marie Curie was a physicist.", "en", "invented_date"),
        ("The Eiffel Tower is 500 metres tall.", TOWER, "en", "wrong_number"),
        ("The Eiffel Tower is 330 feet tall.", TOWER, "en", "wrong_unit"),
        ("The tower was designed by Albert Speer.", "The tower was designed by Gustave Eiffel.", "en", "wrong_name"),
        ("The router supports fast roaming.", "The router does not support fast roaming.", "en", "false_capability"),
        ("Der Router unterstützt schnelles Roaming.", "Der Router unterstützt kein schnelles Roaming.", "de", "false_capability"),
        ("The museum is open on Mondays.", "The museum is never open on Mondays.", "en", "contradiction"),
        ("La torre mide 500 metros de altura.", "La torre mide 330 metros de altura.", "es", "wrong_number"),
        ("La tour a été inaugurée en 1921.", "La tour a été inaugurée en 1889.", "fr", "wrong_date"),
    ],
)
def test_the_kind_is_what_differs(statement: str, evidence: str, language: str, kind: str) -> None:
    assert kind_of(statement, evidence, contradicted=True, language=language) == kind


def test_without_evidence_it_is_unsupported_or_a_contradiction() -> None:
    assert kind_of("It rains.", "", contradicted=False) == "unsupported_claim"
    assert kind_of("It rains.", "", contradicted=True) == "contradiction"
