"""What is new, for open pages that ask every few seconds: exchanges, and how much waits for a decision.

The source is the store, so that every worker's exchanges show in every page: a worker looks there when a page asks it, at most once a
second for all of them. An exchange is listed by the time at which its request came but is written when it is over, so the look goes some
minutes back and notes when each was seen first. A page says when it was last told, and is told what this worker has seen since; where the
worker has not looked as long as that, what came after the newest that the page has. A page drops what it has already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from proxy.admin.dashboard.summaries import summary
from proxy.store.records import Records

MAX_AT_ONCE = 100
"""Exchanges that one answer tells of; what is beyond it is counted."""
_LOOK_S = 1.0
_AGAIN_S = 3.0
"""What was seen so long before a page was last told is told again: its question may have gone to another worker, whose look was earlier."""
_GAP_S = 10.0
"""A worker that has not looked for so long begins anew."""
_BACK_S, _BACK_IDS = 600.0, 1000
"""How long an exchange may last and still be noticed, and how many of the newest are told apart."""


class News:
    """One worker's look at the store."""

    def __init__(
        self,
        records: Records,
        waiting: Callable[[], Awaitable[Mapping[str, int]]],
        *,
        look_s: float = _LOOK_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`waiting` tells how much waits for a decision."""
        self._records, self._waiting, self._look_s, self._clock = records, waiting, look_s, clock
        self._looking = asyncio.Lock()
        self._first_seen: dict[str, float] = {}
        """Times by id, newest id first."""
        self._began = self._looked_at = 0.0
        self._counts: Mapping[str, int] = {}

    async def since(self, at: float, after: str) -> dict[str, Any]:
        """What to tell a page that was told at `at`, by this server's clock, and whose newest exchange is `after`; "" is none.

        Raises `StoreUnavailable`.
        """
        async with self._looking:  # a page that leaves does not break a look off for the others
            await asyncio.shield(self._look())
        if at >= self._began:
            ids = [one for one, seen in self._first_seen.items() if seen >= at - _AGAIN_S]
        else:
            ids = [one for one in self._first_seen if one > after] if after else []
        records = await self._records.these(ids[:MAX_AT_ONCE])
        return {"at": self._looked_at, "number": len(ids), "exchanges": [summary(record) for record in records], "waiting": self._counts}

    async def _look(self) -> None:
        now = self._clock()
        if now - self._looked_at < self._look_s:
            return
        ids, self._counts = await self._records.ids(now - _BACK_S, _BACK_IDS), await self._waiting()
        if now - self._looked_at > _GAP_S:
            self._began, self._first_seen = now, dict.fromkeys(ids, 0.0)
        self._first_seen = {one: self._first_seen.get(one, now) for one in ids}
        self._looked_at = now
