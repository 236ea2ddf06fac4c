"""Lists of a table's rows for an operator, newest first: by `created_at` and, among rows of one moment, by `id`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import Column, RowMapping, Select, Table, and_, func, or_, select

from proxy.store.database import Database
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import clean

R = TypeVar("R")


def policy_name(policy: str) -> str:
    """NAME of a label ``NAME@hash8``, or of a name."""
    return policy.partition("@")[0]


async def page(connection: AsyncConnection, query: Select[Any], table: Table, limit: int, after: str | None) -> tuple[list[Any], bool]:
    """At most `limit` rows, as mappings, and whether there are more; `after` is the last id already seen.

    Nothing follows an id that is no longer there.
    """
    created, key = table.c.created_at, table.c.id
    if after is not None:
        after = clean(after)
        seen = select(created).where(key == after).scalar_subquery()
        query = query.where(or_(created < seen, and_(created == seen, key < after)))
    rows = (await connection.execute(query.order_by(created.desc(), key.desc()).limit(limit + 1))).mappings().all()
    return list(rows[:limit]), len(rows) > limit


class Listed(Generic[R]):
    """A store of rows that an operator lists and looks at."""

    table: ClassVar[Table]
    columns: ClassVar[Sequence[Column[Any]]]
    """Of lists."""
    statuses: ClassVar[Sequence[str]] = ()
    keeps_labels: ClassVar[bool] = False
    """Whether its rows name a policy by its label, and not by its name."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    def _made(self, row: RowMapping) -> R:
        """What a row is outside of the store."""
        raise NotImplementedError

    async def list(self, limit: int = 20, after: str | None = None, **filters: str | None) -> tuple[list[R], bool]:
        """Newest first, and whether there are more; `filters` are columns. Raises `StoreUnavailable`."""
        query = select(*self.columns)
        for name, wanted in filters.items():
            if wanted is not None:
                query = query.where(
                    self.table.c[name] == clean(policy_name(wanted) if name == "policy" and not self.keeps_labels else wanted)
                )
        async with self._database.transaction() as connection:
            rows, more = await page(connection, query, self.table, limit, after)
        return [self._made(row) for row in rows], more

    async def counts(self) -> dict[str, int]:
        """How many rows there are of each status. Raises `StoreUnavailable`."""
        status = self.table.c.status
        async with self._database.transaction() as connection:
            found = {name: int(count) for name, count in (await connection.execute(select(status, func.count()).group_by(status))).all()}
        return {name: found.get(name, 0) for name in self.statuses}

    async def _read(
        self, connection: AsyncConnection, key: str, columns: Sequence[Column[Any]] = (), client: str | None = None, *, lock: bool = False
    ) -> R | None:
        """The row of this id, with `columns` or those of lists; with `client`, only if it is that client's."""
        query = select(*(columns or self.columns)).where(self.table.c.id == clean(key))
        if client is not None:
            query = query.where(self.table.c.client == clean(client))
        row = (await connection.execute(query.with_for_update() if lock else query)).mappings().first()
        return None if row is None else self._made(row)
