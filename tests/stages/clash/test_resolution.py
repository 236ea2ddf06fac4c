"""What becomes of a clash, by strategy."""

from __future__ import annotations

import pytest

from proxy.stages.clash.resolution import resolve_clash
from tests.stages.clash.making import clash, statement

HOUR = 3600.0
NOW = 1_700_000_000.0
OLDER, NEWER = statement("I prefer budget hotels."), statement("I prefer luxury hotels.", message=4)
CHANGE = clash(OLDER, NEWER)


def aged(older_s: float, newer_s: float, **more: object) -> object:
    one = statement("The fare is 90 €.", kind="fact", origin="tool_result", timestamp=NOW - older_s)
    other = statement("The fare is 120 €.", kind="fact", origin="tool_result", message=2, timestamp=NOW - newer_s)
    return clash(one, other, type="OUTDATED_INFORMATION", topic="fare", **more)


def test_the_newer_statement_stays_and_the_older_one_leaves() -> None:
    done = resolve_clash(CHANGE, "prefer_recent", now=NOW)
    assert ("prefer_recent", (NEWER,), (OLDER,), True) == (done.strategy, done.kept, done.dropped, done.resolved)


@pytest.mark.parametrize(
    ("older_s", "newer_s", "reason"),
    [
        (48 * HOUR, HOUR, "new statement is more recent (1 h against 48 h)"),
        (120 * HOUR, 90.0, "new statement is more recent (1.5 min against 5 d)"),
        (30.0, 0.0, "new statement is more recent (0 s against 30 s)"),
        (73 * HOUR, 72 * HOUR, "new statement is more recent (72 h against 3 d)"),
    ],
)
def test_the_reason_tells_both_ages(older_s: float, newer_s: float, reason: str) -> None:
    assert reason == resolve_clash(aged(older_s, newer_s), "prefer_recent", now=NOW).reason


def test_without_times_the_reason_tells_the_order() -> None:
    assert "new statement is more recent (message 5 after message 1)" == resolve_clash(CHANGE, "prefer_recent", now=NOW).reason


def test_ages_that_read_alike_do_not_stand_for_the_order() -> None:
    assert "new statement is more recent (message 3 after message 1)" == resolve_clash(aged(0.02, 0.01), now=NOW).reason


def test_facts_told_at_the_same_time_are_asked_about() -> None:
    done = resolve_clash(aged(HOUR, HOUR, simultaneous=True), "prefer_recent", now=NOW)
    assert ("ask_user", False, 3) == (done.strategy, done.resolved, len(done.options))


def test_ask_user_asks_with_both_sides_and_flexible() -> None:
    done = resolve_clash(CHANGE, "ask_user", now=NOW)
    assert ("ask_user", False, ("I prefer budget hotels.", "I prefer luxury hotels.", "I am flexible: both are fine.")) == (
        done.strategy,
        done.resolved,
        done.options,
    )
    assert all(option in done.question for option in done.options)


def test_the_question_is_in_the_language_asked_for() -> None:
    assert "flexibel" in resolve_clash(CHANGE, "ask_user", now=NOW, language="de").options[2]


@pytest.mark.parametrize(
    ("older", "newer", "topic", "language", "text"),
    [
        ("My budget is 100 €.", "My budget is 150 €.", "budget", "en", "My budget is between 100 € and 150 €."),
        ("My budget is 150 €.", "Actually, my budget is 100 €.", "budget", "en", "My budget is between 100 € and 150 €."),
        ("Mon budget est de 80 €.", "Mon budget est de 120 €.", "budget", "fr", "Mon budget est de entre 80 € et 120 €."),
        ("I prefer window seats.", "I prefer aisle seats.", "seat", "en", "I prefer window or aisle seats."),
        ("Ich sitze lieber am Fenster.", "Ich sitze lieber am Gang.", "seat", "de", "Ich sitze lieber am Fenster oder Gang."),
        (
            "I prefer budget hotels, under $50 a night.",
            "I prefer luxury 5-star hotels.",
            "price level",
            "en",
            "I prefer budget hotels, under $50 a night or luxury 5-star hotels.",
        ),
    ],
)
def test_merge_puts_one_statement_in_place_of_both(older: str, newer: str, topic: str, language: str, text: str) -> None:
    one, other = statement(older, language=language), statement(newer, message=2, language=language)
    done = resolve_clash(clash(one, other, topic=topic), "merge", now=NOW)
    assert ("merge", (), (one, other), text) == (done.strategy, done.kept, done.dropped, done.text)


