"""Brings a store's tables to the newest revision; called by `proxy.store.database` inside a transaction that holds its lock.

Alembic takes 0.3 s to import, so it is imported only when the one query of `current_revision` shows an older schema.
"""

from __future__ import annotations

import logging
from pathlib import Path

from sqlalchemy import Connection, text

_FOLDER = Path(__file__).parent / "migrations"


def head_revision() -> str:
    """The newest revision. A file in ``migrations/versions`` is named REVISION_what.py, with four digits that count up."""
    return max(file.name[:4] for file in (_FOLDER / "versions").glob("[0-9]*.py"))


def current_revision(connection: Connection) -> str | None:
    """The store's revision, or None when it has no tables yet."""
    if connection.dialect.name == "sqlite":
        there = connection.scalar(text("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"))
    else:
        there = connection.scalar(text("SELECT to_regclass('alembic_version') IS NOT NULL"))
    if not there:
        return None
    found = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return str(found) if found is not None else None


def upgrade(connection: Connection) -> None:
    """Run every missing migration on `connection`, in the transaction it is in; the caller commits."""
    logging.getLogger("alembic").setLevel(logging.WARNING)  # its INFO lines are not news to an operator
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
