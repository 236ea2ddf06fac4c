"""Wrong keys over all processes: implements `proxy.ledger.SharedGuesses` over the counter of limits.

An address is a subject of its own with a limit of wrong keys in a minute. Subjects are buckets, so that who sends keys from ever other
addresses makes no row each: two addresses in one bucket wait for each other, which a right key never does. Where the counter is away, or
asked by too many at a time, each process counts for itself, as `proxy.ledger.Guesses` does anyway.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import time
from collections.abc import Callable

from proxy.config.keys import Limits
from proxy.limits.counter import NOTHING, Ask, Counter, CounterAway, Settlement, Subject
from proxy.ports import Counters

log = logging.getLogger("groundwire.limits")

BUCKETS = 65_536
_AWAY_S = 1.0
"""So long a counter that did not answer is not asked again."""
_MOST_AT_ONCE = 16
"""Guesses that the counter is asked about: a flood of them must not keep requests from it."""


class CountedGuesses:
    """Of one process."""

    def __init__(self, counter: Counter, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self._counter, self._counters, self._clock = counter, counters, clock
        self._away_until, self._asked = 0.0, 0

    async def add(self, kind: str, network: str, most: int) -> float:
        """Implements `proxy.ledger.SharedGuesses`."""
        if self._asked >= _MOST_AT_ONCE or self._clock() < self._away_until:
            self._counters.count("ledger.guess_uncounted_count")
            return 0.0
        self._asked += 1
        try:
            return await self._counted(subject_of(kind, network, most))
        except CounterAway as error:
            self._away_until = self._clock() + _AWAY_S
            self._counters.count("ledger.guess_uncounted_count")
            log.warning("wrong keys: %s: this process counts those that come to it", error)
            return 0.0
        finally:
            self._asked -= 1

    async def _counted(self, subject: Subject) -> float:
        """Seconds to wait. Raises `CounterAway`."""
        lease = secrets.token_hex(8)
        decision = await self._counter.reserve(lease, (subject,), Ask())
        if decision.granted:
            await self._counter.settle([Settlement(lease, (subject,), decision.at, NOTHING, NOTHING)])
        return decision.standings[0].wait_s if not decision.granted else 0.0


def subject_of(kind: str, network: str, most: int) -> Subject:
    """The bucket of an address."""
    bucket = int.from_bytes(hashlib.blake2b(network.encode("utf-8", "replace"), digest_size=8).digest()) % BUCKETS
    name = f"{kind}:{bucket:04x}"
    return Subject("guess", name, Limits(rpm=most), name)
