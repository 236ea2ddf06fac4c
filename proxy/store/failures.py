"""Remembers failures: the `Failures` port, on the database, and the operator's side of it.

A record's id is made of its client, run and fingerprint, and an event's of the record's id, its kind and its cause. Each event leaves one
row in ``failure_revisions``, which is never changed: with the revision that it made, or empty where it changed nothing (or was about a
failure that the run did not know). So an event that is told again, by another worker or after a restart, finds its row and does
nothing, whatever has happened since. `proxy.ports.failure_lifecycle` says what an event makes of a record.

Workers write one after the other: SQLite has one writer, and on PostgreSQL a lock of the run keeps two workers from making a
record at the same time, and locks of the rows keep the operator and retention away.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import TextClause, bindparam, func, select, text, update

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failure_kinds import Status
from proxy.ports.failure_lifecycle import LATER, advance, first
from proxy.ports.failures import EventKind
from proxy.store import failure_rows as rows
from proxy.store.database import Database, fetch
from proxy.store.decisions import policy_name
from proxy.store.drivers import AsyncConnection
from proxy.store.failure_rows import FailureRevision, failure_id
from proxy.store.paging import page
from proxy.store.tables import clean, key_of
from proxy.store.tables import failure_revisions as events_table
from proxy.store.tables import failures as table

FILTERS = ("run_id", "client", "policy", "status", "signal_type", "code", "severity", "subject")
SAID: dict[Status, EventKind] = {"resolved": "resolved", "superseded": "superseded", "active": "reopened"}
"""The event that gives a record this status."""
_KEYS_A_QUERY = 400
"""Both databases bound the number of a statement's parameters, at 32,766 or more."""
_SEARCHES_A_QUERY = 100
"""Of each kind; SQLite joins at most 500 selects: https://sqlite.org/limits.html."""
_LOCK_RUN = text("SELECT pg_advisory_xact_lock(:key)")


_Read = Callable[[TextClause, Mapping[str, Any]], Awaitable[Sequence[Sequence[Any]]]]
_CHANGE = update(table).where(table.c.id == bindparam("key"))
_ADD_EVENT, _ADD = events_table.insert(), table.insert()


class _Scene(Struct, frozen=True):
    """Where events happen."""

    client: str
    run_id: str
    policy: str
    step_id: str
    record_id: str
    now: float


