"""A second opinion: which claims it is asked about, what it changes, and what becomes of them where it fails."""

import json
from pathlib import Path
from typing import Any

import pytest

from proxy.errors import ConfigError, UpstreamTimeout
from proxy.exchange.judgements import Claim, EvidenceSpan, Judgement, Label
from proxy.grounding.judging.second_opinion import MAX_CLAIMS, Opinions, SecondOpinion, SecondOpinions, open_to
from proxy.policy.loading import load_policy
from proxy.stages.claims import ClaimsOptions
from proxy.testing import ScriptedChat

OPTIONS = SecondOpinion(upstream="openai", model="small")
SPAN = EvidenceSpan("The tower is in Paris.", 0, 22)


def judgement(label: Label = "unsure", text: str = "The tower is ugly.", by: Any = "model") -> Judgement:
    return Judgement(Claim(text, 0, len(text)), label, 0.3, 0.4, SPAN, verifier="builtin", decided_by=by)


def verdicts(*words: tuple[int, str, float]) -> str:
    return json.dumps({"verdicts": [{"claim": n, "reason": "So.", "verdict": word, "confidence": sure} for n, word, sure in words]})


async def asked(answers: Any, *judgements: Judgement, deadline_s: float = 5) -> tuple[Opinions, ScriptedChat]:
    chat = ScriptedChat(answers)
    evidence = {i: SPAN.text for i, one in enumerate(judgements) if open_to(one)}
    return await SecondOpinions(chat, OPTIONS).on(judgements, evidence, "client", deadline_s), chat


@pytest.mark.parametrize(
    ("label", "by", "wanted"),
    [
        ("unsure", "model", True),
        ("unsupported", "model", True),
        ("unsure", "recomputed", True),
        ("contradicted", "exact", False),
        ("supported", "model", False),
        ("not_checkable", "", False),
        ("error", "", False),
        ("unsupported", "knowledge", False),
    ],
)
def test_only_what_is_open_is_asked_about(label: Label, by: str, wanted: bool) -> None:
    assert wanted == open_to(judgement(label, by=by))


async def test_all_open_claims_are_asked_about_in_one_call() -> None:
    answer = verdicts((1, "contradicted", 0.9), (2, "supported", 0.9), (3, "unsupported", 0.9))
    found, chat = await asked(
        [answer], judgement(text="A."), judgement("contradicted", by="exact"), judgement(text="B."), judgement(text="C.")
    )
    assert 1 == len(chat.asked)
    assert [("contradicted", "second_opinion"), ("contradicted", "exact"), ("supported", "second_opinion"), ("unsure", "model")] == [
        (one.label, one.decided_by) for one in found.judgements
    ]
    assert (3, "", "openai/small") == (found.asked, found.failure, found.judgements[0].verifier)


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("Let me think. " + verdicts((1, "contradicted", 0.9)) + " That is all.", "contradicted"),
        ("```json\n" + verdicts((1, "supported", 0.9)) + "\n```", "supported"),
        (verdicts((1, "contradicted", 0.5)), "unsure"),
        (verdicts((7, "contradicted", 0.9), (1, "supported", 0.9)), "supported"),
        (verdicts((7, "contradicted", 0.9)), "unsure"),
        ("I cannot help with that.", "unsure"),
        (verdicts((1, "contradicted", 0.9))[:40], "unsure"),
    ],
)
async def test_answers_are_read_leniently_and_never_guessed(answer: str, label: str) -> None:
    found, _ = await asked([answer], judgement())
    assert label == found.judgements[0].label


@pytest.mark.parametrize("answer", ["I cannot help with that.", UpstreamTimeout("no answer"), ""])
async def test_a_failure_leaves_claims_as_they_are_and_says_so(answer: Any) -> None:
    found, _ = await asked([answer], judgement(), judgement("supported"))
    assert ["unsure", "supported"] == [one.label for one in found.judgements]
    assert found.failure
    assert [True, False] == [one.reason.startswith("second opinion: ") for one in found.judgements]


async def test_a_call_is_bounded() -> None:
    many = [judgement(text=f"Claim {i}.") for i in range(MAX_CLAIMS + 5)]
    found, chat = await asked([verdicts(*((i, "supported", 0.9) for i in range(1, MAX_CLAIMS + 1)))], *many)
    assert (1, MAX_CLAIMS, ["unsure"] * 5) == (len(chat.asked), found.asked, [one.label for one in found.judgements[MAX_CLAIMS:]])


async def test_without_open_claims_nobody_is_asked() -> None:
    found, chat = await asked([""], judgement("supported"))
    assert (0, []) == (found.asked, chat.asked)


# ---- the policy ----


def policy(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(f"name: p\ndelivery: hold\n{text}\n", encoding="utf-8")
    return path


def test_the_policy_s_key_is_given_to_the_stage(tmp_path: Path) -> None:
    found = load_policy(policy(tmp_path, "second_opinion: {upstream: openai, model: small}\nstages: [claims: {}]"))
    options = found.stages[0].options
    assert isinstance(options, ClaimsOptions)
    assert OPTIONS == options.second_opinion
    assert {"second_opinion.upstream": "openai"} == dict(found.stages[0].stage.asks(options))


def test_a_policy_without_a_stage_that_asks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no stage of this policy asks for one"):
        load_policy(policy(tmp_path, "second_opinion: {upstream: openai, model: small}\nstages: [budget: {}]"))


def test_its_keys_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="second_opinion"):
        load_policy(policy(tmp_path, "second_opinion: {upstream: openai}\nstages: [claims: {}]"))
