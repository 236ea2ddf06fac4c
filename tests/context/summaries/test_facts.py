import pytest

from proxy.context.summaries.facts import literals, names, open_calls
from proxy.context.summaries.lines import source_texts
from tests.context.summaries.conversations import TRIP


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/a?b=1",
        "mia.li@example.com",
        "/etc/hosts.d/local",
        "src/app/main.py",
        "report.pdf",
        "HAT012",
        "W-7731-b",
        "123e4567-e89b-12d3-a456-426614174000",
        "call_oIHazX6yQ",
        "credit_card_4421486",
        "#W2378156",
    ],
)
def test_identifiers_are_found_whole(text):
    assert [("identifier", text)] == [(fact.kind, fact.text) for fact in literals(f"It is {text}, as I said.")]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("date", "2026-05-20"),
        ("date", "20.05.2026"),
        ("time", "06:30"),
        ("number", "$1,240.50"),
        ("number", "20%"),
        ("number", "20th"),
        ("number", "5GB"),
        ("number", "1'000"),
    ],
)
def test_dates_and_amounts_are_no_identifiers(kind, text):
    assert [(kind, text)] == [(fact.kind, fact.text) for fact in literals(f"It is {text} now.")]


def test_names_are_capitalised_words_but_not_the_first_of_a_sentence():
    assert ["Anna Smith", "Lisbon"] == names("Yesterday I met Anna Smith. She lives in Lisbon.", german=False)


def test_german_nouns_are_no_names():
    assert ["Herrn Karl Weber", "GmbH"] == names(
        "Ich habe die Rechnung an Herrn Karl Weber und die GmbH mit der Post geschickt.", german=True
    )


def test_facts_of_a_conversation():
    texts = list(source_texts(TRIP))
    found = {(fact.kind == "identifier", fact.text) for text in texts for fact in literals(text)}
    assert {(True, text) for text in ("mia_li_3668", "HAT012", "HAT099", "ZFA04Y")} <= found
    assert {(False, text) for text in ("2026-05-20", "1240.5", "$310", "11:00")} <= found
    assert {"Berlin", "Lisbon"} <= {name for text in texts for name in names(text, german=False)}
    assert () == open_calls(TRIP)


def test_calls_without_a_result_are_open():
    assert ("call_a1",) == open_calls(TRIP[:3])
    assert () == open_calls(TRIP[:4])
