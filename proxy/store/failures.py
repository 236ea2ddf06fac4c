"""Remembers failures: the `Failures` port, on the database, and the operator's side of it.

A row of ``failures`` holds the latest revision of a record as JSON, beside the columns that are looked up; its number makes indexes and
joins cheap, and says which of two records of one moment was met first. A record's id is made of its client, run and fingerprint, and an
event's of the record's id, its kind and its cause. Each event leaves one row in ``failure_revisions``, which is never changed: with the
revision that it made, or empty where it changed nothing (or was about a failure that the run did not know). So an event that comes again,
from another worker or after a restart, finds its row and does nothing, whatever has happened since. `proxy.ports.failures` says
what an event makes of a record.

Workers write one after the other: SQLite has one writer, and on PostgreSQL a lock of the run keeps two workers from making a
record at the same time, and locks of the rows keep the operator and retention away.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import RowMapping, TextClause, bindparam, func, select, text, update

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failures import LATER, EventKind, Failure, Status, advance, first
from proxy.store.database import fetch
from proxy.store.drivers import AsyncConnection
from proxy.store.listing import MAX_REASON_CHARS, Listed, packed, page, policy_name, unpacked
from proxy.store.tables import clean, key_of
from proxy.store.tables import failure_revisions as events_table
from proxy.store.tables import failures as table

_decoder = msgspec.json.Decoder(FailureRecord)
_LOOKED_UP = ("client", "run_id", "policy", "status", "signal_type", "code", "severity", "subject", "fingerprint")
_REMEMBERED = 4096
"""Ids of each kind: every turn asks for those of the turns before."""
_ORDERED = "ORDER BY seen DESC, number DESC LIMIT :most"
_AMONG_IDS = "SELECT number, 0 AS place, last_seen_at AS seen FROM failures WHERE status = 'active' AND id "
"""An id is made of its client and run."""
_TIMES = ("created_at", "last_seen_at", "updated_at")


class FailureRevision(Struct, frozen=True):
    """One revision, as the audit lists it."""

    id: str
    """Its own, for paging."""
    record: FailureRecord
    """Whole, as it was then."""


@lru_cache(maxsize=_REMEMBERED)
def failure_id(client: str, run_id: str, fingerprint: str) -> str:
    """``fl_`` and 32 hexadecimal digits; the policy is not in it, since a run's failures are the run's."""
    return "fl_" + key_of(client, run_id, fingerprint)


@lru_cache(maxsize=_REMEMBERED)
def event_id(failure: str, kind: str, cause: str) -> str:
    """Of what happened to the record with the id `failure`: the same whenever and by whichever worker it is told."""
    return f"{failure}:{key_of(kind, cause)}"


def cleaned(event: FailureEvent) -> FailureEvent:
    """`event` with texts as both databases take them."""
    found = event.failure
    return replace(
        event,
        failure=None if found is None else _cleaned_failure(found),
        by=clean(event.by),
        reason=clean(event.reason, MAX_REASON_CHARS),
    )


def _cleaned_failure(failure: Failure) -> Failure:
    names = ("code", "subject", "fingerprint", "action_key")
    return replace(failure, **{name: clean(getattr(failure, name)) for name in names})


def content_of(record: FailureRecord) -> bytes:
    """JSON. Raises `StoreRejected`."""
    return packed(msgspec.structs.asdict(record))


def record_of(content: bytes) -> FailureRecord:
    """What `content_of` was given; lists in the place of tuples inside of its mappings."""
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a lone surrogate, NaN, or a word of another version
        fields = unpacked(content)
        known = {name: fields[name] for name in FailureRecord.__struct_fields__ if name in fields}
        return FailureRecord(**known | {"context_refs": tuple(fields["context_refs"])})


def head_row(record: FailureRecord, content: bytes, client: str, run_id: str) -> dict[str, Any]:
    """Of ``failures``; `client` and `run_id` are as the caller named them, which the record may hold cut."""
    texts = {name: getattr(record, name) for name in _LOOKED_UP}
    times = {name: getattr(record, name) for name in _TIMES}
    keys = {"id": record.id, "client_key": key_of(client), "run_key": key_of(client, run_id)}
    return keys | texts | times | {"content": content, "size_bytes": len(content)}


def changed_values(record: FailureRecord, content: bytes) -> dict[str, Any]:
    """What a revision changes in the row of ``failures``."""
    names = ("status", "severity", "last_seen_at", "updated_at")
    return {name: getattr(record, name) for name in names} | {"content": content, "size_bytes": len(content)}


def event_row(key: str, failure: str, event: FailureEvent, made: FailureRecord | None, content: bytes, now: float) -> dict[str, Any]:
    """Of ``failure_revisions``; `made` is the revision, if there is one."""
    return {
        "id": key,
        "failure_id": failure,
        "revision": None if made is None else made.revision,
        "event": event.kind,
        "made_by": event.by,
        "reason": event.reason,
        "content": content,
        "size_bytes": len(key) + len(failure) + len(event.by) + len(event.reason) + len(content),
        "created_at": now if made is None else made.updated_at,
    }


@lru_cache(maxsize=256)
def seen_query(ids: int, keys: int) -> TextClause:
    """Of records and of events by their ids those that there are, in one statement so that both are of one moment: ``id``, ``content``.

    Parameters: ``i0``, ``i1``, … of records, ``k0``, ``k1``, … of events, which have no content here.
    """
    records, events = (", ".join(f":{name}{i}" for i in range(count)) for name, count in (("i", ids), ("k", keys)))
    return text(
        f"SELECT id, content FROM failures WHERE id IN ({records or 'NULL'})"  # noqa: S608 - names of our own
        f" UNION ALL SELECT id, NULL AS content FROM failure_revisions WHERE id IN ({events or 'NULL'})"
    )


@lru_cache(maxsize=256)
def relevant_query(owner: str, fingerprints: int, ids: str, subjects: int, others: bool) -> TextClause:
    """Active records of one run (`owner` is ``run_key``) or of one client (``client_key``), each once: ``place``, ``number``,
    ``content``.

    Parameters: ``owner``, ``most``, ``s0``, …, and of a client ``f0``, …; `ids` are a run's, as `Database.among` has them. A
    search reads an index and ends after ``most`` entries, so that the cost hardly grows with the number of records.
    """
    searches = [f"{_search(owner, 0)} AND fingerprint = :f{i} {_ORDERED}" for i in range(fingerprints)]
    searches += [_AMONG_IDS + ids] if ids else []
    searches += _about(owner, [f":s{i}" for i in range(subjects)])
    if others:
        searches.append(f"{_search(owner, 2)} {_ORDERED}")
    each = " UNION ALL ".join(f"SELECT * FROM ({search}) AS q{number}" for number, search in enumerate(searches))  # noqa: S608
    first = f"SELECT number, MIN(place) AS place, seen FROM ({each}) AS found GROUP BY number, seen"  # noqa: S608
    chosen = f"SELECT * FROM ({first}) AS ranked ORDER BY place, seen DESC, number DESC LIMIT :most"  # noqa: S608
    return text(
        f"SELECT chosen.place, chosen.number, failures.content FROM ({chosen}) AS chosen JOIN failures ON failures.number = chosen.number"  # noqa: S608
        " ORDER BY chosen.place, chosen.seen DESC, chosen.number DESC"
    )


def _about(owner: str, names: Sequence[str]) -> list[str]:
    """All subjects in one search: both databases merge what their indexes give in order, and stop after ``most``."""
    found = " UNION ALL ".join(f"{_search(owner, 1)} AND subject = {name}" for name in names)
    return [f"{found} {_ORDERED}"] if names else []


def _search(owner: str, place: int) -> str:
    """Its beginning, with what every search asks for."""
    return f"SELECT number, {place} AS place, last_seen_at AS seen FROM failures WHERE {owner} = :owner AND status = 'active'"  # noqa: S608


def named(**lists: Sequence[str]) -> dict[str, str]:
    """Parameters: ``i=["a", "b"]`` are ``i0`` and ``i1``."""
    return {f"{name}{number}": value for name, values in lists.items() for number, value in enumerate(values)}


def parts_of(values: Sequence[str], size: int) -> list[list[str]]:
    """Without doubles, in lists of at most `size`; one empty list where there are none."""
    once = list(dict.fromkeys(values))
    return [once[start : start + size] for start in range(0, len(once), size)] or [[]]


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


class DatabaseFailures(Listed[FailureRecord]):
    """Implements `proxy.ports.Failures`."""

    table, columns = table, (table.c.content,)

    async def apply(
        self, events: Sequence[FailureEvent], *, client: str, run_id: str, policy: str, step_id: str, record_id: str
    ) -> list[FailureRecord]:
        """Let `events` happen, in order, in one transaction; the records they are about, as they are then, each once.

        An event other than ``occurred`` about a fingerprint that the run does not know is passed over. Raises `StoreUnavailable`.
        """
        told: dict[str, tuple[str, FailureEvent]] = {}
        for event in events:
            failure = failure_id(client, run_id, event.fingerprint)
            told.setdefault(event_id(failure, event.kind, event.cause), (failure, event))
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
            parts_of(matches, _SEARCHES_A_QUERY),
            parts_of([clean(subject) for subject in subjects], _SEARCHES_A_QUERY),
            fillvalue=list[str](),
        )
        found: list[tuple[int, int, FailureRecord]] = []
        for number, (matched, about) in enumerate(parts):
            ids, values = self._database.among("f", matched) if run_id is not None and matched else ("", named(f=matched))
            query = relevant_query(owner[0], len(matched) if run_id is None else 0, ids, len(about), number == 0)
            answer = await self._database.read(query, {"owner": owner[1], "most": limit, **values, **named(s=about)})
            found += [(place, met, record_of(content)) for place, met, content in answer]
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
            key = event_id(failure, event.kind, event.cause)
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
        for part in parts_of(sorted(ids), _KEYS_A_QUERY):
            await connection.execute(select(table.c.id).where(table.c.id.in_(part)).order_by(table.c.id).with_for_update())


async def _seen(read: _Read, ids: Sequence[str], keys: Sequence[str]) -> tuple[dict[str, FailureRecord], set[str]]:
    """Of these, the records that there are and the events that are known."""
    records: dict[str, FailureRecord] = {}
    known: set[str] = set()
    for some, others in zip_longest(parts_of(ids, _KEYS_A_QUERY), parts_of(keys, _KEYS_A_QUERY), fillvalue=list[str]()):
        query = seen_query(len(some), len(others))
        for key, content in await read(query, named(i=some, k=others)):
            if content is None:
                known.add(key)
            else:
                records[key] = record_of(content)
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
        told, scene = cleaned(event), replace(scene, now=began + number * LATER)
        made = _made(records.get(failure), told, failure, scene, last.get(failure, 0))
        content = b"" if made is None else content_of(made)
        happened.append(event_row(key, failure, told, made, content, scene.now))
        if made is not None:
            records[failure], contents[failure] = record_of(content), content
    if happened:
        await connection.execute(_ADD_EVENT, happened)
    added = [head_row(records[key], content, scene.client, scene.run_id) for key, content in contents.items() if key not in there]
    changed = [{"key": key, **changed_values(records[key], content)} for key, content in contents.items() if key in there]
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
    for part in parts_of(sorted(ids), _KEYS_A_QUERY):
        query = select(events_table.c.failure_id, func.max(revision)).where(events_table.c.failure_id.in_(part), revision.is_not(None))
        if part:
            found |= {row[0]: row[1] for row in (await connection.execute(query.group_by(events_table.c.failure_id))).all()}
    return found
