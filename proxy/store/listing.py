"""Lists of a table's rows for an operator, and the audit trail of what people decided on them.

Lists are newest first: by `created_at` and, among rows of one moment, by `id`. The trail says who decided what, when and why. Its rows are
only added; retention deletes one when it is old and its subject is gone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from sqlalchemy import Column, ColumnElement, RowMapping, Select, Table, and_, func, or_, select, update

from proxy.ports.review import Decision, Scope
from proxy.store.database import Database, StoreRejected
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import clean, decisions

MAX_REASON_CHARS = 4000
_FIELDS = [decisions.c[name] for name in Decision.__struct_fields__]


async def add_decisions(
    connection: AsyncConnection,
    subjects: Sequence[tuple[str, int]],
    decision: str,
    at: float,
    by: str,
    reason: str,
    scope: Scope = "run",
    client_key: str = "",
) -> None:
    """One row for each subject and its number; `client_key` is what they share where the scope is ``client``."""
    row = {"decision": decision, "scope": scope, "decided_at": at, "decided_by": by, "reason": reason, "client_key": client_key}
    row["size_bytes"] = len(by) + len(reason)
    rows = [{"id": f"{subject}:{number:08d}", "subject": subject, "number": number, **row} for subject, number in subjects]
    if rows:
        await connection.execute(decisions.insert(), rows)


async def mark_seen(connection: AsyncConnection, rows: Table, which: ColumnElement[bool], now: float) -> None:
    """Mark them, but those that another worker is just changing: two that waited for each other would both fail."""
    free = select(rows.c.id).where(which).order_by(rows.c.id).with_for_update(skip_locked=True).cte("free")
    await connection.execute(update(rows).where(rows.c.id.in_(select(free.c.id))).values(seen_at=now))


def decided_before(subject: str) -> Any:
    """As a value to insert: how many decisions the trail has of a subject that retention deleted and that now comes again."""
    return select(func.coalesce(func.max(decisions.c.number), 0)).where(decisions.c.subject == subject).scalar_subquery()


def packed(value: Mapping[str, Any]) -> bytes:
    """JSON, lone surrogates and all. Raises `StoreRejected`."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreRejected(f"a value cannot be stored as JSON: {error}") from error


def unpacked(content: bytes) -> Any:
    """What was packed."""
    return json.loads(bytes(content).decode("utf-8", "surrogatepass"))


def _plain(value: Any) -> Any:
    """Of what JSON does not know: structs and dataclasses as objects, the rest as text."""
    try:
        return msgspec.to_builtins(value)
    except TypeError:
        return str(value)


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

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock or database.clock

    def _made(self, row: RowMapping) -> R:
        """What a row is outside of the store."""
        raise NotImplementedError

    async def trail(self, subject: str) -> list[Decision]:
        """What was decided on a row, the first decision first. Raises `StoreUnavailable`."""
        query = select(*_FIELDS).where(decisions.c.subject == clean(subject)).order_by(decisions.c.number)
        return [Decision(**row) for row in await self._database.mappings(query)]

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
        found = {name: int(count) for name, count in await self._database.rows(select(status, func.count()).group_by(status))}
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
