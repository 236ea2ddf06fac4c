"""Figures over time, on both databases."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.exchange import Facts
from proxy.ports.panels import Bucket, RecordedVerdict, StagePanel
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.stages.claims.reporting import QualityPanel
from proxy.stages.compression.stage import CompressionPanel
from proxy.stages.history import HistoryPanel
from proxy.stages.poisoning.report import PoisoningPanel
from proxy.stages.tool_rag.panel import ToolRagPanel
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.figures import MAX_BUCKETS, DatabaseFigures, total
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.record_sums import MOST_WRONG, percentile
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record

PANELS = (CompressionPanel, HistoryPanel, PoisoningPanel, QualityPanel, ToolRagPanel)
HOUR = 3600
START = 1_700_002_800.0  # a whole hour


async def store(database: Database, *records: Any) -> None:
    writer = RecordWriter(database, CountingCounters())
    for record in records:
        writer.submit(record)
    await writer.flush()


def figures(database: Database, **options: Any) -> DatabaseFigures:
    return DatabaseFigures(database, PANELS, **options)


def record(number: int, at: float, detail: dict[str, Any] | None = None, **changes: Any) -> Any:
    return make_record(number, created_at=at, detail=detail or {}, **changes)


async def test_a_store_without_records_has_empty_buckets(database: Database) -> None:
    found = await figures(database).between(START, START + 3 * HOUR, HOUR)
    assert [Bucket(start=START + i * HOUR, seconds=HOUR) for i in range(3)] == found


async def test_columns_are_added_up_by_hour_and_verdict(database: Database) -> None:
    await store(
        database,
        record(1, START, prompt_tokens=60, completion_tokens=7, duration_ms=10.0),
        record(2, START + 3599.9, outcome="block", status=502, prompt_tokens=40, completion_tokens=None),
        record(3, START + 3600.0, outcome="warn"),
        record(4, START + 2 * HOUR),  # not any more
    )
    first, second = await figures(database).between(START, START + 2 * HOUR, HOUR)
    assert (2, {"pass": 1, "block": 1}, 1) == (first.exchanges, first.verdicts, first.errors)
    assert (100, 7) == (first.prompt_tokens, first.completion_tokens)
    assert (22.5, 2) == (first.duration_ms, first.details)
    assert (1, {"warn": 1}) == (second.exchanges, second.verdicts)


async def test_what_stages_left_out_is_by_the_own_count_before_and_after_and_by_model(database: Database) -> None:
    def counted(before: int, after: int) -> dict[str, Any]:
        return {"facts": {"context_before": {"used_tokens": before}, "context": {"used_tokens": after}}}

    await store(
        database,
        record(1, START, detail=counted(100, 60), prompt_tokens=75),
        record(2, START + 1, detail=counted(100, 110), model="b"),
        record(3, START + 2, detail=counted(100, 100), model="c", prompt_tokens=200),
        record(4, START + 3),
        record(5, START + 4, detail=counted(9000, 9000), outcome="block", prompt_tokens=None),
    )
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert (300, 270, {"openai/gpt-4o-mini": 40, "openai/b": -10}) == (found.tokens_before, found.tokens_after, found.saved_tokens)


async def test_costs_statuses_and_what_shadow_mode_held_back_are_added_up(database: Database) -> None:
    await store(
        database,
        record(1, START, cost_usd=0.25, would="nothing"),
        record(2, START + 1, cost_usd=0.5, status=502, would="block"),
        record(3, START + 2, status=400),
        record(4, START + 3, status=400, outcome="block"),
    )
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert (0.75, 2, {"502": 1, "400": 1}) == (found.cost_usd, found.priced, found.statuses)
    assert {"nothing": 1, "block": 1} == found.would


async def test_percentiles_are_right_to_within_a_fortieth_of_the_providers_and_of_the_own_time(database: Database) -> None:
    made = [record(i, START + i, duration_ms=1000.0 + i + (i + 1) / 10, overhead_ms=(i + 1) / 10) for i in range(100)]
    await store(database, *made, record(100, START + 200, duration_ms=9e9))
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    wanted = [1050.0, 1095.0, 5.0, 9.5]
    got = [percentile(counts, share) or 0.0 for counts in (found.provider_ms, found.own_ms) for share in (0.5, 0.95)]
    assert [] == [(value, right) for value, right in zip(got, wanted, strict=True) if abs(value - right) > MOST_WRONG * right]


async def test_what_has_no_column_comes_from_the_details(database: Database) -> None:
    facts = {
        "context": {"used_tokens": 850, "window_tokens": 1000, "exact": True, "components": {}},
        "compression": {"strategies": ["trim"], "before_tokens": 900, "after_tokens": 300, "reason": ""},
        "tools": {"offered": 45, "kept": 4, "reason": ""},
        "quality": 0.5,
        "faithfulness": 1.0,
    }
    verdicts = [
        {
            "stage": "history",
            "outcome": "warn",
            "code": "DISTRACTION",
            "detail": {"severity": "HIGH", "recommended_action": "sliding_window"},
        },
        {
            "stage": "tool_rag",
            "outcome": "pass",
            "code": "CONFUSION",
            "detail": {
                "confusion": {"tools": 45, "description_tokens": 3000, "risk": "high"},
                "kept": {"tools": 4, "description_tokens": 300},
            },
        },
        {"stage": "poisoning", "outcome": "warn", "code": "poisoned_context", "score": 0.9, "detail": {"pieces": 9, "checked": 4}},
        {"stage": "claims", "outcome": "warn", "code": "claims_unsupported", "detail": {"kept": 3}},
        {"stage": "claims", "outcome": "warn", "code": "claims_unsupported"},
    ]
    await store(database, record(1, START, {"facts": facts, "verdicts": verdicts}), record(2, START + 1, {"facts": {"quality": 1.0}}))
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert {"DISTRACTION": 1, "poisoned_context": 1, "claims_unsupported": 1} == found.warnings
    assert {"70": 1, "80": 1} == found.thresholds
    assert CompressionPanel(1, 900, 300) == found.of(CompressionPanel)
    assert ToolRagPanel(1, 45, 4, 3000, 300) == found.of(ToolRagPanel)
    assert HistoryPanel({"HIGH": 1}, {"sliding_window": 1}) == found.of(HistoryPanel)
    assert PoisoningPanel(4) == found.of(PoisoningPanel)
    assert (0.75, 1.0, 0.9) == (found.of(QualityPanel).mean, found.of(QualityPanel).mean_faithfulness, found.of(ToolRagPanel).saved)


def test_means_of_nothing_are_none() -> None:
    assert (None, None, None) == (QualityPanel().mean, QualityPanel().mean_faithfulness, ToolRagPanel().saved)


class Broken(StagePanel):
    """A panel of somebody's own, with a mistake."""

    name = "broken"
    title = "Broken"

    def add(self, facts: Facts, verdicts: Sequence[RecordedVerdict]) -> None:
        raise RuntimeError("a mistake")


