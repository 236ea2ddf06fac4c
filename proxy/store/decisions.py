"""What `proxy.store.quarantine` and `proxy.store.clashes` share: the audit trail, sightings, values as JSON.

The trail says who decided what, when and why. Its rows are only added; retention deletes one when it is old and its subject is gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Table, func, select, update

from proxy.ports.review import Decision, Scope
from proxy.store.database import Database, StoreRejected
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import clean
from proxy.store.tables import decisions as table

MAX_REASON_CHARS = 4000
_FIELDS = [table.c[name] for name in Decision.__struct_fields__]


async def add(
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
        await connection.execute(table.insert(), rows)


async def mark_seen(connection: AsyncConnection, rows: Table, which: ColumnElement[bool], now: float) -> None:
    """Mark them, but those that another worker is just changing: two that waited for each other would both fail."""
    free = select(rows.c.id).where(which).order_by(rows.c.id).with_for_update(skip_locked=True).cte("free")
    await connection.execute(update(rows).where(rows.c.id.in_(select(free.c.id))).values(seen_at=now))


async def trail(database: Database, subject: str) -> list[Decision]:
    """The subject's decisions, the first one first. Raises `StoreUnavailable`."""
    query = select(*_FIELDS).where(table.c.subject == clean(subject)).order_by(table.c.number)
    async with database.transaction() as connection:
        return [Decision(**row) for row in (await connection.execute(query)).mappings()]


def decided_before(subject: str) -> Any:
    """As a value to insert: how many decisions the trail has of a subject that retention deleted and that now comes again."""
    return select(func.coalesce(func.max(table.c.number), 0)).where(table.c.subject == subject).scalar_subquery()


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
