"""Remembers clashes and how they were resolved: the `Clashes` port, on the database, and the operator's side of it.

A record's id is made of its client, run, policy and pair of statements: the first worker to put it decides what is kept. A resolution
changes it and adds a row to the audit trail; a stage that gives the version it has read never undoes one that it has not seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from sqlalchemy import RowMapping, select, text, update

from proxy.ports.review import POLICY, ClashRecord, ClashStatus
from proxy.store.database import Database
from proxy.store.listing import MAX_REASON_CHARS, Listed, add_decisions, decided_before, mark_seen, packed, policy_name, unpacked
from proxy.store.tables import clashes as table
from proxy.store.tables import clean, key_of

_ASKED_EVERY_S = 3600.0
"""Retention goes by days, and a read should mostly not be a write."""
PER_RUN = 2000
FILTERS = ("status", "run_id", "client", "policy", "type", "topic", "strategy")
_STATEMENTS = ("older", "newer", "options", "detail")
_COLUMNS = [*(table.c[name] for name in ClashRecord.__struct_fields__ if name not in _STATEMENTS), table.c.statements]

_NAMES = [column.name for column in _COLUMNS]
_OF_RUN = text(f"SELECT {', '.join(_NAMES)} FROM clashes WHERE run_key = :run ORDER BY created_at DESC, id DESC LIMIT :most")  # noqa: S608


def record_id(client: str, run_id: str, policy: str, pair_hash: str) -> str:
    """``cl_`` and 32 hexadecimal digits; `policy` may be a label."""
    return "cl_" + key_of(client, run_id, policy_name(policy), pair_hash)


class DatabaseClashes(Listed[ClashRecord]):
    """Implements `proxy.ports.Clashes`."""

    table, columns, statuses = table, _COLUMNS, get_args(ClashStatus)

    def __init__(self, database: Database, *, per_run: int = PER_RUN, clock: Callable[[], float] | None = None) -> None:
        """Of a run with more than `per_run` clashes, `find` gives the newest: it is asked on every turn."""
        super().__init__(database, clock=clock)
        self._per_run = per_run

    async def put(self, record: ClashRecord) -> ClashRecord:
        """Keep `record`, and return what is kept: an earlier one of the same pair comes first. Raises `StoreUnavailable`."""
        key, now = record_id(record.client, record.run_id, record.policy, record.pair_hash), self._clock()
        insert = self._database.insert(table).values(_row(record, key, now)).on_conflict_do_nothing(index_elements=["id"])
        async with self._database.writing() as connection:
            new = (await connection.execute(insert)).rowcount == 1
            kept = self._made((await connection.execute(select(*_COLUMNS).where(table.c.id == key))).mappings().one())
            if new and kept.status != "open":
                said = kept.resolution or "dismiss"
                await add_decisions(connection, [(key, kept.version)], said, now, kept.resolved_by, kept.reason)
        return kept

    async def find(self, *, client: str, run_id: str, policy: str) -> list[ClashRecord]:
        """The run's clashes, in the order in which they were put. Raises `StoreUnavailable`."""
        if self._database.is_without("clashes", client, run_id):
            return []
        run, now = key_of(client, run_id, policy_name(policy)), self._clock()
        found = await self._database.read(_OF_RUN, {"run": run, "most": self._per_run})
        rows = [dict(zip(_NAMES, row, strict=True)) for row in found]
        if any(row["seen_at"] < now - _ASKED_EVERY_S for row in rows):
            async with self._database.writing() as connection:
                await mark_seen(connection, table, table.c.run_key == run, now)
        return [self._made(row) for row in reversed(rows)]

    async def resolve(
        self,
        record_id: str,
        resolution: str,
        *,
        by: str,
        client: str | None = None,
        reason: str = "",
        merged: str = "",
        version: int | None = None,
    ) -> ClashRecord | None:
        """Resolve (``dismiss``: there is none; ``reopen``: it is open again) and return what is kept; None where there is none.

        With `client`, only what belongs to it; with `version`, only if the record still has it. Raises `StoreUnavailable`.
        """
        by, reason, resolution = clean(by), clean(reason, MAX_REASON_CHARS), clean(resolution)
        status = {"dismiss": "dismissed", "reopen": "open"}.get(resolution, "resolved")
        said = resolution if status == "resolved" else ""
        async with self._database.writing() as connection:
            found = await self._read(connection, record_id, client=client, lock=True)
            same = found is not None and found.status == status
            if found is None or version not in (None, found.version):
                return found
            if same and (
                status == "open" or (found.resolution, found.resolved_by, found.reason, found.merged) == (said, by, reason, merged)
            ):
                return found
            at, number = max(self._clock(), found.resolved_at or 0.0), found.version + 1
            values = {"status": status, "resolution": said, "resolved_by": "" if status == "open" else by, "reason": reason}
            text = merged.encode("utf-8", "surrogatepass")
            change = update(table).where(table.c.id == found.id)
            await connection.execute(change.values(**values, merged=text, resolved_at=None if status == "open" else at, version=number))
            await add_decisions(connection, [(found.id, number)], resolution, at, by, reason)
            return await self._read(connection, record_id, client=client)

    async def get(self, record_id: str) -> ClashRecord | None:
        """The record. Raises `StoreUnavailable`."""
        async with self._database.transaction() as connection:
            return await self._read(connection, record_id)

    def _made(self, row: RowMapping | Mapping[str, Any]) -> ClashRecord:
        fields = {name: row[name] for name in ClashRecord.__struct_fields__ if name in row} | {"critical": bool(row["critical"])}
        statements = unpacked(row["statements"])
        merged = bytes(row["merged"]).decode("utf-8", "surrogatepass")
        return ClashRecord(**fields | statements | {"options": tuple(statements["options"]), "merged": merged})


def _row(record: ClashRecord, key: str, now: float) -> dict[str, Any]:
    resolved = record.status != "open"
    names = ("client", "run_id", "pair_hash", "type", "topic", "strategy", "record_id", "status", "resolution")
    statements = packed({name: getattr(record, name) for name in _STATEMENTS})
    policy = policy_name(record.policy)
    return {name: clean(getattr(record, name)) for name in names} | {
        "id": key,
        "policy": clean(policy),
        "run_key": key_of(record.client, record.run_id, policy),
        "critical": record.critical,
        "statements": statements,
        "size_bytes": len(statements),
        "created_at": now,
        "seen_at": now,
        "resolved_by": (clean(record.resolved_by) or POLICY) if resolved else "",
        "reason": clean(record.reason, MAX_REASON_CHARS),
        "merged": record.merged.encode("utf-8", "surrogatepass"),
        "resolved_at": now if resolved else None,
        "version": decided_before(key) + int(resolved),
    }
