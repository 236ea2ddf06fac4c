"""``groundwire explain``: one policy on a screen, several side by side."""

import re
from pathlib import Path

import pytest
from rich.cells import cell_len

from proxy.__main__ import main
from proxy.cli.compare import rows
from proxy.cli.explain import purpose
from proxy.policy.loading import load_policy

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
    assert (True, True) == (len(lines) <= 42, all(len(line) <= 80 for line in lines[1:]))


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


@pytest.mark.parametrize("names", [("default", "rag", "strict"), ()])
@pytest.mark.parametrize("columns", [80, 100, 160])
def test_side_by_side_fits_the_screen(capsys: Captured, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], columns: int) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = explained(capsys, *names).splitlines()
    assert [] == [line for line in lines if cell_len(line) > columns]
    assert [list(names or SHIPPED)] == [line.split() for line in lines if line.split()[-1:] == ["strict"]]


def test_on_a_narrow_screen_the_table_comes_in_parts(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    heads = [line.split() for line in explained(capsys, *SHIPPED).splitlines() if line.split() and set(line.split()) <= set(SHIPPED)]
    assert [["observe", "default"], ["agent", "rag"], ["strict"]] == heads


def test_each_policy_says_when_to_take_it(capsys: Captured) -> None:
    told = explained(capsys)
    assert [True] * 5 == [f"\n{name}: Take it " in f"\n{told}" for name in SHIPPED]


def test_rows_are_stages_then_options_that_differ_then_actions(tmp_path: Path) -> None:
    texts = {
        "a": "name: a\ndelivery: tap\nstages: [citations: {}]\n",
        "b": "name: b\ndelivery: hold\nenforce: false\nstages: [budget, citations: {on_error: closed, action: block}]\n",
    }
    found = list(rows([load_policy(written(tmp_path, name, text)) for name, text in texts.items()], ("y", "n")))
    assert [
        ("answers leave", ("as they come", "when whole"), True),
        ("shadow mode", ("n", "y"), True),
        ("budget", ("n", "y"), True),
    ] == found[:3]
    assert [
        ("citations", ("y", "y"), True),
        ("  action", ("annotate", "block"), False),
        ("  on_error", ("open", "closed"), False),
        ("  warn: citation_invented", ("y", "n"), False),
        ("  warn: context_ignored", ("y", "y"), False),
        ("  block: citation_invented", ("n", "y"), False),
    ] == found[-6:]


def test_without_a_terminal_that_has_the_marks_words_stand_for_them(tmp_path: Path) -> None:
    import io

    from proxy.cli.compare import compare
    from proxy.cli.terminal import Terminal

    policies = [load_policy(ROOT / "policies" / f"{name}.yaml") for name in ("observe", "strict")]
    lines = compare(policies, Terminal(io.TextIOWrapper(io.BytesIO(), encoding="ascii"), {}), 80)
    assert ["claims", "-", "yes"] in [line.split() for line in lines]


def test_an_unknown_name_is_told_those_that_there_are(capsys: Captured) -> None:
    assert 2 == main(["explain", "nope"])
    assert re.search(r"^groundwire: nope: no file, and no policy of that name; there are: .*\bstrict\b", capsys.readouterr().err, re.M)
