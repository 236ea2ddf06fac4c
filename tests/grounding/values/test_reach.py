"""What could have been worked out is not called wrong; what could not be is compared."""

import pytest

from proxy.grounding.values.arithmetic import may_follow
from proxy.grounding.values.slots import may_differ, swaps
from proxy.grounding.values.stated import StatedValues
from proxy.language.quantities import read_quantities


def could_follow(claim: str, *around: str) -> bool:
    quantities = read_quantities(claim, "en")
    return may_follow(quantities.numbers[-1], quantities, [read_quantities(text, "en") for text in around])


@pytest.mark.parametrize(
    ("claim", "around"),
    [
        ("Rent and charges: 1,074 euros", ["Cold rent 884 euros, service charges 190 euros."]),
        ("It is 14 euros more", ["The offer was 124 euros.", "The fixed price is 110 euros."]),
        ("Three nights: 567 euros", ["189 per night, 3 nights"]),
        ("A share of 58%", ["213 of 365 customers stayed"]),
        ("5 minutes, 8 in the pan, 10 in the oven: 23 minutes", []),
        ("You get 17 days", ["Five days a week: 28 days a year.", "She works 3 days."]),
        ("Saturday comes to 9.80", ["Adults 3.40", "children 3.00", "2 adults"]),
        ("All in all 123.65", ["64.20 train", "40.95 hotel", "18.50 taxi"]),
    ],
)
def test_one_or_two_steps_over_what_stands_around_are_tried(claim: str, around: list[str]) -> None:
    assert could_follow(claim, *around)


@pytest.mark.parametrize(
    ("claim", "around"),
    [("It is 330 metres tall", ["It is 300 metres tall."]), ("It costs 47 euros", ["It costs 20 euros a month; the fee is 9 euros."])],
)
def test_another_number_is_another_number(claim: str, around: list[str]) -> None:
    assert not could_follow(claim, *around)


@pytest.mark.parametrize(
    ("claim", "evidence", "expected"),
    [
        ("The tower stands in Rome.", "The tower stands in Paris.", ["The tower stands in Paris."]),
        ("It opened on 5 March 2019.", "It opened on 7 May 2019.", ["It opened on 7 May 2019."]),
        ("Returns within 60 days.", "Returns are accepted within 45 days.", ["Returns within 45 days."]),
        ("The tower stands in Paris.", "The tower stands in Paris.", []),
        ("It needs 640 MiB.", "CACHE_MAX_MB is set.", []),
    ],
)
def test_a_value_that_nobody_said_is_exchanged_for_one_of_its_kind(claim: str, evidence: str, expected: list[str]) -> None:
    assert expected == swaps(claim, [evidence], StatedValues([evidence]), "en")


def test_two_spellings_of_a_name_are_one_name_and_two_surnames_are_two() -> None:
    evidence = "The ticket is assigned to Teodora Marsh."
    found = [swaps(f"{name} has it.", [evidence], StatedValues([evidence]), "en") for name in ("Teodora Marsch", "Teodora Kimball")]
    assert [[], ["Teodora Marsh has it."]] == found


@pytest.mark.parametrize("text", ["Hartwick,2021-09-20,2026-06-30", '{"until": "2026-06-30"}', "1;2026-06-30;x"])
def test_dates_of_tables_and_records_are_read(text: str) -> None:
    claim = "The contract runs until 30 June 2026."
    assert [] == may_differ(claim, read_quantities(claim, "en"), [text], StatedValues([text]), "en")


def test_a_month_of_a_year_is_read_as_machines_write_it() -> None:
    claim = "The last oil change was in March 2026."
    text = "last oil change 2026-03, sold 2026-06-30"
    assert [] == may_differ(claim, read_quantities(claim, "en"), [text], StatedValues([text]), "en")


def test_values_of_several_texts_are_known_by_their_places_in_all_of_them() -> None:
    texts = [
        "Two nights from 3 May 2024, check-in at 14:30.",
        "",
        "Das Zimmer kostet 120 €, der Parkplatz 15 €.",
        "Two nights from 3 May 2024.",
    ]
    for _ in range(2):  # read, then remembered
        said = StatedValues(texts)
        found = said.quantities
        assert found == read_quantities("\n\n".join(texts), any_language=True)
        assert [said.text[one.start : one.end] for one in found.numbers] == [one.text for one in found.numbers]
        assert [said.text[one.start : one.end] for one in found.dates] == [one.text for one in found.dates]
        assert said.month_stems == {"may", "mai"}


def test_a_day_told_by_another_is_seen_in_any_of_the_texts() -> None:
    assert StatedValues(["The meeting is on 3 May.", "We met the Thursday before."]).tells_days_by_others
    assert not StatedValues(["The meeting is on 3 May.", "We met then."]).tells_days_by_others
