"""What is compared: each system is a server in front of the same stub, or a reason why it is missing."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from benchmarks.load import bodies, stub
from benchmarks.load.generator import Expected, closed_loop, request_bytes
from benchmarks.load.processes import Server, StartFailed, free_port

PATH = "/v1/chat/completions"
REPOSITORY = Path(__file__).resolve().parents[2]
_WARM_UP_S = 0.5  # a server with a just-in-time compiler needs it
EMPTY_POLICY = "name: empty\ndelivery: tap\nstages: []\n"


class Missing(Exception):
    """A system that can't be compared here; the message says why and what would help."""


@dataclass(slots=True)
class System:
    """A server to measure. `server` is None for the stub itself (direct)."""

    name: str
    port: int
    server: Server | None = None
    peer: bool = False
    """Another project's gateway: measured with plain requests, not with streams."""
    key: str = "sk-benchmark"
    headers: Mapping[str, str] = field(default_factory=dict)
    ready_s: float = 0.0

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Only the server that is measured may run: others' background work would be measured with it."""
        if self.server:
            self.server.resume()
        try:
            yield
        finally:
            if self.server:
                self.server.pause()

    def expected(self) -> Expected:
        return Expected(len(stub.COMPLETION), b"The stub upstream answers every question", exact=not self.peer)

    def request(self, body: bytes) -> bytes:
        return request_bytes(PATH, body, self.key, self.headers)


@dataclass(slots=True, frozen=True)
class Place:
    """Where systems are started: temporary folder, core, upstream, and the stack that ends them."""

    folder: Path
    core: int
    upstream_port: int
    stack: ExitStack

    def launch(
        self,
        name: str,
        command: list[str],
        port: int,
        ready: str | None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
    ) -> tuple[Server, float]:
        """Start a server and wait for it; it ends with the stack. Raises `StartFailed`."""
        server = Server(name, command, port, self.folder / f"{name.replace(' ', '-')}.log", self.core, env)
        self.stack.callback(server.stop)
        return server, server.wait_ready(ready, timeout_s)


def check(system: System) -> System:
    """Some requests of each size before anything is measured, then the server sleeps. Raises `BadAnswer`."""
    with system.awake():
        for body, concurrency, seconds in ((bodies.large(), 1, 0.05), (bodies.small(), 16, _WARM_UP_S)):
            closed_loop(system.port, system.request(body), system.expected(), concurrency, seconds)
    return system


def start_stub(folder: Path, core: int, stack: ExitStack, *options: str) -> Server:
    """The upstream that every system of a run asks, until `stack` ends. Raises `StartFailed`."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.load.stub", "--port", str(port), *options]
    found = Server("stub", command, port, folder / "stub.log", core, {"PYTHONPATH": str(REPOSITORY)})
    stack.callback(found.stop)
    found.wait_ready(None)
    return found


def direct(place: Place) -> System:
    return System("direct", place.upstream_port)


def floor(place: Place) -> System:
    port = free_port()
    script = str(REPOSITORY / "benchmarks" / "floor.py")
    command = [sys.executable, script, "--port", str(port), "--upstream", f"http://127.0.0.1:{place.upstream_port}"]
    server, ready_s = place.launch("floor", command, port, None)
    return System("floor", port, server, ready_s=ready_s)


def nginx(place: Place) -> System:
    binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if not binary:
        raise Missing("nginx is not installed (Debian: apt-get install nginx-light)")
    port = free_port()
    folder = place.folder / "nginx"
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(_nginx_config(folder, port, place.upstream_port))
    server, ready_s = place.launch("nginx", [binary, "-c", str(config), "-e", str(folder / "error.log")], port, None)
    return System("nginx", port, server, ready_s=ready_s)


def _nginx_config(folder: Path, port: int, upstream_port: int) -> str:
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "\n".join(f"  {kind}_temp_path {folder}/{kind};" for kind in kinds)
    return f"""{"user root;" if os.geteuid() == 0 else ""}
worker_processes 1; daemon off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
{temporary}
  access_log off; keepalive_requests 1000000000; client_max_body_size 50m; client_body_buffer_size 1m;
  upstream stub {{ server 127.0.0.1:{upstream_port}; keepalive 256; keepalive_requests 1000000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://stub; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }}
  }}
}}
"""


def groundwire(place: Place, name: str, policy: Path, module: str = "proxy") -> System:
    """Groundwire with records on (SQLite in the temporary folder) and one policy; `module` is what Python runs."""
    if not (REPOSITORY / "proxy" / "__main__.py").exists():
        raise Missing("proxy/__main__.py is not there yet")
    if not policy.exists():
        raise Missing(f"{policy} is not there")
    server, ready_s = start_groundwire(place, name, policy, module)
    return System(name, server.port, server, ready_s=ready_s)


def start_groundwire(place: Place, name: str, policy: Path, module: str = "proxy") -> tuple[Server, float]:
    """Start it and wait for ``/ready``; returns the server and the seconds that took. Raises `StartFailed`."""
    port = free_port()
    base = f"{name.replace(' ', '-')}-{port}"
    config = place.folder / f"{base}.yaml"
    settings = {
        "server": {"host": "127.0.0.1", "port": port},
        "store": {"url": f"sqlite+aiosqlite:///{place.folder / base}.db"},
        "upstreams": {"stub": {"kind": "openai", "base_url": f"http://127.0.0.1:{place.upstream_port}/v1", "api_key": "forward"}},
        "routes": [{"prefix": "", "upstream": "stub", "policy": str(policy)}],
    }
    config.write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", module, "serve", "--config", str(config), "--port", str(port)]
    env = {"PYTHONPATH": str(REPOSITORY)}
    try:
        return place.launch(name, command, port, "/ready", env)
    except StartFailed as error:
        raise Missing(str(error)) from error


def empty_policy(folder: Path) -> Path:
    file = folder / "empty.yaml"
    file.write_text(EMPTY_POLICY)
    return file
