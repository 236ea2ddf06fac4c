"""How long a stage waits for the store: applied here, once, where a stage gets its ports, and not in each stage."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from proxy.errors import StoreUnavailable
from proxy.ports import Ports

STORE_TIMEOUT_S = 1.0
"""For each call; past it the stage goes on as if the store were away."""
STORE_SHARE = 0.2
"""Of the stage's own time, where that is less."""
_STORES = ("scratchpad", "tool_runs", "compactions", "first_seen", "quarantine", "clashes", "failures")


def with_deadline(ports: Ports, stage_timeout_ms: float) -> Ports:
    """`ports` for a stage that has so long for each hook: a call of the store that takes too long raises `StoreUnavailable`."""
    limit_s = min(STORE_TIMEOUT_S, stage_timeout_ms / 1000 * STORE_SHARE)
    return replace(ports, **{name: _InTime(getattr(ports, name), limit_s) for name in _STORES})


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
