"""config.yaml's ``embeddings:`` and the server around it: when the model is loaded, what `/ready` says."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from proxy.config.settings import EmbeddingSettings, Settings, load_settings
from proxy.errors import ConfigError, ModelUnavailable
from proxy.exchange import Exchange, Verdict
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder
from proxy.models.making import DeferredModels, make_embedder, make_models
from proxy.models.tools.ranker import EmbeddingToolRanker
from proxy.ports.stage import Stage
from proxy.store.vectors import DatabaseVectors
from proxy.testing import MemoryToolOutcomes
from tests.conftest import Start
from tests.processes import write_config

INSTALLED = importlib.util.find_spec("sentence_transformers") is not None
POLICY = "name: p\ndelivery: hold\nstages: [compares]\n"


class Compares(Stage):
    name = "compares"
    embeds = True

    async def on_request(self, exchange: Exchange) -> Verdict | None:
        vectors = await self.ports.embedder.embed(["Hello", "Hi"])
        return Verdict("compares", "pass", score=float(vectors[0] @ vectors[1]))


async def test_a_stage_that_embeds_gets_the_model(start: Start) -> None:
    async with start(policy=POLICY, stages=[Compares]) as proxy:
        await proxy.app.models.load()
        assert "embedding model" not in (await proxy.get("/ready")).json.get("missing", {})
        assert ["pass"] == await proxy.stage_outcomes(await proxy.post(), "compares")


async def test_ready_waits_for_the_model_of_a_routes_own_policy(start: Start) -> None:
    async with start(policy=POLICY, stages=[Compares]) as proxy:
        proxy.app.models = DeferredModels(
            lambda: make_models(proxy.app.settings, MemoryToolOutcomes(), partial(DatabaseVectors, proxy.app.database))
        )
        loading = asyncio.create_task(proxy.app.models.load())
        await asyncio.sleep(0)
        assert "still loading" == proxy.app.missing()["embedding model"]
        await loading
        assert "embedding model" not in proxy.app.missing()


async def test_a_policy_that_only_some_requests_ask_for_loads_the_model_with_the_first(start: Start) -> None:
    async with start(
        policy="name: q\nstages: []\n", policies={"p": POLICY}, route_options="allow_policies: [p]", stages=[Compares]
    ) as proxy:
        assert proxy.app.models.problem is None
        with pytest.raises(ModelUnavailable):
            _ = proxy.app.models.name
        assert ["pass"] == await proxy.stage_outcomes(await proxy.post(x_groundwire_policy="p"), "compares")
        assert "use-multilingual-3" == proxy.app.models.name


async def test_a_server_is_ready_while_a_model_is_read_for_the_first_request_that_needs_it(start: Start) -> None:
    async with start(policy=POLICY.replace("name: p\n", "name: p\nload_models: at_first_use\n"), stages=[Compares]) as proxy:
        assert proxy.app.models.problem is None
        asking = asyncio.create_task(proxy.post())
        while proxy.app.models._making is None:
            await asyncio.sleep(0.001)
        assert "embedding model" not in proxy.app.missing()
        assert ["pass"] == await proxy.stage_outcomes(await asking, "compares")


class Warms(Compares):
    """Takes its time to be made ready."""

    name = "warms"
    ready = threading.Event()

    def warm(self) -> None:
        self.ready.wait(10)


async def test_what_a_stage_makes_ready_is_waited_for_by_nobody_but_readiness(start: Start) -> None:
    async with start(policy="name: p\ndelivery: tap\nload_models: at_first_use\nstages: [warms]\n", stages=[Warms]) as proxy:
        assert "still loading" == proxy.app.missing()["stages"]
        Warms.ready.set()
        await proxy.app._warming["stages"]
        assert "stages" not in proxy.app.missing()


@pytest.mark.parametrize(("load_models", "verdict"), [("at_first_use", "unchecked"), ("at_start", "error")])
async def test_a_check_that_cannot_wait_for_a_models_first_reading_is_no_error_where_it_is_read_late(
    load_models: str, verdict: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = threading.Event()
    monkeypatch.setattr(UseEncoder, "load", lambda encoder: (read.wait(10), None)[1])
    policy = f"name: p\ndelivery: tap\nload_models: {load_models}\nstages: [compares: {{timeout_ms: 50}}]\n"
    async with start(policy=policy, stages=[Compares]) as proxy:
        got = await proxy.post()
        record = await proxy.record(got)
        read.set()
    assert verdict == got.verdict
    assert ("a model is being read" == record["detail"]["verdicts"][0].get("detail", {}).get("reason")) == (verdict == "unchecked")


async def test_models_that_cannot_be_made_are_a_problem() -> None:
    def broken() -> tuple[BatchingEmbedder, EmbeddingToolRanker]:
        raise ModelUnavailable("no such model")

    models = DeferredModels(broken)
    for _ in range(2):
        with pytest.raises(ModelUnavailable):
            await models.embed(["a"])
    assert "no such model" == models.problem
    await models.stop()


@pytest.mark.process
def test_without_such_a_stage_numpy_is_not_imported(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    code = "import sys; from proxy.app import App; from proxy.config.settings import load_settings; App(load_settings(sys.argv[1])); print('numpy' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", code, str(config)], capture_output=True, text=True, timeout=60)
    assert "False" == ended.stdout.strip(), ended.stderr


# ---- config.yaml ----


def load(tmp_path: Path, embeddings: str) -> Settings:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    config.write_text(config.read_text() + f"embeddings: {embeddings}\n")
    return load_settings(config, {})


def refused(tmp_path: Path, embeddings: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, embeddings)
    return f"{caught.value.path}: {caught.value.problem}"


def test_defaults(tmp_path: Path) -> None:
    assert EmbeddingSettings(kind="builtin", model="", threads=0) == load(tmp_path, "{}").embeddings


def test_what_is_refused(tmp_path: Path) -> None:
    assert "embeddings: unknown key 'modell'; did you mean 'model'?" == refused(tmp_path, "{modell: x}")
    assert "embeddings.kind" in refused(tmp_path, "{kind: torch}")
    assert "embeddings.cache_mb: there is no such key any more: vectors have 64 MB" == refused(tmp_path, "{cache_mb: 1}")
    assert "embeddings.disk_mb: there is no such key any more: vectors of tools are in the store" == refused(tmp_path, "{disk_mb: 1}")
    assert "embeddings.model: is for kind: sentence-transformers" == refused(tmp_path, "{model: x}")


@pytest.mark.skipif(INSTALLED, reason="sentence-transformers is here")
def test_a_missing_extra_is_refused_with_the_command(tmp_path: Path) -> None:
    expected = "embeddings.kind: is not installed: pip install 'groundwire[sentence-transformers]'"
    assert expected == refused(tmp_path, "{kind: sentence-transformers, model: x}")


async def test_a_model_folder_is_relative_to_the_config_file(tmp_path: Path) -> None:
    (tmp_path / "minilm").mkdir()
    given = EmbeddingSettings(kind="sentence-transformers", model="minilm")
    settings = Settings(upstreams={}, routes=(), embeddings=given, folder=str(tmp_path))
    embedder = make_embedder(settings)
    assert embedder.name.startswith("sentence-transformers/minilm@")
    embedder.stop()
    hub = make_embedder(Settings(upstreams={}, routes=(), embeddings=given, folder=str(tmp_path / "elsewhere")))
    assert "sentence-transformers/minilm" == hub.name
    hub.stop()
