"""A decision model as a judge: what it is asked, and which of its answers count."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from proxy.grounding.judging.questions import SUPPORT, compatible_question, relevance_question, support_question
from proxy.grounding.judging.readouts import read, state_of
from proxy.ports.decisions import Answer

GOOD = {"supported": 0.7, "contradicted": 0.2, "neither": 0.1}


def test_each_statement_is_judged_by_its_own_evidence_which_stands_there_once() -> None:
    asked = [support_question("A.", ["x", "y"]), support_question("B.", ["z"]), support_question("C.", ["x", "y"])]
    state, questions = state_of(asked)
    assert (1, 1) == (state.count("[1] x\n[2] y"), state.count("[1] z"))
    assert ["evidence 1 alone", "evidence 2 alone", "evidence 1 alone"] == [
        question.instructions.partition("Judge by ")[2].partition(".")[0] for question in questions
    ]
    assert ["q1", "q2", "q3"] == [question.name for question in questions]
    assert questions[1].instructions.endswith("\n\nB.")
    assert 1 == state.count(asked[0].instructions)


def test_choices_can_be_given_in_the_other_order_and_predicates_have_none() -> None:
    _, (choice, predicate) = state_of([support_question("A.", ["x"]), relevance_question("Why?", ["x"])], reordered=True)
    assert (tuple(reversed(SUPPORT)), ()) == (choice.choices, predicate.choices)


def test_a_question_without_evidence_is_judged_by_its_statement() -> None:
    _, (question,) = state_of([compatible_question("I live in Graz.", "I live in Wien.")])
    assert "by the statement alone" in question.instructions


def test_probabilities_that_are_what_they_should_be_count() -> None:
    assert GOOD == read(Answer(GOOD), SUPPORT).probabilities


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "missing"),
        (Answer(), "missing"),
        (Answer(problem="refused"), "refused"),
        (Answer({"supported": 1.0}), "other choices"),
        (Answer({**GOOD, "maybe": 0.0}), "other choices"),
        (Answer({**GOOD, "supported": math.nan}), "not a number"),
        (Answer({**GOOD, "supported": 1.7, "contradicted": -0.8}), "not a number"),
        (Answer({**GOOD, "supported": 0.9}), "does not sum to one"),
    ],
)
def test_others_are_no_answer(answer: Answer | None, problem: str) -> None:
    found = read(answer, SUPPORT)
    none: Mapping[str, float] = {}
    assert (none, True) == (found.probabilities, problem in found.problem)
