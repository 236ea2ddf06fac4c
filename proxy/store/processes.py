"""The processes that a store serves: each has a row and says every few seconds that it lives. What one leaves open is closed by the others.

An exchange that goes on has the name of its process in its row (`proxy.store.writer`). When that process has said nothing for a while, and
does not end its exchanges any more, each is `INTERRUPTED`; one that was only held up still puts its record in that place.

All times are the database's. Each sign of life also says what its clock says (`proxy.store.clock`).
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
DRIFT_S = 60.0
"""How long processes differ before it is drift: longer than it takes each of them to say twice what it runs, and longer than one that was
killed is taken for alive."""
CHANGE_S = 1.0
"""How soon it says that it runs something else."""
_END_S = 2.0


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


class _Difference(Struct, frozen=True):
    """Something in which processes differ."""

    since: float
    """By the clock of `Processes`."""
    values: frozenset[bytes]
    """JSON, of those that some process has had at every look since then: where each look shows others, changes come one after another, and
    each comes everywhere."""


def process_name() -> str:
    """Of this one, as no other has it."""
    return f"{socket.gethostname()[:40]}-{os.getpid()}-{os.urandom(4).hex()}"


class Processes:
    """This one's row, and the others'."""

    def __init__(
        self,
        database: Database,
        name: str,
        about: Callable[[], Mapping[str, Any]],
        *,
        journal: Journal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`about` is what it says of itself now: its release, the versions of its policies, keys and knowledge. In the `journal`'s folder
        are those of others. `clock` gives seconds.
        """
        self._journal, self._clock = journal, clock
        self._database, self.name, self.about = database, name, about
        self._memory = Memory(database, KIND)
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._written: Mapping[str, Any] = {}
        """What it has said of itself last."""
        self.alive = 1
        """How many live of those that this store serves."""
        self._differences: dict[str, _Difference] = {}
        """By what they are in."""
        self.problem = ""
        """Why it cannot say that it lives, as where a table is gone or locked that a ping of the store does not touch; "" while it can."""
        self.drift: Sequence[str] = ()
        """In what they have differed for `DRIFT_S`: something does not come everywhere. What comes everywhere within seconds, as another
        version of knowledge does, is no drift."""

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
            await self._database.execute(delete(memory).where(memory.c.id == self._memory.key(self.name)), alone=True)
        except StoreUnavailable as error:
            log.debug("process %s leaves its row: %s", self.name, error)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                await self.beat()
                await self.compare()
                await self.close_abandoned()
                self.problem = ""
            except StoreUnavailable as error:
                self.problem = str(error)
                log.debug("process %s cannot say that it lives: %s", self.name, error)
            except Exception:
                log.exception("process %s could not say that it lives", self.name)
            await self._pause(time.monotonic() + (CHANGE_S if self.problem else BEAT_S) * random.uniform(0.8, 1.2))

    async def _pause(self, until: float) -> None:
        """Until then, or until it has something else to say of itself."""
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0 and self.about() == self._written:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(left, CHANGE_S))

    async def beat(self) -> float:
        """Say that it lives; what the database's clock says. Raises `StoreUnavailable`."""
        about, now = self.about(), self._database.now
        self._written = about  # also where the store does not take it: then the next beat says it again
        row = self._memory.row(self._memory.key(self.name), "", msgspec.json.encode(about), self.name)
        insert = self._database.insert(memory).values(row | {"created_at": now, "used_at": now})
        changed = {"used_at": now, "content": insert.excluded.content}
        said = insert.on_conflict_do_update(index_elements=["id"], set_=changed).returning(memory.c.used_at)
        async with self._database.writing(alone=True) as connection:
            asked = time.monotonic()
            found = float((await connection.execute(said)).scalar_one())
            self._database.clock.compare(found, asked)
        return found

    async def compare(self) -> None:
        """See who lives, and whether all are alike. Raises `StoreUnavailable`."""
        living, about, now = await self.living(), self.about(), self._clock()
        before, self._differences = self._differences, {}
        for name in sorted(about):
            values = frozenset(msgspec.json.encode(one.get(name), order="sorted") for one in (about, *(other.about for other in living)))
            if len(values) > 1:
                lasting = before[name].values & values if name in before else frozenset()
                self._differences[name] = _Difference(before[name].since, lasting) if lasting else _Difference(now, values)
        drift = tuple(name for name, found in self._differences.items() if now - found.since >= DRIFT_S)
        if drift and drift != self.drift:
            log.warning("%d processes of this store differ in %s", len(living), " and ".join(drift))
        self.alive, self.drift = max(1, len(living)), drift

    async def close_abandoned(self) -> int:
        """Exchanges of processes that are gone are interrupted; how many. Raises `StoreUnavailable`."""
        times = await self._close_journals() if self._journal is not None else []
        silent = self._database.now - SILENT_S
        living = select(memory.c.link).where(memory.c.kind == KIND, memory.c.used_at > silent)
        left = and_(records.c.outcome == literal_column(f"'{PENDING}'"), records.c.created_at < silent, records.c.reason.not_in(living))
        if await self._database.rows(select(records.c.id).where(left).limit(1)):  # mostly there is nothing, and no need to hold writers up
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
            left.remove()
        return times

    async def living(self) -> Sequence[LivingProcess]:
        """All that live, the longest-lived first. Raises `StoreUnavailable`."""
        columns = memory.c.link, memory.c.content, memory.c.created_at, memory.c.used_at
        query = select(*columns).where(memory.c.kind == KIND, memory.c.used_at > self._database.now - SILENT_S)
        rows = await self._database.rows(query.order_by(memory.c.created_at, memory.c.link))
        return [LivingProcess(name, msgspec.json.decode(about), since, seen) for name, about, since, seen in rows]
