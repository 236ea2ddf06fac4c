"""Rings when a figure is above its threshold, and says when it is so no more: ``alerts:`` of config.yaml.

Every process looks at the store's row `KEY` each few seconds; the one whose name stands there leads, until its time is over, and says as
often that it goes on. Each `every_s` seconds it reads the figures of `proxy.store.figures` over each rule's window, moves each rule on
(`step`), and writes what is to be sent into the row first; while it sends it has more time. So a message goes out once over all workers and
nodes, and a restart neither forgets nor repeats it; a process that dies between sending and saying so leaves one message to be sent again,
under the same id. Of words that somebody wrote there are none in the figures.

A store that is away can hold no row. The process that led last tells of that, and keeps what it has told in its memory.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from sqlalchemy import select

from proxy.admin.channels import Message, NotSent, PartlySent, Sending
from proxy.admin.reports import WEEK_S
from proxy.config.alerts import SHARES, STATES, WEEKDAYS, AlertSettings, RuleSettings, WeeklySettings
from proxy.errors import StoreUnavailable
from proxy.language import amounts
from proxy.ports import Counters
from proxy.ports.background import RepeatedTask
from proxy.ports.panels import Bucket
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures
from proxy.store.memory import Memory
from proxy.store.record_sums import percentile

log = logging.getLogger("groundwire.alerts")

Event = Literal["firing", "repeated", "cleared", "test", "report"]
Measured = tuple[float | None, int | None]
"""A figure's value, None for nothing to divide; and of how many exchanges it is, None where that does not matter."""
KEY = "alerts:lead"
_BEAT_S, _LEAD_S, _SENDING_S = 3.0, 12.0, 120.0
"""Between two looks at the row, at most; so long a process leads that says nothing more; and so long one that is sending."""
_END_S = 5.0
"""For messages on their way as the process ends: one that nobody waits for goes out again from the next leader."""
_NOT_ENDED = ("pending", "interrupted")
_UNSUPPORTED = ("claims_contradicted", "claims_unsupported", "hallucination_detected")
_SUBJECTS: Mapping[Event, str] = {"firing": "rings", "repeated": "still rings", "cleared": "has cleared"}
_SEEN_FAILED = 20
"""Channels that failed, of which the row keeps the reason."""


def _share(number: int, count: int) -> Measured:
    return (min(1.0, number / count) if count else None), count


def _of_judged(whole: Bucket, number: int) -> Measured:
    return _share(number, sum(whole.judged.values()))


def _of_ended(whole: Bucket, number: int) -> Measured:
    return _share(number, sum(count for verdict, count in whole.verdicts.items() if verdict not in _NOT_ENDED))


def _time(counts: Mapping[str, int]) -> Measured:
    return percentile(counts, 0.95), sum(counts.values())


FIGURES: Mapping[str, tuple[str, Callable[[Bucket], Measured]]] = {
    "unsure": ("unsure answers, of those that were judged", lambda b: _of_judged(b, b.judged.get("unsure", 0))),
    "unsupported": (
        "answers with a statement that is contradicted or unsupported, of those that were judged",
        lambda b: _of_judged(b, sum(b.warnings.get(code, 0) for code in _UNSUPPORTED)),
    ),
    "blocked": ("blocked exchanges, of all that ended", lambda b: _of_ended(b, b.verdicts.get("block", 0))),
    "errors": (
        "exchanges in which the provider gave no whole answer or a check could not run, of all that ended",
        lambda b: _of_ended(b, b.verdicts.get("upstream_error", 0) + b.verdicts.get("error", 0)),
    ),
    "spend_usd": ("USD spent, by the list of prices", lambda b: (b.cost_usd, None)),
    "provider_p95_ms": ("95th percentile of the providers' time", lambda b: _time(b.provider_ms)),
    "own_p95_ms": ("95th percentile of Groundwire's own time", lambda b: _time(b.own_ms)),
}
"""What each figure of exchanges is, in words and of a bucket."""
_STATE_WORDS = {
    "drift": ("the processes of the store differ: see /ready", "the processes of the store are alike again"),
    "store_away_s": ("the store is away", "the store is back"),
}
"""While it is so, and when it is over."""


class RuleState(Struct):
    """How a rule stands. Times are seconds since the epoch."""

    firing: bool = False
    since: float = 0.0
    above_at: float = 0.0
    """When the figure was above the threshold last."""
    told_at: float = 0.0


