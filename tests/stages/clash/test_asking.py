"""The question that the proxy asks of two statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.number_words import MAIN_LANGUAGES
from proxy.stages.clash.resolution import MAX_OPTION_CHARS, asked, question, without_lead_in
from tests.stages.clash.making import statement

OLDER, NEWER = statement("I prefer budget hotels."), statement("Actually, make it luxury.", message=2)


def test_the_options_are_both_sides_and_flexible() -> None:
    made = question(OLDER, NEWER)
    assert ("I prefer budget hotels.", "Make it luxury.", "I am flexible: both are fine.") == made.options


def test_the_options_are_numbered_in_the_text() -> None:
    assert "1. I prefer budget hotels.\n2. Make it luxury.\n3. I am flexible: both are fine." in question(OLDER, NEWER).text


@pytest.mark.parametrize(
    ("language", "word"), [("en", "flexible"), ("de", "flexibel"), ("es", "flexible"), ("fr", "flexible"), ("ja", "flexible")]
)
def test_each_language_offers_to_be_flexible(language: str, word: str) -> None:
    assert word in question(OLDER, NEWER, language).options[2]


def test_the_wording_is_the_languages_own() -> None:
    assert len(MAIN_LANGUAGES) == len({question(OLDER, NEWER, language).text for language in MAIN_LANGUAGES})


def test_a_language_without_a_wording_is_asked_in_english() -> None:
    assert question(OLDER, NEWER, "en").text == question(OLDER, NEWER, "ja").text


def test_a_statement_of_a_source_names_it() -> None:
    one = statement("The museum opens at 9.", kind="fact", origin="passage", source="guide.md")
    other = statement("The museum opens at 10.", kind="fact", origin="passage", source="news.md", message=None)
    assert (
        "The museum opens at 9. (guide.md) (the other one is an error)",
        "The museum opens at 10. (news.md) (it has changed)",
    ) == question(one, other).options[:2]


@pytest.mark.parametrize(
    ("language", "options"),
    [
        ("en", ("I live in York. (the other one is an error)", "I live in Leeds. (it has changed)", "Both are right.")),
        ("de", ("I live in York. (das andere ist ein Fehler)", "I live in Leeds. (das hat sich geändert)", "Beides stimmt.")),
        ("es", ("I live in York. (lo otro es un error)", "I live in Leeds. (ha cambiado)", "Las dos cosas son ciertas.")),
        ("fr", ("I live in York. (l'autre est une erreur)", "I live in Leeds. (cela a changé)", "Les deux sont vraies.")),
    ],
)
def test_of_two_facts_one_has_changed_or_one_is_an_error(language: str, options: tuple[str, ...]) -> None:
    one, other = statement("I live in York.", kind="fact"), statement("I live in Leeds.", kind="fact", message=2)
    assert options == question(one, other, language).options


def test_a_long_statement_is_cut_at_a_word() -> None:
    option = question(statement("I like " + "very " * 100 + "cheap hotels"), NEWER).options[0]
    assert len(option) <= MAX_OPTION_CHARS + 2
    assert option.endswith("very …")


@pytest.mark.parametrize(
    ("said", "bare"),
    [
        ("Actually, make it luxury.", "Make it luxury."),
        ("Oh wait, no, I'd like a suite.", "I'd like a suite."),
        ("Eigentlich: lieber ein Luxushotel.", "Lieber ein Luxushotel."),
        ("En realidad, prefiero el tren.", "Prefiero el tren."),
        ("Finalement, je préfère l'avion.", "Je préfère l'avion."),
        ("No meat please.", "No meat please."),
        ("Now that is cheap.", "Now that is cheap."),
    ],
)
def test_an_option_says_nothing_of_a_change_of_mind(said: str, bare: str) -> None:
    assert bare == without_lead_in(said)


@given(
    st.text(min_size=1, max_size=200),
    st.text(min_size=1, max_size=200),
    st.sampled_from(MAIN_LANGUAGES),
    st.sampled_from(["{}", "> {}", "{}\n\n--\nsent by a bot"]),
)
def test_a_question_is_found_again_whatever_the_client_adds(older: str, newer: str, language: str, form: str) -> None:
    made = question(statement(older), statement(newer, message=2), language)
    assert asked(form.format(made.text).replace("\n", "\r\n"), made)


def test_another_question_is_not_this_one() -> None:
    assert not asked(question(OLDER, statement("I want a hostel.", message=2)).text, question(OLDER, NEWER))
