"""Rows of failures: what they hold, the queries that read them, and what events make of them; for `proxy.store.failures`.

Nothing here waits for the database but `write`, which is given a connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import BigInteger, Column, Float, LargeBinary, Text, TextClause, bindparam, text, update

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failures import LATER, Failure, advance, first
from proxy.store.drivers import AsyncConnection
from proxy.store.listing import MAX_REASON_CHARS, packed, unpacked
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


RECORD, EVENT, REVISION = -1, -2, -3
"""Of a row of `seen_query`: a record (``id``, ``number``, ``content``), an event that is known (``id``), and of a record that is not there
any more the last revision that the audit has (``id`` of the record, ``number``)."""


@lru_cache(maxsize=256)
def seen_query(ids: str, keys: str, relevant: str = "") -> TextClause:
    """What there is of records and of events, both as `Database.among` has them, in one statement so that all is of one moment: ``place``,
    ``number``, ``content``, ``id``. With the rows of `relevant`, a query of `relevant_query`, whose ``id`` is empty.
    """
    queries = [
        f"SELECT {RECORD} AS place, number, content, id FROM failures WHERE id {ids}",  # noqa: S608 - names of our own
        f"SELECT {EVENT} AS place, 0 AS number, NULL AS content, id FROM failure_revisions WHERE id {keys}",  # noqa: S608
        f"SELECT {REVISION} AS place, MAX(revision) AS number, NULL AS content, failure_id AS id FROM failure_revisions"  # noqa: S608
        f" WHERE failure_id {ids} AND revision IS NOT NULL"
        " AND NOT EXISTS (SELECT 1 FROM failures WHERE failures.id = failure_revisions.failure_id) GROUP BY failure_id",
        *([f"SELECT place, number, content, '' AS id FROM ({relevant}) AS about"] if relevant else []),  # noqa: S608
    ]
    return text(" UNION ALL ".join(queries))


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
    best = f"SELECT number, MIN(place) AS place, seen FROM ({each}) AS found GROUP BY number, seen"  # noqa: S608
    chosen = f"SELECT * FROM ({best}) AS ranked ORDER BY place, seen DESC, number DESC LIMIT :most"  # noqa: S608
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


class Scene(Struct, frozen=True):
    """Where events happen."""

    client: str
    run_id: str
    policy: str
    step_id: str
    record_id: str
    now: float


class Seen(Struct):
    """What the store has of some records and events, and of what else was asked for."""

    records: dict[str, FailureRecord] = {}
    """By id."""
    known: set[str] = set()
    """Events, by id."""
    last: dict[str, int] = {}
    """Of records that are not there any more, the last revision."""
    numbers: dict[str, int] = {}
    """Of records, in the order in which they were met."""
    relevant: list[tuple[int, int, FailureRecord]] = []
    """Place, number and record."""

    def add(self, place: int, number: int, content: bytes, key: str) -> None:
        """A row of `seen_query`."""
        if place == RECORD:
            self.records[key], self.numbers[key] = record_of(content), number
        elif place == EVENT:
            self.known.add(key)
        elif place == REVISION:
            self.last[key] = number
        else:
            self.relevant.append((place, number, record_of(content)))


class Changes(Struct):
    """What events make of the records of a run, as rows."""

    records: dict[str, FailureRecord] = {}
    """Those that have a new revision, by id."""
    happened: list[dict[str, Any]] = []
    added: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    """With ``before``: when the record was updated last, by which another writer's change is noticed, as each revision is newer."""


def changes_of(seen: Seen, new: Mapping[str, tuple[str, FailureEvent]], scene: Scene) -> Changes:
    """What `new` events, each with its record's id, by their own ids, make of the records that were seen."""
    found, contents = Changes(), dict[str, bytes]()
    for number, (key, (failure, event)) in enumerate(new.items()):
        event, now = cleaned(event), scene.now + number * LATER
        before = found.records.get(failure) or seen.records.get(failure)
        made = _made(before, event, failure, replace(scene, now=now), seen.last.get(failure, 0))
        content = b"" if made is None else content_of(made)
        found.happened.append(event_row(key, failure, event, made, content, now))
        if made is not None:
            found.records[failure], contents[failure] = record_of(content), content
    for key, content in contents.items():
        record, before = found.records[key], seen.records.get(key)
        if before is None:
            found.added.append(head_row(record, content, scene.client, scene.run_id))
        else:
            found.changed.append({"key": key, "before": before.updated_at, **changed_values(record, content)})
    return found


