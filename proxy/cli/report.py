"""``groundwire report``: a period's figures beside those of the period before, as a table or as JSON.

They are worked out here, of the store opened read-only (no server need run) or, with ``--url``, by a running server. The table is the JSON
of `proxy.admin.reports` line by line: each figure of the period, that of the period before, and what changed. What did not occur in either
period is left out. Times are in the zone of this machine, which the head names. Names that came from clients and upstreams are made
harmless.

With ``--html`` it is the page of `proxy.admin.report_page`. Here are also ``groundwire feedback export``, what people said of findings as
JSON Lines, the newest first, from the store opened read-only; and ``groundwire alerts test``.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, TextIO, TypeVar

import msgspec
from rich.table import Column, Table
from rich.text import Text

from proxy.admin.reports import Period, make_report, panels_of
from proxy.cli.admin_client import AdminClient, ServerAway, ServerRefused, admin_key, server_url
from proxy.cli.terminal import Terminal, harmless
from proxy.config.alerts import AlertSettings
from proxy.config.settings import Settings
from proxy.errors import ConfigError, StoreUnavailable
from proxy.language import amounts
from proxy.models.tokens.counter import TiktokenCounter
from proxy.observe.recording import prices_of
from proxy.stages.registry import STAGES
from proxy.store.feedback import DatabaseFeedback
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
        print(f"groundwire: {error}; --config names another configuration", file=sys.stderr)
        return 2
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
        if html is not None:
            return _write_page(settings(), source, prefix, wanted, html)
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
    client = AdminClient(server_url(url, lambda: settings().server), admin_key(settings), timeout_s=_SERVER_S)
    try:
        found: dict[str, Any] = json.loads(client.get("/report", since=wanted.since, until=wanted.until, route=route))
    except ValueError as error:
        raise ServerRefused(f"{client.url} is not a Groundwire server: its report cannot be read") from error
    return found | {"source": client.url}


def _from_store(settings: Settings, file: Path, route: str | None, wanted: Period) -> dict[str, Any]:
    return read_store(settings, file, lambda database: make_report(database, panels_of(STAGES), wanted, route, database.name))


def _write_page(settings: Settings, file: Path, route: str | None, wanted: Period, page: Path) -> int:
    from proxy.admin.report_page import report_page

    tokens = TiktokenCounter(model_settings(settings))
    tokens.load_list()
    price, panels = prices_of(model_prefixes(settings), tokens.model), panels_of(STAGES)
    text, html = read_store(
        settings, file, lambda database: report_page(database, panels, wanted.since, wanted.until, price=price, route=route)
    )
    try:
        page.write_text(html, "utf-8")
    except OSError as error:
        raise ConfigError("command line", "--html", f"{page} cannot be written: {error.strerror}") from error
    Terminal().line(f"{harmless(text.partition(chr(10))[0])}: {page}")
    return 0


def read_store(settings: Settings, file: Path, look: Callable[[ReadOnlyDatabase], Awaitable[T]]) -> T:
    """What `look` finds in the store, opened read-only. Raises `StoreUnavailable`, `ConfigError`."""

    async def once() -> tuple[list[T], bool]:
        database, found = ReadOnlyDatabase(settings.store.url, source=str(file)), list[T]()
        await database.start()
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


# ---- the table ----

TOP = 10
_LABEL, _VALUE = 38, 12
Kind = Literal["count", "usd", "score", "share", "ms", "ratio"]
Figures = Mapping[str, Any]
_Row = tuple[str, ...]
_KINDS: Mapping[str, Kind] = {
    "usd": "usd",
    "mean": "score",
    **dict.fromkeys(("ratio", "average_offered", "average_kept"), "ratio"),
    **dict.fromkeys(("p50", "p95"), "ms"),
    **dict.fromkeys(("rate", "precision", "low", "high", "savings", "saved_share"), "share"),
}
"""How a figure is written, by its name; any other is a count."""
_LISTED = ("shadow", "runs", "caught")
"""What is no table of figures, or is the sum of others."""


def write(report: Mapping[str, Any], terminal: Terminal) -> None:
    """The whole report."""
    for line in _table_lines(report, terminal):
        terminal.line(line)


def _table_lines(report: Mapping[str, Any], terminal: Terminal) -> Iterator[str | Text]:
    now, before = report["figures"], report["before"]["figures"] if report["before"] else {}
    yield from (*head(report), "")
    if not now["exchanges"]["total"]:
        yield from _nothing(report)
        if not (before and before["exchanges"]["total"]):
            yield from _waiting(report)
            return
        yield ""
    yield from _shadow(now)
    for is_title, rows in groupby(_rows(now, before), lambda row: len(row) == 1):
        yield from (
            (Text(row[0], "bold") for row in rows) if is_title else (line.rstrip() for line in terminal.shown(_table(rows)).splitlines())
        )
    yield from _waiting(report)


def _rows(now: Figures, before: Figures) -> Iterator[_Row]:
    yield "", "now", "before", "change"
    for subject in now:
        if subject not in _LISTED and (rows := list(_figures(now[subject], before.get(subject), (subject,)))):
            yield (harmless(subject.replace("_", " ")).capitalize(),)
            yield from rows
    yield from _runs(now)


def _figures(value: Any, earlier: Any, path: tuple[str, ...]) -> Iterator[_Row]:
    """A row for each figure that is not nothing in both periods, of very many names the first."""
    if isinstance(value, Mapping) or isinstance(earlier, Mapping):
        found, old = (one if isinstance(one, Mapping) else {} for one in (value, earlier))
        names = list(dict.fromkeys([*found, *old]))
        for name in names[:TOP]:
            yield from _figures(found.get(name), old.get(name), (*path, name))
        if len(names) > TOP:
            yield (f"  and {len(names) - TOP} more", "", "", "")
    elif value or earlier:
        kind = _KINDS.get(path[-1], "count")
        if kind == "count":
            value, earlier = value or 0, earlier or 0
        yield f"  {' '.join(map(harmless, path[1:]))}", _FORMATS[kind](value), _FORMATS[kind](earlier), change(value, earlier, kind)


def _table(rows: Iterable[_Row]) -> Table:
    values = (Column(width=_VALUE, justify="right", no_wrap=True) for _ in range(3))
    made = Table(Column(width=_LABEL, no_wrap=True), *values, box=None, padding=0, show_header=False)
    for row in rows:
        made.add_row(*map(Text, row))
    return made


def head(report: Mapping[str, Any]) -> list[str]:
    """What the report is about."""
    period, route = report["period"], report["route"]
    since, until = (local(period[name]) for name in ("since", "until"))
    of = "all routes" if route is None else f"route {harmless(route) or '/'}"
    lines = [f"Groundwire, {of}: {since:%Y-%m-%d %H:%M} to {until:%Y-%m-%d %H:%M} {_zone(since, until)} ({length(period)})"]
    if report["before"]:
        lines.append(f"before: the {length(report['before']['period'])} until then; from {harmless(report['source'])}")
    return lines


def local(at: float) -> datetime:
    """A time in this machine's zone."""
    return datetime.fromtimestamp(at).astimezone()


