"""The proxy on a real socket before a provider that answers by its request, and client libraries as processes of their own.

The libraries live in an environment of their own (`make test-clients` makes it: .venv-clients and node_modules). A script runs once
for each delivery; each of its cases is one entry of what it writes, so that one failure leaves the others to be seen.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.exchange import Exchange, Sentence, Verdict
from proxy.ports.stage import SentenceStage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedUpstream, serving
from tests.clients import apis
from tests.clients.servers import serve

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DELIVERIES = ("tap", "gate", "hold")
KEY, PROVIDER_KEY = "gw-test-client-key", "sk-test-provider-key"
WINDOW_TOKENS = 8000
SCRIPT_TIMEOUT_S = 120
COMMANDS = HERE / "node/node_modules/.bin"
CODEX = ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "--json", "-m", "gpt-5")
"""Codex's arguments: without a terminal, and whoever is asked says yes."""

POLICY = "name: {0}\ndelivery: {0}\nstages: [budget: {{window: {1}}}, look: {{on_error: {2}}}]\n"
"""Under gate and hold answers are written anew, as they are where a policy refuses what it cannot check; a tap is as open as it looks."""
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}}}
routes:
  - {{prefix: /tap, upstream: provider, policy: tap.yaml, allow_skip: true}}
  - {{prefix: /gate, upstream: provider, policy: gate.yaml, allow_skip: true}}
  - {{prefix: /hold, upstream: provider, policy: hold.yaml, allow_skip: true}}
keys: [{{name: tests, sha256: {digest}}}]
"""

SHIPPED = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams:
  provider: {{kind: openai, base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}
  anthropic: {{kind: anthropic, base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}
  gemini: {{kind: gemini, base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}
  without_top_k: {{kind: openai, apis: [responses], base_url: '{upstream}', api_key: {provider_key}, drop_fields: [generationConfig.topK]}}
  responses: {{kind: openai, apis: [responses], base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}
  translated: {{kind: litellm, model_prefix: openai/, base_url: '{upstream}', api_key: {provider_key}, retries: {{attempts: 0}}}}
models: {{gpt-4o: {{window: 8000, encoding: o200k_base}}}}
routes:
  - {{prefix: /default, upstream: provider, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /rag, upstream: provider, policy: policies/rag.yaml, allow_skip: true}}
  - {{prefix: /agent, upstream: provider, policy: policies/agent.yaml, allow_skip: true}}
  - {{prefix: /strict, upstream: provider, policy: policies/strict.yaml, allow_skip: true}}
  - {{prefix: /messages-default, upstream: anthropic, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /messages-agent, upstream: anthropic, policy: policies/agent.yaml, allow_skip: true}}
  - {{prefix: /messages-strict, upstream: anthropic, policy: policies/strict.yaml, allow_skip: true}}
  - {{prefix: /gemini-default, upstream: gemini, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /gemini-agent, upstream: gemini, policy: policies/agent.yaml, allow_skip: true}}
  - {{prefix: /gemini-strict, upstream: gemini, policy: policies/strict.yaml, allow_skip: true}}
  - {{prefix: /chat-before-default, upstream: provider, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /responses-before-default, upstream: responses, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /responses-for-gemini, upstream: without_top_k, policy: policies/default.yaml, allow_skip: true}}
  - {{prefix: /translated, upstream: translated, policy: policies/default.yaml, allow_skip: true}}
keys: [{{name: tests, sha256: {digest}}}]
"""


class Look(SentenceStage):
    """Looks at every sentence, lets all pass, and remembers what it saw."""

    name = "look"
    seen: dict[str, str] = {}

    async def on_sentence(self, exchange: Exchange, sentence: Sentence) -> Verdict:
        key = f"{exchange.id}/{sentence.choice}"
        self.seen[key] = self.seen.get(key, "") + sentence.text
        return Verdict("look", "pass")


class Proxy(threading.Thread):
    """Proxy and provider on an event loop of their own, so that a test may wait for a process."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="proxy", daemon=True)
        self._folder, self._ready = folder, threading.Event()
        self.url = ""
        self.provider: ScriptedUpstream
        self._failure: BaseException | None = None

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        for name in DELIVERIES:
            (self._folder / f"{name}.yaml").write_text(
                POLICY.format(name, WINDOW_TOKENS, "open" if name == "tap" else "closed"), encoding="utf-8"
            )
        async with ScriptedUpstream(apis.answer) as self.provider:
            digest = hashlib.sha256(KEY.encode()).hexdigest()
            config = CONFIG.format(folder=self._folder, upstream=self.provider.base_url, provider_key=PROVIDER_KEY, digest=digest)
            (self._folder / "config.yaml").write_text(config, encoding="utf-8")
            self._app = App(load_settings(self._folder / "config.yaml", {}), (*STAGES, Look))
            async with serving(self._app) as self.url:
                self._ready.set()
                await self._stopped.wait()

    def wait_until_up(self) -> None:
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()

    def record(self, record_id: str) -> Any:
        """The record of an exchange, flushed."""
        asyncio.run_coroutine_threadsafe(self._app.records_writer.flush(), self._loop).result(timeout=10)
        with urllib.request.urlopen(f"{self.url}/groundwire/v1/records/{record_id}", timeout=10) as response:
            return json.load(response)

    def seen(self, record_id: str, choice: int = 0) -> str:
        """The text that the policy's stage saw."""
        return Look.seen[f"{record_id}/{choice}"]


