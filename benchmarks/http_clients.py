"""What does the proxy's own HTTP client cost beside others, and which of aiohttp's settings matter?

The same pass-through app with one client after the other, interleaved, on one core; CPU time per request is the figure, as it does
not depend on how busy the machine is otherwise.

    python -m benchmarks.http_clients              # the clients
    python -m benchmarks.http_clients --settings   # aiohttp with one thing changed at a time, in µs a request

Clients that are not installed here go into an environment of their own under ``results/peers/clients`` (75 MB).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.load import bodies, statistics, systems
from benchmarks.load.clients import AIOHTTP_CHANGES, CLIENTS, PACKAGES
from benchmarks.load.generator import BadAnswer
from benchmarks.load.measure import Cell, Results, measure_requests, ratios
from benchmarks.load.peers import PEERS
from benchmarks.load.processes import StartFailed, cores, free_port
from benchmarks.load.report import print_table
from benchmarks.load.systems import Place, System

RESULTS = Path(__file__).resolve().parent / "results" / "http_clients.json"
BASELINE = "aiohttp"


def interpreter() -> str:
    """A Python that has all clients; made on the first run."""
    python = PEERS / "clients" / "bin" / "python"
    if not python.exists():
        print(f"installing into {python.parents[1]}: {', '.join(PACKAGES)}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return str(python)


def start(names: Sequence[str], place: Place, python: str) -> list[System]:
    """All clients' servers, each checked; one that does not work is named and left out."""
    started = []
    for name in names:
        port = free_port()
        command = [python, "-m", "benchmarks.load.clients", "--client", name, "--port", str(port)]
        command += ["--upstream", f"http://127.0.0.1:{place.upstream_port}"]
        try:
            server, ready_s = place.launch(name.replace(":", ""), command, port, None, {"PYTHONPATH": str(systems.REPOSITORY)})
            started.append(systems.check(System(name, port, server, ready_s=ready_s)))
        except (BadAnswer, StartFailed) as error:
            print(f"left out: {name}: {error}")
    return started


def show(results: Results, in_microseconds: bool) -> None:
    for (kind, level), cells in results.items():
        head = ["client", "requests/s", f"of {BASELINE}", "CPU ms/request", f"times {BASELINE}", "p50 ms", "n"]
        rows = []
        for name, cell in cells.items():
            speed, cost = cell["per_second"], cell["cpu_ms"]
            base = cells[BASELINE]
            row = [name, statistics.estimate(speed).text(0), statistics.estimate(ratios(speed, base["per_second"])).text()]
            row += [statistics.estimate(cost).text(3), _against(cost, base, in_microseconds)]
            rows.append([*row, f"{statistics.estimate(cell['p50']).mean:.3f}", f"{cell.n:,}"])
        if in_microseconds:
            head[4] = "µs more"
        print_table(f"{kind} request, concurrency {level} (mean of rounds [95% interval])", head, rows)


def _against(cost: Sequence[float], base: Cell, in_microseconds: bool) -> str:
    if in_microseconds:
        return statistics.estimate([1000 * (a - b) for a, b in zip(cost, base["cpu_ms"], strict=True)]).text(1)
    return statistics.estimate(ratios(cost, base["cpu_ms"])).text()


def conclusion(results: Results) -> str:
    """Named from the first load: the cheapest client and what the others cost beside it."""
    cells = next(iter(results.values()))
    costs = {name: statistics.estimate(cell["cpu_ms"]).mean for name, cell in cells.items()}
    best = min(costs, key=lambda name: costs[name])
    others = ", ".join(
        f"{name} {cost / costs[best]:.1f}x" for name, cost in sorted(costs.items(), key=lambda item: item[1]) if name != best
    )
    return f"cheapest client: {best} ({costs[best]:.3f} ms of CPU a request, server included); others beside it: {others}"


def parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.http_clients", description=__doc__.split("\n\n")[0])
    options.add_argument("--settings", action="store_true", help="compare aiohttp's settings instead of clients")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=1.0)
    options.add_argument("--concurrency", type=int, nargs="+", default=[64])
    options.add_argument("--bodies", nargs="+", choices=["small", "large"], default=["small", "large"])
    options.add_argument("--output", type=Path, default=RESULTS)
    return options.parse_args()


def main() -> int:
    given = parse()
    server_core, load_core = cores()
    names = [n for n in CLIENTS if (":" in n) == given.settings or n == BASELINE]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="clients-")))
        stub = systems.start_stub(folder, load_core, stack)
        os.sched_setaffinity(0, {load_core})
        started = start(names, Place(folder, server_core, stub.port, stack), interpreter())
        results = measure_requests(started, given.bodies, given.concurrency, given.rounds, given.seconds)
    print(f"data: generated requests, seed {bodies.SEED}; baseline: {BASELINE}; {given.rounds} interleaved rounds of {given.seconds:g} s")
    show(results, given.settings)
    if given.settings:
        print_table("what was changed", ["setting", "meaning"], [list(item) for item in AIOHTTP_CHANGES.items()])
    else:
        print("\n" + conclusion(results))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(_as_json(results), indent=1))
    return 0


def _as_json(results: Results) -> list[dict[str, object]]:
    return [
        {"load": kind, "concurrency": level, "client": name, "n": cell.n}
        | {figure: statistics.estimate(values).as_json() for figure, values in cell.figures.items()}
        for (kind, level), cells in results.items()
        for name, cell in cells.items()
    ]


if __name__ == "__main__":
    raise SystemExit(main())
