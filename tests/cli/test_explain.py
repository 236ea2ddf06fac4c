"""``groundwire explain``: one policy on a screen, several side by side."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from proxy.__main__ import main
from proxy.cli.explain import purpose

ROOT = Path(__file__).parents[2]
SHIPPED = ("observe", "default", "agent", "rag", "strict")
Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


def explained(capsys: Captured, *arguments: str) -> str:
    assert 0 == main(["explain", *arguments])
    return capsys.readouterr().out


def written(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.yaml").write_text(text)
    return str(folder / f"{name}.yaml")


# ---- one ----


def test_a_shipped_policy_is_found_by_its_name(capsys: Captured) -> None:
    assert re.match(r"default@[0-9a-f]{8} \(.*default\.yaml\)\n", explained(capsys, "default"))


def test_the_policies_of_the_current_folder_come_first(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "policies").mkdir()
    written(tmp_path / "policies", "default", "name: mine\ndelivery: tap\nstages: [budget]\n")
    told = explained(capsys, "default")
    assert told.startswith("mine@")
    assert " 1 budget " in told


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_policy_fits_on_a_screen(capsys: Captured, name: str) -> None:
    lines = explained(capsys, name).splitlines()
    assert (True, True) == (len(lines) <= 44, all(len(line) <= 80 for line in lines[1:]))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_policy_begins_with_one_sentence_on_when_to_take_it(name: str) -> None:
    said = purpose(ROOT / "policies" / f"{name}.yaml")
    assert ("Take it ", ".", 1) == (said[:8], said[-1], said.count("."))


def test_only_what_differs_from_the_defaults_is_shown(capsys: Captured, tmp_path: Path) -> None:
    file = written(
        tmp_path, "p", "name: p\nstages: [budget: {warn_at: 0.5, compress_at: 0.8}, validation: {thresholds: {relevance: 0.4}}]\n"
    )
    told = explained(capsys, file)
    assert ["warn_at: 0.5 (not 0.7)", "thresholds.relevance: 0.4 (not 0.7)"] == re.findall(r"[\w.]+: \S+ \(not \S+\)", told)
    assert "compress_at" not in told


def test_what_all_stages_share_is_said_once(capsys: Captured, tmp_path: Path) -> None:
    told = explained(capsys, written(tmp_path, "p", "name: p\nstages: [budget: {on_error: closed}, citations: {on_error: closed}]\n"))
    assert 1 == told.count("on_error")
    assert "In every stage: on_error: closed (not open)." in told


def test_all_of_it_has_every_option_and_each_action_with_its_precision(capsys: Captured) -> None:
    told = explained(capsys, "--all", "strict")
    assert "compress_at = 0.8  (share from which" in told
    assert "may block (claims_contradicted): precision" in told


def test_a_policy_without_a_sentence_has_none(capsys: Captured, tmp_path: Path) -> None:
    file = written(tmp_path, "p", "name: p\nstages: []\n")
    assert "" == purpose(file)
    assert "no stages: every request passes as it is" in explained(capsys, file)


# ---- several ----


def test_several_are_shown_one_after_another(capsys: Captured) -> None:
    assert f"{explained(capsys, 'rag')}\n{explained(capsys, 'strict')}" == explained(capsys, "rag", "strict")


@pytest.mark.parametrize("columns", [50, 100])
def test_when_to_take_which_fits_the_screen(capsys: Captured, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert [] == [line for line in explained(capsys).splitlines() if cell_len(line) > columns]


def test_each_policy_says_when_to_take_it(capsys: Captured) -> None:
    told = explained(capsys)
    assert [True] * 5 == [f"\n{name}: Take it " in f"\n{told}" for name in SHIPPED]


def test_an_unknown_name_is_told_those_that_there_are(capsys: Captured) -> None:
    assert 2 == main(["explain", "nope"])
    assert re.search(r"^groundwire: nope: no file, and no policy of that name; there are: .*\bstrict\b", capsys.readouterr().err, re.M)
