"""What the user's next message means for the question that the proxy asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.kinds import StatedPiece, Statement
from proxy.grounding.clashes.statements.reading import read_statements
from proxy.stages.clash.asking.questions import ClashQuestion, question
from proxy.stages.clash.asking.replies import MAX_ANSWER_WORDS, read_reply
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
        (HOTEL, "not the first one", "newer"),
        (HOTEL, "anything but the second", "older"),
        (HOTEL, "No, the second one", "newer"),
        (MEAL, "Let's go with the first option.", "older"),
        (HOME, "the most recent", "newer"),
        (HOTEL_DE, "zweite", "newer"),
        (HOTEL_DE, "Die zweite bitte", "newer"),
        (HOTEL_DE, "Nummer zwei", "newer"),
        (HOTEL_DE, "nicht das erste", "newer"),
        (MEAL_DE, "Eins.", "older"),
        (HOTEL_ES, "la segunda", "newer"),
        (HOTEL_ES, "no la primera", "newer"),
        (HOTEL_ES, "opción 2", "newer"),
        (HOTEL_FR, "la deuxième", "newer"),
        (HOTEL_FR, "pas la première", "newer"),
        (TRIP_FR, "Numéro deux", "newer"),
        (TABLE, "option 2", "newer"),
    ],
)
def test_a_number_is_an_option(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about).choice


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (HOTEL, "Make it luxury.", "newer"),
        (HOTEL, "I prefer budget hotels", "older"),
        (HOTEL, "Luxury please", "newer"),
        (HOTEL, "luxury?", "newer"),
        (HOTEL, "no, luxury", "newer"),
        (HOTEL, "not luxury", "older"),
        (HOTEL, "luxury, not budget", "newer"),
        (HOTEL, "budget instead of luxury", "older"),
        (MEAL, "I'm still vegetarian", "older"),
        (MEAL, "Forget the steak", "older"),
        (MEAL, "no steak", "older"),
        (HOME, "I live in Hamburg now", "newer"),
        (NAME, "Robert is fine", "older"),
        (SEAT, "aisle please, I need the leg room", "newer"),
        (HOTEL_DE, "Luxus statt günstig", "newer"),
        (MEAL_DE, "doch lieber Steak", "newer"),
        (MEAL_DE, "kein Steak", "older"),
        (HOTEL_ES, "de lujo, por favor", "newer"),
        (HOME_ES, "ya no vivo en Madrid", "newer"),
        (NUTS_ES, "no tengo alergia", "newer"),
        (HOTEL_FR, "bon marché s'il vous plaît", "older"),
        (TRIP_FR, "pas l'avion", "older"),
    ],
)
def test_words_of_one_option_choose_it(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about).choice


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (HOTEL, "I'm flexible"),
        (HOTEL, "either is fine with me"),
        (HOTEL, "I don't care"),
        (HOTEL, "no preference"),
        (MEAL, "I'm fine with both"),
        (HOTEL_DE, "Ist mir egal"),
        (HOTEL_DE, "beides passt"),
        (MEAL_DE, "Such du aus"),
        (HOTEL_ES, "me da igual"),
        (HOME_ES, "cualquiera"),
        (HOTEL_FR, "peu importe"),
        (HOTEL_FR, "ça m'est égal"),
        (TRIP_FR, "les deux"),
    ],
)
def test_flexible_keeps_both(about: ClashQuestion, said: str) -> None:
    assert "both" == read_reply(said, about).choice


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (HOTEL, "neither"),
        (MEAL, "none of those"),
        (MEAL_DE, "weder noch"),
        (HOTEL_ES, "ninguno de los dos"),
        (HOTEL_ES, "Ninguna."),
        (TRIP_FR, "aucun des deux"),
    ],
)
def test_neither_keeps_none(about: ClashQuestion, said: str) -> None:
    assert "neither" == read_reply(said, about).choice


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
    ],
)
def test_what_does_not_answer_leaves_the_question_open(about: ClashQuestion, said: str) -> None:
    assert "open" == read_reply(said, about).choice


def test_a_number_that_is_also_what_an_option_says_is_ambiguous() -> None:
    assert "open" == read_reply("2", TABLE).choice


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (HOTEL, "budget on weekdays, luxury at the weekend"),
        (MEAL_DE, "mittags vegetarisch, abends Steak"),
    ],
)
def test_free_text_about_both_holds_in_their_place(about: ClashQuestion, said: str) -> None:
    reply = read_reply(said, about)
    assert ("other", said) == (reply.choice, reply.text)


def sides(older: str, newer: str) -> tuple[Statement, Statement]:
    """The two statements as the conversation's reader makes them."""
    (one,), (other,) = read_statements([StatedPiece(older, message=0)]), read_statements([StatedPiece(newer, message=2)])
    return one, other


def said_of(older: str, newer: str, said: str) -> str:
    about = sides(older, newer)
    return read_reply(said, question(*about), about).choice