async def test_a_panel_that_fails_keeps_the_others_from_nothing(database: Database) -> None:
    await store(database, record(1, START, {"facts": {"quality": 1.0}}))
    (found,) = await DatabaseFigures(database, (Broken, QualityPanel)).between(START, START + HOUR, HOUR)
    assert (1, 1, 1.0) == (found.exchanges, found.details, found.of(QualityPanel).mean)


async def test_clashes_and_pieces_stand_as_they_are_now(database: Database) -> None:
    quarantined = DatabaseQuarantine(database, clock=lambda: START + 5)
    clashed = DatabaseClashes(database, clock=lambda: START + 5)
    seen = figures(database)
    piece: dict[str, Any] = {"client": "a", "run_id": "r", "policy": "p", "hash": "h", "kind": "tool_result", "role": "tool"}
    item = await quarantined.put(QuarantineItem(**piece, type="wrong_date", reason="no", content=b"x"))
    pair: dict[str, Any] = {
        "client": "a",
        "run_id": "r",
        "policy": "p",
        "type": "CONFLICTING_FACTS",
        "topic": "t",
        "older": {},
        "newer": {},
    }
    await clashed.put(
        ClashRecord(**pair, pair_hash="1", strategy="prefer_recent", status="resolved", resolution="keep_newer", resolved_by="policy")
    )
    await clashed.put(ClashRecord(**pair, pair_hash="2", strategy="prefer_recent"))
    (before,) = await seen.between(START, START + HOUR, HOUR)
    await quarantined.decide(item.id, "approved", by="ann", reason="right")
    (after,) = await seen.between(START, START + HOUR, HOUR)
    assert ({"wrong_date": 1}, {"pending": 1}, {"approved": 1}) == (before.quarantined, before.quarantine, after.quarantine)
    assert ({"CONFLICTING_FACTS": 2}, {"prefer_recent": 1}, 1) == (after.clashes, after.clash_strategies, after.clashes_open)


async def test_the_first_bucket_begins_at_a_multiple(database: Database) -> None:
    found = await figures(database).between(START + 10, START + HOUR + 10, HOUR)
    assert [START, START + HOUR] == [bucket.start for bucket in found]


async def test_only_so_many_details_are_read_and_the_newest_first(database: Database) -> None:
    await store(database, *(record(n, START + n * 600, {"facts": {"quality": 1.0}}) for n in range(12)))
    found = await figures(database, max_details=7).between(START, START + 2 * HOUR, HOUR)
    assert [(6, 1), (6, 6)] == [(bucket.exchanges, bucket.details) for bucket in found]


