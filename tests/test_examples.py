"""The scripts of examples/ run as they are, and say what their documents ask for."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def from_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``python examples/NAME.py`` has it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.delitem(sys.modules, "scripted", raising=False)


def run(name: str, capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    """What a script prints: the lines below each that begins at the margin."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    blocks = re.split(r"\n(?=\S)", capsys.readouterr().out.strip())
    return {head: rest for head, _, rest in (block.partition("\n") for block in blocks)}


def test_a_window_that_fills(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("budget_and_compression", capsys)
    at = {share: next(rest for head, rest in said.items() if head.startswith(f"about {share}%")) for share in (60, 72, 82, 92)}
    assert "none;below-threshold, warnings: unchecked_no_answer_check" in at[60]
    assert "none;below-threshold, warnings: context_usage_high" in at[72]
    assert re.search(r"compression: trim[\w+]*;\d+->\d+;[\d.]+x, warnings: context_usage_compress\b", at[82])
    assert re.search(r"compression: summarize[\w+]*;\d+->\d+;[\d.]+x, warnings: context_usage_critical\b", at[92])
    forwarded = {share: int(re.findall(r"context: (\d+)/8192", text)[0]) / 8192 for share, text in at.items()}
    assert forwarded[92] < 0.2 < forwarded[82] <= 0.6 < forwarded[72]
    assert "the decision is still in the prompt: True" in at[82]
    assert "the decision is still in the prompt: True" in at[92]
    assert re.search(r"sp_\w+: \d+ characters", said["what left the prompt can be read back, byte for byte:"])
    refused = said["a system message that cannot be shortened: 400 context_length_exceeded"]
    assert "Compress context or split content" in refused
    counters = ("usage_warning_count", "compression_triggered_count", "critical_alerts_count", "compression_failures")
    assert [] == [name for name in counters if f"context.{name}: 1" not in refused]


def test_four_ways_in_which_a_context_goes_bad(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("clean_context", capsys)
    assert ["poisoning", "distraction", "confusion", "clash"] == list(said)
    assert "the model got: [This content was removed by the proxy's policy.]" in said["poisoning"]
    assert re.search(r"qr_\w+… is (rejected|pending), wrong_location; known is: The Eiffel Tower .*Paris", said["poisoning"])
    assert "DISTRACTION: 25 > 20 messages, MEDIUM" in said["distraction"]
    assert re.search(r"'search for flights': tools: 45->[2-5]\n.*\bsearch_flights\b", said["confusion"])
    assert re.search(r"'Book hotel in Paris': tools: 45->[2-6]\n.*\bbook_hotel\b", said["confusion"])
    assert "CONTRADICTORY_PREFERENCES: I prefer budget hotels. / I prefer luxury hotels." in said["clash"]
    assert "resolved: new statement is more recent" in said["clash"]


def test_a_failure_that_is_told_and_one_that_is_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("failure_memory", capsys)
    assert (
        "the model was told: - search_docs timed out with limit=50: ask for at most 10."
        in said["50 results at once time out: failures: 1, warnings: unchecked_no_answer_check"]
    )
    assert "the model was told nothing" in said["10 results come: failures: 0, warnings: unchecked_no_answer_check"]
    record = said["the failure record, which holds no word of the conversation:"]
    assert [] == [line for line in ('status: "resolved"', "helpful_count: 1", "harmful_count: 0") if line not in record]
    assert (
        "the model was not asked; the answer is: search_docs denied access 3 times."
        in said["denied, 3: failures: 0, warnings: human_asked"]
    )


def test_answers_checked_against_their_passages(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("faithful_answers", capsys)
    assert (
        "the client got: Timmy runs on mimo-v2-pro.\n  verdict: pass, warnings: -\n  faithfulness: 0.91, citations: 1/1, confidence: HIGH"
        in said["faithful"]
    )
    assert "citation_invented" in said["made up, with a source that nobody gave"]
    assert "warnings: context_ignored\n  faithfulness: 0.05, citations: 0/0" in said["from training, past the context"]
    assert "verdict: unchecked, warnings: unchecked_no_statements\n  faithfulness: -" in said["does not know"]
    got = said["the model got:"]
    assert [] == [
        text
        for text in ("CONTEXT-FAITHFUL", "### Passage 1 [Source: 01-hardware.md]", "Question: What model does Timmy use?")
        if text not in got
    ]


def test_a_stream_whose_sentences_get_their_marks_afterwards(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("streamed_verdict", capsys)
    assert "Pets are welcome." in said["as it came, verdict: pending"]
    (marks,) = [rest for head, rest in said.items() if head.startswith("a moment later, verdict: warn, faithfulness: 0.")]
    assert re.fullmatch(
        r"  ✓ Your lease ends on 31 May 2027\.\n  ✕ The rent is 950 euros a month\. \(the lease says 900.*\)\n  [?~] Pets are welcome\.",
        marks,
    )


def test_questions_that_the_documents_cannot_answer(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("relevance_guard", capsys)
    refused = "Diese Information ist nicht in der Wissensdatenbank enthalten."
    assert re.search(rf"was not asked; relevance: 0\.[0-3].*low_relevance\n.*{refused}", said["documents about something else"])
    assert re.search(rf"was not asked; relevance: 0\.00.*low_relevance\n.*{refused}", said["nothing was found"])
    assert re.search(r"the model was asked; relevance: 0\.[4-9].*verdict: pass, warnings: -", said["a document that fits"])


def test_a_coding_agent_whose_turns_are_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("coding_agent", capsys)
    assert ["read_file", "run_tests", "edit_file", "run_tests", "area multiplies now, and its test passes."] == [
        head.partition(":")[0] for head in said
    ]
    assert "5 turns of one run" in said["area multiplies now, and its test passes."]


def test_a_verifier_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    said = run("custom_verifier", capsys)
    assert "verdict: pass, faithfulness: 1.00\n  supported by by-words-1" in said["in the passage's words"]
    assert "unsure by by-words-1: Passengers sleep in cabins" in said["of something else"]


@pytest.mark.process
def test_a_script_is_a_program_of_its_own() -> None:
    done = subprocess.run([sys.executable, "examples/failure_memory.py"], cwd=EXAMPLES.parent, capture_output=True, text=True, check=True)
    assert "the model was not asked; the answer is: search_docs denied access 3 times." in done.stdout


def test_every_script_is_listed_and_short() -> None:
    scripts = {path.name: len(path.read_text("utf-8").splitlines()) for path in EXAMPLES.glob("*.py") if path.name != "scripted.py"}
    page = (EXAMPLES / "README.md").read_text("utf-8")
    assert [] == [name for name, lines in scripts.items() if lines >= 80 or f"`{name}`" not in page]
    assert 8 == len(scripts)
