"""How a worker process is set: its garbage collector, how soon threads give way, the C library's memory, and threads of products."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from proxy.offloop import SWITCH_S

_M_ARENA_MAX = -8
"""`mallopt(3)`"""


def share_memory() -> None:
    """Have threads that compute take their memory from one place, not each from its own that keeps what it had: 25 MB (glibc).

    To be called before they are started.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


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
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


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
