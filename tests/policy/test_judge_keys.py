"""``judge:`` of a policy, its old name, and the options of stages that it replaces."""

from __future__ import annotations

from pathlib import Path

import pytest

from proxy.errors import ConfigError
from proxy.grounding.judging.questions import JudgeOptions
from proxy.policy.loading import Policy, load_policy


def loaded(tmp_path: Path, text: str) -> Policy:
    path = tmp_path / "p.yaml"
    path.write_text(f"name: p\ndelivery: hold\n{text}\n", encoding="utf-8")
    return load_policy(path)


def refused(tmp_path: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, text)
    return f"{caught.value.path}: {caught.value.problem}"


def test_a_policy_without_one_has_the_built_in_models(tmp_path: Path) -> None:
    assert loaded(tmp_path, "stages: [claims: {}]").judge is None


def test_its_defaults_ask_a_chat_model_what_is_unsure(tmp_path: Path) -> None:
    found = loaded(tmp_path, "judge: {upstream: openai, model: small}\nstages: [claims: {}]").judge
    assert JudgeOptions(upstream="openai", model="small", kind="chat", ask="unsure", timeout_ms=4000) == found


def test_a_second_opinion_is_its_old_name(tmp_path: Path) -> None:
    found = loaded(tmp_path, "second_opinion: {upstream: openai, model: small, timeout_s: 2}\nstages: [claims: {}]").judge
    assert JudgeOptions(upstream="openai", model="small", timeout_ms=2000) == found


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("judge: {upstream: a}\nstages: [claims: {}]", "judge: kind chat needs upstream and model"),
        ("judge: {kind: builtin, upstream: a}\nstages: [claims: {}]", "judge: upstream is for kind"),
        ("judge: {upstream: a, modell: b}\nstages: [claims: {}]", "judge: unknown key 'modell'; did you mean 'model'?"),
        ("judge: {upstream: a, model: b, ask: some}\nstages: [claims: {}]", "judge.ask: expected one of unsure, all, got 'some'"),
        ("judge: {upstream: a, model: b}\nstages: [budget: {}]", "judge: no stage of this policy asks one; claims does"),
        ("second_opinion: {upstream: a}\nstages: [claims: {}]", "second_opinion: object missing required field `model`"),
        (
            "judge: {upstream: a, model: b}\nsecond_opinion: {upstream: a, model: b}\nstages: [claims: {}]",
            "second_opinion: is the old name of judge",
        ),
        ("stages: [relevance: {mode: llm}]", "stages[0].relevance: mode: llm needs a judge at the top of the policy"),
        ("judge: {kind: builtin}\nstages: [relevance: {mode: hybrid}]", "stages[0].relevance: mode: hybrid needs a judge"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert refused(tmp_path, text).startswith(problem)


@pytest.mark.parametrize(
    ("options", "instead"),
    [
        ("verifiers: [builtin]", "verifiers: a stage has no verifiers of its own any more: leave it out"),
        ("verifiers: [builtin, {llm: {upstream: o, model: m}}]", "write judge: {upstream: o, model: m, ask: unsure} at the top"),
        ("verifiers: [{llm: {upstream: o, model: m}}]", "write judge: {upstream: o, model: m, ask: all} at the top"),
        ("verifiers: [{model: nli}]", "write judge: {kind: builtin, model: nli} at the top"),
        ("verifiers: 7", "verifiers: a stage has no verifiers"),
        ("combine: mean", "combine: a stage has no judge of its own any more"),
        ("unsure: [0.2, 0.8]", "unsure: a stage has no judge of its own any more"),
        ("second_opinion: {upstream: o, model: m}", "second_opinion: a stage has no judge of its own any more: write judge:"),
    ],
)
def test_a_stage_s_own_judge_is_refused_with_what_to_write(tmp_path: Path, options: str, instead: str) -> None:
    said = refused(tmp_path, f"stages: [claims: {{{options}}}]")
    assert (True, True) == (said.startswith("stages[0].claims."), instead in said)


@pytest.mark.parametrize(
    ("option", "instead"), [("max_pairs: 9", "64 pairs of a request"), ("min_score: 0.7", "the threshold is the built-in one's")]
)
def test_an_option_that_is_gone_is_refused_with_what_to_write(tmp_path: Path, option: str, instead: str) -> None:
    said = refused(tmp_path, f"stages: [clash: {{{option}}}]")
    name = option.partition(":")[0]
    assert said.startswith(f"stages[0].clash.{name}: there is no such option any more: leave it out, {instead}")


@pytest.mark.parametrize("stage", ["compression", "history"])
def test_an_option_inside_of_another_that_is_gone_is_refused_too(tmp_path: Path, stage: str) -> None:
    said = refused(tmp_path, f"stages: [budget, {{{stage}: {{summariser: {{upstream: o, model: m, timeout_s: 60}}}}}}]")
    assert said.startswith(f"stages[1].{stage}.summariser.timeout_s: there is no such option any more: leave it out")


def test_relevance_has_no_model_of_its_own_either(tmp_path: Path) -> None:
    said = refused(tmp_path, "stages: [relevance: {mode: llm, llm: {upstream: o, model: m}}]")
    assert said.startswith("stages[0].relevance.llm: a stage has no judge of its own any more: write judge: {upstream")
