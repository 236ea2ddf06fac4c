"""Summaries that came after their deadline, kept for the next turn: in memory, apart for each client, bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

T = TypeVar("T")
MAX_PER_CLIENT = 16
"""Entries; each summary has two, by what it covers and by the text that was used in its place."""
MAX_CLIENTS = 256


class Late(Generic[T]):
    """What each client has waiting; the longest unused goes first."""

    def __init__(self, per_client: int = MAX_PER_CLIENT, clients: int = MAX_CLIENTS) -> None:
        self._per_client, self._most = per_client, clients
        self._kept: OrderedDict[str, OrderedDict[str, T]] = OrderedDict()

    def get(self, client: str, key: str) -> T | None:
        """The client's own, or None."""
        own = self._kept.get(client)
        if own is None or key not in own:
            return None
        self._kept.move_to_end(client)
        own.move_to_end(key)
        return own[key]

    def put(self, client: str, key: str, value: T) -> None:
        """Keep it."""
        own = self._kept.setdefault(client, OrderedDict())
        own[key] = value
        self._kept.move_to_end(client)
        while len(own) > self._per_client:
            own.popitem(last=False)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
