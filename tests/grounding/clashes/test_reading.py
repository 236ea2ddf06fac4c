"""What a conversation states: sentences with their places, and what is no statement of the speaker's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.kinds import Origin, Statement, TextPiece, pair_hash, statement_hash
from proxy.grounding.clashes.reading import read_statements


def read(*texts: str, origin: str = "user") -> list[Statement]:
    return read_statements([TextPiece(text, origin, i) for i, text in enumerate(texts)])  # type: ignore[arg-type]


def texts(*said: str) -> list[str]:
    return [statement.text for statement in read(*said)]


def test_each_sentence_is_a_statement_with_its_place() -> None:
    text = "Hello! I live in Berlin. I don't like fish."
    assert [text[s.start : s.end] for s in read(text)] == ["I live in Berlin.", "I don't like fish."]


@pytest.mark.parametrize(
    "question",
    ["Do I live in Berlin?", "What if I lived in Rome", "Wohne ich in Köln?", "¿Vivo en Madrid?", "Est-ce que j'habite à Paris ?"],
)
def test_a_question_states_nothing(question: str) -> None:
    assert texts(question) == []


@pytest.mark.parametrize(
    "supposed",
    [
        "If I were rich, I would stay in a luxury hotel.",
        "Suppose I lived in Rome.",
        "Wenn ich reich wäre, würde ich im Luxushotel wohnen.",
        "Si fuera rico, viviría en Madrid.",
        "Si j'étais riche, j'habiterais à Paris.",
    ],
)
def test_a_supposition_states_nothing(supposed: str) -> None:
    assert texts(supposed) == []


@pytest.mark.parametrize(
    "polite",
    ["I'd like a window seat, if possible.", "Ich möchte einen Fensterplatz, wenn möglich.", "Prefiero ventanilla, si es posible."],
)
def test_a_polite_condition_is_no_supposition(polite: str) -> None:
    assert texts(polite) == [polite]


@pytest.mark.parametrize(
    "quoted",
    [
        'He said "I love meat".',
        '"I hate dogs."',
        "> I hate dogs",
        "« Je déteste les chiens. »",
        '"I love bacon" is printed on the shirt.',
        "Er sagte: „Ich hasse Hunde.“",
    ],
)
def test_a_quotation_states_nothing_of_the_speaker(quoted: str) -> None:
    assert texts(quoted) == []


@pytest.mark.parametrize(
    "said", ["My wife hates fish.", "Meine Frau hasst Fisch.", "Mi esposa odia el pescado.", "Ma femme déteste le poisson."]
)
def test_what_others_like_is_no_statement_of_the_speaker(said: str) -> None:
    assert texts(said) == []


@pytest.mark.parametrize("said", ["My wife and I prefer the train.", "I travel with my wife and I want a cheap hotel."])
def test_somebody_who_is_only_there_does_not_own_the_preference(said: str) -> None:
    assert texts(said) == [said]


@pytest.mark.parametrize(
    "said",
    [
        "Actually, make it luxury.",
        "I changed my mind, I want the train.",
        "I've just moved to Denver.",
        "Eigentlich möchte ich ein Luxushotel.",
        "Ich esse kein Fleisch mehr.",
        "Ya no como carne.",
        "Finalement, je préfère le train.",
        "Je ne mange plus de viande.",
    ],
)
def test_a_change_of_mind_is_an_update(said: str) -> None:
    assert [s.update for s in read(said)] == [True]


@pytest.mark.parametrize(
    "said",
    ["I want a cheap hotel.", "Ich möchte ein Luxushotel.", "Prefiero el tren.", "Je veux un hôtel de luxe.", "The best hotel is mine."],
)
def test_an_ordinary_wish_is_no_update(said: str) -> None:
    assert [s.update for s in read(said)] == [False]


def test_what_once_was_is_no_statement() -> None:
    assert texts("I used to live in Rome.", "Früher habe ich geraucht.") == []


def test_code_and_greetings_state_nothing() -> None:
    assert texts("Hi there, thanks a lot!", "```\nI live in Berlin.\n```") == []


def test_what_a_user_asks_for_is_a_wish() -> None:
    assert ["No emojis in your replies.", "Only search the web when I ask for it."] == texts(
        "No emojis in your replies.", "Only search the web when I ask for it."
    )


def test_a_memory_may_speak_of_somebody_close_to_the_user() -> None:
    assert read("The user's sister lives in Berlin.", origin="memory") == []


@pytest.mark.parametrize("origin", ["user", "system", "memory"])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("User location: New York", "new york"),
        ("- User's city: Oslo.", "oslo"),
        ("Wohnort der Kundin: Hamburg", "hamburg"),
        ("Ubicación del usuario: Madrid", "madrid"),
        ("Ville de l'utilisateur : Lyon", "lyon"),
    ],
)
def test_a_line_that_labels_a_value_of_the_user_gives_it(line: str, value: str, origin: str) -> None:
    (statement,) = read(line, origin=origin)
    assert [("location", value)] == [(one.attribute, one.value) for one in statement.declares]


@pytest.mark.parametrize("line", ["User: hello", "User question: where is Rome?", "Location: Rome", "The city of Rome: a guide"])
def test_any_other_label_gives_nothing_of_the_user(line: str) -> None:
    assert [] == [one for statement in read(line) for one in statement.declares]


def test_of_a_tool_s_result_the_user_is_somebody_else() -> None:
    assert [] == [one for statement in read("User location: Rome", origin="tool_result") for one in statement.declares]


@pytest.mark.parametrize(("text", "earnest"), [("I live in Rome.", True), ("Translate this: I live in Rome.", False)])
def test_what_stands_around_a_plain_sentence_tells_whether_it_is_meant(text: str, earnest: bool) -> None:
    assert [earnest] == [not one.doubt for one in read(f"{text} I am vegan.") if one.topic == "diet"]


@pytest.mark.parametrize("origin", ["tool_result", "passage", "user"])
def test_data_states_nothing(origin: Origin) -> None:
    assert [] == read('{"orders": [{"order_id": "A1", "status": "shipped"}]}', origin=origin)


@given(
    st.lists(
        st.sampled_from(
            ["I live in Rome. ", "Why? ", "I hate fish; ", "\n- I want a cheap hotel.", "«Bonjour.» ", "`x` ", "  ", "My wife is 40. "]
        ),
        max_size=8,
    )
)
def test_every_statement_stands_where_it_says(parts: list[str]) -> None:
    text = "".join(parts)
    assert [text[s.start : s.end] for s in read(text)] == [s.text for s in read(text)]


@given(st.text(max_size=200))
def test_no_text_fails(text: str) -> None:
    assert all(0 <= s.start < s.end <= len(text) for s in read(text))


@given(st.text(max_size=30), st.text(max_size=30))
def test_a_pairs_hash_does_not_depend_on_its_order(one: str, other: str) -> None:
    assert pair_hash(one, other) == pair_hash(other, one)


def test_a_hash_ignores_case_space_and_the_last_mark() -> None:
    assert statement_hash("I live  in Berlin.") == statement_hash("i live in berlin")


def test_what_another_says_has_another_hash() -> None:
    assert statement_hash("I live in Berlin.", "user") != statement_hash("I live in Berlin.", "system")
