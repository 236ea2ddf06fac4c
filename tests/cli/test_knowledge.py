"""``groundwire knowledge``: what it prints, and what it exits with. The models are the built-in ones."""

from pathlib import Path

import pytest

from proxy.__main__ import main
from proxy.cli.knowledge import described
from proxy.exchange.judgements import FactVerdict
from tests.processes import write_config

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "facts").mkdir()
    (tmp_path / "facts" / "a.csv").write_text("subject,statement,source\nNorway,The capital of Norway is Oslo.,atlas\n")
    return tmp_path / "facts"


def run(folder: Path, word: str, *arguments: str) -> int:
    config = write_config(folder.parent, "http://127.0.0.1:9/v1")
    return main(["knowledge", word, str(folder), *arguments, "--config", str(config)])


@pytest.mark.parametrize("word", ["build", "check"])
def test_a_missing_folder_is_refused(tmp_path: Path, word: str, capsys: Captured) -> None:
    assert 2 == run(tmp_path / "nowhere", word, *(["x"] if word == "check" else []))
    assert "nowhere: no such folder of facts\n" == capsys.readouterr().err[-len("nowhere: no such folder of facts\n") :]


def test_a_verdict_is_printed_without_what_it_does_not_have() -> None:
    found = FactVerdict(
        "INVALID",
        0.954,
        "The capital of Norway is Oslo.",
        "atlas",
        "kf_1",
        "name Bergen",
        "v1",
        {"instead": "Oslo", "fact_source": "atlas"},
    )
    assert [
        "INVALID 0.95",
        "fact: The capital of Norway is Oslo.",
        "source: atlas",
        "instead: Oslo",
        "reason: name Bergen",
        "version: v1",
    ] == described(found)
    assert ["UNKNOWN 0.00", "reason: no_fact"] == described(FactVerdict("UNKNOWN", reason="no_fact"))


@pytest.mark.slow
def test_a_build_says_what_it_did_and_what_it_left_out(folder: Path, capsys: Captured) -> None:
    assert 0 == run(folder, "build")
    assert "1 facts, version " in capsys.readouterr().out
    (folder / "b.jsonl").write_text("{bad\n")
    assert 1 == run(folder, "build")
    captured = capsys.readouterr()
    assert "b.jsonl:1: is not JSON" in captured.err
    assert "(0 embedded, 0 removed, 1 left out; flat index)" in captured.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("claim", "first"),
    [("the capital of norway is oslo", "VALID 1.00"), ("The capital of Norway is Bergen.", "INVALID"), ("I like tea.", "UNKNOWN")],
)
def test_a_claim_is_checked_with_or_without_an_index(folder: Path, capsys: Captured, claim: str, first: str) -> None:
    assert 0 == run(folder, "check", claim)
    without = capsys.readouterr().out
    assert first == without[: len(first)]
    run(folder, "build")
    capsys.readouterr()
    assert 0 == run(folder, "check", claim)
    assert without == capsys.readouterr().out
