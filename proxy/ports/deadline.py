"""How long is waited: for the store, applied once where a stage gets its ports; and for whatever else has to know how much time is left.

`within` is a deadline that the work inside it can ask about (`left_s`): a step that is good to have ends in time then, and leaves what
there is, instead of being cut off with everything that was found before it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

from msgspec.structs import replace

from proxy.errors import StoreUnavailable
from proxy.ports import Ports

STORE_TIMEOUT_S = 1.0
"""For each call; past it the stage goes on as if the store were away."""
STORE_SHARE = 0.2
"""Of the stage's own time, where that is less."""
_UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)
"""In the event loop's time."""
_STORES = ("scratchpad", "tool_runs", "compactions", "first_seen", "quarantine", "clashes", "failures")


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    """`asyncio.timeout` that `left_s` knows of. Raises `TimeoutError` past it."""
    until = math.inf if seconds is None else asyncio.get_running_loop().time() + seconds
    token = _UNTIL.set(min(until, _UNTIL.get()))
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        _UNTIL.reset(token)


def left_s() -> float:
    """Seconds until the nearest deadline of those that this task works within; infinite without one."""
    until = _UNTIL.get()
    return math.inf if until == math.inf else max(0.0, until - asyncio.get_running_loop().time())


def with_deadline(ports: Ports, stage_timeout_ms: float) -> Ports:
    """`ports` for a stage that has so long for each hook: a call of the store that takes too long raises `StoreUnavailable`. What a judge
    may spend is the judge's to ask."""
    limit_s = min(STORE_TIMEOUT_S, stage_timeout_ms / 1000 * STORE_SHARE)
    return replace(ports, spending=None, **{name: _InTime(getattr(ports, name), limit_s) for name in _STORES})


class _InTime:
    """A store's port, each of whose calls has a deadline."""

    def __init__(self, port: object, limit_s: float) -> None:
        self._port, self._limit_s = port, limit_s

    def __getattr__(self, name: str) -> Any:
        method, limit_s = getattr(self._port, name), self._limit_s

        async def call(*given: Any, **named: Any) -> Any:
            try:
                async with asyncio.timeout(limit_s):
                    return await method(*given, **named)
            except TimeoutError:
                raise StoreUnavailable("timeout") from None

        return call
