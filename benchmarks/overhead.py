"""What does Groundwire add to a call? Requests per second, latency, CPU, streams, start-up and memory against calling the upstream
directly, nginx, a bare pass-through (the floor) and, if asked for, LiteLLM's and Portkey's gateways.

    python -m benchmarks.overhead            # about five minutes
    python -m benchmarks.overhead --quick    # below one minute, rough
    python -m benchmarks.overhead --with-litellm --with-portkey --stream-policy policies/rag.yaml

Prints tables and targets, writes results/overhead.json. Needs an otherwise quiet machine with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from benchmarks.load import bodies, measure, peers, report, statistics, systems
from benchmarks.load.generator import BadAnswer
from benchmarks.load.processes import StartFailed, cores
from benchmarks.load.systems import Missing, Place, System

RESULTS = Path(__file__).resolve().parent / "results" / "overhead.json"
EMPTY, DEFAULT = "groundwire, empty policy", "groundwire, default policy"


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m benchmarks.overhead", description=__doc__.split("\n\n")[0])
    options.add_argument("--rounds", type=int, default=5, help="interleaved rounds over all systems")
    options.add_argument("--seconds", type=float, default=1.0, help="length of one measurement")
    options.add_argument("--concurrency", type=int, nargs="+", default=[1, 4, 16, 64])
    options.add_argument("--bodies", nargs="+", choices=list(measure.BODIES), default=measure.USUAL)
    options.add_argument("--stream-concurrency", type=int, nargs="*", default=[1, 16], help="empty: no streams")
    options.add_argument("--stream-rounds", type=int, default=4)
    options.add_argument("--stream-policy", type=Path, nargs="*", default=[], metavar="FILE", help="further policies, streams only")
    options.add_argument("--policy", type=Path, default=systems.REPOSITORY / "policies" / "default.yaml", help="the default policy")
    options.add_argument("--chunks", type=int, default=20)
    options.add_argument("--gap-ms", type=float, default=10.0)
    options.add_argument("--starts", type=int, default=5, help="how often start-up is timed")
    options.add_argument("--with-litellm", action="store_true", help=f"installs {peers.LITELLM} (about 1 GB)")
    options.add_argument("--with-portkey", action="store_true", help=f"installs {peers.PORTKEY}")
    options.add_argument("--quick", action="store_true", help="two short rounds at concurrency 1 and 64")
    options.add_argument("--output", type=Path, default=RESULTS)
    given = options.parse_args(arguments)
    if given.quick:
        given.rounds, given.seconds, given.concurrency = 2, 0.4, [1, 64]
        given.stream_rounds, given.starts = 1, 2
    return given


def start_systems(given: argparse.Namespace, place: Place) -> tuple[list[System], list[str]]:
    """All that can be had, each checked with one right answer; and the names of those for streams only."""
    empty = systems.empty_policy(place.folder)
    wanted: list[tuple[str, Callable[[], System]]] = [
        ("direct", lambda: systems.direct(place)),
        ("nginx", lambda: systems.nginx(place)),
        ("floor", lambda: systems.floor(place)),
        (EMPTY, lambda: systems.groundwire(place, EMPTY, empty)),
        (DEFAULT, lambda: systems.groundwire(place, DEFAULT, given.policy.resolve())),
    ]
    streams_only = [f"groundwire, {policy.stem} policy" for policy in given.stream_policy]
    for name, policy in zip(streams_only, given.stream_policy, strict=True):
        wanted.append((name, lambda name=name, policy=policy: systems.groundwire(place, name, policy.resolve())))  # type: ignore[misc]
    if given.with_litellm:
        wanted.append(("litellm", lambda: peers.litellm(place)))
    if given.with_portkey:
        wanted.append(("portkey", lambda: peers.portkey(place)))
    started = []
    for name, start in wanted:
        try:
            started.append(systems.check(start()))
        except Missing as reason:
            print(f"left out: {name}: {reason}")
        except BadAnswer as error:
            raise BadAnswer(f"{name} answered wrongly: {error}") from error
    return started, streams_only


def time_starts(given: argparse.Namespace, folder: Path, core: int, upstream_port: int) -> dict[str, list[float]]:
    """Start Groundwire some times on its own; seconds to ready and PSS then. Empty if it can't be started."""
    found: dict[str, list[float]] = {"ready_s": [], "pss_mb": []}
    for _ in range(given.starts):
        with ExitStack() as stack:
            try:
                place = Place(folder, core, upstream_port, stack)
                server, ready_s = systems.start_groundwire(place, "start", systems.empty_policy(folder))
            except Missing:
                return {}
            found["ready_s"].append(ready_s)
            found["pss_mb"].append(server.pss_mb())
    return found


