"""What wording alone says to be a failure is put to the policy's judge."""

from __future__ import annotations

import pytest

from proxy.stages.reflection.confirming import confirmed
from proxy.stages.reflection.failures.history import FailureHistory, read_history
from proxy.stages.reflection.signals.calls import ResultReader
from proxy.testing import ScriptedJudge
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, TOOLS, Talk

WRONG = "No, that is wrong, I said the second edition."


def read(talk: Talk) -> FailureHistory:
    return read_history(talk.messages, TOOLS, lambda name: False, ResultReader(), stall_after=6)


@pytest.mark.parametrize(("choice", "left"), [("yes", ["timeout"]), ("no", []), ("", ["timeout"])])
async def test_a_call_that_failed_by_its_wording_is_the_judge_s_to_deny(choice: str, left: list[str]) -> None:
    judge = ScriptedJudge(lambda question: choice)
    found = await confirmed(read(Talk().calls("get_order", TIMED_OUT, id="A7")), judge)
    assert left == [failure.code for failure in found.failures]
    (question,) = judge.asked[0]
    assert ("failure", TIMED_OUT, ('get_order({"id": "A7"})',)) == (question.purpose, question.statement, question.evidence)


async def test_what_is_denied_is_no_event_either() -> None:
    history = read(Talk().calls("get_order", TIMED_OUT, id="A7"))
    found = await confirmed(history, ScriptedJudge(lambda question: "no"))
    assert ([], []) == (found.events, found.newest)
    assert history.events


async def test_a_message_that_corrects_is_the_judge_s_to_deny() -> None:
    judge = ScriptedJudge(lambda question: "no")
    history = read(Talk("Find the manual.").says("Here is the first edition.").user(WRONG))
    assert ["rejected"] == [failure.code for failure in history.failures]
    found = await confirmed(history, judge)
    assert [] == list(found.failures)
    (question,) = judge.asked[0]
    assert ("correction", WRONG, ("Here is the first edition.",)) == (question.purpose, question.statement, question.evidence)


async def test_a_status_needs_no_judge() -> None:
    judge = ScriptedJudge(lambda question: "no")
    history = read(Talk().calls("get_order", NOT_FOUND, id="A7"))
    assert history == await confirmed(history, judge)
    assert [] == judge.asked


async def test_without_a_judge_the_rules_word_stands() -> None:
    history = read(Talk().calls("get_order", TIMED_OUT, id="A7"))
    assert history is await confirmed(history, None)
