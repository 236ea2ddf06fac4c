"""Who has how much of what is scarce: connections, bytes of bodies, places at an upstream, wrong keys. One account for each party.

A party is a client's key, or where there are none the hash of its ``Authorization`` and, with a larger share, the address that it comes
from: anybody can make up another ``Authorization``. A `Share` bounds what a party has by what is still free (dynamic thresholds,
A. Choudhury and E. Hahne, IEEE/ACM Transactions on Networking 6(2), 1998): one party alone gets its share of everything, and of what it
leaves the next one gets the same part, so that something is free for a party that has nothing, also beside several that take all they can.

In: `take` and `release`, from wherever the scarce thing is handed out. Out: whether it may be; what was refused is counted, and logged
once a minute for each party. All of it belongs to one process, and several workers have one ledger each, but for wrong keys, which
`SharedGuesses` counts over all of them.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol

from proxy.errors import RateLimited

log = logging.getLogger("groundwire.ledger")

SHARE = 0.75
"""Of all there is, for a party that is alone."""
MAX_CONNECTIONS = 4_096
MAX_BODIES_BYTES = 256_000_000
Party = tuple[tuple[str, float], ...]
"""What is charged: names, each with the share that it may have. () is the server itself, which only what is free bounds."""
NOBODY: Party = ()
_LOG_EVERY_S = 60.0
_MAX_LOGGED = 1_024
"""Parties that are remembered as logged; past it all are forgotten."""


class Share:
    """So much of one thing."""

    __slots__ = ("_of", "free", "total")

    def __init__(self, total: int) -> None:
        self.total = self.free = total
        self._of: dict[str, int] = {}
        """What each party has; nobody stands here with nothing."""

    def of(self, name: str) -> int:
        """What is charged to `name`."""
        return self._of.get(name, 0)

    def may_take(self, party: Party, amount: int = 1) -> bool:
        """Whether there is so much, and each of the party's names is within its share."""
        free, of = self.free, self._of
        if amount > free:
            return False
        for name, share in party:  # noqa: SIM110 (a generator costs more than what it does here)
            if name in of and of[name] * (1 - share) >= share * free:
                return False
        return True

    def take(self, party: Party, amount: int = 1) -> bool:
        """Charge the party; False, and nothing is charged, where it may not have that."""
        free, of = self.free, self._of
        if amount > free:
            return False
        for name, share in party:  # as in `may_take`, which would be one more call of each request's
            if name in of and of[name] * (1 - share) >= share * free:
                return False
        self.free = free - amount
        for name, _ in party:
            of[name] = of[name] + amount if name in of else amount
        return True

    def release(self, party: Party, amount: int = 1) -> None:
        """What `take` has charged, or part of it."""
        self.free += amount
        for name, _ in party:
            left = self._of[name] - amount
            if left:
                self._of[name] = left
            else:
                del self._of[name]


