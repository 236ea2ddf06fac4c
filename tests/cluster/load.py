"""A load of small chats: as much as goes, or at a rate, with the time that each request took."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from benchmarks.load.statistics import percentile
from benchmarks.load.stub import TEXT
from tests.cluster.cluster import KEY
from tests.cluster.services import Service
from tests.cluster.upstream import THINKS_S
from tests.processes import free_port

BODY = {
    "model": "gpt-4o",
    "messages": [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Which planet is the largest?"}],
}
_TIMEOUT_S = 30.0
MOST_AT_ONCE = 100


@dataclass
class Sample:
    """What came of a stretch of load."""

    took_ms: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    late: int = 0
    """Requests that began late, as too many waited."""

    def quantile(self, share: float) -> float:
        return percentile(self.took_ms, share) if self.took_ms else 0.0


@asynccontextmanager
async def stub(folder: Path) -> AsyncIterator[str]:
    """The upstream that costs next to nothing and answers after `THINKS_S`, in a process of its own: its ``base_url``."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.load.stub", "--port", str(port), "--pause-ms", str(THINKS_S * 1000)]
    service = Service("stub", command, folder / "stub.log", {"PYTHONPATH": str(Path(__file__).parents[2])})
    service.start()

    async def listens() -> bool:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True

    try:
        await service.up(listens)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        await asyncio.to_thread(service.end)


@asynccontextmanager
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client's, with as many connections as it needs."""
    made = aiohttp.ClientSession(
        headers={"authorization": f"Bearer {KEY}"},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S),
    )
    async with made:
        yield made


async def ask(client: aiohttp.ClientSession, url: str, sample: Sample) -> None:
    """One chat, its answer checked."""
    began = time.monotonic()
    try:
        async with client.post(f"{url}/v1/chat/completions", json=BODY) as answer:
            text = await answer.text()
            if answer.status != 200 or TEXT.strip() not in text:
                sample.problems.append(f"{answer.status} {text[:100]}")
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        sample.problems.append(type(error).__name__)
    sample.took_ms.append((time.monotonic() - began) * 1000)


async def closed(client: aiohttp.ClientSession, url: str, seconds: float, at_once: int) -> tuple[Sample, float]:
    """`at_once` requests all the time; and how many a second were answered."""
    sample, began = Sample(), time.monotonic()

    async def one() -> None:
        while time.monotonic() - began < seconds:
            await ask(client, url, sample)

    await asyncio.gather(*(one() for _ in range(at_once)))
    return sample, len(sample.took_ms) / (time.monotonic() - began)


async def at_rate(client: aiohttp.ClientSession, url: str, seconds: float, a_second: float, sample: Sample) -> None:
    """Requests begun evenly; later than that where `MOST_AT_ONCE` wait for their answers, as a machine with other work is no fault of theirs."""
    began, tasks = time.monotonic(), set[asyncio.Task[None]]()
    for number in range(int(seconds * a_second)):
        if (early_s := began + number / a_second - time.monotonic()) > 0:
            await asyncio.sleep(early_s)
        if len(tasks) >= MOST_AT_ONCE:
            sample.late += 1
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(ask(client, url, sample))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)


def cpu_s(service: Service) -> float:
    """CPU seconds of a service's living processes, by the scheduler's clock, which counts nanoseconds; those of children that ended are gone."""
    total = 0
    for process in service.processes:
        for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
            total += int(thread.read_text().split()[0])
    return total / 1e9


def descriptors(service: Service) -> int:
    """Open ones of all its processes."""
    return sum(len(list(Path(f"/proc/{process}/fd").iterdir())) for process in service.processes)


def threads(service: Service) -> int:
    return sum(len(list(Path(f"/proc/{process}/task").iterdir())) for process in service.processes)


def memory_mb(service: Service) -> float:
    """Proportional set size: pages that its processes share count once."""
    total = 0.0
    for process in service.processes:
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += float(line.split()[1]) / 1024
    return total
