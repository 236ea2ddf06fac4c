"""What does a request cost the proxy, as a multiple of what it costs a bare pass-through (`benchmarks.floor`)?

    python -m benchmarks.hop                      # half a minute, under an empty policy: small, 204 KB of plain words, of an agent's
    python -m benchmarks.hop --sizes              # an agent's bodies of 5 KB to 2 MB
    python -m benchmarks.hop --check              # fails where calls have risen by more than 15%, CPU by half, above the committed ones;
                                                  # the same for an agent's body under `default` and `agent`
    python -m benchmarks.hop --repeat 8           # how far the figures scatter
    python -m benchmarks.hop --policy default     # under a shipped policy, the same conversation again and again
    python -m benchmarks.hop --policy default --growing  # one more step with each request, as an agent sends them

For a machine that does other things, too. Stub, client, floor and proxy stand in one process on one event loop and are asked in short
turns, one after the other, over loopback; what the client and the stub cost is measured as well (*direct*) and taken off. Two figures:

- *CPU*: of the whole process, records and log written at the end of each turn; the lower quartile over the turns. On a machine with nothing
  else to do a busy neighbour on each core empties the caches meanwhile: alone, code costs less, the proxy's by more than the floor's, and
  figures of a quiet and of a busy machine could not be compared.
- *calls*: calls of Python functions and of built-in ones, by `sys.setprofile`; the same in every run, on every machine.

Servers of their own on cores of their own (`benchmarks.speed`) are nearer to what an operator sees, but their ratio hangs on who else uses
the caches: the same code was at 1.8 times the floor's CPU on a quiet machine and at 3.2 beside two busy processes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import uvicorn
import uvloop

from benchmarks.floor import Floor
from benchmarks.load import systems
from benchmarks.load.generator import request_bytes
from benchmarks.load.measure import BODIES
from benchmarks.load.processes import free_port
from benchmarks.load.report import print_table
from benchmarks.load.stub import COMPLETION, Stub
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.observe import logs
from proxy.server.startup import HTTP

COMMITTED = Path(__file__).resolve().parent / "results" / "speed.json"
POLICIES = Path(__file__).resolve().parents[1] / "policies"
LOSS = {"us": 0.5, "calls": 0.15}
"""Of a figure: what a change may cost before the check fails. Calls scatter by 2%; CPU time beside a machine's other work by a quarter
(with 204 KB, whose bytes fall out of a shared cache), so that only what is gross shows in it."""
CONNECTIONS = 8
TURNS = {"small": (36, 64), "large": (24, 16), "agent": (24, 16)}
"""By kind of body: how many turns, and requests in each."""
SIZES = {"agent, 5 KB": (24, 48), "agent, 50 KB": (24, 32), "agent, 200 KB with an image": (16, 16), "agent, 2 MB": (12, 8)}
"""Further ones, as agents send them: measured where they are asked for."""
CHECKED = {"default": ("small", "agent"), "agent": ("small", "agent")}
"""Shipped policies whose figures are committed, too, with the bodies that are sent. A request's work in threads is CPU, and no calls."""
SETTLED_S = 0.15
"""After a request of a growing run: its record is written, what was to be learnt of it is learnt."""
COUNTED = 64
TRIES = 3
"""A check fails only on what is too dear in each of so many measurements; calls are counted in so many turns."""
_NEIGHBOUR = "import os\nparent = os.getppid()\nmemory = bytes(8 << 20)\nwhile os.getppid() == parent:\n    bytearray(memory)"
T = TypeVar("T")
Figures = dict[str, dict[str, float]]
"""By kind of body: microseconds and calls a request of the floor and of the proxy, and their ratios."""


