"""CPU work beside the event loop: no slice on it longer than a few milliseconds, nothing in a thread without end or without a reader; and
how the interpreter of a process is set for that.

`run_in_thread_if_large` runs a piece of work where it stands if its input is small, and in a worker thread if it is large. Size is only a
guess: work that has had its slice of the loop begins again in a thread. When its caller is cancelled (a stage's time is over, the client
has left) the thread is told, and so it is when the exchange has used up its processor time (`Allowance`): loops in such work go through
`each`, or call `check`, and end there. `Breather` is for a loop of many small awaits that never have to wait, and so would never let
anybody else in.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import ParamSpec, TypeVar

from msgspec import Struct

P = ParamSpec("P")
T = TypeVar("T")

LARGE = 20_000
"""Characters, or bytes of a body, from which on a pass over them may take longer than a slice: passes of this project read 2 to 20 a
microsecond, and some cut, hash or parse as they go. A thread and back takes a tenth of a millisecond."""
SENTENCES = 10
"""Times as much work as a plain pass: splitting text into sentences and reading what each of them claims."""
SLICE_S = 0.005
"""Longest time that one exchange has the event loop for itself."""
_LOOK_S = 0.01
"""How often work in a thread looks at its processor time, which takes a call of the system."""
_SHORT_S = 0.0001
"""How long a piece of work on the event loop may take to be charged by the clock, without a look."""


SWITCH_S = 0.001
"""How long a thread that computes keeps the interpreter while the event loop waits for it, each time that something happens there."""
COLLECT_EVERY_S = 60.0
_BUSY_ROUNDS = 10
NICENESS = 4
"""Of threads that compute, above the process's own: four tenths of the loop's share of a core that both want."""


class Abandoned(BaseException):
    """Nobody waits for this work any more. No `Exception`: what catches those goes on, and this must not."""


class OverBudget(TimeoutError):
    """The processor time of the exchange, or of one of its stages, is used up."""


class _AllowanceSpent(Abandoned):
    """The same, within the work."""


class _TooLong(BaseException):
    """Work on the event loop has had its slice."""


class _ThreadWork(threading.local):
    """Of one thread. To ask for its processor time takes a call of the system, as long as many a piece of work."""

    work: _Work | None = None
    """What runs in it now."""
    asked_at = -math.inf
    """When that was done last (`time.perf_counter`)."""
    cpu_s = 0.0
    """What it was then."""
    held_s = 0.0
    """Of the event loop's thread: how long short pieces have had it, one after the other, since one of them let others go first."""

    def ask(self, now: float) -> float:
        """What it has taken since it was asked last."""
        before, self.asked_at, self.cpu_s = self.cpu_s, now, time.thread_time()
        return self.cpu_s - before


_here = _ThreadWork()


class Allowance(Struct):
    """Processor time that work may take: of an exchange, or of one stage of it (`part`). Threads' and the loop's own, models' not."""

    limit_s: float
    whole: Allowance | None = None
    spent_s: float = 0.0

    def part(self, limit_s: float) -> Allowance:
        """What one stage may take of it."""
        return Allowance(limit_s, self)

    def spend(self, seconds: float) -> None:
        """So much was taken."""
        part: Allowance | None = self
        while part is not None:
            part.spent_s += seconds
            part = part.whole

    def over(self, more_s: float = 0.0) -> bool:
        """Whether it is used up, with `more_s` that is being taken now."""
        return self.spent_s + more_s > self.limit_s or (self.whole is not None and self.whole.over(more_s))


ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
"""Of the exchange that this task works for; set it by `allowed`, or where that is one call too many."""


@contextmanager
def allowed(allowance: Allowance) -> Iterator[None]:
    """What `run_in_thread_if_large` does within, and in tasks that are begun within, is taken from `allowance`."""
    token = ALLOWANCE.set(allowance)
    try:
        yield
    finally:
        ALLOWANCE.reset(token)


