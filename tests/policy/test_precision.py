"""Every action has a threshold of its own, and no shipped policy takes one below it."""

from pathlib import Path

import pytest

from proxy.cli.explain import explain_all
from proxy.policy.loading import load_policy
from proxy.policy.precision import FLOORS, Precision, below_floor, describe, measured, table
from proxy.ports.stage import Action

POLICIES = sorted((Path(__file__).parents[2] / "policies").glob("*.yaml"))


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_no_shipped_policy_acts_below_its_floor_or_unmeasured(path: Path) -> None:
    specs = load_policy(path).stages
    assert [] == [line for spec in specs for line in below_floor(spec.stage.name, spec.stage.actions(spec.options))]


@pytest.mark.parametrize("row", table(), ids=lambda row: f"{row.stage}-{row.action}-{row.code}")
def test_a_measurement_is_whole(row: Precision) -> None:
    assert 0 <= row.low <= row.precision <= row.high <= 1
    assert row.n > 0
    assert row.command.startswith("python -m benchmarks.")


def test_the_measurements_are_one_for_each_action() -> None:
    keys = [(row.stage, row.action, row.code) for row in table()]
    assert len(set(keys)) == len(keys)


def test_the_floors_are_those_of_the_contract() -> None:
    assert FLOORS == {"block": 0.98, "edit": 0.98, "ask": 0.95, "quarantine": 0.95, "warn": 0.85, "annotate": 0.0}


def test_what_is_below_its_floor_is_told_with_its_interval() -> None:
    row = measured("poisoning", Action("quarantine", "false_statement"))
    assert row is not None
    [line] = below_floor("poisoning", [Action("quarantine", "false_statement")])
    assert f"precision {row.precision:.3f} [{row.low:.3f}, {row.high:.3f}], n {row.n}, floor 0.95" in line


@pytest.mark.parametrize(("kind", "noted"), [("block", 1), ("edit", 1), ("ask", 1), ("quarantine", 1), ("warn", 0), ("annotate", 0)])
def test_an_acting_check_that_nobody_measured_is_told(kind: str, noted: int) -> None:
    action = Action(kind, "new")  # type: ignore[arg-type]
    assert noted == len(below_floor("nobody", [action]))
    assert ("not measured" in describe("nobody", action)) == (kind != "annotate")


def test_what_is_exact_needs_no_measurement() -> None:
    action = Action("block", "context_length_exceeded", exact=True)
    assert ([], True) == (below_floor("budget", [action]), "exact" in describe("budget", action))


def test_explain_prints_each_action_with_its_precision(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("name: p\nstages: [budget, poisoning: {on_inexact: block}, relevance]\n")
    text = explain_all(load_policy(path))
    assert "may block (context_length_exceeded): exact" in text
    assert "may quarantine (hidden_instruction): precision 1.000 [0." in text
    assert "may quarantine (inexact_statement): not measured (floor 0.95)" in text
    assert "may block (low_relevance): precision 0.99" in text


@pytest.mark.parametrize("path", POLICIES, ids=lambda path: path.stem)
def test_each_shipped_policy_begins_with_when_to_take_it(path: Path) -> None:
    assert path.read_text().startswith("# Take it ")


def actions(policy: Path, stage: str) -> set[tuple[str, str]]:
    """What a stage of a policy says that it may do."""
    [spec] = [spec for spec in load_policy(policy).stages if spec.stage.name == stage]
    return {(action.kind, action.code) for action in spec.stage.actions(spec.options)}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("{}", {("warn", "claims_contradicted")}),
        ("{action: redact}", {("warn", "claims_contradicted"), ("edit", "claims_contradicted")}),
        ("{action: replace}", {("warn", "claims_contradicted"), ("block", "claims_contradicted")}),
        (
            "{action: block, fail_on: unsupported}",
            {(kind, f"claims_{label}") for kind in ("warn", "block") for label in ("contradicted", "unsupported")},
        ),
    ],
)
def test_claims_says_what_it_may_do_by_what_fails(tmp_path: Path, options: str, expected: set[tuple[str, str]]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"name: p\ndelivery: hold\nstages: [claims: {options}]\n")
    assert expected == actions(path, "claims")


def test_what_another_judge_finds_was_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("name: p\njudge: {upstream: openai, model: m}\nstages: [claims: {action: block}, budget: {}]\n")
    policy = load_policy(path)
    found = [(action.kind, action.code) for spec in policy.stages for action in policy.actions(spec) if spec.stage.name == "claims"]
    assert [(kind, "claims_contradicted, by a judge of one's own") for kind in ("warn", "block")] == found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("{}", {("warn", "citation_invented"), ("warn", "context_ignored")}),
        (
            "{action: block}",
            {
                ("block", "citation_invented"),
                ("warn", "context_ignored"),
            },
        ),
        (
            "{action: redact, fail_on: unsupported}",
            {("edit", "citation_invented"), ("edit", "citation_unsupported"), ("warn", "context_ignored")},
        ),
    ],
)
def test_citations_says_what_it_may_do_by_what_does_not_hold(tmp_path: Path, options: str, expected: set[tuple[str, str]]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"name: p\ndelivery: hold\nstages: [citations: {options}]\n")
    assert expected == actions(path, "citations")


@pytest.mark.parametrize("stage", ["clash", "claims", "citations", "confidence"])
def test_the_floors_cover_what_the_strict_policy_does_about_answers_and_clashes(stage: str) -> None:
    strict = next(path for path in POLICIES if path.stem == "strict")
    assert actions(strict, stage)


def test_what_nothing_supports_may_be_refused_by_who_says_so_and_is_told(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("name: p\ndelivery: hold\nstages: [claims: {action: block, fail_on: unsupported}]\n")
    [spec] = load_policy(path).stages
    assert ["block (claims_unsupported): not measured (floor 0.98)"] == below_floor("claims", spec.stage.actions(spec.options))