class _Client(asyncio.Protocol):
    """One connection that asks again as soon as it has its answer."""

    def __init__(self, request: bytes, left: list[int], done: asyncio.Future[None]) -> None:
        self._request, self._left, self._done = request, left, done
        self._data = bytearray()
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def ask(self) -> None:
        """Once more, if that is still wanted."""
        if self._left[0] > 0:
            self._left[0] -= 1
            self._left[1] += 1
            self.transport.write(self._request)
        elif not self._left[1] and not self._done.done():
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._data.endswith(COMPLETION):
            return
        if not self._data.startswith(b"HTTP/1.1 200"):
            self._done.set_exception(ValueError(f"a wrong answer: {bytes(self._data[:300])!r}"))
        self._data.clear()
        self._left[1] -= 1
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError("closed"))


class Hop:
    """Stub, floor and proxy, started on the running loop."""

    def __init__(self, folder: Path, stack: AsyncExitStack, policy: str = "") -> None:
        """`policy` is a shipped one; without, an empty one."""
        self._folder, self._stack, self._policy = folder, stack, policy
        self.ports: dict[str, int] = {}
        self._app: App | None = None

    async def start(self) -> None:
        """All three."""
        loop = asyncio.get_running_loop()
        self.ports["direct"] = free_port()
        server = await loop.create_server(lambda: Stub(0, 0.0), "127.0.0.1", self.ports["direct"])
        self._stack.callback(server.close)
        upstream = f"http://127.0.0.1:{self.ports['direct']}"
        await self._serve("floor", Floor(upstream))
        policy = POLICIES / f"{self._policy}.yaml" if self._policy else systems.empty_policy(self._folder)
        config = self._folder / "config.yaml"
        config.write_text(
            json.dumps(
                {
                    "store": {"url": f"sqlite+aiosqlite:///{self._folder / 'hop.db'}"},
                    "upstreams": {"stub": {"kind": "openai", "base_url": f"{upstream}/v1", "api_key": "forward"}},
                    "routes": [{"prefix": "", "upstream": "stub", "policy": str(policy)}],
                }
            )
        )
        self._app = App(load_settings(config))
        await self._serve("proxy", self._app, http=HTTP)

    async def _serve(self, name: str, app: Any, http: str = "httptools") -> None:
        self.ports[name] = port = free_port()
        options: dict[str, Any] = {"log_config": None, "access_log": False, "lifespan": "on", "ws": "none", "log_level": "warning"}
        if name == "proxy":
            options |= {"server_header": False, "date_header": False, "proxy_headers": False}
        server = uvicorn.Server(uvicorn.Config(app, port=port, http=http, **options))
        task = asyncio.ensure_future(server._serve())

        async def stop() -> None:
            server.should_exit = True
            await task

        self._stack.push_async_callback(stop)
        while not server.started:
            if task.done():
                task.result()
            await asyncio.sleep(0.01)

    async def turn(self, name: str, kind: str, requests: int, begun: Callable[[], None], ended: Callable[[], None]) -> None:
        """So many requests, and what is left to be done for them."""
        await self.ask(name, BODIES[kind](), requests, begun, ended)

    async def ask(
        self, name: str, body: bytes, requests: int, begun: Callable[[], None], ended: Callable[[], None], connections: int = CONNECTIONS
    ) -> None:
        """The same body so often."""
        loop = asyncio.get_running_loop()
        request = request_bytes(systems.PATH, body, "sk-benchmark", {})
        left, done = [requests, 0], loop.create_future()
        clients = [_Client(request, left, done) for _ in range(connections)]
        for client in clients:
            await loop.create_connection(lambda client=client: client, "127.0.0.1", self.ports[name])  # type: ignore[misc]
        begun()
        for client in clients:
            client.ask()
        await done
        if name == "proxy" and self._app is not None:
            await self._app.records_writer.flush()
            for handler in logging.getLogger().handlers:
                handler.flush()
        ended()
        for client in clients:
            client.transport.close()
        await asyncio.sleep(0)


async def cpu_us(hop: Hop, kind: str, turns: int, requests: int) -> dict[str, float]:
    """Microseconds of CPU a request, by system."""
    found: dict[str, list[float]] = {name: [] for name in hop.ports}
    names = list(hop.ports)
    for number in range(turns):
        for name in names[number % 3 :] + names[: number % 3]:
            clock: list[float] = []

            def read(clock: list[float] = clock) -> None:
                clock.append(time.process_time())

            await hop.turn(name, kind, requests, read, read)
            found[name].append(1e6 * (clock[1] - clock[0]) / requests)
    return {name: statistics.quantiles(values, n=4)[0] for name, values in found.items()}


