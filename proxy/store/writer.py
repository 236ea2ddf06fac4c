"""Takes records off the request's path: a queue that `submit` fills in under a microsecond, and a task that writes it in batches.

Whoever has seen an exchange's id finds it, whatever becomes of the process that served it. With PostgreSQL an exchange has a row from its
start on: `begin` takes a first one, which goes to the database at once, together with those that came while the ones before were written,
and no byte of an answer leaves before. With SQLite `begin` writes a line of the `Journal`, and who goes on for a second gets the row. The
record takes the row's place.

A batch goes to the database every quarter of a second, or sooner once 500 records wait. While the store is locked or gone the
batch is kept and tried again; when the queue is full the newest records are dropped and counted. Encoding and masking happen in a
thread, with SQLite the driver's own, as it takes the rows. They are tuples: with SQLAlchemy Core's dictionaries a record costs about a
third more CPU (``python -m benchmarks.records``).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import replace
from sqlalchemy import literal_column

from proxy.errors import StoreUnavailable
from proxy.ports import Counters
from proxy.store.database import Database, StoreRejected, write
from proxy.store.journal import Journal
from proxy.store.records import INTERRUPTED, PENDING, Record, careful_row, details_of, to_row
from proxy.store.rollups import touch
from proxy.store.tables import records as table

log = logging.getLogger(__name__)

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_BEGUN_WITHIN_S = 0.25
"""So long an answer waits for its row at most; a store that takes longer is waited for by none."""
STOP_S = 5.0
"""So long what waits is tried at the end, at least."""
_LASTS_S = 1.0
"""With a journal, an exchange that takes longer gets a row meanwhile."""
_SINCE_ITS_START = ("id", "client", "run_id")
"""Of an exchange, as its first row has it: an index of each need not be written again."""
_AT_ONCE = 50
"""Records that a thread encodes before it lets the event loop's have the interpreter."""


