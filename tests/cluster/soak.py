"""A long load at 70% of what the cluster carries: nothing may grow, and the end may not be slower than the beginning."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from tests.cluster.cluster import ADMIN_KEY, Cluster, cluster
from tests.cluster.load import Sample, at_rate, closed, descriptors, memory_mb, session, stub, threads

SHARE = 0.7
_WARM_S, _MEASURED_S, _AT_ONCE = 6.0, 8.0, 64
_PIECES = 12
"""Of the whole time: after each of them everything is counted."""
_LONG_MIN = 10.0
"""From so many minutes on slopes and quantiles are more than the machine's other work."""
_MB_IN_TEN_MINUTES, _SLOWER = 1.0, 1.2
_MORE_DESCRIPTORS = 12
"""That a pool may open between two counts."""


@dataclass(frozen=True, slots=True)
class Count:
    """What there was of everything at one time."""

    at_s: float
    memory_mb: float
    descriptors: int
    threads: int
    store_connections: int
    balancer_connections: int

    def line(self) -> str:
        return (
            f"{self.at_s:6.0f} s  {self.memory_mb:7.1f} MB  {self.descriptors:4} descriptors  {self.threads:3} threads  "
            f"{self.store_connections:3} connections of the database  {self.balancer_connections:3} of the balancer"
        )


async def soak(folder: Path, minutes: float, most: float = math.inf) -> int:
    """Run it, at no more than `most` requests a second; 1 where a promise was broken."""
    async with stub(folder) as upstream, cluster(folder, upstream) as running, session() as client:
        await closed(client, running.url, _WARM_S, _AT_ONCE)
        _, capacity = await closed(client, running.url, _MEASURED_S, _AT_ONCE)
        rate, piece_s, began = min(most, SHARE * capacity), minutes * 60 / _PIECES, time.monotonic()
        print(f"capacity {capacity:.0f} requests/s with {_AT_ONCE} at once on this machine; {minutes:g} min at {rate:.0f}/s", flush=True)
        counts, samples = [await count(running, began)], []
        for _ in range(_PIECES):
            samples.append(Sample())
            await at_rate(client, running.url, piece_s, rate, samples[-1])
            await asyncio.sleep(0.5)
            counts.append(await count(running, began))
            print(f"{counts[-1].line()}  p50 {samples[-1].quantile(0.5):6.1f} ms  p99 {samples[-1].quantile(0.99):6.1f} ms", flush=True)
        broken = [*of_counts(counts, minutes), *of_samples(samples, minutes), *await of_records(running, samples)]
    print("soak: " + ("held" if not broken else "BROKEN: " + "; ".join(broken)))
    return int(bool(broken))


async def count(running: Cluster, began: float) -> Count:
    nodes = list(running.nodes.values())
    ((connections,),) = [
        tuple(row) for row in await running.postgres.run("SELECT count(*) FROM pg_stat_activity WHERE usename = 'groundwire'")
    ]
    assert running.balancer is not None
    return Count(
        time.monotonic() - began,
        sum(map(memory_mb, nodes)),
        sum(map(descriptors, nodes)),
        sum(map(threads, nodes)),
        int(connections),
        descriptors(running.balancer),
    )


def slope(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Of the straight line through the points, by least squares."""
    middle_x, middle_y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - middle_x) * (y - middle_y) for x, y in zip(xs, ys, strict=True)) / sum((x - middle_x) ** 2 for x in xs)


def of_counts(counts: Sequence[Count], minutes: float) -> list[str]:
    """The second half against what it may be: caches are full by then."""
    half = counts[len(counts) // 2 :]
    grows = slope([one.at_s for one in half], [one.memory_mb for one in half]) * 600
    print(f"memory of both nodes in the second half: {grows:+.2f} MB in ten minutes")
    broken = [f"memory grows by {grows:.2f} MB in ten minutes"] if minutes >= _LONG_MIN and grows > _MB_IN_TEN_MINUTES else []
    for name in ("descriptors", "threads", "store_connections"):
        before, last = max(getattr(one, name) for one in counts[1 : len(counts) // 2 + 1]), getattr(counts[-1], name)
        if last > before + _MORE_DESCRIPTORS:
            broken.append(f"{name}: at most {before} in the first half became {last}")
    return broken


def of_samples(samples: Sequence[Sample], minutes: float) -> list[str]:
    problems = [problem for one in samples for problem in one.problems]
    first, last = (one.quantile(0.99) for one in (samples[0], samples[-1]))
    print(
        f"{sum(len(one.took_ms) for one in samples)} requests, {len(problems)} failed; p99 {first:.1f} ms at first, {last:.1f} ms at last"
    )
    broken = [f"{len(problems)} requests failed: {sorted(set(problems))[:3]}"] if problems else []
    if minutes >= _LONG_MIN and last > _SLOWER * first:
        broken.append(f"p99 at last is {last / first:.2f} times the first")
    return broken


async def of_records(running: Cluster, samples: Sequence[Sample]) -> list[str]:
    """No record was lost on the way."""
    lost: list[Any] = []
    async with aiohttp.ClientSession(headers={"authorization": f"Bearer {ADMIN_KEY}"}) as client:
        for name in running.nodes:
            async with client.get(f"{running.node_url(name)}/metrics") as answer:
                lost += [line for line in (await answer.text()).splitlines() if line.startswith("groundwire_records_lost_total ")]
    return [f"records lost: {lost}"] if any(float(line.split()[1]) for line in lost) else []
