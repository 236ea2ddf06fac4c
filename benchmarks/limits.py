"""Do limits hold? Two nodes of two workers on one Valkey, many clients, streams, clients that leave, and workers that are killed.

    python -m benchmarks.limits [--clients N] [--seconds N] [--kills N] [--seed N] [--store]

A provider on this machine counts what it is asked and bills what it wrote, word by word. Four keys: one limited in requests a minute, one
in USD a day, one in requests at a time, one in tokens a minute; each is asked for several times what it may have. Compared is what the
provider saw with what the key may have: above nought it got too much. Beside it the CPU time that limits cost a request. ``--store``
counts in one SQLite file instead of Valkey. The tests run it small (`tests/limits/test_nodes.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
from msgspec import Struct, field, to_builtins

from proxy.config.keys import LIMITS, Limits
from proxy.limits.accounts import DatabaseAccounts
from proxy.limits.counter import Counter as Accounts
from proxy.limits.counter import Standing, Subject
from proxy.limits.valkey import ValkeyAccounts
from proxy.models.tokens.counter import TiktokenCounter
from proxy.store.database import Database
from proxy.testing import ReceivedCall, ScriptedUpstream, chunk
from proxy.wire.requests import output_requirements_of

RESULTS = Path(__file__).parent / "results" / "limits.json"
MESSAGES = [{"role": "user", "content": "Say the word."}]
WORD, MOST_WORDS, PAUSE_S = " the", 40, 0.004
"""One token; a stream's; between two of them."""
INPUT_USD, OUTPUT_USD = 2.5e-6, 10e-6
"""Of gpt-4o, by the list of prices."""
START_S = 60.0


class Seen(Struct):
    """What the provider saw of one key."""

    calls: int = 0
    open: int = 0
    most_open: int = 0
    tokens: int = 0
    usd: float = 0.0


class Outcome(Struct):
    """Of one run."""

    limits: dict[str, Limits]
    seen: dict[str, Seen] = field(default_factory=dict)
    answers: dict[str, dict[int, int]] = field(default_factory=dict)
    """By key and status; 0 for a connection that broke, -1 for a client that left."""
    standings: dict[str, Standing] = field(default_factory=dict)
    """By the counter, when all was over."""
    killed: int = 0
    seconds: float = 0.0


class Provider:
    """Streams words, and bills each that it wrote."""

    def __init__(self, source: random.Random, prompt_tokens: int) -> None:
        self._source, self._prompt_tokens = source, prompt_tokens
        self.seen: dict[str, Seen] = {}

    async def answer(self, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """One."""
        seen = self.seen.setdefault(call.json["user"], Seen())
        seen.calls += 1
        seen.open += 1
        seen.most_open = max(seen.most_open, seen.open)
        self._bill(seen, self._prompt_tokens, INPUT_USD)
        try:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            count = self._source.randint(2, MOST_WORDS)
            for _ in range(count):
                await self._write(writer, chunk({"content": WORD}))
                self._bill(seen, 1, OUTPUT_USD)
                await asyncio.sleep(PAUSE_S)
            usage = {"prompt_tokens": self._prompt_tokens, "completion_tokens": count, "total_tokens": self._prompt_tokens + count}
            await self._write(writer, chunk({}, "stop") + chunk({}, None, usage=usage) + b"data: [DONE]\n\n")
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        finally:
            seen.open -= 1

    def _bill(self, seen: Seen, tokens: int, usd: float) -> None:
        seen.tokens += tokens
        seen.usd += tokens * usd

    async def _write(self, writer: asyncio.StreamWriter, piece: bytes) -> None:
        if writer.is_closing():
            raise ConnectionResetError
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        await writer.drain()


async def prompt_tokens() -> int:
    """What the proxy counts of the prompt, so that the provider bills the same."""
    counter = TiktokenCounter({})
    await asyncio.to_thread(counter.load)
    use = await counter.count_request(MESSAGES, [], output_requirements_of({}), counter.model("gpt-4o"))
    return use.used_tokens


def write_config(folder: Path, base_url: str, limits: dict[str, Limits], valkey_url: str) -> Path:
    """Of both nodes, on one store."""
    (folder / "policy.yaml").write_text("name: empty\ndelivery: tap\nstages: []\n", "utf-8")
    keys = [{"name": name, "sha256": sha256(name.encode()).hexdigest(), "limits": _given(limits[name])} for name in limits]
    config = {
        "server": {"workers": 2},
        "store": {"url": f"sqlite+aiosqlite:///{folder}/store.db", "keys": bool(limits)},
        "upstreams": {"main": {"kind": "openai", "base_url": base_url, "api_key": "sk-x", "retries": {"attempts": 0}}},
        "routes": [{"prefix": "", "upstream": "main", "policy": "policy.yaml"}],
        "keys": keys,
        "limits": {"url": valkey_url, "on_error": dict.fromkeys(LIMITS, "closed")},
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config), "utf-8")
    return path


