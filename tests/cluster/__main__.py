"""Faults, a soak and the cost of a node, on a cluster of bare processes.

    python -m tests.cluster --seeds 200              # faults: each seed another one, its time and place chosen by it
    python -m tests.cluster --first 17               # the run of one seed again
    python -m tests.cluster --seeds 12 --stop-s 30   # longer faults
    python -m tests.cluster --soak 60                # an hour at 70% of what the cluster carries
    python -m tests.cluster --cost                   # what a request costs each server: benchmarks/results/cluster.json
    python -m tests.cluster --nodes                  # and its node, alone and beside another: benchmarks/results/cluster_nodes.json

Its exit status is 1 where a promise was broken, 0 also where the servers cannot be had (it says so).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import signal
import sys
import tempfile
from pathlib import Path

from tests.cluster import costs, promises, soak
from tests.cluster.cluster import cluster
from tests.cluster.engines import NoEngine
from tests.cluster.upstream import provider
from tests.store.postgres import NoServer

DEADLINE_S = 25.0


async def faults(folder: Path, first: int, count: int, seconds: float, report: Path | None) -> int:
    """Run so many seeds on one cluster; how many broke a promise."""
    broken, known, lines = 0, 0, []
    async with provider() as upstream, cluster(folder, upstream.base_url) as running:
        for seed in range(first, first + count):
            found = await promises.run(running, seed, seconds=seconds, deadline_s=max(DEADLINE_S, seconds + 15))
            broken, known = broken + bool(found.broken), known + bool(found.known)
            lines.append(
                {
                    "seed": seed,
                    "fault": found.kind.name,
                    "requests": len(found.ledger.exchanges),
                    "broken": found.broken,
                    "known": found.known,
                }
            )
            print(found.line(), flush=True)
    print(f"{count} runs: {broken} broke a promise, {known} one that is known not to be kept yet")
    if report:
        report.write_text(json.dumps(lines, indent=1) + "\n", "utf-8")
    return broken


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.cluster", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--seeds", type=int, default=0, help="runs with a fault")
    options.add_argument("--first", type=int, help="the first seed (alone: only this one)")
    options.add_argument("--stop-s", type=float, default=4.0, help="how long a fault lasts, about")
    options.add_argument("--soak", type=float, default=0.0, metavar="MINUTES")
    options.add_argument("--most", type=float, default=math.inf, metavar="RATE", help="requests a second of the soak, at most")
    options.add_argument("--cost", action="store_true", help="measure and write what a request costs")
    options.add_argument("--nodes", action="store_true", help="measure and write what a request costs a node, alone and beside another")
    options.add_argument("--report", type=Path, help="what came of each seed, as JSON")
    options.add_argument("--keep", type=Path, help="a folder for configurations and logs, in place of one that goes")
    given = options.parse_args()
    count = given.seeds or (1 if given.first is not None else 0)
    status = 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is ended
    with tempfile.TemporaryDirectory(prefix="gw-cluster-") as scratch:
        place = given.keep or Path(scratch)
        try:
            if count:
                (place / "faults").mkdir(parents=True)
                status |= asyncio.run(faults(place / "faults", given.first or 0, count, given.stop_s, given.report)) > 0
            if given.soak:
                (place / "soak").mkdir(parents=True)
                status |= asyncio.run(soak.soak(place / "soak", given.soak, given.most))
            if given.cost:
                (place / "cost").mkdir(parents=True)
                asyncio.run(costs.measure(place / "cost"))
            if given.nodes:
                (place / "nodes").mkdir(parents=True)
                asyncio.run(costs.measure_nodes(place / "nodes"))
        except (NoEngine, NoServer) as error:
            print(f"skipped, no cluster here: {error}")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
