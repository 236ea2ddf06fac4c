"""Keeps one upstream usable: a cap on concurrent calls, retries before the first byte, and fallbacks.

Wraps any `Upstream`. A reply with a status that may pass (429, 500, 502, 503, 504) or a connection error is tried again after a pause
(exponential backoff with full jitter, or the server's own ``retry-after``), then at the fallbacks in turn. What still fails goes to
the client unchanged. Backoff: M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
"""

from __future__ import annotations

import asyncio
import email.utils
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from proxy.config.settings import Retries
from proxy.errors import Overloaded, ProxyError, UpstreamUnreachable
from proxy.ports import Counters, UpstreamFigures
from proxy.ports.upstream import Call, Headers, Reply, Upstream

RETRIED = frozenset((429, 500, 502, 503, 504))


class Slots:
    """At most `places` at once, at most `queue` waiting, first come first served."""

    def __init__(self, places: int, queue: int) -> None:
        self._free, self._queue = places, queue
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place if one is free and nobody waits."""
        if self._free > 0 and not self._waiting:
            self._free -= 1
            return True
        return False

    async def acquire(self, name: str) -> None:
        """Wait for a place. Raises `Overloaded` when the queue is full."""
        if len(self._waiting) >= self._queue:
            message = f"upstream {name} is busy and its queue of {self._queue} is full; try again in a moment"
            raise Overloaded(message, headers=(("retry-after", "1"),))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the place came while we were being cancelled
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give a place back, to the first who waits."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


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
    ) -> None:
        """`takes` tells whether a call can be put to its server at all."""
        self.upstream = upstream
        self.name = upstream.name
        self.fallback = fallback
        self.total_s = total_s
        """For one answer; also for all that one exchange asks for."""
        self._retries = retries
        self._slots = slots
        self._counters = counters
        self._figures = figures or _NoFigures()
        self._takes = takes

    def send(self, call: Call, others: Mapping[str, Resilient]) -> Awaitable[Reply]:
        """Try this upstream, then those of its fallbacks that can take the call. Raises what the last one raised when none gave a reply.

        A pass-through whose body is a stream of pieces is tried once, as its pieces cannot be sent twice.
        """
        if not self.fallback or not isinstance(call.body, bytes):
            return self._send(call)
        return self._with_fallbacks(call, others)

    async def _with_fallbacks(self, call: Call, others: Mapping[str, Resilient]) -> Reply:
        candidate, waiting, tries = self, [others[name] for name in self.fallback], 0
        while True:
            try:
                reply = await candidate._send(call)
            except (UpstreamUnreachable, Overloaded) as error:
                following = _taking(call, waiting)
                if following is None:
                    raise
                tries += error.attempts
            else:
                tries += reply.attempts
                following = _taking(call, waiting) if reply.status in RETRIED else None
                if following is None:
                    reply.attempts = tries
                    return reply
                await reply.close()
            self._next(candidate)
            candidate = following

    def _next(self, failed: Resilient) -> None:
        """A fallback's turn has come."""
        self._counters.count("upstream.fallback_count")
        failed._figures.fell_back()

    async def _send(self, call: Call) -> Reply:
        if not self._slots.take():
            try:
                await self._slots.acquire(self.name)
            except Overloaded as error:
                self._figures.failed(error.code)
                raise
        try:
            return await self._with_retries(call)
        except BaseException:
            self._slots.release()
            raise

    async def _with_retries(self, call: Call) -> Reply:
        allowed = self._retries.attempts if isinstance(call.body, bytes) and not call.raw else 0
        attempt = 0
        while True:
            attempt += 1
            started = time.perf_counter()
            try:
                reply = await self.upstream.send(call)
            except ProxyError as error:
                self._figures.failed(error.code)
                if not isinstance(error, UpstreamUnreachable):
                    raise
                error.attempts = attempt
                if attempt > allowed or not error.repeatable:
                    raise
                pause = 0.0 if attempt == 1 else backoff_s(attempt, self._retries)  # a kept-alive connection often just went stale
            else:
                reply.attempts = attempt
                self._figures.answered(reply.status, time.perf_counter() - started)
                if reply.status not in RETRIED or attempt > allowed:
                    return _Held(reply, self._slots, self._figures, started)
                wait = retry_after_s(reply.headers)
                if wait is not None and wait > self._retries.max_s:
                    return _Held(reply, self._slots, self._figures, started)
                await reply.close()
                pause = backoff_s(attempt, self._retries) if wait is None else wait
            self._counters.count("upstream.retry_count")
            self._figures.retried()
            await asyncio.sleep(pause)


def _taking(call: Call, waiting: list[Resilient]) -> Resilient | None:
    """The next of those `waiting` that can take the call; they leave the list."""
    while waiting:
        candidate = waiting.pop(0)
        if candidate._takes(call):
            return candidate
    return None


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


class _Held:
    """A reply that keeps its place until it is closed, and tells how long its body took."""

    __slots__ = ("_closed", "_figures", "_reply", "_slots", "_started", "attempts", "headers", "status", "upstream")

    def __init__(self, reply: Reply, slots: Slots, figures: UpstreamFigures, started: float) -> None:
        self._reply, self._slots, self._closed = reply, slots, False
        self._figures, self._started = figures, started
        self.status, self.headers, self.upstream, self.attempts = reply.status, reply.headers, reply.upstream, reply.attempts

    async def read(self) -> bytes:
        try:
            body = await self._reply.read()
        except ProxyError as error:
            self._figures.broke(error.code)
            raise
        self._ended()
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._reply.chunks():
                yield chunk
        except ProxyError as error:
            self._figures.broke(error.code)
            raise
        self._ended()

    def _ended(self) -> None:
        if self.status < 400:
            self._figures.ended(time.perf_counter() - self._started)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            try:
                await self._reply.close()
            finally:
                self._slots.release()