def step(rule: RuleSettings, state: RuleState, measured: Measured, now: float) -> Event | None:
    """Move `state` on to `now`; what is to be told of that."""
    value, count = measured
    enough = value is not None and (count is None or count >= rule.min_count)
    above = enough and value is not None and value > rule.threshold
    if above:
        state.above_at = now
    if not state.firing:
        if above:
            state.firing, state.since, state.told_at = True, now, now
        return "firing" if above else None
    if above:
        if not rule.repeat_s or now - state.told_at < rule.repeat_s:
            return None
        state.told_at = now
        return "repeated"
    if (enough and value is not None and value <= rule.clears_at) or now - state.above_at >= rule.clear_after_s:
        state.firing, state.since, state.told_at = False, now, now
        return "cleared"
    return None


class _Letter(Struct):
    """A message to one channel, until it is sent or given up."""

    id: str
    channel: str
    at: float
    event: Event
    rule: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    tries: int = 0
    due: float = 0.0


class _Row(Struct):
    """What all processes share."""

    holder: str = ""
    until: float = 0.0
    rules: dict[str, RuleState] = field(default_factory=dict)
    outbox: list[_Letter] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Channels whose last message was given up, and why."""
    reported: float = 0.0
    """The week whose report was sent last, by its end; 0 before the first look."""


def slot(weekly: WeeklySettings, now: float) -> float:
    """When the last report was due."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=weekly.hour, minute=0, second=0, microsecond=0)
    found = (today - timedelta(days=(today.weekday() - WEEKDAYS.index(weekly.day)) % 7)).timestamp()
    return found if found <= now else found - WEEK_S


def in_words(rule: RuleSettings, event: Event, measured: Measured, dashboard_url: str = "") -> str:
    """A message's text: what happened, the figure, the threshold, and where to look."""
    value, count = measured
    head = {"repeated": "still: ", "cleared": "cleared: "}.get(event, "")
    if rule.figure in STATES:
        said = _STATE_WORDS[rule.figure][event == "cleared"] + (f" for {value:.0f} s" if rule.figure == "store_away_s" and value else "")
    else:
        of = f" of {count:,} exchanges" if count is not None else ""
        where = "" if rule.route is None else f" of route {rule.route or '/'}"
        said = f"{_written(rule, value)}{of}{where} in the last {rule.window_s / 60:g} min ({FIGURES[rule.figure][0]})"
        said += f"; rings above {_written(rule, rule.threshold)}"
    return f"Groundwire, {rule.title}: {head}{said}" + (f"\n{dashboard_url}" if dashboard_url else "")


def _written(rule: RuleSettings, value: float | None) -> str:
    if rule.figure in SHARES:
        return amounts.share(value)
    return amounts.dollars(value) if rule.figure == "spend_usd" else amounts.milliseconds(value)


_News = tuple[Event, str]
"""What has happened to a rule, and the line that the log gets."""


def _log(news: Sequence[_News]) -> None:
    for event, line in news:
        log.log(logging.INFO if event == "cleared" else logging.WARNING, "%s", line)


