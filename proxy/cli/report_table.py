"""A report as a table: each figure of the period beside that of the period before, and what changed.

In: the JSON of the report. Out: lines. What did not occur in either period is left out, a subject without any figure with it. Times are in
the zone of this machine, which the head names. Names that came from clients and upstreams are made harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import Any, Literal

from rich.table import Column, Table
from rich.text import Text

from proxy.cli.terminal import Terminal, harmless
from proxy.language import amounts

TOP = 10
_LABEL, _VALUE = 38, 12
Kind = Literal["count", "usd", "score", "share", "ms", "ratio"]
Figures = Mapping[str, Any]
_Row = tuple[str, ...]
_ROWS: tuple[tuple[str, str, Kind | None], ...] = (
    ("Tokens", "", None),
    ("as the clients sent them", "tokens.before", "count"),
    ("of these prompts, sent upstream", "tokens.after", "count"),
    ("saved", "tokens.saved", "count"),
    ("saved, share", "tokens.saved_share", "share"),
    ("prompts, by the upstreams' count", "tokens.prompt", "count"),
    ("from the provider's cache", "tokens.cached", "count"),
    ("answers", "tokens.completion", "count"),
    ("Cost", "", None),
    ("USD, by the price list", "cost.usd", "usd"),
    ("exchanges without a known price", "cost.unpriced", "count"),
    ("Answers, mean of those judged", "", None),
    ("quality", "quality.quality.mean", "score"),
    ("faithfulness", "quality.faithfulness.mean", "score"),
    ("relevance of the context", "quality.relevance.mean", "score"),
    ("citations verified", "citations.precision", "share"),
    ("Poisoning", "", None),
    ("new pieces checked", "poisoning.checked", "count"),
    ("attempts", "poisoning.attempts", "count"),
    ("blocked", "poisoning.blocked", "count"),
    ("rate", "poisoning.rate", "share"),
    ("Clashes", "", None),
    ("found", "clashes.found", "count"),
    ("resolved by the policy", "clashes.auto_resolved", "count"),
    ("resolved by people", "clashes.resolved_by_people", "count"),
    ("open", "clashes.open", "count"),
    ("exchanges that asked the user", "clashes.asked_exchanges", "count"),
    ("Failures of agents", "", None),
    ("recorded", "failures.recorded", "count"),
    ("resolved since", "failures.resolved", "count"),
    ("exchanges that asked the user", "failures.asked_exchanges", "count"),
    ("exchanges that were stopped", "failures.stopped_exchanges", "count"),
    ("Compression", "", None),
    ("prompts compressed", "compression.runs", "count"),
    ("ratio", "compression.ratio", "ratio"),
    ("left above the target", "compression.failures", "count"),
    ("Tools, where they were selected", "", None),
    ("requests", "tools.requests", "count"),
    ("offered, on average", "tools.average_offered", "ratio"),
    ("sent, on average", "tools.average_kept", "ratio"),
    ("tokens of descriptions saved", "tools.savings", "share"),
    ("Time", "", None),
    ("of the provider, p50", "latency_ms.provider.p50", "ms"),
    ("of the provider, p95", "latency_ms.provider.p95", "ms"),
    ("added by the proxy, p50", "latency_ms.own.p50", "ms"),
    ("added by the proxy, p95", "latency_ms.own.p95", "ms"),
)
"""Label, where the figure is, how it is written; a row without a figure is a subject's title."""
_LISTS: tuple[tuple[str, str], ...] = (
    ("Blocked, by reason", "blocked.reasons"),
    ("Warnings", "warnings"),
    ("Poisoning, by type", "poisoning.types"),
    ("Clashes, by type", "clashes.types"),
    ("Failures of agents, by signal", "failures.types"),
    ("Errors", "errors"),
)


def write(report: Mapping[str, Any], terminal: Terminal) -> None:
    """The whole report."""
    for line in _lines(report, terminal):
        terminal.line(line)


def _lines(report: Mapping[str, Any], terminal: Terminal) -> Iterator[str | Text]:
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
    yield from _exchanges(now, before)
    heading: tuple[_Row, ...] = ()
    for label, path, kind in _ROWS:
        value, earlier = _at(now, path), _at(before, path)
        if kind is None:
            heading = ((label,),)
        elif value or earlier:
            yield from (*heading, _row(f"  {label}", value, earlier, kind))
            heading = ()
    for title, path in _LISTS:
        yield from _counted(title, _at(now, path) or {}, _at(before, path) or {})
    yield from _runs(now)


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


def _exchanges(now: Figures, before: Figures) -> Iterator[_Row]:
    yield _row("Exchanges", _at(now, "exchanges.total"), _at(before, "exchanges.total"), "count")
    for name in ("verdicts", "statuses"):
        found, earlier = _at(now, f"exchanges.{name}") or {}, _at(before, f"exchanges.{name}") or {}
        prefix = "  status " if name == "statuses" else "  "
        for key in dict.fromkeys([*found, *earlier]):
            yield _row(prefix + harmless(key), found.get(key, 0), earlier.get(key, 0), "count")


def _counted(title: str, found: Mapping[str, int], earlier: Mapping[str, int]) -> Iterator[_Row]:
    """The most common; those that there were only before come last."""
    names = list(dict.fromkeys([*found, *earlier]))
    if names:
        yield (title if len(names) <= TOP else f"{title} (the first {TOP} of {len(names)})",)
        for name in names[:TOP]:
            yield _row(f"  {harmless(name)}", found.get(name, 0), earlier.get(name, 0), "count")


def _runs(now: Figures) -> Iterator[_Row]:
    if top := now["runs"]["top"]:
        yield ("Runs in most trouble, exchanges", "failed", "warned")
        for run in top:
            yield (f"  {harmless(run['run_id'])}", f"{run['failed']:,}", f"{run['warned']:,}")


_WOULD = {"edit": "changed", "answer": "answered in the model's stead", "ask": "asked the user about", "retry": "asked again for"}


def _shadow(now: Figures) -> Iterator[str]:
    """What policies in shadow mode would have done, with the newest exchanges that they would have blocked."""
    found = _at(now, "shadow") or {}
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


def _row(label: str, value: Any, earlier: Any, kind: Kind) -> _Row:
    return (label, _FORMATS[kind](value), _FORMATS[kind](earlier), change(value, earlier, kind))


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


def _at(figures: Figures, path: str) -> Any:
    """The figure at a dotted path; None where it is not there."""
    found: Any = figures
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
