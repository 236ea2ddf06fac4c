"""The store's keys and teams in this process: looked at every two seconds, so that what one process revokes counts nowhere after five, and
before a key that is not known is refused, so that a new one is known everywhere at once.

While the store is away the last ones count on; before the first look none of its keys is known, and a client with another is told to come
again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from proxy.config.access import Clients
from proxy.config.keys import NO_LIMITS, KeySettings, Limits
from proxy.errors import StoreUnavailable
from proxy.limits.counter import Subject
from proxy.limits.keys import DatabaseKeys
from proxy.limits.limiter import subjects_of
from proxy.ports.background import RepeatedTask

log = logging.getLogger("groundwire.limits")

LOOK_S = 2.0
_PATIENCE_S = 1.0
"""So long a client with a key that is not known waits for a look."""
_APART_S = 0.1
"""From one such look to the next: a flood of wrong keys must not keep the store busy."""


class KeyRing:
    """Keeps `clients` as the store has them."""

    def __init__(self, clients: Clients, teams: Mapping[str, Limits], source: DatabaseKeys | None) -> None:
        """`teams` are config.yaml's, which come first; without a `source` there are no others."""
        self._clients, self._own_teams, self._source = clients, teams, source
        self._teams = dict(teams)
        self._seen: object = None
        self._unreadable: object = None
        """What `changes` gave when keys could last not be read."""
        self._looks = RepeatedTask(self.look, LOOK_S, name="keys", problem="keys could not be looked up", log=log)
        self._one_look = asyncio.Lock()
        self._looks_begun, self._next_look = 0, 0.0
        self.version = clients.version(self._teams)
        """Of the keys and limits that count here now."""

    def key(self, client: str) -> KeySettings | None:
        """The client's key."""
        return self._clients.key(client)

    def subjects(self, key: KeySettings) -> tuple[Subject, ...]:
        """Whose limits a request of this key counts for."""
        of_team = self._teams.get(key.team, NO_LIMITS) if key.team else NO_LIMITS
        return subjects_of(key.name, key.limits, key.team, of_team)

    async def start(self) -> None:
        """Look once, and then again and again."""
        if self._source is not None:
            await self.look()
            self._looks.start(LOOK_S)

    async def stop(self) -> None:
        """No further looks."""
        await self._looks.stop()

    async def look_before_refusal(self) -> bool:
        """A client has sent a key that is not known: whether keys have changed. All that wait share the looks."""
        if self._source is None:
            return False
        seen, needed = self._seen, self._looks_begun + 1  # a look that goes on may have read what was before this key
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S), self._one_look:
                if self._looks_begun < needed:
                    await asyncio.sleep(self._next_look - time.monotonic())
                    self._next_look = time.monotonic() + _APART_S
                    await self._look()
        return self._seen != seen

    async def look(self) -> None:
        """Take over what has changed; never raises."""
        async with self._one_look:
            await self._look()

    async def _look(self) -> None:
        if self._source is None:
            return
        self._looks_begun += 1
        changes: object = None
        try:
            changes = await self._source.changes()
            if changes == self._seen:
                return
            found = await self._source.all()
        except StoreUnavailable as error:
            log.debug("keys could not be looked up: %s", error)
            return
        except Exception:  # as a row that a later release has written: those that are known go on, and so do the looks
            if changes is None or changes != self._unreadable:  # said once of the same rows, and not at each look
                log.exception("keys could not be read: those that were read before count on")
            self._unreadable = changes
            return
        self._clients.replace({sha256: entry for key in found.keys for sha256, entry in key.hashes().items()})
        self._teams = {**found.teams, **self._own_teams}
        self._seen, self.version = changes, self._clients.version(self._teams)
        log.info("keys of the store: %d, teams: %d", len(found.keys), len(found.teams))
