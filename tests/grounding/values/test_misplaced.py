"""A value that was said, of something else than the claim says it of."""

import pytest

from proxy.grounding.values.misplaced import misplaced
from proxy.grounding.values.stated import StatedValues

PLANS = ("The Harbour plan costs 40 euros a month.", "The Garden plan costs 25 euros a month.", "Both can be ended at any time.")


def found(claim: str, *sentences: str, language: str = "en") -> tuple[str, str] | None:
    """The claim's value and the evidence's."""
    there = misplaced(claim, sentences, StatedValues(sentences), language)
    return None if there is None else (there[0].claim, there[0].evidence)


@pytest.mark.parametrize(
    ("claim", "sentences", "language", "values"),
    [
        ("The Garden plan costs 40 euros a month.", PLANS, "en", ("40 euros", "25 euros")),
        (
            "Am 3. Mai beginnt der Umbau.",
            ("Am 9. Juni beginnt der Umbau der Halle.", "Die Messe endet am 3. Mai."),
            "de",
            ("3. Mai", "9. Juni"),
        ),
        (
            "La piscina abre a las 10:00.",
            ("La piscina abre a las 8:30.", "El desayuno se sirve hasta las 10:00."),
            "es",
            ("10:00", "8:30"),
        ),
        (
            "Le colis pèse 12 kg.",
            ("Le colis pèse 7 kg.", "La palette peut porter 12 kg de plus."),
            "fr",
            ("12 kg", "7 kg"),
        ),
        ("Nora Keller signed the lease.", ("Tom Keller signed the lease.", "Pets are allowed."), "en", ("Nora Keller", "Tom Keller")),
    ],
)
def test_the_sentence_that_says_the_rest_has_another_value(
    claim: str, sentences: tuple[str, ...], language: str, values: tuple[str, str]
) -> None:
    assert values == found(claim, *sentences, language=language)


@pytest.mark.parametrize(
    ("claim", "sentences"),
    [
        ("The Harbour plan costs 40 euros a month.", PLANS),
        ("If the Garden plan cost 40 euros a month, few would take it.", PLANS),
        ("The Garden plan does not cost 40 euros a month.", PLANS),
        ("The Garden plan costs a month 25 euros, not 40 euros.", PLANS),
        ("The Garden plan is one of the top three.", ("The Garden plan is the second of the plans.", "Three plans end in May.")),
        ("T. Keller signed the lease.", ("Tom Keller signed the lease.",)),
        ("Anna Maria Keller signed the lease.", ("Anna Keller signed the lease.",)),
        ("Nora Keller signed the lease.", ("Tom Keller and Ruth Keller signed the lease.",)),
        ("Nora Keller signed the lease.", ("Nora signed the lease.", "Tom Keller moved out in spring.")),
    ],
)
def test_a_value_of_the_same_or_of_nothing_clear_is_none(claim: str, sentences: tuple[str, ...]) -> None:
    assert found(claim, *sentences) is None


def test_the_claim_is_given_with_the_value_of_the_evidence() -> None:
    there = misplaced("The Garden plan costs 40 euros a month.", PLANS, StatedValues(PLANS), "en")
    assert there is not None
    assert (1, True, "The Garden plan costs 25 euros a month.") == (there[0].position, there[0].elsewhere, there[1])
