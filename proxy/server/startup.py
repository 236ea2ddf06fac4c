"""Starting the server: effective settings, what can be known beforehand, uvicorn, and its worker processes.

Several workers are forked from one process that has read what is the same in all of them, and so held once (Linux): the program, the
tokens' vocabulary, the stages' compiled patterns. Threads, event loops, connections and the sessions of models do not survive a fork, so
the parent has none. A process, also a later one in the place of one that died, is forked only while the parent has a single thread;
otherwise, on other systems, and beside stages of an operator's own, whose modules may hold anything, it is spawned, as uvicorn does it,
and reads everything itself.

What can never work (a port that is taken, a file that is not there) is a `ConfigError` before the server starts. What may come right
while it runs (a store that is locked, an upstream that does not answer, a key that is not set) is a note for the start page and the log.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import ipaddress
import logging
import math
import os
import re
import signal
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from multiprocessing.context import ForkProcess
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import uvicorn
from uvicorn import _subprocess
from uvicorn.supervisors import multiprocess

from proxy.config.conversion import checked, read_yaml
from proxy.config.settings import (
    EmbeddedSettings,
    LiteLLMSettings,
    LocalSettings,
    OpenAISettings,
    ServerSettings,
    Settings,
    load_settings,
    spends,
)
from proxy.errors import ConfigError
from proxy.offloop import give_back_memory
from proxy.policy.loading import RoutePolicies, load_policies
from proxy.server.start_page import StartPage, log_page, start_page
from proxy.stages.registry import STAGES
from proxy.store.drivers import file_path, store_url
from proxy.upstreams.gguf import find_model
from proxy.wire.http.peers import is_loopback

log = logging.getLogger("groundwire")

_CONNECT_S = 2.0
_LOCKED_S = 1.0
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


def check_port(server: ServerSettings) -> None:
    """Raises `ConfigError` where the address cannot be listened on."""
    if not server.port:
        return
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as probe:
        if os.name != "nt":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError as error:
            raise ConfigError(f"{server.host}:{server.port}", "", _why_not_bound(error, server)) from error


def _why_not_bound(error: OSError, server: ServerSettings) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {server.port} is in use by another program: stop that, or take another with --port {server.port + 1}"
    if error.errno == errno.EACCES:
        return f"this user may not listen on port {server.port}: take one above 1023 with --port"
    return f"cannot be listened on ({error.strerror}): server.host is one of this machine's addresses, or 0.0.0.0 for all"


def check_models(settings: Settings) -> None:
    """Raises `ConfigError` for a file of a local model that is not there."""
    for upstream in settings.upstreams.values():
        if isinstance(upstream, EmbeddedSettings):
            find_model(upstream.model_path)


def store_note(settings: Settings, source: str) -> str:
    """Why the store cannot be written now; "" where it can, and for a database on another machine, which is seen when it is opened."""
    try:
        return check_store(settings, source)
    except ConfigError as error:
        return f"store: {error.problem}"


def check_store(settings: Settings, source: str) -> str:
    """Why a store that is well has to wait now, or "". Makes nothing. Raises `ConfigError` for a file that cannot be one, or cannot be
    written.
    """
    path = file_path(url) if (url := store_url(settings.store.url, source)).drivername.startswith("sqlite") else None
    if path is None:
        return ""
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        problem = f"the folder {folder} does not exist, so nothing is recorded: make it, or set store.url"
        raise ConfigError(source, "store.url", problem)
    if not os.access(path if Path(path).exists() else folder, os.W_OK):
        raise ConfigError(source, "store.url", f"{path} is not writable, so nothing is recorded: change its permissions, or set store.url")
    if not Path(path).exists():
        return ""
    try:
        with closing(sqlite3.connect(path, timeout=_LOCKED_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        if "locked" in str(error):
            return f"store: {path} is locked by another program; records wait until it lets go: end it, or set another store.url"
        problem = f"{path} is no database that can be used ({error}), so nothing is recorded: move it away, or set store.url"
        raise ConfigError(source, "store.url", problem) from error
    return ""


def key_notes(settings: Settings, source: str) -> dict[str, str]:
    """By upstream that a route leads to: which key it is without, where it needs one."""
    try:
        raw = read_yaml(source)
    except ConfigError:  # a file that has changed meanwhile: the notes lack the variable's name
        raw = {}
    found = {}
    for name in dict.fromkeys(route.upstream for route in settings.routes):
        upstream = settings.upstreams[name]
        if isinstance(upstream, LocalSettings) or upstream.api_key or not _wants_key(upstream):
            continue
        variable = _REFERENCE.search(str(_at(raw, "upstreams", name, "api_key")))
        found[name] = f"no key: set {variable[1]}" if variable else "no key: set api_key, or api_key: forward for the client's own"
    return found


def _wants_key(upstream: OpenAISettings | LiteLLMSettings) -> bool:
    """Whether calls without a key are likely to be refused: a server on this machine or network rarely asks for one."""
    if isinstance(upstream, OpenAISettings):
        return not upstream.headers and not _is_private(urlsplit(upstream.base_url).hostname or "")
    return bool(upstream.model_prefix) and not upstream.params and not upstream.base_url


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host == "localhost" or "." not in host or host.endswith((".local", ".internal", ".lan"))


def _at(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if value is not None else ""


class Reach:
    """Whether upstreams answer on their ports, asked in the background so that no start waits for a network."""

    def __init__(self, settings: Settings, connect: Callable[..., Any] = socket.create_connection) -> None:
        """Begins to ask."""
        self._connect = connect
        self._notes: dict[str, str] = {}
        used = {name: settings.upstreams[name] for name in dict.fromkeys(route.upstream for route in settings.routes)}
        addresses = {name: found.base_url for name, found in used.items() if not isinstance(found, LocalSettings) and found.base_url}
        self._asking = [threading.Thread(target=self._ask, args=pair, daemon=True) for pair in addresses.items()]
        for thread in self._asking:
            thread.start()

    def _ask(self, name: str, base_url: str) -> None:
        parts = urlsplit(base_url)
        where = parts.netloc.rpartition("@")[2]
        try:
            address = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            self._connect(address, timeout=_CONNECT_S).close()
        except TimeoutError:
            self._notes[name] = f"no answer from {where}: check base_url and the network"
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            self._notes[name] = f"cannot be reached ({where}: {reason.lower()}): check base_url"

    def notes(self, wait_s: float) -> dict[str, str]:
        """By upstream, what is wrong; waits for at most `wait_s` for those that have not answered yet."""
        until = time.monotonic() + wait_s
        for thread in self._asking:
            thread.join(max(0.0, until - time.monotonic()))
        return dict(self._notes)


HTTP = "proxy.wire.http.bounds:BoundedProtocol"
"""With the WebSocket protocol that it imports when a client wants one."""
_WAIT_S = 1.0
"""For upstreams that have not answered when the server is up."""
_IDLE_S = 75
"""After which a client's connection without a request is closed: later than balancers close theirs (60 s), or they send on a closed one."""


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
    policies = _checked_policies(settings, server, source)  # refuse a wrong one here, in one line, not in every worker
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
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=math.ceil(server.drain_s),
        http=HTTP,
    )
    if server.workers > 1:

        def read_again() -> Policies:
            return _checked_policies(load_settings(Path(source)), server, source)

        return _run_workers(config, start, None if _has_foreign(policies) else preload, read_again)
    start.look_around()
    one = GroundwireServer(config, start)
    one.run()
    return 0 if one.started else 2


