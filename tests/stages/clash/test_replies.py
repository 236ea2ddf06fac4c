"""What the user's next message means for the question that the proxy asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.clash.resolution import ClashQuestion, question, read_reply
from tests.stages.clash.making import statement


def asked(older: str, newer: str, language: str = "en") -> ClashQuestion:
    return question(statement(older), statement(newer, message=2), language)


HOTEL = asked("I prefer budget hotels.", "Make it luxury.")
MEAL = asked("I am vegetarian.", "I'd love a good steak tonight.")
HOME = asked("I live in Berlin.", "I moved to Hamburg last month.")
NAME = asked("Please call me Robert.", "My name is Alex.")
SEAT = asked("I need a window seat.", "I'd rather sit on the aisle.")
TABLE = asked("A table for 2 please.", "We are 4 people.")
HOTEL_DE = asked("Ich möchte ein günstiges Hotel.", "Mach ein Luxushotel daraus.", "de")
MEAL_DE = asked("Ich bin Vegetarier.", "Ich hätte gern ein Steak.", "de")
HOTEL_ES = asked("Prefiero un hotel barato.", "Que sea de lujo.", "es")
HOME_ES = asked("Vivo en Madrid.", "Me he mudado a Valencia.", "es")
NUTS_ES = asked("Soy alérgica a los frutos secos.", "No tengo ninguna alergia.", "es")
HOTEL_FR = asked("Je préfère un hôtel bon marché.", "Plutôt un hôtel de luxe.", "fr")
TRIP_FR = asked("Je voyage en train.", "Je préfère prendre l'avion.", "fr")


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (HOTEL, "2", "newer"),
        (HOTEL, "2.", "newer"),
        (HOTEL, "(1)", "older"),
        (HOTEL, "3", "both"),
        (HOTEL, "the second", "newer"),
        (HOTEL, "The second one, please!", "newer"),
        (HOTEL, "2nd one", "newer"),
        (HOTEL, "Option #1 please", "older"),
        (HOTEL, "the former", "older"),
        (HOTEL, "No, the second one", "newer"),
        (MEAL, "Let's go with the first option.", "older"),
        (HOTEL_DE, "zweite", "newer"),
        (HOTEL_DE, "Die zweite bitte", "newer"),
        (HOTEL_DE, "Nummer zwei", "newer"),
        (MEAL_DE, "Eins.", "older"),
        (HOTEL_ES, "la segunda", "newer"),
        (HOTEL_ES, "opción 2", "newer"),
        (HOTEL_FR, "la deuxième", "newer"),
        (TRIP_FR, "Numéro deux", "newer"),
        (TABLE, "option 2", "newer"),
    ],
)
def test_a_number_is_an_option(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about)


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (HOTEL, "Make it luxury.", "newer"),
        (HOTEL, "I prefer budget hotels", "older"),
        (HOTEL, "Luxury please", "newer"),
        (HOTEL, "luxury?", "newer"),
        (HOTEL, "no, luxury", "newer"),
        (HOME, "Hamburg", "newer"),
        (MEAL_DE, "Steak bitte", "newer"),
        (HOTEL_ES, "de lujo, por favor", "newer"),
        (HOTEL_FR, "bon marché s'il vous plaît", "older"),
    ],
)
def test_words_of_one_option_choose_it(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (HOTEL, "I'm flexible"),
        (HOTEL, "both are fine"),
        (HOTEL_DE, "Beides ist in Ordnung"),
        (HOME_ES, "me valen las dos"),
        (TRIP_FR, "les deux me conviennent"),
    ],
)
def test_flexible_keeps_both(about: ClashQuestion, said: str) -> None:
    assert "both" == read_reply(said, about)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (HOTEL, ""),
        (HOTEL, "yes"),
        (HOTEL, "ok"),
        (HOTEL, "I'm not flexible"),
        (HOTEL, "I don't know"),
        (HOTEL, "2 adults and 1 child"),
        (HOTEL, "What is the weather in Rome?"),
        (MEAL, "Can you book the table for eight?"),
        (MEAL, "Please summarise our conversation so far."),
        (HOME, "What's the capital of Hamburg?"),
        (MEAL_DE, "Buche bitte einen Tisch für acht Uhr."),
        (HOTEL_DE, "weiß ich noch nicht"),
        (HOTEL_ES, "¿Qué tiempo hace en Roma?"),
        (HOTEL_FR, "Je ne sais pas"),
        (TRIP_FR, "Quel est le prix ?"),
        (HOTEL, "neither"),
        (HOTEL, "not the first one"),
        (HOME, "Is it in Hamburg?"),
        (HOTEL, "I don't care"),
        (HOTEL, "either is fine with me"),
        (MEAL, "I'm still vegetarian"),
        (SEAT, "aisle please, I need the leg room"),
        (MEAL_DE, "doch lieber Steak"),
        (HOTEL_FR, "peu importe"),
        (HOTEL, "luxury, not budget"),
        (HOTEL, "budget on weekdays, luxury at the weekend"),
        (MEAL, "Forget the steak"),
        (MEAL_DE, "kein Steak"),
        (TRIP_FR, "pas l'avion"),
        (HOME_ES, "ya no vivo en Madrid"),
        (HOME, "Hamburg was a mistake"),
    ],
)
def test_what_does_not_answer_leaves_the_question_open(about: ClashQuestion, said: str) -> None:
    assert "open" == read_reply(said, about)


def test_a_number_that_is_also_what_an_option_says_is_ambiguous() -> None:
    assert "open" == read_reply("2", TABLE)


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (HOTEL, "2 - and can we get a sea view?", "newer"),
        (HOTEL, "1, for 2 nights", "older"),
        (HOTEL, "the first one, no, the second", "open"),
        (HOTEL, "1. book the flight 2. rent a car", "open"),
        (HOTEL, "2.500 a night", "open"),
    ],
)
def test_what_follows_the_number_does_not_change_the_choice(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about)


@pytest.mark.parametrize(
    ("said", "choice"), [("B", "newer"), ("a)", "older"), ("option b, please", "newer"), ("C", "both"), ("a view of the sea", "open")]
)
def test_a_letter_counts_as_a_number(said: str, choice: str) -> None:
    assert choice == read_reply(said, HOTEL)


@given(
    st.sampled_from([HOTEL, MEAL, HOME_ES, TRIP_FR, HOTEL_DE]), st.integers(0, 2), st.sampled_from(["{}", "{}.", "  {}\n", "**{}**", "{}!"])
)
def test_every_option_is_understood_by_its_text_and_by_its_number(about: ClashQuestion, number: int, form: str) -> None:
    choice = ("older", "newer", "both")[number]
    assert choice == read_reply(form.format(about.options[number]), about)
    assert choice == read_reply(form.format(number + 1), about)


@given(st.text(max_size=400))
def test_any_text_is_read(said: str) -> None:
    assert read_reply(said, HOTEL) in ("older", "newer", "both", "open")
