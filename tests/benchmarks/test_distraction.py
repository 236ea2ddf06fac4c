"""The questions of the benchmark of distracting histories: what they ask for stands where their kind says."""

import random
from typing import Any

import pytest

from benchmarks.distraction import KINDS, MESSAGES, RECENT, interval, is_right, make_tasks


def said(messages: Any) -> str:
    return " ".join(message["content"] for message in messages)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_asked_for_stands_where_its_kind_says(seed: int) -> None:
    for task in make_tasks(random.Random(seed)):
        assert (MESSAGES, "user") == (len(task.messages), task.messages[-1]["role"])
        recent, earlier = said(task.messages[-RECENT:]), said(task.messages[1:-RECENT])
        assert (task.kind != "old", task.kind == "old") == (task.value in recent, task.value in earlier)
        noted = earlier.split(task.start.removesuffix(" is now"))[1:]
        assert ({"recent": 0, "changed": 1, "old": 1}[task.kind]) == len(noted)


def test_two_questions_of_each_kind() -> None:
    assert [kind for kind in KINDS for _ in range(2)] == [task.kind for task in make_tasks(random.Random(1))]


@pytest.mark.parametrize(
    ("answer", "right"), [("The code is 4471.", True), ("4471, not 1234", True), ("1234, later 4471", False), ("44710", False), ("", False)]
)
def test_the_first_number_decides(answer: str, right: bool) -> None:
    assert right == is_right(answer, "4471")


def test_an_interval_is_over_conversations() -> None:
    assert (0.5, 0.5, 0.5) == interval([1, 0, 1, 0], [0, 0, 1, 1], seed=1)
    assert (0.5, 0.0, 1.0) == interval([1, 1, 0, 0], [0, 0, 1, 1], seed=1)
