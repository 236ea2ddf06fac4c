"""``groundwire report``: what happened in a period, in a few lines, as a page or as JSON.

Lines and page are those of the weekly e-mail (`proxy.admin.report_page`), JSON is that of `proxy.admin.reports`; both are worked out here,
of the store opened read-only (no server need run). With ``--url`` a running server gives the JSON. Names that came from clients and
upstreams are made harmless.

Here are also ``groundwire feedback export``, what people said of findings as JSON Lines, the newest first, from the store opened read-only;
and ``groundwire alerts test``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO, TypeVar

import msgspec

from proxy.admin.reports import Period, make_report, panels_of
from proxy.cli.admin_client import AdminClient, ServerAway, ServerRefused, admin_key, server_url
from proxy.cli.terminal import Terminal, harmless, refused
from proxy.config.alerts import AlertSettings
from proxy.config.settings import Settings
from proxy.errors import ConfigError, StoreUnavailable
from proxy.models.tokens.counter import TiktokenCounter
from proxy.observe.recording import prices_of
from proxy.stages.registry import STAGES
from proxy.store.feedback import DatabaseFeedback
from proxy.store.pages import REPLICA
from proxy.store.reading import ReadOnlyDatabase
from proxy.upstreams.making import model_prefixes, model_settings

T = TypeVar("T")
_PAGE = 1000
_encode = msgspec.json.Encoder(order="deterministic").encode


def export(settings: Settings, *, source: Path, stage: str | None, said: str | None, out: TextIO | None = None) -> int:
    """Write it to `out`, else to the standard output; `source` is the file of `settings`. Returns 2 where nothing can be read."""
    try:
        lines = asyncio.run(_lines(settings, source, stage, said))
    except StoreUnavailable as error:
        return refused(f"{error}; --config names another configuration")
    for line in lines:
        print(line, file=out or sys.stdout)
    print(f"groundwire: {len(lines):,} findings with a person's word on them", file=sys.stderr)
    return 0


async def _lines(settings: Settings, source: Path, stage: str | None, said: str | None) -> list[str]:
    database = ReadOnlyDatabase(settings.store.url, source=str(source))
    await database.start()
    found, after, more = list[str](), None, True
    try:
        store = DatabaseFeedback(database)
        while more:
            entries, more = await store.list(_PAGE, after, stage=stage, said=said)
            found += [_encode(entry).decode() for entry in entries]
            after = entries[-1].id if entries else None
    finally:
        await database.stop()
    return found


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])")
_LATEST = 32_503_680_000.0
"""The year 3000: later times have no place in every zone."""
_SERVER_S = 120.0
"""For a server's answer: of a long time and one route, every record is read."""
_TRIES = 3
"""A store that a server begins to write while it is read is read again."""


def period(since: str, until: str | None, now: float) -> Period:
    """What ``--since`` and ``--until`` mean at `now`. Raises `ConfigError`."""
    end = moment(until, "--until", now) if until is not None else now
    start = moment(since, "--since", now)
    if start >= end:
        raise ConfigError("command line", "--since", f"{since} is not before {'now' if until is None else '--until ' + until}")
    return Period(start, end)


def span_s(text: str, option: str) -> float:
    """Seconds of ``30m``, ``6h``, ``1d``, ``2w``. Raises `ConfigError`."""
    span = _SPAN.fullmatch(text)
    if span is None:
        raise ConfigError("command line", option, f"expected a length as 30m, 6h, 1d or 2w, got {harmless(text, 40)!r}")
    return float(span[1]) * _UNITS[span[2]]


def moment(text: str, option: str, now: float) -> float:
    """``30m``, ``6h``, ``1d``, ``2w`` before `now` (a day is 24 hours), or an ISO 8601 date or time, this machine's zone without one."""
    if _SPAN.fullmatch(text):
        return max(0.0, now - span_s(text, option))
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
    html: Path | None = None,
    clock: Callable[[], float] = time.time,
) -> int:
    """Print it, or write the page `html`; `source` is the file that `settings` come from. Returns 2 where nothing can be read.

    Raises `ConfigError`.
    """
    wanted = period(since, until, clock())
    prefix = None if route is None else route.rstrip("/")
    if html is not None and url is not None:
        raise ConfigError("command line", "--html", "reads the store itself: leave out --url, or --html")
    try:
        if as_json or url is not None:
            found = _from_server(settings, url, prefix, wanted) if url is not None else _from_store(settings(), source, prefix, wanted)
            print(json.dumps(found, indent=2).replace("\x7f", "\\u007f"))
            return 0
        text, page = _page(settings(), source, prefix, wanted)
    except (StoreUnavailable, ServerAway, ServerRefused) as error:
        hint = "; --config names another configuration, --url asks a running server" if isinstance(error, StoreUnavailable) else ""
        return refused(f"{harmless(str(error), 1000)}{hint}")
    if html is not None:
        _write(html, page)
    terminal = Terminal()
    for line in text.splitlines()[: 1 if html is not None else None]:
        terminal.line(harmless(line, 1000) + (f": {html}" if html is not None else ""))
    return 0


