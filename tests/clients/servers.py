"""A provider and the proxy before it, on an event loop of their own: a test may then wait for a client's process."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer

from proxy.app import App
from proxy.config.settings import load_settings
from proxy.ports.stage import Stage
from proxy.stages.registry import STAGES
from proxy.testing import ScriptedReply, ScriptedUpstream, serving
from tests.mcp import servers as mcp_servers

ROOT = Path(__file__).parents[2]
START_TIMEOUT_S = 60


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """`groundwire serve` with the config.yaml in `folder`, on a free port; gives its address, and ends it as an operator would."""
    command = [sys.executable, "-m", "proxy", "serve", "--config", "config.yaml", "--port", "0"]
    seen = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=folder, env=seen, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        try:
            for line in process.stderr:
                said += line
                if found := re.search(r"Groundwire is up at (http://\S+)", line):
                    break
            else:
                pytest.fail(f"groundwire serve did not come up:\n{said}", pytrace=False)
            threading.Thread(target=process.stderr.read, daemon=True).start()  # a full pipe would stop the server
            yield found[1]
        finally:
            process.terminate()
    assert process.returncode in (0, -signal.SIGTERM)


class Servers(threading.Thread):
    """Use with ``with``: `url` is the proxy's address, `provider_url` the provider's own."""

    def __init__(
        self,
        folder: Path,
        provider: ScriptedReply,
        config: str,
        policies: Mapping[str, str],
        *,
        provider_only: bool = False,
        stages: Sequence[type[Stage]] = STAGES,
    ) -> None:
        """`config` is config.yaml with ``{folder}`` and ``{upstream}`` to be filled in; `policies` are files by name, of these `stages`.

        With `provider_only` both are written, and the proxy is left to a process of its own.
        """
        super().__init__(name="servers", daemon=True)
        self.provider, self._stages = provider, stages
        self._folder, self._config, self._policies, self._provider_only = folder, config, policies, provider_only
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self.url = self.provider_url = ""
        self.upstream: ScriptedUpstream
        self.app: App

    def run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        async with ScriptedUpstream(self.provider) as self.upstream:
            self.provider_url = self.upstream.base_url
            for name, text in self._policies.items():
                (self._folder / f"{name}.yaml").write_text(text, encoding="utf-8")
            config = self._config.format(folder=self._folder, upstream=self.upstream.base_url)
            (self._folder / "config.yaml").write_text(config, encoding="utf-8")
            if self._provider_only:
                self._ready.set()
                await self._stopped.wait()
                return
            self.app = App(load_settings(self._folder / "config.yaml", {}), self._stages)
            async with serving(self.app) as self.url:
                self._ready.set()
                await self._stopped.wait()

    def __enter__(self) -> Servers:
        self.start()
        assert self._ready.wait(START_TIMEOUT_S)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
        self.join()


@contextmanager
def over_http(server: MCPServer[Any]) -> Iterator[str]:
    """An MCP server on a thread of its own; gives its URL."""
    ready, end, addresses = threading.Event(), asyncio.Event(), list[str]()
    loops = list[asyncio.AbstractEventLoop]()

    async def run() -> None:
        async with mcp_servers.over_http(server) as url:
            addresses.append(url)
            loops.append(asyncio.get_running_loop())
            ready.set()
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="mcp", daemon=True)
    thread.start()
    assert ready.wait(START_TIMEOUT_S)
    try:
        yield addresses[0]
    finally:
        loops[0].call_soon_threadsafe(end.set)
        thread.join(START_TIMEOUT_S)
