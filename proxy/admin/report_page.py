"""A period's report as one HTML page that needs nothing else, and in a few lines: for ``groundwire report --html`` and the weekly e-mail.

In: the report of `proxy.admin.reports`, figures by day and by model. Out: the page, with the dashboard's own style in it, light, dark and
for paper. It has figures, codes and names, and no words of a conversation.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from proxy.admin.dashboard.panels import NO_FINDING, caught
from proxy.admin.dashboard.rendering import render, run_path
from proxy.admin.dashboard.summaries import in_words
from proxy.admin.reports import Period, make_report
from proxy.exchange import Usage
from proxy.language.amounts import dollars, many, milliseconds, number, share
from proxy.observe.recording import Price
from proxy.ports.panels import Bucket, StagePanel
from proxy.store.database import Database
from proxy.store.exchange_search import UNDECIDED
from proxy.store.figures import DatabaseFigures

DAY_S = 86_400
_MANY_UNSURE, _MANY_BLOCKED, _LOW_PRECISION, _FEW_SAVED = 0.3, 0.1, 0.85, 0.02
"""From which on, or below which, something is to be looked at."""
_MIN_COUNT, _MIN_SAID = 20, 5
"""Exchanges, and words of people, below which a share says little."""
_TOP = 12


class Tile(Struct, frozen=True):
    """One figure of the head."""

    name: str
    figure: str
    below: str


class Advice(Struct, frozen=True):
    """Something to tune: what was seen, and what to do."""

    seen: str
    do: str


async def report_page(
    database: Database,
    panels: Sequence[type[StagePanel]],
    since: float,
    until: float,
    *,
    price: Price,
    source: str = "",
    route: str | None = None,
) -> tuple[str, str]:
    """Text and HTML of the time from `since` to `until`; `price` gives what tokens cost. Raises `StoreUnavailable`."""
    figures = DatabaseFigures(database, panels, only=None if route is None else ("route", route))
    report = await make_report(database, panels, Period(since, until), route, source or database.name)
    bucket_s = DAY_S if until - since <= 60 * DAY_S else 7 * DAY_S
    days, models = await figures.between(since, until, bucket_s), await figures.by_model(since, until)
    return await asyncio.to_thread(_made, report, days, models, price)


def _made(report: Mapping[str, Any], days: Sequence[Bucket], models: Sequence[dict[str, Any]], price: Price) -> tuple[str, str]:
    now, before = report["figures"], report["before"]["figures"] if report["before"] else None
    saved_tokens = now["tokens"]["saved_by_model"]
    rows = [row | {"saved_tokens": saved_tokens.get(f"{row['upstream']}/{row['model']}", 0)} for row in models]
    priced = [row | {"saved_usd": _saved_usd(row, price)} for row in rows]
    saved_usd = [row["saved_usd"] for row in priced if row["saved_usd"] is not None]
    saved = sum(saved_usd) if saved_usd else None
    tiles, advices = list(_tiles(now, before, saved)), list(advice(now))
    when = " to ".join(_day(report["period"][end]) for end in ("since", "until"))
    values: dict[str, Any] = {
        "when": f"{when} UTC",
        "report": report,
        "now": now,
        "nothing": _nothing(report),
        "tiles": tiles,
        "caught": _caught(now)[:_TOP],
        "days": [_bar(day) for day in days],
        "most": max([1, *(day.exchanges for day in days)]),
        "models": priced[:_TOP],
        "saved_usd": saved,
        "advices": advices,
    }
    lines = [f"Groundwire, {when} UTC", *_lines(report, tiles, advices)]
    return "\n".join(" ".join(line.split()) for line in lines), render("report.html", **values)


def _lines(report: Mapping[str, Any], tiles: Sequence[Tile], advices: Sequence[Advice]) -> Iterator[str]:
    """The page in a few lines."""
    now = report["figures"]
    if not now["exchanges"]["total"]:
        yield " ".join(_nothing(report))
    yield from (f"{tile.name}: {tile.figure} ({tile.below})" for tile in tiles)
    yield from (f"Caught: {many(count, 'exchange')}, {words} ({code})" for words, code, count in _caught(now)[:_TOP])
    if (shadow := now["shadow"])["judged"]:
        also = "".join(f", {kind} {number(count)}" for kind, count in shadow["would"].items() if kind != "block")
        yield f"Shadow mode: would have blocked {number(shadow['blocked'])} of {number(shadow['judged'])}{also}; the newest:"
        yield from (f"- {_day(one['created_at'])} {one['id']} {one['reason']}" for one in shadow["newest_blocked"])
    if report["waiting"]:
        yield f"Quarantine: {many(report['waiting'], 'piece')} waiting for a decision now"
    yield from ("To tune:", *(f"- {one.seen} {one.do}" for one in advices)) if advices else ()


def _nothing(report: Mapping[str, Any]) -> tuple[str, str]:
    """What to say of a time without exchanges, and what to do."""
    newest, others, route = report["newest"], report["other_routes"], report["route"]
    of = "" if route is None else f" of route {route or '/'}"
    if newest is not None:
        return f"No exchanges{of} in this time.", f"The last one came on {_day(newest)}."
    if others:
        return f"No exchanges{of}.", f"Routes with exchanges are {', '.join(other or '/' for other in others)}."
    none = "There are none at all yet: point a client's base_url at the server, as groundwire serve prints it, and ask again."
    return "No exchanges in this time.", none


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _saved_usd(row: Mapping[str, Any], price: Price) -> float | None:
    """What the tokens that were not sent would have cost, none of them from a provider's cache; below 0 where stages put in more."""
    cost = price(row["upstream"], row["model"], Usage(abs(row["saved_tokens"]), 0, calls=row["exchanges"]))
    return None if cost is None else math.copysign(cost, row["saved_tokens"])


