"""Brings a store's tables to what `proxy.store.tables` says; called by `proxy.store.database` inside a transaction that holds its lock.

An empty store gets the tables. One that has some gets what it lacks, whichever revision made them: tables, columns, indexes. Rows of tables
that are gone move to where their kind is kept now (`_MOVED`).

Beside a store's revision stands the oldest one whose release goes on with its tables (`COMPATIBLE_FROM`). So nodes of the last release
serve beside those of this one, and may be started anew: they leave the tables as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import Connection, inspect, text
from sqlalchemy.schema import CreateColumn

from proxy.store.tables import TO_REVIEW, TOKENS, TROUBLED, WITH_BODIES, WOULD_ACT, metadata

HEAD = "0016"
"""To be raised with each change of `proxy.store.tables`; the test of revisions keeps a schema of each one that stores may have."""
COMPATIBLE_FROM = "0014"
"""The oldest revision whose release works with tables of `HEAD`, which only have more than its own. To be raised to `HEAD` with a change
that is more than an addition."""
_VERSION, _COMPATIBLE = "alembic_version", "compatible_from"
"""The table that has a store's revision, by the name that Alembic gave it, which brought stores up before; and its other column, which
stores of earlier releases are without."""
_PARTIAL = {
    "rollups_due": "rollups (seconds, start) WHERE built <> version",
    "records_troubled": f"records (created_at, run_id, outcome, status) WHERE {TROUBLED}",
    "records_to_review": f"records (created_at, id) WHERE {TO_REVIEW}",
    "records_would": f"records (created_at, id) WHERE {WOULD_ACT}",
    "records_pending": "records (created_at) WHERE outcome = 'pending'",
    "records_with_bodies": f"records (created_at, id) WHERE {WITH_BODIES}",
    "memory_processes": "memory (used_at) WHERE kind = 'process'",
    "memory_histories": "memory (client, used_at) WHERE kind = 'history'",
}
"""Indexes of some rows: to say so in `proxy.store.tables` imports the modules of all of PostgreSQL's drivers."""
_DISTINCT = {"client": 200, "model": 50, "route": 50, "reason": 50, "outcome": 16, "would": 16}
"""Of a megabyte of records, about; more cost time, and no right answer."""
_RANGES = {
    "records_ranges": "records USING brin ("
    + ", ".join(f"{name} text_bloom_ops (n_distinct_per_range = {most})" for name, most in _DISTINCT.items())
    + f", status int4_minmax_multi_ops, duration_ms, cost_usd, ({TOKENS})) WITH (pages_per_range = 128, autosummarize = on)"
}
"""What each megabyte of PostgreSQL's records may have: 3 MB for 20 million records, in which a value that is nowhere, or in few places,
is found out in milliseconds. From PostgreSQL 14 on.
"""
_BRIN_FROM = (14,)
_MOVED: Mapping[str, str] = {  # table -> kind, link, number, content, client, created_at and used_at of its rows, as PostgreSQL says it
    "tool_runs": "'tool_run', '', version, names, client, created_at, used_at",
    "first_seen": "'first_seen', '', version, times, client, created_at, used_at",
    "compactions": "'compaction', '', length, pieces, client, made_at, used_at",
    "lineages": "'lineage', continued_by, 0, convert_to(run_id, 'UTF8'), client, created_at, used_at",
    "histories": "'history', CASE previous WHEN '' THEN '' ELSE 'history:' || previous END, 0, content, client, created_at, used_at",
    "owners": "'owner', '', 0, convert_to('', 'UTF8'), client, created_at, used_at",
    "tool_outcome_versions": "'tool_outcomes', '', version, convert_to('', 'UTF8'), id, changed_at, changed_at",
}


class Revision(Struct, frozen=True):
    """Of a store's tables."""

    number: str
    compatible_from: str
    """The oldest revision whose release may use them."""

    @property
    def is_newer(self) -> bool:
        """Whether a newer release than this one has made them."""
        return self.number > HEAD

    @property
    def is_usable(self) -> bool:
        """Whether this release may go on with them, once older ones are brought up."""
        return self.compatible_from <= HEAD or not self.is_newer


def current_revision(connection: Connection) -> Revision | None:
    """The store's revision, or None when it has no tables yet."""
    if connection.dialect.name == "sqlite":
        there, columns = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{_VERSION}'", "*"  # noqa: S608
    else:  # words that stay right when the column comes: a prepared statement with * would not
        there = f"SELECT to_regclass('{_VERSION}') IS NOT NULL"
        columns = f"version_num, to_jsonb({_VERSION}) ->> '{_COMPATIBLE}' AS {_COMPATIBLE}"
    if not connection.scalar(text(there)):
        return None
    row = connection.execute(text(f"SELECT {columns} FROM {_VERSION}")).mappings().first()  # noqa: S608
    return None if row is None else Revision(row["version_num"], row.get(_COMPATIBLE) or row["version_num"])


def upgrade(connection: Connection) -> None:
    """Add what is missing, in the transaction that the connection is in; the caller commits."""
    metadata.create_all(connection)
    inspector = inspect(connection)
    tables = set(inspector.get_table_names())
    for table in metadata.sorted_tables:
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        for column in table.columns:
            if column.name not in columns:
                made = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {made}"))
        indexes = {str(index["name"]) for index in inspector.get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in indexes:
                index.create(connection)
        for name in indexes - {index.name for index in table.indexes} - _PARTIAL.keys() - _RANGES.keys():
            connection.execute(text(f"DROP INDEX {name}"))
    has_ranges = connection.dialect.name == "postgresql" and (connection.dialect.server_version_info or ()) >= _BRIN_FROM
    for name, rows in (_PARTIAL | _RANGES if has_ranges else _PARTIAL).items():
        connection.execute(text(f"CREATE INDEX IF NOT EXISTS {name} ON {rows}"))
    for name in _MOVED.keys() & tables:
        _move(connection, name)
    _mark(connection, {column["name"] for column in inspector.get_columns(_VERSION)} if _VERSION in tables else set())


def _move(connection: Connection, name: str) -> None:
    """A table's rows into the memory, and the table away."""
    kind, _, values = _MOVED[name].partition(", ")
    if connection.dialect.name == "sqlite":
        values = values.replace("convert_to(", "CAST(").replace(", 'UTF8')", " AS BLOB)")
    columns = "kind, link, number, content, client, created_at, used_at, id, size_bytes"
    query = f"SELECT {kind}, {values}, {kind} || ':' || id, size_bytes FROM {name}"  # noqa: S608 - names of our own
    connection.execute(text(f"INSERT INTO memory ({columns}) {query}"))
    connection.execute(text(f"DROP TABLE {name}"))


def _mark(connection: Connection, columns: set[str]) -> None:
    """Write the revision down, in a table that has these `columns`."""
    if not columns:
        connection.execute(text(f"CREATE TABLE {_VERSION} (version_num VARCHAR(32) NOT NULL PRIMARY KEY, {_COMPATIBLE} VARCHAR(32))"))
    elif _COMPATIBLE not in columns:
        connection.execute(text(f"ALTER TABLE {_VERSION} ADD COLUMN {_COMPATIBLE} VARCHAR(32)"))
    connection.execute(text(f"DELETE FROM {_VERSION}"))  # noqa: S608
    connection.execute(text(f"INSERT INTO {_VERSION} VALUES ('{HEAD}', '{COMPATIBLE_FROM}')"))  # noqa: S608
