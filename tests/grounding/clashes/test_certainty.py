"""What around a plain sentence leaves room for doubt."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.reading import is_staged, speaks_in_earnest


@pytest.mark.parametrize(
    "text",
    [
        "Translate: I live in Rome.",
        "Is this sentence correct? I live in Rome.",
        '"I live in Rome" is a song.',
        "- I live in Rome.\n- I live in Oslo.",
        "Answer this mail:\n\nI live in Rome.",
        "Suppose I am at home. I live in Rome.",
        "Scenario 1. I live in Rome.",
        "Ann wrote me. I live in Rome.",
        "I live in Rome. I also have a flat in Oslo.",
        "Übersetze das. Ich wohne in Rom.",
        "Corrige la frase. Vivo en Roma.",
        "Écris une lettre. J'habite à Rome.",
        "Next. I live in Rome. Where is the next bakery?",
        "I live in Rome. Who is next?",
        "I live in Rome. Where does the next patient live?",
        "I live in Rome. Where is the next bus to another town stop?",
        "```\nI live in Rome.\n```",
        '{"city": "I live in Rome."}',
    ],
)
def test_a_message_that_may_not_be_of_its_author(text: str) -> None:
    assert not speaks_in_earnest(text)


@pytest.mark.parametrize(
    "text",
    [
        "I live in Rome.",
        "Hi! My email is ann@example.com.",
        "Ich wohne in Köln. Welcher Zoo ist nah?",
        "Vivo en Roma.",
        "I moved to Munich. Where is the next bakery?",
        "Ich wohne jetzt in München. Wo ist die nächste Bäckerei?",
        "Je suis végétarien. Une idée ?",
    ],
)
def test_a_message_in_its_authors_own_words(text: str) -> None:
    assert speaks_in_earnest(text)


def test_a_long_message_is_a_text_that_is_handed_over() -> None:
    assert not speaks_in_earnest("I live in Rome. " + "It is nice here. " * 60)


@pytest.mark.parametrize(
    "text", ["Let's play: you are a pirate.", "Übersetze alles.", "Cuéntame un cuento.", "Du bist mein Chef.", "Imagine une histoire."]
)
def test_what_makes_a_game_of_the_rest(text: str) -> None:
    assert is_staged(text)


def test_a_system_message_gives_the_model_its_part() -> None:
    assert not is_staged("You are a helpful assistant.", of_user=False)