Policies = Mapping[str, RoutePolicies]
"""By the prefix of their route."""


def _checked_policies(settings: Settings, server: ServerSettings, source: str) -> Policies:
    """Raises `ConfigError` for what no worker could start with."""
    check_exposure(settings, server, source)
    policies = load_policies(settings, source=source)
    check_models(settings)
    return policies


def _has_foreign(policies: Policies) -> bool:
    """Whether a stage of an operator's own is among them."""
    return any(stage not in STAGES for found in policies.values() for stage in found.stages)


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


def _run_workers(config: uvicorn.Config, start: Starting, preload: Preload | None, read_again: Callable[[], Policies]) -> int:
    bound = config.bind_socket()
    serve_workers(config, bound, preload, lambda: start.listens(bound.getsockname()[1]), read_again)
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
        notes = {name: (*found,) for name in self._settings.upstreams if (found := list(_notes_named(name, self._keys, unreachable)))}
        self._announce(start_page(self._settings, self._server, port, notes, self._store))


def _notes_named(name: str, *of: Mapping[str, str]) -> Iterator[str]:
    return (notes[name] for notes in of if name in notes)


# ---- several workers ----


def serve_workers(
    config: uvicorn.Config, bound: socket.socket, preload: Preload | None, started: Callable[[], None], read_again: Callable[[], Policies]
) -> None:
    """Run `config.workers` of them until told to stop; `started` is called once all are. They are spawned without `preload`. Before they
    are replaced `read_again` reads what the new ones would, and raises `ConfigError` where they could not start.
    """
    if preload is not None and sys.platform == "linux":
        preload()
        gc.collect()
        give_back_memory()
        gc.freeze()  # the collector writes to what it looks at, which would unshare it
        multiprocess.get_subprocess = _process  # type: ignore[attr-defined, assignment]  # the one place where the supervisor makes them
    _Supervisor(config, bound, started, read_again).run()


class _Supervisor(multiprocess.Multiprocess):
    """uvicorn's, which says when its processes are started, and why they end."""

    def __init__(
        self, config: uvicorn.Config, bound: socket.socket, started: Callable[[], None], read_again: Callable[[], Policies]
    ) -> None:
        super().__init__(config, [bound])
        self._started, self._read_again = started, read_again

    def init_processes(self) -> None:
        """Start them, then say so."""
        super().init_processes()
        self._started()

    def handle_hup(self) -> None:
        """Replace the workers, where new ones can start."""
        try:
            policies = self._read_again()
        except ConfigError as error:
            log.error("SIGHUP: nothing is replaced, and %d workers go on as they are: %s", len(self.processes), error.summary())
            return
        if _has_foreign(policies):  # whose modules this process has imported now
            multiprocess.get_subprocess = _subprocess.get_subprocess  # type: ignore[attr-defined]
        log.info("SIGHUP: %d workers are replaced, one after another", len(self.processes))
        super().handle_hup()

    def handle_term(self) -> None:
        """End them."""
        log.info("SIGTERM: %d workers end", len(self.processes))
        super().handle_term()

    def handle_int(self) -> None:
        """End them."""
        log.info("SIGINT: %d workers end", len(self.processes))
        super().handle_int()

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
