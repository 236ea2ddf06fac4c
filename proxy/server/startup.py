"""Starting the server: effective settings, uvicorn, and what the log says once it is up."""

from __future__ import annotations

import logging
import math
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvicorn

from proxy.config.settings import OpenAISettings, ServerSettings, Settings, UpstreamSettings, checked, spends
from proxy.errors import ConfigError
from proxy.policy.loading import load_policies
from proxy.wire.http.peers import is_loopback

log = logging.getLogger("groundwire")

HTTP = "proxy.wire.http.bounds:BoundedProtocol"


def effective_server(server: ServerSettings, host: str | None, port: int | None, workers: int | None) -> ServerSettings:
    """``server:`` with the command line's wishes. Raises `ConfigError` for one that cannot be."""
    wishes = {name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None}
    try:
        return checked({**msgspec.structs.asdict(server), **wishes}, ServerSettings, "")
    except ConfigError as error:
        raise ConfigError("command line", f"--{error.path}", error.problem) from error


def run(settings: Settings, server: ServerSettings) -> int:
    """Run the server until it is told to stop; returns the exit status."""
    check_exposure(settings, server)
    load_policies(settings)  # refuse a wrong policy here, in one line, not in every worker
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, OpenAISettings) and not upstream.api_key and any(r.upstream == name for r in settings.routes):
            log.warning("upstream %s has no api_key: calls go out without one (set it, or api_key: forward for the client's own)", name)
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
        return _run_workers(config, settings, server)
    one = GroundwireServer(config, settings, server)
    one.run()
    return 0 if one.started else 2


def check_exposure(settings: Settings, server: ServerSettings) -> None:
    """Raises `ConfigError` where anyone on the network could spend the operator's provider keys."""
    if is_loopback(server.host) or settings.keys or server.allow_anonymous:
        return
    paid = sorted({route.upstream for route in settings.routes if spends(settings, route.upstream)})
    if paid:
        raise ConfigError(
            "server.host",
            server.host,
            f"is not loopback, and without client keys anyone who reaches it spends the key of {', '.join(paid)}: "
            "add keys: (groundwire new-key NAME makes one), or server: {allow_anonymous: true}",
        )


def _run_workers(config: uvicorn.Config, settings: Settings, server: ServerSettings) -> int:
    bound = config.bind_socket()
    for line in welcome(settings, server, bound.getsockname()[1]):
        log.info(line)
    uvicorn.supervisors.Multiprocess(config, sockets=[bound]).run()
    return 0


class GroundwireServer(uvicorn.Server):
    """uvicorn's server, which says where it is once it listens, and whose orderly end is exit status 0."""

    def __init__(self, config: uvicorn.Config, settings: Settings, wishes: ServerSettings) -> None:
        super().__init__(config)
        self._settings, self._wishes = settings, wishes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets=sockets)
        if self.started:
            port = self.servers[0].sockets[0].getsockname()[1]
            for line in welcome(self._settings, self._wishes, port):
                log.info(line)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT drain; unlike uvicorn's own, they are not raised again when all is done."""
        previous = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)


def welcome(settings: Settings, server: ServerSettings, port: int) -> list[str]:
    """What the log says once the server is up: address, routes, dashboard, a line to paste."""
    host = "127.0.0.1" if server.host in ("0.0.0.0", "::", "") else server.host  # noqa: S104
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    policies = load_policies(settings)
    lines = [f"Groundwire is up at {address}"]
    for route in settings.routes:
        policy = policies[route.prefix].default
        upstream = settings.upstreams[route.upstream]
        lines.append(
            f"  {address}{route.prefix}/v1 -> {route.upstream} ({_kind(upstream)}), policy {policy.label}, "
            + (f"delivery {policy.delivery}" if policy.enforce and route.enforce else "shadow mode: it judges, and changes nothing")
        )
    first = settings.routes[-1]
    body = """'{"model": "MODEL", "messages": [{"role": "user", "content": "Which planet is the largest?"}]}'"""
    model = "smollm2" if _kind(settings.upstreams[first.upstream]).startswith("embedded") else "gpt-4o-mini"
    key = " -H 'authorization: Bearer KEY'" if settings.keys else ""
    lines.append(f"  dashboard: {address}/dashboard")
    url = f"{address}{first.prefix}/v1/chat/completions"
    lines.append(f"  try it: curl {url} -H 'content-type: application/json'{key} -d {body.replace('MODEL', model)}")
    return lines


def _kind(upstream: UpstreamSettings) -> str:
    if isinstance(upstream, OpenAISettings):
        return f"{upstream.__struct_config__.tag}, {upstream.base_url}"
    return str(upstream.__struct_config__.tag)
