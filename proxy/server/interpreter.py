"""How a worker process is set: its garbage collector, how soon threads give way, the C library's memory, and threads of products."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from proxy.offloop import SWITCH_S

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
    70 to 180 ms where 20 lots of 50,000 were looked through at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 3, 800)


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
