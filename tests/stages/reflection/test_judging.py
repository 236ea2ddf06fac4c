"""What no form tells is put to the policy's judge: what the rules found by wording, and what they could not decide."""

from __future__ import annotations

import pytest

from proxy.context.tool_results.turns import read_turns
from proxy.stages.reflection.history import MAX_JUDGED, FailureHistory, Reading, ask_judge, history_of, read_conversation
from proxy.testing import ScriptedJudge
from tests.stages.reflection.talk import NOT_FOUND, TIMED_OUT, TOOLS, Talk

WRONG = "No, that is wrong, I said the second edition."
SAID_OTHERWISE = "You mixed up the two editions."
SORRY = "The warehouse did not answer."


def read(talk: Talk) -> Reading:
    return read_conversation(read_turns(talk.messages), TOOLS, lambda name: False)


def history(reading: Reading) -> FailureHistory:
    return history_of(reading, TOOLS, lambda name: False, stall_after=6)


def codes(reading: Reading) -> list[str]:
    return [failure.code for failure in history(reading).failures]


@pytest.mark.parametrize(("choice", "left"), [("yes", ["timeout"]), ("no", []), ("", ["timeout"])])
async def test_a_call_that_failed_by_its_wording_is_the_judge_s_to_deny(choice: str, left: list[str]) -> None:
    judge = ScriptedJudge(lambda question: choice)
    assert left == codes(await ask_judge(read(Talk().calls("get_order", TIMED_OUT, id="A7")), TOOLS, judge))
    (question,) = judge.asked[0]
    assert ("failure", TIMED_OUT, ('get_order({"id": "A7"})',)) == (question.purpose, question.statement, question.evidence)


async def test_what_is_denied_is_a_success_and_no_event() -> None:
    reading = read(Talk().calls("get_order", TIMED_OUT, id="A7"))
    left = await ask_judge(reading, TOOLS, ScriptedJudge(lambda question: "no"))
    assert ([], []) == (history(left).events, history(left).newest)
    assert ["get_order"] == [call.tool for call in left.outcomes.succeeded]
    assert history(reading).events


@pytest.mark.parametrize(("choice", "found"), [("yes", ["error"]), ("no", []), ("", [])])
async def test_a_sentence_that_no_rule_reads_is_the_judge_s_to_affirm(choice: str, found: list[str]) -> None:
    reading = await ask_judge(read(Talk().calls("get_order", SORRY, id="A7")), TOOLS, ScriptedJudge(lambda question: choice))
    assert found == codes(reading)
    assert ([] if found else ["get_order"]) == [call.tool for call in reading.outcomes.succeeded]


async def test_a_message_that_corrects_is_the_judge_s_to_deny() -> None:
    judge = ScriptedJudge(lambda question: "no")
    reading = read(Talk("Find the manual.").says("Here is the first edition.").user(WRONG))
    assert ["rejected"] == codes(reading)
    assert [] == codes(await ask_judge(reading, TOOLS, judge))
    (question,) = judge.asked[0]
    assert ("correction", WRONG, ("Here is the first edition.",)) == (question.purpose, question.statement, question.evidence)


async def test_a_message_that_corrects_in_other_words_is_the_judge_s_to_affirm() -> None:
    talk = Talk("Find the manual.").says("Here is the first edition.").user(SAID_OTHERWISE)
    reading = await ask_judge(read(talk), TOOLS, ScriptedJudge(lambda question: "yes"))
    (failure,) = history(reading).failures
    assert ("human_correction", "rejected") == (failure.signal_type, failure.code)
    assert [{"kind": "message", "message": 3, "span": [0, len(SAID_OTHERWISE)]}] == list(failure.context_refs)


async def test_users_are_not_asked_about_where_their_corrections_are_not_wanted() -> None:
    talk = Talk("Find the manual.").says("Here is the first edition.").user(SAID_OTHERWISE)
    judge = ScriptedJudge(lambda question: "yes")
    assert [] == codes(await ask_judge(read(talk), TOOLS, judge, corrects=False))
    assert [] == judge.asked


async def test_a_typed_override_needs_no_judge() -> None:
    judge = ScriptedJudge(lambda question: "no")
    talk = Talk("Find the manual.").says("Here are 250 results.").user("At most 10 results, please.")
    assert ["override"] == codes(await ask_judge(read(talk), TOOLS, judge))
    assert [] == judge.asked


async def test_a_turn_s_questions_go_out_in_one_batch_the_newest_first_of_all() -> None:
    talk = Talk()
    for number in range(MAX_JUDGED + 3):
        talk.calls("get_order", f"{SORRY} It is the {number}.", id=f"{number}").says("Again?").user(f"Yes, number {number}")
    judge = ScriptedJudge(lambda question: "")
    await ask_judge(read(talk), TOOLS, judge)
    (batch,) = judge.asked
    assert [MAX_JUDGED, MAX_JUDGED] == [sum(question.purpose == purpose for question in batch) for purpose in ("failure", "correction")]
    assert f"{SORRY} It is the 3." == batch[0].statement


async def test_a_status_needs_no_judge() -> None:
    judge = ScriptedJudge(lambda question: "no")
    reading = read(Talk().calls("get_order", NOT_FOUND, id="A7"))
    assert ["not_found"] == codes(await ask_judge(reading, TOOLS, judge))
    assert [] == judge.asked


async def test_without_a_judge_the_rules_word_stands() -> None:
    reading = read(Talk().calls("get_order", TIMED_OUT, id="A7"))
    assert reading is await ask_judge(reading, TOOLS, None)
