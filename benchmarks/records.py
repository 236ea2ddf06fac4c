"""What does a record cost? CPU of `submit`, encoding and writing, against a bare sqlite3 ``executemany`` in the same run.

    python -m benchmarks.records [--rounds N] [--seed N]

Data: records of this seed with a detail of about 700 bytes, no bodies, 20,000 runs and 7 clients, in batches of 400 to 900 as a
server at 3,000 requests a second makes them in a quarter of a second. Baseline: ready tuples of the same records, one ``executemany``
and one commit a batch, same table, same indexes, synchronous=NORMAL. CPU is user and system time of all threads of the process.

*Idle* writes with nothing else to do. *Serving* does it beside an event loop that works 0.2 ms for each record with socket calls in
between, as a server does, and subtracts the same work without records: what threads lose in passing the interpreter shows only there.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import platform
import random
import socket
import sqlite3
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import __version__ as sqlalchemy_version

from proxy.store.database import Database
from proxy.store.records import Record, to_row
from proxy.store.tables import records as table
from proxy.store.writer import RecordWriter

RESULTS = Path(__file__).parent / "results" / "records.json"
Rows = list[tuple[Any, ...]]
STAGES = ("budget", "history", "compression", "claims", "citations", "confidence")


class NoCounters:
    """The `Counters` port, for nobody."""

    def count(self, name: str, value: int = 1) -> None:
        """Forget it."""


def make_batches(source: random.Random, count: int, first: int) -> list[list[Record]]:
    """`count` batches of new records."""
    batches = []
    for _ in range(count):
        size = source.randint(400, 900)
        batches.append([make_record(source, first + i) for i in range(size)])
        first += size
    return batches


def make_record(source: random.Random, number: int) -> Record:
    """A record as a policy of six stages leaves it."""
    return Record(
        id=f"gw_{number:026d}",
        created_at=1_700_000_000.0 + number / 3000,
        client=f"key-{source.randrange(7)}",
        route="/rag",
        policy="rag@0123abcd",
        upstream="openai",
        model="gpt-4o-mini",
        run_id=f"run_{source.randrange(20_000):08x}",
        step_id="3",
        path="/v1/chat/completions",
        status=200,
        outcome="pass",
        duration_ms=source.random() * 1000,
        prompt_tokens_before=8210,
        prompt_tokens=4877,
        completion_tokens=120,
        detail={
            "verdicts": [{"stage": name, "outcome": "pass", "code": "", "score": 0.9, "detail": {"checked": 3}} for name in STAGES],
            "timings": {f"{name}.request": source.random() for name in STAGES},
            "usage": {"prompt_tokens": 4877, "completion_tokens": 120},
        },
    )


@contextlib.asynccontextmanager
async def fresh_store() -> AsyncIterator[tuple[Database, Path]]:
    """An empty store in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.db"
        database = Database(f"sqlite:///{path}")
        await database.start()
        try:
            yield database, path
        finally:
            await database.stop()


# ---- what is compared: each takes batches, returns CPU microseconds a record ----


async def bare(batches: Sequence[list[Record]]) -> float:
    """sqlite3 alone, with rows that are ready."""
    ready = [[to_row(record) for record in batch] for batch in batches]
    async with fresh_store() as (_, path):
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA synchronous = NORMAL")
        places = ", ".join("?" * len(table.columns))
        started = time.process_time()
        for rows in ready:
            connection.executemany(f"INSERT INTO records VALUES ({places}) ON CONFLICT DO NOTHING", rows)
            connection.commit()
        taken = time.process_time() - started
        connection.close()
    return taken / sum(map(len, batches)) * 1e6


async def encoding(batches: Sequence[list[Record]]) -> float:
    """Only `to_row`: detail to JSON, masked; part of *whole*."""
    started = time.process_time()
    for batch in batches:
        for record in batch:
            to_row(record)
    return (time.process_time() - started) / sum(map(len, batches)) * 1e6


async def submitting(batches: Sequence[list[Record]]) -> float:
    """Only `submit`, the part on the request's path; part of *whole*."""
    count = sum(map(len, batches))
    writer = RecordWriter(Database("sqlite://"), NoCounters(), max_rows=count)
    started = time.process_time()
    for batch in batches:
        for record in batch:
            writer.submit(record)
    return (time.process_time() - started) / count * 1e6


async def whole(batches: Sequence[list[Record]]) -> float:
    """`submit` and `flush`, a batch at a time."""
    async with fresh_store() as (database, _):
        writer = RecordWriter(database, NoCounters())
        started = time.process_time()
        for batch in batches:
            for record in batch:
                writer.submit(record)
            await writer.flush()
        taken = time.process_time() - started
    return taken / sum(map(len, batches)) * 1e6


