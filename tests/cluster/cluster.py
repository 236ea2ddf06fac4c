"""A whole cluster on this machine: PostgreSQL, PgBouncer, Valkey, two nodes of two workers, HAProxy, each as `deploy/` has it.

Between PgBouncer and PostgreSQL, and between each node and PgBouncer, stands a `Link`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.cluster import deployment, engines
from tests.cluster.services import Link, Postgres, Service
from tests.docs_blocks import blocks
from tests.processes import free_port

NODES = ("groundwire-a", "groundwire-b")
KEY, ADMIN_KEY = "gw-app-key", "gw-operator-key"
_PASSWORD = "a1b2c3"
"""Of a database that lives as long as its test."""
GUIDE = "several-machines.md"
_LOG_LINE = re.compile(r" nodes/(\S+) \S+ (\d+|-1) .*?\{(gw_\w+)\}")
_CONNECTIONS = 24
"""Of which none goes to one of a node's two workers once in 8 million times. `all_up` asks again every 50 ms: with ten connections, one look
in 500 missed a worker that was without its store, and so did about one wait of 7 s in twelve.
"""


@dataclass
class Cluster:
    """The running one."""

    folder: Path
    postgres: Postgres
    database_link: Link
    bouncer: Service
    valkey: Service
    store_links: dict[str, Link] = field(default_factory=dict)
    nodes: dict[str, Service] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    balancer: Service | None = None
    url: str = ""
    """Of the balancer."""

    def node_url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    def workers(self, name: str) -> list[int]:
        """A node's processes but its first, their parent."""
        return self.nodes[name].processes[1:]

    async def ready(self, name: str, query: str = "?store=1") -> bool:
        """Whether a node answers, and its store does; without the `query` only the first."""
        timeout = aiohttp.ClientTimeout(total=5)
        async with aiohttp.ClientSession() as session, session.get(f"{self.node_url(name)}/ready{query}", timeout=timeout) as answer:
            return answer.status == 200

    async def whole(self, name: str) -> bool:
        """Whether each of a node's workers has its store again: each connection is some worker's."""
        for _ in range(_CONNECTIONS):
            if not await self.ready(name):
                return False
        return True

    async def all_up(self) -> None:
        """Return when every worker of every node is, by its own word and the balancer's."""
        for name in NODES:
            await self.nodes[name].up(lambda name=name: self.whole(name))  # type: ignore[misc]
        assert self.balancer is not None
        await self.balancer.up(self._all_balanced)

    async def _all_balanced(self) -> bool:
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.ports['figures']}/metrics") as answer:
            text = await answer.text()
        up = re.findall(r'haproxy_server_status\{proxy="nodes",server="([^"]+)",state="UP"\} 1', text)
        return set(NODES) <= set(up)

    def answered_by(self) -> dict[str, str]:
        """The node of each exchange, by its record's id, from the balancer's log."""
        assert self.balancer is not None
        return {found[3]: found[1].removesuffix("-slow") for found in _LOG_LINE.finditer(self.balancer.log.read_text(errors="replace"))}


def roles_and_database() -> list[str]:
    """The statements of the guide that make them, with this cluster's password."""
    (text,) = [block.text for block in blocks("sql") if block.page.name == GUIDE and "CREATE ROLE" in block.text]
    return [statement.strip() for statement in deployment.moved(text, {"'change-me'": f"'{_PASSWORD}'"}).split(";") if statement.strip()]


@asynccontextmanager
async def cluster(
    folder: Path, upstream: str, *, settings: str = "", more: Mapping[str, str] | None = None, max_connections: int = 40
) -> AsyncIterator[Cluster]:
    """The cluster, up, calling `upstream`; `settings` stand behind deploy/config.yaml, `more` in the nodes' environment.

    Raises `engines.NoEngine` or `postgres.NoServer` where a server cannot be had.
    """
    haproxy, pgbouncer, valkey = engines.engine("haproxy"), engines.engine("pgbouncer"), engines.valkey()
    folder.chmod(0o755)
    async with AsyncExitStack() as stack:
        options = deployment.command("postgres")[1:]
        options[options.index("max_connections=100")] = f"max_connections={max_connections}"
        database = Postgres(folder, options)
        stack.push_async_callback(asyncio.to_thread, database.end)
        await database.started()
        for statement in roles_and_database():
            await database.run(statement, database="postgres")
        link = await stack.enter_async_context(Link(database.port))
        found = Cluster(folder, database, link, *_stores(folder, link.port, database, pgbouncer, valkey))
        for service in (found.bouncer, found.valkey):
            stack.push_async_callback(asyncio.to_thread, service.end)
            service.start()
        keeping = asyncio.create_task(found.bouncer.keep())  # PgBouncer 1.18 ends itself where a server's connection breaks under a cancel
        stack.callback(keeping.cancel)
        bouncer_port = int(found.bouncer.environment["PORT"])
        for name in NODES:
            found.store_links[name] = await stack.enter_async_context(Link(bouncer_port))
            found.ports[name] = free_port()
            found.nodes[name] = _node(name, found, upstream, settings, more or {})
            stack.push_async_callback(asyncio.to_thread, found.nodes[name].end)
        _balancer(found, haproxy)
        assert found.balancer is not None
        stack.push_async_callback(asyncio.to_thread, found.balancer.end)
        for service in (*found.nodes.values(), found.balancer):
            service.start()
        await found.all_up()
        yield found


