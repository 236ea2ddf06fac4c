"""How long do filters and words take over 20 million records on PostgreSQL, where nothing or little is like them?

    python -m benchmarks.records_search [--records N] [--keep FOLDER]
    python -m benchmarks.records_search --words 20000       # what an index of all words of bodies would cost

Data: made in the server itself, no file and no network: `--records` exchanges of the last 30 days with 40 clients (one of them a hundred
times in all), 5 models, 3 routes, 15% with bad news, durations of 0.1 to 3 s, details of 20 bytes. Every 1,000th has bodies of 4 KB. Rows
are smaller than a server's, so that 20 million fit: the indexes, which filters read, are as large. Pages go through `ExchangeSearch` and
`Records.list`, as the dashboard and the API ask; 9 times each, median and worst. A page that has not looked at everything says so.

Writing is measured beside it: microseconds a record of batches of 500 that begin, and then get their records, in the same store.

``--words`` puts bodies of 8 KB, paragraphs of this repository's documentation by chance, into a table without an index, with one of words
(tsvector) and with one of trigrams (pg_trgm), in batches of 500.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy import text

from benchmarks.load.processes import free_port
from benchmarks.records import NoCounters, make_record
from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.exchange_search import ExchangeFilters, ExchangeSearch
from proxy.store.records import PENDING, Records
from proxy.store.writer import RecordWriter
from tests.store import postgres

RESULTS = Path(__file__).resolve().parent / "results" / "records_search.json"
GOAL_MS, ROUNDS, DAYS, BODY_EVERY = 300.0, 9, 30, 1000
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "4GB",
    "shared_buffers": "2GB",
    "maintenance_work_mem": "1GB",
    "max_parallel_maintenance_workers": "0",
    "autovacuum": "off",
}
WAL = text("SELECT pg_current_wal_lsn() - '0/0'")
MADE = {
    "id": "'gw_' || lpad(to_hex((at * 1e6)::bigint), 14, '0') || lpad(to_hex(n % 65536), 4, '0')",
    "created_at": "at",
    "client": "CASE WHEN n % 200000 = 77 THEN 'key-rare' ELSE 'key-' || (n * 7919 % 40) END",
    "route": "(ARRAY['', '/rag', '/agent'])[1 + n * 31 % 3]",
    "policy": "'rag@0123abcd'",
    "upstream": "'openai'",
    "model": "'model-' || (n * 104729 % 5)",
    "run_id": "'run_' || to_hex(n / 20)",
    "step_id": "(n % 20 + 1)::text",
    "path": "'/v1/chat/completions'",
    "status": "CASE WHEN n % 50 = 0 THEN 502 WHEN n % 50 < 3 THEN 400 ELSE 200 END",
    "outcome": "CASE WHEN n % 50 = 0 THEN 'upstream_error' WHEN n % 50 < 3 THEN 'block' WHEN n % 50 < 8 THEN 'warn' ELSE 'pass' END",
    "stream": "false",
    "duration_ms": "100 + n * 6700417 % 2900",
    "prompt_tokens_before": "8210",
    "prompt_tokens": "4877",
    "completion_tokens": "n * 15485863 % 400",
    "size_bytes": "700",
    "detail": "'{}'::bytea",
    "request_body": f"CASE WHEN n % {BODY_EVERY} = 0 THEN convert_to(repeat('[\"' || md5(n::text) || '\"]', 110), 'UTF8') END",
    "answer_body": "NULL",
    "reason": "CASE WHEN n % 50 = 0 THEN 'upstream_502' WHEN n % 50 < 3 THEN 'hallucination_detected' ELSE '' END",
    "would": "''",
    "overhead_ms": "2 + n % 5",
    "cost_usd": "0.001 * (n * 32452843 % 1000) / 1000",
    "question": "''",
    "answer": "''",
}


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """A PostgreSQL over the data in `folder`, which it makes where there is none; its URL."""
    binaries = next((one for one in postgres.binaries() if one.is_relative_to("/usr/lib")), None) or postgres.binaries()[0]
    as_user = postgres.initialised(binaries, folder) if not (folder / "data").exists() else postgres.unprivileged(folder)
    settings = SETTINGS | {"port": str(free_port()), "unix_socket_directories": str(folder)}
    options = [piece for name, value in settings.items() for piece in ("-c", f"{name}={value}")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([binaries / "postgres", "-D", folder / "data", *options], stderr=log, cwd=folder, **as_user)
    try:
        yield f"postgresql://tester:pass%20word@127.0.0.1:{settings['port']}/postgres"
    finally:
        process.terminate()
        process.wait(120)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """The store, with its tables."""
    database = Database(url, timeout_s=3600.0)
    await database.start()
    await database.wait()
    try:
        yield database
    finally:
        await database.stop()


async def fill(database: Database, count: int) -> None:
    """`count` exchanges, the last of them just now; indexes are made afterwards."""
    async with database.transaction() as connection:
        if await connection.scalar(text("SELECT 1 FROM records LIMIT 1")):
            return
        found = await connection.execute(text("SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'records'"))
        indexes = [(str(name), str(made)) for name, made in found if name != "records_pkey"]
        await connection.execute(text("ALTER TABLE records DROP CONSTRAINT records_pkey"))
        for name, _ in indexes:
            await connection.execute(text(f"DROP INDEX {name}"))
        await connection.execute(text("TRUNCATE records"))
        numbers = f"SELECT n, {time.time()!r}::float8 - ({count} - n) * {DAYS * 86_400.0 / count!r}::float8 AS at"
        rows = f"SELECT {', '.join(MADE.values())} FROM ({numbers} FROM generate_series(1::bigint, {count}) AS n) AS made"
        began = time.monotonic()
        await connection.execute(text(f"INSERT INTO records ({', '.join(MADE)}) {rows}".replace(":", "\\:")))
        print(f"{count:,} records in {time.monotonic() - began:.0f} s", flush=True)
        await connection.execute(text("ALTER TABLE records ADD PRIMARY KEY (id)"))
        for name, made in indexes:
            began = time.monotonic()
            await connection.execute(text(made))
            print(f"{name} in {time.monotonic() - began:.0f} s", flush=True)


async def vacuum(database: Database) -> None:
    """As autovacuum does, which would otherwise come in between."""
    async with database.writing(alone=True) as connection:
        await connection.execute(text("VACUUM ANALYZE records"))


async def sizes(database: Database) -> dict[str, float]:
    """MB of the table and of each index."""
    query = "SELECT relname, pg_relation_size(oid) / 1e6 FROM pg_class WHERE relname LIKE 'records%' AND relkind IN ('r', 'i')"
    async with database.transaction() as connection:
        found = {str(name): float(mb) for name, mb in await connection.execute(text(query))}
    print(", ".join(f"{name} {mb:,.0f} MB" for name, mb in found.items()), flush=True)
    return found


def asked(database: Database) -> dict[str, Callable[[], Awaitable[tuple[int, str]]]]:
    """What is looked for; each gives how many it found, and how far it looked."""
    search, records, now = ExchangeSearch(database), Records(database), time.time()

    def page(**wanted: Any) -> Callable[[], Awaitable[tuple[int, str]]]:
        async def look() -> tuple[int, str]:
            found = await search.page(ExchangeFilters(**wanted), 100)
            back = found.looked_back_to
            return len(found.rows), "" if back is None else f"{(now - back) / 86_400:.1f} days back"

        return look

    def listed(**wanted: Any) -> Callable[[], Awaitable[tuple[int, str]]]:
        async def look() -> tuple[int, str]:
            rows, _ = await records.list(20, **wanted)
            return len(rows), ""

        return look

    return {
        "page, all": page(),
        "page, client nobody": page(client="nobody"),
        "page, client of 100": page(client="key-rare"),
        "page, client of many": page(client="key-7"),
        "page, client of many, a week ago": page(client="key-7", until=now - 7 * 86_400),
        "page, model none": page(model="gpt-none"),
        "page, route none": page(route="/none"),
        "page, run none": page(run="none"),
        "page, reason none": page(reasons=["claims_unsupported"]),
        "page, status 429": page(status="429"),
        "page, outcome error": page(outcome="error"),
        "page, refused or warned": page(outcome="caught"),
        "page, would": page(outcome="would"),
        "page, tokens none": page(min_tokens=1e6),
        "page, usd none": page(min_usd=10.0),
        "page, ms none": page(min_ms=60_000.0),
        "page, client and model of many, never together": page(client="key-1", model="model-0", status="429"),
        "page, client of many, ms none": page(client="key-7", min_ms=60_000.0),
        "page, client and outcome none": page(client="key-7", outcome="error"),
        "page, words none": page(text="xylophone"),
        "page, words none, client of many": page(text="xylophone", client="key-7"),
        "list, all": listed(),
        "list, client nobody": listed(client="nobody"),
        "list, client of 100": listed(client="key-rare"),
        "list, route none": listed(route="/none"),
        "list, outcome error": listed(outcome="error"),
        "list, outcome unsure": listed(outcome="unsure"),
        "list, outcome pending": listed(outcome="pending"),
        "list, client of many, outcome error": listed(client="key-7", outcome="error"),
        "list, a second 20 days ago": listed(since=now - 20 * 86_400, until=now - 20 * 86_400 + 1),
        "list, client of many, before 20 days ago": listed(client="key-7", until=now - 20 * 86_400),
    }


async def measure(database: Database, limit_s: float) -> dict[str, Any]:
    """Everything, printed as it is found."""
    found: dict[str, Any] = {}
    print("what | found | looked | median ms | worst ms")
    for name, look in asked(database).items():
        times, rows, back = list[float](), 0, ""
        for _ in range(ROUNDS):
            began = time.perf_counter()
            try:
                async with asyncio.timeout(limit_s):
                    rows, back = await look()
            except (TimeoutError, StoreUnavailable):
                back = f"no answer within {limit_s:g} s"
            times.append((time.perf_counter() - began) * 1000)
            if times[-1] > 5000:
                break
        median, worst = statistics.median(times), max(times)
        found[name] = {"found": rows, "looked": back, "median_ms": median, "worst_ms": worst}
        print(f"{name} | {rows} | {back} | {median:.0f} | {worst:.0f}{'' if median < GOAL_MS else ' (MISSED)'}", flush=True)
    return found


async def writing(database: Database, batches: int = 40, batch: int = 500) -> dict[str, float]:
    """Microseconds a record of batches that begin and end, and bytes of the write-ahead log; they are deleted afterwards."""
    source, first, times = random.Random(5), int(time.time() * 1e6), list[float]()
    writer = RecordWriter(database, NoCounters())
    async with database.transaction() as connection:
        before = int(await connection.scalar(WAL) or 0)
    for number in range(batches):
        made = [make_record(source, i) for i in range(batch)]
        made = [
            replace(one, id=f"gw_{first + number * batch + i:014x}bbbb", created_at=time.time(), client=f"key-{i % 40}")
            for i, one in enumerate(made)
        ]
        began = time.perf_counter()
        writer.start()
        begun = [writer.begin(replace(one, outcome=PENDING, status=0, reason="somebody", detail={})) for one in made][-1]
        if begun is not None:
            await begun.wait()
        for one in made:
            writer.submit(one)
        await writer.stop()
        times.append((time.perf_counter() - began) / batch * 1e6)
    async with database.writing() as connection:
        wal_bytes = (int(await connection.scalar(WAL) or 0) - before) / batches / batch
        await connection.execute(text("DELETE FROM records WHERE id LIKE '%bbbb' AND created_at > :at"), {"at": first / 1e6 - 1})
        await connection.execute(text("DELETE FROM rollup_changes"))
    print(f"writing: {statistics.median(times):.0f} µs a record, {wal_bytes:.0f} bytes of write-ahead log", flush=True)
    return {"us_a_record": statistics.median(times), "wal_bytes_a_record": wal_bytes}


# ---- words ----

INDEXED = {
    "no index": ("", "body LIKE '%xylophone%'"),
    "words (tsvector)": ("to_tsvector('simple', body)", "to_tsvector('simple', body) @@ to_tsquery('simple', 'xylophone')"),
    "trigrams (pg_trgm)": ("body gin_trgm_ops", "body LIKE '%xylophone%'"),
}
BODY_BYTES = 8000


def bodies(count: int, seed: int = 3) -> list[str]:
    """As a client sends them."""
    source, root = random.Random(seed), Path(__file__).resolve().parent.parent / "docs"
    found = [part for page in sorted(root.rglob("*.md")) for part in page.read_text("utf-8").split("\n\n") if len(part) > 200]
    made = []
    for number in range(count):
        parts = [f"request {number}"]
        while sum(map(len, parts)) < BODY_BYTES:
            parts.append(source.choice(found))
        made.append(json.dumps({"messages": [{"role": "user", "content": part} for part in parts]}, ensure_ascii=False))
    return made


async def words(url: str, count: int) -> dict[str, Any]:
    """Time, size and write-ahead log of a body, by index."""
    found: dict[str, Any] = {}
    made = bodies(count)
    async with opened(url) as database:
        for name, (indexed, wanted) in INDEXED.items():
            async with database.transaction() as connection:
                await connection.execute(text("CREATE EXTENSION IF NOT EXISTS pg_trgm"))
                await connection.execute(text("DROP TABLE IF EXISTS words"))
                await connection.execute(text("CREATE TABLE words (id int, body text)"))
                if indexed:
                    await connection.execute(text(f"CREATE INDEX words_body ON words USING gin ({indexed})"))
                before = int(await connection.scalar(WAL) or 0)
            began = time.perf_counter()
            for first in range(0, count, 500):
                rows = [{"id": number, "body": body} for number, body in enumerate(made[first : first + 500], first)]
                async with database.transaction() as connection:
                    await connection.execute(text("INSERT INTO words VALUES (:id, :body)"), rows)
            taken = time.perf_counter() - began
            async with database.transaction() as connection:
                wal = int(await connection.scalar(WAL) or 0) - before
                table, index = (await connection.execute(text("SELECT pg_table_size('words'), pg_indexes_size('words')"))).one()
                began = time.perf_counter()
                await connection.execute(text(f"SELECT id FROM words WHERE {wanted} LIMIT 100"))
            look_ms = (time.perf_counter() - began) * 1000
            found[name] = {
                "us_a_body": taken / count * 1e6,
                "wal_bytes_a_body": wal / count,
                "table_bytes_a_body": table / count,
                "index_bytes_a_body": index / count,
                "look_ms": look_ms,
            }
            print(name, {key: round(value) for key, value in found[name].items()}, flush=True)
    return found


async def run(url: str, count: int, limit_s: float) -> dict[str, Any]:
    """Fill, look, write."""
    async with opened(url) as database:
        await fill(database, count)
        await vacuum(database)
        return {"mb": await sizes(database), "looks": await measure(database, limit_s), "writing": await writing(database)}


def main() -> None:
    """Print the tables and write the JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--records", type=int, default=20_000_000, help="how many exchanges (default: 20 million, 12 GB)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="where the data stay, and are taken from the next time")
    parser.add_argument("--limit-s", type=float, default=30.0, help="a look that takes longer is given up")
    parser.add_argument("--words", type=int, default=0, metavar="N", help="so many bodies with indexes of their words, and nothing else")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gw-search-")))
        folder.mkdir(parents=True, exist_ok=True)
        url = stack.enter_context(server(folder.absolute()))
        if given.words:
            found: dict[str, Any] = {"words": asyncio.run(words(url, given.words)), "bodies": given.words}
        else:
            found = asyncio.run(run(url, given.records, given.limit_s)) | {"records": given.records}
    found = (json.loads(RESULTS.read_text("utf-8")) if given.words and RESULTS.exists() else {}) | found
    found |= {"python": platform.python_version(), "load": os.getloadavg()}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
