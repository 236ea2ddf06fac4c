"""The store's tables, as SQLAlchemy Core sees them; `proxy.store.schema` makes them, in stores of earlier revisions too.

Text columns take what `clean` returns: PostgreSQL's text holds neither NUL nor lone surrogates, and its index entries end at
about 2,700 bytes. JSON is kept as UTF-8 bytes, content as it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Float, Index, Integer, LargeBinary, MetaData, Table, Text, or_
from sqlalchemy.types import TypeEngine

MAX_TEXT_CHARS = 512
"""Of a text column: four UTF-8 bytes each still fit an index entry of PostgreSQL (2,704 bytes) beside an id."""

metadata = MetaData()

LINE = (
    *("created_at", "id", "outcome", "status", "reason", "would", "route", "model", "client", "duration_ms", "overhead_ms"),
    *("prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd"),
)
"""What lists are filtered by and charts are made of, in the order of time. The index holds all of it, so that looking through many
exchanges never reads their details. `model`, of 512 characters at most, is the one column in it that a client fills."""


def _columns(kind: TypeEngine[Any] | type[TypeEngine[Any]], *names: str) -> Iterator[Column[Any]]:
    """Columns that always have a value."""
    return (Column(name, kind, nullable=False) for name in names)


def _texts(*names: str) -> Iterator[Column[Any]]:
    return _columns(Text, *names)


def _numbers(*names: str) -> Iterator[Column[Any]]:
    return _columns(BigInteger, *names)


def _times(*names: str) -> Iterator[Column[Any]]:
    """Seconds since the epoch, or milliseconds."""
    return _columns(Float(53), *names)


def _bytes(*names: str) -> Iterator[Column[Any]]:
    return _columns(LargeBinary, *names)


TROUBLED = "outcome IN ('warn', 'block', 'error', 'upstream_error') OR status >= 500"
TO_REVIEW = "outcome IN ('unsure', 'warn', 'block', 'error')"
"""Of records, those that may have a finding on which a person can say something."""
WOULD_ACT = "would NOT IN ('', 'nothing')"
HELD_BACK = f"{WOULD_ACT} AND would = 'block'"
"""Of records, the few that a report names: each has an index of its own, so that a month of others is not looked through."""
WITH_BODIES = "request_body IS NOT NULL OR answer_body IS NOT NULL"
"""Of records, those in which words are looked for."""
TOKENS = "coalesce(prompt_tokens, 0) + coalesce(completion_tokens, 0)"

records = Table(
    "records",
    metadata,
    Column("id", Text, primary_key=True),
    *_times("created_at"),
    *_texts("client", "route", "policy", "upstream", "model", "run_id", "step_id", "path"),
    Column("status", Integer, nullable=False),
    *_texts("outcome"),
    Column("stream", Boolean, nullable=False),
    *_times("duration_ms"),
    Column("prompt_tokens_before", BigInteger),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    *_numbers("size_bytes"),
    *_bytes("detail"),
    Column("request_body", LargeBinary),
    Column("answer_body", LargeBinary),
    *(Column(name, Text, nullable=False, server_default="") for name in ("reason", "would")),
    Column("overhead_ms", Float(53)),
    Column("cost_usd", Float(53)),
    *(Column(name, Text, nullable=False, server_default="") for name in ("question", "answer")),
    Index("records_line", *LINE),
    Index("records_of_run", "run_id", "created_at"),
    Index("records_of_client", "client", "created_at"),
)

scratchpad = Table(
    "scratchpad",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("client", "run_id", "media_type"),
    *_numbers("size_bytes"),
    *_times("created_at", "used_at"),
    *_bytes("content"),
    Index("scratchpad_created_at", "created_at", "id"),
    Index("scratchpad_used_at", "used_at"),
    Index("scratchpad_run", "client", "run_id"),
)


memory = Table(
    "memory",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("kind", "client", "link"),
    *_numbers("number"),
    *_bytes("content"),
    *_numbers("size_bytes"),
    *_times("created_at", "used_at"),
    Index("memory_used_at", "used_at"),
)

tool_outcomes = Table(
    "tool_outcomes",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("client", "embedder", "tool_key", "tool_name", "query_hash"),
    *_bytes("vector"),
    *_times("weight"),
    *_numbers("size_bytes"),
    *_times("created_at"),
    Index("tool_outcomes_created_at", "created_at"),
    Index("tool_outcomes_client", "client", "created_at"),
    Index("tool_outcomes_tool", "tool_key", "client"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("client", "run_id", "policy", "hash", "client_key", "kind", "role", "type", "reason", "source", "record_id"),
    Column("score", Float(53)),
    *_bytes("detail", "content"),
    *_numbers("size_bytes"),
    *_times("created_at", "seen_at"),
    *_numbers("seen_count"),
    *_texts("status", "scope", "decided_by", "decision_reason"),
    Column("decided_at", Float(53)),
    *_numbers("version"),
    Index("quarantine_created_at", "created_at", "id"),
    Index("quarantine_status", "status", "created_at", "id"),
    Index("quarantine_run", "client", "run_id"),
    Index("quarantine_client_key", "client_key"),
    Index("quarantine_seen_at", "seen_at"),
)

clashes = Table(
    "clashes",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("client", "run_id", "policy", "pair_hash", "run_key", "type", "topic", "strategy", "record_id"),
    Column("critical", Boolean, nullable=False),
    *_bytes("statements"),
    *_numbers("size_bytes"),
    *_times("created_at", "seen_at"),
    *_texts("status", "resolution", "resolved_by", "reason"),
    *_bytes("merged"),
    Column("resolved_at", Float(53)),
    *_numbers("version"),
    Index("clashes_created_at", "created_at", "id"),
    Index("clashes_run_key", "run_key", "created_at", "id"),
    Index("clashes_run", "client", "run_id"),
    Index("clashes_seen_at", "seen_at"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("subject", "client_key"),
    *_numbers("number"),
    *_texts("decision", "scope", "decided_by", "reason"),
    *_numbers("size_bytes"),
    *_times("decided_at"),
    Index("decisions_subject", "subject", "number"),
    Index("decisions_client_key", "client_key", "scope", "decided_at"),
    Index("decisions_decided_at", "decided_at"),
)

failures = Table(
    "failures",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    *_texts("id"),
    *_texts("client", "client_key", "run_id", "run_key", "policy"),
    *_texts("status", "signal_type", "code", "severity", "subject", "fingerprint"),
    *_bytes("content"),
    *_numbers("size_bytes"),
    *_times("created_at", "last_seen_at", "updated_at"),
    Index("failures_id", "id", unique=True),
    Index("failures_created_at", "created_at", "id"),
    Index("failures_run", "run_id", "created_at", "id"),
    Index("failures_run_key", "run_key", "status", "last_seen_at", "number", "subject"),
    Index("failures_run_subject", "run_key", "status", "subject", "last_seen_at", "number"),
    Index("failures_client_key", "client_key", "status", "last_seen_at", "number", "subject"),
    Index("failures_client_subject", "client_key", "status", "subject", "last_seen_at", "number"),
    Index("failures_client_fingerprint", "client_key", "status", "fingerprint", "last_seen_at", "number"),
    Index("failures_updated_at", "updated_at"),
)

failure_revisions = Table(
    "failure_revisions",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("failure_id"),
    Column("revision", BigInteger),
    *_texts("event", "made_by", "reason"),
    *_bytes("content"),
    *_numbers("size_bytes"),
    *_times("created_at"),
    Index("failure_revisions_failure", "failure_id", "created_at", "id"),
    Index("failure_revisions_created_at", "created_at"),
)

feedback = Table(
    "feedback",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("record_id", "client", "policy", "stage", "place", "label", "said", "expected", "said_by", "note"),
    *_bytes("content"),
    *_numbers("size_bytes"),
    *_times("created_at"),
    Column("record_findings", BigInteger, nullable=False, server_default="0"),
    Index("feedback_created_at", "created_at", "id"),
    Index("feedback_record", "record_id"),
)

rollups = Table(
    "rollups",
    metadata,
    Column("seconds", Integer, primary_key=True),
    Column("start", BigInteger, primary_key=True),
    *_numbers("version", "built"),
    *_times("wait_until"),
    *_texts("panels"),
    *_bytes("content"),
)

rollup_changes = Table(
    "rollup_changes",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    *_numbers("minute"),
)

rollup_marks = Table(
    "rollup_marks",
    metadata,
    Column("id", Integer, primary_key=True),
    *_times("complete_from"),
    Column("marked_from", Float(53)),
)

client_keys = Table(
    "client_keys",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("kind", "name", "sha256"),
    *_bytes("content"),
    *_numbers("version"),
    *_times("changed_at"),
    Index("client_keys_sha256", "sha256"),
)

limit_accounts = Table(
    "limit_accounts",
    metadata,
    Column("id", Text, primary_key=True),
    *_bytes("content"),
    *_times("used_at"),
)

key_days = Table(
    "key_days",
    metadata,
    Column("id", Text, primary_key=True),
    *_texts("day", "client", "team", "model"),
    *_numbers("requests", "refused", "prompt_tokens", "completion_tokens", "micro_usd"),
    Index("key_days_day", "day", "client"),
)


Only: TypeAlias = tuple[str, str]
"""A column of records, and its value."""


def are_only(only: Only) -> ColumnElement[bool]:
    """Records with this value; of a policy's name those of every version of it."""
    column, value = records.c[only[0]], clean(only[1])
    return or_(column == value, column.startswith(f"{value}@", autoescape=True)) if only[0] == "policy" else column == value


def key_of(*parts: str) -> str:
    """An id made of `parts`: 128 bits of SHA-256. Lengths go into the hash, so that no shift of a boundary gives the same id."""
    return keys_of(*parts[:-1])(parts[-1])


def keys_of(*parts: str) -> Callable[[str], str]:
    """`key_of` for ids that have all but the last of their parts in common."""
    common = hashlib.sha256(b"".join(map(_measured, parts)))

    def key(part: str) -> str:
        digest = common.copy()
        digest.update(_measured(part))
        return digest.hexdigest()[:32]

    return key


def _measured(part: str) -> bytes:
    encoded = part.encode("utf-8", "surrogatepass")
    return len(encoded).to_bytes(8, "big") + encoded


def clean(text: str, most_chars: int = MAX_TEXT_CHARS) -> str:
    """`text` as both databases take it: NUL and lone surrogates become U+FFFD, the end is cut.

    More than `MAX_TEXT_CHARS` only for a column without an index.
    """
    text = text[:most_chars]
    if text.isprintable():
        return text
    return "".join("\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)