class Errors(logging.Handler):
    """Keeps what the server logs as errors: none of it may come from what a client does."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Outcome:
    """What a script's cases got, and what the server logged as errors while it ran, on any route."""

    def __init__(self, results: dict[str, dict[str, Any]]) -> None:
        self.results = results
        self.logged: list[str] = []

    def __getitem__(self, name: str) -> Any:
        result = self.results[name]
        if "error" in result:
            pytest.fail(f"the client failed:\n{result['error']}", pytrace=False)
        return result["value"]


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    running = Proxy(tmp_path_factory.mktemp("proxy"))
    running.start()
    running.wait_until_up()
    yield running
    running.stop()


@pytest.fixture(scope="session", params=DELIVERIES)
def delivery(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def client_python() -> Path:
    """The interpreter with the client libraries; skips without one."""
    return _interpreter("clients", "client libraries")


def aider_python() -> Path:
    """The interpreter with aider, whose pins are not the other libraries'; skips without one."""
    return _interpreter("aider", "aider")


def _interpreter(name: str, what: str) -> Path:
    places = [Path(f"{sys.prefix}-{name}/bin/python"), ROOT / f".venv-{name}/bin/python"]
    for path in places:
        if path.exists():
            return path
    pytest.skip(f"no environment with {what} ({places[-1].parents[1].name}): `make test-clients` makes it")


def node(package: str = "openai") -> Path:
    """The node command; skips without it or without the package."""
    command = shutil.which("node")
    if command is None:
        pytest.skip("no node on this machine")
    if not (HERE / "node/node_modules" / package).is_dir():
        pytest.skip(f"no {package} (tests/clients/node/node_modules): `make test-clients` installs it with npm")
    return Path(command)


def opencode() -> Path:
    """OpenCode's command: the package of one platform, as `opencode-ai` wants those of all in the lock file; skips elsewhere."""
    package = "opencode-linux-x64-baseline"
    node(package)
    return HERE / "node/node_modules" / package / "bin/opencode"


def cline_command() -> Path:
    """Cline's command, in the same way; skips elsewhere."""
    package = "@cline/cli-linux-x64"
    node(package)
    return HERE / "node/node_modules" / package / "bin/cline"


CLINE_QUIET = {"CLINE_SESSION_BACKEND_MODE": "local", "CLINE_NO_AUTO_UPDATE": "1"}
"""Without a daemon that outlives the task."""


def use_api_key(home: Path) -> None:
    """Gemini CLI's settings, which choose a key over a sign-in, as docs/guides/connect.md has them."""
    (home / ".gemini").mkdir()
    (home / ".gemini/settings.json").write_text('{"security": {"auth": {"selectedType": "gemini-api-key"}}}', encoding="utf-8")


def environment(home: Path, base_url: str, **more: str) -> dict[str, str]:
    """What a client process sees: an address, a key, and nothing of this machine's settings."""
    base = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", "PYTHONUTF8": "1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    keys = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "GEMINI_API_KEY": KEY}
    return {**base, **keys, **({"OPENAI_BASE_URL": base_url} if base_url else {}), **more}


