"""Sums that are kept: whatever happens to records, figures that come from them are those of the records."""

import asyncio
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from sqlalchemy import delete, func, select

from proxy.exchange import Facts
from proxy.ports.panels import Bucket, RecordedVerdict, StagePanel
from proxy.stages.claims.reporting import QualityPanel
from proxy.stages.history import HistoryPanel
from proxy.store.clock import StoreClock
from proxy.store.database import Database
from proxy.store.figures import DatabaseFigures, RollupBuilder, total
from proxy.store.record_sums import MOST_WRONG, percentile
from proxy.store.records import Record
from proxy.store.retention import Retention
from proxy.store.rollups import DAY_S, HOUR_S, MINUTE_S, Due, Rollups, touch
from proxy.store.tables import rollup_changes, rollup_marks, rollups
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record
from tests.stores import opened

DAY = 1_700_006_400  # midnight, UTC
NOW = DAY + 3 * DAY_S + 7000.0
PANELS = (QualityPanel, HistoryPanel)


async def store(database: Database, *made: Record) -> None:
    writer = RecordWriter(database, CountingCounters())
    for one in made:
        writer.submit(one)
    await writer.flush()


def building(database: Database, panels: Sequence[type[StagePanel]] = PANELS, now: float = NOW) -> RollupBuilder:
    return RollupBuilder(DatabaseFigures(database, panels), busy_share=1.0, clock=lambda: now)


async def numbers(database: Database, since: float, until: float, bucket_s: int) -> list[int]:
    return [bucket.exchanges for bucket in await DatabaseFigures(database, PANELS).between(since, until, bucket_s)]


async def kept(database: Database) -> dict[tuple[int, int], bool]:
    """Which rows there are, and whether they are good."""
    await Rollups(database).fold()
    query = select(rollups.c.seconds, rollups.c.start, rollups.c.built == rollups.c.version)
    async with database.transaction() as connection:
        return {(seconds, start): bool(good) for seconds, start, good in (await connection.execute(query)).all()}


async def known_from(database: Database, moment: float) -> None:
    """As a store whose every record from `moment` on was written by this release."""
    await Rollups(database).begin(moment - DAY_S)


