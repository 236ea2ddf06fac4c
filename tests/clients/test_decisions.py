"""Real clients of decision models, before the built-in judge itself and before a proxy that passes them on to it.

openai-python's decisions resource, TypeSafe's SDK for System One, and litellm, which speaks both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import KEY, Outcome, run_at_each
from tests.clients.servers import serve

pytestmark = pytest.mark.clients

POLICY = "name: empty\ndelivery: tap\nstages: []\n"
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{judge: {upstream}}}
routes: [{{prefix: /judge, upstream: judge, policy: policy.yaml}}]
keys: [{{name: tests, sha256: {digest}}}]
"""
Run = Callable[[str], Outcome]


def written(folder: Path, upstream: str) -> Path:
    """A folder to serve from."""
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG.format(folder=folder, upstream=upstream, digest=digest), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Of the judge, and of a proxy before it."""
    with serve(written(tmp_path_factory.mktemp("judge"), "{kind: builtin}")) as judge:
        upstream = f"{{kind: openai, base_url: '{judge}/judge/v1', api_key: {KEY}}}"
        with serve(written(tmp_path_factory.mktemp("passing"), upstream)) as passing:
            yield {"built in": judge, "passed through": passing}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, Outcome]]:
    """By script and address."""
    return {}


@pytest.fixture(params=["built in", "passed through"])
def run(
    request: pytest.FixtureRequest,
    addresses: dict[str, str],
    outcomes: dict[str, dict[str, Outcome]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Run:
    def once(script: str) -> Outcome:
        if script not in outcomes:
            base_urls = {name: f"{address}/judge/v1" for name, address in addresses.items()}
            outcomes[script] = run_at_each(script, tmp_path_factory.mktemp("script"), base_urls)
        return outcomes[script][request.param]

    return once


def named(answers: list[dict[str, Any]]) -> dict[str | None, dict[str, Any]]:
    return {answer["name"]: answer for answer in answers}


def test_openai_python_reads_every_kind_of_answer(run: Run) -> None:
    got = run("openai_decisions.py")["answers"]
    found = named(got["answers"])
    assert ["Predicate", "Refusal", "Choice", "Choice", "Score"] == [name.removeprefix("AnswerAnswerResource") for name in got["types"]]
    assert (0.0, "refusal") == (found["late"]["probability"], found["asked"]["type"])
    assert ("supported", True) == (found["bears"]["choice"], found[None]["choice"])
    assert 1.0 == pytest.approx(sum(one["probability"] for one in found[None]["probabilities"]))
    assert [True, False] == [one["value"] for one in found[None]["probabilities"]]
    assert 0.5 < found["level"]["score"] <= 1
    assert got["tokens"] == got["total"] > 50
    assert "skipped" == got["headers"]["x-groundwire-verdict"]


def test_openai_python_awaits_it(run: Run) -> None:
    assert ["predicate", "refusal", "choice", "choice", "score"] == run("openai_decisions.py")["asynchronous"]


def test_openai_python_sends_a_conversation(run: Run) -> None:
    assert 0.0 == run("openai_decisions.py")["a_conversation"]["probability"]


@pytest.mark.parametrize(("case", "param"), [("an_image", "input[0].content[0]"), ("a_bad_field", "questions[0].type")])
def test_openai_python_raises_a_bad_request_with_the_field(case: str, param: str, run: Run) -> None:
    got = run("openai_decisions.py")[case]
    assert (400, param, True) == (got["status_code"], got["param"], "BadRequestError" in got["kinds"])


def test_a_wrong_key_is_an_authentication_error(run: Run) -> None:
    assert run("openai_decisions.py")["a_wrong_key"] is True
    assert "TypeSafeAuthenticationError" == run("typesafe_decisions.py")["a_wrong_key"]


def test_typesafe_s_sdk_reads_every_kind_of_answer(run: Run) -> None:
    got = run("typesafe_decisions.py")["answers"]
    assert (["late", "meant"], 0.0, True) == (list(got["nouls"]), got["nouls"]["late"], got["nouls"]["meant"] > 0.5)
    assert ("money", got["choice"]["confidence"]) == (got["choice"]["choice"], max(got["choice"]["probabilities"].values()))
    assert 0.5 < got["score"]["score"] <= 1
    assert ["0", "1"] == sorted(got["score"]["legend"])
    assert got["tokens"] > 50
    assert got["model"].startswith("groundwire-verifier@")


def test_typesafe_s_sdk_awaits_it_and_sends_what_is_long(run: Run) -> None:
    got = run("typesafe_decisions.py")
    assert (["late"], 0.0) == (got["asynchronous"], got["a_long_state"])


def test_typesafe_s_sdk_raises_an_unprocessable_entity_with_the_field(run: Run) -> None:
    got = run("typesafe_decisions.py")["a_bad_field"]
    assert ("TypeSafeUnprocessableEntityError", 422) == (got["kind"], got["status"])
    assert "images: only text is read here" in got["text"]


def test_litellm_reads_openai_s_shape(run: Run) -> None:
    found = named(run("litellm_decisions.py")["decisions"])
    assert (0.0, "refusal", "money") == (found["late"]["probability"], found["asked"]["type"], found["which"]["choice"])


def test_litellm_reads_system_one_s_shape(run: Run) -> None:
    found = run("litellm_decisions.py")["systemone"]
    assert ["late", "level"] == sorted(found)
    assert (0.0, True) == (found["late"]["noul"], 0.5 < found["level"]["score"] <= 1)


def test_litellm_raises_with_the_field(run: Run) -> None:
    got = run("litellm_decisions.py")["a_bad_field"]
    assert (422, True) == (got["status"], "questions.q.instructions" in got["text"])
