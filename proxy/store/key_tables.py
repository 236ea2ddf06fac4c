"""The tables of client keys: who they are, what is counted of them, what they have spent (`proxy.limits.keys`, `proxy.limits.accounts`)."""

from __future__ import annotations

from sqlalchemy import Column, Float, Index, LargeBinary, Table, Text
from sqlalchemy.types import BigInteger

from proxy.store.tables import metadata

client_keys = Table(
    "client_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("changed_at", Float(53), nullable=False),
    Index("client_keys_sha256", "sha256"),
)

limit_accounts = Table(
    "limit_accounts",
    metadata,
    Column("id", Text, primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("used_at", Float(53), nullable=False),
)

key_days = Table(
    "key_days",
    metadata,
    Column("id", Text, primary_key=True),
    *(Column(name, Text, nullable=False) for name in ("day", "client", "team", "model")),
    *(Column(name, BigInteger, nullable=False) for name in ("requests", "refused", "prompt_tokens", "completion_tokens", "micro_usd")),
    Index("key_days_day", "day", "client"),
)
