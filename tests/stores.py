"""Stores that are open for a while, made and migrated outside of a test's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from proxy.store.database import Database


class opened:
    """A started database, stopped at the end."""

    def __init__(self, url: str, **options: Any) -> None:
        self.database = Database(url, **options)

    async def __aenter__(self) -> Database:
        await self.database.start()
        assert self.database.problem == ""
        return self.database

    async def __aexit__(self, *_: object) -> None:
        await self.database.stop()


async def migrate(url: str) -> None:
    """Make the tables of the store at `url`."""
    async with opened(url):
        pass


def in_thread(work: Coroutine[Any, Any, None]) -> None:
    """Run `work` to its end, though the test's own event loop may be running already."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()