def run_agent(home: Path, *command: str | Path, timeout_s: float = SCRIPT_TIMEOUT_S, **settings: str) -> str:
    """What an agent of the command line writes, with `settings` in its environment, in the folder ``work``."""
    done = subprocess.run(
        list(map(str, command)),
        env=environment(home, "", **settings),
        cwd=home / "work",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    assert 0 == done.returncode, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def run_script(command: Sequence[str | Path], folder: Path, base_url: str, **more: str) -> Outcome:
    """Run a script of cases to its end, with `more` in its environment."""
    results = folder / "results.json"
    done = subprocess.run(
        [*map(str, command), str(results)],
        env=environment(folder, base_url, **more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SCRIPT_TIMEOUT_S,
    )
    if done.returncode or not results.exists():
        pytest.fail(f"{command[-1]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}", pytrace=False)
    return Outcome(json.loads(results.read_text(encoding="utf-8")))


@pytest.fixture(scope="session")
def address(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve_shipped(tmp_path_factory.mktemp("served"), proxy.provider.base_url) as url:
        yield url


@contextmanager
def serve_shipped(folder: Path, upstream: str) -> Iterator[str]:
    """`groundwire serve` with the shipped policies, each a route of its own, before a provider at `upstream`."""
    shutil.copytree(ROOT / "policies", folder / "policies")
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    config = SHIPPED.format(folder=folder, upstream=upstream, provider_key=PROVIDER_KEY, digest=digest)
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    with serve(folder) as url:
        yield url


RESPONSES_ROUTES = ("default", "agent", "strict")
MESSAGES_ROUTES = tuple(f"messages-{name}" for name in RESPONSES_ROUTES)
GEMINI_ROUTES = tuple(f"gemini-{name}" for name in RESPONSES_ROUTES)
TRANSLATED_ROUTES = ("chat-before-default", "responses-before-default")
"""Messages, and Gemini, before a server of another API."""
ROUTES_OF = {
    "openai_responses.py": RESPONSES_ROUTES,
    "agents_responses.py": RESPONSES_ROUTES,
    "pydantic_ai_responses.py": RESPONSES_ROUTES,
    "agents.mjs": RESPONSES_ROUTES,
    "langgraph_agent.py": RESPONSES_ROUTES,
    "anthropic_messages.py": MESSAGES_ROUTES + TRANSLATED_ROUTES,
    "langchain_messages.py": MESSAGES_ROUTES,
    "anthropic.mjs": MESSAGES_ROUTES,
    "genai_models.py": GEMINI_ROUTES + TRANSLATED_ROUTES + ("messages-default",),
    "ai_sdk.mjs": RESPONSES_ROUTES + MESSAGES_ROUTES,
}
NODE = {"agents.mjs": "@openai/agents", "anthropic.mjs": "@anthropic-ai/sdk", "ai_sdk.mjs": "ai"}
"""Packages."""
RunByRoute = Callable[[str, str], Outcome]


@pytest.fixture(scope="session")
def run_by_route(address: str, tmp_path_factory: pytest.TempPathFactory) -> RunByRoute:
    """``run_by_route("agents.mjs", "strict")``: the script's outcome on that route of the shipped policies.

    A script runs once, in one process, on all of its API's routes.
    """
    kept: dict[str, dict[str, Outcome]] = {}

    def once(script: str, route: str) -> Outcome:
        if script not in kept:
            command = [node(NODE[script]), HERE / "node" / script] if script in NODE else [client_python(), HERE / "scripts" / script]
            addresses = {name: f"{address}/{name}" for name in ROUTES_OF[script]}
            got = run_script(command, tmp_path_factory.mktemp(Path(script).stem), "", ROUTES=json.dumps(addresses))
            kept[script] = {name: Outcome(results) for name, results in got.results.items()}
        return kept[script][route]

    return once


def run_at_each(script: str, folder: Path, base_urls: Mapping[str, str]) -> dict[str, Outcome]:
    """A Python script's outcome at each address, by name."""
    python = sys.executable if script.startswith("litellm") else client_python()
    command = [python, HERE / "scripts/each.py", HERE / "scripts" / script]
    got = run_script(command, folder, "", ROUTES=json.dumps(base_urls))
    return {name: Outcome(results) for name, results in got.results.items()}


APART = ("openai.mjs", "langchain_chat.py")
"""Scripts that have a process for each route: LangChain keeps an asynchronous client, and its connections, from one event loop to the next."""
RunScript = Callable[[str, str], Outcome]


@pytest.fixture(scope="session")
def run(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> RunScript:
    """``run("openai_sync.py", "gate")``: the script's outcome on that route; a script runs once a route, one after the other."""
    kept: dict[str, dict[str, Outcome]] = {}

    def on_all(script: str) -> dict[str, Outcome]:
        base_urls = {route: f"{proxy.url}/{route}/v1" for route in DELIVERIES}
        if script not in APART:
            return run_at_each(script, tmp_path_factory.mktemp(Path(script).stem), base_urls)
        command = [node(), HERE / "node" / script] if script.endswith(".mjs") else [client_python(), HERE / "scripts" / script]
        return {route: run_script(command, tmp_path_factory.mktemp(Path(script).stem), url) for route, url in base_urls.items()}

    def once(script: str, route: str) -> Outcome:
        if script not in kept:
            errors = Errors()
            logging.getLogger().addHandler(errors)
            try:
                kept[script] = on_all(script)
            finally:
                logging.getLogger().removeHandler(errors)
            for outcome in kept[script].values():
                outcome.logged = errors.lines
        return kept[script][route]

    return once