def run(given: argparse.Namespace) -> dict[str, Any]:
    server_core, load_core = cores()
    if server_core == load_core:
        print("WARNING: one core only: server and load generator share it, so only CPU ms/request means anything")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="overhead-")))
        stub = systems.start_stub(folder, load_core, stack, "--chunks", str(given.chunks), "--gap-ms", str(given.gap_ms))
        os.sched_setaffinity(0, {load_core})
        place = Place(folder, server_core, stub.port, stack)
        start = time_starts(given, folder, server_core, stub.port) if (systems.REPOSITORY / "proxy" / "__main__.py").exists() else {}
        started, streams_only = start_systems(given, place)
        plain = [system for system in started if system.name not in streams_only]
        print(header(given, started))
        requests = measure.measure_requests(plain, given.bodies, given.concurrency, given.rounds, given.seconds)
        each_s = given.chunks * given.gap_ms / 1000
        levels = given.stream_concurrency
        streamed = [system for system in started if not system.peer]
        streams = measure.measure_streams(streamed, levels, given.stream_rounds, given.chunks, each_s) if levels else {}
        memory = {system.name: round(system.server.pss_mb(), 1) for system in started if system.server}
    return conclude(given, requests, streams, start, memory)


def header(given: argparse.Namespace, started: list[System]) -> str:
    sizes = ", ".join(f"{kind} {len(measure.BODIES[kind]()):,} bytes" for kind in given.bodies)
    return (
        f"data: generated requests ({sizes}), seed {bodies.SEED}; baseline: direct and floor; "
        f"metric: mean over {given.rounds} interleaved rounds of {given.seconds:g} s with 95% bootstrap interval, seed {statistics.SEED}\n"
        f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; "
        f"one core for each server, another for generator and stub; systems: {'; '.join(s.name for s in started)}"
    )


def conclude(
    given: argparse.Namespace,
    requests: measure.Results,
    streams: measure.Results,
    start: dict[str, list[float]],
    memory: dict[str, float],
) -> dict[str, Any]:
    report.print_requests(requests)
    report.print_streams(streams, given.gap_ms, given.chunks)
    print("\nmemory after the load (PSS, MB): " + ", ".join(f"{name} {mb:g}" for name, mb in memory.items()))
    found = report.targets(requests, start, {"empty": EMPTY})
    if found:
        report.print_targets(found)
    return {
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in vars(given).items() if key != "stream_policy"},
        "python": platform.python_version(),
        "seeds": {"bodies": bodies.SEED, "bootstrap": statistics.SEED},
        "requests": report.as_json(requests),
        "streams": report.as_json(streams),
        "start": {name: statistics.estimate(values).as_json() for name, values in start.items() if values},
        "memory_after_mb": memory,
        "targets": report.targets_as_json(found),
    }


def main() -> int:
    given = parse()

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)  # so that the servers are ended on the way out

    signal.signal(signal.SIGTERM, leave)
    try:
        outcome = run(given)
    except (BadAnswer, StartFailed) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(outcome, indent=1))
    print(f"\nwritten: {given.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