class RecordWriter:
    """One worker's queue of records. Everything but the flush's thread runs on the event loop."""

    def __init__(
        self,
        database: Database,
        counters: Counters,
        *,
        max_rows: int = 10_000,
        max_bytes: int = 64_000_000,
        batch_rows: int = 500,
        flush_every_s: float = 0.25,
        journal: Journal | None = None,
    ) -> None:
        """With a `journal` no exchange waits for its row. `max_rows` and `max_bytes` (of bodies) bound what waits; counts
        `records.written`, `.lost` and `.write_errors`.
        """
        self._database, self._counters, self._journal = database, counters, journal
        self._max_rows, self._max_bytes = max_rows, max_bytes
        self._batch_rows, self._flush_every_s = batch_rows, flush_every_s
        self._waiting: dict[str, Record] = {}
        self._writing: dict[str, Record] = {}
        self._rows: _Rows | None = None
        """`_writing`, encoded once it is needed, and kept for the next try."""
        self._body_bytes = 0
        self._some, self._full = asyncio.Event(), asyncio.Event()
        self._lock = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._beginning: dict[str, Record] = {}
        """Without a row yet, and nobody writes them."""
        self._starts, self._begun = asyncio.Event(), asyncio.Event()
        """Set when there are some, and when those that wait now have their rows."""
        self._slow_from = math.inf
        """When those that are written now will have taken too long."""
        self._starter: asyncio.Task[None] | None = None
        self._stopping = asyncio.Event()
        self._dropping = False
        self.problem = ""
        """Why records wait that should be written; "" while all is well. A full disk lets `Database.ping` pass."""

    def start(self) -> None:
        """Begin to write. Needs a running event loop; the database need not be available."""
        if self._journal is not None:
            self._journal.start()
        self._task = asyncio.create_task(self._run(), name="record-writer")
        self._starter = asyncio.create_task(self._start_rows(), name="record-starter")

    async def stop(self, deadline_s: float = STOP_S) -> None:
        """Write what waits, for at most `deadline_s` seconds; what then remains is counted as lost."""
        if self._starter is not None:  # what it writes now is written: a connection that is cut off is none that can be used again
            starter, self._starter = self._starter, None
            self._stopping.set()
            self._starts.set()
            await asyncio.wait((starter,), timeout=deadline_s)
            starter.cancel()
        if self._task:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        try:
            async with asyncio.timeout(deadline_s):
                while len(self):
                    await self._flush_patiently()
        except TimeoutError:
            remaining = len(self)
            self._waiting, self._writing, self._rows = {}, {}, None
            self._counters.count("records.lost", remaining)
            log.warning("%d records were not written before shutdown: %s", remaining, self._database.problem or "the store is too slow")
        if self._journal is not None:
            self._journal.stop()

    def __len__(self) -> int:
        """Records that are not in the database yet."""
        return len(self._waiting) + len(self._writing)

    def begin(self, record: Record) -> asyncio.Event | None:
        """Queue the row of an exchange that begins; never waits, never raises. What it returns is set when the row is there, or does not
        come soon: no client waits for a store that is slow, and none at all for one that is away.
        """
        in_journal = self._journal is not None and self._journal.is_open
        if in_journal and self._journal is not None:
            self._journal.begin(record)
        if self._starter is None or not self._database.available or len(self._beginning) >= self._max_rows:
            return None
        self._beginning[record.id] = record
        if in_journal:
            self._starts.set()
            return None
        loop = asyncio.get_running_loop()
        if len(self._beginning) == 1:
            self._starts.set()
            loop.call_later(_BEGUN_WITHIN_S, self._begun.set)
        return self._begun if loop.time() < self._slow_from else None

    def submit(self, record: Record) -> None:
        """Queue `record`; never waits, never raises. Full: it is dropped and counted in `records.lost`."""
        waiting = self._waiting
        self._beginning.pop(record.id, None)
        if len(waiting) + len(self._writing) >= self._max_rows or self._body_bytes > self._max_bytes:
            self._drop(record.id)
            return
        waiting[record.id] = record
        if record.request_body is not None or record.answer_body is not None:
            self._body_bytes += _body_bytes(record)
        if len(waiting) == 1:
            self._some.set()
        elif len(waiting) == self._batch_rows:
            self._full.set()

    def pending(self, record_id: str) -> Record | None:
        """A record that is not in the database yet, as it was submitted."""
        return self._waiting.get(record_id) or self._writing.get(record_id)

    async def begun(self, record_id: str) -> Record | None:
        """What is known of an exchange that goes on in another process and has no row yet."""
        return await asyncio.to_thread(self._journal.find, record_id) if self._journal is not None else None

    async def flush(self) -> None:
        """Write all that waits now. Raises `StoreUnavailable`; the records are then kept for the next try.

        What comes in meanwhile is left to gather: written at once it would go in batches of a few rows, at twice the CPU.
        """
        async with self._lock:
            due = len(self)
            while due > 0 and len(self):
                due -= await self._write_batch()

    # ---- the task ----

    async def _run(self) -> None:
        while True:
            await self._some.wait()
            try:
                async with asyncio.timeout(self._flush_every_s):
                    await self._full.wait()
            except TimeoutError:
                pass
            await self._flush_patiently()

    async def _start_rows(self) -> None:
        """What fails here is made up for by the exchange's record."""
        while not self._stopping.is_set():
            await self._starts.wait()
            if self._journal is not None and self._journal.is_open:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), _LASTS_S)
            self._starts.clear()
            rows, self._beginning = self._in_time(self._beginning), {}
            if not rows:
                continue
            begun, self._begun = self._begun, asyncio.Event()
            self._slow_from = asyncio.get_running_loop().time() + _BEGUN_WITHIN_S
            try:
                await self._database.put(self._database.compiled(_starting), _Rows(rows))
            except StoreUnavailable as error:
                log.debug("%d exchanges begin without a row: %s", len(rows), error)
            except Exception:  # a bug of ours must not stop all later ones
                log.exception("the rows of %d exchanges could not be begun", len(rows))
            self._slow_from = math.inf
            begun.set()

    async def _flush_patiently(self) -> None:
        pause_s, failing = _FIRST_PAUSE_S, False
        while True:
            try:
                await self.flush()
            except StoreUnavailable as error:
                self._counters.count("records.write_errors")
                if not failing:
                    log.warning("records cannot be written, %d wait: %s", len(self), error)
                failing, self.problem = True, str(error)
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                continue
            if failing:
                log.info("records are written again")
            self._dropping, self.problem = False, ""
            return

    async def _write_batch(self) -> int:
        """Write one batch; returns how many records it held."""
        if not self._writing:
            self._take_batch()
        if self._rows is None:
            self._rows = _Rows(self._in_time(self._writing))
        written, lost = len(self._rows), 0
        try:
            await self._insert(self._rows)
        except StoreRejected:
            written, lost = await self._insert_one_by_one()
        except StoreUnavailable:
            raise
        except Exception:  # a bug of ours must not stop all later records
            log.exception("a batch of %d records could not be written", len(self._rows))
            written, lost = 0, len(self._rows)
        handled = len(self._writing)
        if self._journal is not None:
            self._journal.end(self._writing)
        if self._body_bytes:
            self._body_bytes -= sum(map(_body_bytes, self._writing.values()))
        self._writing, self._rows = {}, None
        if written:
            self._counters.count("records.written", written)
        if lost:
            self._counters.count("records.lost", lost)
        return handled

    def _take_batch(self) -> None:
        waiting = self._waiting
        if len(waiting) <= 2 * self._batch_rows:
            self._writing, self._waiting = waiting, {}
        else:
            chosen = list(waiting)[: self._batch_rows]
            self._writing = {record_id: waiting.pop(record_id) for record_id in chosen}
        if not self._waiting:
            self._some.clear()
        if len(self._waiting) < self._batch_rows:  # `submit` sets it only on reaching this number
            self._full.clear()

    async def _insert(self, rows: _Rows) -> None:
        if self._body_bytes or not self._database.is_sqlite:  # to mask bodies takes seconds; another driver is on the event loop
            await asyncio.to_thread(iter, rows)
        async with self._database.writing(reads=False) as connection:
            await write(connection, self._database.compiled(_inserting), rows)
            await touch(self._database, connection, rows.times)

    async def _insert_one_by_one(self) -> tuple[int, int]:
        """The rows of a refused batch, each in its own transaction. Returns how many were written and lost."""
        written = lost = 0
        self._counters.count("records.write_errors")
        for record in self._in_time(self._writing):
            try:
                await self._insert(_Rows([record], careful_row))
                written += 1
            except StoreRejected as error:
                log.warning("record %s cannot be stored: %s", record.id, error)
                lost += 1
        return written, lost

    def _in_time(self, records: dict[str, Record]) -> list[Record]:
        """Those of before the store's clock was known at their times by it: a machine's that is a month behind would have them deleted."""
        corrected, found = self._database.clock.corrected, []
        for record in records.values():
            moment = corrected(record.created_at)
            found.append(record if moment == record.created_at else replace(record, created_at=moment))
        return found

    def _drop(self, record_id: str) -> None:
        if self._journal is not None:
            self._journal.end((record_id,))
        self._counters.count("records.lost")
        if not self._dropping:
            self._dropping = True
            log.warning("the queue of records is full (%d): new ones are dropped", len(self))


