"""Keeps what tool calls taught: the `ToolOutcomes` port of `proxy.ports.stage`, on the database, and the operator's view of it.

Rows belong to one client and one embedder and are never read for another. At most `PER_TOOL` stay of a tool and `PER_CLIENT` of a
client, the newest ones. Every change of a client's rows changes its version, which workers compare before they read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, and_, case, delete, func, or_, select

from proxy.ports import ToolOutcome
from proxy.store.database import Database
from proxy.store.drivers import AsyncConnection
from proxy.store.memory import Memory
from proxy.store.tables import clean, key_of, memory
from proxy.store.tables import tool_outcomes as table

TOOL_OUTCOMES = "tool_outcomes"
"""The kind of memory that has a client's version."""
PER_TOOL = 256
PER_CLIENT = 20_000
_KEYS_A_QUERY = 500
"""Both databases bound the number of a statement's parameters, at 32,766 or more."""
_FIELDS = ToolOutcome.__struct_fields__


class ToolSummary(Struct, frozen=True):
    """What was learned of one tool of one client."""

    id: str
    client: str
    embedder: str
    tool: str
    tool_key: str
    count: int
    """Queries."""
    first: float
    """Seconds since the epoch."""
    last: float


class DatabaseToolOutcomes:
    """Implements `proxy.ports.ToolOutcomes`."""

    def __init__(
        self, database: Database, *, per_tool: int = PER_TOOL, per_client: int = PER_CLIENT, clock: Callable[[], float] | None = None
    ) -> None:
        self._database, self._clock = database, clock or database.clock
        self._per_tool, self._per_client = per_tool, per_client
        self._memory = Memory(database, TOOL_OUTCOMES, clock)

    async def add(self, outcomes: Sequence[ToolOutcome], *, client: str, embedder: str) -> None:
        """Keep `outcomes`; the oldest of a tool, or of the client, make room. Raises `StoreUnavailable`."""
        if not outcomes:
            return
        owner, space, now = clean(client), clean(embedder), self._clock()
        rows = {row["id"]: row for row in (_row(outcome, owner, space, now) for outcome in outcomes)}
        insert = self._database.insert(table)
        replaced = {name: insert.excluded[name] for name in ("vector", "weight", "size_bytes", "created_at")}
        async with self._database.writing() as connection:
            await self._count_up(connection, owner, now)  # first: its row's lock lets one worker at a time change this client's rows
            await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=replaced), list(rows.values()))
            for key in sorted({row["tool_key"] for row in rows.values()}):
                tool = and_(table.c.client == owner, table.c.embedder == space, table.c.tool_key == key)
                await self._keep_newest(connection, tool, self._per_tool)
            await self._keep_newest(connection, table.c.client == owner, self._per_client)

    async def load(self, *, client: str, embedder: str, tool_keys: Sequence[str] | None = None) -> list[ToolOutcome]:
        """What was learned with vectors of `embedder`, newest first; of these tools only, if given. Raises `StoreUnavailable`."""
        query = select(*(table.c[name] for name in _FIELDS)).where(table.c.client == clean(client), table.c.embedder == clean(embedder))
        wanted = [query] if tool_keys is None else [query.where(table.c.tool_key.in_(part)) for part in _parts(tool_keys)]
        rows: list[Any] = []
        async with self._database.transaction() as connection:
            for part in wanted:
                rows += (await connection.execute(part)).all()
        return sorted((ToolOutcome(*row) for row in rows), key=lambda o: (-o.created_at, o.tool_key, o.query_hash))

    async def version(self, client: str) -> int:
        """Changes whenever the client's outcomes do, by deletion too; 0 where there are none. Raises `StoreUnavailable`."""
        found = await self._database.scalar(select(memory.c.number).where(memory.c.id == f"{TOOL_OUTCOMES}:{clean(client)}"))
        return int(found or 0)

    async def summary(self, limit: int = 20, after: str | None = None, *, client: str | None = None) -> tuple[list[ToolSummary], bool]:
        """Tools by client, the last learned first, and whether there are more. Raises `StoreUnavailable`."""
        group = (table.c.client, table.c.embedder, table.c.tool_name, table.c.tool_key)
        query = select(*group, func.count(), func.min(table.c.created_at), func.max(table.c.created_at)).group_by(*group)
        if client is not None:
            query = query.where(table.c.client == clean(client))
        rows = await self._database.rows(query)
        found = sorted((ToolSummary(key_of("tool", *row[:4]), *row) for row in rows), key=lambda s: (-s.last, s.id))
        start = next((i + 1 for i, summary in enumerate(found) if summary.id == after), 0 if after is None else len(found))
        return found[start : start + limit], len(found) > start + limit

    async def reset(self, client: str, tool: str | None = None) -> int:
        """Forget what the client's calls taught, of `tool` (its name or key) only if given; how many rows. Raises `StoreUnavailable`."""
        owner = clean(client)
        rows = table.c.client == owner
        if tool is not None:
            rows = and_(rows, or_(table.c.tool_name == clean(tool), table.c.tool_key == clean(tool)))
        async with self._database.transaction() as connection:
            await self._count_up(connection, owner, self._clock())
            return int((await connection.execute(delete(table).where(rows))).rowcount)

    async def _count_up(self, connection: AsyncConnection, client: str, now: float) -> None:
        """A version above the last one, and above any that the client had before its row was deleted: microseconds, at least."""
        row = self._memory.row(f"{TOOL_OUTCOMES}:{client}", client, number=int(now * 1e6), now=now)
        insert = self._database.insert(memory).values(row)
        later = case((memory.c.number >= insert.excluded.number, memory.c.number + 1), else_=insert.excluded.number)
        changed = {"number": later, "used_at": insert.excluded.used_at}
        await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))

    async def _keep_newest(self, connection: AsyncConnection, rows: ColumnElement[bool], most: int) -> None:
        excess = int(await connection.scalar(select(func.count()).select_from(table).where(rows)) or 0) - most
        if excess > 0:
            oldest = select(table.c.id).where(rows).order_by(table.c.created_at, table.c.id).limit(excess).cte("oldest")
            await connection.execute(delete(table).where(table.c.id.in_(select(oldest.c.id))))


def _row(outcome: ToolOutcome, client: str, embedder: str, now: float) -> dict[str, Any]:
    key, name, query = clean(outcome.tool_key), clean(outcome.tool_name), clean(outcome.query_hash)
    return {
        "id": key_of(client, embedder, key, query),
        "client": client,
        "embedder": embedder,
        "tool_key": key,
        "tool_name": name,
        "query_hash": query,
        "vector": outcome.vector,
        "weight": outcome.weight,
        "size_bytes": len(outcome.vector) + len(key) + len(name) + len(query),
        "created_at": now,
    }


def _parts(keys: Sequence[str]) -> Iterable[list[str]]:
    cleaned = sorted({clean(key) for key in keys})
    return (cleaned[i : i + _KEYS_A_QUERY] for i in range(0, len(cleaned), _KEYS_A_QUERY))
