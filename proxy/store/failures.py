"""Remembers failures: the `Failures` port, on the database, and the operator's side of it.

A row of ``failures`` holds the latest revision of a record as JSON, beside the columns that are looked up; its number makes indexes and
joins cheap, and says which of two records of one moment was met first. A record's id is made of its client, run and fingerprint, and an
event's of the record's id, its kind and its cause. Each event leaves one row in ``failure_revisions``, which is never changed: with the
revision that it made, or empty where it changed nothing (or was about a failure that the run did not know). So an event that comes again,
from another worker or after a restart, finds its row and does nothing, whatever has happened since. `proxy.ports.failures` says
what an event makes of a record.

Workers write one after the other. SQLite has one writer. On PostgreSQL what was read is changed by one statement, which waits for the run's
lock and writes nothing where another worker, the operator or retention was first; only then is it read again under the locks of the run
and of its rows. So a turn with something new waits for two round trips, and for one where `apply_and_find` reads for both.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from msgspec import Struct
from sqlalchemy import RowMapping, TextClause, select, text

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failures import EventKind, Status
from proxy.store.database import StoreRejected, fetch
from proxy.store.drivers import AsyncConnection
from proxy.store.failure_rows import (
    Changes,
    Scene,
    Seen,
    changes_of,
    event_id,
    failure_id,
    lock_key,
    named,
    parts_of,
    record_of,
    relevant_query,
    seen_query,
    write,
    write_at_once,
)
from proxy.store.listing import Listed, page, policy_name
from proxy.store.tables import clean, key_of
from proxy.store.tables import failure_revisions as events_table
from proxy.store.tables import failures as table


class FailureRevision(Struct, frozen=True):
    """One revision, as the audit lists it."""

    id: str
    """Its own, for paging."""
    record: FailureRecord
    """Whole, as it was then."""


FILTERS = ("run_id", "client", "policy", "status", "signal_type", "code", "severity", "subject")
EVENT_OF_STATUS: dict[Status, EventKind] = {"resolved": "resolved", "superseded": "superseded", "active": "reopened"}
"""The event that gives a record this status."""
_KEYS_A_QUERY = 400
"""Both databases bound the number of a statement's parameters, at 32,766 or more."""
_SEARCHES_A_QUERY = 100
"""Of each kind; SQLite joins at most 500 selects: https://sqlite.org/limits.html."""
_LOCK_RUN = text("SELECT pg_advisory_xact_lock(:key)")


_Read = Callable[[TextClause, Mapping[str, Any]], Awaitable[Sequence[Sequence[Any]]]]
_NEW = 2**62
"""Stands for the number of a record that has been written just now: it was met after all others."""


