"""A proxy in front of a scripted upstream, on real sockets."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.models.embedding.encoders import UseEncoder
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedUpstream, completion, reply, serving
from tests.apis import APIS, CHAT_PATH, Api
from tests.examples import load_profile
from tests.stores import in_thread, migrate

EMPTY_TAP = "name: empty\ndelivery: tap\nstages: []\n"
CHAT = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]}

load_profile()


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """The processes that tests start leave each other compiled modules, as an installed package has, whatever the environment says of it."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """Only a test that says so starts a process: each costs seconds, and ``make test`` is to take one minute."""
    global _may_start
    _may_start = any(item.get_closest_marker(name) for name in ("process", "postgres", "scale", "slow", "clients", "browser", "cluster"))
    try:
        return (yield)
    finally:
        _may_start = True


_may_start = True


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen" and not _may_start:
        raise RuntimeError(f"a test that starts a process carries the mark 'process': {arguments[1]}")


sys.addaudithook(_guard)


@pytest.fixture(scope="session", autouse=True)
def read_once() -> Iterator[None]:
    """The built-in embedding model's weights are read once for all proxies of the tests: a second of CPU each."""
    read: Callable[[UseEncoder], None] = UseEncoder.load
    models: dict[int, Any] = {}
    reading = threading.Lock()  # a proxy that a test has ended may be at it still

    def load(encoder: UseEncoder) -> None:
        with reading:
            if 0 not in models:
                read(encoder)
                models[0] = encoder._model
        encoder._model = models[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UseEncoder, "load", load)
        yield


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with its tables, to be copied: a migration takes ten times as long."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    in_thread(migrate(f"sqlite:///{path}"))
    return path


class Running:
    """A running proxy with what a test asks of it."""

    def __init__(self, app: App, upstream: ScriptedUpstream, url: str, session: aiohttp.ClientSession, api: Api = APIS["chat"]) -> None:
        self.app, self.upstream, self.url, self._session, self._api = app, upstream, url, session, api

    async def post(self, body: object = CHAT, path: str = CHAT_PATH, **headers: str) -> Answer:
        """POST JSON (or bytes as they are); header names with _ for -. A chat body goes through the test's API."""
        if path == CHAT_PATH != self._api.path and isinstance(body, dict):
            answer = await self.post(self._api.request(body), self._api.address(body), **headers)
            if (refused := self._api.chat_error(answer.body, answer.headers.get("x-groundwire-warnings", ""))) is not None:
                answer.status, answer.body = refused
            elif answer.status == 200:
                answer.body = self._api.chat_answer(answer.body, bool(body.get("stream")))
            return answer
        data = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
        named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._session.post(self.url + path, headers=named, **data) as response:
            return Answer(response, await response.read())

    async def get(self, path: str, **headers: str) -> Answer:
        async with self._session.get(self.url + path, headers={n.replace("_", "-"): v for n, v in headers.items()}) as response:
            return Answer(response, await response.read())

    async def request(self, method: str, path: str, body: bytes = b"", **headers: str) -> Answer:
        """Any other method."""
        named = {n.replace("_", "-"): v for n, v in headers.items()}
        async with self._session.request(method, self.url + path, data=body, headers=named) as response:
            return Answer(response, await response.read())

    def open(self, body: object, path: str = "/v1/chat/completions", **headers: str) -> Any:
        """An open response, to read as it streams."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._session.post(self.url + path, json=body, headers=named)

    async def record(self, answer: Answer) -> Any:
        """The answer's record, flushed."""
        return await self.record_of(answer)

    async def stage_outcomes(self, answer: Answer, stage: str) -> list[str]:
        """The outcomes of a stage's verdicts, as the answer's record has them."""
        detail = (await self.record(answer))["detail"]
        return [found["outcome"] for found in detail.get("verdicts", ()) if found["stage"] == stage]

    async def record_of(self, response: Any) -> Any:
        """The record that a response's headers name; a tapped answer's comes to be when its checks are done."""
        async with asyncio.timeout(10):
            while True:
                await self.app.records_writer.flush()
                found = await self.get(f"/groundwire/v1/records/{response.headers['x-groundwire-id']}")
                if found.status == 200 and found.json["outcome"] == "pending":
                    pass  # its row, which its record will take the place of
                elif found.status != 404:
                    return found.json
                await asyncio.sleep(0.002)


class Answer:
    """A response, read."""

    def __init__(self, response: aiohttp.ClientResponse, body: bytes) -> None:
        self.status, self.headers, self.body = response.status, response.headers, body

    @property
    def json(self) -> Any:
        import orjson

        return orjson.loads(self.body)

    @property
    def verdict(self) -> str:
        return self.headers["x-groundwire-verdict"]


Start = Callable[..., AbstractAsyncContextManager[Running]]


@pytest.fixture
def start(tmp_path: Path, migrated_file: Path, request: pytest.FixtureRequest) -> Start:
    """``async with start(replies, policy=…, config=…) as proxy``; with a fixture `api`, client and provider speak that API."""
    api = request.getfixturevalue("api") if "api" in request.fixturenames else APIS["chat"]

    @asynccontextmanager
    async def run(
        *replies: Any,
        policy: str = EMPTY_TAP,
        policies: dict[str, str] | None = None,
        config: str = "",
        kind: str = "gemini" if api.name == "gemini" else "openai",
        upstream_options: str = "retries: {attempts: 0}",
        more_upstreams: str = "",
        apis: str = "[chat, responses, messages]",
        api_key: str = "sk-upstream-secret",
        route_options: str = "allow_skip: true",
        stages: Sequence[type[Stage]] = STAGES,
        verifiers: Any = None,
        retention: bool = False,
        bodies: bool = True,
        store_options: str = "",
        environ: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Running]:
        if not (tmp_path / "store.db").exists():
            shutil.copy(migrated_file, tmp_path / "store.db")
        (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
        for name, text in (policies or {}).items():
            (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
        async with api.upstream(*(replies or [reply(completion())])) as upstream:
            (tmp_path / "config.yaml").write_text(
                f"store: {{url: 'sqlite+aiosqlite:///{tmp_path}/store.db', bodies: {str(bodies).lower()}{store_options}}}\n"
                f"upstreams:\n  main: {{kind: {kind}, base_url: '{upstream.base_url}', {upstream_options}, "
                f"api_key: {api_key}{', apis: ' + apis if kind == 'openai' else ''}}}\n{more_upstreams}"
                f"routes: [{{prefix: '', upstream: main, policy: policy.yaml, {route_options}}}]\n" + config,
                encoding="utf-8",
            )
            app = App(load_settings(tmp_path / "config.yaml", environ or {}), stages, verifiers=verifiers)
            if not retention:
                app.retention.start = lambda: None
            async with serving(app) as url, aiohttp.ClientSession(auto_decompress=False) as session:
                yield Running(app, upstream, url, session, api)

    return run