class DatabaseFailures:
    """Implements `proxy.ports.Failures`."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock

    async def apply(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, policy: str, step_id: str, record_id: str
    ) -> list[FailureRecord]:
        """Let `events` happen, in order, in one transaction; the records they are about, as they are then, each once.

        An event other than ``occurred`` about a fingerprint that the run does not know is passed over. Raises `StoreUnavailable`.
        """
        told: dict[str, tuple[str, FailureEvent]] = {}
        for event in events:
            failure = failure_id(client, run_id, event.fingerprint)
            told.setdefault(rows.event_id(failure, event.kind, event.cause), (failure, event))
        if not told:
            return []
        ids = list(dict.fromkeys(failure for failure, _ in told.values()))
        scene = _Scene(client, run_id, policy_name(policy), step_id, record_id, self._clock())
        records, known = await _seen(self._database.read, ids, list(told))
        if len(known) < len(told):  # else it is a turn that was seen before, as most are, and was only read
            async with self._database.writing() as connection:
                await self._lock(connection, key_of(client, run_id), ids)
                records, known = await _seen(partial(fetch, connection), ids, list(told))
                new = {key: value for key, value in told.items() if key not in known}
                await _write(connection, records, new, scene)
        return [records[failure] for failure in ids if failure in records]

    async def relevant(
        self, *, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int = 64
    ) -> list[FailureRecord]:
        """Active records: those with one of `fingerprints`, then those of one of `subjects`, then the others, each group last seen first;
        `limit` in all. Without `run_id`, of all the client's runs. Raises `StoreUnavailable`.
        """
        matches = [clean(name) if run_id is None else failure_id(client, run_id, name) for name in fingerprints]
        owner = ("client_key", key_of(client)) if run_id is None else ("run_key", key_of(client, run_id))
        parts = zip_longest(
            rows.parts_of(matches, _SEARCHES_A_QUERY),
            rows.parts_of([clean(subject) for subject in subjects], _SEARCHES_A_QUERY),
            fillvalue=list[str](),
        )
        found: list[tuple[int, int, FailureRecord]] = []
        for number, (matched, about) in enumerate(parts):
            query = rows.relevant_query(owner[0], len(matched), len(about), number == 0)
            answer = await self._database.read(query, {"owner": owner[1], "most": limit, **rows.named(f=matched, s=about)})
            found += [(place, met, rows.record_of(content)) for place, met, content in answer]
        if number:
            found.sort(key=lambda one: (one[0], -one[2].last_seen_at, -one[1]))
        once: dict[str, FailureRecord] = {}
        for _, _, record in found:
            once.setdefault(record.id, record)
        return list(once.values())[:limit]

    async def resolve(self, failure: str, status: Status, *, by: str, reason: str = "", cause: str = "") -> FailureRecord | None:
        """A person gives the record with this id a status; what is kept, or None where there is none. Raises `StoreUnavailable`.

        The status that it has already changes nothing, nor does a `cause` that was given before.
        """
        return await self._say(failure, SAID[status], by, reason, cause)

    async def feedback(self, failure: str, helpful: bool, *, by: str, reason: str = "", cause: str = "") -> FailureRecord | None:
        """A person says whether guidance about it helped or harmed; what is kept, or None. Raises `StoreUnavailable`.

        Each time counts, except with a `cause` that was given before.
        """
        return await self._say(failure, "helpful" if helpful else "harmful", by, reason, cause)

    async def get(self, failure: str) -> FailureRecord | None:
        """The record with this id. Raises `StoreUnavailable`."""
        records, _ = await _seen(self._database.read, [clean(failure)], [])
        return records.get(clean(failure))

    async def revisions(self, failure: str, limit: int = 20, after: str | None = None) -> tuple[list[FailureRevision], bool]:
        """Its revisions, the latest first, and whether there are more. Raises `StoreUnavailable`."""
        query = select(events_table.c.id, events_table.c.content)
        query = query.where(events_table.c.failure_id == clean(failure), events_table.c.revision.is_not(None))
        async with self._database.transaction() as connection:
            found, more = await page(connection, query, events_table, limit, None if after is None else clean(after))
        return [FailureRevision(row["id"], rows.record_of(row["content"])) for row in found], more

    async def list(self, limit: int = 20, after: str | None = None, **filters: str | None) -> tuple[list[FailureRecord], bool]:
        """Newest first, and whether there are more; `filters` are named in `FILTERS`. Raises `StoreUnavailable`."""
        query = select(table.c.content)
        for name, wanted in filters.items():
            if wanted is not None:
                query = query.where(table.c[name] == clean(policy_name(wanted) if name == "policy" else wanted))
        async with self._database.transaction() as connection:
            found, more = await page(connection, query, table, limit, None if after is None else clean(after))
        return [rows.record_of(row["content"]) for row in found], more

    async def _say(self, failure: str, kind: EventKind, by: str, reason: str, cause: str) -> FailureRecord | None:
        failure, now = clean(failure), self._clock()
        async with self._database.writing() as connection:
            await self._lock(connection, None, [failure])
            read = partial(fetch, connection)
            records, _ = await _seen(read, [failure], [])
            record = records.get(failure)
            if record is None:
                return None
            event = FailureEvent(kind=kind, fingerprint=record.fingerprint, cause=cause or uuid.uuid4().hex, by=by, reason=reason)
            key = rows.event_id(failure, event.kind, event.cause)
            if not (await _seen(read, [], [key]))[1]:
                scene = _Scene(record.client, record.run_id, record.policy, record.last_seen_step_id, record.record_id, now)
                await _write(connection, records, {key: (failure, event)}, scene)
            return records[failure]

    async def _lock(self, connection: AsyncConnection, run_key: str | None, ids: Sequence[str]) -> None:
        """Nobody else writes these records until the transaction ends, nor (with `run_key`) makes new ones in the run."""
        if self._database.is_sqlite:
            return
        if run_key is not None:
            await connection.execute(_LOCK_RUN, {"key": int.from_bytes(bytes.fromhex(run_key)[:8], "big", signed=True)})
        for part in rows.parts_of(sorted(ids), _KEYS_A_QUERY):
            await connection.execute(select(table.c.id).where(table.c.id.in_(part)).order_by(table.c.id).with_for_update())


async def _seen(read: _Read, ids: Sequence[str], keys: Sequence[str]) -> tuple[dict[str, FailureRecord], set[str]]:
    """Of these, the records that there are and the events that are known."""
    records: dict[str, FailureRecord] = {}
    known: set[str] = set()
    for some, others in zip_longest(rows.parts_of(ids, _KEYS_A_QUERY), rows.parts_of(keys, _KEYS_A_QUERY), fillvalue=list[str]()):
        query = rows.seen_query(len(some), len(others))
        for key, content in await read(query, rows.named(i=some, k=others)):
            if content is None:
                known.add(key)
            else:
                records[key] = rows.record_of(content)
    return records, known


async def _write(
    connection: AsyncConnection, records: dict[str, FailureRecord], new: dict[str, tuple[str, FailureEvent]], scene: _Scene
) -> None:
    """Let `new` events, by their ids, happen to `records`, which are locked and become what they then are."""
    there = set(records)
    last = await _last_revisions(connection, {failure for failure, _ in new.values()} - there)
    contents: dict[str, bytes] = {}
    happened, began = [], scene.now
    for number, (key, (failure, event)) in enumerate(new.items()):
        told, scene = rows.cleaned(event), replace(scene, now=began + number * LATER)
        made = _made(records.get(failure), told, failure, scene, last.get(failure, 0))
        content = b"" if made is None else rows.content_of(made)
        happened.append(rows.event_row(key, failure, told, made, content, scene.now))
        if made is not None:
            records[failure], contents[failure] = rows.record_of(content), content
    if happened:
        await connection.execute(_ADD_EVENT, happened)
    added = [rows.head_row(records[key], content, scene.client, scene.run_id) for key, content in contents.items() if key not in there]
    changed = [{"key": key, **rows.changed_values(records[key], content)} for key, content in contents.items() if key in there]
    if added:
        await connection.execute(_ADD, added)
    if changed:
        await connection.execute(_CHANGE, changed)


def _made(record: FailureRecord | None, event: FailureEvent, key: str, scene: _Scene, last: int) -> FailureRecord | None:
    """The revision that `event` makes; of a record that retention deleted and that now comes again, the next after its `last`."""
    if record is not None:
        return advance(record, event, step_id=clean(scene.step_id), now=scene.now)
    if event.kind != "occurred":
        return None
    where = {name: clean(getattr(scene, name)) for name in ("client", "run_id", "policy", "step_id", "record_id")}
    made = first(event, key=key, now=scene.now, **where)
    return replace(made, revision=last + 1)


async def _last_revisions(connection: AsyncConnection, ids: set[str]) -> dict[str, int]:
    """The number of the last revision that the audit has of each, where it has one."""
    found: dict[str, int] = {}
    revision = events_table.c.revision
    for part in rows.parts_of(sorted(ids), _KEYS_A_QUERY):
        query = select(events_table.c.failure_id, func.max(revision)).where(events_table.c.failure_id.in_(part), revision.is_not(None))
        if part:
            found |= {row[0]: row[1] for row in (await connection.execute(query.group_by(events_table.c.failure_id))).all()}
    return found
