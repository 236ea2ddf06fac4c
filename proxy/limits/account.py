"""One key's or team's account: what it has taken in the last minute, this day and this month, and which of its requests are open.

Plain state and plain rules, without a clock or a store: `proxy.limits.accounts` keeps it in a row, ``limits.lua`` says the same to Valkey,
and a property test holds the two together. A minute is a window of 60 buckets of a second, so that what was taken is free again exactly 60
seconds later (no burst of twice the limit at a minute's border, as fixed windows and token buckets let through). A day and a month hold
what was spent with what is reserved: a process that is killed leaves its reservations there, as nobody knows what its requests took.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from msgspec import Struct, field

from proxy.config.keys import LimitName, Limits
from proxy.limits.counter import LEASE_S, WINDOW_S, Amount, Ask, Decision, Settlement, Standing, Subject

REMEMBERED_S = 3600.0
"""So long after its last renewal a lease can still be settled."""
BUSY_S = 1.0
"""When to ask again where every place is taken: nobody knows when one will be free."""


class Account(Struct, array_like=True):
    """The state."""

    buckets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """By second: requests, tokens."""
    leases: dict[str, float] = field(default_factory=dict)
    """Open requests, each with the time at which it counts no more."""
    day: str = ""
    """``2026-01-31``, and what was spent on it."""
    day_micro_usd: int = 0
    month: str = ""
    month_micro_usd: int = 0

    def advance(self, now: float) -> None:
        """Forget what is over."""
        self.buckets = {second: taken for second, taken in self.buckets.items() if second > int(now) - WINDOW_S}
        self.leases = {lease: until for lease, until in self.leases.items() if until > now - REMEMBERED_S}
        day, month = day_of(now), day_of(now)[:7]
        if self.day != day:
            self.day, self.day_micro_usd = day, 0
        if self.month != month:
            self.month, self.month_micro_usd = month, 0

    def standing(self, now: float, limits: Limits | None = None, ask: Ask | None = None) -> Standing:
        """How it stands after `advance`; with `limits` and an `ask`, whether a request that asks for it passes one."""
        requests, tokens = (sum(taken[i] for taken in self.buckets.values()) for i in (0, 1))
        live = sum(1 for until in self.leases.values() if until > now)
        waits, least_fits = ({}, True) if limits is None or ask is None else self._waits(now, limits, ask, requests, tokens, live)
        refused, wait_s = longest(waits)
        reset_s = max(self.buckets) + WINDOW_S - now if self.buckets else 0.0
        reducible = bool(waits) and least_fits and not live
        return Standing(refused, wait_s, reducible, requests, tokens, reset_s, live, self.day_micro_usd, self.month_micro_usd)

    def _waits(self, now: float, limits: Limits, ask: Ask, requests: int, tokens: int, live: int) -> tuple[dict[LimitName, float], bool]:
        """Seconds until each limit that is passed would not be, and whether the least that is asked for passes none."""
        waits: dict[LimitName, float] = {}
        if limits.concurrent is not None and live >= limits.concurrent:
            waits["concurrent"] = BUSY_S
        if limits.rpm is not None and requests + 1 > limits.rpm:
            waits["rpm"] = self._free_in(now, 0, requests + 1 - limits.rpm)
        least_fits = not waits
        amounts: tuple[tuple[LimitName, float | None, int, int, int], ...] = (
            ("tpm", limits.tpm, tokens, ask.full.tokens, ask.least.tokens),
            ("usd_per_day", limits.usd_per_day, self.day_micro_usd, ask.full.micro_usd, ask.least.micro_usd),
            ("usd_per_month", limits.usd_per_month, self.month_micro_usd, ask.full.micro_usd, ask.least.micro_usd),
        )
        for name, limit, taken, full, least in amounts:
            most = limit if limit is None or name == "tpm" else micro(limit)
            if most is None or taken + full <= most:
                continue
            if taken + least <= most:  # what is open has to end first
                waits[name] = BUSY_S
                continue
            least_fits = False
            over = int(taken + least - most)
            waits[name] = self._free_in(now, 1, over) if name == "tpm" else (next_day if name == "usd_per_day" else next_month)(now) - now
        return waits, least_fits

    def _free_in(self, now: float, which: int, wanted: int) -> float:
        """Seconds until so many requests or tokens have left the window; all of it where that is too few."""
        for second in sorted(self.buckets):
            wanted -= self.buckets[second][which]
            if wanted <= 0:
                return second + WINDOW_S - now
        return float(WINDOW_S)

    def reserve(self, now: float, lease: str, amount: Amount) -> None:
        """Take it."""
        self._take(int(now), 1, amount.tokens)
        self.leases[lease] = now + LEASE_S
        self.day_micro_usd += amount.micro_usd
        self.month_micro_usd += amount.micro_usd

    def renew(self, now: float, lease: str) -> None:
        """Its request is still open."""
        if lease in self.leases:
            self.leases[lease] = now + LEASE_S

    def settle(self, now: float, settlement: Settlement) -> None:
        """After `advance`: what was taken in place of what was reserved. Once; a lease that is not there was settled."""
        if self.leases.pop(settlement.lease, None) is None:
            return
        tokens = settlement.taken.tokens - settlement.reserved.tokens
        second = int(settlement.at)
        if second in self.buckets:
            self._take(second, 0, tokens)
        elif tokens > 0:  # it took longer than the window, and more than was thought
            self._take(int(now), 0, tokens)
        spent = settlement.taken.micro_usd - settlement.reserved.micro_usd
        if self.day == day_of(settlement.at):
            self.day_micro_usd = max(0, self.day_micro_usd + spent)
        if self.month == day_of(settlement.at)[:7]:
            self.month_micro_usd = max(0, self.month_micro_usd + spent)

    def _take(self, second: int, requests: int, tokens: int) -> None:
        before = self.buckets.get(second, (0, 0))
        self.buckets[second] = before[0] + requests, before[1] + tokens


def decide(accounts: Sequence[Account], now: float, lease: str, subjects: Sequence[Subject], ask: Ask) -> Decision:
    """On one request, in all accounts or in none."""
    if all(lease in account.leases for account in accounts):  # the answer to its first try was lost
        return Decision(now, tuple(account.standing(now) for account in accounts), reduced=True)
    asked = Decision(now, tuple(a.standing(now, s.limits, ask) for a, s in zip(accounts, subjects, strict=True)))
    reduced = not asked.granted and all(one.refused is None or one.reducible for one in asked.standings)
    if not asked.granted and not reduced:
        return asked
    for account in accounts:
        account.reserve(now, lease, ask.least if reduced else ask.full)
    return Decision(now, tuple(account.standing(now) for account in accounts), reduced)


def longest(waits: Mapping[LimitName, float]) -> tuple[LimitName | None, float]:
    """The limit that has to be waited for longest, and how long; None where there is none."""
    if not waits:
        return None, 0.0
    name = max(waits, key=lambda one: (waits[one], one))
    return name, waits[name]


def day_of(at: float) -> str:
    """Its date in UTC, as ISO 8601 has it."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def next_day(at: float) -> float:
    """When the day after it begins."""
    return math.floor(at / 86400) * 86400 + 86400


def next_month(at: float) -> float:
    """When the month after it begins."""
    first = datetime.fromtimestamp(at, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1).timestamp()


def micro(usd: float) -> int:
    """Millionths of a dollar, rounded."""
    return round(usd * 1_000_000)