def without_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on records cannot be read."""

    async def refused(*_: object) -> int:
        raise AssertionError("records were read")

    monkeypatch.setattr("proxy.store.record_sums.RecordSums.add", refused)


# ---- the property ----


def made(source: random.Random, number: int) -> Record:
    quality, told = source.choice((None, 0.25, 1.0)), source.random() < 0.3
    facts: dict[str, Any] = {"quality": quality, "faithfulness": quality} if quality is not None else {}
    verdict = {"stage": "history", "outcome": "warn", "code": "DISTRACTION", "detail": {"severity": source.choice(("LOW", "HIGH"))}}
    one = make_record(
        number,
        created_at=NOW - source.choice((60.0, 5000.0, 2.5 * DAY_S)) * source.random(),
        outcome=source.choice(("pass", "warn", "block", "upstream_error")),
        status=source.choice((200, 200, 400, 502)),
        would=source.choice(("", "nothing", "block")),
        duration_ms=1000.0 + 10 ** (5 * source.random()),
        overhead_ms=source.choice((None, 10 ** (3 * source.random()))),
        prompt_tokens_before=source.choice((None, 100)),
        prompt_tokens=source.choice((None, 60)),
        completion_tokens=source.randrange(9),
        cost_usd=source.choice((None, source.random())),
        detail={"facts": facts, "verdicts": [verdict] if told else []},
    )
    if one.prompt_tokens_before is not None:
        facts |= {"context_before": {"used_tokens": 100}, "context": {"used_tokens": one.prompt_tokens or 120}}
    return one


def exact(found: Sequence[Record], share: float, time: Callable[[Record], float]) -> float | None:
    """A percentile, from the values themselves."""
    ordered = sorted(time(one) for one in found if one.overhead_ms is not None)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def wanted(there: Sequence[Record], since: float, until: float) -> dict[str, Any]:
    """Every figure of these records, counted the plain way."""
    found = [one for one in there if since <= one.created_at < until]
    verdicts = [verdict for one in found for verdict in one.detail["verdicts"]]
    contexts = [
        (facts["context_before"]["used_tokens"], facts["context"]["used_tokens"])
        for one in found
        if "context" in (facts := one.detail["facts"]) and one.prompt_tokens is not None
    ]
    qualities = [one.detail["facts"]["quality"] for one in found if "quality" in one.detail["facts"]]
    return {
        "exchanges": len(found),
        "details": len(found),
        "verdicts": dict(Counter(one.outcome for one in found)),
        "statuses": dict(Counter(str(one.status) for one in found if one.status >= 400 and one.outcome != "block")),
        "errors": sum(one.status >= 500 for one in found),
        "would": dict(Counter(one.would for one in found if one.would)),
        "cost_usd": pytest.approx(sum(one.cost_usd or 0.0 for one in found)),
        "priced": sum(one.cost_usd is not None for one in found),
        "duration_ms": pytest.approx(sum(one.duration_ms for one in found)),
        "prompt_tokens": sum(one.prompt_tokens or 0 for one in found),
        "completion_tokens": sum(one.completion_tokens or 0 for one in found),
        "judged": dict(Counter(one.outcome for one in found if "faithfulness" in one.detail["facts"])),
        "tokens_before": sum(before for before, _ in contexts),
        "tokens_after": sum(after for _, after in contexts),
        "saved_tokens": {"openai/gpt-4o-mini": sum(before - after for before, after in contexts)}
        if any(b != a for b, a in contexts)
        else {},
        "warnings": dict(Counter(verdict["code"] for verdict in verdicts)),
        "severities": dict(Counter(verdict["detail"]["severity"] for verdict in verdicts)),
        "quality": (len(qualities), pytest.approx(sum(qualities))),
        "times": [
            value if value is None else pytest.approx(value, rel=MOST_WRONG)
            for time in (lambda one: one.duration_ms - one.overhead_ms, lambda one: one.overhead_ms)
            for share in (0.5, 0.95)
            for value in [exact(found, share, time)]
        ],
    }


def shown(bucket: Bucket) -> dict[str, Any]:
    """The same of a bucket."""
    quality = bucket.of(QualityPanel)
    return {name: getattr(bucket, name) for name in wanted([], 0, 0) if hasattr(bucket, name)} | {
        "severities": bucket.of(HistoryPanel).distractions,
        "quality": (quality.quality_count, quality.quality_sum),
        "times": [percentile(counts, share) for counts in (bucket.provider_ms, bucket.own_ms) for share in (0.5, 0.95)],
    }


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (0, 2, 3))])
async def test_every_figure_of_any_time_is_that_of_the_records(database: Database, seed: int) -> None:
    source = random.Random(seed)
    builder, there, number = building(database), list[Record](), 0
    await known_from(database, source.choice((0.0, NOW - 1.2 * DAY_S, NOW + DAY_S)))
    for _ in range(8):
        match source.choice(("write", "write", "write again", "build", "delete")):
            case "write":
                fresh = [made(source, number + i) for i in range(source.randrange(1, 60))]
                number += len(fresh)
                there += fresh
                await store(database, *fresh)
            case "write again":
                await store(database, *there[-5:])
            case "build":
                await builder.run_once()
            case "delete":
                cutoff = NOW - source.random() * 2.5 * DAY_S
                await Retention(database, days=1.0, clock=lambda cutoff=cutoff: cutoff + DAY_S).run_once()
                there = [one for one in there if one.created_at >= cutoff]
        since = NOW - source.choice((90.0, 7000.0, 2.6 * DAY_S)) * source.random()
        until = source.choice((NOW, since + (NOW - since) * source.random()))
        bucket_s = source.choice([s for s in (7, 60, 900, HOUR_S, 6 * HOUR_S, DAY_S) if (until - since) / s < 500])
        found = await DatabaseFigures(database, PANELS).between(since, until, bucket_s)
        ends = [*(bucket.start for bucket in found[1:]), until]
        assert [wanted(there, bucket.start, end) for bucket, end in zip(found, ends, strict=True)] == list(map(shown, found))
        whole = total(found)
        if whole is not None:
            assert wanted(there, whole.start, until) == shown(whole)


# ---- where they come from ----


@pytest.mark.slow
async def test_a_month_comes_from_kept_days_and_no_record_is_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await known_from(database, DAY)
    await store(database, *(make_record(n, created_at=DAY + n * 4321.0) for n in range(60)))
    await building(database).run_once()
    without_records(monkeypatch)
    assert [20, 20, 20] == await numbers(database, DAY, DAY + 3 * DAY_S, DAY_S)
    assert {DAY_S: 3, HOUR_S: 60, MINUTE_S: 60} == Counter(seconds for seconds, _ in await kept(database))


async def test_a_late_record_makes_its_minute_hour_and_day_anew(database: Database) -> None:
    await known_from(database, DAY)
    await store(database, make_record(1, created_at=DAY + 10.0), make_record(2, created_at=DAY + 70.0))
    builder = building(database)
    await builder.run_once()
    await store(database, make_record(3, created_at=DAY + 20.0))
    stale = {(MINUTE_S, DAY), (HOUR_S, DAY), (DAY_S, DAY)}
    assert stale == {row for row, good in (await kept(database)).items() if not good}
    assert [3] == await numbers(database, DAY, DAY + DAY_S, DAY_S)
    await building(database, now=NOW + HOUR_S).run_once()
    assert all((await kept(database)).values())
    assert [3] == await numbers(database, DAY, DAY + DAY_S, DAY_S)


async def test_what_changes_while_it_is_added_up_is_not_stored(database: Database) -> None:
    await store(database, make_record(1, created_at=DAY + 10.0))
    figures = DatabaseFigures(database, PANELS)
    (due,) = await figures.rollups.due(MINUTE_S, NOW, 0.0, (), 9)
    bucket = await figures.sums(due.start, due.seconds)
    await store(database, make_record(2, created_at=DAY + 11.0))
    assert await figures.rollups.put(due, bucket, 0.0) is False
    assert [2] == await numbers(database, DAY, DAY + MINUTE_S, MINUTE_S)


async def test_of_two_workers_one_makes_a_row(database: Database) -> None:
    await store(database, make_record(1, created_at=DAY + 10.0))
    rows, due = Rollups(database, PANELS), Due(MINUTE_S, DAY, 1)
    await rows.fold()
    assert [False, True] == sorted(await asyncio.gather(rows.claim(due, NOW, 60.0), rows.claim(due, NOW, 60.0)))
    assert await rows.claim(due, NOW + 61.0, 60.0)  # the first has died


@pytest.mark.slow
async def test_several_workers_write_and_add_up_at_once(database: Database) -> None:
    async def writing(worker: int) -> None:
        writer = RecordWriter(database, CountingCounters(), batch_rows=5)
        for n in range(40):
            writer.submit(make_record(1000 * worker + n, created_at=DAY + 97.0 * n))
            if n % 7 == 0:
                await writer.flush()
        await writer.flush()

    await known_from(database, DAY)
    await asyncio.gather(*map(writing, range(4)), *(building(database).run_once() for _ in range(3)))
    await building(database, now=NOW + HOUR_S).run_once()
    assert all((await kept(database)).values())
    assert [160] == await numbers(database, DAY, DAY + DAY_S, DAY_S)


async def test_the_present_is_left_alone(database: Database) -> None:
    await known_from(database, DAY)
    await store(database, make_record(1, created_at=NOW - 5.0), make_record(2, created_at=NOW - 200.0))
    await building(database).run_once()
    good = {row for row, good in (await kept(database)).items() if good}
    assert {(MINUTE_S, int((NOW - 200.0) // MINUTE_S) * MINUTE_S)} == good


# ---- stores of before ----


async def old_store(database: Database, *made: Record) -> None:
    """As an earlier release has left it."""
    await store(database, *made)
    async with database.transaction() as connection:
        await connection.execute(delete(rollup_changes))
        await connection.execute(delete(rollups))
        await connection.execute(delete(rollup_marks))


@pytest.mark.slow
async def test_records_of_an_earlier_release_are_read_and_then_added_up(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "proxy.store.figures")
    days = [0, 1, 400]
    await old_store(database, *(make_record(n, created_at=DAY - days[n % 3] * DAY_S + n) for n in range(9)))
    assert [3, 3] == await numbers(database, DAY - DAY_S, DAY + DAY_S, DAY_S)
    await building(database).run_once()
    assert {DAY_S: 3, HOUR_S: 72} == Counter(seconds for seconds, _ in await kept(database))
    without_records(monkeypatch)
    assert [3, 3] == await numbers(database, DAY - DAY_S, DAY + DAY_S, DAY_S)
    assert ["75 hours and days", "added up, in"] == [
        part for part in ("75 hours and days", "added up, in") if any(part in one.message for one in caplog.records)
    ]


async def test_a_store_is_gone_through_once(database: Database) -> None:
    await old_store(database, make_record(1, created_at=DAY + 1.0))
    rows = Rollups(database)
    await rows.begin(NOW)
    assert [True, False, False] == [await rows.mark_past() for _ in range(3)]


async def test_a_store_opens_again_with_what_was_kept(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(url) as database:
        await known_from(database, DAY)
        await store(database, make_record(1, created_at=DAY + 1.0))
        await building(database).run_once()
    without_records(monkeypatch)
    async with opened(url) as database:
        assert [1, 0] == await numbers(database, DAY, DAY + 2 * DAY_S, DAY_S)


# ---- panels ----


class Counting(StagePanel):
    """One that a new stage brings."""

    name = "counting"
    title = "Counting"
    seen: int = 0

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        self.seen += 1


async def test_a_new_panel_counts_past_exchanges_too_and_the_others_stay(database: Database) -> None:
    await known_from(database, DAY)
    await store(database, *(make_record(n, created_at=DAY + n, detail={"facts": {"quality": 1.0}}) for n in range(3)))
    await building(database, (QualityPanel,)).run_once()
    both = DatabaseFigures(database, (QualityPanel, Counting))
    (before,) = await both.between(DAY, DAY + DAY_S, DAY_S)
    await building(database, (Counting,), NOW + HOUR_S).run_once()
    (after,) = await both.between(DAY, DAY + DAY_S, DAY_S)
    assert [(3, 3, 0), (3, 3, 3)] == [(one.exchanges, one.of(QualityPanel).quality_count, one.of(Counting).seen) for one in (before, after)]


@pytest.mark.slow
async def test_a_panel_that_counts_differently_is_made_anew(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await store(database, make_record(1, created_at=DAY + 1.0))
    await building(database, (Counting,)).run_once()
    monkeypatch.setattr(Counting, "add", lambda self, facts, verdicts: setattr(self, "seen", self.seen + 10))
    monkeypatch.setattr(Counting, "revision", 2)
    await building(database, (Counting,), NOW + HOUR_S).run_once()
    (found,) = await DatabaseFigures(database, (Counting,)).between(DAY, DAY + HOUR_S, HOUR_S)
    assert 10 == found.of(Counting).seen


# ---- small things ----


async def test_rows_of_times_without_records_are_forgotten_some_day(database: Database) -> None:
    await store(database, make_record(1, created_at=DAY + 5.0), make_record(2, created_at=NOW))
    await Retention(database, days=1.0, clock=lambda: NOW).run_once()
    assert {int(NOW // DAY_S) * DAY_S} == {start for seconds, start in await kept(database) if seconds == DAY_S}


async def test_nothing_is_touched_by_nothing(database: Database) -> None:
    async with database.writing() as connection:
        await touch(database, connection, ())
    assert {} == await kept(database)


async def test_the_task_makes_rows_and_ends(database: Database) -> None:
    await store(database, make_record(1, created_at=DAY + 5.0))
    builder = building(database)
    builder.start(0.0)
    async with asyncio.timeout(10):
        while not all((await kept(database)).values()):
            await asyncio.sleep(0.01)
    await builder.stop()


async def test_sums_are_made_by_the_stores_clock(database: Database) -> None:
    """A node whose own clock is a month ahead would keep all others from making them again for a month."""
    database.clock = StoreClock(lambda: NOW)
    await store(database, make_record(1, created_at=NOW - 3600.0))
    assert 1 <= await RollupBuilder(DatabaseFigures(database), busy_share=1.0).run_once()
    async with database.transaction() as connection:
        assert NOW < await connection.scalar(select(func.max(rollups.c.wait_until))) < NOW + HOUR_S
