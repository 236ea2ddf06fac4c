"""Client keys and teams in the store, and what they spend by day and model.

A key is kept as its SHA-256 and what it may; its text is shown once, by whoever makes it. A revoked key stays, so that nothing of its name
is another's. Every change raises a row's version, and processes look at the sum of versions to see that there is one: no clock is
asked, and a look is one small query.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import delete, func, select, text, update

from proxy.config.keys import NO_LIMITS, KeySettings, Limits
from proxy.store.database import Database, write
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import clean, key_of
from proxy.store.tables import client_keys as table
from proxy.store.tables import key_days as days

_CHANGES = text("SELECT count(*), coalesce(sum(version), 0) FROM client_keys")
_encode = msgspec.json.Encoder().encode


class StoredKey(Struct, frozen=True, kw_only=True):
    """A key, as the store has it."""

    key: KeySettings
    created_at: float = 0.0
    """Seconds since the epoch."""
    revoked_at: float | None = None
    before_sha256: str = ""
    """Of the key that this one took the place of."""
    before_until: float = 0.0
    """Until when that one still counts."""

    @property
    def status(self) -> str:
        """``active``, ``expired`` or ``revoked``."""
        return "revoked" if self.revoked_at is not None else "expired" if self.key.until <= time.time() else "active"

    def hashes(self) -> dict[str, tuple[KeySettings, float]]:
        """By SHA-256, the key and from when on it is refused."""
        until = 0.0 if self.revoked_at is not None else self.key.until
        found = {self.key.sha256.lower(): (self.key, until)}
        return {self.before_sha256.lower(): (self.key, min(until, self.before_until)), **found} if self.before_sha256 else found


class StoredTeam(Struct, frozen=True):
    """A team's limits."""

    name: str
    limits: Limits = NO_LIMITS


class KeysAndTeams(Struct, frozen=True):
    """All that there are."""

    keys: tuple[StoredKey, ...] = ()
    teams: Mapping[str, Limits] = {}


class SpendingRow(Struct, frozen=True):
    """What was taken, by whatever it was asked for by; what was not is ""."""

    day: str = ""
    client: str = ""
    team: str = ""
    model: str = ""
    requests: int = 0
    refused: int = 0
    """Requests that a limit refused; not among `requests`."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0


_BY = ("day", "client", "team", "model")
_SUMS = ("requests", "refused", "prompt_tokens", "completion_tokens", "micro_usd")
Taken = tuple[int, int, int, int, int]
"""In the order of the columns."""


class DatabaseKeys:
    """The rows. Every method raises `StoreUnavailable`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock or database.clock

    async def changes(self) -> tuple[int, int]:
        """Another pair after every change."""
        count, versions = (await self._database.read(_CHANGES, {}))[0]
        return int(count), int(versions)

    async def all(self) -> KeysAndTeams:
        """Every key, the newest last, and every team."""
        rows = await self._database.rows(select(table.c.kind, table.c.content).order_by(table.c.kind, table.c.name))
        keys = sorted((msgspec.json.decode(r.content, type=StoredKey) for r in rows if r.kind == "key"), key=lambda one: one.created_at)
        teams = [msgspec.json.decode(row.content, type=StoredTeam) for row in rows if row.kind == "team"]
        return KeysAndTeams(tuple(keys), {team.name: team.limits for team in teams})

    async def get(self, name: str) -> StoredKey | None:
        """The key of this name."""
        async with self._database.transaction() as connection:
            return await self._read(connection, name)

    async def add(self, key: KeySettings) -> bool:
        """Keep a new key; False where the name is taken."""
        stored, now = StoredKey(key=key, created_at=self._clock()), self._clock()
        values = {"id": f"key:{clean(key.name)}", "kind": "key", "name": clean(key.name), "version": 1, "changed_at": now}
        insert = self._database.insert(table).values(**values, sha256=key.sha256, content=_encode(stored))
        return await self._database.execute(insert.on_conflict_do_nothing(index_elements=["id"]), reads=False) == 1

    async def rotate(self, name: str, sha256: str, overlap_s: float) -> StoredKey | None:
        """Another key under the name, beside which the one before counts for `overlap_s` more; None where no such key is active."""

        def rotated(stored: StoredKey) -> StoredKey:
            key = msgspec.structs.replace(stored.key, sha256=sha256)
            before = {"before_sha256": stored.key.sha256, "before_until": self._clock() + overlap_s}
            return msgspec.structs.replace(stored, key=key, **before)

        return await self._change(name, rotated)

    async def revoke(self, name: str) -> StoredKey | None:
        """It counts no more; None where no such key is active."""
        return await self._change(name, lambda stored: msgspec.structs.replace(stored, revoked_at=self._clock()))

    async def set_limits(self, name: str, limits: Limits) -> StoredKey | None:
        """Its limits are these from now on; None where no such key is active."""
        return await self._change(
            name, lambda stored: msgspec.structs.replace(stored, key=msgspec.structs.replace(stored.key, limits=limits))
        )

    async def set_team(self, name: str, limits: Limits) -> None:
        """A team's limits are these from now on."""
        values = {"id": f"team:{clean(name)}", "kind": "team", "name": clean(name), "sha256": "", "version": 1, "changed_at": self._clock()}
        insert = self._database.insert(table).values(**values, content=_encode(StoredTeam(name, limits)))
        changed = {"content": insert.excluded.content, "changed_at": insert.excluded.changed_at, "version": table.c.version + 1}
        await self._database.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed), reads=False)

    async def _change(self, name: str, change: Callable[[StoredKey], StoredKey]) -> StoredKey | None:
        async with self._database.writing() as connection:
            stored = await self._read(connection, name, lock=True)
            if stored is None or stored.revoked_at is not None:
                return None
            changed = change(stored)
            values = {"sha256": changed.key.sha256, "content": _encode(changed), "changed_at": self._clock()}
            await connection.execute(update(table).where(table.c.id == f"key:{clean(name)}").values(**values, version=table.c.version + 1))
        return changed

    async def _read(self, connection: AsyncConnection, name: str, *, lock: bool = False) -> StoredKey | None:
        query = select(table.c.content).where(table.c.id == f"key:{clean(name)}")
        content = await connection.scalar(query.with_for_update() if lock else query)
        return None if content is None else msgspec.json.decode(content, type=StoredKey)