class _Work(Struct):
    """One piece of work: whether somebody still waits for it, and how long it may go on. Set by the event loop, read where it runs."""

    allowance: Allowance | None
    on_loop: bool
    look_at: float = 0.0
    began: float = 0.0
    """On the event loop by `time.perf_counter`, in a thread by its processor time."""
    over: bool = False

    def run(self, work: Callable[[], T]) -> T:
        """What `work` returns, in a thread; its processor time is taken from the allowance."""
        _here.work, self.began = self, time.thread_time()
        try:
            self.check()  # it may have waited for a thread until nobody waited for it
            return work()
        finally:
            _here.work = None
            if self.allowance is not None:
                self.allowance.spend(time.thread_time() - self.began)

    def check(self) -> None:
        """Raises where it must not go on."""
        if self.over:
            raise Abandoned
        now = time.perf_counter()
        if now < self.look_at:
            return
        if self.on_loop:
            raise _TooLong
        self.look_at = now + _LOOK_S
        if self.allowance is not None and self.allowance.over(time.thread_time() - self.began):
            raise _AllowanceSpent


async def run_in_thread_if_large(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` returns, run in a thread where `size` (characters, or bytes) is `LARGE`, or where it turns out to take long.

    It must not touch what belongs to the loop, and must not mind being begun twice. Raises `OverBudget` where the exchange's processor
    time is used up.
    """
    allowance = ALLOWANCE.get()
    if size < LARGE:
        before, now = _here.work, time.perf_counter()
        _here.work = piece = _Work(allowance, True, now + SLICE_S, now)
        if allowance is not None and now - _here.asked_at > SLICE_S:
            _here.ask(now)
        done = False
        try:
            made = work(*args, **kwargs)
            done = True
        except _TooLong:
            pass
        finally:
            _here.work = before
            took = (now := time.perf_counter()) - piece.began
            _here.held_s += took
            if allowance is not None:
                # Nobody pays for a process that stood still: of what is long, at most what the thread has taken since it was asked.
                allowance.spend(took if took < _SHORT_S else min(took, _here.ask(now)))
        if _here.held_s > SLICE_S:  # one short piece after the other, of one exchange or of several: others have waited as long
            _here.held_s = 0.0
            await asyncio.sleep(0)
        if done:
            return made
    piece = _Work(allowance, on_loop=False)
    try:
        return await asyncio.to_thread(piece.run, partial(work, *args, **kwargs))
    except _AllowanceSpent:
        raise OverBudget from None
    finally:
        piece.over = True


def check() -> None:
    """In work of `run_in_thread_if_large`: raises where its caller has gone, or its time is over. Anywhere else nothing; 50 ns."""
    if (work := _here.work) is not None:
        work.check()


def leave_loop() -> None:
    """Before something that takes long in one piece, in work of `run_in_thread_if_large`: on the event loop it begins again in a thread."""
    if (work := _here.work) is not None and work.on_loop:
        raise _TooLong


@contextmanager
def uncounted() -> Iterator[None]:
    """What is done once a process, within somebody's work (a pattern is compiled), is taken from nobody's allowance."""
    began = time.thread_time()
    try:
        yield
    finally:
        if (work := _here.work) is not None:
            took = time.thread_time() - began
            work.began += took
            _here.cpu_s += took


def each(items: Iterable[T]) -> Iterator[T]:
    """`items`, with a `check` before each."""
    if (work := _here.work) is None:
        yield from items
        return
    for item in items:
        if work.over or time.perf_counter() >= work.look_at:
            work.check()
        yield item


class Breather:
    """Lets others have the event loop once a slice is used up."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def yield_if_due(self) -> None:
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


# ---- a worker process: its garbage collector, its threads, the C library's memory, open files ----

_OTHER_FILES = 1024
"""Of the store, of models, of everything that is no client's connection."""
_M_ARENA_MAX = -8
"""`mallopt(3)`"""


def share_memory() -> None:
    """Have threads that compute take their memory from one place, not each from its own that keeps what it had: 25 MB (glibc).

    To be called before they are started.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def open_sockets(connections: int) -> None:
    """Raise the limit of open files as far as so many `connections` and those to upstreams take, where the system lets it be raised."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        needed = 2 * connections + _OTHER_FILES
        wanted = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def drain_on_hangup() -> None:
    """Have SIGHUP to a worker, or to the one process that serves, do what SIGTERM does: end when running answers have left.

    The supervisor of several workers has its own use of the signal. Where it is ignored, as under ``nohup``, it stays so.
    """
    if not hasattr(signal, "SIGHUP") or threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: signal.raise_signal(signal.SIGTERM))


def linger_on_term(seconds: float, leaving: Callable[[], None]) -> None:
    """Have the first SIGTERM call `leaving`, and do what it did before only `seconds` later; the second one does it at once."""
    before = signal.getsignal(signal.SIGTERM)
    if not seconds or not callable(before) or threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()

    def linger(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, before)
        leaving()
        loop.call_soon_threadsafe(loop.call_later, seconds, signal.raise_signal, signal.SIGTERM)

    signal.signal(signal.SIGTERM, linger)


def call_before_stop(call: Callable[[signal.Signals], None]) -> None:
    """Call `call` with the signal on the running loop when one comes that ends the process, before whoever handles it now; nothing where
    nobody does.

    uvicorn waits for open responses before it ends the application's lifespan; the only sign that it gives before is the signal itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)
        before = signal.getsignal(number) if number is not None else None
        if number is not None and callable(before) and before is not signal.default_int_handler:
            signal.signal(number, _wrap(loop, call, before))


def _wrap(
    loop: asyncio.AbstractEventLoop, call: Callable[[signal.Signals], None], before: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call, signal.Signals(number))
        before(number, frame)

    return handle


@contextmanager
def collector_paused() -> Iterator[None]:
    """For imports: what they make lives as long as the process, and the garbage collector would look through it ten times."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@functools.cache
def calm_collector() -> None:
    """Make the garbage collector look less often, and never at what lives as long as the process.

    An exchange makes some hundred objects and no cycles, and CPython's defaults look through them again and again. To see what that costs,
    run ``python -m benchmarks.overhead --quick`` with and without the call. Of several servers in one process, as
    in tests, only the first is taken for what lives as long: the models of the others must go when they stop.

    Young objects are looked through in small lots: a body of 4 MB of small parts makes a million of them, and everybody stood still for
    70 to 180 ms where 20 lots of 50,000 were looked through at once, for 14 to 76 ms where four of 20,000 were (``python -m
    benchmarks.stalls --watch FILE`` writes each such time down). Three of 5,000 stay in a core's cache.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 2, 4_000)


async def collect_garbage(is_busy: Callable[[], bool], every_s: float = COLLECT_EVERY_S) -> None:
    """Look through all objects every `every_s` seconds, up to ten times later while `is_busy`; ends when it is cancelled.

    Closed connections and SQLAlchemy's statements leave cycles. An exchange frees what it makes, so the number of new objects, by which the
    collector begins by itself, hardly grows; and what has been looked at twice it would see again after 64 million more (`calm_collector`).
    """
    waited = 0
    while True:
        await asyncio.sleep(every_s)
        waited += 1
        if waited >= _BUSY_ROUNDS or not is_busy():
            gc.collect()
            waited = 0


def share_interpreter() -> None:
    """Let the event loop have the interpreter soon where worker threads compute: its every wake-up waits that long."""
    sys.setswitchinterval(SWITCH_S)


def one_thread_a_product() -> None:
    """Have numpy's products take the thread that asks for them alone: on two cores, one of 14 and 1,500 vectors took two threads 18 ms of
    waiting for each other, and one thread 0.9. Who sets OPENBLAS_NUM_THREADS has what they set.
    """
    if "numpy" not in sys.modules:  # the library reads it once, and reserves memory for each thread
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    elif "OPENBLAS_NUM_THREADS" not in os.environ:
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1, user_api="blas")
