"""Counters for the tests of limits."""

from collections.abc import Iterator

import pytest

from tests.limits import valkey
from tests.store.conftest import database, kind, migrated_server, postgres_server, url  # noqa: F401 - stores of both kinds


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[valkey.Server]:
    running = valkey.server()
    try:
        server = running.__enter__()
    except valkey.NoServer as error:
        pytest.skip(f"limits over nodes need a Valkey server: {error}")
    yield server
    running.__exit__(None, None, None)
