"""Keeps which run each conversation's beginnings belong to: in the database.

One row a beginning: its run, and the beginning that went on from it. Who goes on first goes on with the run; whoever goes on otherwise,
or opens again what has gone on, leaves it. Every change is made on the condition that nobody was there before, so that workers agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import lru_cache

from sqlalchemy import TextClause, text, update

from proxy.context.lineage import Beginnings, branch_of
from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.tables import clean, key_of
from proxy.store.tables import lineages as table

_TRIES = 8
"""Each failure means that another worker has changed the row."""


@lru_cache(maxsize=64)
def _known_query(count: int) -> TextClause:
    ids = ", ".join(f":i{n}" for n in range(count))
    return text(f"SELECT id, run_id, continued_by FROM {table.name} WHERE id IN ({ids})")  # noqa: S608 - no text of anybody's


class DatabaseLineages:
    """Runs by the beginnings of their conversations."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def run_of(self, beginnings: Beginnings, *, client: str, route: str) -> str:
        """The run of a conversation; from now on its present end belongs to it. Raises `StoreUnavailable`."""
        keys = {key_of(client, route, hash_): hash_ for hash_ in beginnings.hashes}
        for _ in range(_TRIES):
            named = {f"i{n}": key for n, key in enumerate(keys)}
            rows = await self._database.read(_known_query(len(named)), named)
            known = {keys[id_]: (run, continued_by) for id_, run, continued_by in rows}
            found = await self._take(beginnings, known, client, route)
            if found is not None:
                return found
        raise StoreUnavailable("other workers keep changing the run's beginnings")

    async def _take(self, beginnings: Beginnings, known: Mapping[str, tuple[str, str]], client: str, route: str) -> str | None:
        """Find the run, and note it; None where another worker has changed what is known meanwhile."""
        end = beginnings.hashes[0]
        last = next((hash_ for hash_ in beginnings.hashes if hash_ in known), None)
        if last is None:
            return await self._begun(beginnings, client, route)
        run, continued_by = known[last]
        if last == end:
            if not continued_by:
                return run
            again = branch_of(run, end)  # it has gone on from here already: this is another conversation, or the same taken up anew
            return again if await self._change(end, client, route, continued_by, run_id=again, continued_by="") else None
        if not continued_by:
            if not await self._change(last, client, route, "", continued_by=end):
                return None
        elif continued_by not in beginnings.hashes:
            run = branch_of(run, end)
        return run if await self._add(end, run, client, route) else None

    async def _begun(self, beginnings: Beginnings, client: str, route: str) -> str | None:
        """The run of a conversation of which nothing is known. Met in the middle it has had the opening's name until now, and goes on with
        it as if it had been noted from its opening on: another that opens alike finds it taken.
        """
        end, run = beginnings.hashes[0], beginnings.opening
        if not beginnings.is_opening:
            if beginnings.whole:
                if not await self._add(beginnings.hashes[-1], run, client, route, continued_by=end):
                    return None
            else:
                run = branch_of(run, end)
        return run if await self._add(end, run, client, route) else None

    async def _add(self, beginning: str, run: str, client: str, route: str, *, continued_by: str = "") -> bool:
        now = self._clock()
        values = {"client": clean(client), "run_id": run, "continued_by": continued_by, "size_bytes": len(beginning) + len(run)}
        row = {"id": key_of(client, route, beginning), "created_at": now, "used_at": now, **values}
        async with self._database.writing() as connection:
            insert = self._database.insert(table).values(**row).on_conflict_do_nothing(index_elements=["id"])
            return bool((await connection.execute(insert)).rowcount == 1)

    async def _change(self, beginning: str, client: str, route: str, before: str, **values: str) -> bool:
        condition = (table.c.id == key_of(client, route, beginning), table.c.continued_by == before)
        async with self._database.writing() as connection:
            changed = await connection.execute(update(table).where(*condition).values(used_at=self._clock(), **values))
            return bool(changed.rowcount == 1)
