"""Open connections of clients: a share for each address, and of those that wait for a request the longest idle makes room for a new one.

Who opens connections and sends nothing loses them to whoever comes next from the same address, before anybody is refused; addresses
beyond that are bounded by their shares (`proxy.ledger`).
"""

from __future__ import annotations

from typing import Protocol

from proxy.ledger import Ledger, Party, Share

RESERVED = 64
"""Further connections, for questions after the server's health alone."""


class Closable(Protocol):
    """A connection."""

    party: Party

    def give_way(self) -> None:
        """Close it: it has no request."""


class Connections:
    """Of one process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._share, self._reserve = ledger, ledger.connections, Share(RESERVED)
        self._idle: dict[Party, dict[Closable, None]] = {}
        """By who has them, those without a request; the longest idle first."""
        self._held: dict[Closable, Share] = {}

    def open(self, connection: Closable) -> bool:
        """A client has connected; False where it has to go at once."""
        return self._admit(connection) or self._take(connection, self._reserve)

    def _admit(self, connection: Closable) -> bool:
        """Give it a place among those that may ask for more than the server's health."""
        held = self._held.get(connection)
        if not self._share.may_take(connection.party):
            self._make_room(connection)
        if not self._take(connection, self._share):
            return False
        if held is not None:
            held.release(connection.party)
        return True

    def ask(self, connection: Closable, *, health: bool) -> bool:
        """It has a request, for the server's `health` or for more; False where it may not ask for that."""
        idle = self._idle.get(connection.party)
        if idle is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle[connection.party]
        return health or self._held.get(connection) is self._share or self._admit(connection)

    def close(self, connection: Closable) -> None:
        """It is over; once more does nothing."""
        self.ask(connection, health=True)
        if (held := self._held.pop(connection, None)) is not None:
            held.release(connection.party)

    def idle(self, connection: Closable) -> None:
        """It waits for a request."""
        if connection in self._held:
            self._idle.setdefault(connection.party, {})[connection] = None

    def refused(self, connection: Closable) -> None:
        """Nothing could make room for it."""
        self._ledger.refused("connection_refused", connection.party, "too many connections")

    def _take(self, connection: Closable, share: Share) -> bool:
        taken = share.take(connection.party)
        if taken:
            self._held[connection] = share
        return taken

    def _make_room(self, connection: Closable) -> None:
        """Close the longest idle of its own address, or where that has none, and all places are taken, of the one with most."""
        idle = self._idle.get(connection.party)
        if idle is None and not self._share.free and self._idle:
            idle = max(self._idle.values(), key=len)
        oldest = next((one for one in idle or () if one is not connection and self._held.get(one) is self._share), None)
        if oldest is not None:
            self._ledger.refused("connection_closed", oldest.party, "many connections: the longest idle make room for new ones")
            self.close(oldest)
            oldest.give_way()
