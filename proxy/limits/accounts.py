"""Accounts of keys and teams in the store, a row each: implements `proxy.limits.counter.Counter` without another server.

A decision is one transaction that locks the rows it is about, so that processes agree: on SQLite some 0.5 ms, on PostgreSQL about a
thousand a second of one key. The clock is PostgreSQL's where there is one, so that nodes agree on what a minute is.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import msgspec
from sqlalchemy import select, text

from proxy.errors import StoreUnavailable
from proxy.limits.account import Account
from proxy.limits.counter import Amount, CounterAway, Decision, Settlement, Standing, Subject
from proxy.store.database import Database
from proxy.store.drivers import AsyncConnection
from proxy.store.key_tables import limit_accounts as table
from proxy.store.tables import clean

_encode, _decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Account).decode
_NOW = text("SELECT extract(epoch FROM clock_timestamp())")


class DatabaseAccounts:
    """Implements `Counter`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def start(self) -> None:
        """The store opens itself."""

    async def stop(self) -> None:
        """The store closes itself."""

    async def reserve(self, lease: str, subjects: Sequence[Subject], amount: Amount) -> Decision:
        """Implements `Counter`."""
        async with self._accounts(subject.id for subject in subjects) as (now, accounts):
            own = [accounts[clean(subject.id)] for subject in subjects]
            if all(lease in account.leases for account in own):  # the answer to its first try was lost
                return Decision(now, tuple(account.standing(now) for account in own))
            asked = Decision(now, tuple(a.standing(now, s.limits, amount) for a, s in zip(own, subjects, strict=True)))
            if not asked.granted:
                return asked
            for account in own:
                account.reserve(now, lease, amount)
            return Decision(now, tuple(account.standing(now) for account in own))

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
                rows = (await connection.execute(select(table.c.id, table.c.content).where(table.c.id.in_(ids)))).all()
        except StoreUnavailable as error:
            raise CounterAway(str(error)) from error
        accounts = {row.id: _decode(row.content) for row in rows}
        found = [accounts.get(one) or Account() for one in ids]
        for account in found:
            account.advance(now)
        return [account.standing(now) for account in found]

    @asynccontextmanager
    async def _accounts(self, names: Iterable[str]) -> AsyncIterator[tuple[float, dict[str, Account]]]:
        """The accounts, locked and brought to now, and written again at the end. Raises `CounterAway`."""
        ids = sorted({clean(name) for name in names})
        query = select(table.c.id, table.c.content).where(table.c.id.in_(ids)).order_by(table.c.id).with_for_update()
        try:
            async with self._database.writing() as connection:
                rows = (await connection.execute(query)).all()
                if len(rows) < len(ids) and not self._database.is_sqlite:  # a row that is not there cannot be locked
                    missing = [{"id": one, "content": _encode(Account()), "used_at": 0.0} for one in ids]
                    await connection.execute(self._database.insert(table).values(missing).on_conflict_do_nothing(index_elements=["id"]))
                    rows = (await connection.execute(query)).all()
                now = await self._now(connection)
                accounts = {one: Account() for one in ids} | {row.id: _decode(row.content) for row in rows}
                for account in accounts.values():
                    account.advance(now)
                yield now, accounts
                values = [{"id": one, "content": _encode(account), "used_at": now} for one, account in accounts.items()]
                insert = self._database.insert(table).values(values)
                changed = {"content": insert.excluded.content, "used_at": insert.excluded.used_at}
                await connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changed))
        except StoreUnavailable as error:
            raise CounterAway(str(error)) from error

    async def _now(self, connection: AsyncConnection) -> float:
        return self._clock() if self._database.is_sqlite else float(await connection.scalar(_NOW) or 0.0)
