"""Remembers which tools a run has been shown: the `ToolRuns` port of `proxy.stage`, on the database.

One row a run, with a version that every change counts up: a worker that read an older version loses the exchange, reads again and
adds to what the other one chose, so that all of them end with one list in one order.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import select, update

from proxy.stage import ToolRun
from proxy.store.database import Database
from proxy.store.tables import clean
from proxy.store.tables import tool_runs as table

_USED_EVERY_S = 3600.0
"""A run that is only read is marked as used this often: retention goes by days, and a read should mostly not be a write."""


class DatabaseToolRuns:
    """Implements `proxy.stage.ToolRuns`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known of `client`'s `run`. Raises `StoreUnavailable`."""
        key, now = _key(run, client), self._clock()
        async with self._database.transaction() as connection:
            row = (await connection.execute(select(table.c.names, table.c.version, table.c.used_at).where(table.c.id == key))).first()
            if row is not None and row.used_at < now - _USED_EVERY_S:
                await connection.execute(update(table).where(table.c.id == key).values(used_at=now))
        return ToolRun() if row is None else ToolRun(msgspec.json.decode(row.names, type=tuple[str, ...]), row.version)

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace the names if the run still has `version`; False when another worker was first. Raises `StoreUnavailable`."""
        key, now, content = _key(run, client), self._clock(), msgspec.json.encode(list(names))
        values = {"names": content, "version": version + 1, "size_bytes": len(content), "used_at": now}
        if version == 0:
            new = self._database.insert(table).values(id=key, client=clean(client), created_at=now, **values)
            statement = new.on_conflict_do_nothing(index_elements=["id"])
        else:
            statement = update(table).where(table.c.id == key, table.c.version == version).values(**values)
        async with self._database.transaction() as connection:
            return bool((await connection.execute(statement)).rowcount == 1)


def _key(run: str, client: str) -> str:
    """128 bits of SHA-256; the length goes into the hash, so that no shift of the boundary gives the same key."""
    owner = client.encode("utf-8", "surrogatepass")
    return hashlib.sha256(len(owner).to_bytes(8, "big") + owner + run.encode("utf-8", "surrogatepass")).hexdigest()[:32]
