"""Turns of the checks that compute: few exchanges at a time, the oldest first, the others in a queue with an end.

In: the hooks of stages that read or judge new content (`Stage.takes_turns`), of every policy of the process, from `proxy.pipeline`. Out: a
turn for each, or `ChecksOverloaded`. Without a bound all exchanges advance together, each by a slice of the event loop and of the models'
threads: under load none is done before its time is over, and a plain request waits for a slice of every one.

An exchange that has had a turn goes before those that came after it, so that what was begun is finished first; who is refused is refused
at the entrance (Welsh and Culler 2003, "Adaptive overload control for busy internet servers"). An exchange that got none within
`max_wait_s`, or found the queue full, gets none later: its other checks are told at once.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from proxy.exchange import Exchange

TURNS_A_CORE = 2
"""While the hook of one waits for a model's thread, another's is read."""
WAITING_A_TURN = 16
"""So that the last has a turn within `MAX_WAIT_S`: an answer of five sentences over new passages takes 0.2 to 0.5 s of two cores."""
MAX_WAIT_S = 5.0


class ChecksOverloaded(Exception):
    """No turn for an exchange's check."""


class CheckQueue:
    """The turns of one process. Belongs to its event loop."""

    def __init__(self, turns: int, *, max_waiting: int | None = None, max_wait_s: float = MAX_WAIT_S) -> None:
        """`turns` hooks run at a time; `max_waiting` exchanges may wait for their first one, each wait ends after `max_wait_s`."""
        self._free = turns
        self._max_waiting = turns * WAITING_A_TURN if max_waiting is None else max_waiting
        self._max_wait_s = max_wait_s
        self._queue: list[tuple[float, int, asyncio.Future[None]]] = []
        """A heap by the exchange's arrival; those that have given up stay until they come up."""
        self._waiting, self._numbers = 0, itertools.count()

    @asynccontextmanager
    async def turn(self, exchange: Exchange) -> AsyncIterator[None]:
        """Run a hook of `exchange` within. Raises `ChecksOverloaded`."""
        await self._enter(exchange)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, exchange: Exchange) -> None:
        if exchange.has_turn is False or (exchange.has_turn is None and not self._free and self._waiting >= self._max_waiting):
            exchange.has_turn = False
            raise ChecksOverloaded
        if self._free:
            self._free -= 1
        else:
            await self._wait(exchange)
        exchange.has_turn = True

    async def _wait(self, exchange: Exchange) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._queue, (exchange.received_at, next(self._numbers), future))
        self._waiting += 1
        try:
            async with asyncio.timeout(self._max_wait_s):
                await future
        except BaseException as error:
            if future.done() and not future.cancelled():  # it was given a turn in the same moment
                self._leave()
            if not isinstance(error, TimeoutError):
                raise
            exchange.has_turn = False
            raise ChecksOverloaded from None
        finally:
            self._waiting -= 1

    def _leave(self) -> None:
        """The turn is the next one's."""
        while self._queue:
            _, _, future = heapq.heappop(self._queue)
            if not future.done():
                future.set_result(None)
                return
        self._free += 1
