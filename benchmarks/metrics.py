"""What do the metrics cost? CPU of counting an exchange, its share of a request's CPU in the running server, and what reading them takes.

    python -m benchmarks.metrics            # about ten minutes
    python -m benchmarks.metrics --quick    # about one minute, rough

*Counting*: one finished exchange of each kind and its call of the upstream, in a process alone and in one that shares its figures with
other workers, against prometheus-client's own counters raised at once (a counter and a histogram, for comparison). *Server*: the real
server, whose metrics are switched off and on (`benchmarks.load.switched`) in short slices, CPU of its process by the kernel's clock; the
cost is the ratio of neighbouring slices, and the placebo the same ratio of two slices without metrics, which says what is noise.
*Reading*: ``/metrics`` and its JSON, and the figures of a week over a store of records (`proxy.store.figures`), by the hour, cold and once
more. Intervals are 95% bootstrap intervals: over rounds, of means; over slices, of medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Counter, Histogram

from benchmarks.load import bodies, systems
from benchmarks.load.generator import BadAnswer, closed_loop
from benchmarks.load.processes import StartFailed, cores
from benchmarks.load.statistics import SEED, Estimate, estimate
from benchmarks.load.systems import Place, System
from benchmarks.records import NoCounters, make_record
from proxy.exchange import Answer, Choice, CompressionResult, ContextUse, Exchange, ToolSelection, Usage, Verdict
from proxy.observe.finished import Finished
from proxy.observe.metrics import Metrics
from proxy.observe.metrics.families import OVERHEAD_EDGES_S
from proxy.stages.registry import STAGES
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures
from proxy.store.writer import RecordWriter
from proxy.testing import make_exchange

RESULTS = Path(__file__).resolve().parent / "results" / "metrics.json"
TARGET = 0.02
"""Of throughput: what the metrics may cost."""
_WEEK_S, _HOUR_S = 604_800, 3600
_START = 1_700_006_400.0
_LOOPS = 20_000
CONCURRENCY = 64


# ---- counting, in this process ----


def make_empty() -> Exchange:
    """As an empty policy leaves it."""
    exchange = make_exchange(model="gpt-4o")
    exchange.answer = Answer((Choice(0, "Hi."),), usage=Usage(900, 120, 512))
    exchange.timings["after_ms"] = 0.2
    return exchange


def make_counted() -> Exchange:
    """As a policy leaves it that only counts tokens."""
    exchange = make_empty()
    exchange.timings |= {"budget.request": 0.1, "budget.forward": 0.05}
    exchange.facts.context_before = exchange.facts.context = ContextUse(900, 128_000, True)
    exchange.verdicts.append(Verdict("budget", "pass", score=0.01))
    return exchange


def make_full() -> Exchange:
    """As a policy of every stage leaves it."""
    exchange = make_counted()
    for stage in STAGES:
        exchange.timings |= {f"{stage.name}.request": 1.0, f"{stage.name}.answer": 2.0}
        exchange.verdicts.append(Verdict(stage.name, "pass", score=0.9))
    exchange.verdicts.append(Verdict("budget", "warn", code="context_usage_high", score=0.75))
    facts = exchange.facts
    facts.compression, facts.tools = CompressionResult(("trim",), 9000, 5000), ToolSelection(45, 5)
    facts.quality = facts.faithfulness = facts.relevance = 0.9
    facts.citations = (3, 4)
    return exchange


SHAPES: dict[str, Callable[[], Exchange]] = {"empty policy": make_empty, "token counting": make_counted, "every stage": make_full}


def count_once(rounds: int) -> dict[str, list[float]]:
    """CPU µs of each, a value a round."""
    metrics = Metrics()
    upstream, registry = metrics.upstream("openai"), CollectorRegistry()
    counter = Counter("c", "c", ("x",), registry=registry).labels("1")
    histogram = Histogram("h", "h", ("x",), buckets=OVERHEAD_EDGES_S, registry=registry).labels("1")

    def counting(exchange: Exchange) -> Callable[[], None]:
        done = {"route": "/rag", "verdict": "pass", "status": 200, "overhead_ms": 0.2, "exchange": exchange}
        usage = exchange.answer.usage if exchange.answer is not None else None

        def once() -> None:
            upstream.answered(200, 0.3)
            upstream.ended(0.9)
            metrics.exchange(Finished(id="gw_1", usage=usage, **done), 0.001)

        return once

    works: dict[str, Callable[[], None]] = {name: counting(make()) for name, make in SHAPES.items()}
    works["prometheus-client: one counter"] = counter.inc
    works["prometheus-client: one histogram"] = lambda: histogram.observe(0.004)
    works["handing on, a second"] = metrics.publish
    found: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            loops = _LOOPS if "handing" not in name else 100
            started = time.process_time()
            for _ in range(loops):
                work()
            found[name].append((time.process_time() - started) / loops * 1e6)
    for name, work in {"/metrics": metrics.prometheus, "/groundwire/v1/metrics": metrics.as_json}.items():
        found[name] = []
        for _ in range(rounds):
            started = time.process_time()
            work()
            found[name].append((time.process_time() - started) * 1e6)
    return found


def counted_elsewhere(rounds: int, folder: str | None) -> dict[str, list[float]]:
    """The same in a process of its own; prometheus-client decides when it is imported whether figures are shared."""
    environment = {**os.environ, "PYTHONPATH": str(systems.REPOSITORY)} | ({"PROMETHEUS_MULTIPROC_DIR": folder} if folder else {})
    command = [sys.executable, "-m", "benchmarks.metrics", "--rounds", str(rounds), "--only-count"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, list[float]] = json.loads(done.stdout)
    return found


# ---- the real server ----


def serve(pairs: int, seconds: float) -> dict[str, dict[str, list[float]]]:
    """CPU µs a request with and without metrics, by policy, a value a pair. Raises `BadAnswer`, `StartFailed`, `Missing`."""
    server_core, load_core = cores()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="metrics-")))
        stub = systems.start_stub(folder, load_core, stack)
        os.sched_setaffinity(0, {load_core})
        place = Place(folder, server_core, stub.port, stack)
        policies = {"empty policy": systems.empty_policy(folder), "default policy": systems.REPOSITORY / "policies" / "default.yaml"}
        found = {}
        for name, policy in policies.items():
            system = systems.check(systems.groundwire(place, name, policy, "benchmarks.load.switched"))
            with system.awake():
                found[name] = switched(system, pairs, seconds)
        return found


def switched(system: System, pairs: int, seconds: float) -> dict[str, list[float]]:
    """One server in turns with, without, and without once more, in an order that is drawn anew each time."""
    assert system.server is not None
    process, request = system.server.process.pid, system.request(bodies.small())
    found: dict[str, list[float]] = {"with": [], "without": [], "placebo": []}
    draw = random.Random(SEED)
    for _ in range(pairs):
        for how in draw.sample(list(found), len(found)):
            os.kill(process, signal.SIGUSR2 if how == "with" else signal.SIGUSR1)
            sample = closed_loop(system.port, request, system.expected(), CONCURRENCY, seconds, lambda: cpu_s(process))
            found[how].append(sample.cpu_s / len(sample.latencies_ms) * 1e6)
    return found


def cpu_s(process: int) -> float:
    """CPU seconds of a process, to the nanosecond: clock_getcpuclockid(3), as Linux makes that number."""
    return time.clock_gettime((~process << 3) | 2)


def middle(values: Sequence[float]) -> Estimate:
    """Median with its 95% bootstrap interval: what other work on the machine takes from one slice does not count for all."""
    draw, n = random.Random(SEED), len(values)
    medians = sorted(statistics.median(draw.choices(values, k=n)) for _ in range(2000))
    return Estimate(statistics.median(values), medians[50], medians[1949], n)


# ---- a week ----


async def week(records: int, rounds: int) -> dict[str, list[float]]:
    """Seconds of wall time and CPU for the figures of a week, by the hour."""
    found: dict[str, list[float]] = {name: [] for name in ("cold, s", "cold, CPU s", "once more, s", "a day, cold, s", "longest pause, ms")}
    panels = [stage.panel for stage in STAGES if stage.panel is not None]
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{folder}/week.db")
        await database.start()
        await fill(database, records)
        for _ in range(rounds):
            figures, pauses = DatabaseFigures(database, panels), Pauses()
            async with pauses:
                cpu, started = time.process_time(), time.perf_counter()
                read = sum(bucket.details for bucket in await figures.between(_START, _START + _WEEK_S, _HOUR_S))
                found["cold, s"].append(time.perf_counter() - started)
                found["cold, CPU s"].append(time.process_time() - cpu)
            assert read == records
            found["longest pause, ms"].append(pauses.longest_ms)
            started = time.perf_counter()
            await figures.between(_START, _START + _WEEK_S, _HOUR_S)
            found["once more, s"].append(time.perf_counter() - started)
            day, started = DatabaseFigures(database, panels), time.perf_counter()
            await day.between(_START, _START + 86_400, _HOUR_S)
            found["a day, cold, s"].append(time.perf_counter() - started)
        await database.stop()
    return found


async def fill(database: Database, records: int) -> None:
    """A week of records, evenly."""
    source, writer = random.Random(SEED), RecordWriter(database, NoCounters(), max_rows=records)
    facts = {"context": {"used_tokens": 4877, "window_tokens": 8192, "exact": True, "components": {}}, "quality": 0.9, "faithfulness": 1.0}
    for number in range(records):
        record = make_record(source, number)
        at = _START + number * _WEEK_S / records
        writer.submit(replace(record, created_at=at, detail={**record.detail, "facts": facts}))
    await writer.flush()


class Pauses:
    """How long the event loop was kept from other work."""

    def __init__(self) -> None:
        self.longest_ms = 0.0

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._look())

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _look(self) -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest_ms = max(self.longest_ms, (time.perf_counter() - started - 0.001) * 1000)


# ---- the report ----


def table(title: str, rows: dict[str, Estimate], digits: int = 2) -> dict[str, Any]:
    """Print it; the same for JSON."""
    print(f"\n{title}")
    for name, found in rows.items():
        print(f"  {name:<42}{found.text(digits):>28}  n {found.n}")
    return {name: found.as_json() for name, found in rows.items()}


def estimates(found: dict[str, list[float]]) -> dict[str, Estimate]:
    """Each with its interval."""
    return {name: estimate(values) for name, values in found.items() if values}


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Everything, printed and for JSON."""
    print(f"machine: {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}; seed {SEED}; {given.rounds} rounds")
    alone = estimates(counted_elsewhere(given.rounds, None))
    with tempfile.TemporaryDirectory(prefix="metrics-") as folder:
        shared = estimates(counted_elsewhere(given.rounds, folder))
    report: dict[str, Any] = {
        "alone_us": table("counting, CPU µs, one worker", alone),
        "shared_us": table("counting, CPU µs, one of several workers", shared),
    }
    served = serve(given.pairs, given.seconds)
    cpu = {f"{policy}, {how}": middle(values) for policy, both in served.items() for how, values in both.items()}
    report["server_us"] = table(f"server, small body, {CONCURRENCY} at once: CPU µs a request, median", cpu, 1)
    shares = shares_of(served, alone, shared)
    report["share_of_cpu"] = table(f"share of a request's CPU (goal below {TARGET:g})", shares, 4)
    for name, found in ((name, found) for name, found in shares.items() if "placebo" not in name):
        word = "met" if found.high < TARGET else "not shown" if found.low < TARGET else "MISSED"
        print(f"  goal below {TARGET:.0%}, {name}: {word}")
    found = asyncio.run(week(given.records, given.week_rounds))
    report["week"] = table(f"figures of a week by the hour, {given.records:,} records, SQLite", estimates(found), 3)
    return {"python": platform.python_version(), "seed": SEED, "options": {k: str(v) for k, v in vars(given).items()}, **report}


