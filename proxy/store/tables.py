"""The store's tables, as SQLAlchemy Core sees them; `proxy.store.schema` makes them, in stores of earlier revisions too.

Text columns take what `clean` returns: PostgreSQL's text holds neither NUL nor lone surrogates, and its index entries end at
about 2,700 bytes. JSON is kept as UTF-8 bytes, content as it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

MAX_TEXT_CHARS = 512
"""Of a text column: four UTF-8 bytes each still fit an index entry of PostgreSQL (2,704 bytes) beside an id."""

metadata = MetaData()

LINE = (
    *("created_at", "id", "outcome", "status", "reason", "would", "route", "model", "client", "duration_ms", "overhead_ms"),
    *("prompt_tokens_before", "prompt_tokens", "completion_tokens", "cost_usd"),
)
"""What lists are filtered by and charts are made of, in the order of time. The index holds all of it, so that looking through many
exchanges never reads their details. `model`, of 512 characters at most, is the one column in it that a client fills."""


def _text(name: str) -> Column[Any]:
    return Column(name, Text, nullable=False)


records = Table(
    "records",
    metadata,
    Column("id", Text, primary_key=True),
    Column("created_at", Float(53), nullable=False),
    *map(_text, ("client", "route", "policy", "upstream", "model", "run_id", "step_id", "path")),
    Column("status", Integer, nullable=False),
    _text("outcome"),
    Column("stream", Boolean, nullable=False),
    Column("duration_ms", Float(53), nullable=False),
    Column("prompt_tokens_before", BigInteger),
    Column("prompt_tokens", BigInteger),
    Column("completion_tokens", BigInteger),
    Column("size_bytes", BigInteger, nullable=False),
    Column("detail", LargeBinary, nullable=False),
    Column("request_body", LargeBinary),
    Column("answer_body", LargeBinary),
    *(Column(name, Text, nullable=False, server_default="") for name in ("reason", "would")),
    Column("overhead_ms", Float(53)),
    Column("cost_usd", Float(53)),
    *(Column(name, Text, nullable=False, server_default="") for name in ("question", "answer")),
    Index("records_line", *LINE),
    Index("records_run", "run_id", "id"),
    Index("records_client", "client", "id"),
)

scratchpad = Table(
    "scratchpad",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("client", "run_id", "media_type")),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("used_at", Float(53), nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("scratchpad_created_at", "created_at", "id"),
    Index("scratchpad_used_at", "used_at"),
    Index("scratchpad_run", "client", "run_id"),
)


memory = Table(
    "memory",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("kind", "client", "link")),
    Column("number", BigInteger, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("used_at", Float(53), nullable=False),
    Index("memory_used_at", "used_at"),
)

tool_outcomes = Table(
    "tool_outcomes",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("client", "embedder", "tool_key", "tool_name", "query_hash")),
    Column("vector", LargeBinary, nullable=False),
    Column("weight", Float(53), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Index("tool_outcomes_created_at", "created_at"),
    Index("tool_outcomes_client", "client", "created_at"),
    Index("tool_outcomes_tool", "tool_key", "client"),
)

tool_outcome_versions = Table(
    "tool_outcome_versions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("changed_at", Float(53), nullable=False),
    Index("tool_outcome_versions_changed_at", "changed_at"),
)

quarantine = Table(
    "quarantine",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("client", "run_id", "policy", "hash", "client_key", "kind", "role", "type", "reason", "source", "record_id")),
    Column("score", Float(53)),
    Column("detail", LargeBinary, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("seen_at", Float(53), nullable=False),
    Column("seen_count", BigInteger, nullable=False),
    *map(_text, ("status", "scope", "decided_by", "decision_reason")),
    Column("decided_at", Float(53)),
    Column("version", BigInteger, nullable=False),
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
    *map(_text, ("client", "run_id", "policy", "pair_hash", "run_key", "type", "topic", "strategy", "record_id")),
    Column("critical", Boolean, nullable=False),
    Column("statements", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("seen_at", Float(53), nullable=False),
    *map(_text, ("status", "resolution", "resolved_by", "reason")),
    Column("merged", LargeBinary, nullable=False),
    Column("resolved_at", Float(53)),
    Column("version", BigInteger, nullable=False),
    Index("clashes_created_at", "created_at", "id"),
    Index("clashes_run_key", "run_key", "created_at", "id"),
    Index("clashes_run", "client", "run_id"),
    Index("clashes_seen_at", "seen_at"),
)

decisions = Table(
    "decisions",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("subject", "client_key")),
    Column("number", BigInteger, nullable=False),
    *map(_text, ("decision", "scope", "decided_by", "reason")),
    Column("size_bytes", BigInteger, nullable=False),
    Column("decided_at", Float(53), nullable=False),
    Index("decisions_subject", "subject", "number"),
    Index("decisions_client_key", "client_key", "scope", "decided_at"),
    Index("decisions_decided_at", "decided_at"),
)

failures = Table(
    "failures",
    metadata,
    Column("number", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    _text("id"),
    *map(_text, ("client", "client_key", "run_id", "run_key", "policy")),
    *map(_text, ("status", "signal_type", "code", "severity", "subject", "fingerprint")),
    Column("content", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("last_seen_at", Float(53), nullable=False),
    Column("updated_at", Float(53), nullable=False),
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
    _text("failure_id"),
    Column("revision", BigInteger),
    *map(_text, ("event", "made_by", "reason")),
    Column("content", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Index("failure_revisions_failure", "failure_id", "created_at", "id"),
    Index("failure_revisions_created_at", "created_at"),
)

feedback = Table(
    "feedback",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("record_id", "client", "policy", "stage", "place", "label", "said", "expected", "said_by", "note")),
    Column("content", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Index("feedback_created_at", "created_at", "id"),
    Index("feedback_record", "record_id"),
)

rollups = Table(
    "rollups",
    metadata,
    Column("seconds", Integer, primary_key=True),
    Column("start", BigInteger, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("built", BigInteger, nullable=False),
    Column("wait_until", Float(53), nullable=False),
    _text("panels"),
    Column("content", LargeBinary, nullable=False),
)

rollup_marks = Table(
    "rollup_marks",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("complete_from", Float(53), nullable=False),
    Column("marked_from", Float(53)),
)


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
