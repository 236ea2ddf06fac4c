"""Which messages correct the agent, and what they ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.patterns import LazyPattern
from proxy.stages.reflection import corrections
from proxy.stages.reflection.corrections import Correction, is_short, read_correction
from tests.cost import below

TOOLS = ("search_docs", "search_web", "getWeather", "calculator", "search")


def read(text: str) -> Correction | None:
    return read_correction(text, TOOLS)


def kind(text: str) -> str:
    found = read(text)
    return found.kind if found else ""


@pytest.mark.parametrize(
    "text",
    [
        "No, that's wrong, I said Tuesday.",
        "NO THATS WRONG",
        "Nein, das ist falsch, ich habe Dienstag gesagt.",
        "no, eso está mal",
        "Non, c'est faux",
    ],
)
def test_an_outright_rejection_is_read_in_four_languages(text: str) -> None:
    assert "rejected" == kind(text)


@pytest.mark.parametrize(("text", "short"), [("ca marche toujours pas", True), ("14", False), ("The report says this. " * 20, False)])
def test_a_message_that_may_correct_in_other_words_is_short(text: str, short: bool) -> None:
    assert ("", short) == (kind(text), is_short(text))


@pytest.mark.parametrize(
    "text",
    [
        "No, thank you.",
        "No problem",
        "nein danke",
        "no, gracias",
        "Non merci",
        "not bad!",
        "nicht schlecht",
        "Nada mal",
        "pas mal",
        "Is it wrong to ask?",
        "What's wrong with my code?",
        "He said that's wrong.",
        "I was wrong, it is the 14th.",
        "I said yes",
        "No. 5 Main Street",
        "actually, one more thing",
        "Actually make it Tuesday",
        "no, both of us",
        "If that's wrong, tell me.",
        "It's wrong to lie.",
        "Translate: that's wrong, I said Tuesday",
        "Fix the sentence: that's wrong because he forgot.",
        "Classify the sentiment: 'this is wrong and I want my money back'",
        "Übersetze: Das ist falsch, ich habe das nie gesagt.",
        "Traduis : c'est faux, je n'ai pas dit ça.",
        "Corrige este texto: eso está mal, no lo pedí.",
        "> that's wrong",
        "`that is wrong`",
        "you are not wrong",
        "Das ist nicht falsch",
        "no está mal",
        "ce n'est pas faux",
    ],
)
def test_what_only_looks_like_a_rejection_is_none(text: str) -> None:
    assert kind(text) == ""


def test_a_rejection_before_a_request_in_the_same_sentence_counts() -> None:
    assert kind("That's wrong, can you check again?") == "rejected"


def test_an_answer_to_the_assistants_question_is_no_rejection() -> None:
    assert kind("No, I wanted the window seat") == ""


@pytest.mark.parametrize(
    "text", ["No, I rarely read, the last book was fine", "No children yet, the house is too small", "no worries, the room is nice"]
)
def test_a_denial_alone_is_no_rejection(text: str) -> None:
    assert kind(text) == ""


def test_an_outright_rejection_counts_after_a_question_too() -> None:
    assert kind("No, that's wrong, I fly to Dallas") == "rejected"


def test_a_quoted_rejection_is_none() -> None:
    assert kind('The mail says "that is wrong". What now?') == ""
    assert kind("Er schrieb: „Das ist falsch“. Was nun?") == ""


def test_only_the_beginning_is_looked_at() -> None:
    assert kind("Hello there. " * 40 + "That's wrong.") == ""


def test_of_a_long_document_only_a_short_first_line_counts() -> None:
    assert kind("That's wrong:\n" + "The report. " * 400) == "rejected"
    assert kind("That's wrong, wrote the author, and the report. " * 100) == ""


@pytest.mark.parametrize(
    ("text", "forbidden", "wanted"),
    [
        ("Don't use search_docs any more", "search_docs", ""),
        ("stop calling search_docs, use search_web instead", "search_docs", "search_web"),
        ("use search_web instead of search_docs", "search_docs", "search_web"),
        ("please use search docs", "", "search_docs"),
        ('don\'t use "search_docs" again', "search_docs", ""),
        ("don't call `search_docs` again", "search_docs", ""),
        ("benutze search_docs nicht mehr", "search_docs", ""),
        ("nimm statt search_docs bitte search_web", "search_docs", "search_web"),
        ("deja de usar search_docs", "search_docs", ""),
        ("usa search_web en lugar de search_docs", "search_docs", "search_web"),
        ("n'utilise plus search_docs", "search_docs", ""),
        ("arrête d'appeler search_docs", "search_docs", ""),
        ("could you use search_web instead?", "", "search_web"),
    ],
)
def test_tools_are_forbidden_and_wanted(text: str, forbidden: str, wanted: str) -> None:
    found = read(text)
    assert found is not None
    assert ("override", forbidden, wanted) == (found.kind, found.forbidden_tool, found.wanted_tool)


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        ("at most 10 results", 10),
        ("Use at most 10 results.", 10),
        ("Please use no more than 10 results", 10),
        ("Nutze höchstens 10 Ergebnisse.", 10),
        ("Usa como máximo 10 resultados.", 10),
        ("Utilise au maximum 10 résultats.", 10),
        ("no more than ten results", 10),
        ("Limit it to 20 rows", 20),
        ("max. 5 results", 5),
        ("only 3 results please", 3),
        ("hoechstens 10 Treffer", 10),
        ("maximal fünf Treffer", 5),
        ("no más de veinte filas", 20),
        ("au maximum 10 résultats", 10),
        ("pas plus de vingt lignes", 20),
        ("can you limit it to 5 results?", 5),
    ],
)
def test_a_highest_number_is_read(text: str, cap: int) -> None:
    found = read(text)
    assert found is not None
    assert ("override", cap) == (found.kind, found.cap)


@pytest.mark.parametrize(
    "text", ["don't search more than three times", "höchstens drei Suchen", "máximo tres búsquedas", "trois recherches maximum"]
)
def test_a_number_of_calls_is_not_one_of_results(text: str) -> None:
    assert kind(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "find a hotel with at most 3 stars",
        "I can spend no more than $200",
        "maximum 2 bags please",
        "Write a function that returns at most 10 items",
        "don't use my credit card any more",
        "use the other card",
        "stop by the hotel first",
        "What does search_docs do?",
        "I use search_docs a lot",
        "Stop me if I'm wrong",
        "never mind",
        "I don't want to call the airline any more",
        "Ich kann maximal 200 Euro ausgeben",
    ],
)
def test_a_wish_about_the_subject_matter_is_no_override(text: str) -> None:
    assert kind(text) == ""


def test_a_bare_number_is_an_answer() -> None:
    assert kind("at most 10") == ""


def test_an_ordinary_word_that_is_a_tools_name_is_left_alone() -> None:
    found = read("don't use search_docs, my search was another")
    assert found is not None
    assert ("search_docs", "") == (found.forbidden_tool, found.wanted_tool)


def test_a_message_that_does_both_is_an_override() -> None:
    assert kind("No, that's wrong. Don't use search_docs.") == "override"


def test_the_span_is_that_of_the_cue() -> None:
    text = "Hm, das ist FALSCH, sagte ich doch."
    found = read(text)
    assert found is not None
    assert text[slice(*found.span)] == "das ist FALSCH"


@pytest.mark.cost
def test_a_large_message_is_read_at_once() -> None:
    hostile = ("no, " * 100 + '"' * 1000 + "you keep " * 1000 + "`" * 1000 + "max " * 1000) * 80
    with below(1):
        for start in ("", "no, ", "stop ", '"', "you keep "):
            read_correction(start + hostile, [f"tool_{i}" for i in range(1000)])


@given(st.text(max_size=600), st.lists(st.text(max_size=12), max_size=4))
def test_any_message_can_be_read(text: str, tools: list[str]) -> None:
    found = read_correction(text, tools)
    if found is not None:
        start, end = found.span
        assert 0 <= start < end <= len(text)
        assert {found.forbidden_tool, found.wanted_tool} <= {"", *tools}


@pytest.mark.parametrize("text", ["That's wrong.", "Don't use search_docs again.", "Das ist falsch!", "Eso está mal.", "C'est faux."])
def test_case_and_white_space_around_make_no_difference(text: str) -> None:
    plain, loud = read(text), read(f"  {text.upper()} ")
    assert plain is not None
    assert loud is not None
    assert (plain.kind, plain.forbidden_tool) == (loud.kind, loud.forbidden_tool)


def test_patterns_have_no_quantifier_that_formatting_broke() -> None:
    patterns = [value.pattern for value in vars(corrections).values() if isinstance(value, LazyPattern)]
    assert 6 == len(patterns)
    assert [] == [
        broken for pattern in patterns for broken in ("{{", "}}", "(1, 2)", "(0, 2)", "<no>", "<yes>", "<cap>", "{_") if broken in pattern
    ]
