"""The store's engine comes without SQLAlchemy's ORM, and stands in nobody's way who wants that."""

import subprocess
import sys

import pytest

_BOTH = """
import sys
from proxy.store.drivers import AsyncEngine, create_async_engine
assert not [name for name in sys.modules if name.startswith("sqlalchemy.orm")]
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker
import sqlalchemy.ext.asyncio
engine = sqlalchemy.ext.asyncio.create_async_engine("sqlite+aiosqlite://")
assert type(engine) is AsyncEngine is sqlalchemy.ext.asyncio.AsyncEngine
async_sessionmaker(engine)()
"""


@pytest.mark.process
def test_the_orm_is_there_for_whoever_imports_it_later() -> None:
    ended = subprocess.run([sys.executable, "-c", _BOTH], capture_output=True, text=True, timeout=60)
    assert "" == ended.stderr


@pytest.mark.process
def test_what_was_imported_before_is_used() -> None:
    code = "import sqlalchemy.ext.asyncio as a; from proxy.store.drivers import AsyncEngine; assert AsyncEngine is a.AsyncEngine"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "" == ended.stderr
