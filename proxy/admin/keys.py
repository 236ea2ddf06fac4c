"""``/groundwire/v1/keys``, ``…/teams`` and ``…/spending``: who may ask, how much, and what it came to.

What config.yaml has is shown beside the store's, and changed there alone. The text of a key is in the one answer that makes it, and nowhere
else: the store has its hash. `KeyBook` is what the API, the dashboard and ``groundwire keys`` do; servers follow within five seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.access import body_of, json_answer
from proxy.config.access import new_key
from proxy.config.keys import NO_LIMITS, KeySettings, LimitName, Limits, key_problems
from proxy.errors import Conflict, InvalidRequest, NotFound
from proxy.limits.account import day_of
from proxy.limits.counter import Counter, CounterAway, Standing
from proxy.limits.keys import DatabaseKeyDays, DatabaseKeys, SpendingRow, StoredKey
from proxy.limits.limiter import subjects_of
from proxy.store.database import Database

SHOWN_DAYS = 30
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{1,100}$")]
_LOOKED_AT = 200
"""Accounts in one question."""
_BY = ("day", "client", "team", "model")


class KeyBody(Struct, forbid_unknown_fields=True):
    """A key to be made; the fields are those of ``keys:`` in config.yaml."""

    name: Name
    team: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._@-]{0,100}$")] = ""
    routes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    expires: str = ""
    limits: Limits = NO_LIMITS


class LimitsBody(Struct, forbid_unknown_fields=True):
    """The limits from now on; those that are not named go."""

    limits: Limits = NO_LIMITS


class RotateBody(Struct, forbid_unknown_fields=True):
    """How long the key before goes on working."""

    overlap_s: Annotated[float, Meta(ge=0, le=30 * 86_400)] = 0.0


class KeyParts(Struct, frozen=True):
    """What config.yaml says of keys."""

    configured: tuple[KeySettings, ...] = ()
    teams: Mapping[str, Limits] = {}
    prefixes: tuple[str, ...] = ()
    """Of the routes."""
    stored: bool = False
    """Whether servers ask the store for keys, too."""
    counter: Counter | None = None
    """Who counts; None where nobody does."""


class ListedKey(Struct, frozen=True):
    """A key, as it is shown."""

    key: KeySettings
    status: str
    created_at: float | None
    """None for one of config.yaml."""
    standing: Standing | None
    """None where nobody counts it, or who does is away."""
    spent: SpendingRow


class KeyBook:
    """Every method raises `StoreUnavailable`, and what makes or changes `InvalidRequest`, `NotFound`, `Conflict`."""

    def __init__(self, database: Database, parts: KeyParts) -> None:
        self.parts, self._keys, self._days, self._clock = parts, DatabaseKeys(database), DatabaseKeyDays(database), database.clock

    async def add(self, body: KeyBody) -> tuple[StoredKey, str]:
        """The key, and its text."""
        self._check_stored()
        text, sha256 = new_key()
        key = KeySettings(sha256=sha256, **{name: getattr(body, name) for name in body.__struct_fields__})
        if wrong := next(iter(key_problems((*self.parts.configured, key), set(self.parts.prefixes))), None):
            raise InvalidRequest(f"{wrong[0].rpartition('.')[2]}: {wrong[1]}", param=wrong[0].rpartition(".")[2])
        if not await self._keys.add(key):
            raise Conflict(f"there is a key {key.name!r} already, or was: a revoked one keeps its name", param="name")
        return StoredKey(key=key, created_at=self._clock()), text

    async def rotate(self, name: str, overlap_s: float) -> tuple[StoredKey, str]:
        """The key, and its new text."""
        text, sha256 = new_key()
        return _require(name, await self._keys.rotate(name, sha256, overlap_s)), text

    async def revoke(self, name: str) -> StoredKey:
        """It counts no more."""
        return _require(name, await self._keys.revoke(name))

    async def set_limits(self, name: str, limits: Limits) -> StoredKey:
        """Its limits from now on."""
        return _require(name, await self._keys.set_limits(name, limits))

    async def set_team(self, name: str, limits: Limits) -> None:
        """A team's limits from now on."""
        self._check_stored()
        if name in self.parts.teams:
            raise Conflict(f"the limits of the team {name!r} stand in config.yaml, which wins", param="name")
        await self._keys.set_team(name, limits)

    async def all(self) -> tuple[list[ListedKey], dict[str, Limits]]:
        """Every key, those of config.yaml first, and every team, but for one of no key whose limits were taken away."""
        found = await self._keys.all()
        used = {one.key.team for one in found.keys} | {key.team for key in self.parts.configured}
        limited = {name: limits for name, limits in found.teams.items() if limits.names or name in used}
        teams = {**limited, **self.parts.teams}
        spent = {row.client: row for row in await self.spending(("client",))}
        every = [StoredKey(key=key) for key in self.parts.configured] + [*found.keys]
        standings = await self._standings([one.key for one in every if one.status == "active"])
        rows = [
            ListedKey(one.key, one.status, one.created_at or None, standings.get(one.key.name), spent.get(one.key.name, SpendingRow()))
            for one in every
        ]
        return rows, teams

    async def spending(self, by: Sequence[str], since: str | None = None) -> list[SpendingRow]:
        """What was spent since a day, `SHOWN_DAYS` ago unless it says another."""
        return await self._days.spending(by, since or day_of(self._clock() - SHOWN_DAYS * 86_400))

    async def _standings(self, keys: Sequence[KeySettings]) -> dict[str, Standing]:
        """By name; nothing where nobody counts, or who does is away."""
        subjects = [subject for key in keys for subject in subjects_of(key.name, key.limits, key.team, NO_LIMITS)]
        found: dict[str, Standing] = {}
        try:
            for start in range(0, len(subjects) if self.parts.counter is not None else 0, _LOOKED_AT):
                some = subjects[start : start + _LOOKED_AT]
                assert self.parts.counter is not None
                found |= zip((one.name for one in some), await self.parts.counter.look(some), strict=True)
        except CounterAway:
            return {}
        return found

    def _check_stored(self) -> None:
        if not self.parts.stored:
            raise Conflict("servers do not look for keys in the store: set store: {keys: true} in config.yaml, and start again")


