"""What a request costs each server of a cluster: CPU, memory, bytes in the database. Writes benchmarks/results/cluster.json for docs/scaling.md.

CPU time hardly depends on what else the machine does; requests a second do, so that those of a node are reckoned from it.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.cluster import NODES, Cluster, cluster
from tests.cluster.deployment import ROOT
from tests.cluster.load import Sample, at_rate, closed, cpu_s, memory_mb, session, stub

RESULT = ROOT / "benchmarks" / "results" / "cluster.json"
NODES_RESULT = RESULT.with_name("cluster_nodes.json")
_WARM_S, _MEASURED_S, _AT_ONCE, _ROUNDS = 6.0, 8.0, 64, 3
_RATE_SHARE = 0.5
_A_NODE, _PAIRS = 40.0, 6
"""Requests a second of a node, few enough for a machine that has other work; and pairs of one node's stretch and both nodes'."""


async def measure(folder: Path) -> None:
    """Three rounds, of which the one with the least CPU counts; with both nodes, and with one."""
    async with stub(folder) as upstream, cluster(folder, upstream) as running, session() as client:
        await closed(client, running.url, _WARM_S, _AT_ONCE)
        rounds = [await _round(running, client, running.url) for _ in range(_ROUNDS)]
        best = min(rounds, key=lambda one: one["cpu_ms"]["nodes"])
        paced = Sample()
        await at_rate(client, running.url, _MEASURED_S, _RATE_SHARE * best["requests_s"], paced)
        memory = {name: round(memory_mb(service), 1) for name, service in _services(running).items()}
    found = {
        "made": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "rounds": rounds,
        "best": best,
        "latency_ms": {"p50": round(paced.quantile(0.5), 1), "p99": round(paced.quantile(0.99), 1)},
        "memory_mb": memory,
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found, indent=1))


async def measure_nodes(folder: Path) -> None:
    """What a request costs its node while one node serves, and while both do, each at the same rate: by turns, the balancer left out."""
    async with stub(folder) as upstream, cluster(folder, upstream) as running, session() as client:
        await asyncio.gather(*(closed(client, running.node_url(name), _WARM_S, _AT_ONCE // 4) for name in NODES))
        pairs = []
        for number in range(_PAIRS):
            one = await _of_nodes(running, client, (NODES[number % len(NODES)],))
            pairs.append({"one": one, "two": await _of_nodes(running, client, NODES)})
    ratios = [pair["one"] / pair["two"] for pair in pairs]
    found = {
        "made": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}",
        "a_node_s": _A_NODE,
        "pairs": [{name: round(value, 3) for name, value in pair.items()} for pair in pairs],
        "times_one": [round(len(NODES) * one, 3) for one in (min(ratios), statistics.median(ratios), max(ratios))],
    }
    NODES_RESULT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found, indent=1))


async def _of_nodes(running: Cluster, client: Any, names: Sequence[str]) -> float:
    """CPU ms of a request in the processes of these nodes, which have all the load."""
    before = sum(cpu_s(running.nodes[name]) for name in names)
    samples = [Sample() for _ in names]
    asked = (at_rate(client, running.node_url(name), _MEASURED_S, _A_NODE, sample) for name, sample in zip(names, samples, strict=True))
    await asyncio.gather(*asked)
    for sample in samples:
        assert not sample.problems, sample.problems[:3]
    return (sum(cpu_s(running.nodes[name]) for name in names) - before) * 1000 / sum(len(sample.took_ms) for sample in samples)


def _services(running: Cluster) -> dict[str, Any]:
    assert running.balancer is not None
    return {
        **running.nodes,
        "haproxy": running.balancer,
        "pgbouncer": running.bouncer,
        "postgres": running.postgres,
        "valkey": running.valkey,
    }


async def _round(running: Cluster, client: Any, url: str) -> dict[str, Any]:
    services = _services(running)
    before = {name: cpu_s(service) for name, service in services.items()}
    written = await _written(running)
    sample, a_second = await closed(client, url, _MEASURED_S, _AT_ONCE)
    assert not sample.problems, sample.problems[:3]
    count = len(sample.took_ms)
    spent = {name: (cpu_s(service) - before[name]) * 1000 / count for name, service in services.items()}
    spent["nodes"] = sum(spent.pop(name) for name in NODES)
    after = await _written(running)
    return {
        "requests": count,
        "requests_s": round(a_second, 1),
        "cpu_ms": {name: round(value, 3) for name, value in spent.items()},
        "wal_bytes": round((after["wal"] - written["wal"]) / count),
        "transactions": round((after["transactions"] - written["transactions"]) / count, 2),
        "rows_bytes": round((after["size"] - written["size"]) / count),
    }


async def _written(running: Cluster) -> dict[str, int]:
    query = (
        "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint, pg_database_size('groundwire')::bigint, "
        "(SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'groundwire')::bigint"
    )
    (row,) = await running.postgres.run(query)
    return {"wal": int(row[0]), "size": int(row[1]), "transactions": int(row[2])}
