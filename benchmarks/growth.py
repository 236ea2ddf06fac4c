"""Whether one process grows with different requests: its memory every 10,000 of them, with its SQLite store, metrics and log.

    python -m benchmarks.growth --requests 100000
    python -m benchmarks.growth --requests 20000 --every 2000 --caches 25

What a process remembers is bounded, and until it is full it grows: at the most 50,000 entries of a kind. ``--caches 25`` divides all
these bounds by 25, so that after some thousand requests only what should not grow is left.

Each request has a text, a user's name and a run of its own, so that nothing is answered from what was remembered. Columns: MB resident
(`/proc/PID/smaps_rollup`), of these anonymous, MB that the C library has given out and MB that it holds free (`mallinfo2(3)`: what grows
there is fragmentation), SQLite's own MB, blocks of Python's allocator in thousands. `serve` is the server with a thread that writes the
last four. A row is measured when the store has all records.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import functools
import json
import os
import runpy
import sqlite3
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.load.processes import cores
from benchmarks.load.systems import Place, start_groundwire, start_stub

CLIENTS = 16
CACHES = "GROUNDWIRE_GROWTH_CACHES"
"""The variable with what the bounds of memories are divided by."""
LEAST = 8
"""Entries of a memory whose bound was divided."""
WRITTEN_WITHIN_S = 120
REPORT = "GROUNDWIRE_GROWTH_REPORT"
"""The variable with the path of the file that `watch` writes."""


class _Mallinfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    ]


def watch(path: Path) -> None:
    """Write what the allocators hold, once a second."""
    libc, sqlite = ctypes.CDLL(None), ctypes.CDLL("libsqlite3.so.0")
    libc.mallinfo2.restype, sqlite.sqlite3_memory_used.restype = _Mallinfo, ctypes.c_longlong
    while True:
        time.sleep(1)
        held = libc.mallinfo2()
        found = {
            "given_mb": (held.uordblks + held.hblkhd) / 1e6,
            "free_mb": held.fordblks / 1e6,
            "sqlite_mb": sqlite.sqlite3_memory_used() / 1e6,
            "blocks_k": sys.getallocatedblocks() / 1000,
        }
        path.with_suffix(".new").write_text(json.dumps(found))
        path.with_suffix(".new").replace(path)


def divide_caches(by: int) -> None:
    """Have memories of the server, which is not imported yet, a bound that is `by` times smaller."""
    made, unbounded = functools.lru_cache, None

    def smaller(maxsize: Any = 128, typed: bool = False) -> Any:
        if callable(maxsize) or maxsize is unbounded:
            return made(maxsize, typed)
        return made(max(LEAST, maxsize // by), typed)

    functools.lru_cache = smaller  # type: ignore[assignment]
    from proxy.language.lru import LRU

    init = LRU.__init__

    def init_smaller(self: LRU[Any], size: int, size_of: Any = None) -> None:
        init(self, max(LEAST, size // by), size_of)

    LRU.__init__ = init_smaller  # type: ignore[method-assign]


def wait_written(database: Path, count: int) -> None:
    """Until the store has so many records. Raises TimeoutError."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:
        until = time.monotonic() + WRITTEN_WITHIN_S
        while store.execute("SELECT count(*) FROM records WHERE outcome != 'pending'").fetchone()[0] < count:
            if time.monotonic() > until:
                raise TimeoutError("records are not written")
            time.sleep(0.5)


def resident(pid: int) -> tuple[float, float]:
    """MB resident, and of these MB anonymous."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return tuple(float(fields[name].split()[0]) / 1024 for name in ("Rss", "Anonymous"))  # type: ignore[return-value]


def body(n: int) -> bytes:
    text = f"Question {n}: what does the {n % 977}th clause say of delivery {n * 7919 % 104729}, and until which date does it hold?"
    return json.dumps({"model": "gpt-4o", "user": f"user-{n}", "messages": [{"role": "user", "content": text}]}).encode()


async def send(port: int, first: int, count: int) -> None:
    """`count` different requests over `CLIENTS` connections. Raises RuntimeError where one is not a 200."""
    numbers = iter(range(first, first + count))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for n in numbers:
            content = body(n)
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            writer.write(f"{head}x-groundwire-run-id: run-{n}\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content)
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            if not answer.startswith(b"http/1.1 200"):
                raise RuntimeError(answer.decode())
            await reader.readexactly(int(answer.split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.close()

    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(client())


def measure(requests: int, every: int, policy: Path) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder, (under_test, others) = Path(name), cores()
        os.environ[REPORT] = str(report := folder / "memory.json")
        stub = start_stub(folder, others, stack)
        place = Place(folder, under_test, stub.port, stack)
        server, _ = start_groundwire(place, "growth", policy, module="benchmarks.growth")
        print(f"{'requests':>9} {'rss':>7} {'anon':>7} {'given':>7} {'free':>7} {'sqlite':>7} {'blocks':>7}")
        for sent in range(0, requests + 1, every):
            if sent:
                asyncio.run(send(server.port, sent - every, every))
            wait_written(next(folder.glob("*.db")), sent)
            time.sleep(2)  # the report is of now
            rss, anonymous = resident(server.process.pid)
            row = {"requests": sent, "rss_mb": rss, "anonymous_mb": anonymous, **json.loads(report.read_text())}
            rows.append(row)
            figures = " ".join(f"{value:7.1f}" for key, value in row.items() if key != "requests")
            print(f"{sent:9} {figures}", flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--every", type=int, default=10_000, help="requests between two rows")
    parser.add_argument("--caches", type=int, default=1, help="what the bounds of the process's memories are divided by")
    parser.add_argument("--policy", type=Path, default=Path(__file__).parents[1] / "policies" / "default.yaml")
    options = parser.parse_args()
    os.environ[CACHES] = str(options.caches)
    rows = measure(options.requests, options.every, options.policy)
    late = [b["rss_mb"] - a["rss_mb"] for a, b in pairwise(rows)][len(rows) // 2 :]
    if late:
        print(f"the second half grows by {sum(late) / len(late):.1f} MB each {options.every:,}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        if (divided := int(os.environ[CACHES])) > 1:
            divide_caches(divided)
        threading.Thread(target=watch, args=(Path(os.environ[REPORT]),), daemon=True).start()
        runpy.run_module("proxy", run_name="__main__", alter_sys=True)
    else:
        sys.exit(main())