BUDGET = ("My budget is 500 €.", "My budget is 900 €.")
CITY = ("I live in Berlin.", "I live in Munich.")


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (BUDGET, "the lower one", "older"),
        (BUDGET, "the higher budget, please", "newer"),
        (BUDGET, "lieber das günstigere", "older"),
        (BUDGET, "el más caro", "newer"),
        (BUDGET, "le moins cher", "older"),
        (BUDGET, "500 euros max", "older"),
        (("Prefiero hoteles baratos.", "Prefiero hoteles de lujo."), "nada de lujo", "older"),
        (("J'habite à Paris.", "J'habite à Lyon."), "je n'habite plus à Paris", "newer"),
        (("I prefer budget hotels.", "I prefer luxury hotels."), "cheap", "older"),
        (("I arrive on 5 May.", "I arrive on 7 May."), "the 7th", "newer"),
        (("Vivo en Múnich.", "Vivo en Sevilla."), "en Munich", "older"),
    ],
)
def test_a_value_that_one_side_gives_chooses_it(about: tuple[str, str], said: str, choice: str) -> None:
    assert choice == said_of(*about, said)


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (BUDGET, "let's say 1200 euros"),
        (BUDGET, "sagen wir 700"),
        (BUDGET, "seven hundred"),
        (BUDGET, "maximal 1000"),
        (CITY, "Hamburg actually"),
        (("Vivo en Madrid.", "Vivo en Sevilla."), "ahora en Valencia"),
        (("J'habite à Paris.", "J'habite à Lyon."), "Marseille maintenant"),
        (("I arrive on 5 May.", "I arrive on 7 May."), "May 9"),
    ],
)
def test_another_value_of_the_same_holds_in_their_place(about: tuple[str, str], said: str) -> None:
    found = sides(*about)
    reply = read_reply(said, question(*found), found)
    assert ("other", said) == (reply.choice, reply.text)


@pytest.mark.parametrize(
    ("about", "said"),
    [(BUDGET, "let's go on"), (BUDGET, "not the lower one"), (BUDGET, "one moment"), (CITY, "Berlin was before"), (CITY, "as I said")],
)
def test_without_a_value_of_its_own_it_stays_open(about: tuple[str, str], said: str) -> None:
    assert "open" == said_of(*about, said)


@pytest.mark.parametrize(
    ("about", "said", "choice"),
    [
        (MEAL, "the first one, but steak for my wife", "older"),
        (HOTEL, "2 - and can we get a sea view?", "newer"),
        (HOTEL, "The first one. Also, is breakfast included?", "older"),
        (HOTEL, "1, for 2 nights", "older"),
        (HOTEL_DE, "die erste, aber nur am Wochenende", "older"),
        (HOTEL_ES, "la primera, pero solo entre semana", "older"),
        (HOTEL_FR, "la deuxième, mais pas trop loin", "newer"),
        (HOTEL, "the first one, no, the second", "open"),
        (HOTEL, "1. book the flight 2. rent a car", "open"),
        (HOTEL, "2.500 a night", "open"),
    ],
)
def test_what_follows_the_number_does_not_change_the_choice(about: ClashQuestion, said: str, choice: str) -> None:
    assert choice == read_reply(said, about).choice


@pytest.mark.parametrize(
    ("said", "choice"), [("B", "newer"), ("a)", "older"), ("option b, please", "newer"), ("C", "both"), ("a view of the sea", "open")]
)
def test_a_letter_counts_as_a_number(said: str, choice: str) -> None:
    assert choice == read_reply(said, HOTEL).choice


@given(
    st.sampled_from([HOTEL, MEAL, HOME_ES, TRIP_FR, HOTEL_DE]), st.integers(0, 2), st.sampled_from(["{}", "{}.", "  {}\n", "**{}**", "{}!"])
)
def test_every_option_is_understood_by_its_text_and_by_its_number(about: ClashQuestion, number: int, form: str) -> None:
    choice = ("older", "newer", "both")[number]
    assert choice == read_reply(form.format(about.options[number]), about).choice
    assert choice == read_reply(form.format(number + 1), about).choice


@given(st.text(max_size=400))
def test_any_text_is_read(said: str) -> None:
    assert read_reply(said, HOTEL).choice in ("older", "newer", "both", "neither", "other", "open")


@given(st.lists(st.sampled_from(["luxury", "table", "rome", "green"]), min_size=MAX_ANSWER_WORDS + 1, max_size=60))
def test_a_long_message_is_no_reply(words: list[str]) -> None:
    assert "open" == read_reply(" ".join(words), HOTEL).choice


TOWNS = question(statement("I live in New York.", kind="fact"), statement("I live in London.", kind="fact", message=2))


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        ("It has changed.", "newer"),
        ("I moved", "newer"),
        ("das hat sich geändert", "newer"),
        ("ha cambiado", "newer"),
        ("ça a changé", "newer"),
        ("The second one is an error", "older"),
        ("London was a mistake", "older"),
        ("Die erste Angabe ist falsch", "newer"),
        ("New York is wrong", "newer"),
        ("La première est une erreur", "newer"),
        ("It's an error.", "open"),
        ("Both are right", "both"),
        ("2", "newer"),
        ("New York", "older"),
    ],
)
def test_of_two_facts_one_may_have_changed_or_be_wrong(said: str, choice: str) -> None:
    assert choice == read_reply(said, TOWNS).choice
