"""Makes the sums that `proxy.store.rollups` keeps, in the background of every worker: minutes, hours and days once they are over.

A row is made of shorter ones where these are good, and of records where not, so that an hour is read once. Each is claimed before, so that
several workers share the work, and stored only if none of its records changed meanwhile. Where a store was filled by an earlier release,
its days are gone through from the newest to the oldest: this takes about a minute for a million exchanges, a part of the time only, so
that requests come first, and the log says when it begins and ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from contextlib import suppress

from proxy.errors import StoreUnavailable
from proxy.store.figures import DatabaseFigures
from proxy.store.rollups import LEVELS_S, Due

log = logging.getLogger(__name__)

SETTLED_S = 30.0
"""After its end, until when a row is left alone: exchanges that began in it end."""
_FIRST_S, _EVERY_S = 5.0, 10.0
"""After a start, and between two rounds."""
_END_S = 2.0
_AGAIN_S = 30.0
"""Between two times that the same row is made, where late records keep changing it."""
_CLAIMED_S = 120.0
"""A worker that died in the middle leaves a row to the others after this time."""
_AT_ONCE = 32
_MANY = 48
"""Rows to be made from which on the log tells."""
_LOOK_EVERY_S = 3600.0
BUSY_SHARE = 0.4
"""Of the time that is worked at most."""


class RollupBuilder:
    """The task."""

    def __init__(self, figures: DatabaseFigures, *, busy_share: float = BUSY_SHARE, clock: Callable[[], float] = time.time) -> None:
        self._figures, self._rollups, self._busy_share, self._clock = figures, figures.rollups, busy_share, clock
        self._lacking: list[str] = []
        self._look_at = 0.0
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()

    def start(self, first_s: float = _FIRST_S) -> None:
        """Begin, `first_s` seconds from now. Needs a running event loop; the database need not be available."""
        self._task = asyncio.create_task(self._run(first_s), name="rollups")

    async def stop(self) -> None:
        """End the task: the row that is made now is finished, if that takes no longer than a moment."""
        self._stopping.set()
        if self._task:
            await asyncio.wait((self._task,), timeout=_END_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self, first_s: float) -> None:
        await self._pause(first_s)
        while not self._stopping.is_set():
            try:
                await self.run_once()
            except StoreUnavailable as error:
                log.debug("figures wait: %s", error)
            except Exception:
                log.exception("figures could not be added up")
            await self._pause(_EVERY_S * random.uniform(0.75, 1.25))

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def run_once(self) -> int:
        """Make all that is due; returns how many rows were made. Raises `StoreUnavailable`."""
        made, past, began = 0, 0, time.monotonic()
        if began > self._look_at:
            await self._look()
            self._look_at = began + _LOOK_EVERY_S
        while not self._stopping.is_set() and (due := await self._next()):
            if not past and (past := await self._rollups.left()) >= _MANY:
                log.info("figures: past exchanges are added up in the background, %d hours and days; pages read them until then", past)
            for one in due:
                if self._stopping.is_set():
                    return made
                made += await self._make(one)
        if past >= _MANY:
            log.info("figures: past exchanges are added up, in %.0f s", time.monotonic() - began)
        return made

    async def _look(self) -> None:
        """For what nobody touched: records of an earlier release, rows of a process that does not know all panels."""
        await self._rollups.begin(self._clock())
        more = True
        while more:  # a day at a time: writers come in between
            more = await self._rollups.mark_past()
        self._lacking = await self._rollups.panels_kept()

    async def _next(self) -> list[Due]:
        """Some that are due, the shortest first, as the longer are made of them."""
        for seconds in reversed(LEVELS_S):
            if due := await self._rollups.due(seconds, self._clock(), SETTLED_S, self._lacking, _AT_ONCE):
                return due
        return []

    async def _make(self, due: Due) -> bool:
        """One row; whether it was stored."""
        if not await self._rollups.claim(due, self._clock(), _CLAIMED_S):
            return False
        began = time.monotonic()
        bucket = await self._figures.sums(due.start, due.seconds)
        stored = await self._rollups.put(due, bucket, self._clock() + _AGAIN_S)
        await self._pause((time.monotonic() - began) * (1 / self._busy_share - 1))
        return stored
