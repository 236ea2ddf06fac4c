"""Remembers which tools a run has been shown: the `ToolRuns` port of `proxy.ports.stage`, on the database.

One row a run, with a version that every change counts up: a worker that read an older version loses the exchange, reads again and
adds to what the other one chose, so that all of them end with one list in one order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import msgspec

from proxy.ports import ToolRun
from proxy.store.database import Database
from proxy.store.tables import key_of
from proxy.store.tables import tool_runs as table
from proxy.store.versioned import VersionedRows


class DatabaseToolRuns:
    """Implements `proxy.ports.ToolRuns`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._rows = VersionedRows(database, table, "names", clock)

    async def get(self, run: str, *, client: str) -> ToolRun:
        """What is known of `client`'s `run`. Raises `StoreUnavailable`."""
        content, version = await self._rows.load(key_of(client, run))
        return ToolRun() if content is None else ToolRun(msgspec.json.decode(content, type=tuple[str, ...]), version)

    async def swap(self, run: str, names: Sequence[str], version: int, *, client: str) -> bool:
        """Replace the names if the run still has `version`; False when another worker was first. Raises `StoreUnavailable`."""
        return await self._rows.swap(key_of(client, run), msgspec.json.encode(list(names)), version, client)
