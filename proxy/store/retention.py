"""Deletes what is too old, and the oldest when the store has grown too large, in small batches that let writers in between.

A background task of every worker, of which one at a time leads: the row `_KEY` of the memory says which, and until when; so it is the same
on SQLite, on PostgreSQL and behind a pooler, which holds no lock of a session. Age counts from a record's
`created_at`, from when feedback was given or a tool outcome learned, and from the last use of everything else: scratchpad items,
clashes, quarantined content that was decided, and what is remembered of runs. A decision stays in the audit trail until it is
too old and what it decided is gone. A failure goes by its last change, and its revisions after it: they also say which turns were counted
already.

All times are the database's. A clock that jumped ahead would make everything old at once: one that is more than a day ahead of the last
round, or of the newest record before the first, deletes nothing by age until it goes back, or has stayed so for a day. Nor does a round
whose worker's own clock says another hour than the database's.

Quarantined content that nobody has decided has no age: it goes only when the store is too large and this content takes more than half of
the room (or nothing else is left to delete), the oldest first, and the log then names every piece.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
import uuid
from collections.abc import Callable

import msgspec
from msgspec import Struct
from sqlalchemy import Column, ColumnElement, Table, delete, func, or_, select, text, true, update

from proxy.errors import StoreUnavailable
from proxy.ports.background import RepeatedTask
from proxy.store import drivers
from proxy.store.database import Database
from proxy.store.memory import Memory
from proxy.store.rollups import Rollups, touch
from proxy.store.tables import (
    clashes,
    decisions,
    failure_revisions,
    failures,
    feedback,
    memory,
    quarantine,
    records,
    scratchpad,
    tool_outcomes,
)
from proxy.store.tool_outcomes import TOOL_OUTCOMES

log = logging.getLogger(__name__)

_DAY_S = 86_400.0
_JUMP_S = _DAY_S
"""By so much the clock may be ahead of the last round."""
_DOUBT_S = _DAY_S
"""After so long a time without a correction the clock is believed."""
_SKEW_S = 3600.0
"""Between a worker's clock and the database's."""
_KEY = "retention:lead"
_LEAD_S, _RENEW_S = 900.0, 60.0
"""How long a worker leads that says nothing more, and how often it says so."""
_TIMEOUT_S = 60.0
"""For a batch, a look for the oldest or at the size: nobody waits for them."""
_EXACTLY_ROWS = 100_000
"""Of a table with more rows PostgreSQL's size is estimated."""
_SAMPLE_ROWS = 5_000
_BATCH_ROWS, _OLD_ROWS = 500, 5000
"""Of a batch, and of one of PostgreSQL's by age, for which no writer waits; by size 5,000 could be more than is to go."""
_BETWEEN_BATCHES_S = 0.02
_UNDECIDED_ROWS = 100
"""A batch of these is one line of the log."""
_UNDECIDED_SHARE = 0.5
"""Of the store's limit: a flood of doubtful content must not push out what prompts refer to."""
_SHRINK_TO = 0.9
"""Part of the limit that is left when the size was passed, so that not every round has to delete."""
_VACUUM_PAGES = 1000
_EMPTYING_TRIES = 250
_LIVE_ROWS = text("SELECT n_live_tup FROM pg_stat_all_tables WHERE relid = to_regclass(:name)")
_NOBODY_DECIDED = quarantine.c.status == "pending"
_TABLES: tuple[tuple[Table, Column[float]], ...] = (
    (records, records.c.created_at),
    (scratchpad, scratchpad.c.used_at),
    (memory, memory.c.used_at),
    (tool_outcomes, tool_outcomes.c.created_at),
    (quarantine, quarantine.c.seen_at),
    (clashes, clashes.c.seen_at),
    (decisions, decisions.c.decided_at),
    (failures, failures.c.updated_at),
    (failure_revisions, failure_revisions.c.created_at),
    (feedback, feedback.c.created_at),
)
_DELETABLE: dict[Table, ColumnElement[bool]] = {
    quarantine: ~_NOBODY_DECIDED & (quarantine.c.kind != "tool"),  # what was approved is what a tool is held against
    decisions: ~or_(
        select(quarantine.c.id).where(quarantine.c.id == decisions.c.subject).exists(),
        select(clashes.c.id).where(clashes.c.id == decisions.c.subject).exists(),
    ),
    failure_revisions: ~select(failures.c.id).where(failures.c.id == failure_revisions.c.failure_id).exists(),
}
"""Which rows of a table may go, where not all of them may."""


class _Lead(Struct):
    """Who leads, and what the clock said in the last round. Seconds since the epoch."""

    holder: str = ""
    until: float = 0.0
    believed: float = 0.0
    """What the clock said when it was believed last."""
    doubted: float = 0.0
    """Since when it has not been; 0 where it is."""


