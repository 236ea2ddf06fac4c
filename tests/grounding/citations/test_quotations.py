"""Quotations that stand nowhere as they are."""

import pytest

from proxy.grounding.citations.written_forms import invented_quotations

LEASE = (
    "A late payment shall not entitle the landlord to terminate the lease. Tenants must air the rooms\ntwice a day, "
    "and keep the windows of the attic closed in win-\nter."
)
SATZUNG = "Der Beitrag ist bis zum 31. Januar zu zahlen. Wer später zahlt, verliert sein Stimmrecht nicht."
ESTATUTOS = "Los socios podrán darse de baja en cualquier momento, sin pagar penalización alguna."
NOTE = '{"note": "Deliver to the side\\nentrance &amp; ring twice, caf\\u00e9 staff will open."}'
SAID = [LEASE, SATZUNG, ESTATUTOS, NOTE]


@pytest.mark.parametrize(
    "text",
    [
        'The lease says: "A late payment shall entitle the landlord to terminate the lease."',
        'It states that a late payment "shall likewise entitle" the landlord to terminate.',
        'According to the lease, "tenants must air the rooms three times a day".',
        "In der Satzung heißt es: „Der Beitrag ist bis zum 31. März zu zahlen“",
        "Los estatutos dicen: «Los socios podrán darse de baja en cualquier momento, pagando penalización alguna»",
    ],
)
def test_one_that_differs_in_a_word_is_invented(text: str) -> None:
    assert invented_quotations(text, SAID)


@pytest.mark.parametrize(
    "text",
    [
        "The lease says: “A LATE payment shall not entitle the landlord to terminate the lease”.",
        'It says: "A late payment … to terminate the lease".',
        'It says: "[a] late payment shall not entitle the landlord to terminate the lease"',
        'It states that "Tenants must air the rooms twice a day, [...] in winter".',
        'The note says "ring twice, café staff will open".',
        'The note says "Deliver to the side entrance & ring twice".',
        "In der Satzung steht: »Der Beitrag ist bis zum 31. Januar zu zahlen«.",
        'For the notice I would write: "A late payment may entitle the landlord to terminate the lease."',
        'The word "landlord to terminate" is unclear.',
    ],
)
def test_one_that_is_there_word_for_word_or_offered_as_a_wording_is_not(text: str) -> None:
    assert [] == invented_quotations(text, SAID)


def test_a_translation_is_no_quotation_of_the_context() -> None:
    assert [] == invented_quotations("The statutes say: “Members may leave at any time without having to pay a fee.”", [ESTATUTOS])
