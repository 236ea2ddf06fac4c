"""The hop beside the floor and beside other gateways, and beside what was committed last: what ``make bench-speed`` prints first.

    python -m benchmarks.speed              # about two minutes; on an otherwise quiet machine with two cores
    python -m benchmarks.speed --quick      # half a minute, rough

First the hop by itself (`benchmarks.hop`: CPU and calls of a request, in one process). Then servers of their own on one core, interleaved
(`benchmarks.load`): the floor, Groundwire under an empty policy, and Portkey's and LiteLLM's gateways where
``python -m benchmarks.overhead --with-portkey --with-litellm`` has installed them. Writes results/speed.json, which is committed: ratios of
this run are compared with its, as times of two machines cannot be.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import hop
from benchmarks.load import measure, peers, systems
from benchmarks.load.generator import BadAnswer
from benchmarks.load.measure import ratios
from benchmarks.load.processes import StartFailed, cores
from benchmarks.load.report import print_table
from benchmarks.load.statistics import Estimate, estimate
from benchmarks.load.systems import Missing, Place, System

OUTPUT = hop.COMMITTED
FLOOR, PROXY = "floor", "groundwire, empty policy"
LOADS = (("small", 64), ("large", 64), ("agent", 64), ("small", 1))
GOALS = {
    "requests/s of the floor's, small, 64": ">= 0.75",
    "requests/s of the floor's, large, 64": ">= 0.90",
    "requests/s of the floor's, agent, 64": ">= 0.90",
    "p99 of the floor's, small, 64": "<= 1.30",
    "requests/s of portkey's, small, 64": ">= 10",
    "requests/s of litellm's, small, 64": ">= 50",
}
Ratios = dict[str, dict[str, float]]


def start(place: Place) -> list[System]:
    """All that are there. Raises `StartFailed`, `BadAnswer`."""
    wanted: dict[str, Callable[[], System]] = {
        FLOOR: lambda: systems.floor(place),
        PROXY: lambda: systems.groundwire(place, PROXY, systems.empty_policy(place.folder)),
    }
    if (peers.PEERS / "portkey" / "node_modules").exists():
        wanted["portkey"] = lambda: peers.portkey(place)
    if (peers.PEERS / "litellm" / "bin" / "litellm").exists():
        wanted["litellm"] = lambda: peers.litellm(place)
    started = []
    for name, one in wanted.items():
        try:
            started.append(systems.check(one()))
        except Missing as reason:
            print(f"left out: {name}: {reason}")
    return started


def servers(rounds: int, seconds: float) -> measure.Results:
    """Closed loops over all of them, at every load of `LOADS`. Raises `StartFailed`, `BadAnswer`."""
    server_core, load_core = cores()
    usable = os.sched_getaffinity(0)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speed-")))
        stub = systems.start_stub(folder, load_core, stack)
        stack.callback(os.sched_setaffinity, 0, usable)
        os.sched_setaffinity(0, {load_core})
        started = start(Place(folder, server_core, stub.port, stack))
        found: measure.Results = {}
        for kind, level in LOADS:
            asked = started if kind == "small" else [system for system in started if not system.peer]  # Portkey closes some connections
            found |= measure.measure_requests(asked, [kind], [level], rounds, seconds)
        return found


def compared(found: measure.Results) -> dict[str, Estimate]:
    """The ratios that have a goal, and the CPU's."""
    named: dict[str, Estimate] = {}
    for (kind, level), cells in found.items():
        mine = cells[PROXY]
        for name, cell in cells.items():
            if name != PROXY:
                named[f"requests/s of {name}'s, {kind}, {level}"] = estimate(ratios(mine["per_second"], cell["per_second"]))
        named[f"CPU of the floor's, {kind}, {level}"] = estimate(ratios(mine["cpu_ms"], cells[FLOOR]["cpu_ms"]))
        named[f"p99 of the floor's, {kind}, {level}"] = estimate(ratios(mine["p99"], cells[FLOOR]["p99"]))
    return {name.replace("of floor's", "of the floor's"): value for name, value in named.items()}


def show_servers(found: measure.Results) -> None:
    """Requests a second, CPU and latency of each."""
    for (kind, level), cells in found.items():
        rows = []
        for name, cell in cells.items():
            p50, p99 = estimate(cell["p50"]).mean, estimate(cell["p99"]).mean
            speed, cost = estimate(cell["per_second"]).text(0), estimate(cell["cpu_ms"]).text(3)
            rows.append([name, speed, cost, f"{p50:.2f}", f"{p99:.2f}", f"{cell.n:,}"])
        head = ["system", "requests/s", "CPU ms/request", "p50 ms", "p99 ms", "n"]
        print_table(f"{kind} request, {level} at once, one core (mean of rounds [95% interval])", head, rows)


def show_ratios(now: dict[str, Estimate], before: Ratios) -> None:
    """Against the goals, and against the committed run."""
    rows = []
    for name, value in now.items():
        known = before.get(name, {}).get("mean")
        rows.append(
            [name, GOALS.get(name, ""), value.text(), f"{known:.2f}" if known else "", f"{value.mean / known - 1:+.0%}" if known else ""]
        )
    print_table("Groundwire's ratios (mean of rounds [95% interval])", ["", "goal", "now", "committed", "change"], rows)


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__.split("\n\n")[0])
    options.add_argument("--rounds", type=int, default=12)
    options.add_argument("--seconds", type=float, default=0.5)
    options.add_argument("--quick", action="store_true", help="four short rounds")
    options.add_argument("--output", type=Path, default=OUTPUT)
    given = options.parse_args()
    if given.quick:
        given.rounds, given.seconds = 4, 0.25
    return given


def main() -> int:
    given = parse()
    before: dict[str, Any] = json.loads(OUTPUT.read_text()) if OUTPUT.exists() else {}
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")
    one = hop.measure_all()
    hop.show(one, before.get("hop", {}))
    try:
        found = servers(given.rounds, given.seconds)
    except (BadAnswer, StartFailed) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    show_servers(found)
    now = compared(found)
    show_ratios(now, before.get("ratios", {}))
    written = {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
        "hop": one,
        "ratios": {name: value.as_json() for name, value in now.items()},
    }
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(written, indent=1) + "\n")
    print(f"\nwritten: {given.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
