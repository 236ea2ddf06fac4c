"""What keys spend, by day, team and model: added up in this process, and handed to the store once a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress

from proxy.errors import StoreUnavailable
from proxy.limits.account import day_of
from proxy.limits.keys import DatabaseKeyDays, Taken
from proxy.ports.background import RepeatedTask
from proxy.store.database import StoreRejected

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
        self._rest: dict[str, float] = {}
        """Millionths of a dollar by key, less than one, that its next request brings to a whole one."""
        problem = "spending of keys could not be stored"
        self._flushes = RepeatedTask(self.flush, FLUSH_S, name="key-spending", problem=problem, log=log, end_s=None)
        self._forgotten = ""

    def micro_usd(self, key: str, usd: float) -> int:
        """What a request costs in millionths of a dollar: the fractions of a key's cheap requests add up, and are not rounded away."""
        exact = usd * 1e6 + self._rest.get(key, 0.0)
        whole = round(exact)
        self._rest[key] = exact - whole
        return whole

    def add(self, key: str, team: str, model: str, more: Taken) -> None:
        """One request is over."""
        self._add((day_of(self._clock()), key, team, model), more)

    def _add(self, by: tuple[str, str, str, str], more: Taken) -> None:
        if by not in self._sums and len(self._sums) >= _MAX_ROWS:
            by = (*by[:3], "")
        before = self._sums.get(by, (0, 0, 0, 0, 0))
        self._sums[by] = before[0] + more[0], before[1] + more[1], before[2] + more[2], before[3] + more[3], before[4] + more[4]

    async def start(self) -> None:
        """Hand on what comes, in the background."""
        self._flushes.start(FLUSH_S)

    async def stop(self) -> None:
        """Hand on what is left. What is being written now is: cut off, nobody would know whether it was."""
        await self._flushes.stop()
        await self.flush()

    async def flush(self) -> None:
        """Hand it on; what the store does not take waits on, and what it refuses as it is would do so for ever."""
        sums, self._sums = self._sums, {}
        if not sums:
            return
        try:
            await self._days.add(sums)
        except StoreRejected as error:
            log.error("spending of %d keys, models and days is lost, as the store refuses it: %s", len(sums), error)
        except StoreUnavailable as error:
            log.debug("spending of keys waits: %s", error)
            later, self._sums = self._sums, sums
            for by, more in later.items():
                self._add(by, more)
        else:
            await self._forget()

    async def _forget(self) -> None:
        """Old days go, once a day."""
        today = day_of(self._clock())
        if today != self._forgotten:
            with suppress(StoreUnavailable):
                await self._days.forget(day_of(self._clock() - _KEPT_S))
                self._forgotten = today