class DatabaseFailures(Listed[FailureRecord]):
    """Implements `proxy.ports.Failures`."""

    table, columns = table, (table.c.content,)

    async def apply(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, policy: str, step_id: str, record_id: str
    ) -> list[FailureRecord]:
        """Let `events` happen, in order, in one transaction; the records they are about, as they are then, each once.

        An event other than ``occurred`` about a fingerprint that the run does not know is passed over. Raises `StoreUnavailable`.
        """
        happening = _Happening(events, Scene(client, run_id, policy_name(policy), step_id, record_id, self._clock()))
        if not happening.events:
            return []
        records, _ = await self._apply(happening, await self._seen(self._database.read, happening.ids, list(happening.events)))
        return [records[failure] for failure in happening.ids if failure in records]

    async def apply_and_find(
        self,
        events: Sequence[FailureEvent],
        *,
        client: str,
        run_id: str,
        policy: str,
        step_id: str,
        record_id: str,
        across_runs: bool,
        fingerprints: Sequence[str],
        subjects: Sequence[str],
        limit: int = 64,
    ) -> tuple[list[FailureRecord], list[FailureRecord]]:
        """What `apply` gives, then what `relevant` does, by one read for both. Raises `StoreUnavailable`."""
        happening = _Happening(events, Scene(client, run_id, policy_name(policy), step_id, record_id, self._clock()))
        search = _Search(client, None if across_runs else run_id, fingerprints, subjects, limit)
        if max(len(happening.ids), len(happening.events)) > _KEYS_A_QUERY or search.is_long:
            about = {"client": client, "run_id": run_id, "policy": policy, "step_id": step_id, "record_id": record_id}
            return await self.apply(events, **about), await self._search(search)
        query, values = search.query(self._database.among, search.matches, search.subjects)
        seen = await self._seen(self._database.read, happening.ids, list(happening.events), query.text, values)
        records, changes = await self._apply(happening, seen)
        found = [one for one in seen.relevant if one[2].id not in changes]
        for number, (failure, record) in enumerate(changes.items()):
            if record.status == "active":
                found.append((search.place(record), seen.numbers.get(failure, _NEW + number), record))
        return [records[failure] for failure in happening.ids if failure in records], search.best(found)

    async def relevant(
        self, *, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int = 64
    ) -> list[FailureRecord]:
        """Active records: those with one of `fingerprints`, then those of one of `subjects`, then the others, each group last seen first;
        `limit` in all. Without `run_id`, of all the client's runs. Raises `StoreUnavailable`.
        """
        return await self._search(_Search(client, run_id, fingerprints, subjects, limit))

    async def _search(self, search: _Search) -> list[FailureRecord]:
        parts = zip_longest(
            parts_of(search.matches, _SEARCHES_A_QUERY), parts_of(search.subjects, _SEARCHES_A_QUERY), fillvalue=list[str]()
        )
        found: list[tuple[int, int, FailureRecord]] = []
        for number, (matched, about) in enumerate(parts):
            query, values = search.query(self._database.among, matched, about, others=number == 0)
            found += [(place, met, record_of(content)) for place, met, content in await self._database.read(query, values)]
        return search.best(found)

    async def _apply(self, happening: _Happening, seen: Seen) -> tuple[dict[str, FailureRecord], dict[str, FailureRecord]]:
        """Let those of the events happen that are new to what was seen; the records then, and those of them that have changed."""
        new = happening.new(seen)
        if not new:  # a turn that was seen before, as most are
            return seen.records, {}
        run_key = key_of(happening.scene.client, happening.scene.run_id)
        if not self._database.is_sqlite:
            changes = changes_of(seen, new, happening.scene)
            try:
                async with self._database.writing(alone=True) as connection:
                    await write_at_once(connection, changes, run_key)
                return seen.records | changes.records, changes.records
            except StoreRejected:  # another writer was first, or a value cannot be stored, which is then said below
                pass
        async with self._database.writing() as connection:
            await self._lock(connection, run_key, happening.ids)
            now = await self._seen(partial(fetch, connection), happening.ids, list(happening.events))
            changes = changes_of(now, happening.new(now), happening.scene)
            await write(connection, changes)
        return now.records | changes.records, now.records | changes.records

    async def resolve(self, failure: str, status: Status, *, by: str, reason: str = "", cause: str = "") -> FailureRecord | None:
        """A person gives the record with this id a status; what is kept, or None where there is none. Raises `StoreUnavailable`.

        The status that it has already changes nothing, nor does a `cause` that was given before.
        """
        return await self._apply_word(failure, EVENT_OF_STATUS[status], by, reason, cause)

    async def feedback(self, failure: str, helpful: bool, *, by: str, reason: str = "", cause: str = "") -> FailureRecord | None:
        """A person says whether guidance about it helped or harmed; what is kept, or None. Raises `StoreUnavailable`.

        Each time counts, except with a `cause` that was given before.
        """
        return await self._apply_word(failure, "helpful" if helpful else "harmful", by, reason, cause)

    async def get(self, failure: str) -> FailureRecord | None:
        """The record with this id. Raises `StoreUnavailable`."""
        async with self._database.transaction() as connection:
            return await self._read(connection, failure)

    async def revisions(self, failure: str, limit: int = 20, after: str | None = None) -> tuple[list[FailureRevision], bool]:
        """Its revisions, the latest first, and whether there are more. Raises `StoreUnavailable`."""
        query = select(events_table.c.id, events_table.c.content)
        query = query.where(events_table.c.failure_id == clean(failure), events_table.c.revision.is_not(None))
        async with self._database.transaction() as connection:
            found, more = await page(connection, query, events_table, limit, after)
        return [FailureRevision(row["id"], record_of(row["content"])) for row in found], more

    def _made(self, row: RowMapping) -> FailureRecord:
        return record_of(row["content"])

    async def _apply_word(self, failure: str, kind: EventKind, by: str, reason: str, cause: str) -> FailureRecord | None:
        failure, now = clean(failure), self._clock()
        async with self._database.writing() as connection:
            await self._lock(connection, None, [failure])
            read = partial(fetch, connection)
            seen = await self._seen(read, [failure], [])
            record = seen.records.get(failure)
            if record is None:
                return None
            event = FailureEvent(kind=kind, fingerprint=record.fingerprint, cause=cause or uuid.uuid4().hex, by=by, reason=reason)
            key = event_id(failure, event.kind, event.cause)
            changes = Changes()
            if not (await self._seen(read, [], [key])).known:
                scene = Scene(record.client, record.run_id, record.policy, record.last_seen_step_id, record.record_id, now)
                changes = changes_of(seen, {key: (failure, event)}, scene)
                await write(connection, changes)
            return changes.records.get(failure, record)

    async def _seen(
        self, read: _Read, ids: Sequence[str], keys: Sequence[str], also: str = "", values: Mapping[str, Any] | None = None
    ) -> Seen:
        """What there is of records and events with these ids, and what the query `also` gives with its `values`."""
        seen, among = Seen(), self._database.among
        for some, others in zip_longest(parts_of(ids, _KEYS_A_QUERY), parts_of(keys, _KEYS_A_QUERY), fillvalue=list[str]()):
            (id_list, id_values), (key_list, key_values) = among("i", some), among("k", others)
            for row in await read(seen_query(id_list, key_list, also), {**id_values, **key_values, **(values or {})}):
                seen.add(*row)
        return seen

    async def _lock(self, connection: AsyncConnection, run_key: str | None, ids: Sequence[str]) -> None:
        """Nobody else writes these records until the transaction ends, nor (with `run_key`) makes new ones in the run."""
        if self._database.is_sqlite:
            return
        if run_key is not None:
            await connection.execute(_LOCK_RUN, {"key": lock_key(run_key)})
        for part in parts_of(sorted(ids), _KEYS_A_QUERY):
            await connection.execute(select(table.c.id).where(table.c.id.in_(part)).order_by(table.c.id).with_for_update())


