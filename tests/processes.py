"""The command as a process of its own: started, listened to, and always ended."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.conftest import EMPTY_TAP

PATIENCE_S = 30.0
"""For what a process must do; generous, as other work may have the machine's cores."""


class Process:
    """A running command and what it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._news = asyncio.Condition()
        self.lines: list[str] = []
        self._reading = asyncio.create_task(self._read())
        self.url = ""

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            async with self._news:
                self.lines.append(line.decode().rstrip())
                self._news.notify_all()

    @property
    def id(self) -> int:
        """As the operating system knows it."""
        return self._process.pid

    @property
    def is_over(self) -> bool:
        return self._reading.done()

    async def line(self, part: str) -> str:
        """The first line that contains `part`, awaited."""
        async with self._news, asyncio.timeout(PATIENCE_S):
            await self._news.wait_for(lambda: any(part in line for line in self.lines) or self._reading.done())
        found = [line for line in self.lines if part in line]
        assert found, f"{part!r} was never logged:\n" + "\n".join(self.lines)
        return found[0]

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def ended(self) -> int:
        """The exit status, awaited; then every line is there."""
        async with asyncio.timeout(PATIENCE_S):
            await self._reading
            return await self._process.wait()

    async def end(self) -> None:
        """End it and whatever it has started, however it stands."""
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await self._reading


@asynccontextmanager
async def command(*arguments: str, cwd: Path, **environment: str) -> AsyncIterator[Process]:
    """``python -m proxy ARGUMENTS`` in `cwd`."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GROUNDWIRE_", "PROMETHEUS_"))}
    started = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "proxy",
        *arguments,
        cwd=cwd,
        env={**clean, "PYTHONPATH": str(Path(__file__).parent.parent), **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    process = Process(started)
    try:
        yield process
    finally:
        await process.end()


@asynccontextmanager
async def served(
    folder: Path, base_url: str, *arguments: str, port: int = 0, server: str = "{}", policy: str = EMPTY_TAP, store: str = ""
) -> AsyncIterator[Process]:
    """``serve`` with one route to `base_url`, up and answering."""
    config = write_config(folder, base_url, server, policy, store)
    async with command("serve", "--config", str(config), "--port", str(port), *arguments, cwd=folder) as process:
        up = re.search(r"up at (http://[^\s\"]+)", await process.line("Groundwire is up at"))
        assert up
        process.url = up[1]
        yield process


def write_config(folder: Path, base_url: str, server: str = "{}", policy: str = EMPTY_TAP, store: str = "") -> Path:
    """config.yaml with an empty policy, or another, and the store ``store.db`` beside it, or the one whose URL is given."""
    (folder / "policy.yaml").write_text(policy, encoding="utf-8")
    path = folder / "config.yaml"
    path.write_text(
        f"server: {server}\n"
        f"store: {{url: '{store or f'sqlite+aiosqlite:///{folder}/store.db'}'}}\n"
        f"upstreams: {{main: {{kind: openai, base_url: '{base_url}', api_key: sk-upstream-secret, retries: {{attempts: 0}}}}}}\n"
        "routes:\n"
        "  - {prefix: /rag, upstream: main, policy: policy.yaml}\n"
        "  - {prefix: '', upstream: main, policy: policy.yaml}\n",
        encoding="utf-8",
    )
    return path


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