class Retention:
    """Keeps the store within an age and a size."""

    def __init__(
        self,
        database: Database,
        *,
        days: float = 30.0,
        max_mb: float = 2048,
        every_s: float = 600.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`max_mb` is in units of 1,000,000 bytes; `clock` takes the place of the database's."""
        self._database, self._clock, self._lead = database, clock, Memory(database, "retention")
        self._name, self._renew_at = uuid.uuid4().hex, 0.0
        self._problem = ""
        self._days, self._max_bytes = days, max_mb * 1e6
        self._rollups = Rollups(database)
        self._rounds = RepeatedTask(self._round, every_s, name="retention", problem="retention failed", log=log, jitter=0.1)

    def start(self) -> None:
        """Begin: soon, then every `every_s` seconds."""
        self._rounds.start()

    async def stop(self) -> None:
        """End the task."""
        await self._rounds.stop()

    async def _round(self) -> None:
        try:
            deleted, problem = await self.run_once(), ""
        except StoreUnavailable as error:
            deleted, problem = 0, str(error)
        if problem and problem != self._problem:
            log.warning("nothing is deleted from the store for now: %s", problem)
        self._problem = problem
        if deleted:
            log.info("retention deleted %d rows", deleted)

    async def run_once(self) -> int:
        """Delete what is due, where no other worker leads; returns the number of rows. Raises `StoreUnavailable`."""
        now = await self._now()
        by_age = await self._leads(now)
        if by_age is None:
            return 0
        deleted, cutoff = 0, now - self._days * _DAY_S
        for table, age in _TABLES if by_age else ():
            while (count := (await self._delete_oldest(table, age, before=cutoff))[0]) and await self._still_leads():
                deleted += count
                await asyncio.sleep(_BETWEEN_BATCHES_S)
            deleted += count
        deleted += await self._shrink()
        await self._leads(now, ends=True)
        if deleted:
            await self._rollups.forget(cutoff)
        if deleted and self._database.is_sqlite:
            await self._give_pages_back()
            await self._empty_log()
        return deleted

    async def _now(self) -> float:
        now = float(await self._database.scalar(select(self._database.now)))
        return self._clock() if self._clock is not None else now

    async def _leads(self, now: float, *, ends: bool = False) -> bool | None:
        """Whether this worker may delete by age now; None where another one leads, or has done it just now."""
        content, version = await self._lead.load(_KEY)
        lead = msgspec.json.decode(content, type=_Lead) if content else _Lead(believed=await self._first_belief(now))
        if lead.holder != self._name and now < lead.until < now + 2 * _LEAD_S:
            return None
        by_age = ends or self._believes(lead, now)  # what it said of the clock was said when the round began
        lead.holder, lead.until, self._renew_at = self._name, 0.0 if ends else now + _LEAD_S, time.monotonic() + _RENEW_S
        return by_age if await self._lead.swap(_KEY, msgspec.json.encode(lead), version, "") else None

    def _believes(self, lead: _Lead, now: float) -> bool:
        """Whether it can be so late."""
        skew_s = now - time.time() if self._clock is None else 0.0
        if abs(skew_s) > _SKEW_S:
            log.warning("the store's clock is %+.1f h from this machine's: nothing is deleted by age until they agree", skew_s / 3600)
            return False
        if now > lead.believed + _JUMP_S:
            if not lead.doubted <= now or not lead.doubted:
                lead.doubted = now
                late_h, wait_h = (now - lead.believed) / 3600, _DOUBT_S / 3600
                log.warning("the clock is %.0f h further than it was last: nothing is deleted by age for the next %.0f h", late_h, wait_h)
            if now - lead.doubted < _DOUBT_S:
                return False
        lead.believed, lead.doubted = now, 0.0
        return True

    async def _still_leads(self) -> bool:
        """Renewed now and then, while there is much to delete."""
        return time.monotonic() < self._renew_at or await self._leads(await self._now()) is not None

    async def _first_belief(self, now: float) -> float:
        """What the clock may have said before the first round: what was written or used last is not to be too old itself."""
        async with self._database.transaction(_TIMEOUT_S) as connection:
            times = [await connection.scalar(select(func.max(age))) for _, age in _TABLES]
        newest = max((found for found in times if found is not None), default=None)
        return now if newest is None else newest + self._days * _DAY_S - _JUMP_S

    async def size_bytes(self) -> int:
        """What the store takes on disk, without pages that are free."""
        async with self._database.transaction() as connection:
            if self._database.is_sqlite:
                pages, free, size = [
                    int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one())
                    for name in ("page_count", "freelist_count", "page_size")
                ]
                return (pages - free) * size
            total = " + ".join(f"pg_total_relation_size('{table.name}')" for table, _ in _TABLES)  # of files, no row is read
            return int((await connection.execute(text(f"SELECT {total}"))).scalar_one())

    async def _shrink(self) -> int:
        size = await self.size_bytes()
        if size <= self._max_bytes:
            return 0
        if not self._database.is_sqlite:
            # PostgreSQL reuses the room of deleted rows but does not give it back, so its own size would never fall:
            # go by the rows' sizes instead, which are an upper bound, as it compresses them.
            size = await self._rows_bytes()
        deleted, undecided = 0, await self._undecided_bytes()
        while size > self._max_bytes * _SHRINK_TO:
            table, age = await self._with_oldest()
            count, freed = (0, 0) if undecided > self._max_bytes * _UNDECIDED_SHARE else await self._delete_oldest(table, age)
            if not count:
                count, freed = await self._delete_undecided()
                undecided -= freed
            if not count:
                break
            deleted += count
            size = await self.size_bytes() if self._database.is_sqlite else size - freed
            await asyncio.sleep(_BETWEEN_BATCHES_S)
        return deleted

    async def _undecided_bytes(self) -> int:
        return int(await self._database.scalar(select(func.coalesce(func.sum(quarantine.c.size_bytes), 0)).where(_NOBODY_DECIDED)) or 0)

    async def _rows_bytes(self) -> int:
        """Of PostgreSQL's large tables by a sample: to read every row of millions takes minutes."""
        total = 0
        for table, _ in _TABLES:
            async with self._database.transaction(_TIMEOUT_S) as connection:
                rows = int(await connection.scalar(_LIVE_ROWS, {"name": table.name}) or 0)
                if rows <= _EXACTLY_ROWS:
                    total += int(await connection.scalar(select(func.coalesce(func.sum(table.c.size_bytes), 0))) or 0)
                    continue
                sample = table.tablesample(func.system(min(100.0, 100.0 * _SAMPLE_ROWS / rows)))
                total += int(rows * float(await connection.scalar(select(func.avg(sample.c.size_bytes))) or 0.0))
        return total

    async def _with_oldest(self) -> tuple[Table, Column[float]]:
        """The table with the oldest row."""
        found = []
        async with self._database.transaction(_TIMEOUT_S) as connection:
            for i, (table, age) in enumerate(_TABLES):
                oldest = await connection.scalar(select(func.min(age)).where(_DELETABLE.get(table, true())))
                found.append((float("inf") if oldest is None else oldest, i))
        return _TABLES[min(found)[1]]

    async def _delete_oldest(self, table: Table, age: Column[float], before: float | None = None) -> tuple[int, int]:
        """Delete one batch; returns rows and bytes."""
        most = _BATCH_ROWS if before is None or self._database.is_sqlite else _OLD_ROWS
        oldest = select(table.c.id).where(_DELETABLE.get(table, true())).order_by(age).limit(most)
        if before is not None:
            oldest = oldest.where(age < before)
        if not await self._database.rows(oldest.limit(1), timeout_s=_TIMEOUT_S):  # mostly there is nothing, and no need to hold writers up
            return 0, 0
        # The subquery is wrapped once more: PostgreSQL would otherwise be free to run it again for every row.
        chosen = select(oldest.cte("oldest").c.id)
        async with self._database.writing(timeout_s=_TIMEOUT_S) as connection:
            gone = (await connection.execute(delete(table).where(table.c.id.in_(chosen)).returning(table.c.size_bytes, age))).all()
            if gone and table is tool_outcomes:  # workers hold a copy, and this tells them to read again
                await connection.execute(update(memory).where(memory.c.kind == TOOL_OUTCOMES).values(number=memory.c.number + 1))
            if table is records:
                await touch(self._database, connection, (row[1] for row in gone))
        return len(gone), sum(int(row[0]) for row in gone)

    async def _delete_undecided(self) -> tuple[int, int]:
        """Delete a few pieces of content that wait for a person, not silently; returns rows and bytes."""
        table = quarantine
        oldest = select(table.c.id).where(_NOBODY_DECIDED).order_by(table.c.created_at, table.c.id).limit(_UNDECIDED_ROWS).cte("oldest")
        chosen = delete(table).where(table.c.id.in_(select(oldest.c.id)), _NOBODY_DECIDED)
        gone = await self._database.rows(chosen.returning(table.c.id, table.c.size_bytes))
        if gone:
            ids = ", ".join(sorted(row.id for row in gone))
            log.warning("the store is full: %d pieces of content that nobody has decided leave quarantine: %s", len(gone), ids)
        return len(gone), sum(int(row.size_bytes) for row in gone)

    async def _give_pages_back(self) -> None:
        """Return SQLite's free pages to the file system, a few at a time."""
        while True:
            async with self._database.transaction() as connection:
                before = int((await connection.exec_driver_sql("PRAGMA freelist_count")).scalar_one())
                # As a script: it frees one page a step, and a plain execute takes a single step.
                driver = (await connection.get_raw_connection()).driver_connection
                assert driver is not None
                await driver.executescript(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
                after = int((await connection.exec_driver_sql("PRAGMA freelist_count")).scalar_one())
            if after == 0 or after >= before:
                return
            await asyncio.sleep(_BETWEEN_BATCHES_S)

    async def _empty_log(self) -> None:
        """SQLite's write-ahead log has what was deleted. Where somebody always reads or writes, its room is soon written over anyway."""
        file = self._database.file
        for _ in range(_EMPTYING_TRIES if file is not None else 0):
            try:
                if await asyncio.to_thread(drivers.empty_log, str(file)):
                    return
            except sqlite3.Error as error:
                raise StoreUnavailable(str(error)) from error
            await asyncio.sleep(_BETWEEN_BATCHES_S)