def shares_of(served: dict[str, dict[str, list[float]]], *counted: dict[str, Estimate]) -> dict[str, Estimate]:
    """Of a request's CPU without metrics: what the server says pair by pair, and what was counted in one worker, and in one of several."""
    found: dict[str, Estimate] = {}
    for policy, shape in (("empty policy", "empty policy"), ("default policy", "token counting")):
        both = served[policy]
        for how, name in (("with", "server"), ("placebo", "server, placebo")):
            found[f"{policy}, {name}"] = middle([a / b - 1 for a, b in zip(both[how], both["without"], strict=True)])
        for name, each in zip(("one worker", "several"), counted, strict=True):
            found[f"{policy}, counted, {name}"] = scaled(each[shape], middle(both["without"]).mean)
    return found


def scaled(found: Estimate, by: float) -> Estimate:
    """Divided."""
    return Estimate(found.mean / by, found.low / by, found.high / by, found.n)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables and write the JSON."""
    options = argparse.ArgumentParser(prog="python -m benchmarks.metrics", description=__doc__.split("\n\n")[0])
    options.add_argument("--rounds", type=int, default=15, help="of counting")
    options.add_argument("--pairs", type=int, default=200, help="of slices of the server's time, each with a placebo")
    options.add_argument("--seconds", type=float, default=0.25, help="of each slice")
    options.add_argument("--records", type=int, default=100_000)
    options.add_argument("--week-rounds", type=int, default=5)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only-count", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--output", type=Path, default=RESULTS)
    given = options.parse_args(arguments)
    if given.only_count:
        print(json.dumps(count_once(given.rounds)))
        return 0
    if given.quick:
        given.rounds, given.pairs, given.records, given.week_rounds = 5, 30, 20_000, 2
    try:
        report = run(given)
    except (BadAnswer, StartFailed, systems.Missing) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(f"\nwritten: {given.output}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
