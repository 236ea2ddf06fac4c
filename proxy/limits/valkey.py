"""Valkey, or Redis, counts over all nodes: a script (``limits.lua``) is one decision, without a lock and in one trip.

Implements `proxy.limits.counter.Counter`. A script runs alone on the server, and its clock is the server's, so that nodes whose clocks
differ agree. Accounts of one team share a hash tag: a cluster keeps them on one of its servers. https://valkey.io/topics/eval-intro/
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import to_builtins

from proxy.config.keys import LIMITS, Limits
from proxy.limits.account import BUSY_S, REMEMBERED_S, longest, micro, next_day, next_month
from proxy.limits.counter import LEASE_S, WINDOW_S, Ask, CounterAway, Decision, Settlement, Standing, Subject

if TYPE_CHECKING:
    from valkey.asyncio import Valkey

log = logging.getLogger("groundwire.limits")

ANSWER_S = 1.0
"""For one decision; it takes a fraction of a millisecond."""
_CONNECTIONS = 64
_SCRIPT = Path(__file__).with_name("limits.lua")
_FIXED = {"window": WINDOW_S, "remembered": int(REMEMBERED_S), "lease_s": LEASE_S}
_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class ValkeyAccounts:
    """Implements `Counter`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client: Valkey | None = None
        self._script: Any = None

    async def start(self) -> None:
        """Implements `Counter`."""
        from valkey.asyncio import BlockingConnectionPool, Valkey
        from valkey.asyncio.retry import Retry
        from valkey.backoff import NoBackoff
        from valkey.exceptions import ConnectionError as Disconnected

        pool = BlockingConnectionPool.from_url(
            self._url,
            max_connections=_CONNECTIONS,
            timeout=ANSWER_S,
            socket_timeout=ANSWER_S,
            socket_connect_timeout=ANSWER_S,
            retry=Retry(NoBackoff(), 1),  # a kept connection whose server was restarted; the same lease is counted once
            retry_on_error=[Disconnected],
        )
        self._client = Valkey(connection_pool=pool)
        self._script = self._client.register_script(_SCRIPT.read_text("utf-8"))

    async def stop(self) -> None:
        """Implements `Counter`."""
        if self._client is not None:
            await self._client.aclose()
            await self._client.connection_pool.disconnect()

    async def reserve(self, lease: str, subjects: Sequence[Subject], ask: Ask) -> Decision:
        """Implements `Counter`."""
        amounts = {"full": to_builtins(ask.full), "least": to_builtins(ask.least)}
        return _decision(await self._run("reserve", subjects, {"lease": lease, **amounts, "limits": [_limits(s.limits) for s in subjects]}))

    async def settle(self, settlements: Sequence[Settlement]) -> None:
        """Implements `Counter`."""
        await asyncio.gather(*(self._settle(one) for one in settlements))

    async def _settle(self, one: Settlement) -> None:
        tokens, spent = one.taken.tokens - one.reserved.tokens, one.taken.micro_usd - one.reserved.micro_usd
        await self._run("settle", one.subjects, {"lease": one.lease, "at": one.at, "tokens": tokens, "micro_usd": spent})

    async def renew(self, open_leases: Sequence[tuple[str, Sequence[Subject]]]) -> None:
        """Implements `Counter`."""
        groups: dict[str, list[tuple[Subject, str]]] = {}
        for lease, subjects in open_leases:
            for subject in subjects:
                groups.setdefault(subject.group, []).append((subject, lease))
        for pairs in groups.values():
            await self._run("renew", [subject for subject, _ in pairs], {"leases": [lease for _, lease in pairs]})

    async def look(self, subjects: Sequence[Subject]) -> list[Standing]:
        """Implements `Counter`."""
        found = await asyncio.gather(*(self._run("look", [subject], {}) for subject in subjects))
        return [_decision(one).standings[0] for one in found]

    async def _run(self, op: str, subjects: Sequence[Subject], ask: dict[str, Any]) -> Any:
        from valkey.exceptions import ValkeyError

        if self._script is None:
            raise CounterAway("not connected yet")
        try:
            async with asyncio.timeout(2 * ANSWER_S):
                return await self._script(
                    keys=[f"gw:{{{subject.group}}}:{subject.id}" for subject in subjects], args=[_encode({"op": op, **_FIXED, **ask})]
                )
        except (ValkeyError, OSError, TimeoutError) as error:  # never the URL, which may have a password
            raise CounterAway(f"Valkey: {' '.join(str(error).split())[:200] or type(error).__name__}") from error


def _limits(limits: Limits) -> dict[str, int]:
    values = {name: value for name in LIMITS if (value := getattr(limits, name)) is not None}
    return {name: micro(value) if name.startswith("usd") else value for name, value in values.items()}


def _decision(answer: bytes) -> Decision:
    at, rows, reduced = _decode(answer)
    now = float(at)
    return Decision(now, tuple(_standing(now, row) for row in rows), reduced)


def _standing(now: float, row: Sequence[Any]) -> Standing:
    requests, tokens, reset_s, open_, day, month, waits = row
    known = {"usd_per_day": next_day(now) - now, "usd_per_month": next_month(now) - now}
    refused, wait_s = longest({name: BUSY_S if wait == -1 else known.get(name, wait) for name, wait in waits or ()})
    return Standing(refused, wait_s, False, int(requests), int(tokens), float(reset_s), int(open_), int(day), int(month))
