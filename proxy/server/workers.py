"""Several worker processes: forked from one that has read what is the same in all of them, and so held once (Linux).

The parent imports the program, reads the tokens' vocabulary and compiles the stages' patterns. Threads, event loops, connections and the
sessions of models do not survive a fork, so it has none. Each process that it starts, also a later one in the place of one that died, is
forked only while the parent has a single thread; otherwise, on other systems, and beside stages of an operator's own, whose modules may
hold anything, it is spawned, as uvicorn does it, and reads everything itself.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess

import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors import multiprocess

from proxy.offloop import give_back_memory

Preload = Callable[[], None]
"""Reads what workers have in common; leaves no thread behind."""


def serve_workers(config: uvicorn.Config, bound: socket.socket, preload: Preload | None, started: Callable[[], None]) -> None:
    """Run `config.workers` of them until told to stop; `started` is called once all are. They are spawned without `preload`."""
    if preload is not None and sys.platform == "linux":
        preload()
        gc.collect()
        give_back_memory()
        gc.freeze()  # the collector writes to what it looks at, which would unshare it
        multiprocess.get_subprocess = _process  # type: ignore[attr-defined, assignment]  # the one place where the supervisor makes them
    _Supervisor(config, bound, started).run()


class _Supervisor(multiprocess.Multiprocess):
    """uvicorn's, which says when its processes are started."""

    def __init__(self, config: uvicorn.Config, bound: socket.socket, started: Callable[[], None]) -> None:
        super().__init__(config, [bound])
        self._started = started

    def init_processes(self) -> None:
        """Start them, then say so."""
        super().init_processes()
        self._started()

    def terminate_all(self) -> None:
        """End them. New connections are refused from then on: this process's socket would let them wait for the last stream's end."""
        for bound in self.sockets:
            bound.close()
        super().terminate_all()


def _process(config: uvicorn.Config, target: Callable[..., None], sockets: list[socket.socket]) -> BaseProcess:
    """A worker that is not started yet; takes the place of `uvicorn._subprocess.get_subprocess`."""
    if not _has_one_thread():
        return _subprocess.get_subprocess(config, target, sockets)
    return _Forked(target=_work, args=(config, target, sockets))


def _has_one_thread() -> bool:
    with suppress(OSError):
        return len(os.listdir("/proc/self/task")) == 1
    return False


class _Forked(ForkProcess):
    """A signal that comes before the child has handlers of its own waits until it has."""

    def start(self) -> None:
        """As the base class's."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, multiprocess.SIGNALS)
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(config: uvicorn.Config, target: Callable[..., None], sockets: list[socket.socket]) -> None:
    """The child's life: without the supervisor's handlers, and from there on as in a spawned one."""
    for number in multiprocess.SIGNALS:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, multiprocess.SIGNALS)
    _subprocess.subprocess_started(config, target, sockets, stdin_fileno=None)
