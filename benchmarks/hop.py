"""What does a request cost the proxy's process under an empty policy, as a multiple of what it costs the floor's?

    python -m benchmarks.hop                      # some twenty seconds: CPU of both, and their ratio, small and 204 KB
    python -m benchmarks.hop --check              # fails where the ratio has risen by more than 15% above the committed one
    python -m benchmarks.hop --output results.json

CPU time of the server's process by the kernel's clock, all of its threads, and not throughput: it does not hang on how much of a core
others leave it. Both servers run in short turns, one after the other, and each pair of turns gives one ratio; the figure is the median
of them, as a turn that somebody disturbed is far off and few are.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.load import systems
from benchmarks.load.generator import BadAnswer, closed_loop
from benchmarks.load.measure import BODIES
from benchmarks.load.processes import Server, StartFailed, cores, free_port
from benchmarks.load.report import print_table
from benchmarks.load.systems import Place, System

COMMITTED = Path(__file__).resolve().parent / "results" / "speed.json"
LOSS = 0.15
"""Of the ratio to the floor: what a change may cost before the check fails."""
CONCURRENCY = 16
ROUNDS = {"small": 40, "large": 20}
SECONDS = 0.12


def start(place: Place) -> tuple[System, System]:
    """The floor and the proxy, both warm. Raises `StartFailed`, `BadAnswer`, `systems.Missing`."""
    empty = systems.empty_policy(place.folder)
    return systems.check(systems.floor(place)), systems.check(systems.groundwire(place, "groundwire", empty))


def costs(system: System, kind: str, seconds: float) -> float:
    """CPU microseconds a request in one turn. Raises `BadAnswer`."""
    server = system.server
    assert server is not None
    with system.awake():
        sample = closed_loop(system.port, system.request(BODIES[kind]()), system.expected(), CONCURRENCY, seconds, server.scheduled_s)
    return 1e6 * sample.cpu_s / len(sample.latencies_ms)


def compare(floor: System, proxy: System, kind: str, rounds: int, seconds: float) -> dict[str, float]:
    """Medians over the rounds. Raises `BadAnswer`."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            cost = costs(proxy, kind, seconds)
            pairs.append((costs(floor, kind, seconds), cost))
        else:
            pairs.append((costs(floor, kind, seconds), costs(proxy, kind, seconds)))
    return {
        "floor_us": statistics.median(a for a, _ in pairs),
        "proxy_us": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(b / a for a, b in pairs),
        "rounds": rounds,
    }


def measure(rounds: dict[str, int], seconds: float) -> dict[str, dict[str, float]]:
    """By kind of body. Raises `StartFailed`, `BadAnswer`, `systems.Missing`."""
    server_core, load_core = cores()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hop-")))
        port = free_port()
        command = [sys.executable, "-m", "benchmarks.load.stub", "--port", str(port)]
        stub = Server("stub", command, port, folder / "stub.log", load_core, {"PYTHONPATH": str(systems.REPOSITORY)})
        stack.callback(stub.stop)
        stub.wait_ready(None)
        usable = os.sched_getaffinity(0)
        stack.callback(os.sched_setaffinity, 0, usable)
        os.sched_setaffinity(0, {load_core})
        floor, proxy = start(Place(folder, server_core, port, stack))
        return {kind: compare(floor, proxy, kind, rounds[kind], seconds) for kind in rounds}


def show(found: dict[str, dict[str, float]], before: dict[str, dict[str, float]]) -> None:
    """The table."""
    rows = []
    for kind, one in found.items():
        known = before.get(kind, {}).get("ratio")
        change = f"{one['ratio'] / known - 1:+.1%}" if known else ""
        rows.append(
            [kind, f"{one['floor_us']:.1f}", f"{one['proxy_us']:.1f}", f"{one['ratio']:.3f}", f"{known:.3f}" if known else "", change]
        )
    print_table("CPU of a request (median of rounds)", ["body", "floor us", "proxy us", "ratio", "committed", "change"], rows)


def lost(found: dict[str, dict[str, float]], before: dict[str, dict[str, float]]) -> list[str]:
    """What has become too dear, in words."""
    return [
        f"{kind}: {one['ratio']:.3f} times the floor's CPU a request, committed {before[kind]['ratio']:.3f}"
        for kind, one in found.items()
        if kind in before and one["ratio"] > before[kind]["ratio"] * (1 + LOSS)
    ]


def committed() -> dict[str, Any]:
    """The last run's figures; none where there are none."""
    return json.loads(COMMITTED.read_text()).get("cpu", {}) if COMMITTED.exists() else {}


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.hop", description=__doc__.split("\n\n")[0])
    options.add_argument("--check", action="store_true", help=f"fail where the ratio is more than {LOSS:.0%} above the committed one")
    options.add_argument("--rounds", type=int, default=0)
    options.add_argument("--bodies", nargs="+", choices=list(ROUNDS), default=list(ROUNDS))
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--output", type=Path)
    return options.parse_args(arguments)


def main() -> int:
    given = parse()
    try:
        found = measure({kind: given.rounds or ROUNDS[kind] for kind in given.bodies}, given.seconds)
    except (BadAnswer, StartFailed, systems.Missing) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    before = committed()
    show(found, before)
    if given.output:
        given.output.write_text(json.dumps(found, indent=1))
    problems = lost(found, before) if given.check else []
    for problem in problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
