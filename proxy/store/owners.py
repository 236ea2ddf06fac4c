"""Remembers which client each thing belongs to that a provider keeps under the operator's key: a response, an item of one, a conversation.

Whoever brought a thing about owns it for as long as it is remembered; another client that is given the same id later does not. Reading
marks what is read as used, and retention forgets what nobody named.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from sqlalchemy import select, update

from proxy.store.database import Database
from proxy.store.tables import clean, keys_of
from proxy.store.tables import owners as table

MAX_IDS = 500
"""Looked up, or kept, in one statement."""
_USED_EVERY_S = 3600.0
_ROW_BYTES = 128


class DatabaseOwners:
    """By upstream and id."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def find(self, upstream: str, ids: Collection[str]) -> dict[str, str]:
        """The clients that own those of `ids` that are remembered. Raises `StoreUnavailable`."""
        key, now, found = keys_of(upstream), self._clock(), dict[str, str]()
        for some in _batches(ids):
            named = {key(one): one for one in some}
            async with self._database.transaction() as connection:
                rows = list(await connection.execute(select(table.c.id, table.c.client, table.c.used_at).where(table.c.id.in_(named))))
                if stale := [row.id for row in rows if row.used_at < now - _USED_EVERY_S]:
                    await connection.execute(update(table).where(table.c.id.in_(stale)).values(used_at=now))
            found |= {named[row.id]: row.client for row in rows}
        return found

    async def add(self, upstream: str, ids: Collection[str], client: str) -> bool:
        """They are `client`'s, but for those that are somebody's already: whether there are none such. Raises `StoreUnavailable`."""
        key, now, added = keys_of(upstream), self._clock(), 0
        for some in _batches(ids):
            rows = [
                {"id": key(one), "client": clean(client), "size_bytes": _ROW_BYTES, "created_at": now, "used_at": now}
                for one in dict.fromkeys(some)
            ]
            async with self._database.writing() as connection:
                insert = self._database.insert(table).values(rows).on_conflict_do_nothing(index_elements=["id"])
                added += (await connection.execute(insert)).rowcount
        return added == len(set(ids))


def _batches(ids: Collection[str]) -> list[list[str]]:
    every = list(ids)
    return [every[i : i + MAX_IDS] for i in range(0, len(every), MAX_IDS)]