async def test_many_exchanges_are_read_in_parts(database: Database) -> None:
    await store(database, *(record(n, START + n * 600, {"facts": {"quality": 1.0}}) for n in range(36)))
    whole = await figures(database).between(START, START + 6 * HOUR, HOUR)
    parts = figures(database, at_once=7, max_details=20)
    found = await parts.between(START, START + 6 * HOUR, HOUR)
    assert [(6, 0), (6, 0), (6, 2), (6, 6), (6, 6), (6, 6)] == [(bucket.exchanges, bucket.details) for bucket in found]
    assert [bucket.verdicts for bucket in whole] == [bucket.verdicts for bucket in found]


async def test_pages_leave_out_no_record_of_the_same_time(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.store.record_sums._PAGE", 3)
    await store(database, *(record(n, START + n // 5, {"facts": {"quality": 1.0}}) for n in range(20)))
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert (20, 20) == (found.details, found.of(QualityPanel).quality_count)


async def test_a_detail_of_another_shape_is_counted_and_not_read(database: Database) -> None:
    odd: list[Any] = [{"verdicts": "?"}, {"facts": {"quality": "high"}}, {"verdicts": [{"stage": "history", "detail": {"severity": 3}}]}]
    await store(database, *(record(n, START, detail) for n, detail in enumerate(odd)))
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert (3, 3, 0) == (found.exchanges, found.details, found.of(QualityPanel).quality_count)


async def test_codes_are_bounded(database: Database) -> None:
    verdicts = [{"stage": "upstream", "outcome": "warn", "code": f"upstream_{n}"} for n in range(150)]
    await store(database, record(1, START, {"verdicts": verdicts}))
    (found,) = await figures(database).between(START, START + HOUR, HOUR)
    assert (101, 50) == (len(found.warnings), found.warnings["other"])


@pytest.mark.parametrize(
    ("since", "until", "bucket_s"),
    [(START, START + MAX_BUCKETS + 1, 1), (START, START + 1, 0), (float("nan"), START, 60), (0.0, float("inf"), 60)],
)
async def test_what_cannot_be_is_refused(since: float, until: float, bucket_s: int) -> None:
    with pytest.raises(ValueError, match=r"at most 1000|expected"):
        await figures(Database("sqlite://")).between(since, until, bucket_s)


async def test_several_callers_at_once_get_the_same(database: Database) -> None:
    await store(database, *(record(n, START + n) for n in range(50)))
    seen = figures(database)
    found = await asyncio.gather(*(seen.between(START, START + 2 * HOUR, HOUR) for _ in range(5)))
    assert [[50, 0]] * 5 == [[bucket.exchanges for bucket in buckets] for buckets in found]


def test_a_total_adds_up_and_leaves_its_parts_alone() -> None:
    def bucket(start: float, quality: QualityPanel, **figures: Any) -> Bucket:
        return Bucket(start=start, seconds=HOUR, panels={"quality": quality}, **figures)

    one = bucket(START, QualityPanel(2, 1.5), exchanges=2, verdicts={"pass": 2})
    other = bucket(START + HOUR, QualityPanel(1, 0.5), exchanges=1, verdicts={"warn": 1, "pass": 0})
    both = total([one, other])
    assert both is not None
    assert bucket(START, QualityPanel(3, 2.0), exchanges=3, verdicts={"pass": 2, "warn": 1}) == replace(both, seconds=HOUR)
    assert (2 * HOUR, {"pass": 2}, QualityPanel(2, 1.5)) == (both.seconds, one.verdicts, one.of(QualityPanel))
    assert total([]) is None


@pytest.mark.parametrize("name", ["troubled_runs", "held_back"])
async def test_a_months_report_names_the_few_without_looking_through_all(
    database: Database, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """By the database's own plan."""
    asked: list[Any] = []

    async def noted(query: Any) -> list[Any]:
        asked.append(query)
        return []

    figures = DatabaseFigures(database)
    monkeypatch.setattr(figures, "_rows", noted)
    await getattr(figures, name)(0.0, 1e9)
    assert database._engine is not None
    query = asked[0].compile(dialect=database._engine.dialect, compile_kwargs={"literal_binds": True})
    async with database.transaction() as connection:
        if not database.is_sqlite:
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # which a table as small as this one would have
        explain = "EXPLAIN QUERY PLAN" if database.is_sqlite else "EXPLAIN"
        plan = str((await connection.exec_driver_sql(f"{explain} {query}")).all())
    assert {"troubled_runs": "records_troubled", "held_back": "records_would"}[name] in plan, plan
