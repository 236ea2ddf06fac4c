"""What embedding costs a server: how late its event loop wakes up, and how long a query waits, while a catalogue is embedded.

The loop sleeps 2 ms at a time, as often as it can, and every tenth time embeds a query that nobody has asked before. Measured without
bulk work, with it, and with it at a switch interval of 1 ms instead of CPython's 5.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.load.statistics import percentile
from proxy.models.embedding.embedder import BatchingEmbedder
from proxy.models.embedding.encoders import UseEncoder

PAUSE_S = 0.002


async def _serve(catalogue: Sequence[str], queries: Sequence[str], interval_s: float) -> dict[str, list[float]]:
    """Milliseconds: lateness of the loop, time of each query. Without a catalogue, for as long as the queries last."""
    embedder = BatchingEmbedder(UseEncoder())
    await embedder.load()
    sys.setswitchinterval(interval_s)
    started = time.perf_counter()
    bulk = asyncio.create_task(embedder.embed(catalogue, bulk=True))
    left, late, waited = list(queries), [], []

    async def ask(text: str) -> None:
        asked = time.perf_counter()
        await embedder.embed([text])
        waited.append((time.perf_counter() - asked) * 1e3)

    asking: list[asyncio.Task[None]] = []
    while left and not (catalogue and bulk.done()):
        slept = time.perf_counter()
        await asyncio.sleep(PAUSE_S)
        late.append((time.perf_counter() - slept - PAUSE_S) * 1e3)
        if len(late) % 10 == 0:
            asking.append(asyncio.create_task(ask(left.pop())))
    await asyncio.gather(bulk, *asking)
    embedder.stop()
    return {"late_ms": late, "query_ms": waited, "catalogue_s": [time.perf_counter() - started]}


def serving_table(catalogue: Sequence[str], queries: Sequence[str], quick: bool) -> dict[str, Any]:
    """Print and return p50, p95, p99 and maximum of each."""
    tools, asked = list(catalogue)[: 300 if quick else 1500], list(dict.fromkeys(queries))
    before = sys.getswitchinterval()
    cases = {
        "no bulk work": ([], asked[:100], before),
        "bulk work": (tools, asked, before),
        "bulk work, switch interval 1 ms": (tools, asked, 0.001),
    }
    found: dict[str, Any] = {}
    print(f"\nbuilt-in model beside an event loop; bulk work is {len(tools)} tools; milliseconds p50 / p95 / p99 / max")
    for name, case in cases.items():
        measured = asyncio.run(_serve(*case))
        found[name] = {key: [percentile(values, share) for share in (0.5, 0.95, 0.99, 1)] for key, values in measured.items()}
        shown = {key: " / ".join(f"{value:.2f}" for value in values) for key, values in found[name].items()}
        print(f"{name:32}loop late {shown['late_ms']:32}query {shown['query_ms']:36}catalogue {measured['catalogue_s'][0]:.1f} s")
    sys.setswitchinterval(before)
    return found
