"""What this worker has put into the store already: every turn brings the whole conversation again, and most of it is known.

A memory only: what is not in it is put once more, and the store knows it by its cause.
"""

from __future__ import annotations

from collections.abc import Sequence

from proxy.language.lru import LRU, key_of
from proxy.ports.failures import FailureEvent, FailureRecord

SIZE = 65_536
"""Events; about 100 bytes each."""
EXCHANGES = 4096
"""Exchanges whose answer has not left yet, and runs that are known to have failed."""


class Applied:
    """Belongs to one stage of one worker."""

    def __init__(self, size: int = SIZE) -> None:
        self._known: LRU[bool] = LRU(size)
        self._failed: LRU[bool] = LRU(EXCHANGES)
        self._telling: LRU[list[FailureEvent]] = LRU(EXCHANGES)

    def new(self, owner: tuple[str, str], events: Sequence[FailureEvent]) -> list[FailureEvent]:
        """Those that have not been applied; `owner` is client and run."""
        return [event for event in events if _key(owner, event) not in self._known]

    def has_failed(self, owner: tuple[str, str]) -> bool:
        """Whether anything has been applied for its run by this worker."""
        return self._failed.get(key_of(*owner)) is not None

    def add(self, owner: tuple[str, str], events: Sequence[FailureEvent]) -> None:
        """They have been applied."""
        self._failed.put(key_of(*owner), True)
        for event in events:
            self._known.put(_key(owner, event), True)

    def telling(self, exchange_id: str, records: Sequence[FailureRecord]) -> None:
        """Guidance about `records` goes into a prompt; of one that was told since it last occurred nothing new is to be kept."""
        events = [
            FailureEvent(kind="injected", fingerprint=record.fingerprint, cause=f"told>{record.occurrence_count}")
            for record in records
            if not record.guided
        ]
        if events:
            self._telling.put(exchange_id.encode(), events)

    def told(self, exchange_id: str) -> list[FailureEvent]:
        """What the exchange told, once."""
        events = self._telling.get(exchange_id.encode())
        if events:
            self._telling.put(exchange_id.encode(), [])
        return list(events or ())


def _key(owner: tuple[str, str], event: FailureEvent) -> bytes:
    return key_of(*owner, event.kind, event.fingerprint, event.cause)
