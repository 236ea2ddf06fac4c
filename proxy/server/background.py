"""Work for when an answer has left: learning from it, off every client's path. Bounded; what does not fit is dropped and counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from proxy.ports import Counters

PLACES = 64
"""Most exchanges that are learned from at once, in one process."""
DRAIN_S = 2.0
"""How long a server that stops waits for them."""


class Afterwards:
    """Runs work in the background. The work must not raise."""

    def __init__(self, counters: Counters, *, places: int = PLACES) -> None:
        self._counters, self._places = counters, places
        self._tasks: set[asyncio.Task[None]] = set()

    def submit(self, work: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Start it; False where there is no place left."""
        if len(self._tasks) >= self._places:
            self._counters.count("context.learning_dropped_count")
            return False
        task = asyncio.get_running_loop().create_task(work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def stop(self, drain_s: float = DRAIN_S) -> None:
        """Wait for what runs, for a while, then cancel it."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=drain_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