async def serving(batches: Sequence[list[Record]], flush: Callable[[Database, list[Record]], Awaitable[None]] | None) -> float:
    """CPU microseconds a record of an event loop that works for each, and writes them with `flush` meanwhile if there is one."""
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    loop = asyncio.get_running_loop()
    async with fresh_store() as (database, _):
        writer = RecordWriter(database, NoCounters())
        writing: asyncio.Task[None] | None = None
        started = time.process_time()
        for batch in batches:
            for record in batch:
                await loop.sock_sendall(left, b"x" * 200)
                sum(range(8000))
                await loop.sock_recv(right, 200)
                await asyncio.sleep(0)
                if flush is None:
                    continue
                writer.submit(record)
            if writing:
                await writing
            if flush is not None:
                writing = asyncio.create_task(flush(database, batch) if flush is not through_writer else writer.flush())  # type: ignore[arg-type]
        if writing:
            await writing
        taken = time.process_time() - started
    left.close()
    right.close()
    return taken / sum(map(len, batches)) * 1e6


async def through_writer(database: Database, batch: list[Record]) -> None:
    """Stands for `RecordWriter.flush` in `serving`."""


async def row_by_row(database: Database, batch: list[Record]) -> None:
    """The driver's ``executemany``: a step of sqlite3, and so a passing of the interpreter, for every row."""
    rows = await asyncio.to_thread(lambda: [to_row(record) for record in batch])
    insert = database.compiled(lambda database: database.insert(table).on_conflict_do_nothing())
    async with database.transaction() as connection:
        await connection.exec_driver_sql(insert, rows)


async def core(database: Database, batch: list[Record]) -> None:
    """SQLAlchemy Core's own INSERT with a dictionary a row."""
    names = [column.name for column in table.columns]
    rows = await asyncio.to_thread(lambda: [dict(zip(names, to_row(record), strict=True)) for record in batch])
    async with database.transaction() as connection:
        await connection.execute(database.insert(table).on_conflict_do_nothing(), rows)


# ---- rounds ----


def interval(values: Sequence[float], source: random.Random) -> tuple[float, float, float]:
    """Median and its 95% bootstrap interval."""
    medians = sorted(statistics.median(source.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


async def run(rounds: int, seed: int) -> dict[str, list[float]]:
    """Every measurement once a round, in turns, each round beginning with another."""
    source = random.Random(seed)
    alone = await _alone(source)
    systems: dict[str, Callable[[list[list[Record]]], Awaitable[float]]] = {
        "bare executemany": bare,
        "submit": submitting,
        "encode": encoding,
        "idle: submit + flush": whole,
        "serving: submit + flush": lambda b: _above(b, through_writer),
        "serving: executemany": lambda b: _above(b, row_by_row),
        "serving: SQLAlchemy Core": lambda b: _above(b, core),
    }
    found: dict[str, list[float]] = {name: [] for name in systems}
    names = list(systems)
    for i in range(rounds):
        batches = make_batches(source, 6, alone + i * 10_000)
        for name in names[i % len(names) :] + names[: i % len(names)]:
            found[name].append(await systems[name](batches))
    return found


async def _alone(source: random.Random) -> int:
    """Warm up; returns the first free record number."""
    await whole(make_batches(source, 1, 0))
    return 1000


async def _above(batches: list[list[Record]], flush: Callable[[Database, list[Record]], Awaitable[None]]) -> float:
    """What records add to the same work without them, measured right before and after."""
    before = await serving(batches, None)
    with_records = await serving(batches, flush)
    after = await serving(batches, None)
    return with_records - (before + after) / 2


def main() -> None:
    """Print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version, "sqlalchemy": sqlalchemy_version}
    print(", ".join(f"{name} {version}" for name, version in versions.items()), f"seed {options.seed}, {options.rounds} rounds", sep=", ")
    found = asyncio.run(run(options.rounds, options.seed))
    source = random.Random(options.seed)
    base = found["bare executemany"]
    report: dict[str, Any] = {**versions, "seed": options.seed, "rounds": options.rounds, "results": {}}
    print(f"{'':28}{'CPU µs a record':>18}{'95% interval':>18}{'ratio to bare':>16}{'95% interval':>18}")
    for name, values in found.items():
        cost = interval(values, source)
        ratio = interval([value / other for value, other in zip(values, base, strict=True)], source)
        report["results"][name] = {"cpu_us": cost, "ratio_to_bare": ratio, "samples": values}
        print(f"{name:28}{cost[0]:18.2f}{cost[1]:10.2f}-{cost[2]:<7.2f}{ratio[0]:16.2f}{ratio[1]:10.2f}-{ratio[2]:<7.2f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
