"""Pages of a list, newest first: by `created_at` and, among rows of one moment, by `id`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, Table, and_, or_, select

from proxy.store.drivers import AsyncConnection


async def page(connection: AsyncConnection, query: Select[Any], table: Table, limit: int, after: str | None) -> tuple[list[Any], bool]:
    """At most `limit` rows, as mappings, and whether there are more; `after` is the last id already seen, cleaned.

    Nothing follows an id that is no longer there.
    """
    created, key = table.c.created_at, table.c.id
    if after is not None:
        seen = select(created).where(key == after).scalar_subquery()
        query = query.where(or_(created < seen, and_(created == seen, key < after)))
    rows = (await connection.execute(query.order_by(created.desc(), key.desc()).limit(limit + 1))).mappings().all()
    return list(rows[:limit]), len(rows) > limit
