"""What would records partitioned by day give and take on PostgreSQL, against one table whose old rows are deleted in batches?

    python -m benchmarks.records_partitions [--records N] [--keep FOLDER]

Data: as `benchmarks.records_search` makes them, 30 days, once as the product has them and once in a table of the same columns and indexes
that is partitioned by day of ``created_at`` (its key is ``(id, created_at)``, as a key holds what a table is partitioned by).

Looks are the product's statements, which know no partitions, and the look for one id also with the time that is in it: planning and
execution in the server, in milliseconds, the median of 15. Writing is batches of 500 rows that begin and then get their records, as
`RecordWriter` writes them. A day goes in batches with the product's pauses (`Retention`), and by dropping its partition; the vacuum
behind it is counted. CPU is that of all of the server's processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import text

from benchmarks.load.processes import tree
from benchmarks.records import make_record
from benchmarks.records_search import WAL, fill, opened, server
from proxy.store.database import Database, write
from proxy.store.drivers import AsyncConnection
from proxy.store.records import to_row
from proxy.store.retention import Retention
from proxy.store.tables import records as table

RESULTS = Path(__file__).resolve().parent / "results" / "records_partitions.json"
ROUNDS, DAY_S, BATCH = 15, 86_400.0, 500
TICKS = os.sysconf("SC_CLK_TCK")


def looks(now: float, one: str, at: float) -> dict[str, str]:
    """As the product asks for them."""
    hundred = ", ".join(f"'{one}{n}'" for n in range(100))
    over = "outcome <> 'pending'"
    newest = "ORDER BY created_at DESC, id DESC LIMIT 21"
    return {
        "one id": f"SELECT * FROM TABLE WHERE id = '{one}'",
        "one id, with its time": f"SELECT * FROM TABLE WHERE id = '{one}' AND created_at BETWEEN {at - 1} AND {at + 1}",
        "100 ids": f"SELECT * FROM TABLE WHERE id IN ({hundred})",
        "newest": f"SELECT * FROM TABLE WHERE {over} {newest}",
        "newest of a client": f"SELECT * FROM TABLE WHERE {over} AND client = 'key-7' {newest}",
        "newest of nobody": f"SELECT * FROM TABLE WHERE {over} AND client = 'nobody' {newest}",
        "a run": f"SELECT * FROM TABLE WHERE run_id = 'run_ff' {newest}",
        "left open": f"SELECT id FROM TABLE WHERE outcome = 'pending' AND created_at < {now - 45} LIMIT 1",
        "sums of a minute": f"SELECT outcome, count(*) FROM TABLE WHERE created_at >= {at} AND created_at < {at + 60} GROUP BY 1",
    }


async def partition(database: Database) -> None:
    """The second table, filled from the first."""
    async with database.transaction() as connection:
        if await connection.scalar(text("SELECT to_regclass('by_day') IS NOT NULL")):
            return
        rows = await connection.execute(text("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'records'"))
        indexes = [str(made) for name, made in rows if name != "records_pkey"]
        first, last = (await connection.execute(text("SELECT min(created_at), max(created_at) FROM records"))).one()
        await connection.execute(text("CREATE TABLE by_day (LIKE records INCLUDING DEFAULTS) PARTITION BY RANGE (created_at)"))
        for day in range(int(first // DAY_S), int(last // DAY_S) + 2):
            span = f"FROM ({day * DAY_S}) TO ({(day + 1) * DAY_S})"
            await connection.execute(text(f"CREATE TABLE by_day_{day} PARTITION OF by_day FOR VALUES {span}"))
        await connection.execute(text("INSERT INTO by_day SELECT * FROM records"))
        await connection.execute(text("ALTER TABLE by_day ADD PRIMARY KEY (id, created_at)"))
        for made in indexes:
            name = made.replace("INDEX records_", "INDEX by_day_").replace("ON public.records ", "ON public.by_day ")
            await connection.execute(text(name))
    async with database.writing(alone=True) as connection:
        await connection.execute(text("VACUUM ANALYZE"))


async def planned(connection: AsyncConnection, query: str) -> tuple[float, float]:
    """Milliseconds of planning and of execution."""
    made = (await connection.execute(text(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}".replace(":", "\\:")))).scalar_one()
    (found,) = json.loads(made) if isinstance(made, str) else made
    return found["Planning Time"], found["Execution Time"]


async def compare(database: Database) -> dict[str, Any]:
    """Looks at both."""
    found: dict[str, Any] = {}
    async with database.transaction() as connection:
        row = (await connection.execute(text("SELECT id, created_at FROM records ORDER BY created_at DESC OFFSET 1000 LIMIT 1"))).one()
        print("look | one table: planning, execution | by day: planning, execution, ms")
        for name, query in looks(time.time(), str(row[0]), float(row[1])).items():
            times = {}
            for kind in ("records", "by_day"):
                taken = [await planned(connection, query.replace("TABLE", kind)) for _ in range(ROUNDS)]
                times[kind] = [statistics.median(one[i] for one in taken) for i in (0, 1)]
            found[name] = times
            print(f"{name} | {times['records'][0]:.2f}, {times['records'][1]:.2f} | {times['by_day'][0]:.2f}, {times['by_day'][1]:.2f}")
    return found


@contextmanager
def cpu(process: int) -> Iterator[dict[str, float]]:
    """CPU seconds of the server meanwhile, its ended children's too."""
    found: dict[str, float] = {}
    before = _cpu_s(process)
    yield found
    found["cpu_s"] = _cpu_s(process) - before


