"""What may go wrong with a cluster, one at a time."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.cluster import NODES, Cluster
from tests.cluster.services import Service

_WRONG_CLOCK = Path(__file__).parent / "wrong_clock"


@dataclass(frozen=True)
class Span:
    """What a fault is given: the cluster, how long it lasts, and what it chooses by."""

    cluster: Cluster
    seconds: float
    random: random.Random

    @property
    def node(self) -> str:
        return self.random.choice(NODES)

    async def last(self) -> None:
        await asyncio.sleep(self.seconds * self.random.uniform(0.75, 1.25))


Fault = Callable[[Span], Awaitable[None]]
"""Begins, lasts, and is over when it returns."""


async def worker_killed(span: Span) -> None:
    """One worker of a node, at once; its parent starts another."""
    node = span.cluster.nodes[span.node]
    node.signal(signal.SIGKILL, [span.random.choice(node.processes[1:])])
    await span.last()


async def node_killed(span: Span) -> None:
    """All of a node, at once; it is started again at the end."""
    node = span.cluster.nodes[span.node]
    node.kill()
    await span.last()
    node.start()


async def node_replaced(span: Span) -> None:
    """A node, in order: SIGTERM, and another one in its place."""
    node = span.cluster.nodes[span.node]
    await asyncio.to_thread(node.end)
    node.start()
    await span.last()


async def node_stopped(span: Span) -> None:
    """SIGSTOP to a node, as a machine does that swaps or is moved."""
    node = span.cluster.nodes[span.node]
    node.signal(signal.SIGSTOP)
    try:
        await span.last()
    finally:
        node.signal(signal.SIGCONT)


async def node_cut_from_store(span: Span) -> None:
    """Nothing goes between a node and PgBouncer any more, and nobody says so."""
    link = span.cluster.store_links[span.node]
    link.cut()
    try:
        await span.last()
    finally:
        link.mend()


async def database_killed(span: Span) -> None:
    """PostgreSQL, all of it, in the midst of what it is writing; it recovers at the end."""
    span.cluster.postgres.kill()
    await span.last()
    await span.cluster.postgres.started()


async def database_slow(span: Span) -> None:
    """200 ms for whatever is sent to it and comes from it."""
    span.cluster.database_link.delay_s = 0.1
    try:
        await span.last()
    finally:
        span.cluster.database_link.delay_s = 0.0


async def database_cut(span: Span) -> None:
    """Nothing goes between PgBouncer and PostgreSQL any more."""
    span.cluster.database_link.cut()
    try:
        await span.last()
    finally:
        span.cluster.database_link.mend()


async def database_read_only(span: Span) -> None:
    """Every transaction of the role is, as on a replica that was a primary."""
    database = span.cluster.postgres
    await database.run("ALTER ROLE groundwire SET default_transaction_read_only = on", _TERMINATE)
    try:
        await span.last()
    finally:
        await database.run("ALTER ROLE groundwire RESET default_transaction_read_only", _TERMINATE)


async def database_full(span: Span) -> None:
    """Others have taken all of its connections, and those that were there have ended."""
    import asyncpg

    database, taken = span.cluster.postgres, []
    (wanted,) = (await database.run("SHOW max_connections"))[0]
    await database.run("ALTER ROLE groundwire CONNECTION LIMIT 0", _TERMINATE)
    try:
        with suppress(asyncpg.PostgresError, OSError):
            for _ in range(int(wanted)):
                taken.append(await asyncpg.connect(database.url(), timeout=5))
        await span.last()
    finally:
        await asyncio.gather(*(connection.close(timeout=5) for connection in taken), return_exceptions=True)
        await database.run("ALTER ROLE groundwire CONNECTION LIMIT 60")


async def counter_killed(span: Span) -> None:
    """Valkey, with what it had not written yet."""
    span.cluster.valkey.kill()
    await span.last()
    span.cluster.valkey.start()


async def clock_wrong(span: Span) -> None:
    """A node whose clock is 31 days ahead or behind takes the place of one, and then one with the right clock its own."""
    node, days = span.cluster.nodes[span.node], span.random.choice((31, -31))
    right = dict(node.environment)
    path = os.pathsep.join(filter(None, (str(_WRONG_CLOCK), right.get("PYTHONPATH", ""))))
    node.environment |= {"PYTHONPATH": path, "WRONG_CLOCK_S": str(days * 86_400)}
    await _again(node, span.cluster)
    await span.last()
    node.environment = right
    await _again(node, span.cluster)


async def _again(node: Service, cluster: Cluster) -> None:
    await asyncio.to_thread(node.end)
    node.start()
    await node.up(lambda: cluster.ready(node.name, ""))  # with its store it is not, while its clock is wrong


_TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'groundwire'"


@dataclass(frozen=True)
class Kind:
    """A fault, and what it may do to requests that meet it."""

    fault: Fault
    breaks: bool
    """Whether requests that were under way may break; without it every request is answered, as policies are open."""
    forgets: bool
    """Whether a turn that meets it may not know the one before, as the store is away from its node."""
    known: str = ""
    """A promise that is not kept yet, as its report begins: told, and no failure of the run."""

    @property
    def name(self) -> str:
        return str(getattr(self.fault, "__name__", self.fault)).replace("_", " ")


KINDS: tuple[Kind, ...] = (
    Kind(worker_killed, breaks=True, forgets=False),
    Kind(database_killed, breaks=False, forgets=True),
    Kind(node_killed, breaks=True, forgets=False),
    Kind(database_slow, breaks=False, forgets=False),
    Kind(node_replaced, breaks=False, forgets=False),
    Kind(database_read_only, breaks=False, forgets=True),
    Kind(node_stopped, breaks=True, forgets=False),
    Kind(database_full, breaks=False, forgets=True),
    Kind(node_cut_from_store, breaks=False, forgets=True),
    Kind(database_cut, breaks=False, forgets=True),
    Kind(counter_killed, breaks=False, forgets=False),
    Kind(clock_wrong, breaks=True, forgets=False),
)
