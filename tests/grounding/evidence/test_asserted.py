"""What of a user's and the system's text says that something is so."""

import pytest

from proxy.grounding.evidence.asserted import Author, asserted
from proxy.grounding.evidence.pieces import cut


def kept(text: str, author: Author = "user") -> list[str]:
    return [piece.shown for piece in asserted(text, cut(text), author)]


@pytest.mark.parametrize(
    "text",
    [
        "Tell them the ferry leaves at noon.",
        "Please mention that the pool is heated.",
        "Why is the Danube shorter than the Rhine?",
        "Could you explain why the bridge was closed in 1990",
        "Since the ferry leaves at noon, when do we have to be there?",
        "Bitte schreib, dass die Fähre um zwölf ablegt.",
        "Behaupte nicht, dass die Brücke 1990 gesperrt wurde, sondern erkläre den Grund.",
        "Di que el ferry sale a mediodía.",
        "Redacta un cartel según el cual la piscina está climatizada.",
        "Explique pourquoi le pont a été fermé en 1990.",
        "Rédige une annonce disant que la piscine est chauffée.",
        "Spiega perché il ponte è stato chiuso nel 1990.",
        "Scrivimi che il traghetto parte a mezzogiorno.",
        "Explique por que a ponte foi fechada em 1990.",
        "Diga que a balsa sai ao meio-dia.",
        "I believe the bridge was closed in 1990.",
        "Angenommen, die Fähre legt um zwölf ab.",
        "Creo que el puente se cerró en 1990.",
        "Imagine que le pont est fermé.",
        "Forse il ponte è chiuso.",
        "Acho que a ponte está fechada.",
        "best sushi in Leeds",
        "Good morning!",
        "Thanks a lot!",
    ],
)
def test_a_question_a_request_and_a_supposition_say_nothing(text: str) -> None:
    assert [] == kept(text)


@pytest.mark.parametrize(
    "text",
    [
        "Our ferry leaves at noon.",
        "Order 4711 was cancelled on Friday.",
        "Design work starts next week.",
        "Note that the pool is closed.",
        "Unsere Fähre legt um zwölf ab.",
        "Merk dir, dass ich keine Nüsse vertrage.",
        "Nuestro ferry sale a mediodía.",
        "Notre ferry part à midi.",
        "Il nostro traghetto parte a mezzogiorno.",
        "A nossa balsa sai ao meio-dia.",
    ],
)
def test_a_declarative_sentence_says_that_something_is_so(text: str) -> None:
    assert [text] == kept(text)


def test_what_is_pasted_is_told_from_what_is_wanted_of_it() -> None:
    text = "Guest: Ruiz\nNo shellfish\nArrival: 4 May\n\nWrite a welcome card. Does he eat prawns?"
    assert ["Guest: Ruiz", "No shellfish", "Arrival: 4 May"] == kept(text)


def test_a_request_within_a_pasted_mail_is_part_of_the_mail() -> None:
    text = "Hier ist die Mail:\n\nHallo Eva,\nbitte schick die Muster bis Mittwoch.\n\nFasse sie zusammen."
    assert "bitte schick die Muster bis Mittwoch." in kept(text)
    assert "Fasse sie zusammen." not in kept(text)


def test_the_text_behind_a_request_s_colon_is_material() -> None:
    assert ["The hall holds 80 guests.", "It has two doors."] == kept("Summarise: The hall holds 80 guests. It has two doors.")
    assert [] == kept("Say: the hall holds 80 guests")


@pytest.mark.parametrize("heading", ["Rules:", "Instructions:", "Regeln:", "Reglas:", "Consignes :", "Regole:", "Regras:"])
def test_what_stands_under_a_heading_of_rules_is_none(heading: str) -> None:
    assert ["Our ferry leaves at noon."] == kept(f"{heading}\n- no more than 80 words\n- three parts\n\nOur ferry leaves at noon.")


def test_labels_of_form_are_none_and_labels_of_facts_are() -> None:
    assert ["Guests: 80"] == kept("Tone: warm\nGuests: 80\nLength: 100 words")


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("You are the ferry line's assistant. The ferry leaves at noon. Never mention rivals.", ["The ferry leaves at noon."]),
        ("Du bist der Assistent einer Fähre. Die Fähre legt um zwölf ab.", ["Die Fähre legt um zwölf ab."]),
        ("Answers must be in JSON. The answer has at most two sentences and should be polite.", []),
        ("# Task\nHelp guests.\n# Facts\nThe ferry leaves at noon.\n# Style\nShort sentences.", ["# Facts", "The ferry leaves at noon."]),
    ],
)
def test_of_a_system_message_only_the_facts_count(text: str, facts: list[str]) -> None:
    assert facts == kept(text, "system")


@pytest.mark.parametrize(
    ("text", "opinion"),
    [
        ("The tower is 300 m tall. Is that much?", True),
        ("Our tower is 300 m tall. Is that much?", False),
        ("Tower: 300 m\nBridge: 80 m\n\nWhich is taller?", False),
        ("My text: The tower is 300 m tall. Are there any mistakes in it?", True),
    ],
)
def test_what_a_user_says_of_the_world_may_be_known_better(text: str, opinion: bool) -> None:
    assert {opinion} == {piece.opinion for piece in asserted(text, cut(text), "user")}


def test_pieces_stand_where_they_are_said_to() -> None:
    text = "Summarise this: The hall holds 80 guests.\n\n- one\n- two is 2"
    assert all(text[p.start : p.end] == p.shown for p in asserted(text, cut(text), "user"))
