"""What do failure records cost a turn, in a run that has very many of them?

    python -m benchmarks.reflection_store [--records N] [--samples N] [--limit N] [--seed N]

Data: one run with 10,000 active records of this seed, in a SQLite file: 40 tools, 7 codes, the records of one turn (up to 20) at one
moment. Baseline: the same run with 10 records, in the same process. Both are asked in turns, with 5 fingerprints and 5 tools each:

- *relevant*: what a step may need to know, as every turn asks with the stage `reflection`.
- *known*: `apply` with 20 events that were all told before, as every turn does that repeats its history.
- *new*: `apply` with the same 20 events and one new occurrence of a known failure.
- *relevant + known*: both, one after the other, as most turns do. The goal is below 2 ms at the 95th percentile.

Times are wall clock, of the whole call; *CPU* is the median of what all threads of the process take meanwhile, which other work on the
machine changes least. *Ratio* is to the same with 10 records, of medians; intervals are 95%, bootstrapped.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct
from sqlalchemy import __version__ as sqlalchemy_version

from proxy.language.json.fingerprint import action_key, fingerprint
from proxy.offloop import calm_collector
from proxy.ports import FailureEvent
from proxy.ports.failures import CODES, SEVERITIES, Failure
from proxy.store.database import Database
from proxy.store.failures import DatabaseFailures

RESULTS = Path(__file__).parent / "results" / "reflection_store.json"
GOAL_MS = 2.0
BASELINE_RECORDS = 10
TURN_EVENTS = 20
TOOLS = [f"tool_{number:02d}" for number in range(40)]
RUN = {"client": "key-1", "run_id": "run_0123abcd"}
STEP = {**RUN, "policy": "agent@0123abcd", "step_id": "12", "record_id": "gw_01"}


def make_event(source: random.Random, number: int, cause: str = "") -> FailureEvent:
    """A failed tool call, as the signals find one; of each `number` another failure."""
    tool, code = source.choice(TOOLS), source.choice(CODES["tool_error"][:7])
    arguments = {"query": f"words of number {number}", "limit": 50, "page": 1}
    name, call = fingerprint("tool_error", code, tool, arguments), f"call_{number:024d}"
    failure = Failure(
        signal_type="tool_error",
        code=code,
        severity=source.choice(SEVERITIES),
        phase="tool",
        subject=tool,
        fingerprint=name,
        action_key=action_key(tool, arguments),
        cause=cause or call,
        position=7,
        attempted_action={
            "kind": "tool_call",
            "tool": tool,
            "tool_call_ids": [call],
            "arguments": {"query": {"hash": "0123456789abcdef", "characters": 23}, "limit": 50, "page": 1},
        },
        observed_outcome={"code": code, "exception": "TimeoutError", "status": 504},
        recommended_adjustment={"type": "cap_output", "argument": "limit", "at_most": 10},
        context_refs=({"message": 7, "tool_call": call}, {"record": "gw_0123456789"}),
    )
    return FailureEvent(kind="occurred", fingerprint=name, cause=failure.cause, failure=failure)


class Filled(Struct):
    """A run with its records."""

    store: DatabaseFailures
    events: list[FailureEvent]


@contextlib.asynccontextmanager
async def filled(source: random.Random, records: int) -> AsyncIterator[Filled]:
    """A store of its own with `records` active records in one run."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite:///{Path(folder) / 'store.db'}")
        await database.start()
        clock = iter(range(1_700_000_000, 1_800_000_000))
        store = DatabaseFailures(database, clock=lambda: float(next(clock)))
        events = [make_event(source, number) for number in range(records)]
        for start in range(0, records, TURN_EVENTS):
            await store.apply(events[start : start + TURN_EVENTS], **STEP)
        try:
            yield Filled(store, events)
        finally:
            await database.stop()


