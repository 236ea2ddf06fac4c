"""The tables of clean context: made of what was measured, and left alone where nothing was."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import clean_context_tables as tables
from benchmarks.load.statistics import wilson


def write(folder: Path, name: str, report: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(report), encoding="utf-8")


def figure(value: float | None, n: int = 100) -> dict[str, Any]:
    return {"value": value, "low": value, "high": value, "n": n}


def group(recall: float, alarms: float) -> dict[str, Any]:
    return {"recall": figure(recall), "false_positives": figure(alarms), "groundwire": {"auroc": figure(0.9), "recall_at_5": figure(0.8)}}


@pytest.mark.parametrize("name", tables.TABLES)
def test_without_measurements_there_is_no_table(name: str, tmp_path: Path) -> None:
    made: Any = tables.TABLES[name]
    assert made(tmp_path) is None


def test_a_quick_look_makes_no_table(tmp_path: Path) -> None:
    write(tmp_path, "clash", {"rows": 12, "groups": {"good": group(0.96, 0.04)}})
    write(tmp_path, "poisoning", {"rows": 25, "statements": {"by": {}, "baselines": {}}})
    write(tmp_path, "validation", {"quick": True, "latency_ms": {"1": {"p50": 1.0, "p95": 2.0, "cpu_p50": 1.0, "cpu_p95": 2.0}}})
    assert [None] * 3 == [tables.clash(tmp_path), tables.poisoning(tmp_path), tables.validation(tmp_path)]


def test_goals_are_met_or_missed_by_both_figures(tmp_path: Path) -> None:
    write(tmp_path, "clash", {"rows": 0, "groups": {"good": group(0.96, 0.04), "deaf": group(0.90, 0.04), "loud": group(0.96, 0.06)}})
    rows = (tables.clash(tmp_path) or "").splitlines()[2:]
    assert [("good", "yes"), ("deaf", "no"), ("loud", "no")] == [(row.split(" | ")[0].strip("| "), row.split(" | ")[4]) for row in rows]


def test_topics_have_a_table_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, "clash", {"rows": 0, "groups": {"prefeval": group(0.9, 0.1), "prefeval travel": group(0.8, 0.2)}})
    assert "travel" not in (tables.clash(tmp_path) or "")
    assert "| travel | 100 | 80.0% [80.0%, 80.0%] | 20.0% [20.0%, 20.0%] | no |" in (tables.clash_topics(tmp_path) or "")


def test_a_figure_of_nothing_is_a_dash(tmp_path: Path) -> None:
    line = {"found": figure(None, 0), "false alarms": figure(0.01)}
    write(tmp_path, "poisoning", {"rows": 150, "statements": {**line, "by": {"kind": {"wrong_date": line}}, "baselines": {}}})
    assert "| kind: wrong date | - | 0 | 1.0% [1.0%, 1.0%] | 100 | - |" in (tables.poisoning(tmp_path) or "")


def test_a_slow_validation_misses_its_goal(tmp_path: Path) -> None:
    row = {"p50": 50.0, "p95": 100.0, "cpu_p50": 40.0, "cpu_p95": 80.0}
    write(tmp_path, "validation", {"quick": False, "latency_ms": {"8": row, "32": {**row, "p95": 99.9}}})
    assert ["| 8 | 50 | 100 | 40 | 80 | no |", "| 32 | 50 | 100 | 40 | 80 | yes |"] == (
        (tables.validation(tmp_path) or "").splitlines()[2:]
    )


def test_an_action_that_was_never_taken_has_no_row(tmp_path: Path) -> None:
    taken = {"action": "edit", "n": 50, "precision": 0.98, "low": 0.9, "high": 1.0, "recall": 0.9}
    write(tmp_path, "clash_actions", [taken, {"action": "ask", "n": 0, "precision": None, "low": 0.0, "high": 1.0, "recall": 0.0}])
    assert ["| edit | 50 | 98.0% [90.0%, 100.0%] | 90.0% |"] == (tables.clash_actions(tmp_path) or "").splitlines()[2:]


def test_the_interval_of_a_share() -> None:
    assert (0.0, 1.0) == wilson(0, 0)
    assert (0.963, 1.0) == tuple(round(bound, 4) for bound in wilson(100, 100))
