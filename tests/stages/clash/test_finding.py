"""The clashes of a conversation, by rules: found, and certain or not."""

from __future__ import annotations

from proxy.exchange.judgements import Support
from proxy.grounding.clashes.kinds import StatementClash
from proxy.stages.clash import ClashOptions
from proxy.stages.clash.context import Context
from proxy.stages.clash.finding import Finder
from proxy.stages.clash.ledger import Ledger
from proxy.testing import ScriptedVerifiers, make_exchange, make_ports
from tests.stages.clash.talk import user

PORTS = make_ports()


async def found(*turns: str) -> list[StatementClash]:
    """Between the turns of one user."""
    exchange, finder = make_exchange([user(turn) for turn in turns]), Finder(ClashOptions(), PORTS.embedder, PORTS.verifiers.get())
    spoken = (await Context(("user",)).stated(exchange)).spoken
    return (await finder.find(exchange, Ledger(spoken, ()), spoken)).clashes


async def certain(*turns: str) -> list[bool]:
    return [clash.certain for clash in await found(*turns)]


async def test_what_only_the_models_find_is_not_certain() -> None:
    exchange = make_exchange([user("I love sushi."), user("I don't like sushi.")])
    finder = Finder(ClashOptions(semantic=True), PORTS.embedder, ScriptedVerifiers(lambda pair: Support(0.01, 0.99)))
    spoken = (await Context(("user",)).stated(exchange)).spoken
    clashes = (await finder.find(exchange, Ledger(spoken, ()), spoken)).clashes
    assert [("sushi", False)] == [(one.topic, one.certain) for one in clashes]


async def test_of_what_is_said_twice_the_last_time_counts() -> None:
    said = await found("I live in Rome.", "I live in Oslo.", "I live in Rome.")
    assert [("I live in Oslo.", "I live in Rome.", 2)] == [(one.older.text, one.newer.text, one.newer.message) for one in said]


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


async def test_a_question_for_the_nearest_place_says_nothing_against_a_change() -> None:
    assert [True] == await certain("I live in Berlin.", "I moved to Munich. Where is the next bakery?")


async def test_a_doubtful_clash_says_which_condition_is_not_met() -> None:
    doubts = [
        await found("I live in Berlin.", "I live in Munich. I commute."),
        await found("I live in Berlin. I live in Munich."),
        await found("Tell me a story about a spy.", "I live in Rome.", "I live in Oslo."),
        await found("A hotel in Rome. My budget is 500 €.", "A laptop. My budget is 900 €."),
    ]
    assert [
        ["the newer one: its message speaks of several of a kind, or of one for a time"],
        ["both stand in one message, and the newer one is not said as a change"],
        ["the newer one: the conversation may be a story, a game or an exercise"],
        ["something else has come up since the older one, which may have been about another task"],
    ] == [[clash.doubt for clash in some] for some in doubts]