def _adding(database: Database) -> Any:
    insert = database.insert(days)
    added = {name: days.c[name] + insert.excluded[name] for name in _SUMS}
    return insert.on_conflict_do_update(index_elements=["id"], set_=added)


class DatabaseKeyDays:
    """Spending by day, key, team and model. Every method raises `StoreUnavailable`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, taken: Mapping[tuple[str, str, str, str], Taken]) -> None:
        """Add what was taken by day, client, team and model."""
        cleaned = [((*map(clean, by),), sums) for by, sums in taken.items()]
        rows = sorted((key_of(*by), *by, *sums) for by, sums in cleaned)  # one order for all, so that no two processes wait for each other
        async with self._database.writing(reads=False) as connection:
            await write(connection, self._database.compiled(_adding), rows)

    async def spending(self, by: Sequence[str], since: str, client: str | None = None) -> list[SpendingRow]:
        """Sums since a day, ``2026-01-31``, by some of ``day``, ``client``, ``team``, ``model``; the dearest first, within a day."""
        columns = [days.c[name] for name in _BY if name in by]
        sums = [func.sum(days.c[name]).label(name) for name in _SUMS]
        query = select(*columns, *sums).where(days.c.day >= since).group_by(*columns)
        if client is not None:
            query = query.where(days.c.client == clean(client))
        rows = await self._database.mappings(query)
        found = [_spending(dict(row)) for row in rows]
        return sorted(found, key=lambda row: (_descending(row.day), -row.usd, -row.requests, row.client, row.model))

    async def forget(self, before: str) -> None:
        """Days before this one go."""
        await self._database.execute(delete(days).where(days.c.day < before), reads=False)


def _spending(row: Mapping[Any, Any]) -> SpendingRow:
    texts, numbers = {name: row[name] for name in _BY if name in row}, {name: int(row[name] or 0) for name in _SUMS}
    usd = numbers.pop("micro_usd") / 1e6
    return msgspec.convert(texts | numbers | {"usd": usd}, SpendingRow)


def _descending(day: str) -> float:
    return -float(day.replace("-", "")) if day else math.inf
