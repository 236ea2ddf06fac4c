"""What does a WebSocket save a session of Codex? First token, end of the session, and bytes on the way, with it and with the 426 instead.

    python -m benchmarks.codex_socket [--runs 10] [--rtt-ms 80] [--mbit 20]

Codex itself (`make test-clients` installs it) does a task of nine commands through the proxy, under the policy `agent`, before a provider
that answers at once. Between Codex and the proxy lies a line of a given round trip and bandwidth: what this compares is what a message
costs on its way, and on a line without either it is nothing. *First token* and *session* count from Codex's first connection to the end of
its first and its last answer: the time in which Codex itself starts is in neither. Runs with and without alternate. Means, with 95%
bootstrap intervals.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from msgspec import Struct, to_builtins

from benchmarks.load.statistics import estimate
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.testing import ScriptedUpstream, serving
from proxy.wire.http import bounds
from tests.clients import apis
from tests.clients.conftest import CODEX, COMMANDS, KEY, PROVIDER_KEY, environment
from tests.clients.tasks import prepare, task

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "codex_socket.json"
OF_THE_MODEL = ("reasoning", "command_execution", "agent_message")
"""Items by which Codex tells of what the model said."""
CONFIG = """
store: {{url: 'sqlite+aiosqlite:///{folder}/store.db'}}
upstreams: {{provider: {{kind: openai, base_url: '{upstream}', api_key: {key}}}}}
routes: [{{prefix: '', upstream: provider, policy: {policy}}}]
"""


class Run(Struct):
    """One session."""

    first_token_ms: float
    session_ms: float
    sent_kb: float
    calls: int


class Line:
    """A line with a round trip and a bandwidth, and what went over it."""

    def __init__(self, target: str, rtt_ms: float, mbit: float) -> None:
        self._port = int(target.rpartition(":")[2])
        self._delay_s, self._bytes_s = rtt_ms / 2000, mbit * 125_000
        self.opened_at = 0.0
        self.sent_bytes = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        """Gives the address of this end."""
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened_at = self.opened_at or time.perf_counter()
        await asyncio.sleep(2 * self._delay_s)  # the handshake of TCP
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._port)
        with suppress(asyncio.CancelledError):  # at the end of a run
            await asyncio.gather(self._carry(reader, far_writer, up=True), self._carry(far_reader, writer, up=False))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, up: bool) -> None:
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(self._deliver(pieces, writer))
        free_at = 0.0
        while data := await reader.read(2**16):
            self.sent_bytes += len(data) if up else 0
            free_at = max(free_at, time.perf_counter()) + len(data) / self._bytes_s
            pieces.put_nowait((free_at + self._delay_s, data))
        pieces.put_nowait((time.perf_counter() + self._delay_s, b""))
        await delivering

    async def _deliver(self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
        while True:
            at, data = await pieces.get()
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            if not data:
                writer.close()
                return
            writer.write(data)


async def session(url: str, upstream: ScriptedUpstream, rtt_ms: float, mbit: float) -> Run:
    """One task."""
    line = Line(url, rtt_ms, mbit)
    before = len(upstream.calls)
    with tempfile.TemporaryDirectory() as home:
        folder = prepare(Path(home))
        async with line.open() as address:
            process = await asyncio.create_subprocess_exec(
                COMMANDS / "codex",
                *CODEX,
                *("-c", f"openai_base_url={address}/v1", task(folder)),
                env=environment(Path(home), "", CODEX_API_KEY=KEY),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            assert process.stdout is not None
            ends = list[float]()
            async for event in process.stdout:
                if json.loads(event).get("item", {}).get("type") in OF_THE_MODEL:
                    ends.append((time.perf_counter() - line.opened_at) * 1000)
            if await process.wait() or not ends:
                raise SystemExit("Codex did not do its task")
    return Run(ends[0], ends[-1], line.sent_bytes / 1000, len(upstream.calls) - before)


async def compare(runs: int, rtt_ms: float, mbit: float) -> dict[str, list[Run]]:
    """Runs with and without, in turns; one of each beforehand."""
    path, results = bounds._SOCKET_PATH, dict[str, list[Run]]()
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedUpstream(apis.answer) as upstream:
            policy = ROOT / "policies" / "agent.yaml"
            config = CONFIG.format(folder=folder, upstream=upstream.base_url, key=PROVIDER_KEY, policy=policy)
            (Path(folder) / "config.yaml").write_text(config, "utf-8")
            async with serving(App(load_settings(Path(folder) / "config.yaml", {}))) as url:
                for number in range(runs + 1):
                    for name, socket_path in (("websocket", path), ("426", b"/none")):
                        bounds._SOCKET_PATH = socket_path
                        run = await session(url, upstream, rtt_ms, mbit)
                        if number:
                            results.setdefault(name, []).append(run)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--rtt-ms", type=float, default=80.0)
    parser.add_argument("--mbit", type=float, default=20.0, help="of the line, each way")
    given = parser.parse_args()
    results = asyncio.run(compare(given.runs, given.rtt_ms, given.mbit))
    print(f"Codex, n = {given.runs} each, round trip {given.rtt_ms:g} ms, {given.mbit:g} Mbit/s")
    for name, runs in results.items():
        first, whole = (estimate([getattr(run, field) for run in runs]).text(0) for field in ("first_token_ms", "session_ms"))
        sent = statistics.median(run.sent_kb for run in runs)
        print(f"{name:>10}: first token {first} ms, session {whole} ms, {sent:.0f} kB sent, {runs[0].calls} calls")
    RESULTS.write_text(json.dumps({"options": vars(given), "runs": to_builtins(results)}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
