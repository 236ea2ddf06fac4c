"""The processes that a store serves: each has a row and says every few seconds that it lives. What one leaves open is closed by the others.

An exchange that goes on has the name of its process in its row (`proxy.store.writer`). When that process has said nothing for a while, and
does not end its exchanges any more, each is `INTERRUPTED`; one that was only held up still puts its record in that place.

All times are the database's. A machine whose own clock is far from it is said to be so: its records stand at wrong times.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import and_, delete, literal_column, select, update

from proxy.errors import StoreUnavailable
from proxy.store.database import Database, write
from proxy.store.journal import Journal
from proxy.store.memory import Memory
from proxy.store.records import INTERRUPTED, PENDING, to_row
from proxy.store.rollups import touch
from proxy.store.tables import memory, records

log = logging.getLogger(__name__)

KIND = "process"
ENDED = "process_ended"
"""The reason of an exchange that was interrupted."""
BEAT_S, SILENT_S = 10.0, 45.0
"""Between two signs of life, and after so long without one a process is gone."""
_END_S = 2.0
MAX_SKEW_S = 30.0
"""Between a machine's clock and the database's."""


def _interrupting(database: Database) -> Any:
    insert = database.insert(records)
    return insert.on_conflict_do_update(index_elements=["id"], set_={name: insert.excluded[name] for name in ("outcome", "reason")})


class LivingProcess(Struct, frozen=True):
    """One of them."""

    name: str
    about: Mapping[str, Any]
    since: float
    seen: float
    """Seconds since the epoch, by the database's clock."""


def process_name() -> str:
    """Of this one, as no other has it."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(4).hex()}"


class Processes:
    """This one's row, and the others'."""

    def __init__(
        self,
        database: Database,
        name: str,
        about: Mapping[str, Any],
        *,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`about` is what it says of itself: its version, its policies. In the `journal`'s folder are those of others."""
        self._journal = journal
        self._database, self.name, self._about, self._clock = database, name, msgspec.json.encode(about), clock
        self._memory = Memory(database, KIND)
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self.about, self.alive = about, 1
        """What it says of itself, and how many live of those that this store serves."""
        self.drift: Sequence[str] = ()
        """In what of that they differ: a policy or a release that has not come everywhere."""
        self.problem = ""
        """What is wrong with this machine's clock; "" where it is right."""

    def start(self) -> None:
        """Begin, now."""
        self._task = asyncio.create_task(self._run(), name="process-beat")

    async def stop(self) -> None:
        """It ends, and leaves nothing open."""
        self._stopping.set()
        if self._task is not None:  # what it asks now is answered: a connection that is cut off is none that can be used again
            await asyncio.wait((self._task,), timeout=_END_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        try:
            async with self._database.writing(alone=True) as connection:
                await connection.execute(delete(memory).where(memory.c.id == self._memory.key(self.name)))
        except StoreUnavailable as error:
            log.debug("process %s leaves its row: %s", self.name, error)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.beat()
                await self.compare()
                await self.close_abandoned()
            except StoreUnavailable as error:
                log.debug("process %s cannot say that it lives: %s", self.name, error)
            except Exception:
                log.exception("process %s could not say that it lives", self.name)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), BEAT_S * random.uniform(0.8, 1.2))

    async def beat(self) -> float:
        """Say that it lives; what the database's clock says. Raises `StoreUnavailable`."""
        now, row = self._database.now, self._memory.row(self._memory.key(self.name), "", self._about, self.name)
        insert = self._database.insert(memory).values(row | {"created_at": now, "used_at": now})
        said = insert.on_conflict_do_update(index_elements=["id"], set_={"used_at": now}).returning(memory.c.used_at)
        async with self._database.writing(alone=True) as connection:
            asked = self._clock()
            found = float((await connection.execute(said)).scalar_one())
            ahead_s = (asked + self._clock()) / 2 - found
        self._check_clock(ahead_s)
        return found

    async def compare(self) -> None:
        """See who lives, and whether all are alike. Raises `StoreUnavailable`."""
        living = await self.living()
        told = [one.about for one in living] or [self.about]
        drift = tuple(name for name in sorted({*self.about}) if any(one.get(name) != self.about[name] for one in told))
        if drift and drift != self.drift:
            log.warning("%d processes of this store differ in %s", len(living), " and ".join(drift))
        self.alive, self.drift = max(1, len(living)), drift

    def _check_clock(self, ahead_s: float) -> None:
        wrong = abs(ahead_s) > MAX_SKEW_S
        if wrong and not self.problem:
            log.warning("this machine's clock is %+.0f s from the store's: its records stand at wrong times until it is set right", ahead_s)
        self.problem = f"this machine's clock is {ahead_s:+.0f} s from the store's" if wrong else ""

    async def close_abandoned(self) -> int:
        """Exchanges of processes that are gone are interrupted; how many. Raises `StoreUnavailable`."""
        times = await self._close_journals() if self._journal is not None else []
        silent = self._database.now - SILENT_S
        living = select(memory.c.link).where(memory.c.kind == KIND, memory.c.used_at > silent)
        left = and_(records.c.outcome == literal_column(f"'{PENDING}'"), records.c.created_at < silent, records.c.reason.not_in(living))
        async with self._database.transaction() as connection:  # mostly there is nothing, and no need to hold writers up
            some = (await connection.execute(select(records.c.id).where(left).limit(1))).first() is not None
        if some:
            async with self._database.writing() as connection:
                closed = update(records).where(left).values(outcome=INTERRUPTED, reason=ENDED).returning(records.c.created_at)
                closed_times = list((await connection.execute(closed)).scalars())
                await touch(self._database, connection, closed_times)
            times += closed_times
        if times:
            log.warning("%d exchanges were interrupted: the process that served them has ended", len(times))
        return len(times)

    async def _close_journals(self) -> list[float]:
        """What killed processes left in their journals is interrupted; when each began. Raises `StoreUnavailable`."""
        times: list[float] = []
        for left in await asyncio.to_thread(self._journal.abandoned) if self._journal is not None else ():
            for start in range(0, len(left.records), 500):
                some = left.records[start : start + 500]
                async with self._database.writing() as connection:
                    over = select(records.c.id).where(records.c.id.in_([one.id for one in some]), records.c.outcome != PENDING)
                    known = set((await connection.execute(over)).scalars())
                    rows = [to_row(replace(one, outcome=INTERRUPTED, reason=ENDED)) for one in some if one.id not in known]
                    if rows:
                        await write(connection, self._database.compiled(_interrupting), rows)
                        times += (begun := [one.created_at for one in some if one.id not in known])
                        await touch(self._database, connection, begun)
            left.path.unlink(missing_ok=True)
        return times

    async def living(self) -> Sequence[LivingProcess]:
        """All that live, the longest-lived first. Raises `StoreUnavailable`."""
        columns = memory.c.link, memory.c.content, memory.c.created_at, memory.c.used_at
        query = select(*columns).where(memory.c.kind == KIND, memory.c.used_at > self._database.now - SILENT_S)
        async with self._database.transaction() as connection:
            rows = (await connection.execute(query.order_by(memory.c.created_at, memory.c.link))).all()
        return [LivingProcess(name, msgspec.json.decode(about), since, seen) for name, about, since, seen in rows]
