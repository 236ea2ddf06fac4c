"""config.yaml's ``grounding:`` and the server around it: when the verifier is loaded, what `/ready` says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.config.sections import GroundingSettings
from proxy.config.settings import Settings, load_settings
from proxy.errors import ConfigError, ModelUnavailable
from proxy.exchange import Exchange, Verdict
from proxy.exchange.judgements import ClaimPair
from proxy.models.making import make_pair_model
from proxy.models.verifier.onnx import FOLDER, OnnxVerifier
from proxy.models.verifier.verifier import PairModel, WithFallback
from proxy.ports.stage import Stage
from tests.conftest import Start
from tests.models import tiny_verifier
from tests.processes import write_config

POLICY = "name: p\ndelivery: hold\nstages: [verifies]\n"
AT_START = POLICY.replace("name: p\n", "name: p\nload_models: at_start\n")


class Verifies(Stage):
    name = "verifies"
    verifies = True

    def __init__(self, options, ports) -> None:  # type: ignore[no-untyped-def]
        super().__init__(options, ports)
        self.verifier = ports.verifiers.get(ports.judge.local_model)

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        (support,) = await self.verifier.verify([ClaimPair("yes", "yes")])
        return Verdict("verifies", "pass", score=support.supported if support else None)


def with_tiny(folder: Path) -> str:
    return f"grounding: {{model: '{tiny_verifier.make(folder / 'tiny')}'}}\n"


async def test_a_stage_that_verifies_gets_the_verifier(start: Start, tmp_path: Path) -> None:
    async with start(policy=POLICY, stages=[Verifies], config=with_tiny(tmp_path)) as proxy:
        await proxy.app.verifiers.load()
        assert "verifier" not in (await proxy.get("/ready")).json.get("missing", {})
        assert ["pass"] == await proxy.stage_outcomes(await proxy.post(), "verifies")
        assert "tiny@7" == proxy.app.verifiers.get().name


async def test_the_verifier_of_a_route_s_own_policy_is_loaded_at_start(start: Start, tmp_path: Path) -> None:
    async with start(policy=AT_START, stages=[Verifies], config=with_tiny(tmp_path)) as proxy:
        for task in proxy.app._loading:
            await task
        assert "tiny@7" == proxy.app.verifiers.get().name
        assert "verifier" not in proxy.app.missing()


async def test_ready_says_why_the_verifier_cannot_judge(start: Start, tmp_path: Path) -> None:
    async with start(policy=AT_START, stages=[Verifies], config=f"grounding: {{model: '{tmp_path / 'absent'}'}}\n") as proxy:
        for task in proxy.app._loading:
            await task
        assert "verifier.json cannot be read" in proxy.app.missing()["verifier"]
        assert 503 == (await proxy.get("/ready")).status
        assert "error" == (await proxy.post()).verdict


async def test_a_verifier_that_cannot_be_read_at_its_first_use_is_an_error_and_breaks_no_other_request(
    start: Start, tmp_path: Path
) -> None:
    plain = {"plain": "name: plain\nstages: []\n"}
    broken = f"grounding: {{model: '{tmp_path / 'absent'}'}}\n"
    async with start(policy=POLICY, policies=plain, route_options="allow_policies: [plain]", stages=[Verifies], config=broken) as proxy:
        assert (None, []) == (proxy.app.verifiers.problem, proxy.app._loading)
        first, beside = await asyncio.gather(proxy.post(), proxy.post(x_groundwire_policy="plain"))
        assert (200, "error") == (first.status, first.verdict)
        assert (200, "skipped") == (beside.status, beside.verdict)
        assert "verifier.json cannot be read" in proxy.app.missing()["verifier"]


async def test_a_policy_that_only_some_requests_ask_for_loads_it_with_the_first(start: Start, tmp_path: Path) -> None:
    async with start(
        policy="name: q\nstages: []\n",
        policies={"p": POLICY},
        route_options="allow_policies: [p]",
        stages=[Verifies],
        config=with_tiny(tmp_path),
    ) as proxy:
        assert (None, []) == (proxy.app.verifiers.problem, proxy.app._loading)
        assert ["pass"] == await proxy.stage_outcomes(await proxy.post(x_groundwire_policy="p"), "verifies")
        assert "tiny@7" == proxy.app.verifiers.get().name


@pytest.mark.process
def test_a_policy_that_verifies_imports_nothing_heavy_before_the_server_starts(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    (tmp_path / "policy.yaml").write_text(POLICY)
    code = (
        "import sys; from proxy.app import App; from proxy.config.settings import load_settings; "
        "from proxy.ports.stage import Stage\n"
        "class Verifies(Stage):\n"
        "    name, verifies = 'verifies', True\n"
        "    def __init__(self, options, ports): self.verifier = ports.verifiers.get()\n"
        "App(load_settings(sys.argv[1]), [Verifies])\n"
        "print([m for m in ('numpy', 'onnxruntime', 'tokenizers', 'torch') if m in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(config)], capture_output=True, text=True, timeout=60)
    assert "[]" == ended.stdout.strip(), ended.stderr


# ---- config.yaml ----


def load(tmp_path: Path, grounding: str) -> Settings:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    config.write_text(config.read_text() + f"grounding: {grounding}\n")
    return load_settings(config, {})


def test_defaults(tmp_path: Path) -> None:
    assert GroundingSettings(model="", threads=0) == load(tmp_path, "{}").grounding


@pytest.mark.parametrize(
    ("text", "path"), [("{thread: 1}", "grounding"), ("{threads: -1}", "grounding.threads"), ("{large: x}", "grounding.large")]
)
def test_what_is_refused(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert path == caught.value.path


def parts(model: PairModel) -> tuple[OnnxVerifier, OnnxVerifier]:
    """A folder's model, and what judges the languages that it does not know."""
    assert isinstance(model, WithFallback)
    first, second = model._both
    assert isinstance(first, OnnxVerifier)
    assert isinstance(second, OnnxVerifier)
    return first, second


def test_models_are_found_by_folder(tmp_path: Path) -> None:
    settings = load(tmp_path, "{}")
    (tmp_path / "nli").mkdir()
    builtin, both = (make_pair_model(settings, name) for name in ("", "nli"))
    assert isinstance(builtin, OnnxVerifier)
    own, other = parts(both)
    assert (FOLDER, False) == (other._folder, other._decides)
    assert (FOLDER, tmp_path / "nli", False, True) == (builtin._folder, own._folder, builtin._decides, own._decides)
    with pytest.raises(ModelUnavailable, match="a model of a hub is asked through an upstream"):
        make_pair_model(settings, "cross-encoder/nli-deberta-v3-small")


def test_another_folder_takes_the_built_in_one_s_place_and_is_relative_to_the_config_file(tmp_path: Path) -> None:
    model, other = parts(both := make_pair_model(load(tmp_path, "{model: verifier, threads: 3}"), ""))
    assert (tmp_path / "verifier", FOLDER, 3) == (model._folder, other._folder, both.lanes)