@pytest.mark.parametrize(
    ("older", "newer", "topic"),
    [
        ("I am vegan.", "I eat meat.", "diet"),
        ("Cheap if possible.", "Make it luxury.", "price level"),
        ("My budget is 100 €.", "My budget is between 200 € and 300 €.", "budget"),
    ],
)
def test_what_excludes_each_other_is_not_merged(older: str, newer: str, topic: str) -> None:
    assert "ask_user" == resolve_clash(clash(statement(older), statement(newer, message=2), topic=topic), "merge", now=NOW).strategy


def test_what_cannot_be_merged_is_the_users_to_say() -> None:
    towns = clash(statement("I live in Berlin.", kind="fact"), statement("I live in Munich.", kind="fact", message=2), topic="location")
    done = resolve_clash(towns, "merge", now=NOW)
    assert ("ask_user", "the two statements cannot both hold: only the user can tell", False) == (done.strategy, done.reason, done.resolved)


@pytest.mark.parametrize("strategy", ["prefer_recent", "ask_user", "merge", "keep_existing"])
def test_a_strategy_may_be_written_in_capital_letters(strategy: str) -> None:
    assert resolve_clash(CHANGE, strategy, now=NOW) == resolve_clash(CHANGE, strategy.upper(), now=NOW)


def test_a_strategy_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one of prefer_recent, ask_user, merge, keep_existing, got 'NEWEST'"):
        resolve_clash(CHANGE, "NEWEST", now=NOW)


@pytest.mark.parametrize("strategy", ["prefer_recent", "ask_user", "merge"])
def test_a_change_of_mind_said_as_such_is_followed(strategy: str) -> None:
    done = resolve_clash(clash(OLDER, NEWER, type="OUTDATED_INFORMATION", update=True), strategy, now=NOW)
    assert ("prefer_recent", (NEWER,), (OLDER,)) == (done.strategy, done.kept, done.dropped)
    assert "new statement is more recent (said as a change of mind)" == done.reason


@pytest.mark.parametrize("update", [False, True])
def test_a_critical_clash_can_have_a_strategy_of_its_own(update: bool) -> None:
    allergy = clash(statement("I am allergic to nuts."), statement("I love almonds.", message=2), critical=True, update=update)
    assert "ask_user" == resolve_clash(allergy, "prefer_recent", now=NOW, critical_strategy="ask_user").strategy


def test_a_clash_that_is_not_critical_keeps_the_usual_strategy() -> None:
    assert "prefer_recent" == resolve_clash(CHANGE, "prefer_recent", now=NOW, critical_strategy="ask_user").strategy


@pytest.mark.parametrize("strategy", ["prefer_recent", "ask_user", "merge"])
def test_the_system_message_is_not_overruled(strategy: str) -> None:
    rule = statement("Answer in English only.", kind="constraint", origin="system")
    done = resolve_clash(clash(rule, statement("Antworte auf Deutsch.", message=1)), strategy, now=NOW)
    assert ("keep_existing", (rule,), (), False) == (done.strategy, done.kept, done.dropped, done.resolved)


def test_what_the_user_said_is_not_overruled_by_a_tool() -> None:
    said = statement("My flight is on Friday.", kind="fact")
    done = resolve_clash(clash(said, statement("The flight is on Saturday.", kind="fact", origin="tool_result", message=2)), now=NOW)
    assert ("keep_existing", "what the user said is not overruled by a tool result") == (done.strategy, done.reason)


def test_the_user_overrules_what_is_remembered_of_them() -> None:
    memory = statement("The user lives in Munich.", kind="fact", origin="memory")
    assert (memory,) == resolve_clash(clash(memory, statement("I live in Berlin.", kind="fact", message=1)), now=NOW).dropped


@pytest.mark.parametrize("strategy", ["prefer_recent", "ask_user", "merge"])
def test_of_what_a_memory_says_twice_the_newer_stays(strategy: str) -> None:
    one = statement("The user lives in Munich.", kind="fact", origin="memory")
    other = statement("The user's home is Munich.", kind="fact", origin="memory", start=30, end=56)
    done = resolve_clash(clash(one, other, type="DUPLICATE_FACTS"), strategy, now=NOW)
    assert ((other,), (one,), True) == (done.kept, done.dropped, done.resolved)


def test_a_user_may_say_things_twice() -> None:
    done = resolve_clash(clash(OLDER, NEWER, type="DUPLICATE_FACTS"), "prefer_recent", now=NOW)
    assert ((OLDER, NEWER), (), True) == (done.kept, done.dropped, done.resolved)
