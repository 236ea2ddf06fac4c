"""Accounts of keys and teams in the store, a row each: implements `proxy.limits.counter.Counter` without another server.

A decision is one transaction that locks the rows it is about, so that processes agree: on SQLite some 0.5 ms, on PostgreSQL about a
thousand a second of one key. The clock is PostgreSQL's where there is one, so that nodes agree on what a minute is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import TextClause, text

from proxy.errors import StoreUnavailable
from proxy.limits.account import Account, decide
from proxy.limits.counter import Ask, CounterAway, Decision, Settlement, Standing, Subject
from proxy.store.database import Database, fetch, write
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import clean
from proxy.store.tables import limit_accounts as table

_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Account).decode
_NOW = text("SELECT extract(epoch FROM clock_timestamp())")


@lru_cache(maxsize=256)
def _select(count: int, locks: bool) -> TextClause:
    keys, last = ", ".join(f":k{n}" for n in range(count)), " ORDER BY id FOR UPDATE" if locks else ""
    return text(f"SELECT id, content FROM limit_accounts WHERE id IN ({keys}){last}")  # noqa: S608 - our own names


def _insert(database: Database) -> Any:
    return database.insert(table).on_conflict_do_nothing(index_elements=["id"])


def _upsert(database: Database) -> Any:
    insert = database.insert(table)
    changed = {"content": insert.excluded.content, "used_at": insert.excluded.used_at}
    return insert.on_conflict_do_update(index_elements=["id"], set_=changed)


class DatabaseAccounts:
    """Implements `Counter`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] | None = None) -> None:
        self._database, self._clock = database, clock or database.clock

    async def start(self) -> None:
        """The store opens itself."""

    async def stop(self) -> None:
        """The store closes itself."""

    async def reserve(self, lease: str, subjects: Sequence[Subject], ask: Ask) -> Decision:
        """Implements `Counter`."""
        async with self._accounts(subject.id for subject in subjects) as (now, accounts):
            return decide([accounts[clean(subject.id)] for subject in subjects], now, lease, subjects, ask)

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Implements `Counter`."""
        async with self._accounts(subject.id for one in settlements for subject in one.subjects) as (now, accounts):
            for one in settlements:
                for subject in one.subjects:
                    accounts[clean(subject.id)].settle(now, one)

    async def renew(self, open_leases: Sequence[tuple[str, Sequence[Subject]]]) -> None:
        """Implements `Counter`."""
        async with self._accounts(subject.id for _, subjects in open_leases for subject in subjects) as (now, accounts):
            for lease, subjects in open_leases:
                for subject in subjects:
                    accounts[clean(subject.id)].renew(now, lease)

    async def look(self, subjects: Sequence[Subject]) -> list[Standing]:
        """Implements `Counter`."""
        ids = [clean(subject.id) for subject in subjects]
        try:
            async with self._database.transaction() as connection:
                now = await self._now(connection)
                rows = await self._read(connection, ids, locks=False) if ids else []
        except StoreUnavailable as error:
            raise CounterAway(str(error)) from error
        accounts = {str(name): _decode(content) for name, content in rows}
        found = [accounts.get(one) or Account() for one in ids]
        for account in found:
            account.advance(now)
        return [account.standing(now) for account in found]

    @asynccontextmanager
    async def _accounts(self, names: Iterable[str]) -> AsyncIterator[tuple[float, dict[str, Account]]]:
        """The accounts, locked and brought to now, and written again at the end. Raises `CounterAway`."""
        ids = sorted({clean(name) for name in names})
        try:
            async with self._database.writing() as connection:
                rows = await self._read(connection, ids, locks=not self._database.is_sqlite)
                if len(rows) < len(ids) and not self._database.is_sqlite:  # a row that is not there cannot be locked
                    empty = [(one, _encode(Account()), 0.0) for one in ids]
                    await write(connection, self._database.compiled(_insert), empty)
                    rows = await self._read(connection, ids, locks=True)
                now = await self._now(connection)
                accounts = {one: Account() for one in ids} | {str(name): _decode(content) for name, content in rows}
                before = {one: _encode(account) for one, account in accounts.items()}
                for account in accounts.values():
                    account.advance(now)
                yield now, accounts
                changed = [(one, packed, now) for one, account in accounts.items() if (packed := _encode(account)) != before[one]]
                if changed:
                    await write(connection, self._database.compiled(_upsert), changed)
        except StoreUnavailable as error:
            raise CounterAway(str(error)) from error

    async def _read(self, connection: AsyncConnection, ids: Sequence[str], *, locks: bool) -> Sequence[Sequence[Any]]:
        return await fetch(connection, _select(len(ids), locks), {f"k{n}": one for n, one in enumerate(ids)})

    async def _now(self, connection: AsyncConnection) -> float:
        return self._clock() if self._database.is_sqlite else float(await connection.scalar(_NOW) or 0.0)
