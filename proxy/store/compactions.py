"""Remembers what is sent in place of a conversation's first messages: the `Compactions` port of `proxy.ports.stage`, on the database.

A row is never changed once it is there: the first worker to put it decides what all of them send. Every hour of its use marks it, and
the scratchpad items that it refers to, as used, so that retention does not delete what a prompt still names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import func, select, update

from proxy.context.archive import ID_CHARS, reference_ids
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Compaction
from proxy.store.async_engine import AsyncConnection
from proxy.store.database import Database
from proxy.store.tables import clean, key_of, scratchpad
from proxy.store.tables import compactions as table

_IDS_A_QUERY = 500
"""Both databases bound the number of a statement's parameters, at 32,766 or more."""
_USED_EVERY_S = 3600.0
"""Retention goes by days, and a read should mostly not be a write."""


_KEY = 40
"""To make one takes as long as a pass over so many characters."""


class DatabaseCompactions:
    """Implements `proxy.ports.Compactions`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def find(self, covers: Sequence[str], *, client: str) -> Compaction | None:
        """The client's longest compaction whose `covers` is one of these. Raises `StoreUnavailable`."""
        ids = await run_in_thread_if_large(len(covers) * _KEY, _keys, client, covers)
        if not ids:
            return None
        best: Any = None
        async with self._database.transaction() as connection:
            for start in range(0, len(ids), _IDS_A_QUERY):
                some = table.c.id.in_(ids[start : start + _IDS_A_QUERY])
                query = select(table).where(some).order_by(table.c.length.desc(), table.c.id).limit(1)
                row = (await connection.execute(query)).first()
                if row is not None and (best is None or row.length > best.length):
                    best = row
            if best is not None and best.used_at < self._clock() - _USED_EVERY_S:
                await self._mark(connection, best)
        return None if best is None else _compaction(best)

    async def put(self, compaction: Compaction, *, client: str, run_id: str) -> Compaction:
        """Keep it, and return what is kept: another worker's, if that was first. Raises `StoreUnavailable`."""
        key, now = key_of(client, compaction.covers), self._clock()
        pieces = json.dumps(compaction.pieces, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        insert = self._database.insert(table).values(
            id=key,
            client=clean(client),
            run_id=clean(run_id),
            covers=clean(compaction.covers),
            length=compaction.length,
            pieces=pieces,
            size_bytes=len(pieces),
            made_at=now,
            used_at=now,
        )
        async with self._database.writing() as connection:
            await connection.execute(insert.on_conflict_do_nothing(index_elements=["id"]))
            return _compaction((await connection.execute(select(table).where(table.c.id == key))).one())

    async def _mark(self, connection: AsyncConnection, row: Any) -> None:
        """Mark `row` as used, and what it refers to."""
        now = self._clock()
        await connection.execute(update(table).where(table.c.id == row.id).values(used_at=now))
        ids = sorted(reference_ids(row.pieces.decode("utf-8", "surrogatepass")))
        for start in range(0, len(ids), _IDS_A_QUERY):
            named = func.substr(scratchpad.c.id, 1, ID_CHARS).in_(ids[start : start + _IDS_A_QUERY])
            await connection.execute(update(scratchpad).where(scratchpad.c.client == row.client, named).values(used_at=now))


def _keys(client: str, covers: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(key_of(client, hash_) for hash_ in covers))


def _compaction(row: Any) -> Compaction:
    pieces = json.loads(row.pieces.decode("utf-8", "surrogatepass"))
    return Compaction(row.covers, row.length, tuple(pieces), row.made_at)
