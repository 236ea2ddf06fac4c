"""For the scripts of this folder: Groundwire in this process, in front of a provider that answers from a script.

The provider, `proxy.testing.ScriptedUpstream`, is a real HTTP server on loopback, and the client a real one (openai-python). Name your
provider in `config.yaml` in its place, and what you see is what your agent gets.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from openai import APIStatusError, AsyncOpenAI

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.ports import Verifiers
from proxy.testing import ScriptedReply, ScriptedUpstream, completion, reply, serving

HERE = Path(__file__).parent
POLICIES = HERE.parent / "policies"
Body = dict[str, Any]


class Answer:
    """What came back, whether or not it is an error."""

    def __init__(self, status: int, headers: Any, body: Body) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self) -> str:
        """The model's words, or the error's message."""
        return str(self.body["error"]["message"] if "error" in self.body else self.body["choices"][0]["message"]["content"])

    def header(self, name: str) -> str:
        """``x-groundwire-NAME``, or a dash."""
        return str(self.headers.get(f"x-groundwire-{name}", "-"))

    def told(self, *names: str) -> str:
        """Some headers on a line."""
        return ", ".join(f"{name}: {self.header(name)}" for name in names)


class Proxy:
    """A running proxy, its provider, and a client."""

    def __init__(self, app: App, upstream: ScriptedUpstream, url: str, session: aiohttp.ClientSession) -> None:
        self._app, self._upstream, self._url, self._session = app, upstream, url, session
        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0)

    async def ready(self) -> None:
        """Return when the store and the models of the policy are there."""
        async with asyncio.timeout(60):
            while (await self._session.get(f"{self._url}/ready")).status != 200:  # noqa: ASYNC110 - as a load balancer asks
                await asyncio.sleep(0.05)

    async def ask(self, messages: list[Body], model: str = "gpt-4o", **more: Any) -> Answer:
        """A chat completion, as any client asks for one."""
        try:
            got = await self.client.chat.completions.with_raw_response.create(model=model, messages=messages, **more)
            return Answer(got.status_code, got.headers, got.http_response.json())
        except APIStatusError as error:
            return Answer(error.status_code, error.response.headers, error.response.json())

    async def verdict(self, record_id: str) -> Any:
        """What a client asks for when its stream has ended, with its own key: what was found of it, once the checks are done."""
        return await self.client.get(f"{self._url}/groundwire/v1/verdicts/{record_id}?wait_ms=30000", cast_to=object)

    async def operator(self, path: str, until: Callable[[Any], bool] = lambda found: True) -> Any:
        """What an operator reads under /groundwire/v1; a record is there a moment after the answer's last byte."""
        async with asyncio.timeout(10):
            while True:
                await self._app.records_writer.flush()
                async with self._session.get(f"{self._url}/groundwire/v1/{path}") as response:
                    found = await (response.json() if response.content_type == "application/json" else response.text())
                    if response.status != 404 and until(found):
                        return found
                await asyncio.sleep(0.01)

    def will_say(self, *replies: ScriptedReply | str) -> None:
        """The model's next answers; the last one repeats."""
        self._upstream.say(*(reply(completion(said)) if isinstance(said, str) else said for said in replies))

    @property
    def calls(self) -> list[Body]:
        """What the model got, each time that it was asked."""
        return [call.json for call in self._upstream.calls]


@asynccontextmanager
async def proxy(policy: Path, verifiers: Verifiers | None = None) -> AsyncIterator[Proxy]:
    """A proxy with `policy` on its only route, and this folder's knowledge base beside its config.yaml; its store is gone afterwards.

    `verifiers` take the place of the built-in one.
    """
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "knowledge", Path(folder) / "knowledge")
        async with ScriptedUpstream(reply(completion("Very well."))) as upstream, aiohttp.ClientSession() as session:
            file = Path(folder) / "config.yaml"
            file.write_text(
                f"store: {{url: 'sqlite+aiosqlite:///{folder}/store.db', texts: all}}\n"
                f"upstreams: {{provider: {{kind: openai, base_url: '{upstream.base_url}', api_key: unused}}}}\n"
                f"routes: [{{prefix: '', upstream: provider, policy: '{policy}'}}]\n",
                encoding="utf-8",
            )
            app = App(load_settings(file, {}), verifiers=verifiers)
            async with serving(app) as url:
                made = Proxy(app, upstream, url, session)
                await made.ready()
                async with made.client:
                    yield made
