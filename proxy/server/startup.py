"""Starting the server: effective settings, what can be known beforehand, uvicorn, and its worker processes.

Several workers are forked from one process that has read what is the same in all of them, and so held once (Linux): the program, the
tokens' vocabulary, the stages' compiled patterns. Threads, event loops, connections and the sessions of models do not survive a fork, so
the parent has none. A process, also a later one in the place of one that died, is forked only while the parent has a single thread;
otherwise, on other systems, and beside stages of an operator's own, whose modules may hold anything, it is spawned, as uvicorn does it,
and reads everything itself.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess

import msgspec
import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors import multiprocess

from proxy.config.conversion import checked
from proxy.config.settings import ServerSettings, Settings, spends
from proxy.errors import ConfigError
from proxy.offloop import give_back_memory
from proxy.policy.loading import load_policies
from proxy.server.preflight import Reach, check_models, check_port, key_notes, store_note
from proxy.server.start_page import StartPage, log_page, start_page
from proxy.stages.registry import STAGES
from proxy.wire.http.peers import is_loopback

HTTP = "proxy.wire.http.bounds:BoundedProtocol"
"""With the WebSocket protocol that it imports when a client wants one."""
_WAIT_S = 1.0
"""For upstreams that have not answered when the server is up."""


def effective_server(server: ServerSettings, host: str | None, port: int | None, workers: int | None) -> ServerSettings:
    """``server:`` with the command line's wishes. Raises `ConfigError` for one that cannot be."""
    wishes = {name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None}
    try:
        return checked({**msgspec.structs.asdict(server), **wishes}, ServerSettings, "")
    except ConfigError as error:
        raise ConfigError("command line", f"--{error.path}", error.problem) from error


Preload = Callable[[], None]
"""Reads what workers have in common; leaves no thread behind."""
Announce = Callable[[StartPage], None]
"""Shows what is served, once it is."""


def run(
    settings: Settings,
    server: ServerSettings,
    source: str = "config.yaml",
    announce: Announce | None = None,
    preload: Preload | None = None,
) -> int:
    """Run the server until it is told to stop; returns the exit status. `source` is the file that the settings come from, `preload` what
    reads beforehand what several workers share.

    Raises `ConfigError` for what can never work, before anything is opened, written or migrated.
    """
    check_exposure(settings, server, source)
    policies = load_policies(settings, source=source)  # refuse a wrong policy here, in one line, not in every worker
    check_models(settings)
    check_port(server)
    start = Starting(settings, server, source, announce or log_page)
    config = uvicorn.Config(
        "proxy.app:from_environment",
        factory=True,
        host=server.host,
        port=server.port,
        workers=server.workers,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="on",
        ws="none",
        ws_max_size=server.max_body_bytes,
        ws_per_message_deflate=False,
        proxy_headers=False,
        timeout_graceful_shutdown=math.ceil(server.drain_s),
        http=HTTP,
    )
    if server.workers > 1:
        foreign = any(stage not in STAGES for found in policies.values() for stage in found.stages)
        return _run_workers(config, start, None if foreign else preload)
    start.look_around()
    one = GroundwireServer(config, start)
    one.run()
    return 0 if one.started else 2


def check_exposure(settings: Settings, server: ServerSettings, source: str = "config.yaml") -> None:
    """Raises `ConfigError` where anyone on the network could spend the operator's provider keys."""
    if is_loopback(server.host) or settings.keyed or server.allow_anonymous:
        return
    paid = sorted({route.upstream for route in settings.routes if spends(settings, route.upstream)})
    if paid:
        raise ConfigError(
            source,
            "server.host",
            f"{server.host} is not loopback, and without client keys anyone who reaches it spends the key of {', '.join(paid)}: "
            "add keys: (groundwire new-key NAME makes one) or store: {keys: true}, or server: {allow_anonymous: true}",
        )


def _run_workers(config: uvicorn.Config, start: Starting, preload: Preload | None) -> int:
    bound = config.bind_socket()
    serve_workers(config, bound, preload, lambda: start.listens(bound.getsockname()[1]))
    return 0


class GroundwireServer(uvicorn.Server):
    """uvicorn's server, which says where it is once it listens, and whose orderly end is exit status 0."""

    def __init__(self, config: uvicorn.Config, start: Starting) -> None:
        super().__init__(config)
        self._start = start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets=sockets)
        if self.started:
            await asyncio.to_thread(self._start.listens, self.servers[0].sockets[0].getsockname()[1])

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT drain; unlike uvicorn's own, they are not raised again when all is done."""
        previous = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


class Starting:
    """What is known before the server starts, and who is told when it has."""

    def __init__(self, settings: Settings, server: ServerSettings, source: str, announce: Announce) -> None:
        self._settings, self._server, self._announce = settings, server, announce
        self._reach: Reach | None = None
        self._store = store_note(settings, source)
        self._keys = key_notes(settings, source)

    def look_around(self) -> None:
        """Begin to ask upstreams, in threads: not before workers are forked."""
        self._reach = self._reach or Reach(self._settings)

    def listens(self, port: int) -> None:
        """The server does, on `port`."""
        self.look_around()
        assert self._reach is not None
        unreachable = self._reach.notes(_WAIT_S)
        notes = {name: (*found,) for name in self._settings.upstreams if (found := list(_told(name, self._keys, unreachable)))}
        self._announce(start_page(self._settings, self._server, port, notes, self._store))


def _told(name: str, *of: Mapping[str, str]) -> Iterator[str]:
    return (notes[name] for notes in of if name in notes)


# ---- several workers ----


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
