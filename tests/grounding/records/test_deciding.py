"""Statements beside the cells of tables: right, wrong, or not theirs to decide."""

import pytest

from proxy.grounding.records.clause import Records
from proxy.grounding.records.deciding import decide
from tests.cost import below

BOATS = """boat,harbour,length_m,crew,launched,insured,state
Gannet,Oban,12,4,2011,yes,afloat
Petrel,Oban,31,9,1998,no,in dock
Skua,Wick,18,5,2020,yes,afloat"""
TRAINS = """| Zug | Ziel | Abfahrt | Gleis | Status |
|---|---|---|---|---|
| RE 12 | Nordau | 08:15 | 3 | pünktlich |
| RB 40 | Seebruck | 08:40 | 5 | ausgefallen |"""
CAMP = '{"site": "Elm", "pitches": [{"name": "Oak", "price": 18.5, "power": true, "guest": "Ruiz"}, {"name": "Ash", "price": 26, "power": false, "guest": null}]}'
FORM = "Antrag 88\nName: Vera Kolb\nBetrag: 420,00 €\nFrist: 14 Tage\nStatus: genehmigt"


def verdict(statement: str, *texts: str, language: str = "en") -> bool | None:
    """Whether the cells support it; None where they do not decide."""
    found = decide(statement, Records(texts), language)
    return None if found is None else found.supported


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Skua is 12 metres long.", BOATS, "en"),
        ("The Gannet lies in Wick.", BOATS, "en"),
        ("The Petrel was launched in 2020.", BOATS, "en"),
        ("The Gannet has a crew of 14.", BOATS, "en"),
        ("The Petrel is insured.", BOATS, "en"),
        ("The longest boat is the Skua.", BOATS, "en"),
        ("Together the three boats have a crew of 28.", BOATS, "en"),
        ("Der RE 12 fährt um 08:40 ab.", TRAINS, "de"),
        ("Die RB 40 nach Seebruck ist pünktlich.", TRAINS, "de"),
        ("Der RE 12 fährt auf Gleis 5.", TRAINS, "de"),
        ("Oak costs 26.", CAMP, "en"),
        ("Ash has power.", CAMP, "en"),
        ("Der Betrag ist 240 Euro.", FORM, "de"),
        ("Der Antrag ist abgelehnt.", FORM, "de"),
    ],
)
def test_another_value_than_the_cells_is_contradicted(statement: str, evidence: str, language: str) -> None:
    assert False is verdict(statement, evidence, language=language)


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Skua is 18 metres long.", BOATS, "en"),
        ("The Gannet lies in Oban.", BOATS, "en"),
        ("The Petrel has a crew of 9.", BOATS, "en"),
        ("Der RE 12 fährt um 08:15 ab.", TRAINS, "de"),
        ("Oak costs 18.50.", CAMP, "en"),
    ],
)
def test_what_a_cell_says_and_nothing_else_is_supported(statement: str, evidence: str, language: str) -> None:
    assert True is verdict(statement, evidence, language=language)


@pytest.mark.parametrize(
    ("statement", "evidence", "language"),
    [
        ("The Petrel is by far the longest of the boats.", BOATS, "en"),
        ("The Skua is about 60 feet long.", BOATS, "en"),
        ("The Petrel is 13 metres longer than the Skua.", BOATS, "en"),
        ("The Skua will be 20 metres long once the bow is rebuilt.", BOATS, "en"),
        ("Two of the three boats are insured.", BOATS, "en"),
        ("No boat is in Leith.", BOATS, "en"),
        ("The Skua would need a crew of 6 in winter.", BOATS, "en"),
        ("The harbour master of Oban has 12 assistants.", BOATS, "en"),
        ("Der RE 12 fährt pünktlich nach Nordau.", TRAINS, "de"),
        ("Für 3 Nächte kostet Oak 55,50.", CAMP, "de"),
        ("Two nights on Oak cost 37.", CAMP, "en"),
        ("Die Frist beträgt zwei Wochen.", FORM, "de"),
    ],
)
def test_what_may_be_right_is_not_contradicted(statement: str, evidence: str, language: str) -> None:
    assert False is not verdict(statement, evidence, language=language)


def test_a_value_that_other_text_has_may_be_meant() -> None:
    note = "After the refit the Skua is 20 metres long."
    assert (False, None) == (verdict("The Skua is 20 metres long.", BOATS), verdict("The Skua is 20 metres long.", BOATS, note))


def test_where_not_all_text_is_looked_at_any_value_may_stand_in_it() -> None:
    much = "The weather was fine that day, and nobody went out. " * 1000
    assert (False, None) == (verdict("The Skua is 20 metres long.", BOATS), verdict("The Skua is 20 metres long.", BOATS, much))


def test_a_table_of_very_many_rows_is_text() -> None:
    rows = "\n".join(f"boat {i},Oban,{i}" for i in range(700))
    assert [] == Records([f"boat,harbour,length_m\n{rows}"]).places


def test_what_differs_is_named_with_its_place() -> None:
    records = Records(["No table.", BOATS])
    found = decide("The Gannet has a crew of 9.", records, "en")
    assert found is not None
    assert ("9", "4", 1, "Gannet") == (found.claim, found.evidence, found.place.text, found.place.table.rows[found.row].values[0])


@pytest.mark.cost
def test_a_statement_costs_no_more_than_the_rows() -> None:
    rows = "\n".join(f"boat {i},harbour {i % 7},{i},{i % 3},open" for i in range(2000))
    records = Records([f"boat,harbour,length_m,crew,state\n{rows}"])
    decide("warm up", records, "en")
    with below(4.0):
        for i in range(20):
            decide(f"Boat {i} of harbour 3 is {i + 1} metres long with a crew of 2 and open, {'crew ' * 60}.", records, "en")
