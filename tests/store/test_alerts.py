"""Alerts over a store: when a rule rings and clears, once over all processes, over restarts, with a channel that fails, without a store."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import update

from proxy.admin.alerts import FIGURES, Alerts, Event, Measured, RuleState, slot, step
from proxy.admin.reports import WEEK_S
from proxy.config.alerts import AlertSettings, EmailSettings, RuleSettings, WebhookSettings, WeeklySettings
from proxy.errors import StoreUnavailable
from proxy.ports.panels import Bucket
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures
from proxy.store.tables import memory
from proxy.store.writer import RecordWriter
from proxy.testing import ScriptedUpstream, reply, stream
from tests.smtp import MailSink
from tests.store.conftest import CountingCounters, make_record

NOW = 1_700_000_000.0
RULE = RuleSettings(figure="unsure", above=0.3, clear_at=0.2, min_count=10, clear_after_s=600, repeat_s=3600)

# ---- one rule ----


@pytest.mark.parametrize(
    ("course", "events"),
    [
        ([(0.5, 10)], ["firing"]),
        ([(0.3, 10)], [None]),
        ([(0.9, 9)], [None]),
        ([(None, 0)], [None]),
        ([(0.5, 10), (0.25, 10), (0.5, 10), (0.2, 10)], ["firing", None, None, "cleared"]),
        ([(0.5, 10), (0.1, 9)], ["firing", None]),
        ([(0.5, 10), (0.1, 10), (0.5, 10)], ["firing", "cleared", "firing"]),
    ],
)
def test_a_rule_rings_above_its_threshold_and_clears_below_the_other_one(course: list[Measured], events: list[Event | None]) -> None:
    state = RuleState()
    assert events == [step(RULE, state, measured, NOW + 30 * i) for i, measured in enumerate(course)]


@pytest.mark.parametrize("between", [(0.25, 10), (0.0, 3), (None, 0)])
def test_what_is_neither_clears_after_a_while(between: Measured) -> None:
    state = RuleState()
    step(RULE, state, (0.5, 10), NOW)
    assert [None, "cleared"] == [step(RULE, state, between, NOW + seconds) for seconds in (599, 600)]


def test_it_is_said_again_while_it_lasts_and_no_sooner() -> None:
    state = RuleState()
    assert ["firing", None, "repeated", None] == [step(RULE, state, (0.5, 10), NOW + seconds) for seconds in (0, 3599, 3600, 3700)]


def test_where_nothing_is_counted_no_number_is_needed() -> None:
    rule = RuleSettings(figure="spend_usd", above=5.0)
    assert "firing" == step(rule, RuleState(), (5.01, None), NOW)


def test_each_figure_is_a_share_of_what_it_says() -> None:
    whole = Bucket(
        start=0.0,
        seconds=60,
        cost_usd=1.5,
        verdicts={"pass": 4, "unsure": 2, "warn": 1, "block": 3, "upstream_error": 2, "skipped": 10, "unchecked": 5, "pending": 50},
        judged={"pass": 4, "unsure": 2, "warn": 1, "block": 1},
        warnings={"claims_contradicted": 1, "hallucination_detected": 1, "context_usage_high": 9},
    )
    assert {
        "unsure": (0.25, 8),
        "unsupported": (0.25, 8),
        "blocked": (3 / 27, 27),
        "errors": (2 / 27, 27),
        "spend_usd": (1.5, None),
        "provider_p95_ms": (None, 0),
        "own_p95_ms": (None, 0),
    } == {name: measured(whole) for name, (_, measured) in FIGURES.items()}


def test_a_report_is_due_on_its_day_at_its_hour() -> None:
    weekly = WeeklySettings(channels=("mail",), day="monday", hour=7)
    monday = 1_699_858_800.0  # 2023-11-13 07:00 UTC
    assert [monday - WEEK_S, monday, monday, monday + WEEK_S] == [
        slot(weekly, at) for at in (monday - 1, monday, monday + WEEK_S - 1, monday + WEEK_S)
    ]


# ---- over a store ----


async def fill(database: Database, outcomes: Sequence[str], at: float = NOW - 10) -> None:
    writer = RecordWriter(database, CountingCounters())
    for i, outcome in enumerate(outcomes):
        writer.submit(make_record(int(at) * 100 + i, created_at=at, outcome=outcome, detail={"facts": {"faithfulness": 0.5}}))
    await writer.flush()


class Watch:
    """Alerts of one process, and what its clock says."""

    def __init__(self, database: Database, sink: ScriptedUpstream, name: str = "a", **more: Any) -> None:
        self.now, self.counters = NOW, CountingCounters()
        given = {"channels": {"ops": WebhookSettings(url=sink.base_url, secret="x")}, "rules": (RULE,), "tries": 2, "every_s": 10.0}
        options = {name: more.pop(name) for name in ("drift", "page") if name in more}
        settings, figures = AlertSettings(**given | more), DatabaseFigures(database)
        self.alerts = Alerts(settings, database, figures, self.counters, name=name, clock=lambda: self.now, **options)

    async def look(self, at: float) -> bool:
        self.now = NOW + at
        return await self.alerts.look()


def events(sink: ScriptedUpstream) -> list[tuple[str, str]]:
    return [(call.json["rule"], call.json["event"]) for call in sink.calls]


async def test_one_of_several_processes_rings_and_another_clears_when_it_has_gone(database: Database) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        one, other = Watch(database, sink, "a"), Watch(database, sink, "b")
        await fill(database, ["unsure"] * 10)
        assert [True, False, True, False] == [await one.look(0), await other.look(1), await one.look(10), await other.look(11)]
        assert [("unsure", "firing")] == events(sink)
        assert {"firing": ["unsure"]} == one.alerts.state == other.alerts.state
        await fill(database, ["pass"] * 90, NOW + 100)
        assert [False, True] == [await other.look(21), await other.look(400)]  # the first has died
        assert [("unsure", "firing"), ("unsure", "cleared")] == events(sink)
        assert ({}, False) == (other.alerts.state, await one.look(401))


async def test_between_two_rounds_a_leader_says_that_it_leads_on(database: Database) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        one, other = Watch(database, sink, "a", rules=(RULE,)), Watch(database, sink, "b")
        assert True is await one.look(0)
        for at in (10, 20, 30):
            one.now = NOW + at
            assert [True, False, False] == [await one.alerts.lead_on(), await other.alerts.lead_on(), await other.look(at + 1)]
        assert True is await other.look(43)  # another one leads 12 seconds after its last word
        assert False is await one.alerts.lead_on()


async def test_nobody_else_leads_while_a_message_is_on_its_way(database: Database) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        one, other = Watch(database, sink, "a"), Watch(database, sink, "b")
        await fill(database, ["unsure"] * 10)
        deliver, seen = one.alerts._deliver, []

        async def slow(*given: Any) -> None:
            seen.append(await other.look(60))
            await deliver(*given)

        one.alerts._deliver = slow  # type: ignore[method-assign]
        assert True is await one.look(0)
    assert ([False], [("unsure", "firing")]) == (seen, events(sink))


async def test_a_restart_does_not_ring_again(database: Database) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        before = Watch(database, sink, "a")
        await fill(database, ["unsure"] * 10)
        await before.look(0)
        before.alerts.start()
        await before.alerts.stop()  # and leaves the lead
        after = Watch(database, sink, "c")
        assert True is await after.look(5)
    assert ([("unsure", "firing")], {"firing": ["unsure"]}) == (events(sink), after.alerts.state)


async def test_those_that_look_at_once_ring_once_and_log_it_once(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        watches = [Watch(database, sink, name) for name in "abcd"]
        await fill(database, ["unsure"] * 10)
        assert 1 == sum(await asyncio.gather(*(watch.look(0) for watch in watches)))
    assert [("unsure", "firing")] == events(sink)
    assert 1 == sum("rings above" in line for line in caplog.messages)


async def test_a_message_that_is_not_taken_is_tried_again_under_its_id_and_given_up(database: Database) -> None:
    async with ScriptedUpstream(reply({}, 500)) as sink:
        watch = Watch(database, sink)
        await fill(database, ["unsure"] * 10)
        for at in (0, 5, 10, 40):
            await watch.look(at)
        assert (2, 1) == (len(sink.calls), len({call.json["id"] for call in sink.calls}))
        assert {"firing": ["unsure"], "failed": ["ops"]} == watch.alerts.state
        assert (1, 0) == (watch.counters["alerts.failed_count"], watch.counters["alerts.sent_count"])
        sink.say(reply({}))
        await fill(database, ["pass"] * 90, NOW + 50)
        await watch.look(60)
    assert ({}, 1) == (watch.alerts.state, watch.counters["alerts.sent_count"])


async def test_a_channel_that_fails_holds_no_other_up(database: Database) -> None:
    async with ScriptedUpstream(reply({}, 500)) as bad, ScriptedUpstream(reply({})) as good:
        channels = {name: WebhookSettings(url=sink.base_url, secret="x") for name, sink in (("bad", bad), ("good", good))}
        watch = Watch(database, good, channels=channels)
        await fill(database, ["unsure"] * 10)
        for at in (0, 10):
            await watch.look(at)
    assert (2, 1) == (len(bad.calls), len(good.calls))


async def test_drift_rings_and_clears(database: Database) -> None:
    differing = ["policies"]
    async with ScriptedUpstream(reply({})) as sink:
        watch = Watch(database, sink, rules=(RuleSettings(figure="drift"),), drift=lambda: differing)
        await watch.look(0)
        differing.clear()
        await watch.look(10)
    assert [("drift", "firing"), ("drift", "cleared")] == events(sink)


async def test_a_row_of_another_version_is_begun_anew(database: Database) -> None:
    async with ScriptedUpstream(reply({})) as sink:
        watch = Watch(database, sink)
        await watch.look(0)
        async with database.transaction() as connection:
            await connection.execute(update(memory).values(content=b'{"until": "?"}'))
        await fill(database, ["unsure"] * 10)
        await watch.look(1)
    assert [("unsure", "firing")] == events(sink)


async def test_the_weekly_report_goes_once_and_not_at_the_first_look(database: Database) -> None:
    async def page(since: float, until: float) -> tuple[str, str]:
        return f"{until - since:.0f} s", "<h1>x</h1>"

    due = slot(WeeklySettings(channels=("m",)), NOW) + WEEK_S - NOW
    async with MailSink() as mails, ScriptedUpstream() as none:
        channel = EmailSettings(host="127.0.0.1", port=mails.port, security="none", sender="a@b.c", to=("d@e.f",))
        watch = Watch(database, none, channels={"m": channel}, rules=(), weekly=WeeklySettings(channels=("m",)), page=page)
        for at in (0, due - 1, due, due + 1):
            await watch.look(at)
    assert [f"{WEEK_S:.0f} s"] == [mail["Subject"] for mail in mails.mails]


async def test_a_mail_that_only_some_get_is_not_sent_to_them_again(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    async with MailSink({"RCPT b@b.c": b"451 later"}) as mails, ScriptedUpstream() as none:
        channel = EmailSettings(host="127.0.0.1", port=mails.port, security="none", sender="a@b.c", to=("a@b.c", "b@b.c"))
        watch = Watch(database, none, channels={"m": channel})
        await fill(database, ["unsure"] * 10)
        for at in (0, 10):
            await watch.look(at)
    assert (1, 1) == (len(mails.mails), watch.counters["alerts.failed_count"])
    assert "channel m: the mail server refuses 1 of 2 recipients" in caplog.text


async def test_a_message_on_its_way_is_waited_for_at_the_end_and_not_sent_by_the_next_leader(database: Database) -> None:
    go_on = asyncio.Event()
    async with ScriptedUpstream(stream([b"ok"], wait={0: go_on})) as sink, asyncio.timeout(10):
        first, second = (Watch(database, sink, name, every_s=0.05) for name in "ab")
        await first.look(0)
        await fill(database, ["unsure"] * 10)
        first.alerts.start()
        while not sink.calls:
            await asyncio.sleep(0.01)
        stopping = asyncio.create_task(first.alerts.stop())
        await asyncio.wait((stopping,), timeout=0.2)
        go_on.set()
        await stopping
        assert await second.look(1)
    assert 1 == len(sink.calls)


async def test_a_report_that_cannot_be_made_is_given_up_and_nothing_else_is_sent_again(database: Database) -> None:
    async def page(since: float, until: float) -> tuple[str, str]:
        raise KeyError("figures")

    weekly = WeeklySettings(channels=("mail",))
    due = slot(weekly, NOW) + WEEK_S - NOW
    async with ScriptedUpstream(reply({})) as sink:
        channels = {
            "ops": WebhookSettings(url=sink.base_url, secret="x"),
            "mail": EmailSettings(host="127.0.0.1", port=9, security="none", sender="a@b.c", to=("d@e.f",)),
        }
        rule = RuleSettings(figure="unsure", above=0.3, min_count=10, channels=("ops",))
        watch = Watch(database, sink, channels=channels, rules=(rule,), weekly=weekly, page=page)
        await watch.look(due - 30)
        await fill(database, ["unsure"] * 10, NOW + due - 10)
        for at in (due, due + 10, due + 20):
            await watch.look(at)
    assert ([("unsure", "firing")], {"firing": ["unsure"], "failed": ["mail"]}) == (events(sink), watch.alerts.state)


# ---- without a store ----


class Failing:
    """Takes the place of a database's transaction."""

    def __init__(self, database: Database) -> None:
        self._database, self._own = database, database.transaction
        self.away = False
        database.transaction = self  # type: ignore[assignment, method-assign]

    def __call__(self, *arguments: Any) -> Any:
        if self.away:
            raise StoreUnavailable("away")
        return self._own(*arguments)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the monotonic clock that alerts look at."""
    now = [0.0]
    monkeypatch.setattr("proxy.admin.alerts.time.monotonic", lambda: now[0])
    return lambda at: now.__setitem__(0, at)


async def test_of_a_store_that_is_away_the_process_that_led_tells_and_it_alone(database: Database, clock: Callable[[float], None]) -> None:
    rule = RuleSettings(figure="store_away_s", above=60)
    store = Failing(database)
    async with ScriptedUpstream(reply({})) as sink:
        leads, follows = (Watch(database, sink, name, rules=(rule,)) for name in "ab")
        for at, away in ((0, False), (30, True), (61, True), (90, True), (100, False), (110, False)):
            clock(at)
            store.away = away
            await leads.look(at)
            await follows.look(at)
        assert [("store_away_s", "firing"), ("store_away_s", "cleared")] == events(sink)
        assert "the store is away for 61 s" in sink.calls[0].json["text"]
