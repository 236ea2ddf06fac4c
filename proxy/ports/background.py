"""Work that a process does again and again in the background: looks at the store, figures that it hands on, what retention deletes.

In: a function, and how often it is called. What the function raises is logged and ends nothing, so that one bug stops no later call.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

from proxy.errors import StoreUnavailable


class RepeatedTask:
    """Calls a function again and again, from `start` to `stop`; what it raises is logged, and ends nothing."""

    def __init__(
        self,
        step: Callable[[], Awaitable[object]],
        every_s: float,
        *,
        name: str,
        problem: str,
        log: logging.Logger,
        jitter: float = 0.0,
        end_s: float | None = 0.0,
    ) -> None:
        """`step` is called `every_s` seconds after the end of the call before, more or less by a share of up to `jitter`.

        `problem` is what `log` says of a call that failed: at level ``debug`` where the store is away. `stop` gives a call `end_s` seconds
        to come to its end before it is cancelled, None as long as it takes.
        """
        self._step, self._every_s, self._jitter, self._end_s = step, every_s, jitter, end_s
        self._name, self._problem, self._log = name, problem, log
        self._task: asyncio.Task[None] | None = None
        self.stopping = asyncio.Event()
        """Set from the beginning of `stop` on, until the next start."""

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._task is not None

    def start(self, first_s: float = 0.0) -> None:
        """Begin: the first call comes in `first_s` seconds. Needs a running event loop."""
        if self._task is None:
            self.stopping.clear()
            self._task = asyncio.create_task(self._run(first_s), name=self._name)

    async def stop(self) -> None:
        """End it."""
        self.stopping.set()
        if self._task is None:
            return
        if self._end_s != 0.0:
            await asyncio.wait((self._task,), timeout=self._end_s)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the beginning of `stop`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), seconds)

    async def _run(self, first_s: float) -> None:
        await self.pause(first_s)
        while not self.stopping.is_set():
            try:
                await self._step()
            except StoreUnavailable as error:
                self._log.debug("%s: %s", self._problem, error)
            except Exception:
                self._log.exception(self._problem)
            await self.pause(self._every_s * random.uniform(1 - self._jitter, 1 + self._jitter))