def _from_server(settings: Callable[[], Settings], url: str | None, route: str | None, wanted: Period) -> dict[str, Any]:
    client = AdminClient(server_url(url, lambda: settings().server), admin_key(settings), timeout_s=_SERVER_S)
    try:
        found: dict[str, Any] = json.loads(client.get("/report", since=wanted.since, until=wanted.until, route=route))
    except ValueError as error:
        raise ServerRefused(f"{client.url} is not a Groundwire server: its report cannot be read") from error
    return found | {"source": client.url}


def _from_store(settings: Settings, file: Path, route: str | None, wanted: Period) -> dict[str, Any]:
    return read_store(settings, file, lambda database: make_report(database, panels_of(STAGES), wanted, route, database.name))


def _page(settings: Settings, file: Path, route: str | None, wanted: Period) -> tuple[str, str]:
    """Text and HTML."""
    from proxy.admin.report_page import report_page

    tokens = TiktokenCounter(model_settings(settings))
    tokens.load_list()
    price, panels = prices_of(model_prefixes(settings), tokens.model), panels_of(STAGES)
    return read_store(settings, file, lambda database: report_page(database, panels, wanted.since, wanted.until, price=price, route=route))


def _write(page: Path, html: str) -> None:
    try:
        page.write_text(html, "utf-8")
    except OSError as error:
        raise ConfigError("command line", "--html", f"{page} cannot be written: {error.strerror}") from error


async def _opened(settings: Settings, file: Path) -> ReadOnlyDatabase:
    """The replica, or the store where there is none that can be read. Raises `StoreUnavailable`, `ConfigError`."""
    if settings.store.replica_url:
        replica = ReadOnlyDatabase(settings.store.replica_url, source=str(file), path=REPLICA)
        try:
            await replica.start()
        except StoreUnavailable as error:
            print(f"groundwire: {error}; the primary is read", file=sys.stderr)
        else:
            return replica
    database = ReadOnlyDatabase(settings.store.url, source=str(file))
    await database.start()
    return database


def read_store(settings: Settings, file: Path, look: Callable[[ReadOnlyDatabase], Awaitable[T]]) -> T:
    """What `look` finds in the store, opened read-only. Raises `StoreUnavailable`, `ConfigError`."""

    async def once() -> tuple[list[T], bool]:
        database, found = await _opened(settings, file), list[T]()
        try:
            found.append(await look(database))
        except StoreUnavailable:
            if not database.overtaken:
                raise
        finally:
            await database.stop()
        return found, database.overtaken

    for _ in range(_TRIES):
        found, overtaken = asyncio.run(once())
        if found and not overtaken:
            return found[0]
    raise StoreUnavailable("the store was written in a way that it could not be read meanwhile: try again, or ask the server with --url")


def try_alerts(alerts: AlertSettings, only: str | None, source: str) -> int:
    """``groundwire alerts test``: a message through each channel, or `only` one; 1 where one did not take it. Raises `ConfigError`."""
    from proxy.admin.alerts import trial
    from proxy.admin.channels import NotSent, send

    if not alerts.channels or (only is not None and only not in alerts.channels):
        known = f"; there are: {', '.join(alerts.channels)}" if alerts.channels else ": add one, as ops: {kind: webhook, url: …, secret: …}"
        raise ConfigError(source, "alerts.channels", ("is empty" if only is None else f"has no {only!r}") + known)
    terminal, failed = Terminal(), 0
    for name, channel in alerts.channels.items():
        if only in (None, name):
            try:
                send(channel, trial(time.time(), alerts.dashboard_url))
                terminal.line(f"{name}: sent")
            except NotSent as error:
                failed = 1
                terminal.line(f"{name}: not sent: {harmless(str(error))}")
    return failed
