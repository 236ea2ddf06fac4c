"""SQLAlchemy's engine for asyncio without its ORM, of which this project uses nothing: 7 MB and 50 ms of a start.

`sqlalchemy.ext.asyncio` imports the ORM for its sessions; the module in it that has the engine does not. So that module is imported in an
empty package of that name, which goes at once: whoever imports the real one afterwards gets it whole, with these same classes.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING

import sqlalchemy.ext

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
else:
    _PACKAGE = "sqlalchemy.ext.asyncio"
    if _PACKAGE not in sys.modules:
        with suppress(ImportError):  # a later SQLAlchemy that is cut otherwise: the next lines import all of it
            sys.modules[_PACKAGE] = _empty = ModuleType(_PACKAGE)
            _empty.__path__ = [f"{place}/asyncio" for place in sqlalchemy.ext.__path__]
            try:
                importlib.import_module(f"{_PACKAGE}.engine")
            finally:
                del sys.modules[_PACKAGE]
    _engine = sys.modules.get(f"{_PACKAGE}.engine") or importlib.import_module(_PACKAGE)
    AsyncConnection, AsyncEngine, create_async_engine = _engine.AsyncConnection, _engine.AsyncEngine, _engine.create_async_engine

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]