async def one_turn(source: random.Random, run: Filled, number: int, limit: int, found: dict[str, list[float]]) -> None:
    """Each measurement once, in milliseconds."""
    asked = source.sample(run.events, min(5, len(run.events)))
    told = source.sample(run.events, min(TURN_EVENTS, len(run.events)))
    names, tools = [event.fingerprint for event in asked], source.sample(TOOLS, 5)
    started, began = time.perf_counter(), time.process_time()
    records = await run.store.relevant(**RUN, fingerprints=names, subjects=tools, limit=limit)
    relevant, asked_cpu = time.perf_counter(), time.process_time()
    await run.store.apply(told, **STEP)
    known, known_cpu = time.perf_counter(), time.process_time()
    again = FailureEvent(kind="occurred", fingerprint=told[0].fingerprint, cause=f"again-{number}", failure=told[0].failure)
    await run.store.apply([*told, again], **STEP)
    new, new_cpu = time.perf_counter(), time.process_time()
    assert [e.fingerprint for e in asked] == [r.fingerprint for r in sorted(records[:5], key=lambda r: _place(r.fingerprint, asked))]
    times = {"relevant": relevant - started, "known": known - relevant, "new": new - known, "relevant + known": known - started}
    cpu = {"relevant": asked_cpu - began, "known": known_cpu - asked_cpu, "new": new_cpu - known_cpu, "relevant + known": known_cpu - began}
    for name, seconds in times.items():
        found.setdefault(name, []).append(seconds * 1e3)
        found.setdefault(f"CPU {name}", []).append(cpu[name] * 1e3)


def _place(name: str, asked: Sequence[FailureEvent]) -> int:
    return [event.fingerprint for event in asked].index(name)


async def run(records: int, samples: int, limit: int, seed: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The samples of the large run and of the small one, in turns."""
    source = random.Random(seed)
    large: dict[str, list[float]] = {}
    small: dict[str, list[float]] = {}
    async with filled(source, records) as many, filled(source, BASELINE_RECORDS) as few:
        calm_collector()  # as a server does when it has started
        for number in range(-50, samples):  # the first ones warm up
            if number == 0:
                large.clear(), small.clear()
            for run_, found in ((many, large), (few, small)) if number % 2 else ((few, small), (many, large)):
                await one_turn(source, run_, number, limit, found)
    return large, small


def interval(values: Sequence[float], source: random.Random, quantile: float) -> tuple[float, float, float]:
    """A quantile and its 95% bootstrap interval."""

    def at(some: Sequence[float]) -> float:
        return sorted(some)[min(len(some) - 1, int(len(some) * quantile))]

    drawn = sorted(at(source.choices(values, k=len(values))) for _ in range(500))
    return at(values), drawn[12], drawn[487]


def main() -> None:
    """Print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--limit", type=int, default=64, help="records that relevant gives, as the stage asks")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "sqlalchemy": sqlalchemy_version}
    print(", ".join(f"{name} {version}" for name, version in versions.items()), end=", ")
    print(f"{options.records} records against {BASELINE_RECORDS}, limit {options.limit}, n {options.samples}, seed {options.seed}")
    large, small = uvloop.run(run(options.records, options.samples, options.limit, options.seed))
    source = random.Random(options.seed)
    results: dict[str, Any] = {}
    print(
        f"{'':18}{'p50 ms':>8}{'95% interval':>16}{'p95 ms':>9}{'95% interval':>16}{'baseline p50':>14}{'p95':>7}{'ratio':>8}{'CPU ms':>8}"
    )
    for name in [name for name in large if not name.startswith("CPU ")]:
        values, cpu = large[name], statistics.median(large[f"CPU {name}"])
        p50, p95 = interval(values, source, 0.5), interval(values, source, 0.95)
        base50, base95 = interval(small[name], source, 0.5), interval(small[name], source, 0.95)
        ratio = statistics.median(values) / statistics.median(small[name])
        results[name] = {
            "p50_ms": p50,
            "p95_ms": p95,
            "baseline_p50_ms": base50,
            "baseline_p95_ms": base95,
            "cpu_p50_ms": cpu,
            "ratio": ratio,
        }
        line = f"{name:18}{p50[0]:8.2f}{p50[1]:10.2f}-{p50[2]:<5.2f}{p95[0]:9.2f}{p95[1]:10.2f}-{p95[2]:<5.2f}"
        print(f"{line}{base50[0]:14.2f}{base95[0]:7.2f}{ratio:8.2f}{cpu:8.2f}")
    reached = results["relevant + known"]["p95_ms"][0]
    print(f"goal: relevant + known below {GOAL_MS:g} ms at p95: {'met' if reached < GOAL_MS else 'missed'} ({reached:.2f} ms)")
    report = {
        **versions,
        "seed": options.seed,
        "samples": options.samples,
        "records": options.records,
        "limit": options.limit,
        "results": results,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
