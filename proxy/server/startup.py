"""Starting the server: effective settings, what can be known beforehand, and uvicorn."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import msgspec
import uvicorn

from proxy.config.conversion import checked
from proxy.config.settings import ServerSettings, Settings, spends
from proxy.errors import ConfigError
from proxy.policy.loading import load_policies
from proxy.server.preflight import Reach, check_models, check_port, key_notes, store_note
from proxy.server.start_page import StartPage, log_page, start_page
from proxy.server.workers import Preload, serve_workers
from proxy.stages.registry import STAGES
from proxy.wire.http.peers import is_loopback

HTTP = "proxy.wire.http.bounds:BoundedProtocol"
_WAIT_S = 1.0
"""For upstreams that have not answered when the server is up."""


def effective_server(server: ServerSettings, host: str | None, port: int | None, workers: int | None) -> ServerSettings:
    """``server:`` with the command line's wishes. Raises `ConfigError` for one that cannot be."""
    wishes = {name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None}
    try:
        return checked({**msgspec.structs.asdict(server), **wishes}, ServerSettings, "")
    except ConfigError as error:
        raise ConfigError("command line", f"--{error.path}", error.problem) from error


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
            "add keys: (groundwire new-key NAME makes one), or server: {allow_anonymous: true}",
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
