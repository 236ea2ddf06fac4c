"""Failure records as rows, and back: keys, values as the databases take them, and the query for what is relevant to a step.

A row of ``failures`` holds the latest revision of a record as JSON, beside the columns that are looked up; its number makes indexes and
joins cheap, and says which of two records of one moment was met first. A row of
``failure_revisions`` holds one event: with the revision that it made, or without one where it changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import TextClause, text

from proxy.ports import FailureEvent, FailureRecord
from proxy.ports.failure_kinds import Failure
from proxy.store import decisions
from proxy.store.tables import clean, key_of

_decoder = msgspec.json.Decoder(FailureRecord)
_LOOKED_UP = ("client", "run_id", "policy", "status", "signal_type", "code", "severity", "subject", "fingerprint")
_REMEMBERED = 4096
"""Ids of each kind: every turn asks for those of the turns before."""
_ORDERED = "ORDER BY seen DESC, number DESC LIMIT :most"
_AMONG_IDS = "SELECT number, 0 AS place, last_seen_at AS seen FROM failures WHERE status = 'active' AND id IN "
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
        reason=clean(event.reason, decisions.MAX_REASON_CHARS),
    )


def _cleaned_failure(failure: Failure) -> Failure:
    names = ("code", "subject", "fingerprint", "action_key")
    return replace(failure, **{name: clean(getattr(failure, name)) for name in names})


def content_of(record: FailureRecord) -> bytes:
    """JSON. Raises `StoreRejected`."""
    return decisions.packed(msgspec.structs.asdict(record))


def record_of(content: bytes) -> FailureRecord:
    """What `content_of` was given; lists in the place of tuples inside of its mappings."""
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a lone surrogate, NaN, or a word of another version
        fields = decisions.unpacked(content)
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
def relevant_query(owner: str, fingerprints: int, subjects: int, others: bool) -> TextClause:
    """Active records of one run (`owner` is ``run_key``) or of one client (``client_key``), each once: ``place``, ``number``,
    ``content``.

    Parameters: ``owner``, ``most``, ``s0``, ``s1``, …, and ``f0``, ``f1``, …: of a run the ids, of a client the fingerprints. A
    search reads an index and ends after ``most`` entries, so that the cost hardly grows with the number of records.
    """
    names = [f":f{i}" for i in range(fingerprints)]
    if owner == "run_key":
        searches = [_AMONG_IDS + f"({', '.join(names)})"] if names else []
    else:
        searches = [f"{_search(owner, 0)} AND fingerprint = {name} {_ORDERED}" for name in names]
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
