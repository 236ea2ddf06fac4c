"""``groundwire judge``: pairs of one's own, and what is fitted on the shipped ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.__main__ import main
from proxy.cli import judge
from proxy.cli.judge import JudgedPair, ask_judge, fit, read_pairs, shipped_pairs
from proxy.config.settings import Settings, load_settings
from proxy.errors import ConfigError
from proxy.grounding.judging.questions import JudgeOptions
from proxy.ports.judge import JudgeAnswer
from proxy.store.feedback import Feedback
from proxy.testing import ScriptedUpstream, completion, reply

PAIR = JudgedPair("The tower is in Paris.", "It stands in Paris.")


def settings_with(tmp_path: Path, url: str) -> Settings:
    path = tmp_path / "config.yaml"
    (tmp_path / "p.yaml").write_text("name: p\nstages: []\n")
    path.write_text(
        f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/s.db'}}\n"
        f"upstreams: {{main: {{kind: openai, base_url: '{url}', api_key: sk-test}}}}\n"
        "routes: [{prefix: '', upstream: main, policy: p.yaml}]\n"
    )
    return load_settings(path, {})


def test_pairs_are_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"statement": "A.", "evidence": "x"}\n\n{"statement": "B.", "evidence": ["x", "y"], "label": "neither"}\n')
    assert [("x",), ("x", "y")] == [pair.pieces for pair in read_pairs(file)]


@pytest.mark.parametrize(("text", "problem"), [("", "no pairs"), ('{"statement": "A."}', "line 1"), ("[]", "line 1")])
def test_what_is_no_pair_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_pairs(file)


def test_the_shipped_statements_are_balanced_and_of_many_documents() -> None:
    rows = shipped_pairs()
    assert {"supported": 102, "contradicted": 102, "neither": 102} == {
        label: sum(row.label == label for row in rows) for label in ("supported", "contradicted", "neither")
    }
    assert 34 == len({row.document for row in rows})


async def test_the_policy_s_judge_is_asked_through_config_yaml_s_upstream(tmp_path: Path) -> None:
    said = json.dumps({"answers": [{"number": 1, "reason": "It says so.", "answer": "supported", "confidence": 0.9}]})
    async with ScriptedUpstream(reply(completion(said))) as upstream:
        options = JudgeOptions(upstream="main", model="small")
        (answer,) = await ask_judge(options, [PAIR], settings_with(tmp_path, upstream.base_url))
    assert ("supported", "main/small", "It says so.") == (answer.choice, answer.by, answer.reason)


async def test_an_upstream_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no upstream 'other'"):
        await ask_judge(JudgeOptions(upstream="other", model="small"), [PAIR], settings_with(tmp_path, "http://127.0.0.1:9/v1"))


def answered(label: str, sure: float) -> JudgeAnswer:
    rest = (1 - sure) / 2
    return JudgeAnswer({one: sure if one == label else rest for one in ("supported", "contradicted", "neither")}, label, "a/b")


def test_a_judge_that_is_right_has_low_thresholds_and_full_precision() -> None:
    pairs = shipped_pairs()
    lines = fit(pairs, [answered(pair.label, 0.9) for pair in pairs], acts=True, fits=True)
    assert ["1.00", "1.00", "1.00"] == [line.split()[-5] for line in lines[2:5]]
    assert lines[-1].startswith("judge: {…, temperature: 0.25, min_support: 0.34, min_contradiction: 0.34")


def test_a_judge_that_is_too_sure_is_flattened_and_asked_for_more() -> None:
    """Of those that it calls contradicted with little certainty every other one is not."""
    pairs = shipped_pairs()
    answers = [
        answered("contradicted", 0.7) if pair.label == "neither" and i % 2 else answered(pair.label, 0.97) for i, pair in enumerate(pairs)
    ]
    lines = fit(pairs, answers, acts=False, fits=True)
    warn = next(line for line in lines if " warn " in line)
    assert float(warn.split()[3]) > 0.5
    assert warn.split()[4] == "1.00"


def test_too_few_answers_fit_nothing() -> None:
    pairs = shipped_pairs()
    lines = fit(pairs, [JudgeAnswer(problem="no answer in time")] * len(pairs), acts=True, fits=True)
    assert ["0 of 306 statements answered by nobody", "too few answers to fit anything: no answer in time"] == lines


def test_the_built_in_models_have_no_thresholds_of_a_judge() -> None:
    pairs = shipped_pairs()
    lines = fit(pairs, [answered(pair.label, 0.9) for pair in pairs], acts=True, fits=False)
    assert ["1.00"] * 3 == [line.split()[1] for line in lines[2:]]


def said(number: int, label: str, word: Any, expected: str = "", **content: Any) -> str:
    """A line of ``groundwire feedback export``."""
    kept = {"text": f"It has {number} rooms.", "evidence": {"text": "It has 7 rooms.", "source": "a.md"}} | content
    entry = Feedback(record_id=f"gw_{number}", client="a", policy="p", stage="claims", place="0:0-9", label=label, said=word, content=kept)
    return msgspec.json.encode(msgspec.structs.replace(entry, expected=expected)).decode()


def test_what_people_said_of_findings_are_labelled_pairs(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    lines = [
        said(1, "contradicted", "right"),
        said(2, "unsupported", "wrong", "supported"),
        said(3, "unsure", "wrong", "unsupported"),
        said(4, "contradicted", "wrong"),  # nobody said what it is
        said(5, "unsure", "right"),
        said(6, "supported", "right", text=""),  # its words were not kept
        said(7, "unsupported", "right", evidence=None),
        said(8, "block", "right", "", code="response_mismatch"),
    ]
    file.write_text("\n".join(lines))
    pairs = read_pairs(file)
    assert [("It has 1 rooms.", "contradicted"), ("It has 2 rooms.", "supported"), ("It has 3 rooms.", "neither")] == [
        (pair.statement, pair.label) for pair in pairs
    ]
    assert {("It has 7 rooms.",)} == {pair.pieces for pair in pairs}


def test_calibration_on_ones_own_rows_measures_these_and_refuses_too_few(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings_with(tmp_path, "http://127.0.0.1:9/v1")
    file = tmp_path / "said.jsonl"
    command = ["judge", "calibrate", str(tmp_path / "p.yaml"), "--rows", str(file), "--config", str(tmp_path / "config.yaml")]
    file.write_text("\n".join(said(number, "contradicted", "right") for number in range(39)))
    few = main(command)
    problem = capsys.readouterr().err
    rows = [said(number, "contradicted", "right") for number in range(100, 120)]
    rows += [said(7, "unsupported", "wrong", "supported") for _ in range(20)]
    rows += [said(8, "contradicted", "wrong") for _ in range(15)]
    file.write_text("\n".join(rows))
    enough = main(command)
    left_out, how, *lines = capsys.readouterr().out.splitlines()
    assert "15 of 55 rows left out: no label, or no sentence with its evidence" == left_out
    assert how.endswith("says what it should be: expected)")
    assert (2, True, 0) == (few, "39 labelled statements with evidence: fewer than 40" in problem, enough)
    assert "40 of 40 statements answered by" in lines[0]
    assert ["1.00 [0.84, 1.00]", "1.00 [0.84, 1.00]", "-"] == [line[14:33].strip() for line in lines[2:5]]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ((), "nobody"),
        (("",), "nobody"),
        (("exact rules", "exact rules"), "exact rules"),
        (("exact rules", "exact rules", "large@1", "small@4", "small@4"), "small@4, large@1"),
    ],
)
def test_all_who_judged_are_named(by: tuple[str, ...], names: str) -> None:
    assert names == judge._names([JudgeAnswer(by=name) for name in by])
