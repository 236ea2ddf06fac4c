"""CPU work beside the event loop: no slice on it longer than a few milliseconds, nothing in a thread that nobody waits for.

`aside` runs a piece of work where it stands if its input is small, and in a worker thread if it is large. When its caller is cancelled (a
stage's time is over, the client has left) the thread is told: loops in such work go through `each`, or call `check`, and end there.
`Breather` is for a loop of many small awaits that never have to wait, and so would never let anybody else in.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 20_000
"""Characters, or bytes of a body, from which on a pass over them may take longer than a slice: passes of this project read 2 to 20 a
microsecond, and some cut, hash or parse as they go. A thread and back takes a tenth of a millisecond."""
SENTENCES = 10
"""Times as much work as a plain pass: splitting text into sentences and reading what each of them claims."""
SLICE_S = 0.005
"""Longest time that one exchange has the event loop for itself."""
_here = threading.local()


SWITCH_S = 0.001
"""How long a thread that computes keeps the interpreter while the event loop waits for it, each time that something happens there."""
NICENESS = 4
"""Of threads that compute, above the process's own: four tenths of the loop's share of a core that both want."""


class Abandoned(BaseException):
    """Nobody waits for this work any more. No `Exception`: what catches those goes on, and this must not."""


class Waiting:
    """Whether somebody still waits for a piece of work; set by the event loop, read in the thread."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


async def aside(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns, run in a thread where `size` (characters, or bytes) is `LARGE`. It must not touch what belongs to the loop."""
    if size < LARGE:
        return work(*args, **kwargs)
    waiting = Waiting()
    try:
        return await asyncio.to_thread(_run, waiting, lambda: work(*args, **kwargs))
    finally:
        waiting.over = True


def _run(waiting: Waiting, work: Callable[[], T]) -> T:
    _here.waiting = waiting
    try:
        check()  # it may have waited for a thread until nobody waited for it
        return work()
    finally:
        _here.waiting = None


def check() -> None:
    """In work of `aside` whose caller has gone: raises `Abandoned`. Anywhere else nothing; 50 ns."""
    waiting: Waiting | None = getattr(_here, "waiting", None)
    if waiting is not None and waiting.over:
        raise Abandoned


def each(items: Iterable[T]) -> Iterator[T]:
    """`items`, with a `check` before each."""
    waiting: Waiting | None = getattr(_here, "waiting", None)
    if waiting is None:
        yield from items
        return
    for item in items:
        if waiting.over:
            raise Abandoned
        yield item


class Breather:
    """Lets others have the event loop once a slice is used up."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def breathe(self) -> None:
        """Call it once a round."""
        if time.perf_counter() - self._since > SLICE_S:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


def step_back() -> None:
    """Called in a thread that computes: where cores are short, the event loop's thread goes first (Linux; elsewhere nothing)."""
    if sys.platform == "linux":
        with suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, os.getpid()) + NICENESS)


def give_back_memory() -> None:
    """Called after something large was read: what the C library holds free goes back to the system (glibc; elsewhere nothing)."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
