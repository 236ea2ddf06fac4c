"""Tables of docs/scaling.md, from what ``python -m tests.cluster --cost`` and ``--nodes`` have written."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proxy.config.settings import StoreSettings

RESULT = Path(__file__).parent / "results" / "cluster.json"
RATES = (1_000, 50_000)
BUSY = 0.7
"""Of a core's time that is planned with: the rest is for peaks, and for a node that is being replaced."""
_NAMES = {
    "nodes": "Groundwire (both nodes)",
    "haproxy": "HAProxy",
    "pgbouncer": "PgBouncer",
    "postgres": "PostgreSQL",
}
_GB = 1e9
_DAY_S = 86_400


def _result() -> dict[str, Any] | None:
    return json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else None


def per_request() -> str | None:
    """What one costs each server."""
    found = _result()
    if found is None:
        return None
    best, rounds = found["best"], found["rounds"]
    lines = ["| server | CPU ms a request | in the other rounds | requests/s of a core |", "| --- | ---: | ---: | ---: |"]
    for name, label in _NAMES.items():
        cost, others = best["cpu_ms"][name], sorted(one["cpu_ms"][name] for one in rounds)
        lines.append(f"| {label} | {cost:.3f} | {others[0]:.3f} to {others[-1]:.3f} | {1000 / max(cost, 0.001):,.0f} |")
    memory = found["memory_mb"]
    node_mb = max(value for name, value in memory.items() if name.startswith("groundwire"))
    lines += [
        "",
        f"In the database a request is {best['transactions']:.1f} transactions, {best['wal_bytes'] / 1000:.1f} KB of write-ahead log and "
        f"{best['rows_bytes'] / 1000:.1f} KB of tables and indexes. A node of two workers took {node_mb:.0f} MB. "
        f"At half of what went on this machine the client waited {found['latency_ms']['p50']:.0f} ms at the median, "
        f"{found['latency_ms']['p99']:.0f} ms at p99, 30 ms of them for the upstream.",
        "",
        f"*Measured {found['made']}: {found['machine']}, Python {found['python']}; the best of {len(rounds)} rounds.*",
    ]
    return "\n".join(lines)


def needed() -> str | None:
    """What rates need by these figures."""
    found = _result()
    if found is None:
        return None
    best = found["best"]
    head = " | ".join(f"{rate:,} requests/s" for rate in RATES)
    lines = [f"| at {BUSY:.0%} of each core | {head} |", f"| --- |{' ---: |' * len(RATES)}"]
    for name, label in _NAMES.items():
        lines.append(f"| cores for {label.replace(' (both nodes)', '')} | {_cells(best['cpu_ms'][name] / 1000 / BUSY)} |")
    lines += [
        f"| write-ahead log of the database, MB a second | {_cells(best['wal_bytes'] / 1e6)} |",
        f"| tables and indexes, GB a day | {_cells(best['rows_bytes'] * _DAY_S / _GB)} |",
        f"| transactions a second | {_cells(best['transactions'])} |",
    ]
    lines += ["", _bottleneck(best["cpu_ms"]) + " " + _room(best["rows_bytes"])]
    return "\n".join(lines)


def _cells(one: float) -> str:
    return " | ".join(f"{math.ceil(one * rate):,}" for rate in RATES)


def _bottleneck(cpu_ms: dict[str, float]) -> str:
    """In words: nodes and balancers are added, so the first limit is what there is one of."""
    pooler = BUSY * 1000 / max(cpu_ms["pgbouncer"], 0.001)
    cores = 16
    database = cores * BUSY * 1000 / max(cpu_ms["postgres"], 0.001)
    return (
        f"Nodes and balancers are added side by side. Of what there is one of, PgBouncer, which uses one core, is full at "
        f"{pooler:,.0f} requests/s (several can share a port, `so_reuseport`), and a PostgreSQL of {cores} cores "
        f"at {database:,.0f}."
    )


def _room(rows_bytes: int) -> str:
    """How long records stand where nothing else was said."""
    most_mb = StoreSettings().retention_mb
    minutes = most_mb * 1e6 / (rows_bytes * RATES[0]) / 60
    full = f"`store.retention_mb`, {most_mb} by default, is full after {minutes:.0f} minutes at {RATES[0]:,} requests/s"
    return f"{full}: set it to what the database's disk holds."


def side_by_side() -> str | None:
    """What a node carries beside another, against what it carries alone."""
    path = RESULT.with_name("cluster_nodes.json")
    if not path.exists():
        return None
    found = json.loads(path.read_text("utf-8"))
    lines = ["| nodes that serve | CPU ms of a request in them, median | least to most |", "| --- | ---: | ---: |"]
    for name, label in (("one", "one"), ("two", "two, each at the same rate")):
        costs = sorted(pair[name] for pair in found["pairs"])
        lines.append(f"| {label} | {statistics.median(costs):.3f} | {costs[0]:.3f} to {costs[-1]:.3f} |")
    least, median, most = found["times_one"]
    spread = f"{least:.2f} to {most:.2f} in {len(found['pairs'])} pairs"
    lines += [
        "",
        f"With as much CPU each, two nodes carry {median:.2f} times what one does ({spread}).",
        "",
        f"*Measured {found['made']}: {found['machine']}, {found['a_node_s']:g} requests a second of each node.*",
    ]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str | None]] = {"cluster-costs": per_request, "cluster-needs": needed, "cluster-nodes": side_by_side}