def judged_of(now: Mapping[str, Any]) -> int:
    """Exchanges of whose answers statements were judged."""
    return sum(now["exchanges"]["judged"].values())


def _tiles(now: Mapping[str, Any], before: Mapping[str, Any] | None, saved_usd: float | None) -> Iterator[Tile]:
    """What nobody could decide and what failed come first."""
    verdicts, total, judged = now["exchanges"]["verdicts"], now["exchanges"]["total"], judged_of(now)
    earlier = before["exchanges"]["verdicts"] if before else {}

    def than(name: str) -> str:
        return f", {number(earlier.get(name, 0))} before" if before else ""

    unsure, unchecked = (verdicts.get(name, 0) for name in UNDECIDED)
    failed = verdicts.get("error", 0) + verdicts.get("upstream_error", 0)
    yield Tile("Not decided", number(unsure + unchecked), f"{number(unsure)} unsure{than('unsure')}, {number(unchecked)} not checked")
    yield Tile("Failed", number(failed), f"provider {number(verdicts.get('upstream_error', 0))}, checks {number(verdicts.get('error', 0))}")
    yield Tile("Caught", number(now["caught"]["total"]), f"blocked {number(verdicts.get('block', 0))}{than('block')}")
    held = verdicts.get("pass", 0)
    yield Tile("Held", number(held), f"every statement held, of {number(judged)} judged")
    cost = now["cost"]
    yield Tile(
        "Spend", dollars(cost["usd"]), f"{dollars(before['cost']['usd'])} before" if before else many(cost["priced"], "priced exchange")
    )
    tokens = now["tokens"]
    yield Tile("Saved", dollars(saved_usd), f"{number(tokens['saved'])} prompt tokens, {share(tokens['saved_share'])}")
    times = now["latency_ms"]
    yield Tile("Exchanges", number(total), f"{number(before['exchanges']['total'])} before" if before else "in all")
    yield Tile("Provider, p95", milliseconds(times["provider"]["p95"]), f"Groundwire's own {milliseconds(times['own']['p95'])}")


def _caught(now: Mapping[str, Any]) -> list[tuple[str, str, int]]:
    """What was found, in words, its code, and in how many exchanges; the most common first; without what says that something could not be
    checked.
    """
    found = {**now["warnings"]}
    for code, count in now["blocked"]["reasons"].items():
        found[code] = max(count, found.get(code, 0))
    ordered = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return [(in_words(code) or code, code, count) for code, count in ordered if code and not NO_FINDING.search(code)]


def _bar(day: Bucket) -> dict[str, Any]:
    """A day's exchanges, by what became of them."""
    verdicts = day.verdicts
    failed = verdicts.get("error", 0) + verdicts.get("upstream_error", 0)
    held = verdicts.get("pass", 0)
    undecided = sum(verdicts.get(name, 0) for name in UNDECIDED)
    rest = max(0, day.exchanges - failed - caught(day) - held - undecided)
    at = datetime.fromtimestamp(day.start, UTC)
    parts = [("held", held), ("undecided", undecided), ("caught", caught(day)), ("failed", failed), ("other", rest)]
    return {"label": f"{at:%a %d}", "title": f"{at:%Y-%m-%d}", "total": day.exchanges, "parts": parts}


def advice(now: Mapping[str, Any]) -> Iterator[Advice]:
    """What the figures of a report suggest."""
    verdicts, judged, total = now["exchanges"]["verdicts"], judged_of(now), now["exchanges"]["total"]
    unsure = now["exchanges"]["judged"].get("unsure", 0)
    if judged >= _MIN_COUNT and unsure / judged >= _MANY_UNSURE:
        yield Advice(
            f"{share(unsure / judged)} of judged answers were left undecided.", "Give the policy a judge, and try it: groundwire tune."
        )
    for stage, said in now["feedback"].items():
        if said["looked_at"] >= _MIN_SAID and said["precision"] < _LOW_PRECISION:
            words = f"People called {said['looked_at'] - said['right']} of {said['looked_at']} findings of {stage} wrong."
            yield Advice(words, f"Let {stage} only annotate, or raise its threshold; groundwire feedback export has the cases.")
    if not now["feedback"] and total >= _MIN_COUNT and (verdicts.get("warn") or verdicts.get("block") or verdicts.get("unsure")):
        yield Advice(
            "Nobody has said of a finding whether it is right.", "A few on the dashboard tell how right each stage is with your texts."
        )
    blocked = verdicts.get("block", 0)
    if total >= _MIN_COUNT and blocked / total >= _MANY_BLOCKED:
        yield Advice(
            f"{share(blocked / total)} of all exchanges were blocked.", "Look whether they should be: groundwire tail --verdict block."
        )
    errors = verdicts.get("error", 0)
    if errors and errors / total >= 0.01:
        yield Advice(f"{many(errors, 'check')} could not run.", "Look at the stage's time budget and at /ready.")
    if now["cost"]["unpriced"] > now["cost"]["priced"] and now["tokens"]["completion"]:
        yield Advice(
            f"{many(now['cost']['unpriced'], 'exchange')} have no price.",
            "The list of prices does not know their models; spend is too low.",
        )
    tools = now["tools"]
    if tools["requests"] >= _MIN_COUNT and (tools["average_offered"] or 0) > 30 and (tools["savings"] or 0) < _FEW_SAVED:
        yield Advice(f"{tools['average_offered']:.0f} tools a request, nearly all sent.", "Lower above or top_k of the stage tool_rag.")
    for run in now["runs"]["top"][:1] if now["runs"]["top"] and now["runs"]["top"][0]["failed"] >= _MIN_COUNT else ():
        yield Advice(f"One run failed {run['failed']} times.", f"Its time line is at {run_path(run['run_id'])}.")