def _given(limits: Limits) -> dict[str, float]:
    return {name: getattr(limits, name) for name in limits.names}


class Node:
    """A server with its workers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process, self.url, self.lines = process, "", list[str]()

    async def started(self) -> None:
        """Returns when it says where it is."""
        assert self.process.stderr is not None
        async with asyncio.timeout(START_S):
            while not self.url:
                line = (await self.process.stderr.readline()).decode()
                assert line, "".join(self.lines)
                self.lines.append(line)
                if found := re.search(r"up at (http://[^\s\"]+)", line):
                    self.url = found[1]
        self._reading = asyncio.create_task(self._read())

    async def all_up(self) -> None:
        """Returns when every worker serves."""
        async with asyncio.timeout(START_S), aiohttp.ClientSession() as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/metrics") as answer:
                        if b"groundwire_workers 2.0" in await answer.read():
                            return
                await asyncio.sleep(0.1)

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode())

    def workers(self) -> list[int]:
        """Their process ids."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in found if "resource_tracker" not in Path(f"/proc/{child}/cmdline").read_text()]

    def cpu_s(self) -> float:
        """Of its workers, so far."""
        fields = [Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split() for worker in self.workers()]
        return sum(int(one[11]) + int(one[12]) for one in fields) / os.sysconf("SC_CLK_TCK")

    async def end(self) -> None:
        """With all its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        await self.process.wait()
        self._reading.cancel()


@contextlib.asynccontextmanager
async def nodes(config: Path, count: int) -> AsyncIterator[list[Node]]:
    """Servers with that configuration."""
    started: list[Node] = []
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("GROUNDWIRE_", "PROMETHEUS_"))}
    try:
        for _ in range(count):
            arguments = (sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", "0", "--log-level", "info")
            root = str(Path(__file__).parents[1])
            process = await asyncio.create_subprocess_exec(
                *arguments,
                cwd=config.parent,
                env={**clean, "PYTHONPATH": root},
                stderr=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
            started.append(Node(process))
        for node in started:
            await node.started()
            await node.all_up()
        yield started
    finally:
        for node in started:
            await node.end()


async def run(
    folder: Path,
    limits: dict[str, Limits],
    *,
    clients: int,
    seconds: float,
    valkey_url: str,
    kills: int = 1,
    every: int = 60,
    enough: int = 10**9,
    seed: int = 1,
) -> Outcome:
    """Ask for more than the keys may have, of both nodes, with `kills` of workers, one after `every` answers; a tenth of the
    streams has its client leave. Ends when each key was refused so often that it is `enough`, and all were killed, at the
    latest after `seconds`.
    """
    source, found = random.Random(seed), Outcome(limits)
    provider = Provider(random.Random(seed), await prompt_tokens())
    async with ScriptedUpstream(provider.answer) as upstream, nodes(write_config(folder, upstream.base_url, limits, valkey_url), 2) as both:
        began, until = time.monotonic(), time.monotonic() + seconds
        answers: dict[str, Counter[int]] = {name: Counter() for name in limits}
        timeout = aiohttp.ClientTimeout(30)
        async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

            async def client(number: int) -> None:
                own = random.Random(seed * 1000 + number)
                while time.monotonic() < until and not (found.killed == kills and all(one[429] >= enough for one in answers.values())):
                    name = own.choice(sorted(limits))
                    status = await ask(session, own.choice(both).url, name, leave=name != "places" and own.random() < 0.1)
                    answers[name][status] += 1
                    if status not in (200, -1):
                        await asyncio.sleep(own.uniform(0.02, 0.2))

            async def kill() -> None:
                for i in range(kills):
                    while sum(one[200] for one in answers.values()) < every * (i + 1) and time.monotonic() < until:
                        await asyncio.sleep(0.01)
                    os.kill(source.choice(both[i % 2].workers()), signal.SIGKILL)
                    found.killed += 1

            await asyncio.gather(kill(), *(client(number) for number in range(clients)))
        found.seconds = time.monotonic() - began
        await asyncio.sleep(1.0)  # for what waits to be settled
        found.standings = await _standings(folder, sorted(limits), valkey_url)
    found.seen, found.answers = provider.seen, {name: dict(counts) for name, counts in answers.items()}
    return found


async def ask(session: aiohttp.ClientSession, url: str, name: str, *, leave: bool = False) -> int:
    """The status of one streamed request of the key `name`; 0 where its connection broke, -1 where the client left."""
    body = {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": MOST_WORDS, "stream": True, "user": name}
    try:
        async with session.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {name}"}) as response:
            if leave and response.status == 200:
                await response.content.readany()
                response.close()
                return -1
            await response.read()
            return response.status
    except (aiohttp.ClientError, OSError, TimeoutError):
        return 0


async def _standings(folder: Path, names: Sequence[str], valkey_url: str) -> dict[str, Standing]:
    database = Database(f"sqlite+aiosqlite:///{folder}/store.db")
    counter: Accounts = ValkeyAccounts(valkey_url) if valkey_url else DatabaseAccounts(database)
    await database.start()
    await counter.start()
    found = await counter.look([Subject("key", name, Limits(), name) for name in names])
    await counter.stop()
    await database.stop()
    return dict(zip(names, found, strict=True))


LIMITED = {"requests": "rpm", "money": "usd_per_day", "places": "concurrent", "tokens": "tpm"}


def table(found: Outcome) -> list[dict[str, Any]]:
    """A row for each key: what it may, what the provider saw, by how much that is too much or too little, in per cent."""
    rows = []
    for name, limits in found.limits.items():
        seen, limit = found.seen.get(name, Seen()), next(iter(_given(limits).values()))
        got = {"rpm": seen.calls, "usd_per_day": seen.usd, "concurrent": seen.most_open, "tpm": seen.tokens}[limits.names[0]]
        rows.append({"limit": limits.names[0], "may": limit, "provider": round(got, 6), "over_percent": round(100 * (got / limit - 1), 2)})
        rows[-1] |= {"answered": found.answers[name].get(200, 0), "refused": found.answers[name].get(429, 0)}
        rows[-1] |= {"broken": found.answers[name].get(0, 0), "left": found.answers[name].get(-1, 0)}
    return rows


ALL = Limits(rpm=10**8, tpm=10**9, concurrent=10**6, usd_per_day=1e6, usd_per_month=1e6)
COSTS: tuple[tuple[str, dict[str, Limits]], ...] = (("without keys", {}), ("free", {"free": Limits()}), ("limited", {"limited": ALL}))


async def cost(folder: Path, valkey_url: str, requests: int) -> dict[str, float]:
    """CPU milliseconds that a node takes for a request: without keys, of a key without limits, of one with all of them; in turns."""
    provider = Provider(random.Random(1), await prompt_tokens())
    found: dict[str, list[float]] = {name: [] for name, _ in COSTS}
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(provider.answer))
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)))
        servers: dict[str, Node] = {}
        for name, limits in COSTS:
            (own := folder / name.replace(" ", "_")).mkdir()
            (servers[name],) = await stack.enter_async_context(nodes(write_config(own, upstream.base_url, limits, valkey_url), 1))
        for i in range(7):
            for name, node in servers.items():
                before = node.cpu_s()
                for _ in range(requests // 50):
                    await asyncio.gather(*(ask(session, node.url, name) for _ in range(50)))
                if i:  # the first round warms up
                    found[name].append((node.cpu_s() - before) / requests * 1000)
    return {name: round(sorted(values)[len(values) // 2], 3) for name, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", action="store_true", help="count in the store instead of Valkey")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    from tests.limits import valkey

    limits = {"requests": Limits(rpm=400), "money": Limits(usd_per_day=0.08), "places": Limits(concurrent=20), "tokens": Limits(tpm=8_000)}
    with valkey.server() as server, tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        url = "" if options.store else server.url
        found = asyncio.run(
            run(
                Path(one),
                limits,
                clients=options.clients,
                seconds=options.seconds,
                valkey_url=url,
                kills=options.kills,
                every=200,
                seed=options.seed,
            )
        )
        costs = asyncio.run(cost(Path(other), url, 300))
    rows = table(found)
    counter = "store (SQLite)" if options.store else "Valkey"
    print(f"two nodes of two workers, {counter}, {options.clients} clients, {found.seconds:.0f} s, {found.killed} workers killed")
    for row in rows:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    print("CPU of a request, ms: " + ", ".join(f"{name} {ms}" for name, ms in costs.items()))
    results = json.loads(options.output.read_text("utf-8")) if options.output.is_file() else {}
    shape = {"clients": options.clients, "seconds": round(found.seconds), "killed": found.killed, "seed": options.seed}
    results[counter] = shape | {"keys": rows, "counter": to_builtins(found.standings), "cpu_ms": costs}
    options.output.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
