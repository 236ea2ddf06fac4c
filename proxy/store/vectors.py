"""Vectors of tool catalogues, by a hash of their text, for all nodes of a store: implements `proxy.ports.SharedVectors`.

Rows of the memory, which go when no node has used them for as long as records stay. No text is in them. What goes wrong costs work and no
answer: a text whose vector cannot be read is embedded again.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence

from proxy.errors import StoreUnavailable
from proxy.store.database import Database
from proxy.store.memory import Memory

log = logging.getLogger("groundwire.embedding")

_ROWS_AT_ONCE = 200
_MOST_WAITING = 50_000
"""Vectors that are still to be written; more are not."""


class DatabaseVectors:
    """Of one model and its weights."""

    def __init__(self, database: Database, version: Callable[[], str]) -> None:
        """`version` names the model and its weights' checksum, and may read files; where it gives "" nothing is shared."""
        self._memory, self._version = Memory(database, "vector"), version
        self._waiting: dict[str, bytes] = {}
        self._writing: asyncio.Task[None] | None = None

    async def get(self, texts: Sequence[str]) -> Mapping[str, bytes]:
        """Implements `proxy.ports.SharedVectors`."""
        try:
            keys = await asyncio.to_thread(self._keys, texts)
            return {keys[row.id]: row.content for row in await self._memory.read(list(keys)) if row.content}
        except StoreUnavailable as error:
            log.debug("vectors of tools could not be read: %s", error)
            return {}

    def put(self, rows: Mapping[str, bytes]) -> None:
        """Implements `proxy.ports.SharedVectors`."""
        if len(self._waiting) + len(rows) > _MOST_WAITING:
            return
        self._waiting |= rows
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="shared-vectors")

    async def stop(self) -> None:
        """Leave what is still to be written: another node embeds it."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._waiting:
                some = {text: self._waiting.pop(text) for text in list(self._waiting)[:_ROWS_AT_ONCE]}
                keys = await asyncio.to_thread(self._keys, list(some))
                if keys:
                    await self._memory.add([self._memory.row(key, "", some[text]) for key, text in keys.items()])
        except StoreUnavailable as error:
            self._waiting.clear()
            log.debug("vectors of tools could not be kept: %s", error)

    def _keys(self, texts: Sequence[str]) -> dict[str, str]:
        """The texts by the keys of their rows, none without a version."""
        if not (version := self._version()):
            return {}
        return {
            self._memory.key(version, hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()): text for text in texts
        }
