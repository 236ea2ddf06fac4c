"""Where a request's time goes under an empty policy: microseconds by part, of the proxy and of the floor.

    python -m benchmarks.hop_parts            # half a minute

Shares are by `cProfile` of the event loop's thread, over requests of `benchmarks.hop`; what a built-in function takes is its caller's. They
are put to the CPU that the same requests take without a profiler, the thread that writes records included, which stands by itself. A
profiler makes every call dearer than what is done in it: shares are right to some per cent, and best compared with another run's.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks.hop import Figures, Hop, logged
from benchmarks.load.report import print_table

PARTS = (
    ("client", ("/aiohttp/", "/multidict/", "/yarl/", "/proxy/upstreams/", "/propcache/", "/frozenlist/")),
    ("metrics", ("/proxy/observe/metrics/", "/prometheus_client/")),
    ("log", ("/proxy/observe/logs.py", "/proxy/observe/finished.py", "/logging/__init__.py")),
    ("record", ("/proxy/observe/", "/proxy/store/", "/sqlalchemy/", "/aiosqlite/", "/greenlet/", "/concurrent/futures/")),
    ("server (uvicorn)", ("/uvicorn/", "/proxy/wire/http/bounds.py", "/httptools/")),
    ("bodies", ("/proxy/wire/chat/", "/proxy/wire/bodies.py", "/proxy/exchange/", "/proxy/language/")),
    ("path", ("/proxy/", "/benchmarks/floor.py")),
    ("client and stub of the benchmark", ("/benchmarks/",)),
)
OTHER = "event loop, tasks"
_WARM, _REQUESTS, _TURNS = 200, 200, 5


def part_of(file: str) -> str:
    """The part that a source file belongs to."""
    return next((name for name, places in PARTS if any(place in file for place in places)), OTHER)


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Of the profiled time, by part."""
    found: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own_s, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file != "~":
            found[part_of(file)] += own_s
            continue
        for (caller, _, _), (_, _, spent_s, _) in callers.items():
            found[part_of(caller)] += spent_s
    whole = sum(found.values())
    return {name: spent / whole for name, spent in found.items()}


async def parts(kind: str) -> Figures:
    """Microseconds a request by part, of the floor and the proxy."""
    async with AsyncExitStack() as stack:
        hop = Hop(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hop-"))), stack)
        await hop.start()
        found: Figures = {}
        for name in ("floor", "proxy"):
            await hop.turn(name, kind, _WARM, lambda: None, lambda: None)
            loop_s, all_s, profile = [], [], cProfile.Profile(time.thread_time)
            for _ in range(_TURNS):
                clock: list[tuple[float, float]] = []

                def read(clock: list[tuple[float, float]] = clock) -> None:
                    clock.append((time.thread_time(), time.process_time()))

                await hop.turn(name, kind, _REQUESTS, read, read)
                loop_s.append(clock[1][0] - clock[0][0])
                all_s.append(clock[1][1] - clock[0][1])
                await hop.turn(name, kind, _REQUESTS, profile.enable, profile.disable)
            us = 1e6 * min(loop_s) / _REQUESTS
            found[name] = {part: share * us for part, share in shares(profile).items()}
            found[name]["the thread that writes records"] = 1e6 * min(all_s) / _REQUESTS - us
        return found


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m benchmarks.hop_parts", description=__doc__.split("\n\n")[0])
    options.add_argument("--body", choices=["small", "large"], default="small")
    given = options.parse_args()
    found = logged(lambda: parts(given.body))
    names = sorted(found["proxy"], key=lambda name: -found["proxy"][name])
    rows = [[name, *(f"{found[system].get(name, 0.0):.1f}" for system in ("floor", "proxy"))] for name in names]
    rows.append(["all", *(f"{sum(found[system].values()):.1f}" for system in ("floor", "proxy"))])
    print_table(f"us of CPU a request, {given.body}", ["part", "floor", "Groundwire, empty policy"], rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