async def calls(hop: Hop, kind: str) -> dict[str, float]:
    """Calls a request, by system: in the turn with the fewest, as what a server does beside requests may fall into one."""
    found: dict[str, list[float]] = {name: [] for name in hop.ports}
    for name in [*hop.ports] * TRIES:
        counted = [0]

        def count(frame: FrameType, event: str, argument: object, counted: list[int] = counted) -> None:
            counted[0] += event in ("call", "c_call")

        await hop.turn(name, kind, COUNTED, lambda count=count: sys.setprofile(count), lambda: sys.setprofile(None))  # type: ignore[misc]
        found[name].append(counted[0] / COUNTED)
    return {name: min(counts) for name, counts in found.items()}


async def growing_ms(policy: str) -> list[tuple[int, float]]:
    """Of each request of an agent's run, in order: by how many bytes it is longer than the one before, and milliseconds of CPU."""
    async with AsyncExitStack() as stack:
        hop = Hop(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hop-"))), stack, policy)
        await hop.start()
        await hop.ask("proxy", BODIES["small"](), COUNTED, gc.collect, lambda: None)
        whole = json.loads(BODIES["agent"]())
        found, before = list[tuple[int, float]](), 0
        for end in range(1, len(whole["messages"]) + 1):
            if whole["messages"][end - 1]["role"] not in ("user", "tool"):
                continue
            body, clock = (
                json.dumps({**whole, "messages": whole["messages"][:end]}, ensure_ascii=False, separators=(",", ":")).encode(),
                list[float](),
            )

            def read(clock: list[float] = clock) -> None:
                clock.append(time.process_time())

            await hop.ask("proxy", body, 1, read, lambda: None, connections=1)
            await asyncio.sleep(SETTLED_S)
            read()
            found.append((len(body) - before, 1e3 * (clock[1] - clock[0])))
            before = len(body)
        return found


def show_growing(found: list[tuple[int, float]], policy: str) -> None:
    """The second half of the run."""
    late = found[len(found) // 2 :]
    new, cpu = sorted(size for size, _ in late), sorted(ms for _, ms in late)
    middle = len(late) // 2
    print(f"{policy or 'an empty policy'}: {len(late)} requests of a growing run, each {new[middle]:,} bytes longer (median):")
    print(f"CPU of a request, median {cpu[middle]:.1f} ms, quarters {cpu[middle // 2]:.1f} and {cpu[middle + middle // 2]:.1f}")


@contextmanager
def neighbours() -> Iterator[None]:
    """A busy process on each core, where the machine has no others."""
    started, usable = [], os.sched_getaffinity(0)
    try:
        for core in sorted(usable) if os.getloadavg()[0] < len(usable) else ():
            started.append(subprocess.Popen([sys.executable, "-c", _NEIGHBOUR]))
            os.sched_setaffinity(started[-1].pid, {core})
        yield
    finally:
        for one in started:
            one.kill()
            one.wait()


async def measure(turns: dict[str, tuple[int, int]], policy: str = "") -> Figures:
    """Both figures, by kind of body."""
    begins = f"{policy}, " if policy else ""
    async with AsyncExitStack() as stack:
        stack.enter_context(neighbours())
        hop = Hop(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hop-"))), stack, policy)
        await hop.start()
        found: Figures = {}
        for kind, (number, requests) in turns.items():
            for name in hop.ports:
                await hop.turn(name, kind, 4 * requests, gc.collect, lambda: None)  # warm
            figures = {}
            for what, one in (("us", await cpu_us(hop, kind, number, requests)), ("calls", await calls(hop, kind))):
                floor, proxy = one["floor"] - one["direct"], one["proxy"] - one["direct"]
                figures |= {f"floor_{what}": round(floor, 1), f"proxy_{what}": round(proxy, 1), f"ratio_{what}": round(proxy / floor, 4)}
            found[begins + kind] = figures
        return found


def measure_all() -> Figures:
    """What is committed: under an empty policy, then under those of `CHECKED`."""
    found = logged(lambda: measure(TURNS))
    for policy, kinds in CHECKED.items():
        found |= logged(lambda policy=policy, kinds=kinds: measure({kind: TURNS[kind] for kind in kinds}, policy))  # type: ignore[misc]
    return found


def show(found: Figures, before: Figures) -> None:
    """The table."""
    rows = []
    for kind, one in found.items():
        for what, name in (("us", "CPU, us"), ("calls", "calls")):
            ratio, known = one[f"ratio_{what}"], before.get(kind, {}).get(f"ratio_{what}")
            change = [f"{known:.3f}", f"{ratio / known - 1:+.1%}"] if known else ["", ""]
            rows.append([f"{kind}: {name}", f"{one[f'floor_{what}']:.1f}", f"{one[f'proxy_{what}']:.1f}", f"{ratio:.3f}", *change])
    print_table("a request of the floor and of the proxy, one process", ["", "floor", "proxy", "ratio", "committed", "change"], rows)


def lost(found: Figures, before: Figures) -> dict[str, str]:
    """What has become too dear, in words."""
    return {
        f"{kind} {ratio}": f"{kind}: {name} {one[ratio]:.3f} times the floor's, committed {before[kind][ratio]:.3f}"
        for kind, one in found.items()
        if kind in before
        for ratio, name, most in (("ratio_us", "CPU", LOSS["us"]), ("ratio_calls", "calls", LOSS["calls"]))
        if one[ratio] > before[kind][ratio] * (1 + most)
    }


def committed() -> Figures:
    """The last run's figures; none where there are none."""
    found: Figures = json.loads(COMMITTED.read_text()).get("hop", {}) if COMMITTED.exists() else {}
    return found


def logged(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run it on uvloop, as both servers run, with a log that is written as a server writes it: formatted, to a file."""
    root = logging.getLogger()
    level = root.level
    with tempfile.TemporaryFile("w") as log:
        handler = logs.LineHandler(log)
        handler.setFormatter(logs.ConsoleFormatter())
        root.addHandler(handler)
        root.setLevel(logging.INFO)
        try:
            return uvloop.run(work())
        finally:
            root.removeHandler(handler)
            root.setLevel(level)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.hop", description=__doc__.split("\n\n")[0])
    either = options.add_mutually_exclusive_group()  # nothing is committed of further sizes
    either.add_argument("--check", action="store_true", help="fail where a figure is too far above the committed one")
    either.add_argument("--sizes", action="store_true", help="an agent's bodies of 5 KB to 2 MB, in place of `--bodies`")
    either.add_argument("--policy", default="", choices=sorted(path.stem for path in POLICIES.glob("*.yaml")), help="a shipped one")
    options.add_argument("--growing", action="store_true", help="one more step of an agent's run with each request, in place of `--bodies`")
    options.add_argument("--repeat", type=int, default=1, help="measure so often, each time anew")
    options.add_argument("--bodies", nargs="+", choices=list(TURNS), default=list(TURNS))
    return options.parse_args(arguments)


def main() -> int:
    given = parse()
    if given.growing:
        show_growing(logged(lambda: growing_ms(given.policy)), given.policy)
        return 0
    before = committed()
    problems: set[str] | None = None
    for _ in range(TRIES if given.check else given.repeat):
        turns = SIZES if given.sizes else {kind: TURNS[kind] for kind in given.bodies}
        found = measure_all() if given.check else logged(lambda turns=turns: measure(turns, given.policy))  # type: ignore[misc]
        show(found, before)
        dear = lost(found, before) if given.check else {}
        problems = set(dear) if problems is None else problems & set(dear)
        if given.check and not problems:
            return 0
    if not given.check:
        return 0
    for name in sorted(problems or ()):
        print(f"FAILED: {dear[name]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
