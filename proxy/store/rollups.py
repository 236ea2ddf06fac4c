"""What exchanges add up to, kept by minute, hour and day: figures of a month come from some dozen rows instead of millions of records.

A row is a copy of what `proxy.store.record_sums` would find, and nothing else is true of it: whoever writes or deletes records calls
`touch` in the same transaction, which adds their minutes to ``rollup_changes``, where no writer waits for another. `fold` takes them from
there, and raises the `version` of the minutes, hours and days that they are in. A row counts while `built`, the version that its content
was made of, is its version, and no change of its time waits to be folded; every other is made anew in the background
(`proxy.store.figures`), and its time is read from the records until then. So a late record, a batch that is written twice, retention and
any number of workers need no other care, and what is shown is never older than what is stored.

Where there is no row, there was no record: but only from `complete_from` on, a day after the table was first used, as records of
before were written by releases that did not know it. Times before that have rows since somebody looked for records in them (`mark_past`),
and where they have none they are read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from sqlalchemy import ColumnElement, and_, bindparam, delete, func, literal_column, or_, select, update

from proxy.ports.panels import Bucket, StagePanel
from proxy.store.database import Database, write
from proxy.store.drivers import AsyncConnection
from proxy.store.tables import key_of, records
from proxy.store.tables import rollup_changes as changes
from proxy.store.tables import rollup_marks as marks
from proxy.store.tables import rollups as table

MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86_400
LEVELS_S = (DAY_S, HOUR_S, MINUTE_S)
_REVISION = 4
"""Of what a row's content means, to be raised with each new field of `Bucket`: a row of another revision is made anew."""
_FOLDED = 5000
"""Changes that are folded at once."""
_COUNTED_ANEW = ("quarantined", "quarantine", "clashes", "clash_strategies", "clashes_open", "failures", "feedback")
"""What people decide and say: it has tables of its own, and changes later."""
_PLAIN = tuple(name for name in Bucket.__struct_fields__ if name not in ("start", "seconds", "panels", *_COUNTED_ANEW))


class Row(Struct, frozen=True):
    """A time, and what it adds up to."""

    seconds: int
    start: int
    version: int
    built: int
    panels: str
    content: bytes

    @property
    def is_good(self) -> bool:
        """Whether nothing happened to its records since it was made."""
        return self.built == self.version


class Due(Struct, frozen=True):
    """A row to be made."""

    seconds: int
    start: int
    version: int


class _Content(Struct, omit_defaults=True):
    plain: dict[str, Any] = field(default_factory=dict)
    panels: dict[str, msgspec.Raw] = field(default_factory=dict)
    """By what `panel_key` gives."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Content).decode
_COLUMNS = (table.c.seconds, table.c.start, table.c.version, table.c.built, table.c.panels, table.c.content)


def panel_key(panel: type[StagePanel]) -> str:
    """Changes with what the panel counts."""
    return key_of(panel.name, str(panel.revision), str(_REVISION), *panel.__struct_fields__)[:12]


def packed(bucket: Bucket, panels: Sequence[type[StagePanel]], others: Mapping[str, msgspec.Raw]) -> bytes:
    """A bucket's content; `others` are sums of panels that this process does not know."""
    own = {panel_key(panel): msgspec.Raw(_encode(bucket.of(panel))) for panel in panels}
    return _encode(_Content({name: value for name in _PLAIN if (value := getattr(bucket, name))}, {**others, **own}))


def unpacked(row: Row, panels: Sequence[type[StagePanel]]) -> Bucket:
    """The other way; a panel that was not known when the row was made has nothing in it."""
    found = _decode(row.content)
    bucket = msgspec.convert({**found.plain, "start": float(row.start), "seconds": row.seconds}, Bucket)
    for panel in panels:
        if (stored := found.panels.get(panel_key(panel))) is not None:
            bucket.panels[panel.name] = msgspec.json.decode(stored, type=panel)
    return bucket