def _day(text: str | None) -> str | None:
    """A day as the store has it. Raises `InvalidRequest` for any other text."""
    try:
        return date.fromisoformat(text).isoformat() if text is not None else None
    except ValueError:
        raise InvalidRequest(f"since: expected a day as 2026-01-31, got {text}", param="since") from None


def _require(name: str, stored: StoredKey | None) -> StoredKey:
    if stored is None:
        raise NotFound(f"no key {name!r} of the store counts now; those of config.yaml are changed there")
    return stored


def shown(key: KeySettings) -> dict[str, Any]:
    """A key without its hash."""
    told: dict[str, Any] = msgspec.to_builtins(key)
    del told["sha256"]
    return {"object": "key", **told, "limits": limits_shown(key.limits)}


def limits_shown(limits: Limits) -> dict[str, float]:
    """Those that are given."""
    return {name: getattr(limits, name) for name in limits.names}


class KeysApi:
    """The handlers."""

    def __init__(self, book: KeyBook) -> None:
        self.book = book

    async def list(self, request: Request) -> Response:
        """Every key: what it may, how it stands, what it spent in 30 days."""
        rows, _ = await self.book.all()
        return json_answer({"object": "list", "data": [_row(row) for row in rows], "has_more": False})

    async def add(self, request: Request) -> Response:
        """Make a key; the answer has its text, as nothing has afterwards."""
        stored, text = await self.book.add(await body_of(request, KeyBody))
        return json_answer(shown(stored.key) | {"key": text})

    async def rotate(self, request: Request) -> Response:
        """Another text for a key."""
        stored, text = await self.book.rotate(request.path_params["name"], (await body_of(request, RotateBody)).overlap_s)
        return json_answer(shown(stored.key) | {"key": text})

    async def revoke(self, request: Request) -> Response:
        """End it."""
        stored = await self.book.revoke(request.path_params["name"])
        return json_answer(shown(stored.key) | {"status": "revoked"})

    async def set_limits(self, request: Request) -> Response:
        """Its limits from now on."""
        stored = await self.book.set_limits(request.path_params["name"], (await body_of(request, LimitsBody)).limits)
        return json_answer(shown(stored.key))

    async def teams(self, request: Request) -> Response:
        """Every team with limits."""
        _, teams = await self.book.all()
        data = [{"object": "team", "name": name, "limits": limits_shown(limits)} for name, limits in sorted(teams.items())]
        return json_answer({"object": "list", "data": data, "has_more": False})

    async def set_team(self, request: Request) -> Response:
        """A team's limits from now on."""
        name = request.path_params["name"]
        limits = (await body_of(request, LimitsBody)).limits
        await self.book.set_team(name, limits)
        return json_answer({"object": "team", "name": name, "limits": limits_shown(limits)})

    async def spending(self, request: Request) -> Response:
        """What was spent, ``by`` some of day, client (a key's name), team and model, ``since`` a day (2026-01-31; 30 days ago)."""
        by = tuple(filter(None, request.query_params.get("by", "client").split(",")))
        if unknown := set(by) - set(_BY):
            raise InvalidRequest(f"by: expected some of {', '.join(_BY)}, got {', '.join(sorted(unknown))}", param="by")
        rows = await self.book.spending(by, _day(request.query_params.get("since")))
        left_out = {name for name in _BY if name not in by}
        data = [{"object": "spending", **{n: v for n, v in msgspec.structs.asdict(row).items() if n not in left_out}} for row in rows]
        return json_answer({"object": "list", "data": data, "has_more": False})


def taken_of(standing: Standing | None) -> dict[LimitName, float] | None:
    """What is taken of each limit; None where nobody counts it."""
    if standing is None:
        return None
    day, month = standing.day_micro_usd / 1e6, standing.month_micro_usd / 1e6
    return {"rpm": standing.requests, "tpm": standing.tokens, "concurrent": standing.open, "usd_per_day": day, "usd_per_month": month}


def _row(row: ListedKey) -> dict[str, Any]:
    spent = {name: getattr(row.spent, name) for name in ("requests", "refused", "prompt_tokens", "completion_tokens", "usd")}
    told = {"status": row.status, "created_at": row.created_at, "taken": taken_of(row.standing), "spent": spent}
    return shown(row.key) | told
