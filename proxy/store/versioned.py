"""One row a key, changed by compare-and-swap: of two workers that read the same version one is first, and the other reads again."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Table, select, update

from proxy.store.database import Database
from proxy.store.tables import clean

_USED_EVERY_S = 3600.0
"""A row that is only read is marked as used this often: retention goes by days, and a read should mostly not be a write."""


class VersionedRows:
    """The rows of a table with ``id``, ``client``, ``version``, ``size_bytes``, ``created_at``, ``used_at`` and one column of content."""

    def __init__(self, database: Database, table: Table, content: str, clock: Callable[[], float]) -> None:
        """`content` is the name of that column; it holds bytes."""
        self._database, self._table, self._content, self._clock = database, table, content, clock

    async def load(self, key: str) -> tuple[bytes | None, int]:
        """Content and version; None and 0 where there is no row. Raises `StoreUnavailable`."""
        table, now = self._table, self._clock()
        async with self._database.transaction() as connection:
            query = select(table.c[self._content], table.c.version, table.c.used_at).where(table.c.id == key)
            row = (await connection.execute(query)).first()
            if row is not None and row.used_at < now - _USED_EVERY_S:
                await connection.execute(update(table).where(table.c.id == key).values(used_at=now))
        return (None, 0) if row is None else (bytes(row[0]), row.version)

    async def swap(self, key: str, content: bytes, version: int, client: str) -> bool:
        """Replace the content if the row still has `version`, 0 for none; whether it had. Raises `StoreUnavailable`."""
        table, now = self._table, self._clock()
        values = {self._content: content, "version": version + 1, "size_bytes": len(content), "used_at": now}
        if version == 0:
            new = self._database.insert(table).values(id=key, client=clean(client), created_at=now, **values)
            statement = new.on_conflict_do_nothing(index_elements=["id"])
        else:
            statement = update(table).where(table.c.id == key, table.c.version == version).values(**values)
        async with self._database.writing() as connection:
            return bool((await connection.execute(statement)).rowcount == 1)
