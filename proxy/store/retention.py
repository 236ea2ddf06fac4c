"""Deletes what is too old, and the oldest when the store has grown too large, in small batches that let writers in between.

A background task of every worker; several at once delete the same rows, which does no harm. Age counts from a record's
`created_at`, from when feedback was given or a tool outcome learned, and from the last use of everything else: scratchpad items,
clashes, quarantined content that was decided, and what is remembered of runs. A decision stays in the audit trail until it is
too old and what it decided is gone. A failure goes by its last change, and its revisions after it: they also say which turns were counted
already.

A clock that jumped ahead would make everything old at once. What passes between two rounds is compared with the time that the machine has
been up for, and the first round of a process with the newest row, which is not to be too old itself; a clock that is further ahead deletes
nothing by age until it goes back, or has stayed so for a day.

Quarantined content that nobody has decided has no age: it goes only when the store is too large and this content takes more than half of
the room (or nothing else is left to delete), the oldest first, and the log then names every piece.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable

from sqlalchemy import Column, ColumnElement, Table, delete, func, or_, select, text, true, update

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
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
"""By so much the clock may be ahead of the time that has passed: of a machine whose sleep nothing counts, too."""
_DOUBT_S = _DAY_S
"""After so long a time without a correction the clock is believed."""
_BATCH_ROWS = 500
_BETWEEN_BATCHES_S = 0.02
_UNDECIDED_ROWS = 100
"""A batch of these is one line of the log."""
_UNDECIDED_SHARE = 0.5
"""Of the store's limit: a flood of doubtful content must not push out what prompts refer to."""
_SHRINK_TO = 0.9
"""Part of the limit that is left when the size was passed, so that not every round has to delete."""
_VACUUM_PAGES = 1000
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
    quarantine: ~_NOBODY_DECIDED,
    decisions: ~or_(
        select(quarantine.c.id).where(quarantine.c.id == decisions.c.subject).exists(),
        select(clashes.c.id).where(clashes.c.id == decisions.c.subject).exists(),
    ),
    failure_revisions: ~select(failures.c.id).where(failures.c.id == failure_revisions.c.failure_id).exists(),
}
"""Which rows of a table may go, where not all of them may."""


def uptime_s() -> float:
    """Seconds that the machine has been up, its sleep included where that is counted (Linux)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class Retention:
    """Keeps the store within an age and a size."""

    def __init__(
        self,
        database: Database,
        *,
        days: float = 30.0,
        max_mb: float = 2048,
        every_s: float = 600.0,
        clock: Callable[[], float] = time.time,
        uptime: Callable[[], float] = uptime_s,
    ) -> None:
        """`max_mb` is in units of 1,000,000 bytes; `uptime` counts seconds from any moment on, and nobody sets it."""
        self._database, self._clock, self._uptime = database, clock, uptime
        self._believed_ahead: float | None = None
        """How far `clock` may be ahead of `uptime`; None before the first round."""
        self._doubted_at: float | None = None
        self._days, self._max_bytes, self._every_s = days, max_mb * 1e6, every_s
        self._rollups = Rollups(database)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin: once now, then every `every_s` seconds."""
        self._task = asyncio.create_task(self._run(), name="retention")

    async def stop(self) -> None:
        """End the task."""
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _run(self) -> None:
        while True:
            try:
                deleted = await self.run_once()
            except StoreUnavailable as error:
                log.debug("retention waits: %s", error)
            except Exception:
                log.exception("retention failed")
            else:
                if deleted:
                    log.info("retention deleted %d rows", deleted)
            await asyncio.sleep(self._every_s)

    async def run_once(self) -> int:
        """Delete what is due; returns the number of rows. Raises `StoreUnavailable`."""
        deleted = 0
        cutoff = self._clock() - self._days * _DAY_S
        for table, age in _TABLES if await self._believes(cutoff + self._days * _DAY_S) else ():
            while count := (await self._delete_oldest(table, age, before=cutoff))[0]:
                deleted += count
                await asyncio.sleep(_BETWEEN_BATCHES_S)
        deleted += await self._shrink()
        if deleted:
            await self._rollups.forget(cutoff)
        if deleted and self._database.is_sqlite:
            await self._give_pages_back()
        return deleted

    async def _believes(self, now: float) -> bool:
        """Whether it can be so late."""
        uptime = self._uptime()
        if self._believed_ahead is None:
            newest = await self._newest()
            self._believed_ahead = math.inf if newest is None else newest + self._days * _DAY_S - uptime
        if now - uptime > self._believed_ahead:
            if self._doubted_at is None:
                self._doubted_at = uptime
                late_h, wait_h = (now - uptime - self._believed_ahead) / 3600, _DOUBT_S / 3600
                log.warning("the clock is %.0f h further than can be: nothing is deleted by age for the next %.0f h", late_h, wait_h)
            if uptime - self._doubted_at < _DOUBT_S:
                return False
        self._believed_ahead, self._doubted_at = now - uptime + _JUMP_S, None
        return True

    async def _newest(self) -> float | None:
        """When the store was last written to, or used."""
        async with self._database.transaction() as connection:
            times = [await connection.scalar(select(func.max(age))) for _, age in _TABLES]
        return max((found for found in times if found is not None), default=None)

    async def size_bytes(self) -> int:
        """What the store takes on disk, without pages that are free."""
        async with self._database.transaction() as connection:
            if self._database.is_sqlite:
                pages, free, size = [
                    int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one())
                    for name in ("page_count", "freelist_count", "page_size")
                ]
                return (pages - free) * size
            total = " + ".join(f"pg_total_relation_size('{table.name}')" for table, _ in _TABLES)
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
        async with self._database.transaction() as connection:
            return int(await connection.scalar(select(func.coalesce(func.sum(quarantine.c.size_bytes), 0)).where(_NOBODY_DECIDED)) or 0)

    async def _rows_bytes(self) -> int:
        async with self._database.transaction() as connection:
            totals = [await connection.scalar(select(func.coalesce(func.sum(table.c.size_bytes), 0))) for table, _ in _TABLES]
        return sum(int(total or 0) for total in totals)

    async def _with_oldest(self) -> tuple[Table, Column[float]]:
        """The table with the oldest row."""
        found = []
        async with self._database.transaction() as connection:
            for i, (table, age) in enumerate(_TABLES):
                oldest = await connection.scalar(select(func.min(age)).where(_DELETABLE.get(table, true())))
                found.append((float("inf") if oldest is None else oldest, i))
        return _TABLES[min(found)[1]]

    async def _delete_oldest(self, table: Table, age: Column[float], before: float | None = None) -> tuple[int, int]:
        """Delete one batch; returns rows and bytes."""
        oldest = select(table.c.id).where(_DELETABLE.get(table, true())).order_by(age).limit(_BATCH_ROWS)
        if before is not None:
            oldest = oldest.where(age < before)
        async with self._database.transaction() as connection:  # mostly there is nothing, and no need to hold writers up
            if (await connection.execute(oldest.limit(1))).first() is None:
                return 0, 0
        # The subquery is wrapped once more: PostgreSQL would otherwise be free to run it again for every row.
        chosen = select(oldest.cte("oldest").c.id)
        async with self._database.writing() as connection:
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
        async with self._database.transaction() as connection:
            gone = (await connection.execute(chosen.returning(table.c.id, table.c.size_bytes))).all()
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
