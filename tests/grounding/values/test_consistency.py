import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.values.consistency import FEATURES, Difference, differences, features
from proxy.grounding.values.slots import instead
from tests.cost import below


def kinds(claim: str, evidence: str, language: str = "en") -> list[str]:
    return [difference.kind for difference in differences(claim, evidence, language)]


@pytest.mark.parametrize(
    ("language", "claim", "evidence"),
    [
        ("en", "The WHO said so again.", "The World Health Organization said so."),
        ("en", "It was Curie's work.", "This is the work of Marie Curie."),
        ("en", "It lies in Zurich.", "It lies in Zürich."),
        ("en", "He met J. K. Rowling.", "Joanne Rowling met him."),
        ("en", "The German team won.", "The team from Germany won."),
        ("en", "There were two winners.", "Ann and Bob won."),
        ("de", "Am 5. März 2024 kam er nach Berlin.", "On March 5, 2024 he came to Berlin."),
        ("de", "Das Gebäude ist im Besitz der Stadt.", "Es gehört der Gemeinde."),
        ("es", "El edificio mide 1.234 metros.", "It is 1,234 metres high."),
        ("fr", "Environ 300 personnes vivent à Londres.", "297 personnes vivent à Londres."),
    ],
)
def test_what_the_evidence_says_otherwise_is_no_difference(language: str, claim: str, evidence: str) -> None:
    assert [] == differences(claim, evidence, language)


@pytest.mark.parametrize(
    ("language", "claim", "evidence", "kind"),
    [
        ("en", "It opened in 1899.", "The tower was opened on 31 March 1889.", "date"),
        ("en", "It has 27 members.", "It has 25 members.", "number"),
        ("en", "It weighs 5 kg.", "It weighs 5 pounds.", "unit"),
        ("en", "The tower stands in London.", "The tower stands in Paris.", "name"),
        ("en", "The drug is not approved.", "The drug is approved.", "negation"),
        ("de", "Das Medikament ist nicht zugelassen.", "Das Medikament ist zugelassen.", "negation"),
        ("es", "El medicamento no fue aprobado.", "El medicamento fue aprobado.", "negation"),
        ("fr", "Le médicament n'est pas autorisé.", "Le médicament est autorisé.", "negation"),
        ("de", "Der Turm steht in London.", "Der Turm steht in Paris.", "name"),
        ("es", "La torre está en Londres.", "La torre está en París.", "name"),
        ("fr", "La tour mesure 200 mètres.", "La tour mesure 330 mètres.", "number"),
    ],
)
def test_what_the_evidence_does_not_say_is_one(language: str, claim: str, evidence: str, kind: str) -> None:
    assert [kind] == kinds(claim, evidence, language)


def test_the_counterpart_is_given_where_it_is_clear() -> None:
    assert [Difference("number", "200 mètres", "330 mètres")] == differences(
        "La tour mesure 200 mètres.", "Cette tour mesure 330 mètres.", "fr"
    )


@pytest.mark.parametrize(
    ("language", "claim", "sentence", "expected"),
    [
        ("en", "The Eiffel Tower stands in London.", "The Eiffel Tower is a wrought-iron tower in Paris, France.", "Paris"),
        ("en", "It opened in 1899.", "The tower was opened on 31 March 1889.", "31 March 1889"),
        ("de", "Der Eiffelturm steht in London.", "Der Eiffelturm ist ein Turm in Paris.", "Paris"),
        ("es", "La torre está en Londres.", "La Torre Eiffel está situada en París, Francia.", "París"),
        ("fr", "La tour mesure 200 mètres.", "La tour Eiffel a une hauteur de 330 mètres.", "330 mètres"),
        ("en", "Bees make honey.", "The committee met in spring to discuss the budget.", ""),
        ("en", "", "Anything.", ""),
    ],
)
def test_instead(language: str, claim: str, sentence: str, expected: str) -> None:
    assert expected == instead(claim, sentence, language)


def test_features_of_a_claim_that_stands_in_the_evidence() -> None:
    values = dict(zip(FEATURES, features("It opened in 1889.", "It opened in 1889. It is tall."), strict=True))
    assert (0.0, 1.0, 1.0, 1.0) == tuple(values[k] for k in ("dates_missing", "terms_in_evidence", "bigrams_in_evidence", "longest_run"))


def test_features_of_a_wrong_number() -> None:
    values = dict(zip(FEATURES, features("It has 27 members.", "It has 25 members."), strict=True))
    assert (1.0, 1.0) == (values["numbers_missing"], values["conflicts"])


@given(st.text(max_size=200), st.text(max_size=200), st.sampled_from(["en", "de", "es", "fr", "ja"]))
def test_features_are_bounded_whatever_the_text(claim: str, evidence: str, language: str) -> None:
    values = features(claim, evidence, language)
    assert len(FEATURES) == len(values)
    assert all(
        math.isfinite(value) and 0 <= value <= (3 if name == "conflicts" else 1) for name, value in zip(FEATURES, values, strict=True)
    )


@given(st.text(max_size=200), st.sampled_from(["en", "de", "es", "fr"]))
def test_a_text_never_differs_from_itself(text: str, language: str) -> None:
    assert [] == differences(text, text, language)


@pytest.mark.parametrize(
    "piece",
    ["9", "1,", "1 234 ", "1e999999 ", "A ", "Abc ", "May ", "١٢٣٤ ", ".", "1.2.3", "not ", "²³½①", "million ", "12:", "$", "A.B.", "in "],
)
@pytest.mark.cost
def test_hostile_text_takes_no_time(piece: str) -> None:
    text = piece * (20_000 // len(piece))
    with below(3):
        features(text, text[:-1])
        instead(text, text[:-1])
