"""``groundwire report``: a period's figures beside those of the period before, as a table or as JSON.

They are worked out here, from the store opened read-only (no server need run) or, with ``--url``, from a running server's lists.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from proxy.cli.admin_client import AdminClient, ServerAway, ServerRefused, admin_key, server_url
from proxy.cli.report_figures import Price, ReportFigures
from proxy.cli.report_sources import ReportSource, ServerSource, StoreSource
from proxy.cli.report_table import write
from proxy.cli.terminal import Terminal, harmless
from proxy.config.settings import LocalSettings, Settings
from proxy.errors import ConfigError, StoreUnavailable
from proxy.models.tokens.catalogue import Catalogue
from proxy.store.detail import RecordUsage
from proxy.store.reading import ReadOnlyDatabase, StoreReading

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])")
_LATEST = 32_503_680_000.0
"""The year 3000: later times have no place in every zone."""
_TRIES = 3
"""A store that a server begins to write while it is read is read again."""


class Period(Struct, frozen=True):
    """Seconds since the epoch; `until` is not part of it."""

    since: float
    until: float

    def before(self) -> Period | None:
        """The period of the same length before this one; None where that would begin before all time."""
        earlier = 2 * self.since - self.until
        return Period(earlier, self.since) if earlier >= 0 else None

    def as_json(self) -> dict[str, Any]:
        """Epoch seconds and ISO 8601, UTC."""
        iso = {f"{name}_iso": _iso(getattr(self, name)) for name in ("since", "until")}
        return {"since": self.since, "until": self.until, **iso}


def period(since: str, until: str | None, now: float) -> Period:
    """What ``--since`` and ``--until`` mean at `now`. Raises `ConfigError`."""
    end = moment(until, "--until", now) if until is not None else now
    start = moment(since, "--since", now)
    if start >= end:
        raise ConfigError("command line", "--since", f"{since} is not before {'now' if until is None else '--until ' + until}")
    return Period(start, end)


def moment(text: str, option: str, now: float) -> float:
    """``30m``, ``6h``, ``1d``, ``2w`` before `now` (a day is 24 hours), or an ISO 8601 date or time, this machine's zone without one."""
    span = _SPAN.fullmatch(text)
    if span:
        return max(0.0, now - float(span[1]) * _UNITS[span[2]])
    try:
        return min(max(0.0, datetime.fromisoformat(text).timestamp()), _LATEST)
    except (ValueError, OverflowError, OSError):
        expected = "expected a length as 30m, 6h, 1d or 2w, or a date or time as 2026-01-31 or 2026-01-31T14:00"
        raise ConfigError("command line", option, f"{expected}, got {harmless(text, 40)!r}") from None


def report(
    settings: Callable[[], Settings],
    *,
    source: Path,
    since: str,
    until: str | None,
    route: str | None,
    as_json: bool,
    url: str | None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Print it; `source` is the file that `settings` come from. Returns 2 where nothing can be read. Raises `ConfigError`."""
    wanted = period(since, until, clock())
    prefix = None if route is None else route.rstrip("/")
    try:
        found = _from_server(settings, url, prefix, wanted) if url is not None else _from_store(settings(), source, prefix, wanted)
    except (StoreUnavailable, ServerAway, ServerRefused) as error:
        hint = "; --config names another configuration, --url asks a running server" if isinstance(error, StoreUnavailable) else ""
        print(f"groundwire: {harmless(str(error), 1000)}{hint}", file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps(found, indent=2).replace("\x7f", "\\u007f"))
        return 0
    write(found, Terminal())
    return 0


def _from_server(settings: Callable[[], Settings], url: str | None, route: str | None, wanted: Period) -> dict[str, Any]:
    address, key = server_url(url, lambda: settings().server), admin_key(settings)
    client = AdminClient(address, key)
    try:
        return asyncio.run(gather(ServerSource(client, route), wanted, route, address, price_of(settings())))
    finally:
        client.close()


def _from_store(settings: Settings, file: Path, route: str | None, wanted: Period) -> dict[str, Any]:
    async def once() -> tuple[dict[str, Any], bool]:
        database = ReadOnlyDatabase(settings.store.url, source=str(file))
        await database.start()
        try:
            found = await gather(StoreSource(StoreReading(database, route)), wanted, route, database.name, price_of(settings))
        except StoreUnavailable:
            if not database.overtaken:
                raise
            found = {}
        finally:
            await database.stop()
        return found, database.overtaken

    for _ in range(_TRIES):
        found, overtaken = asyncio.run(once())
        if not overtaken:
            return found
    raise StoreUnavailable("the store was written in a way that it could not be read meanwhile: try again, or ask the server with --url")


async def gather(source: ReportSource, wanted: Period, route: str | None, name: str, price: Price) -> dict[str, Any]:
    """The report, as its JSON has it. Raises `StoreUnavailable`, `ServerAway`, `ServerRefused`."""
    earlier = wanted.before()
    now = await _figures(source, wanted, price)
    return {
        "object": "report",
        "period": wanted.as_json(),
        "route": route,
        "source": name,
        "figures": now,
        "before": {"period": earlier.as_json(), "figures": await _figures(source, earlier, price)} if earlier is not None else None,
        "waiting": await source.waiting(),
        "newest": await source.newest(),
    }


async def _figures(source: ReportSource, wanted: Period, price: Price) -> Mapping[str, Any]:
    figures = ReportFigures(price)
    await source.read(figures, wanted.since, wanted.until)
    return figures.as_json()


def price_of(settings: Settings) -> Price:
    """What a call has cost by the bundled list of prices, as ``/metrics`` counts it."""
    catalogue = Catalogue(settings.models)
    upstreams = settings.upstreams

    def price(upstream: str, model: str, usage: RecordUsage) -> float | None:
        found = upstreams.get(upstream)
        if isinstance(found, LocalSettings):  # whatever the client calls its model
            return None
        info = catalogue.find((found.model_prefix if found is not None else "") + model)
        return info.cost_usd(usage.prompt, usage.completion, usage.cached)

    return price


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
