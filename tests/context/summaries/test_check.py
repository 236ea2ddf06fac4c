import pytest

from proxy.context.summaries.summariser import check, missing, readings, repair
from tests.context.summaries.conversations import TRIP, user, words

HONEST = """User: Mia needs a trip from Berlin to Lisbon for two people on 2026-05-20; her id is mia_li_3668.
User: prefers aisle seats and does not want to fly before 11:00.
Assistant: HAT099 was booked for $310 (reservation ZFA04Y); HAT012 would have cost 1240.50.
Open tasks: both passports need to be uploaded."""


def kinds(summary, messages=TRIP, required=()):
    return [(problem.kind, problem.text) for problem in check(summary, messages, required)]


def test_an_honest_paraphrase_passes():
    assert [] == kinds(HONEST)


@pytest.mark.parametrize(
    ("invented", "expected"),
    [
        ("Assistant: The reservation is QQ9X4Z.", [("identifier", "QQ9X4Z")]),
        ("Assistant: The flight is HAT01.", [("identifier", "HAT01")]),
        ("Assistant: It costs $311.", [("number", "$311")]),
        ("Assistant: It leaves on 2026-05-21.", [("number", "2026-05-21")]),
        ("User: wants to meet Jane Doe in Porto.", [("name", "Jane Doe"), ("name", "Porto")]),
        ("User: Bob agreed to pay.", [("name", "Bob")]),
        ("Assistant: It departs at 12:45.", [("number", "12:45")]),
    ],
)
def test_inventions_are_found(invented, expected):
    assert expected == kinds(f"{HONEST}\n{invented}")


@pytest.mark.parametrize(
    ("said", "summary"),
    [
        ("It costs 1,000 dollars.", "It costs 1000 dollars."),
        ("Es kostet 1.234,50 Euro.", "Es kostet 1234.5 Euro."),
        ("It leaves at 06:00:00.", "It leaves at 6:00 AM."),
        ("Arrival is at 18:05.", "Arrival is at 6:05 PM."),
        ("There are three of us.", "There are 3 of them."),
        ("We fly on 2026-05-20.", "They fly on May 20."),
        ("My name is ANNA SMITH.", "The caller is Anna Smith."),
        ("Die Buchungen sind fertig.", "Die Buchung ist fertig und der Vorgang ist damit abgeschlossen."),
    ],
)
def test_the_same_fact_in_another_form_passes(said, summary):
    assert [] == kinds(summary, [user(said)])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1.000", "1"),
        ("1.000", "1000"),
        ("1.234,50", "1234.5"),
        ("1,234.50", "1234.5"),
        ("1'000", "1000"),
        ("1,234,567", "1234567"),
        ("1.2.3", "1.2.3"),
    ],
)
def test_values_that_digits_may_mean(written, value):
    assert value in readings(written)


@pytest.mark.parametrize(("written", "value"), [("1,5", "15"), ("1.50", "150"), ("1.2.3", "123"), ("1,234.50", "1.2345")])
def test_a_mark_before_other_than_three_digits_parts_no_thousands(written, value):
    assert value not in readings(written)


def test_a_required_line_may_be_paraphrased_but_not_left_out():
    required = ["User: I prefer aisle seats.", "User: I never eat peanuts."]
    assert [("missing", "User: I never eat peanuts.")] == kinds(HONEST, required=required)


def test_a_lost_negation_is_a_missing_line():
    required = ["User: I don't want to fly before 11:00."]
    assert [] == missing("User: does not want to fly before 11:00.", required)
    assert ["missing"] == [problem.kind for problem in missing("User: wants to fly before 11:00.", required)]


def test_a_dislike_is_a_negation():
    assert [] == missing("User: dislikes MySQL.", ["User: I don't like mysql."])


def test_a_required_line_needs_its_numbers():
    assert ["missing"] == [
        p.kind for p in missing("User: will pay with the card ending in 12.", ["User: I'll pay with the card ending in 7447."])
    ]


def test_an_open_call_needs_its_id():
    required = ["Assistant called: pay (open call call_zz)"]
    assert [] == missing("A payment is under way (call_zz).", required)
    assert 1 == len(missing("A payment is under way.", required))


def test_repair_drops_inventions_and_adds_what_is_missing():
    summary = f"{HONEST}\nAssistant: Done. It costs $999."
    required = ["User: I never eat peanuts."]
    chat = [*TRIP, user("I never eat peanuts.")]
    text = repair(summary, check(summary, chat, required), max_tokens=90, count=words)
    assert f"{HONEST}\nAssistant: Done.\nUser: I never eat peanuts." == text
    assert [] == check(text, chat, required)


def test_what_is_mostly_invented_or_too_long_cannot_be_repaired():
    summary = "Assistant: It costs $999. It is QQ9X4Z. Fine."
    assert repair(summary, check(summary, TRIP), max_tokens=90, count=words) is None
    lacking = check(HONEST, TRIP, ["User: I never eat peanuts."])
    assert repair(HONEST, lacking, max_tokens=words(HONEST), count=words) is None