class Alerts:
    """The task of one process."""

    def __init__(
        self,
        settings: AlertSettings,
        database: Database,
        figures: DatabaseFigures,
        counters: Counters,
        *,
        name: str,
        drift: Callable[[], Sequence[str]] = tuple,
        page: Callable[[float, float], Awaitable[tuple[str, str]]] | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`name` is this process's; `drift` says in what the store's processes differ; `page` makes the text and HTML of a period's report.

        `clock` takes the place of the database's.
        """
        self._settings, self._database, self._figures, self._counters = settings, database, figures, counters
        self._name, self._drift, self._page, self._clock = name, drift, page, clock
        self._memory, self._sending = Memory(database, "alerts"), Sending()
        self._looked_at = -math.inf
        """When it last looked at the figures, by `time.monotonic`."""
        self._row, self._own = _Row(), _Row()
        """As last seen; and what this process alone knows: of a store that is away."""
        self._leads, self._store_seen_at = False, 0.0
        """Whether it led in the last round that found the store; and when that was, by `time.monotonic`."""
        every_s, problem = min(_BEAT_S, settings.every_s), "alerts could not be looked at"
        self._rounds = RepeatedTask(self._round, every_s, name="alerts", problem=problem, log=log, jitter=0.1, end_s=_END_S)

    def start(self) -> None:
        """Begin, where there is anything to look at."""
        if self._settings.rules or self._settings.weekly:
            self._rounds.start()

    async def stop(self) -> None:
        """End the task, and leave the lead to others."""
        await self._rounds.stop()
        if self._leads:
            try:
                row, version = await self._load()
                if row.holder == self._name:
                    row.until = 0.0
                    await self._swap(row, version)
            except StoreUnavailable as error:
                log.debug("the lead of alerts ends by itself: %s", error)

    @property
    def state(self) -> dict[str, list[str]]:
        """For ``/ready`` and the dashboard: rules that ring, and channels that did not take the last message; without what is empty."""
        rules = {**self._row.rules, **self._own.rules}
        found = {
            "firing": sorted(name for name, one in rules.items() if one.firing),
            "failed": sorted({**self._row.failed, **self._own.failed}),
        }
        return {name: names for name, names in found.items() if names}

    async def _round(self) -> None:
        if not (self._leads and time.monotonic() < self._looked_at + self._settings.every_s and await self.lead_on()):
            await self.look()

    async def lead_on(self) -> bool:
        """Say that this process leads on, between two rounds; whether it does. Raises nothing for a store that is away."""
        try:
            now, row, version = await self._loaded()
            row.until = now + _LEAD_S
            return row.holder == self._name and await self._swap(row, version)
        except StoreUnavailable as error:
            log.debug("alerts wait for the store: %s", error)
            return False

    async def look(self) -> bool:
        """One round; whether this process leads. Raises nothing for a store that is away."""
        away_s, self._looked_at = 0.0, time.monotonic()
        try:
            self._leads, self._store_seen_at = await self._led(), time.monotonic()
        except StoreUnavailable as error:
            log.debug("alerts wait for the store: %s", error)
            if not self._leads:
                return False
            away_s = time.monotonic() - self._store_seen_at
        await self._look_at_store(away_s)
        return self._leads

    async def _led(self) -> bool:
        now, row, version = await self._loaded()
        self._row = row
        if row.holder != self._name and now < row.until < now + 2 * _SENDING_S:
            return False
        news = await self._move(row, now)
        due = any(letter.due <= now for letter in row.outbox)
        row.holder, row.until = self._name, now + (_SENDING_S if due else _LEAD_S)
        if not await self._swap(row, version):
            return False  # another process was first: it tells
        _log(news)
        if due:
            await self._deliver(row, now)
            row.until = now + _LEAD_S  # where sending took longer, it has to say so again
            return await self._swap(row, version + 1)
        return True

    async def _loaded(self) -> tuple[float, _Row, int]:
        """The time, the row, and its version."""
        now = float(await self._database.scalar(select(self._database.now)))
        return (now if self._clock is None else self._clock(), *await self._load())

    async def _load(self) -> tuple[_Row, int]:
        content, version = await self._memory.load(KEY)
        try:
            return (msgspec.json.decode(content, type=_Row) if content else _Row()), version
        except msgspec.DecodeError:  # another version's
            return _Row(), version

    async def _swap(self, row: _Row, version: int) -> bool:
        return await self._memory.swap(KEY, msgspec.json.encode(row), version, "")

    async def _move(self, row: _Row, now: float) -> list[_News]:
        """Every rule on to `now`, and into the outbox what is to be told; returns that for the log. Raises `StoreUnavailable`."""
        news: list[_News] = []
        row.rules = {rule.title: row.rules.get(rule.title, RuleState()) for rule in self._settings.rules if rule.figure != "store_away_s"}
        row.failed = {name: why for name, why in row.failed.items() if name in self._settings.channels}
        windows: dict[tuple[float, str | None], Bucket] = {}
        for rule in self._settings.rules:
            if rule.title not in row.rules:
                continue
            if rule.figure in STATES:
                measured: Measured = (float(bool(self._drift())), None)
            else:
                window = rule.window_s, rule.route
                if window not in windows:
                    windows[window] = await self._figures_of(rule.route).whole(now - rule.window_s, now)
                measured = FIGURES[rule.figure][1](windows[window])
            news += self._step(row, rule, measured, now)
        weekly = self._settings.weekly
        if weekly is not None and (due := slot(weekly, now)) != row.reported:
            if row.reported and due > row.reported:
                period = {"since": due - WEEK_S, "until": due}
                row.outbox += [_letter(channel, "report", now, period) for channel in weekly.channels]
            row.reported = due
        return news

    def _figures_of(self, route: str | None) -> DatabaseFigures:
        """Of all exchanges, or of one route's."""
        return self._figures if route is None else DatabaseFigures(self._database, only=("route", route.rstrip("/")))

    def _step(self, row: _Row, rule: RuleSettings, measured: Measured, now: float) -> list[_News]:
        state = row.rules.setdefault(rule.title, RuleState())
        since = state.since
        event = step(rule, state, measured, now)
        if event is None:
            return []
        (value, count), text = measured, in_words(rule, event, measured, self._settings.dashboard_url)
        data = {"event": event, "rule": rule.title, "figure": rule.figure, "route": rule.route, "value": value, "count": count, "at": now}
        data |= {
            "above": rule.threshold,
            "clear_at": rule.clears_at,
            "window_s": rule.window_s,
            "since": since if event == "cleared" else state.since,
        }
        for channel in rule.channels or tuple(self._settings.channels):
            row.outbox.append(_letter(channel, event, now, data, text, rule.title))
        return [(event, text.partition("\n")[0])]

    async def _look_at_store(self, away_s: float) -> None:
        """In the process that led last, and in one that has told of it: one of all rings."""
        now = time.time()
        for rule in self._settings.rules:
            if rule.figure == "store_away_s" and (away_s or rule.title in self._own.rules):
                _log(self._step(self._own, rule, (away_s, None), now))
        if self._own.outbox:
            await self._deliver(self._own, now)

    async def _deliver(self, row: _Row, now: float) -> None:
        """What is due, all channels at once; what failed stays for later, until it was tried often enough."""
        due = [letter for letter in row.outbox if letter.due <= now]
        problems = await asyncio.gather(*map(self._sent, due))
        for letter, problem in zip(due, problems, strict=True):
            letter.tries += 1
            if not problem:
                row.failed.pop(letter.channel, None)
                self._counters.count("alerts.sent_count")
            elif letter.tries >= self._settings.tries:
                about = letter.rule or letter.event, letter.tries, letter.channel
                log.error("alert %s was given up after %d tries: channel %s: %s", *about, problem)
                row.failed = dict([*row.failed.items(), (letter.channel, problem)][-_SEEN_FAILED:])
                self._counters.count("alerts.failed_count")
            else:
                log.warning("alert %s is tried again: channel %s: %s", letter.rule or letter.event, letter.channel, problem)
                letter.due = now + self._settings.every_s * 2 ** (letter.tries - 1)
                continue
            row.outbox.remove(letter)

    async def _sent(self, letter: _Letter) -> str:
        """Why it was not; "" where it was."""
        channel = self._settings.channels.get(letter.channel)
        if channel is None:
            return "config.yaml has no such channel any more"
        try:
            text, page = letter.text, ""
            if letter.event == "report":
                if self._page is None:
                    return "no report can be made here"
                text, page = await self._page(letter.data["since"], letter.data["until"])
            subject = f"Groundwire: {letter.rule} {_SUBJECTS[letter.event]}" if letter.rule else text.partition("\n")[0]
            message = Message(id=letter.id, at=time.time(), subject=subject, text=text, data=letter.data, page=page)
            await self._sending.send(channel, message)
        except PartlySent as error:
            log.error("alert %s is not tried again: channel %s: %s", letter.rule or letter.event, letter.channel, error)
            self._counters.count("alerts.failed_count")
        except (NotSent, StoreUnavailable) as error:
            return str(error)
        except Exception as error:  # one that left here would keep what the other channels took from being noted: it would go out again
            log.exception("alert %s cannot be made or sent: channel %s", letter.rule or letter.event, letter.channel)
            return f"an error of Groundwire's own ({type(error).__name__}), which the log has"
        return ""


def _letter(channel: str, event: Event, now: float, data: Mapping[str, Any], text: str = "", rule: str = "") -> _Letter:
    return _Letter(f"alert_{uuid.uuid4().hex}", channel, now, event, rule, dict(data), text, due=now)


def trial(now: float, dashboard_url: str) -> Message:
    """What ``groundwire alerts test`` sends."""
    text = "Groundwire, test: this channel works" + (f"\n{dashboard_url}" if dashboard_url else "")
    data = {"event": "test", "rule": "test", "at": now}
    return Message(id=f"alert_{uuid.uuid4().hex}", at=now, subject=text.partition("\n")[0], text=text, data=data)
