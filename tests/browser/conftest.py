"""A proxy on a real socket with a filled store, and Chromium in front of it, led by a script for playwright-core.

Node and its packages are what `make test-browser` installs; Chromium is the system's. Without one of them the tests are skipped, and say why.
Screenshots are kept in ``tests/browser/artefacts``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, completion, reply, serving
from tests.browser import making

HERE = Path(__file__).parent
ARTEFACTS = HERE / "artefacts"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
KEY = "browser-test-key"
CASE_TIMEOUT_S = 420
POLICY = "name: watched\ndelivery: hold\nstages: [budget: {window: 400}]\n"
CONFIG = """
server: {{admin_key: '{key}'}}
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db', bodies: true}}
upstreams: {{main: {{kind: openai, base_url: '{upstream}', api_key: sk-test, retries: {{attempts: 0}}}}}}
routes: [{{prefix: '', upstream: main, policy: policy.yaml}}]
"""
Fill = Callable[[App], Coroutine[Any, Any, Any]]


class Site(threading.Thread):
    """Proxy and provider on an event loop of their own, so that a test may wait for a browser."""

    def __init__(self, folder: Path, fill: Fill, key: str = "") -> None:
        super().__init__(name="site", daemon=True)
        self._folder, self._fill, self._key, self._ready = folder, fill, key, threading.Event()
        self.url = ""
        self.filled: Any = None
        """What `fill` gave."""
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
        (self._folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
        async with ScriptedUpstream(reply(completion())) as upstream:
            config = CONFIG.format(folder=self._folder, upstream=upstream.base_url, key=self._key)
            (self._folder / "config.yaml").write_text(config, encoding="utf-8")
            app = App(load_settings(self._folder / "config.yaml", {}))
            async with serving(app) as self.url:
                self.filled = await self._fill(app)
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


async def nothing(app: App) -> None:
    """An empty store."""


async def one(app: App) -> None:
    """One exchange."""
    await making.keep(app.database, [making.whole(0, time.time() - 5)])


async def ten_thousand(app: App) -> None:
    """A busy week."""
    await making.keep_many(app.database, 10_000)
    await making.keep_review(app.database)


async def some(app: App) -> dict[str, str]:
    """A day with everything in it; gives the ids of a whole exchange and of a hostile one."""
    now = time.time()
    whole, hostile = making.whole(301, now - 240), making.hostile(302, now - 200)
    await making.keep_many(app.database, 300, now=now - 300, over_s=86_400.0)
    await making.keep(app.database, [whole, hostile])
    await making.keep_review(app.database)
    app._admin = making.admin_with(app, failures_of_run=making.failures)
    return {"whole": whole.id, "hostile": hostile.id, "hostile_run": hostile.run_id}


MakeSite = Callable[..., Site]


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MakeSite]:
    """``site(fill)`` or ``site(fill, key)``: a running proxy; the same for the same, unless it is to be `fresh`."""
    made: dict[Any, Site] = {}

    def make(fill: Fill, key: str = "", fresh: str = "") -> Site:
        named = (fill, key, fresh)
        if named not in made:
            made[named] = Site(tmp_path_factory.mktemp("site"), fill, key)
            made[named].start()
            made[named].wait_until_up()
        return made[named]

    yield make
    for running in made.values():
        running.stop()


def browser_command() -> str:
    """Chromium's path; skips without one."""
    found = next((path for name in BROWSERS if (path := shutil.which(name)) is not None), None)
    if found is None:
        pytest.skip(f"no Chromium on this machine (looked for {', '.join(BROWSERS)}): apt-get install chromium")
    return found


def node_command() -> str:
    """Node's path; skips without it or without the packages."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node on this machine")
    if not (HERE / "node/node_modules/playwright-core").is_dir():
        pytest.skip("no playwright-core (tests/browser/node/node_modules): `make test-browser` installs it with npm")
    return found


Case = Callable[..., Any]


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """``case("load", url=…, …)``: what the case of that name in ``node/cases.mjs`` gives; fails where the case does."""

    def run(name: str, **arguments: Any) -> Any:
        ARTEFACTS.mkdir(exist_ok=True)
        given = {"chromium": browser_command(), "artefacts": str(ARTEFACTS), "profile": str(tmp_path / "profile"), **arguments}
        command = [node_command(), str(HERE / "node/cases.mjs"), name, json.dumps(given)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=CASE_TIMEOUT_S)
        if done.returncode:
            pytest.fail(f"{name} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}", pytrace=False)
        return json.loads(done.stdout)

    return run
