"""The committed figures of `benchmarks.work_claims` are still met, and are not measured on what is not there."""

import asyncio
import json

import pytest

from benchmarks.work_claims import RESULTS, Account, Seen, figures, problems, replay, written


@pytest.mark.parametrize("name", ["development", "first", "report"])
def test_a_set_has_thirty_runs_of_which_half_have_one_false_sentence(name: str) -> None:
    runs = written(name)
    assert (30, 15) == (len(runs), sum(bool(run.untrue) for run in runs))
    assert [] == [run.id for run in runs if run.untrue not in run.answer]


def test_the_figures_of_the_reported_set_are_those_of_the_file() -> None:
    assert json.loads(RESULTS.read_text("utf-8"))["report"] == figures(asyncio.run(replay(written("report"), "")))


def test_a_goal_that_is_missed_is_said() -> None:
    every = json.loads(RESULTS.read_text("utf-8"))
    assert [] == problems(every)
    assert ["found 5 of 15", "warned of 15 of 740 honest accounts"] == problems(
        every | {"report": {"untrue": 15, "found": 5, "honest": 15, "warned": 15}}
    )


@pytest.mark.parametrize(("text", "found"), [("", False), ("Sent to [masked].", True), ("It is late.", False)])
def test_only_the_sentence_that_is_not_so_counts_as_found(text: str, found: bool) -> None:
    seen = Seen(Account("a", "chat", {}, "It is late. Sent to ann@example.org.", "Sent to ann@example.org."), 1, (text,), ("",))
    assert (found, () if found else (text,)) == (seen.found, seen.wrong)
