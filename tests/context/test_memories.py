"""Where memories of the user stand, and what they take."""

import pytest

from proxy.context.pieces import PREFERENCES, memories_in, with_preferences
from proxy.exchange import ContextUse
from proxy.testing import make_exchange
from tests.cost import below


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Be brief.\n<memory>\nLikes tea.\n</memory>\nBe polite.", ["Likes tea."]),
        ("<user_preferences>Likes tea.</user_preferences><memories>\n- Has a dog.\n</memories>", ["Likes tea.", "- Has a dog."]),
        ("## User profile\n- Likes tea.\n- Has a dog.\n\n## Rules\nBe brief.", ["- Likes tea.\n- Has a dog.\n"]),
        ("Erinnerungen: Mag Tee.", ["Mag Tee."]),
        ("<memory>Likes tea.", []),
        ("<memory> </memory>", []),
        ("Use the memory.", []),
    ],
)
def test_where_memories_stand(text: str, found: list[str]) -> None:
    assert found == [text[start:end] for start, end in memories_in(text)]


@pytest.mark.cost
@pytest.mark.parametrize("unit", ["<memory>", "## user memory\n- a\n", "memory: "])
def test_hostile_text_costs_no_more_than_its_length(unit: str) -> None:
    with below(1.0):
        memories_in(unit * (400_000 // len(unit)))


def test_they_are_taken_from_the_components_that_they_stand_in() -> None:
    messages = [
        {"role": "system", "content": "Be brief. <memory>Likes tea.</memory>"},
        {"role": "assistant", "content": "Known: <memory>Has a dog.</memory>"},
        {"role": "user", "content": "Hi. <memory>Is in Graz now.</memory>"},
    ]
    use = ContextUse(30, components={"system_instructions": 10, "conversation_history": 10, "current_query": 10})
    found = with_preferences(use, make_exchange(messages), messages, lambda text: len(text.split()))
    assert {"system_instructions": 8, "conversation_history": 7, "current_query": 6, PREFERENCES: 9} == found.components
    assert 30 == found.used_tokens


def test_what_the_client_names_as_a_memory_is_one_whole() -> None:
    exchange = make_exchange([{"role": "user", "content": "I am Ann."}, {"role": "user", "content": "Hi."}])
    exchange.original.message_hints[0] = {"source": "memory"}  # type: ignore[index]
    use = ContextUse(20, components={"conversation_history": 10, "current_query": 10})
    assert {"conversation_history": 7, "current_query": 10, PREFERENCES: 3} == with_preferences(
        use, exchange, exchange.messages, lambda text: len(text.split())
    ).components