def _starting(database: Database) -> Any:
    """A record that is there already stays."""
    return database.insert(table).on_conflict_do_nothing()


def _inserting(database: Database) -> Any:
    """In the place of the exchange's first row. A batch whose commit was cut off may be there already: the same id twice is no error."""
    insert = database.insert(table)
    changed = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in _SINCE_ITS_START}
    unfinished = table.c.outcome.in_((literal_column(f"'{PENDING}'"), literal_column(f"'{INTERRUPTED}'")))
    return insert.on_conflict_do_update(index_elements=["id"], set_=changed, where=unfinished)


class _Rows:
    """Records as rows, encoded by whoever first asks for them: with SQLite the driver's thread, before it begins to write, so that no
    thread of our own has to be woken for it, and nobody waits for the lock meanwhile.
    """

    def __init__(self, records: list[Record], encode: Callable[[Record], tuple[Any, ...]] | None = None) -> None:
        """`encode` takes one at a time, in place of `to_row`."""
        self._records, self._encode = records, encode
        self._details: list[bytes] = []
        self._made: list[tuple[Any, ...]] = []

    @property
    def times(self) -> list[float]:
        """When their requests came."""
        return [record.created_at for record in self._records]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        if not self._made:
            self._made = list(map(self._encoded, range(len(self._records))))
        return iter(self._made)

    def _encoded(self, i: int) -> tuple[Any, ...]:
        if i and i % _AT_ONCE == 0:
            time.sleep(0)  # lets the event loop's thread have the interpreter
        if self._encode is not None:
            return self._encode(self._records[i])
        if i % _AT_ONCE == 0:
            self._details = details_of(self._records[i : i + _AT_ONCE])
        return to_row(self._records[i], self._details[i % _AT_ONCE])


def _body_bytes(record: Record) -> int:
    return len(record.request_body or b"") + len(record.answer_body or b"")
