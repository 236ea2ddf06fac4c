"""What keys spend, by day, team and model: added up in this process, and handed to the store once a second."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from proxy.errors import StoreUnavailable
from proxy.limits.account import day_of
from proxy.limits.keys import DatabaseKeyDays, Taken

log = logging.getLogger("groundwire.limits")

FLUSH_S = 1.0
_MAX_ROWS = 10_000
"""Of different days, keys and models that wait while the store is away."""
_KEPT_S = 400 * 86_400.0
"""A year, and the month that it is compared with."""


class Spending:
    """Of one process."""

    def __init__(self, days: DatabaseKeyDays, clock: Callable[[], float] = time.time) -> None:
        self._days, self._clock = days, clock
        self._sums: dict[tuple[str, str, str, str], Taken] = {}
        self._flushing: asyncio.Task[None] | None = None
        self._forgotten = ""

    def add(self, key: str, team: str, model: str, more: Taken) -> None:
        """One request is over."""
        by = day_of(self._clock()), key, team, model
        if by not in self._sums and len(self._sums) >= _MAX_ROWS:
            by = by[0], key, team, ""
        self._add(by, more)

    def _add(self, by: tuple[str, str, str, str], more: Taken) -> None:
        before = self._sums.get(by, (0, 0, 0, 0, 0))
        self._sums[by] = before[0] + more[0], before[1] + more[1], before[2] + more[2], before[3] + more[3], before[4] + more[4]

    async def start(self) -> None:
        """Hand on what comes, in the background."""
        self._flushing = asyncio.create_task(self._flush_again(), name="key-spending")

    async def stop(self) -> None:
        """Hand on what is left."""
        if self._flushing is not None:
            self._flushing.cancel()
            with suppress(asyncio.CancelledError):
                await self._flushing
        await self.flush()

    async def flush(self) -> None:
        """Hand it on; what the store does not take waits on."""
        sums, self._sums = self._sums, {}
        if not sums:
            return
        try:
            await self._days.add(sums)
            today = day_of(self._clock())
            if today != self._forgotten:
                await self._days.forget(day_of(self._clock() - _KEPT_S))
                self._forgotten = today
        except StoreUnavailable as error:
            log.debug("spending of keys waits: %s", error)
            later, self._sums = self._sums, sums
            for by, more in later.items():
                self._add(by, more)

    async def _flush_again(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()
