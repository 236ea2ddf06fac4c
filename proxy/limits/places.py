"""Places at an upstream over all processes: implements `proxy.upstreams.resilience.SharedPlaces` over the counter of limits.

For ``max_concurrency_everywhere``. A place is a lease of the upstream's own account, as a request is of a key's ``concurrent``: renewed
while the call runs, and free a minute after its process was killed. Without the counter a call goes on with the place that it has in its
process. Who finds none asks again, one call of each process and upstream at a time, so that those who wait do not keep the counter busy.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from functools import partial

from proxy.config.keys import Limits, LimitSettings
from proxy.errors import Overloaded
from proxy.limits.counter import NOTHING, Ask, Counter, Subject
from proxy.limits.limiter import Limiter, Refused
from proxy.ports import Counters

_PAUSE_S = 0.2


class CountedPlaces:
    """Of one process."""

    def __init__(self, counter: Counter, counters: Counters) -> None:
        self._limiter = Limiter(counter, LimitSettings(), counters)
        self._next: dict[str, asyncio.Lock] = {}
        """By upstream, held by the call whose turn it is to ask again."""

    async def start(self) -> None:
        """Renew and give back in the background, by a counter that was started."""
        await self._limiter.start()

    async def stop(self) -> None:
        """Give back what is left."""
        await self._limiter.stop()

    async def take(self, upstream: str, most: int, wait_s: float) -> Callable[[], None]:
        """Implements `SharedPlaces`."""
        subject = Subject("upstream", upstream, Limits(concurrent=most), upstream)
        turn = self._next.setdefault(upstream, asyncio.Lock())
        try:
            async with asyncio.timeout(wait_s):
                if not turn.locked() and (given := await self._try(subject)):
                    return given
                async with turn:
                    while True:
                        if given := await self._try(subject):
                            return given
                        await asyncio.sleep(_PAUSE_S * random.uniform(0.5, 1.5))
        except TimeoutError:
            problem = f"upstream {upstream} is busy: none of its {most} places was free within {wait_s:g} s; try again in a moment"
            raise Overloaded(problem, headers=(("retry-after", "1"),)) from None

    async def _try(self, subject: Subject) -> Callable[[], None] | None:
        """What gives the place back; None where there is none now."""
        try:
            lease = await self._limiter.reserve(secrets.token_hex(8), (subject,), Ask())
        except Refused:
            return None
        return partial(self._limiter.settle, lease, NOTHING)
