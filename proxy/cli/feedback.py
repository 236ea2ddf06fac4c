"""``groundwire feedback export``: what people said of findings, as JSON Lines, the newest first. The store is opened read-only."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TextIO

import msgspec

from proxy.config.settings import Settings
from proxy.errors import StoreUnavailable
from proxy.store.feedback import DatabaseFeedback
from proxy.store.reading import ReadOnlyDatabase

_PAGE = 1000
_encode = msgspec.json.Encoder(order="deterministic").encode


def export(settings: Settings, *, source: Path, stage: str | None, said: str | None, out: TextIO | None = None) -> int:
    """Write it to `out`, else to the standard output; `source` is the file of `settings`. Returns 2 where nothing can be read."""
    try:
        lines = asyncio.run(_lines(settings, source, stage, said))
    except StoreUnavailable as error:
        print(f"groundwire: {error}; --config names another configuration", file=sys.stderr)
        return 2
    for line in lines:
        print(line, file=out or sys.stdout)
    print(f"groundwire: {len(lines):,} findings with a person's word on them", file=sys.stderr)
    return 0


async def _lines(settings: Settings, source: Path, stage: str | None, said: str | None) -> list[str]:
    database = ReadOnlyDatabase(settings.store.url, source=str(source))
    await database.start()
    found, after, more = list[str](), None, True
    try:
        store = DatabaseFeedback(database)
        while more:
            entries, more = await store.list(_PAGE, after, stage=stage, said=said)
            found += [_encode(entry).decode() for entry in entries]
            after = entries[-1].id if entries else None
    finally:
        await database.stop()
    return found
