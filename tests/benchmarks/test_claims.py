"""The statements of `benchmarks.claims`, and what is made of their labels."""

import json

import pytest

from benchmarks.claims import ROWS, Judged, Row, conversation, figures, judge, rows


def test_what_decides_stands_in_the_passage_and_no_statement_comes_twice() -> None:
    given = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert len(given) == len({(row["passage"], row["statement"]) for row in given}) == len({row["id"] for row in given})
    assert {"supported", "contradicted", "unsupported"} == {row["label"] for row in given}
    for row in given:
        parts = [part for part in row["decides"].split(" [...] ") if part]
        assert bool(parts) == (row["label"] != "unsupported"), row["id"]
        assert all(part in row["passage"] for part in parts), row["id"]


def test_a_row_is_a_question_with_its_passage_and_the_statement_for_an_answer() -> None:
    row = rows()[0]
    (turn,) = conversation(row).turns()
    assert row.statement == turn.reply["content"]
    assert row.passage in turn.body["messages"][0]["content"]
    assert row.question == turn.body["messages"][-1]["content"]


def test_what_is_unsure_is_kept_and_caught() -> None:
    said = [("supported", "supported"), ("supported", "unsure"), ("supported", "unsupported"), ("unsupported", "unsure")]
    said += [("contradicted", "contradicted"), ("contradicted", "supported")]
    judged = [Judged(Row(str(i), "en", "", "", str(i), "", label, ""), found, 0.9 - i / 10) for i, (label, found) in enumerate(said)]
    found = {name: float(values[0]) for name, values in figures(judged).items()}
    expected = {
        "kept": 2 / 3,
        "caught": 2 / 3,
        "called supported": 1 / 3,
        "called wrong": 1 / 3,
        "flags that are right": 1 / 2,
        "AUROC": 1.0,
        "precision at recall 0.7": 1.0,
    }
    assert expected == pytest.approx(found)


@pytest.mark.slow  # loads the models
async def test_the_running_proxy_judges_statements() -> None:
    judged = await judge(rows()[:2], "default", "balanced")
    assert [row.id for row in rows()[:2]] == [one.row.id for one in judged]
    assert {one.label for one in judged} <= {"supported", "contradicted", "unsupported", "unsure", "not_checkable"}