def times_of(minutes: Iterable[int]) -> list[tuple[int, int]]:
    """Seconds and start of the rows that these minutes are in, in the one order in which everybody takes their locks."""
    return sorted({(seconds, start // seconds * seconds) for start in minutes for seconds in LEVELS_S})


async def touch(database: Database, connection: AsyncConnection, times: Iterable[float]) -> None:
    """Say that records of these times were written or deleted, in the transaction that did so."""
    if minutes := sorted({int(at // MINUTE_S) * MINUTE_S for at in times}):
        await write(connection, database.compiled(_changing), [(minute,) for minute in minutes])


def _empty(times: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """New rows, their columns in the table's order."""
    return [{"seconds": s, "start": at, "version": 1, "built": 0, "wait_until": 0.0, "panels": "", "content": b"{}"} for s, at in times]


def _changing(database: Database) -> Any:
    return database.insert(changes).values(minute=bindparam("minute"))


def _raising(database: Database) -> Any:
    raised = {"version": table.c.version + literal_column("1")}
    return database.insert(table).on_conflict_do_update(index_elements=["seconds", "start"], set_=raised)


class Rollups:
    """The table's rows."""

    def __init__(self, database: Database, panels: Sequence[type[StagePanel]] = ()) -> None:
        """`panels` are what this process adds up beside what every row has."""
        self._database, self.panels = database, panels
        self._keys = frozenset((f"r{_REVISION}", *map(panel_key, panels)))

    def is_whole(self, row: Row) -> bool:
        """Whether it holds all of this process's panels."""
        return self._keys <= set(row.panels.split())

    async def complete_from(self) -> float:
        """From when on no row means no record. Raises `StoreUnavailable`."""
        found = await self._database.scalar(select(marks.c.complete_from))
        return math.inf if found is None else float(found)

    async def between(self, seconds: int, since: int, until: int) -> list[Row]:
        """Rows of that length, the oldest first, good or not. Raises `StoreUnavailable`."""
        query = select(*_COLUMNS).where(table.c.seconds == seconds, table.c.start >= since, table.c.start < until)
        waiting = select(changes.c.minute).where(changes.c.minute >= since, changes.c.minute < until).distinct()
        async with self._database.transaction() as connection:  # changes first: one that is folded meanwhile shows in its row
            changed = {minute // seconds * seconds for minute in (await connection.execute(waiting)).scalars()}
            rows = {row.start: Row(*row) for row in (await connection.execute(query)).all()}
        for start in changed:
            rows[start] = Row(seconds, start, 1, 0, "", b"{}")
        return [rows[start] for start in sorted(rows)]

    # ---- making them ----

    async def fold(self) -> None:
        """Take what changed into account: the rows concerned are to be made anew. Raises `StoreUnavailable`."""
        some = select(changes.c.id).order_by(changes.c.id).limit(_FOLDED).with_for_update(skip_locked=True).cte("some")
        taken = delete(changes).where(changes.c.id.in_(select(some.c.id))).returning(changes.c.minute)
        if not await self._database.rows(select(changes.c.id).limit(1)):
            return
        number = _FOLDED
        while number == _FOLDED:
            async with self._database.writing() as connection:
                minutes = list((await connection.execute(taken)).scalars())
                if rows := [tuple(row.values()) for row in _empty(times_of(minutes))]:
                    await write(connection, self._database.compiled(_raising), rows)
            number = len(minutes)

    async def due(self, seconds: int, now: float, settled_s: float, lacking: Sequence[str], limit: int) -> list[Due]:
        """Rows to be made, the newest first: those that are not good, and those that hold what `lacking` lists, as `panels_kept` has it."""
        await self.fold()
        c = table.c
        wanted: ColumnElement[bool] = c.built != c.version
        if lacking:
            wanted = or_(wanted, c.panels.in_(lacking))
        query = select(c.seconds, c.start, c.version).where(c.seconds == seconds, wanted, c.wait_until <= now)
        query = query.where(c.start <= now - seconds - settled_s).order_by(c.start.desc()).limit(limit)
        return [Due(*found) for found in await self._database.rows(query)]

    async def left(self) -> int:
        """Hours and days that are not good."""
        query = select(func.count()).where(table.c.built != table.c.version, table.c.seconds != MINUTE_S)
        return int(await self._database.scalar(query) or 0)

    async def panels_kept(self) -> list[str]:
        """What good rows hold that lack one of this process's panels: their column, each once."""
        query = select(table.c.panels).where(table.c.built == table.c.version).distinct()
        return [one for (one,) in await self._database.rows(query) if not self._keys <= set(one.split())]

    async def claim(self, due: Due, now: float, for_s: float) -> bool:
        """Take a row, so that no other worker makes it in the next seconds; whether it was free."""
        free = update(table).where(_is(due), table.c.wait_until <= now).values(wait_until=now + for_s)
        return bool(await self._database.execute(free))

    async def put(self, due: Due, bucket: Bucket, wait_until: float) -> bool:
        """Store what was found, unless something happened to its records since `due` was read; whether it was stored.

        Sums of panels that another process has added stay, as they are of the same records.
        """
        async with self._database.writing() as connection:
            found = (await connection.execute(select(*_COLUMNS).where(_is(due)).with_for_update())).first()
            changed = select(changes.c.id).where(changes.c.minute >= due.start, changes.c.minute < due.start + due.seconds).limit(1)
            if found is None or found.version != due.version or (await connection.execute(changed)).first() is not None:
                return False
            old = Row(*found)
            others = {k: sums for k, sums in _decode(old.content).panels.items() if k not in self._keys} if old.is_good else {}
            values = {
                "content": packed(bucket, self.panels, others),
                "panels": " ".join(sorted({*self._keys, *others})),
                "built": due.version,
                "wait_until": wait_until,
            }
            await connection.execute(update(table).where(_is(due)).values(values))
        return True

    async def forget(self, before: float) -> None:
        """Delete rows of times that have no records any more: those that ended a day before the first one, and before this time."""
        await self.fold()  # what was deleted just now would give them a row again
        async with self._database.writing() as connection:
            oldest = await connection.scalar(select(func.min(records.c.created_at)))
            end = min(before, oldest - DAY_S) if oldest is not None else before
            await connection.execute(delete(table).where(table.c.start < end - table.c.seconds))

    # ---- records of before ----

    async def begin(self, now: float) -> None:
        """Say once from when on every record is known to the table."""
        later = now + DAY_S
        new = self._database.insert(marks).values(id=1, complete_from=later, marked_from=later).on_conflict_do_nothing()
        if not await self._database.rows(select(marks.c.id)):
            await self._database.execute(new)

    async def mark_past(self) -> bool:
        """Give rows to the last day that has records and that nobody has looked at yet; whether there was one."""
        async with self._database.transaction() as connection:
            until = await connection.scalar(select(marks.c.marked_from))
            if until is None:
                return False
            newest = await connection.scalar(select(func.max(records.c.created_at)).where(records.c.created_at < until))
        day = None if newest is None else int(newest // DAY_S) * DAY_S
        async with self._database.writing() as connection:
            if day is not None:
                rows = _empty([*((HOUR_S, start) for start in range(day, day + DAY_S, HOUR_S)), (DAY_S, day)])
                await connection.execute(self._database.insert(table).on_conflict_do_nothing(), rows)
            further = update(marks).where(marks.c.marked_from >= until).values(marked_from=None if day is None else float(day))
            await connection.execute(further)
        return day is not None


def _is(due: Due) -> ColumnElement[bool]:
    return and_(table.c.seconds == due.seconds, table.c.start == due.start)
