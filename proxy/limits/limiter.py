"""Reserves what a request will take, and settles what it took: once, whatever happens to the request, the process or the counter.

In: a request's amount, as `proxy.server.admission` estimates it. Out: a `Lease`, or a refusal. What is to be settled waits in a line of its
own, so that no answer waits for the counter; a counter that is away is asked again until it takes it. Leases of open requests are renewed;
those of a process that was killed run out. A counter that did not answer is not asked for a second, and the limit's ``on_error`` decides.

Over the same counter, for all processes: an upstream's places (`proxy.upstreams.resilience.SharedPlaces`) and wrong keys
(`proxy.ledger.SharedGuesses`).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct

from proxy.config.keys import Limits, LimitSettings
from proxy.errors import Overloaded
from proxy.limits.counter import NOTHING, RENEW_S, Amount, Ask, Counter, CounterAway, Decision, Settlement, Subject
from proxy.ports import Counters

log = logging.getLogger("groundwire.limits")

_AWAY_S = 1.0
"""So long a counter that did not answer is not asked again."""
_PATIENCE_S = (0.05, 0.15, 0.3)
"""Where every place is taken, or something waits to be settled: between an answer's last byte and its settlement a few milliseconds pass,
and a client that sends one request after the other must not be refused for that."""
_TOGETHER_S = 0.005
"""What ends within so long is settled together."""
_MAX_WAITING, _QUIET_S = 100_000, 60.0
_MOST = 2**53
"""Of tokens and of millionths of a dollar: an upstream may say what it likes, and what no counter can hold would be settled never, nor what
waits behind it."""
_FLUSH_S = 2.0
"""For what still waits when the process ends."""


class Lease(Struct, eq=False):
    """A request that may go on."""

    id: str
    """Of the exchange."""
    subjects: tuple[Subject, ...]
    reserved: Amount
    decision: Decision | None = None
    """None where nobody could count it."""


class Refused(Exception):
    """A limit is reached: nothing was reserved."""

    def __init__(self, subjects: Sequence[Subject], decision: Decision) -> None:
        super().__init__()
        self.decision = decision
        pairs = [(s, one) for s, one in zip(subjects, decision.standings, strict=True) if one.refused is not None]
        self.subject, self.standing = max(pairs, key=lambda pair: pair[1].wait_s)
        """The one that has to be waited for longest."""


class Limiter:
    """Of one process."""

    def __init__(self, counter: Counter, settings: LimitSettings, counters: Counters, clock: Callable[[], float] = time.monotonic) -> None:
        self.counter, self.settings, self._counters, self._clock = counter, settings, counters, clock
        self._away_until = self._quiet_until = 0.0
        self._open: dict[str, Lease] = {}
        self._waiting: list[Settlement] = []
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Settle and renew in the background, by a counter that was started."""
        self._tasks = [asyncio.create_task(work()) for work in (self._settle_all, self._renew)]

    async def stop(self) -> None:
        """Settle what waits, as far as the counter takes it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(_FLUSH_S):
                await self._settle_waiting()
        except (CounterAway, TimeoutError) as error:
            log.warning("%d requests could not be settled: what was reserved for them counts as spent: %s", len(self._waiting), error)

    async def reserve(self, lease_id: str, subjects: tuple[Subject, ...], ask: Ask) -> Lease:
        """Raises `Refused`, and `Overloaded` where the counter is away and one of the limits is closed then."""
        lease = Lease(lease_id, subjects, ask.full)
        try:
            lease.decision = await self._decided(lease, ask)
            lease.reserved = ask.least if lease.decision.reduced else ask.full
        except asyncio.CancelledError:  # it may be reserved all the same
            self._settle(lease, NOTHING)
            raise
        except CounterAway as error:
            self._without_counter(lease, error)
        if lease.decision is not None and not lease.decision.granted:
            raise Refused(subjects, lease.decision)
        self._open[lease_id] = lease
        return lease

    async def _decided(self, lease: Lease, ask: Ask) -> Decision:
        """Raises `CounterAway`."""
        if self._clock() < self._away_until:
            raise CounterAway("")
        for pause_s in (*_PATIENCE_S, None):
            try:
                decision = await self.counter.reserve(lease.id, lease.subjects, ask)
            except CounterAway:
                self._away_until = self._clock() + _AWAY_S
                raise
            refused = {one.refused for one in decision.standings} - {None}
            soon = refused == {"concurrent"} or (self._waiting and "rpm" not in refused)
            if pause_s is None or not refused or not soon:
                break
            await asyncio.sleep(pause_s)
        return decision

    def _without_counter(self, lease: Lease, error: CounterAway) -> None:
        """Say that nobody counts. Raises `Overloaded` where that ends the request."""
        closed = any(self.settings.closed(subject.limits) for subject in lease.subjects)
        self._counters.count("limits.closed_count" if closed else "limits.uncounted_count")
        if str(error):  # once a second, and not for each request
            what = "refused" if closed else "let through uncounted"
            log.warning("limits of %s: %s: a request is %s (limits.on_error)", " and ".join(s.id for s in lease.subjects), error, what)
        if closed:
            self._settle(lease, NOTHING)  # its answer may only have been lost
            message = "what this key has taken cannot be counted now, and its limits refuse what nobody counts; try again in a moment"
            raise Overloaded(message, headers=(("retry-after", "1"), ("x-groundwire-limits", "closed;counter-away")))

    def settle(self, lease: Lease, taken: Amount) -> None:
        """It has ended, and took this."""
        if self._open.pop(lease.id, None) is not None:
            self._settle(lease, Amount(min(taken.tokens, _MOST), min(taken.micro_usd, _MOST)))

    def _settle(self, lease: Lease, taken: Amount) -> None:
        at = lease.decision.at if lease.decision is not None else time.time()
        if len(self._waiting) >= _MAX_WAITING:
            del self._waiting[0]
            self._counters.count("limits.dropped_count")
            if self._clock() >= self._quiet_until:  # once a minute, and not for each request
                self._quiet_until = self._clock() + _QUIET_S
                log.error("%d requests wait to be settled: of the oldest what was reserved counts as spent", _MAX_WAITING)
        self._waiting.append(Settlement(lease.id, lease.subjects, at, lease.reserved, taken))
        self._news.set()

    async def _settle_all(self) -> None:
        while True:
            await self._news.wait()
            await asyncio.sleep(_TOGETHER_S)
            self._news.clear()
            try:
                await self._settle_waiting()
            except Exception as error:  # whatever it is, what waits is settled later
                log.warning("%d requests wait to be settled: %s", len(self._waiting), error, exc_info=not isinstance(error, CounterAway))
                self._news.set()
                await asyncio.sleep(_AWAY_S)

    async def _settle_waiting(self) -> None:
        """Raises `CounterAway`; then all of them wait on: what was settled changes nothing a second time."""
        while some := self._waiting[:100]:
            await self.counter.settle(some)
            del self._waiting[: len(some)]

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            leases = [(lease.id, lease.subjects) for lease in self._open.values()]
            try:
                for start in range(0, len(leases), 500):
                    await self.counter.renew(leases[start : start + 500])
            except Exception as error:  # as above
                log.warning("%d open requests could not be renewed: %s", len(leases), error, exc_info=not isinstance(error, CounterAway))


def subjects_of(key: str, limits: Limits, team: str, of_team: Limits) -> tuple[Subject, ...]:
    """Those that have limits: a request of a key without any is not counted."""
    group = team or key
    every = (Subject("key", key, limits, group), Subject("team", team, of_team, group))
    return tuple(subject for subject in every if subject.name and subject.limits.any)


# ---- places at an upstream over all processes ----

_PAUSE_S = 0.2


class CountedPlaces:
    """Implements `proxy.upstreams.resilience.SharedPlaces`, for ``max_concurrency_everywhere``. Of one process.

    A place is a lease of the upstream's own account, as a request is of a key's ``concurrent``: renewed while the call runs, and free a
    minute after its process was killed. Without the counter a call goes on with the place that it has in its process. Who finds none asks
    again, one call of each process and upstream at a time, so that those who wait do not keep the counter busy.
    """

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


# ---- wrong keys over all processes ----

BUCKETS = 65_536
_MOST_AT_ONCE = 16
"""Guesses that the counter is asked about: a flood of them must not keep requests from it."""


class CountedGuesses:
    """Implements `proxy.ledger.SharedGuesses`. Of one process.

    An address is a subject of its own with a limit of wrong keys in a minute. Subjects are buckets, so that who sends keys from ever other
    addresses makes no row each: two addresses in one bucket wait for each other, which a right key never does. Where the counter is away,
    or asked by too many at a time, each process counts for itself, as `proxy.ledger.Guesses` does anyway.
    """

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
