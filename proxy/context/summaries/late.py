"""Summaries that came after their deadline, kept for the next turn: in memory, apart for each client, bounded."""

from __future__ import annotations

from typing import Generic, TypeVar

from proxy.language.lru import LRU

T = TypeVar("T")
MAX_PER_CLIENT = 16
"""Entries; each summary has two, by what it covers and by the text that was used in its place."""
MAX_CLIENTS = 256


class Late(Generic[T]):
    """What each client has waiting; the longest unused goes first."""

    def __init__(self, per_client: int = MAX_PER_CLIENT, clients: int = MAX_CLIENTS) -> None:
        self._per_client = per_client
        self._kept: LRU[LRU[T]] = LRU(clients)

    def get(self, client: str, key: str) -> T | None:
        """The client's own, or None."""
        own = self._kept.get(client)
        return None if own is None else own.get(key)

    def put(self, client: str, key: str, value: T) -> None:
        """Keep it."""
        own = self._kept.get(client)
        if own is None:
            self._kept.put(client, own := LRU(self._per_client))
        own.put(key, value)
