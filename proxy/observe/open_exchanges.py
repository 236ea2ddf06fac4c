"""Exchanges of this process that have no record yet: whose they are, and who waits for the record.

In: `proxy.server.handler`, when it knows who asks and when the record has been submitted. Out: `proxy.admin.verdicts`, which is woken then.
Everything runs on the event loop.
"""

from __future__ import annotations

import asyncio

from msgspec import Struct


class OpenExchange(Struct, eq=False):
    """One of them."""

    client: str
    """As `proxy.store.records.Record.client`."""
    route: str
    """The route's prefix."""
    listeners: tuple[asyncio.Event, ...] = ()
    """Set when the record is there."""


class OpenExchanges:
    """Those of one process, by record id."""

    def __init__(self) -> None:
        self._open: dict[str, OpenExchange] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, record_id: str, client: str, route: str) -> None:
        """A request of `client` is being served."""
        self._open[record_id] = OpenExchange(client, route)

    def get(self, record_id: str) -> OpenExchange | None:
        """The exchange; None where this process serves none of this id, or has its record."""
        return self._open.get(record_id)

    def listen(self, record_id: str, event: asyncio.Event) -> bool:
        """Set `event` when the record is there; False where the exchange is not open."""
        found = self._open.get(record_id)
        if found is not None and event not in found.listeners:
            found.listeners = (*found.listeners, event)
        return found is not None

    def remove(self, record_id: str) -> None:
        """Its record is there, or will never be."""
        found = self._open.pop(record_id, None)
        for event in found.listeners if found is not None else ():
            event.set()