def _made(record: FailureRecord | None, event: FailureEvent, key: str, scene: Scene, last: int) -> FailureRecord | None:
    """The revision that `event` makes; of a record that retention deleted and that now comes again, the next after its `last`."""
    if record is not None:
        return advance(record, event, step_id=clean(scene.step_id), now=scene.now)
    if event.kind != "occurred":
        return None
    where = {name: clean(getattr(scene, name)) for name in ("client", "run_id", "policy", "step_id", "record_id")}
    made = first(event, key=key, now=scene.now, **where)
    return replace(made, revision=last + 1)


_ADD_EVENTS, _ADD = events_table.insert(), table.insert()
_CHANGE = update(table).where(table.c.id == bindparam("key"))


async def write(connection: AsyncConnection, changes: Changes) -> None:
    """Write `changes` of records that are locked, in the transaction that the connection is in."""
    changed = [{name: value for name, value in row.items() if name != "before"} for row in changes.changed]
    for statement, rows in ((_ADD_EVENTS, changes.happened), (_ADD, changes.added), (_CHANGE, changed)):
        if rows:
            await connection.execute(statement, rows)


def lock_key(run_key: str) -> int:
    """Of PostgreSQL's advisory lock for a run."""
    return int.from_bytes(bytes.fromhex(run_key)[:8], "big", signed=True)


async def write_at_once(connection: AsyncConnection, changes: Changes, run_key: str) -> None:
    """Write `changes` of records that nobody has locked, with PostgreSQL, as one statement: all of them, or none and an error of the class
    22 or 23 where another writer was first with a record or an event. It waits for the run's lock, as whoever takes several steps has it.
    """
    values: dict[str, Any] = {"run": lock_key(run_key), "expected": len(changes.changed)}
    for prefix, names, rows in (("e", _EVENT, changes.happened), ("a", _HEAD, changes.added), ("c", _CHANGED, changes.changed)):
        values |= {f"{prefix}_{name}": [row[name] for row in rows] for name in names}
    await connection.execute(_WRITE, values)


def _rows(prefix: str, columns: Mapping[str, Column[Any]]) -> str:
    """Rows of parameters, one array a column, that are there once the run's lock is."""
    arrays = ", ".join(f"CAST(:{prefix}_{name} AS {_ARRAYS[type(column.type)]}[])" for name, column in columns.items())
    return f"run, unnest({arrays}) AS given ({', '.join(columns)})"


_ARRAYS: Mapping[type, str] = {Text: "TEXT", LargeBinary: "BYTEA", BigInteger: "BIGINT", Float: "FLOAT8"}
_EVENT = {column.name: column for column in events_table.c}
_HEAD = {column.name: column for column in table.c if column.name != "number"}
_SET = ("status", "severity", "last_seen_at", "updated_at", "content", "size_bytes")
_CHANGED = {"key": table.c.id, "before": table.c.updated_at, **{name: table.c[name] for name in _SET}}
_WRITE = text(  # the last line divides by zero where a record is not as it was: nothing of the statement is written then
    f"""
WITH run AS MATERIALIZED (SELECT pg_advisory_xact_lock(:run)),
events AS (INSERT INTO failure_revisions ({", ".join(_EVENT)}) SELECT {", ".join(_EVENT)} FROM {_rows("e", _EVENT)}),
added AS (INSERT INTO failures ({", ".join(_HEAD)}) SELECT {", ".join(_HEAD)} FROM {_rows("a", _HEAD)}),
changed AS (UPDATE failures SET {", ".join(f"{name} = given.{name}" for name in _SET)} FROM {_rows("c", _CHANGED)}
WHERE failures.id = given.key AND failures.updated_at = given.before RETURNING 1)
SELECT 1 / CAST((SELECT count(*) FROM changed) = :expected AS INT)
"""  # noqa: S608 - names of our own
)
