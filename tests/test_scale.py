"""Twice as much of anything costs twice as much, and nobody else waits for it: every case of `tests.scale_cases` through three policies.

CPU time is that of the whole process, so what runs in threads counts, too; models and upstream cost next to nothing. The stages' own time
limits are lifted where it is measured: with them, a long check would end early and look cheap. Where the proxy refuses a body (JSON nested
too deep: 400) its refusal is what is timed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from proxy.app import App
from proxy.testing import serving
from tests.memory_upstream import MemoryUpstream
from tests.scale_cases import CASES, POLICIES, Case, make_app

pytestmark = pytest.mark.scale

SIZES = (1000, 2000, 4000, 8000, 16000, 32000, 64000)
LEAST = 4000
"""Sizes are doubled as far as this, however slow the machine is."""
ENOUGH_S = 1.2
"""CPU time of one run from which on nothing larger is tried."""
FLOOR_S = 0.02
"""Below it, what a request costs whatever its size is most of it."""
MOST_GROWTH = 2.4
"""For a doubling, as the geometric mean of the last two: a square would be 4."""
TRIES = 3
HEALTH_S, GOAL_S = 0.25, 0.05
"""What fails, since two processes at a time share two cores in CI; and the goal, which is printed where it is missed."""
HEALTH_SIZE = 8000
PROBE = """
import http.client, json, sys, threading, time
host, path, body = sys.argv[1], sys.argv[2], open(sys.argv[3], "rb").read()
def ask():
    c = http.client.HTTPConnection(host, timeout=120)
    c.request("POST", path, body, {"content-type": "application/json"})
    r = c.getresponse(); r.read(); status.append(r.status)
status = []
health = http.client.HTTPConnection(host, timeout=120)
def look():
    t = time.perf_counter(); health.request("GET", "/health"); health.getresponse().read(); return time.perf_counter() - t
look()
asking = threading.Thread(target=ask); asking.start()
found = []
while asking.is_alive() or len(found) < 20:
    found.append(look()); time.sleep(0.003)
print(json.dumps([status[0], found]))
"""
Make = Callable[[int, int], Case]


@pytest_asyncio.fixture(params=[None, 600_000.0], ids=["limited", "unlimited"])
async def served(request: pytest.FixtureRequest, tmp_path: Path, migrated_file: Path) -> AsyncIterator[tuple[App, MemoryUpstream]]:
    """The app with every stage's own time limit, or without."""
    shutil.copy(migrated_file, tmp_path / "store.db")
    upstream = MemoryUpstream(keeps=False)
    app = make_app(tmp_path, upstream, request.param)
    logging.disable(logging.ERROR)  # a stage that misses its deadline says so
    await app.start()
    yield app, upstream
    await app.stop()
    logging.disable(logging.NOTSET)


async def ask(app: App, policy: str, body: bytes) -> int:
    """The status of one request, without a network."""
    waiting, got = [{"type": "http.request", "body": body, "more_body": False}], list[int]()

    async def receive() -> dict[str, object]:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            got.append(int(str(message["status"])))

    path = f"/{policy}/v1/chat/completions"
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": headers, "client": ("127.0.0.1", 5), "server": ("127.0.0.1", 80), "scheme": "http"}, receive, send)
    return got[0]


async def cpu_s(app: App, upstream: MemoryUpstream, policy: str, case: Case) -> float:
    """CPU time of one request until nothing of it runs any more."""
    body, upstream.kind, upstream.pieces = case
    gc.collect()
    started = time.process_time()
    assert await ask(app, policy, body) in (200, 400, 503)
    while app.learning_tasks._tasks:  # what is learned from it
        await asyncio.wait(app.learning_tasks._tasks)
    await app.records_writer.flush()
    return time.process_time() - started


async def growth(app: App, upstream: MemoryUpstream, policy: str, make: Make, run: int) -> tuple[float, dict[int, float]]:
    """By what the time grows in a doubling, 0 where it stays too short to tell; and the times by size."""
    times: dict[int, float] = {}
    for n in SIZES:
        times[n] = await cpu_s(app, upstream, policy, make(n, 10 * run))
        if times[n] < ENOUGH_S / 4:
            times[n] = min(times[n], await cpu_s(app, upstream, policy, make(n, 10 * run + 1)))
        if times[n] > ENOUGH_S and n >= LEAST:
            break
    *_, before, _, last = times.values()
    return ((last / before) ** 0.5 if before >= FLOOR_S else 0.0), times


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("served", [600_000.0], indirect=True, ids=["unlimited"])
async def test_twice_as_much_takes_no_more_than_about_twice_the_time(served: tuple[App, MemoryUpstream], make: Make, policy: str) -> None:
    app, upstream = served
    await cpu_s(app, upstream, policy, make(64, 0))  # what is loaded and compiled at its first use
    for run in range(1, TRIES + 1):
        grown, times = await growth(app, upstream, policy, make, run)
        if grown <= MOST_GROWTH:
            break
    assert max(times) >= LEAST, times
    print(f"{make.__name__} {policy}: x{grown:.2f}", {n: round(s, 3) for n, s in times.items()})
    assert grown <= MOST_GROWTH, times


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
@pytest.mark.parametrize("served", [None], indirect=True, ids=["limited"])
async def test_health_answers_beside_it(served: tuple[App, MemoryUpstream], make: Make, policy: str, tmp_path: Path) -> None:
    app, upstream = served
    await cpu_s(app, upstream, policy, make(64, 0))
    (tmp_path / "body").write_bytes(make(HEALTH_SIZE, 1)[0])
    _, upstream.kind, upstream.pieces = make(HEALTH_SIZE, 1)
    for _ in range(TRIES):
        if (slow := await looks(app, make, policy, tmp_path)) < HEALTH_S:
            return
    raise AssertionError(f"{slow * 1000:.0f} ms")


async def looks(app: App, make: Make, policy: str, tmp_path: Path) -> float:
    """How long a look at /health takes beside one request, but for one look in fifty: the machine does other things, too."""
    async with serving(Started(app)) as url:
        path = f"/{policy}/v1/chat/completions"
        probe = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROBE, url.removeprefix("http://"), path, str(tmp_path / "body"), stdout=asyncio.subprocess.PIPE
        )
        said, _ = await asyncio.wait_for(probe.communicate(), 120)
    status, waited = json.loads(said)
    waited.sort()
    print(
        f"{make.__name__} {policy}: {status}, {len(waited)} looks, worst {waited[-1] * 1000:.0f} ms{' (goal missed)' * (waited[-1] >= GOAL_S)}"
    )
    assert status in (200, 400, 503)
    return float(waited[-1 - len(waited) // 50])


class Started:
    """The application without its lifespan: it runs already."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: dict[str, object], receive: object, send: object) -> None:
        if scope["type"] != "lifespan":
            await self._app(scope, receive, send)  # type: ignore[arg-type]
            return
        await receive()  # type: ignore[operator]
        await send({"type": "lifespan.startup.complete"})  # type: ignore[operator]
        await receive()  # type: ignore[operator]
        await send({"type": "lifespan.shutdown.complete"})  # type: ignore[operator]
