"""Alembic's environment: how the store's tables came to be, one file a revision."""