class Holding:
    """What the body of one request has, however it ends."""

    __slots__ = ("_amount", "_ledger", "party")

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._amount = ledger, 0
        self.party = NOBODY
        """Who is charged; set before anything is taken."""

    def take(self, amount: int) -> bool:
        """So much more; False where the party may not have it."""
        if not self._ledger.bodies.take(self.party, amount):
            self._ledger.refused("body_refused", self.party, "its bodies have no room")
            return False
        self._amount += amount
        return True

    def remember(self, amount: int) -> bool:
        """So much for what its client can send again; False also where less than half of all room were left for those who ask now."""
        bodies = self._ledger.bodies
        if not bodies.may_take(self.party, amount + bodies.total // 2) or not bodies.take(self.party, amount):
            self._ledger.refused("history_refused", self.party, "no room to remember its conversation: it has to send all of it again")
            return False
        self._amount += amount
        return True

    def release(self) -> None:
        """All of it; once more does nothing."""
        amount, self._amount = self._amount, 0
        if amount:
            self._ledger.bodies.release(self.party, amount)


class SharedGuesses(Protocol):
    """Wrong keys over all processes; implemented in `proxy.limits.limiter`."""

    async def add(self, kind: str, network: str, most: int) -> float:
        """A wrong key came from there: seconds for which it should not send another, 0 while it may, or where nobody can tell."""


class Guesses:
    """Wrong keys by address: past so many within a minute who sends another one is told to wait, and not whether it is wrong.

    A right key is never counted and never waits: who sends it must not be locked out by others behind the same address.
    """

    def __init__(
        self, most: int, kind: str = "", *, window_s: float = 60.0, addresses: int = 1024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`kind` says of which keys; `addresses` is how many are remembered; the one that guessed longest ago is forgotten first."""
        self.most, self.kind, self._window_s, self._addresses, self._clock = most, kind, window_s, addresses, clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def add(self, address: str) -> float:
        """A wrong key came from there: seconds for which it should not send another, 0 while it may."""
        name, now = network_of(address), self._clock()
        times = self._times.setdefault(name, deque())
        self._times.move_to_end(name)
        while times and times[0] <= now - self._window_s:
            times.popleft()
        if len(times) >= self.most:
            return times[0] + self._window_s - now
        times.append(now)
        while len(self._times) > self._addresses:
            self._times.popitem(last=False)
        return 0.0

    def wait(self, address: str, wait_s: float) -> None:
        """All processes together have counted too many from there: it waits here, too, without being asked about again."""
        began = self._clock() + wait_s - self._window_s
        self._times[network_of(address)] = deque([began] * self.most)


class Ledger:
    """All shares of one process but those of the upstreams, which each have a `Share` of their own."""

    def __init__(
        self,
        *,
        max_connections: int = MAX_CONNECTIONS,
        max_bodies_bytes: int = MAX_BODIES_BYTES,
        party_share: float = SHARE,
        write_stall_s: float = 60.0,
        no_address: Callable[[str], bool] | None = None,
        count: Callable[[str], None] = lambda name: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`no_address` tells whether many clients come from an address, as a trusted proxy's; `count` is given ``ledger.THING_count``."""
        self.connections, self.bodies = Share(max_connections), Share(max_bodies_bytes)
        self.write_stall_s = write_stall_s
        """How long a client may read nothing of what waits for it."""
        self.wrong_admin_keys, self.wrong_client_keys = Guesses(5, "admin", clock=clock), Guesses(30, "client", clock=clock)
        self.shared: SharedGuesses | None = None
        """Counts wrong keys over all processes; None where this is the only one."""
        self._share, self._no_address = party_share, no_address
        self.count, self._clock = count, clock
        self._logged: dict[tuple[str, str], float] = {}

    def at(self, address: str) -> Party:
        """Who connects from there, before it has said who it is."""
        return NOBODY if self._no_address and self._no_address(address) else ((network_of(address), self._share),)

    def client(self, name: str, address: str, *, keyed: bool) -> Party:
        """A client; `keyed` where it needs a key of this server's, and so cannot make up another name."""
        named = ("client " + name, self._share)
        if keyed or (self._no_address and self._no_address(address)):
            return (named,)
        return (named, (network_of(address), (1 + self._share) / 2))

    async def wrong_key(self, guesses: Guesses, address: str) -> None:
        """One came from there. Raises `RateLimited` where that were too many, here or over all processes."""
        wait_s = guesses.add(address)
        if not wait_s and self.shared is not None and (wait_s := await self.shared.add(guesses.kind, network_of(address), guesses.most)):
            guesses.wait(address, wait_s)
        if wait_s:
            self.refused("guess_refused", ((network_of(address), 1.0),), "too many wrong keys")
            message = f"too many wrong keys from your address: send the right one, or wait {wait_s:.0f} s"
            raise RateLimited(message, headers=(("retry-after", f"{max(1, wait_s):.0f}"),))

    def refused(self, thing: str, party: Party, words: str) -> None:
        """Count it, and log it once a minute for each party."""
        self.count(f"ledger.{thing}_count")
        who, now = " at ".join(name for name, _ in party) or "a client", self._clock()
        if now - self._logged.get((thing, who), -_LOG_EVERY_S) < _LOG_EVERY_S:
            return
        if len(self._logged) >= _MAX_LOGGED:
            self._logged.clear()
        self._logged[thing, who] = now
        log.warning("%s: %s (said once a minute)", who, words)


@functools.lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """What one person has: an IPv4 address, or a /64 of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