class _Happening:
    """Events, each once, and where they happen."""

    def __init__(self, events: Sequence[FailureEvent], scene: Scene) -> None:
        self.scene = scene
        self.events: dict[str, tuple[str, FailureEvent]] = {}
        """By their ids, with the ids of their records."""
        for event in events:
            failure = failure_id(scene.client, scene.run_id, event.fingerprint)
            self.events.setdefault(event_id(failure, event.kind, event.cause), (failure, event))
        self.ids = list(dict.fromkeys(failure for failure, _ in self.events.values()))

    def new(self, seen: Seen) -> dict[str, tuple[str, FailureEvent]]:
        """Those that the store does not know."""
        return {key: event for key, event in self.events.items() if key not in seen.known}


class _Search:
    """Which active records are asked for, of a run or (without one) of a client."""

    def __init__(self, client: str, run_id: str | None, fingerprints: Sequence[str], subjects: Sequence[str], limit: int) -> None:
        self._of_run, self._limit = run_id is not None, limit
        self._column, self._owner = ("client_key", key_of(client)) if run_id is None else ("run_key", key_of(client, run_id))
        names = [clean(name) if run_id is None else failure_id(client, run_id, name) for name in fingerprints]
        self.matches = list(dict.fromkeys(names))
        """Fingerprints of a client's, ids of a run's."""
        self.subjects = list(dict.fromkeys(clean(subject) for subject in subjects))

    @property
    def is_long(self) -> bool:
        """Whether it takes more than one query."""
        return max(len(self.matches), len(self.subjects)) > _SEARCHES_A_QUERY

    def query(
        self,
        among: Callable[[str, Sequence[str]], tuple[str, dict[str, Any]]],
        matches: Sequence[str],
        subjects: Sequence[str],
        *,
        others: bool = True,
    ) -> tuple[TextClause, dict[str, Any]]:
        """A query for these, and its parameters."""
        ids, values = among("f", matches) if self._of_run and matches else ("", named(f=matches))
        query = relevant_query(self._column, 0 if self._of_run else len(matches), ids, len(subjects), others)
        return query, {"owner": self._owner, "most": self._limit, **values, **named(s=subjects)}

    def place(self, record: FailureRecord) -> int:
        """The group that a record belongs to, as the query has it."""
        if record.id in self.matches or (not self._of_run and record.fingerprint in self.matches):
            return 0
        return 1 if record.subject in self.subjects else 2

    def best(self, found: Sequence[tuple[int, int, FailureRecord]]) -> list[FailureRecord]:
        """Of records with their places and numbers the ones asked for, in order, each once."""
        ranked = sorted(found, key=lambda one: (one[0], -one[2].last_seen_at, -one[1]))
        once: dict[str, FailureRecord] = {}
        for _, _, record in ranked:
            once.setdefault(record.id, record)
        return list(once.values())[: self._limit]
