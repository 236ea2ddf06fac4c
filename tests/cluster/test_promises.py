"""A promise that is broken is found out, and one that a fault excuses is not taken for broken."""

from __future__ import annotations

import json

import pytest

from tests.cluster import client, soak
from tests.cluster.client import Exchanged, Ledger
from tests.cluster.faults import KINDS, Kind
from tests.cluster.load import Sample
from tests.cluster.promises import of_answers
from tests.cluster.soak import Count
from tests.cluster.upstream import said

START, END, HEALED, DEADLINE_S = 10.0, 14.0, 15.0, 25.0


def broken(kind: str, *exchanges: Exchanged, wrong: tuple[str, ...] = ()) -> str:
    (found,) = [one for one in KINDS if one.name == kind]
    return "; ".join(of_answers(Ledger([*exchanges], [*wrong]), found, START, END, HEALED, DEADLINE_S))


def exchanged(began: float, ended: float, problem: str = "", **more: object) -> Exchanged:
    return Exchanged("responses", began, ended, problem, "gw_1", **more)  # type: ignore[arg-type]


def test_all_is_well() -> None:
    assert "" == broken("database killed", exchanged(9, 11), exchanged(12, 13, previous_ended=11.0))


def test_an_answer_of_another_is_wrong() -> None:
    assert "1 wrong answers" in broken("worker killed", wrong=("chat a-1: 'b-2'",))


def test_a_request_beyond_its_deadline_is_told_whatever_the_fault() -> None:
    assert "1 requests beyond their deadline" in broken("node killed", exchanged(9, 36, "no answer by the deadline"))


@pytest.mark.parametrize(
    ("kind", "began", "told"), [("node killed", 12.0, False), ("node killed", 25.0, True), ("database killed", 12.0, True)]
)
def test_a_request_may_break_only_where_the_fault_breaks_it(kind: str, began: float, told: bool) -> None:
    assert told == ("failed that need not" in broken(kind, exchanged(began, began + 0.1, "connection: ServerDisconnectedError")))


@pytest.mark.parametrize(
    ("kind", "began", "previous", "told"),
    [
        ("database killed", 12.0, 9.0, False),  # it cannot be looked up
        ("database killed", 30.0, 12.0, False),  # it could not be kept
        ("database killed", 30.0, 29.0, True),
        ("node killed", 12.0, 11.0, True),
    ],
)
@pytest.mark.parametrize("problem", ["", "404 not_found", "503 overloaded"])
def test_a_turn_may_be_unknown_only_where_the_store_was_away(kind: str, began: float, previous: float, told: bool, problem: str) -> None:
    found = exchanged(began, began + 0.1, problem, warnings=() if problem else ("history_not_seen",), previous_ended=previous)
    if kind == "node killed" and problem:
        return  # its client's request broke
    assert told == ("did not know" in broken(kind, found))


def test_every_kind_has_a_name_of_its_own() -> None:
    assert len(KINDS) == len({kind.name for kind in KINDS})
    assert all(isinstance(kind, Kind) and kind.fault.__doc__ for kind in KINDS)


def test_a_client_reads_whole_answers_only() -> None:
    whole = json.dumps({"choices": [{"message": {"content": said("m1")}}]}).encode()
    events = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'
    assert said("m1") == client._text(whole, "chat", streams=False)
    assert None is client._text(whole[:-2], "chat", streams=False)
    assert "a" == client._text(events + b"data: [DONE]\n\n", "chat", streams=True)
    assert None is client._text(events, "chat", streams=True)
    assert None is client._text(b'data: {"type": "response.output_text.delta", "delta": "a"}\n\n', "responses", streams=True)


def test_what_grows_in_a_soak_is_told() -> None:
    steady = [Count(i * 60.0, 100.0, 50, 10, 5, 20) for i in range(13)]
    growing = [Count(i * 60.0, 100.0 + i, 50 + 4 * i, 10, 5, 20) for i in range(13)]
    assert [] == soak.of_counts(steady, 60)
    found = "; ".join(soak.of_counts(growing, 60))
    assert "memory grows by 10.00 MB in ten minutes" in found
    assert "descriptors: at most 74 in the first half became 98" in found


def test_a_soak_that_fails_or_becomes_slow_is_told() -> None:
    fast, slow = Sample([10.0] * 100), Sample([13.0] * 100)
    assert [] == soak.of_samples([fast, fast], 60)
    assert ["p99 at last is 1.30 times the first"] == soak.of_samples([fast, slow], 60)
    assert [] == soak.of_samples([fast, slow], 1)  # a machine's other work
    assert ["1 requests failed: ['503']"] == soak.of_samples([fast, Sample([1.0], ["503"])], 1)
