"""Starting the server: effective settings, uvicorn, and what the log says once it is up."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import msgspec

from proxy.config import OpenAISettings, ServerSettings, Settings, UpstreamSettings
from proxy.policy import load_policies

log = logging.getLogger("groundwire")


def effective_server(server: ServerSettings, host: str | None, port: int | None, workers: int | None) -> ServerSettings:
    """``server:`` with the command line's wishes."""
    wishes = {name: value for name, value in (("host", host), ("port", port), ("workers", workers)) if value is not None}
    return msgspec.structs.replace(server, **wishes)


def announce(settings: Settings, server: ServerSettings, path: Path, uvicorn: Any) -> int:
    """Run the server until it is told to stop; returns the exit status."""
    load_policies(settings)  # refuse a wrong policy here, in one line, not in every worker
    for name, upstream in settings.upstreams.items():
        if isinstance(upstream, OpenAISettings) and not upstream.api_key and any(r.upstream == name for r in settings.routes):
            log.warning("upstream %s has no api_key: calls go out without one (set it, or api_key: forward for the client's own)", name)
    config = uvicorn.Config(
        "proxy.app:from_environment", factory=True, host=server.host, port=server.port, workers=server.workers,
        log_config=None, access_log=False, server_header=False, date_header=False, lifespan="on", ws="none", proxy_headers=False,
        timeout_graceful_shutdown=int(server.drain_s),
    )  # fmt: skip
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    if server.workers > 1:
        lines = welcome(settings, server, server.port)
        socket = config.bind_socket()
        for line in lines:
            log.info(line)
        uvicorn.supervisors.Multiprocess(config, target=uvicorn.Server(config).run, sockets=[socket]).run()
        return 0
    instance = _Announcing(uvicorn.Server(config), settings, server)
    return instance.run()


class _Announcing:
    """Logs the welcome once uvicorn listens."""

    def __init__(self, server: Any, settings: Settings, wishes: ServerSettings) -> None:
        self._server = server
        started = server.startup

        async def startup(sockets: Any = None) -> None:
            await started(sockets=sockets)
            if server.started:
                port = server.servers[0].sockets[0].getsockname()[1]
                for line in welcome(settings, wishes, port):
                    log.info(line)

        server.startup = startup

    def run(self) -> int:
        """Until it is told to stop."""
        self._server.run()
        return 0 if self._server.started else 2


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
            f"  {address}{route.prefix}/v1 -> {route.upstream} ({_kind(upstream)}), policy {policy.label}, delivery {policy.delivery}"
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
        return f"openai, {upstream.base_url}"
    return str(upstream.__struct_config__.tag)
