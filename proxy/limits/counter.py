"""Who counts what keys and teams take: one decision before a request, one correction after it, over all processes.

Implemented in `proxy.limits.accounts` (the store, for one machine or few requests) and `proxy.limits.valkey` (Valkey or Redis, over nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from proxy.config.keys import NO_LIMITS, LimitName, Limits
from proxy.errors import GroundwireError

LEASE_S = 60.0
"""Without a renewal for so long, a request counts no more as one of ``concurrent``: its process is gone."""
RENEW_S = 20.0
WINDOW_S = 60
"""Of ``rpm`` and ``tpm``."""


class CounterAway(GroundwireError):
    """Nobody counts now."""


class Subject(Struct, frozen=True):
    """A key or a team, with its limits."""

    kind: str
    """``key`` or ``team``."""
    name: str
    limits: Limits = NO_LIMITS
    group: str = ""
    """What is decided together shares it: the team's name, or the key's where it has none."""

    @property
    def id(self) -> str:
        """Of its account."""
        return f"{self.kind}:{self.name}"


class Amount(Struct, frozen=True):
    """What a request takes, or is thought to take."""

    tokens: int = 0
    micro_usd: int = 0
    """Millionths of a dollar."""


NOTHING = Amount()


class Ask(Struct, frozen=True):
    """What to reserve for a request."""

    full: Amount = NOTHING
    """All that it may take."""
    least: Amount = NOTHING
    """What it probably takes: reserved in its place where all would pass a limit and nothing else is open, so that a limit can be used to
    its end, and overspent by one request at most."""


class Standing(Struct, frozen=True):
    """One subject's account, as a decision left it."""

    refused: LimitName | None = None
    """The limit that the request would pass."""
    wait_s: float = 0.0
    """Until it would not; a guess where an open request has to end first."""
    reducible: bool = False
    """Whether `Ask.least` passes none, and nothing is open."""
    requests: int = 0
    """Taken of ``rpm`` and ``tpm``, and how long until all of that is free again."""
    tokens: int = 0
    reset_s: float = 0.0
    open: int = 0
    """Requests at the moment."""
    day_micro_usd: int = 0
    month_micro_usd: int = 0


class Decision(Struct, frozen=True):
    """On one request."""

    at: float
    """By the counter's clock, in seconds since the epoch."""
    standings: tuple[Standing, ...]
    """Of the subjects, in order."""
    reduced: bool = False
    """Whether `Ask.least` was reserved."""

    @property
    def granted(self) -> bool:
        """Whether it may go on: then its amount is reserved in every account, else in none."""
        return all(one.refused is None for one in self.standings)


class Settlement(Struct, frozen=True):
    """What a granted request has taken in the end."""

    lease: str
    subjects: tuple[Subject, ...]
    at: float
    """When it was granted, as `Decision.at`."""
    reserved: Amount
    taken: Amount


class Counter(Protocol):
    """Keeps the accounts. All of it raises `CounterAway`."""

    async def start(self) -> None:
        """Connect, as far as that is possible now; never raises."""

    async def stop(self) -> None:
        """Close."""

    async def reserve(self, lease: str, subjects: Sequence[Subject], ask: Ask) -> Decision:
        """May the request `lease` go on? The same lease again gets its grant again, and is counted once."""

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Correct what was reserved; a lease that was settled before changes nothing."""

    async def renew(self, open_leases: Sequence[tuple[str, Sequence[Subject]]]) -> None:
        """These requests are still being served."""

    async def look(self, subjects: Sequence[Subject]) -> list[Standing]:
        """Their accounts now."""
