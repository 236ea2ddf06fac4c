"""How long is waited: for the store, applied once where a stage gets its ports; and for whatever else has to know how much time is left.

`within` is a deadline that the work inside it can ask about (`left_s`): a step that is good to have ends in time then, and leaves what
there is, instead of being cut off with everything that was found before it. `AwakeTimeout` does not count the time in which the whole
process stood still.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import TracebackType, coroutine
from typing import Any, TypeVar

from msgspec.structs import replace

from proxy.errors import StoreUnavailable
from proxy.offloop import ALLOWANCE, Allowance
from proxy.ports import Ports

T = TypeVar("T")
STORE_TIMEOUT_S = 1.0
"""For each call; past it the stage goes on as if the store were away."""
STORE_SHARE = 0.2
"""Of the stage's own time, where that is less."""
_UNTIL: ContextVar[float] = ContextVar("until", default=math.inf)
"""By `time.perf_counter`: to ask which loop runs, for its time, takes a call of the system."""
_STORES = ("scratchpad", "tool_runs", "compactions", "first_seen", "quarantine", "clashes", "failures")


_SLICES = 5
"""Of a timeout: so much of it one standstill takes at most."""


class AwakeTimeout:
    """`asyncio.timeout` that counts only while the event loop runs. Raises `TimeoutError` past it.

    A process that was stopped (SIGSTOP, a machine that swaps or is moved) wakes with answers in its sockets and every timer due: the plain
    timeout then gives up what has long been answered. This one counts in fifths, each begun when the one before has been noticed, so that
    a standstill of any length takes one of them.
    """

    def __init__(self, seconds: float) -> None:
        self._slice_s, self._left = seconds / _SLICES, _SLICES
        self._timeout = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._slice_s, self._count)

    def _count(self) -> None:
        self._left -= 1
        if self._left:
            self._timer = self._loop.call_later(self._slice_s, self._count)
        else:
            self._timeout.reschedule(self._loop.time())

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)


async def with_one_retry(ask: Callable[[], Awaitable[T]]) -> T:
    """What `ask` gives, which changes nothing more when it is done twice. Raises `StoreUnavailable`.

    PostgreSQL counts ``statement_timeout`` from a statement's first message to its last one, and so ends what a process was about to send
    when it was stopped; the second try goes through. A store that is away refuses it at once.
    """
    try:
        return await ask()
    except StoreUnavailable:
        return await ask()


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    """`asyncio.timeout` that `left_s` knows of. Raises `TimeoutError` past it."""
    until = math.inf if seconds is None else time.perf_counter() + seconds
    token = _UNTIL.set(min(until, _UNTIL.get()))
    try:
        async with asyncio.timeout(seconds):
            yield
    finally:
        _UNTIL.reset(token)


async def done_within(seconds: float, allowance: Allowance | None, work: Awaitable[T]) -> T:
    """What `work` gives, done `within` so many seconds, its processor time taken from `allowance`. It gets a timer where it has to wait:
    most hooks of stages never do. Raises `TimeoutError`.
    """
    until, before = time.perf_counter() + seconds, _UNTIL.get()
    deadline, spending = _UNTIL.set(until if until < before else before), ALLOWANCE.set(allowance)
    try:
        steps: Any = work.__await__()
        found: T
        try:
            waits_for = steps.send(None)
        except StopIteration as end:
            found = end.value
        else:
            async with asyncio.timeout(until - time.perf_counter()):
                found = await _go_on(steps, waits_for)
        return found
    finally:
        _UNTIL.reset(deadline)
        ALLOWANCE.reset(spending)


@coroutine
def _go_on(steps: Any, waits_for: object) -> Generator[Any, Any, Any]:
    """As ``yield from``, of what has begun and `waits_for` something."""
    try:
        while True:
            try:
                came = yield waits_for
            except BaseException as error:
                waits_for = steps.throw(error)
            else:
                waits_for = steps.send(came)
    except StopIteration as end:
        return end.value


def left_s() -> float:
    """Seconds until the nearest deadline of those that this task works within; infinite without one."""
    until = _UNTIL.get()
    return math.inf if until == math.inf else max(0.0, until - time.perf_counter())


def with_deadline(ports: Ports, stage_timeout_ms: float) -> Ports:
    """`ports` for a stage that has so long for each hook: a call of the store that takes too long raises `StoreUnavailable`. What a judge
    may spend is the judge's to ask."""
    limit_s = min(STORE_TIMEOUT_S, stage_timeout_ms / 1000 * STORE_SHARE)
    return replace(ports, spending=None, **{name: _InTime(getattr(ports, name), limit_s) for name in _STORES})


class _InTime:
    """A store's port, each of whose calls has a deadline."""

    def __init__(self, port: object, limit_s: float) -> None:
        self._port, self._limit_s = port, limit_s

    def __getattr__(self, name: str) -> Any:
        method, limit_s = getattr(self._port, name), self._limit_s

        async def call(*given: Any, **named: Any) -> Any:
            try:
                async with AwakeTimeout(limit_s):
                    return await method(*given, **named)
            except TimeoutError:
                raise StoreUnavailable("timeout") from None

        return call