def _zone(since: datetime, until: datetime) -> str:
    names = dict.fromkeys(f"{when:%Z}" for when in (since, until))
    return "/".join(names)


def length(period: Mapping[str, Any]) -> str:
    """How long a period is: ``24 h``, ``7 d``, ``30 min``."""
    seconds = period["until"] - period["since"]
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= (2 * size if unit == "d" else size):
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds:.4g} s"


def _runs(now: Figures) -> Iterator[_Row]:
    if top := now["runs"]["top"]:
        yield ("Runs in most trouble, exchanges", "failed", "warned")
        for run in top:
            yield (f"  {harmless(run['run_id'])}", f"{run['failed']:,}", f"{run['warned']:,}")


_WOULD = {"edit": "changed", "answer": "answered in the model's stead", "ask": "asked the user about", "retry": "asked again for"}


def _shadow(now: Figures) -> Iterator[str]:
    """What policies in shadow mode would have done, with the newest exchanges that they would have blocked."""
    found = now.get("shadow") or {}
    if not found.get("judged"):
        return
    also = [f"{words} {found['would'][name]:,}" for name, words in _WOULD.items() if found["would"].get(name)]
    rest = f"; {', '.join(also)}" if also else ""
    yield f"Shadow mode: would have blocked {found['blocked']:,} of {found['judged']:,}{rest}"
    for one in found["newest_blocked"]:
        yield f"  {local(one['created_at']):%m-%d %H:%M} {harmless(one['id'])} {harmless(one['reason'])}"
    if found["blocked"] > len(found["newest_blocked"]):
        yield f"  and {found['blocked'] - len(found['newest_blocked']):,} before these"
    yield ""


def _waiting(report: Mapping[str, Any]) -> Iterator[str]:
    if report["waiting"]:
        one = report["waiting"] == 1
        yield f"{report['waiting']:,} {'piece waits' if one else 'pieces wait'} in quarantine for a decision now: see /dashboard/quarantine"


def _nothing(report: Mapping[str, Any]) -> Iterator[str]:
    yield "No exchanges in this period."
    newest = report["newest"]
    if newest is None:
        yield "There are none at all yet: point a client's base_url at the server, as `groundwire serve` prints it, and ask again."
    elif newest < report["period"]["since"]:
        yield f"The last one came on {local(newest):%Y-%m-%d at %H:%M %Z}: look further back with --since {local(newest):%Y-%m-%d}."
    else:
        yield f"The last one came on {local(newest):%Y-%m-%d at %H:%M %Z}: try a later --until."


def change(value: float | None, earlier: float | None, kind: Kind) -> str:
    """From `earlier` to `value`: a part of it for counts and amounts, a difference for scores, shares and times."""
    if value is None or earlier is None or value == earlier:
        return "" if value is None or earlier is None else "="
    if kind in ("count", "usd"):
        return f"{(value - earlier) / earlier:+.0%}" if earlier > 0 else "new" if earlier == 0 else ""
    if kind == "share":
        return f"{(value - earlier) * 100:+.1f} pp"
    digits = 0 if kind == "ms" and abs(value - earlier) >= 10 else 2
    return f"{value - earlier:+.{digits}f}{' ms' if kind == 'ms' else ''}"


_FORMATS: Mapping[Kind, Callable[[float | None], str]] = {
    "count": amounts.number,
    "usd": amounts.dollars,
    "score": amounts.score,
    "share": partial(amounts.share, digits=1),
    "ratio": amounts.score,
    "ms": amounts.milliseconds,
}
