"""Client keys, their teams and limits, as config.yaml has them; what the store has of them takes the same forms (`proxy.limits.keys`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta

from proxy.config.extras import missing
from proxy.config.sections import Positive, Section

LimitName = Literal["rpm", "tpm", "concurrent", "usd_per_day", "usd_per_month"]
Dollars = Annotated[float, Meta(gt=0)]
OnError = Literal["open", "closed"]
SHADOW = "~shadow"
"""Ends the name of the client for whom a policy in shadow mode keeps what it learns: never that of one whose exchanges are changed."""


class Limits(Section, frozen=True, kw_only=True):
    """What a key, or a team with all its keys together, may take; what is not given has no limit."""

    rpm: Positive | None = None
    """Requests in any 60 seconds."""
    tpm: Positive | None = None
    """Tokens, of prompts and of answers, in any 60 seconds."""
    concurrent: Positive | None = None
    """Requests at a time."""
    usd_per_day: Dollars | None = None
    """By the list of prices, in a day of UTC."""
    usd_per_month: Dollars | None = None
    """The same in a calendar month of UTC."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self != NO_LIMITS

    @property
    def in_usd(self) -> bool:
        """Whether there is one of money."""
        return self.usd_per_day is not None or self.usd_per_month is not None

    @property
    def names(self) -> tuple[LimitName, ...]:
        """Those that are given."""
        return tuple(name for name in LIMITS if getattr(self, name) is not None)


LIMITS: tuple[LimitName, ...] = ("rpm", "tpm", "concurrent", "usd_per_day", "usd_per_month")
NO_LIMITS = Limits()


class KeySettings(Section, frozen=True, kw_only=True):
    """``keys[]``: a client key, stored hashed."""

    name: Annotated[str, Meta(min_length=1, max_length=100)]
    """What records and figures call the client."""
    sha256: Annotated[str, Meta(pattern="^[0-9a-fA-F]{64}$")]
    """Of the key; ``groundwire new-key NAME`` makes both."""
    routes: tuple[str, ...] = ()
    """Prefixes it may use; empty for all."""
    team: str = ""
    """Whose limits count, too."""
    models: tuple[str, ...] = ()
    """Names that it may ask for; * stands for anything. Empty for all."""
    expires: str = ""
    """ISO 8601 date or time from which on it is refused, UTC without a zone; empty for never."""
    limits: Limits = NO_LIMITS
    """See ``keys[].limits``."""

    @property
    def until(self) -> float:
        """When it expires, in seconds since the epoch. Raises `ValueError`."""
        return expiry_of(self.expires) if self.expires else math.inf


class LimitSettings(Section, frozen=True, kw_only=True):
    """``limits:``, who counts what keys take."""

    url: str = ""
    """``valkey://HOST:PORT/0`` (or ``redis://``, ``valkeys://`` with TLS), which all nodes ask; empty for the store."""
    on_error: Mapping[LimitName, OnError] = {}
    """By limit, what becomes of requests while the counter is away: ``open`` lets them through uncounted, ``closed`` answers 503. Without a
    word of it ``rpm``, ``tpm`` and ``concurrent`` are open, limits of money closed."""

    def closed(self, limits: Limits) -> bool:
        """Whether a request under these `limits` is refused while nobody can count it."""
        return any(self.on_error.get(name, "closed" if name.startswith("usd") else "open") == "closed" for name in limits.names)


def expiry_of(text: str) -> float:
    """Seconds since the epoch of an ISO 8601 date or time. Raises `ValueError`."""
    found = datetime.fromisoformat(text)
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def key_problems(keys: Sequence[KeySettings], prefixes: set[str], at: str = "keys") -> Iterator[tuple[str, str]]:
    """Path and problem of what no single field shows."""
    names = [key.name for key in keys]
    for i, key in enumerate(keys):
        if names.index(key.name) != i:
            yield f"{at}[{i}].name", f"{key.name!r} stands here twice"
        if key.name.endswith(SHADOW):
            yield f"{at}[{i}].name", f"{SHADOW} ends the names under which shadow mode keeps what it learns"
        for prefix in key.routes:
            if prefix not in prefixes:
                yield f"{at}[{i}].routes", f"no route has the prefix {prefix!r}"
        try:
            _ = key.until
        except ValueError:
            yield f"{at}[{i}].expires", f"expected a date or time as 2026-12-31 or 2026-12-31T18:00, got {key.expires!r}"


def limit_problems(limits: LimitSettings) -> Iterator[tuple[str, str]]:
    """The same of ``limits:``."""
    if limits.url and not limits.url.startswith(("valkey://", "valkeys://", "redis://", "rediss://")):
        yield "limits.url", "expected valkey://HOST:PORT/0, redis://, or valkeys:// with TLS"
    elif limits.url and (problem := missing("the client of Valkey", "valkey", "valkey")):
        yield "limits.url", problem