def _cpu_s(process: int) -> float:
    total = 0.0
    for one in tree(process):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += sum(map(int, fields[11:15] if one == process else fields[11:13])) / TICKS
    return total


async def write_both(database: Database, process: int, batches: int = 40) -> dict[str, Any]:
    """CPU microseconds of the server for a record that begins and ends, and its write-ahead log, in turns."""
    source, found = random.Random(5), dict[str, Any]()
    names = [column.name for column in table.columns]
    for kind, key in (("records", "id"), ("by_day", "id, created_at"), ("records", "id"), ("by_day", "id, created_at")):
        values = ", ".join(f"${i}" for i in range(1, len(names) + 1))
        changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in ("id", "client", "run_id", "created_at"))
        begin = f"INSERT INTO {kind} VALUES ({values}) ON CONFLICT DO NOTHING"
        end = f"INSERT INTO {kind} VALUES ({values}) ON CONFLICT ({key}) DO UPDATE SET {changed} WHERE {kind}.outcome = 'pending'"
        async with database.transaction() as connection:
            before = int(await connection.scalar(WAL) or 0)
        with cpu(process) as taken:
            for batch in range(batches):
                now = time.time()
                rows = [to_row(make_record(source, i)) for i in range(BATCH)]
                ids = [f"gw_{int(now * 1e6) + i:014x}cccc" for i in range(BATCH)]
                ended = [(one, now, *row[2:]) for one, row in zip(ids, rows, strict=True)]
                place = names.index("outcome")
                begun = [(*row[:place], "pending", *row[place + 1 :]) for row in ended]
                for statement, given in ((begin, begun), (end, ended)):
                    async with database.transaction() as connection:
                        await write(connection, statement, given)
                assert batch >= 0
        async with database.transaction() as connection:
            wal = int(await connection.scalar(WAL) or 0) - before
        count = batches * BATCH
        found.setdefault(kind, []).append({"cpu_us_a_record": taken["cpu_s"] / count * 1e6, "wal_bytes_a_record": wal / count})
        print(f"writing {kind}: {found[kind][-1]}", flush=True)
    return found


async def delete_day(database: Database, process: int) -> dict[str, Any]:
    """The oldest whole day, both ways."""
    found: dict[str, Any] = {}
    async with database.transaction() as connection:
        first = float(await connection.scalar(text("SELECT min(created_at) FROM records")) or 0.0)
        end = (first // DAY_S + 2) * DAY_S
        rows = int(await connection.scalar(text("SELECT count(*) FROM records WHERE created_at < :end"), {"end": end}) or 0)
        before = int(await connection.scalar(WAL) or 0)
    retention, began = Retention(database), time.perf_counter()
    batches = list[float]()
    with cpu(process) as taken:
        while True:
            at = time.perf_counter()
            count, _ = await retention._delete_oldest(table, table.c.created_at, before=end)
            batches.append(time.perf_counter() - at)
            if not count:
                break
            await asyncio.sleep(0.02)
        took_s = time.perf_counter() - began
        async with database.writing(alone=True) as connection:
            await connection.execute(text("VACUUM records"))
    async with database.transaction() as connection:
        wal = int(await connection.scalar(WAL) or 0) - before
    batches.sort()
    found["batches"] = {
        "rows": rows,
        "seconds": took_s,
        "rows_a_second": rows / took_s,
        "batch_ms_median": statistics.median(batches) * 1000,
        "batch_ms_worst": batches[-1] * 1000,
        "cpu_us_a_row": taken["cpu_s"] / rows * 1e6,
        "wal_bytes_a_row": wal / rows,
    }
    with cpu(process) as taken:
        began = time.perf_counter()
        for day in (int(first // DAY_S), int(first // DAY_S) + 1):
            async with database.transaction() as connection:
                await connection.execute(text(f"DROP TABLE IF EXISTS by_day_{day}"))
        took_s = time.perf_counter() - began
    found["partition"] = {"seconds": took_s, **taken}
    print(json.dumps(found, indent=1), flush=True)
    return found


async def run(url: str, count: int, folder: Path) -> dict[str, Any]:
    """All of it."""
    async with opened(url) as database:
        await fill(database, count)
        await partition(database)
        process = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        return {
            "looks": await compare(database),
            "writing": await write_both(database, process),
            "a day": await delete_day(database, process),
        }


def main() -> None:
    """Print the tables and write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the data stay, and are taken from the next time")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-partitions-")))
        folder.mkdir(parents=True, exist_ok=True)
        found = asyncio.run(run(stack.enter_context(server(folder.absolute())), given.records, folder))
    found |= {"records": given.records, "python": platform.python_version(), "load": os.getloadavg()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
