"""Keeps one upstream usable: a cap on concurrent calls, retries before the first byte, and fallbacks.

Wraps any `Upstream`. A reply with a status that may pass (`RETRIED`) or a connection error is tried again after a pause
(exponential backoff with full jitter, or the server's own ``retry-after``), then at the fallbacks in turn. A time-out goes to the
fallbacks at once: the same server would keep the client waiting as long again; so does a refusal of the proxy's own key. What still
fails goes to the client unchanged. Backoff: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from proxy.config.settings import Retries
from proxy.errors import Overloaded, ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.ledger import NOBODY, Ledger, Party, Share
from proxy.ports import Counters, UpstreamFigures
from proxy.ports.upstream import Call, Headers, Reply, Upstream, header_of

RETRIED = frozenset((408, 429, 500, 502, 503, 504, *range(520, 525), 529))
"""Statuses of what may be over a moment later: those of HTTP, Cloudflare's for a server behind it (520 to 524), Anthropic's "overloaded"
(529). ``x-should-retry`` of OpenAI and Anthropic has the last word."""
FELL_BACK = RETRIED | {401, 402, 403}
"""Statuses after which fallbacks are asked: also where the server refuses the proxy's own key, or wants money for it."""


class Slots:
    """At most `places` at once and at most `queue` waiting, of both a share for each party. The next place goes to the party with the
    fewest, and to its call that has waited longest.
    """

    def __init__(self, places: int, queue: int, *, wait_s: float = 600.0, ledger: Ledger | None = None) -> None:
        """`wait_s` is how long a call may wait; the `ledger` is told who was refused."""
        self._places, self._queue, self._wait_s, self._ledger = Share(places), Share(queue), wait_s, ledger or Ledger()
        self._waiting: dict[Party, deque[asyncio.Future[None]]] = {}

    def take(self, party: Party = NOBODY) -> bool:
        """Take a place if the party may have one that nobody waits for who could have it."""
        return not (self._waiting and self._ready()) and self._places.take(party)

    async def acquire(self, name: str, party: Party = NOBODY) -> None:
        """Wait for a place. Raises `Overloaded` when the queue is full, and past `wait_s`."""
        if not self._queue.take(party):
            problem = f"its queue of {self._queue.total} is full" if not self._queue.free else "too many of your calls wait for it"
            raise self._refuse(party, f"upstream {name} is busy and {problem}")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(party, deque()).append(turn)
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if turn.done() and not turn.cancelled():
                self.release(party)  # the place came while we were being cancelled
            else:
                self._leave(party, turn)
            if isinstance(error, TimeoutError):
                raise self._refuse(party, f"upstream {name} is busy: no place within {self._wait_s:g} s") from None
            raise
        finally:
            self._queue.release(party)

    def release(self, party: Party = NOBODY) -> None:
        """Give a place back, to the next who waits."""
        self._places.release(party)
        while self._waiting and (ready := self._ready()):
            party = min(ready, key=self._has)
            turn = self._waiting[party][0]
            self._leave(party, turn)
            if not turn.done():
                self._places.take(party)
                turn.set_result(None)

    def _ready(self) -> list[Party]:
        """Those who wait and may have a place now."""
        return [party for party in self._waiting if self._places.may_take(party)]

    def _has(self, party: Party) -> int:
        return self._places.of(party[0][0]) if party else 0

    def _leave(self, party: Party, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(party, deque())
        if turn in turns:  # else its place came, or it was cancelled and passed over
            turns.remove(turn)
        if not turns:
            self._waiting.pop(party, None)

    def _refuse(self, party: Party, problem: str) -> Overloaded:
        self._ledger.refused("place_refused", party, problem)
        return Overloaded(f"{problem}; try again in a moment", headers=(("retry-after", "1"),))


class SharedPlaces(Protocol):
    """An upstream's places over all processes; implemented in `proxy.limits.limiter`."""

    async def take(self, upstream: str, most: int, wait_s: float) -> Callable[[], None]:
        """One of `most`; what it returns gives it back. Waits for it. Raises `Overloaded` past `wait_s`."""


class Resilient:
    """An upstream with its retries, fallbacks and cap."""

    def __init__(
        self,
        upstream: Upstream,
        retries: Retries,
        slots: Slots,
        fallback: tuple[str, ...],
        counters: Counters,
        total_s: float = 1800.0,
        figures: UpstreamFigures | None = None,
        takes: Callable[[Call], bool] = lambda call: True,
        everywhere: Callable[[], Awaitable[Callable[[], None]]] | None = None,
        *,
        forwards: bool = False,
    ) -> None:
        """`takes` tells whether a call can be put to its server at all; `everywhere` takes one of its places over all processes;
        `forwards` that the key is the client's, whom no fallback serves with another's.
        """
        self.upstream = upstream
        self.name = upstream.name
        self.fallback = fallback
        self.total_s = total_s
        """For one answer; also for all that one exchange asks for."""
        self._retries = retries
        self._slots = slots
        self._counters = counters
        self._figures = figures or _NoFigures()
        self._takes, self._everywhere = takes, everywhere
        self._fell_back = RETRIED if forwards else FELL_BACK

    def send(self, call: Call, others: Mapping[str, Resilient]) -> Awaitable[Reply]:
        """Try this upstream, then those of its fallbacks that can take the call. Raises what the last one raised when none gave a reply.

        A pass-through whose body is a stream of pieces is tried once, as its pieces cannot be sent twice.
        """
        if not self.fallback or not isinstance(call.body, bytes):
            return self._send(call)
        return self._with_fallbacks(call, others)

    def send_alone(self, call: Call) -> Awaitable[Reply]:
        """Try this upstream, and none of its fallbacks. Raises what it raised."""
        return self._send(call)

    async def _with_fallbacks(self, call: Call, others: Mapping[str, Resilient]) -> Reply:
        waiting = (one for one in [others[name] for name in self.fallback] if one._takes(call))
        candidate, tries = self, 0
        while True:
            try:
                reply = await candidate._send(call)
            except (UpstreamUnreachable, UpstreamTimeout, Overloaded) as error:
                following = next(waiting, None)
                if following is None:
                    raise
                tries += error.attempts
            else:
                tries += reply.attempts
                following = next(waiting, None) if reply.status in candidate._fell_back else None
                if following is None:
                    reply.attempts = tries
                    return reply
                await reply.close()
            self._counters.count("upstream.fallback_count")
            candidate._figures.fell_back()
            candidate = following

    async def _send(self, call: Call) -> Reply:
        release = await self._place(call.party)
        try:
            return await self._with_retries(call, release)
        except BaseException:
            release()
            raise

    async def _place(self, party: Party) -> Callable[[], None]:
        """What gives it back. Raises `Overloaded`."""
        try:
            if not self._slots.take(party):
                await self._slots.acquire(self.name, party)
            if self._everywhere is None:
                return partial(self._slots.release, party)
            try:
                give_back = await self._everywhere()
            except BaseException:
                self._slots.release(party)
                raise
        except Overloaded as error:
            self._figures.failed(error.code)
            raise

        def release() -> None:
            self._slots.release(party)
            give_back()

        return release

    async def _with_retries(self, call: Call, release: Callable[[], None]) -> Reply:
        allowed = self._retries.attempts if isinstance(call.body, bytes) and not call.raw else 0
        attempt = 0
        while True:
            attempt += 1
            started = time.perf_counter()
            try:
                reply = await self.upstream.send(call)
            except ProxyError as error:
                if error.answered_status:
                    self._figures.answered(error.answered_status, time.perf_counter() - started)
                    self._figures.broke(error.code)
                else:
                    self._figures.failed(error.code)
                error.attempts = attempt
                if not isinstance(error, UpstreamUnreachable):
                    raise
                if attempt > allowed or not error.repeatable:
                    raise
                pause = 0.0 if attempt == 1 else backoff_s(attempt, self._retries)  # a kept-alive connection often just went stale
            else:
                reply.attempts = attempt
                self._figures.answered(reply.status, time.perf_counter() - started)
                if attempt > allowed or not _is_repeatable(reply):
                    return _SlotReply(reply, release, self._figures, started)
                wait = retry_after_s(reply.headers)
                if wait is not None and wait > self._retries.max_s:
                    return _SlotReply(reply, release, self._figures, started)
                await reply.close()
                pause = backoff_s(attempt, self._retries) if wait is None else wait
            self._counters.count("upstream.retry_count")
            self._figures.retried()
            await asyncio.sleep(pause)


def _is_repeatable(reply: Reply) -> bool:
    """Whether the same server should be asked once more."""
    if reply.status < 400:
        return False
    said = header_of(reply.headers, "x-should-retry").strip().lower()
    return said == "true" or (reply.status in RETRIED and said != "false")


def backoff_s(attempt: int, retries: Retries) -> float:
    """Seconds to pause after failed try number `attempt` (1-based): full jitter below an exponential ceiling."""
    ceiling = min(retries.max_s, retries.base_s * 2.0 ** min(attempt - 1, 30))
    return random.uniform(0, ceiling)


def retry_after_s(headers: Headers, now: float | None = None) -> float | None:
    """Seconds that a ``retry-after-ms`` or ``retry-after`` header (seconds or an HTTP date) asks for; None without a usable one."""
    found = {name: value for name, value in headers if name in ("retry-after", "retry-after-ms")}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(found[name]) * scale
        except (KeyError, ValueError):
            continue
        return max(0.0, seconds) if seconds == seconds else None
    try:
        date = email.utils.parsedate_to_datetime(found["retry-after"])
        return max(0.0, date.timestamp() - (time.time() if now is None else now))
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


class _NoFigures:
    """Nobody counts."""

    def answered(self, status: int, seconds: float) -> None: ...

    def ended(self, seconds: float) -> None: ...

    def failed(self, code: str) -> None: ...

    def broke(self, code: str) -> None: ...

    def retried(self) -> None: ...

    def fell_back(self) -> None: ...


class _SlotReply:
    """A reply that keeps its place until it is closed, and tells how long its body took."""

    __slots__ = ("_closed", "_figures", "_release", "_reply", "_started", "attempts", "headers", "status", "upstream")

    def __init__(self, reply: Reply, release: Callable[[], None], figures: UpstreamFigures, started: float) -> None:
        self._reply, self._release, self._closed = reply, release, False
        self._figures, self._started = figures, started
        self.status, self.headers, self.upstream, self.attempts = reply.status, reply.headers, reply.upstream, reply.attempts

    async def read(self) -> bytes:
        try:
            body = await self._reply.read()
        except ProxyError as error:
            self._figures.broke(error.code)
            raise
        self._note_end()
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._reply.chunks():
                yield chunk
        except ProxyError as error:
            self._figures.broke(error.code)
            raise
        self._note_end()

    def _note_end(self) -> None:
        if self.status < 400:
            self._figures.ended(time.perf_counter() - self._started)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                await self._reply.close()
            finally:
                self._release()
