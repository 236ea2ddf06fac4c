"""Which messages correct the agent, and what they ask for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.reflection.signals.correction_words import NUMBERS, WORDS
from proxy.stages.reflection.signals.corrections import Correction, _beginnings, read_correction
from tests.cost import below

TOOLS = ("search_docs", "search_web", "getWeather", "calculator", "search")
SAID = "Here are 250 results."


def read(text: str, said: str = SAID) -> Correction | None:
    return read_correction(text, tools=TOOLS, said=said)


def kind(text: str, said: str = SAID) -> str:
    found = read(text, said)
    return found.kind if found else ""


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("No, that's wrong, I said Tuesday.", "en"),
        ("NO THATS WRONG", "en"),
        ("Nein, das ist falsch, ich habe Dienstag gesagt.", "de"),
        ("no, eso está mal", "es"),
        ("Non, c'est faux", "fr"),
        ("ca marche toujours pas", ""),
    ],
)
def test_a_rejection_is_read_in_the_language_of_its_cue(text: str, language: str) -> None:
    found = read(text)
    assert found is not None
    assert ("rejected", language) == (found.kind, found.language)


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
        "My boss says, that's wrong.",
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
        "User: no, that's wrong",
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
    assert kind("No, I wanted the window seat", "Is an aisle seat fine?") == ""


@pytest.mark.parametrize(
    "text", ["No, I rarely read, the last book was fine", "No children yet, the house is too small", "no worries, the room is nice"]
)
def test_a_denial_alone_is_no_rejection(text: str) -> None:
    assert kind(text) == ""


def test_an_outright_rejection_counts_after_a_question_too() -> None:
    assert kind("No, that's wrong, I fly to Dallas", "You fly to Denver, correct?") == "rejected"


def test_the_first_message_corrects_nothing() -> None:
    assert read_correction("That's wrong.", after_assistant=False) is None


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
        ("not search_docs, search_web!", "search_docs", "search_web"),
        ("please use search docs", "", "search_docs"),
        ('don\'t use "search_docs" again', "search_docs", ""),
        ("don't call `search_docs` again", "search_docs", ""),
        ("use the get weather function", "", "getWeather"),
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
    assert ("override", cap, "results") == (found.kind, found.cap, found.cap_of)


@pytest.mark.parametrize(
    "text", ["don't search more than three times", "höchstens drei Suchen", "máximo tres búsquedas", "trois recherches maximum"]
)
def test_a_number_of_calls_is_not_one_of_results(text: str) -> None:
    found = read(text)
    assert found is not None
    assert (3, "calls") == (found.cap, found.cap_of)


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
    assert kind("at most 10", "How many guests?") == ""


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
            read_correction(start + hostile, tools=[f"tool_{i}" for i in range(1000)])


def test_every_number_word_is_spelt_without_accents() -> None:
    assert all(word.replace("ß", "").isascii() for word in NUMBERS)


@given(st.text(max_size=600), st.lists(st.text(max_size=12), max_size=4), st.text(max_size=20))
def test_any_message_can_be_read(text: str, tools: list[str], said: str) -> None:
    found = read_correction(text, tools=tools, said=said)
    if found is not None:
        start, end = found.span
        assert 0 <= start < end <= len(text)
        assert {found.forbidden_tool, found.wanted_tool} <= {"", *tools}


@given(
    st.sampled_from(["That's wrong.", "Don't use search_docs again.", "Das ist falsch!", "Eso está mal.", "C'est faux."]),
    st.text(max_size=50),
)
def test_case_and_white_space_around_make_no_difference(text: str, said: str) -> None:
    plain, loud = read(text, said), read(f"  {text.upper()} ", said)
    assert plain is not None
    assert loud is not None
    assert (plain.kind, plain.language, plain.forbidden_tool) == (loud.kind, loud.language, loud.forbidden_tool)


def test_patterns_have_no_quantifier_that_formatting_broke() -> None:
    patterns = [getattr(words, name).pattern for words in WORDS.values() for name in words.__struct_fields__]
    assert [] == [
        broken for pattern in patterns for broken in ("{{", "}}", "(1, 2)", "(0, 2)", "<no>", "<yes>", "<cap>", "{_") if broken in pattern
    ]


def test_four_languages_have_words() -> None:
    assert list(WORDS) == ["en", "de", "es", "fr"]


@pytest.mark.parametrize("name", ["override", "cap", "rejected", "denial", "opener"])
@given(data=st.data())
def test_every_cue_is_a_beginning_of_its_language(name: str, data: st.DataObject) -> None:
    language = data.draw(st.sampled_from(sorted(WORDS)))
    pattern = getattr(WORDS[language], name)
    text = data.draw(st.from_regex(pattern.pattern))
    assert pattern.match(text) is None or dict(_beginnings())[language].match(text) is not None