def _stores(folder: Path, port: int, database: Postgres, pgbouncer: engines.Engine, valkey: engines.Engine) -> tuple[Service, Service]:
    """PgBouncer in front of `port`, and Valkey."""
    own, bouncer_port = database.root / "bouncer", free_port()
    own.mkdir()
    pgbouncer = pgbouncer.copied(own)
    (own / "userlist.txt").write_text(f'"groundwire" "{_PASSWORD}"\n')
    text = (deployment.DEPLOY / "pgbouncer.ini").read_text("utf-8")
    places = {
        "host=postgres port=5432": f"host=127.0.0.1 port={port}",
        "listen_addr = *": "listen_addr = 127.0.0.1",
        "listen_port = 6432": f"listen_port = {bouncer_port}",
        "/etc/pgbouncer/": f"{own}/",
    }
    (own / "pgbouncer.ini").write_text(deployment.moved(text, places))
    command = [piece.replace("/etc/pgbouncer/", f"{own}/") for piece in deployment.command("pgbouncer")]
    environment = {**pgbouncer.environment, "PORT": str(bouncer_port)}
    bouncer = Service("pgbouncer", [str(pgbouncer.path), *command[1:]], folder / "pgbouncer.log", environment, cwd=own, **database.as_user)
    counter_port, data = free_port(), folder / "valkey"
    data.mkdir()
    command = [str(data) if piece == "/data" else piece for piece in deployment.command("valkey")]
    command = [str(valkey.path), *command[1:], "--bind", "127.0.0.1", "--port", str(counter_port)]
    return bouncer, Service("valkey", command, folder / "valkey.log", {**valkey.environment, "PORT": str(counter_port)})


def _node(name: str, found: Cluster, upstream: str, settings: str, more: Mapping[str, str]) -> Service:
    """A node, by the image's command, with its configuration in a folder of its own."""
    place, port = found.folder / name, found.ports[name]
    place.mkdir()
    config = deployment.moved((deployment.DEPLOY / "config.yaml").read_text("utf-8"), {"port: 4000": f"port: {port}"})
    (place / "config.yaml").write_text(config + settings, "utf-8")
    (place / "policies").symlink_to(deployment.ROOT / "policies")
    values = {
        "POSTGRES_PASSWORD": _PASSWORD,
        "GROUNDWIRE_ADMIN_KEY": ADMIN_KEY,
        "GROUNDWIRE_APP_SHA256": hashlib.sha256(KEY.encode()).hexdigest(),
        "OPENAI_BASE_URL": upstream,
        "OPENAI_API_KEY": "sk-upstream",
    }
    places = {
        "@pgbouncer:6432": f"@127.0.0.1:{found.store_links[name].port}",
        "10.71.0.10": "127.0.0.1",
        "valkey:6379": f"127.0.0.1:{found.valkey.environment['PORT']}",
    }
    environment = deployment.environment(name, values)
    for old, new in places.items():
        environment = {key: value.replace(old, new) for key, value in environment.items()}
    clean = {
        key: value for key, value in os.environ.items() if not key.startswith(("GROUNDWIRE_", "PROMETHEUS_")) or key == "GROUNDWIRE_CACHE"
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = deployment.command(name)
    assert command[:2] == ["sh", "-c"], command
    script = deployment.moved(command[2], {"/config/": f"{shlex.quote(str(place))}/", "0.0.0.0": "127.0.0.1"})
    return Service(name, ["sh", "-c", script], found.folder / f"{name}.log", {**clean, **environment, **more, "PATH": path}, cwd=place)


def _balancer(found: Cluster, haproxy: engines.Engine) -> None:
    """HAProxy, by its own file."""
    found.ports |= {"clients": free_port(), "figures": free_port()}
    places = {"bind :4000": f"bind 127.0.0.1:{found.ports['clients']}", "bind :8405": f"bind 127.0.0.1:{found.ports['figures']}"}
    places |= {f"{name}:4000": f"127.0.0.1:{found.ports[name]}" for name in NODES}
    path = found.folder / "haproxy.cfg"
    path.write_text(deployment.moved((deployment.DEPLOY / "haproxy.cfg").read_text("utf-8"), places))
    command = [str(path) if piece.endswith("haproxy.cfg") else piece for piece in deployment.command("haproxy")]
    found.balancer = Service("haproxy", [str(haproxy.path), *command[1:]], found.folder / "haproxy.log", haproxy.environment)
    found.url = f"http://127.0.0.1:{found.ports['clients']}"


async def settle(condition, patience_s: float = 30.0) -> bool:  # type: ignore[no-untyped-def]
    """Whether the awaitable that `condition` makes comes true in time."""
    try:
        async with asyncio.timeout(patience_s):
            while not await condition():
                await asyncio.sleep(0.1)
    except TimeoutError:
        return False
    return True
