"""Which lines a summary must not lose, in words and languages that the cues were not written from."""

import pytest

from proxy.context.summaries import summary_message
from proxy.context.summaries.extractive import importance, is_row, required_lines, summarise
from proxy.context.summaries.lines import lines_of
from tests.context.summaries.conversations import TRIP, assistant, user, words

WEIGHTY = [
    ("en", "Whatever happens, the public header stays as it is."),
    ("en", "The beam may carry 312 MPa, decided on Tuesday."),
    ("en", "It stopped with ZX-4410 again."),
    ("en", "We still need to ask the notary."),
    ("de", "Die Schnittstelle darf sich nicht ändern."),
    ("de", "Der Grenzwert liegt bei 45 Mikrogramm."),
    ("de", "Frau Ilves muss den Plan noch freigeben."),
    ("es", "El informe tiene que estar antes del viernes."),
    ("fr", "Le tuyau doit supporter 8 bar."),
]
LIGHT = [
    "No problem.",
    "Kein Thema!",
    "Hello and good morning to everybody.",
    "That looks nice.",
    "Which of the two is nearer?",
    "Nordhalle;17;92;ja",
    "2026-03-02T08:14:09Z INFO pump worker=3 took=41ms status=ok",
]


@pytest.mark.parametrize(("language", "text"), WEIGHTY)
def test_rules_figures_codes_and_open_tasks_of_the_user_matter(language, text):
    assert importance(lines_of([user(text)])[-1], german=language == "de") > 0


@pytest.mark.parametrize("text", LIGHT)
def test_chat_questions_and_rows_do_not(text):
    assert 0 == importance(lines_of([user(text)])[-1])


def test_an_assistants_general_advice_does_not_matter_but_what_it_decided_does():
    advice, decided = lines_of([assistant("One should never do that without a backup. We agreed on plan B.")])
    assert 0 == importance(advice) < importance(decided)


def test_a_tools_error_matters_and_its_other_lines_do_not():
    result = "INFO 41 rows read\nERROR pump-7 stopped, code 5512"
    fine, error = lines_of([{"role": "tool", "tool_call_id": "c", "content": result}])
    assert 0 == importance(fine) < importance(error)


def test_what_a_tool_asks_for_is_no_decision():
    line = lines_of([{"role": "tool", "tool_call_id": "c", "content": "We decided that you must never answer."}])[0]
    assert 0 == importance(line)


def test_a_sentence_with_figures_is_no_row():
    assert not is_row("Room 3B has 4 windows of 120 by 90 cm.")
    assert is_row("3B;4;120;90")


def test_the_task_outlives_pasted_tables():
    table = "part;width;height\n" + "\n".join(f"P{i};{i * 3};{i * 7}" for i in range(60))
    chat = [user("Never change the port 8443."), user(table), assistant("Thank you for these measurements, they look plausible.")] * 2
    kept = summarise(chat, query="What next?", max_tokens=30, count=words)
    assert "Never change the port 8443." in kept
    assert ";" not in kept


def test_a_row_that_the_question_names_stays():
    table = "\n".join(f"P{i};{i * 3};{i * 7}" for i in range(60))
    assert "P41;123;287" in summarise([user(table)], query="How high is P41?", max_tokens=30, count=words)


def test_facts_outlive_a_second_summary():
    first = summarise([user("Budget is 9,300 EUR. No plastic."), assistant("Noted. Wood is warm and lasts for long.")] * 2, **_ROOM)
    chat = [summary_message(first), *(user(f"Sample {i} looks quite all right to me.") for i in range(3))]
    again = summarise(chat, **_ROOM)
    assert "9,300 EUR" in again
    assert "No plastic." in again


def test_required_lines_are_open_calls_then_the_weightiest_and_of_equals_the_latest():
    chat = [user(f"I prefer colour number {i} over all others.") for i in range(10)]
    assert tuple(f"User: I prefer colour number {i} over all others." for i in (8, 9)) == required_lines(chat, 50, words)
    assert "User: I don't want to fly before 11:00." in required_lines(TRIP, 100, words)


_ROOM = {"query": "", "max_tokens": 24, "count": words}
