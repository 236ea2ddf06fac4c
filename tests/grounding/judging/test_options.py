"""What a policy may say of verifiers, and what comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from proxy.config.conversion import checked
from proxy.errors import ConfigError
from proxy.grounding.judging.llm import LLMVerifier
from proxy.grounding.judging.options import VerifierOptions, asks, local_models, make_verifier
from proxy.policy.loading import load_policy
from proxy.ports.stage import Stage
from proxy.testing import ScriptedVerifiers, make_ports

LLM = {"llm": {"upstream": "judge", "model": "small"}}


def read(**options: Any) -> VerifierOptions:
    return checked(options, VerifierOptions, "p.yaml", "stages[0].claims")


def refused(**options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**options)
    return f"{caught.value.path}: {caught.value.problem}"


def test_the_built_in_one_judges_unless_told_otherwise() -> None:
    options = read()
    assert (("builtin",), "cascade", (0.2, 0.8)) == (options.verifiers, options.combine, options.unsure)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"verifiers": []}, "stages[0].claims.verifiers: expected `array` of length >= 1"),
        ({"verifiers": ["bultin"]}, "stages[0].claims.verifiers[0]: invalid enum value 'bultin'"),
        ({"verifiers": ["builtin", {}]}, "stages[0].claims.verifiers[1]: expected builtin, {model: NAME_OR_FOLDER} or {llm:"),
        ({"verifiers": [{"model": "a", **LLM}]}, "stages[0].claims.verifiers[0]: expected builtin, {model:"),
        ({"verifiers": [{"modell": "a"}]}, "stages[0].claims.verifiers[0]: unknown key 'modell'; did you mean 'model'?"),
        ({"verifiers": [{"llm": {"model": "m"}}]}, "stages[0].claims.verifiers[0].llm: object missing required field `upstream`"),
        ({"verifiers": [{"llm": {**LLM["llm"], "max_claims": 0}}]}, "stages[0].claims.verifiers[0].llm.max_claims: expected `int` >= 1"),
        ({"verifiers": ["builtin", "builtin"]}, "stages[0].claims: verifiers[1] stands here twice"),
        ({"combine": "vote"}, "stages[0].claims.combine: expected one of cascade, mean, strictest, got 'vote'"),
        ({"unsure": [0.8, 0.2]}, "stages[0].claims: unsure: expected [LOW, HIGH] with LOW below HIGH"),
        ({"unsure": [0.2, 1.2]}, "stages[0].claims.unsure[1]: expected `float` <= 1.0"),
    ],
)
def test_what_is_refused_and_where(options: dict[str, Any], problem: str) -> None:
    assert refused(**options).startswith(problem)


def test_upstreams_that_are_asked_have_their_path() -> None:
    assert {"verifiers[1].llm.upstream": "judge"} == asks(read(verifiers=["builtin", LLM]))
    assert {} == asks(read())


def test_models_of_this_process_are_those_to_load_at_start() -> None:
    assert ("", "nli") == local_models(read(verifiers=["builtin", LLM, {"model": "nli"}]))
    assert () == local_models(read(verifiers=[LLM]))
    assert ("",) == local_models(Stage.Options())


def test_the_verifier_asks_those_that_are_listed_in_their_order() -> None:
    class Sources(ScriptedVerifiers):
        def get(self, model: str = "") -> ScriptedVerifiers:
            found = ScriptedVerifiers()
            found.name = model or "builtin"
            return found

    verifier = make_verifier(read(verifiers=[{"model": "nli"}, "builtin", LLM], combine="mean"), make_ports(verifiers=Sources()))
    assert "mean(nli, builtin, judge/small)" == verifier.name
    assert isinstance(verifier._members[2], LLMVerifier)


def test_a_policy_s_stage_takes_them_as_its_options(tmp_path: Path) -> None:
    class Verifies(Stage):
        name = "verifies"
        Options = VerifierOptions

    policy = tmp_path / "p.yaml"
    policy.write_text("name: p\nstages: [verifies: {verifiers: [builtin, {model: nli}], combine: strictest}]\n")
    (spec,) = load_policy(policy, [Verifies]).stages
    assert read(verifiers=["builtin", {"model": "nli"}], combine="strictest") == spec.options
