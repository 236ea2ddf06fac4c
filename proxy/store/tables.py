"""The store's tables, as SQLAlchemy Core sees them; `migrations/versions` creates them, and a test holds the two together.

Text columns take what `clean` returns: PostgreSQL's text holds neither NUL nor lone surrogates, and its index entries end at
about 2,700 bytes. JSON is kept as UTF-8 bytes, content as it came.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, LargeBinary, MetaData, Table, Text

MAX_TEXT_CHARS = 512
"""Of a text column: four UTF-8 bytes each still fit an index entry of PostgreSQL (2,704 bytes) beside an id."""

metadata = MetaData()


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
    Index("records_created_at", "created_at"),
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


tool_runs = Table(
    "tool_runs",
    metadata,
    Column("id", Text, primary_key=True),
    _text("client"),
    Column("names", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("used_at", Float(53), nullable=False),
    Index("tool_runs_used_at", "used_at"),
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

compactions = Table(
    "compactions",
    metadata,
    Column("id", Text, primary_key=True),
    *map(_text, ("client", "run_id", "covers")),
    Column("length", BigInteger, nullable=False),
    Column("pieces", LargeBinary, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("made_at", Float(53), nullable=False),
    Column("used_at", Float(53), nullable=False),
    Index("compactions_used_at", "used_at"),
)

first_seen = Table(
    "first_seen",
    metadata,
    Column("id", Text, primary_key=True),
    _text("client"),
    Column("times", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Float(53), nullable=False),
    Column("used_at", Float(53), nullable=False),
    Index("first_seen_used_at", "used_at"),
)


def key_of(*parts: str) -> str:
    """An id made of `parts`: 128 bits of SHA-256. Lengths go into the hash, so that no shift of a boundary gives the same id."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.hexdigest()[:32]


def clean(text: str) -> str:
    """`text` as both databases take it: NUL and lone surrogates become U+FFFD, the end is cut at `MAX_TEXT_CHARS`."""
    text = text[:MAX_TEXT_CHARS]
    if text.isprintable():
        return text
    return "".join("\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)
