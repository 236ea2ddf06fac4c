"""When a clash of two plain sentences is certain, and what around them leaves room for doubt."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.detecting.certainty import is_staged, speaks_in_earnest
from proxy.grounding.clashes.detecting.judging import detect_clash


async def certain(*turns: str) -> list[bool]:
    return [clash.certain for clash in await detect_clash([{"role": "user", "content": turn} for turn in turns])]


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


async def test_two_plain_statements_are_certain() -> None:
    assert [True] == await certain("I live in Rome.", "I live in Oslo.")


async def test_two_statements_of_one_message_are_certain_as_a_change_only() -> None:
    assert ([False], [True]) == (
        await certain("I live in Rome. I live in Oslo."),
        await certain("I live in Rome. No wait, I live in Oslo."),
    )


async def test_what_holds_for_a_task_is_certain_while_nothing_else_came_up() -> None:
    assert [True] == await certain("A hotel in Rome. My budget is 500 €.", "My budget is 900 €. What is there?")
    assert [False] == await certain("A hotel in Rome. My budget is 500 €.", "A laptop. My budget is 900 €.")
    assert [True] == await certain("A hotel in Rome. My budget is 500 €.", "Which museums? Actually, my budget is 900 €.")


async def test_it_is_what_one_value_only_was_said_of() -> None:
    assert [True] == await certain("Book a table for 7 pm.", "Actually, make it 8 pm.")
    assert True not in await certain("Book a table for 7 pm. The film starts at 9 pm.", "Actually, make it 8 pm.")


async def test_in_a_game_nothing_is_certain() -> None:
    assert [False] == await certain("Tell me a story about a spy.", "I live in Rome.", "I live in Oslo.")


async def test_two_languages_are_two_texts() -> None:
    assert True not in await certain("I live in the city of Rome. I live in Rome.", "Ich wohne jetzt in Hamburg.")
