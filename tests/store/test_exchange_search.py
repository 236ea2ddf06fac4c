"""Looking for exchanges: by what a list shows, by words, in steps, on both databases."""

from typing import Any

import pytest
from sqlalchemy import text

from proxy.errors import InvalidRequest
from proxy.store.database import Database
from proxy.store.exchange_search import _FEW_ONLY, ExchangeFilters, ExchangeSearch, _conditions, cursor_of, place_of, words_of
from proxy.store.records import NOTHING
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record

NOW = 1_700_000_000.0


async def _store(database: Database, counters: CountingCounters, *changes: dict[str, Any]) -> None:
    """Exchanges 1, 2, …, each with its changes."""
    writer = RecordWriter(database, counters)
    for number, change in enumerate(changes, 1):
        writer.submit(make_record(number, **({"created_at": NOW + number} | change)))
    await writer.flush()


async def _found(database: Database, limit: int = 10, **wanted: Any) -> list[int]:
    page = await ExchangeSearch(database).page(ExchangeFilters(**wanted), limit)
    return [int(row.id[-1]) for row in page.rows]


WANTED: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [6, 5, 4, 3, 2, 1]),
    ({"route": "/b"}, [1]),
    ({"run": "other"}, [2]),
    ({"client": "bob", "model": "m2"}, [3]),
    ({"outcome": "problem"}, [5, 4]),
    ({"outcome": "block"}, [4]),
    ({"outcome": "caught"}, [4]),
    ({"outcome": "failed"}, []),
    ({"reasons": ["hallucination_detected", "other"]}, [4]),
    ({"status": "502"}, [5]),
    ({"status": "4xx"}, [4]),
    ({"outcome": "would"}, [6]),
    ({"min_tokens": 5000}, [3]),
    ({"min_usd": 0.5}, [2]),
    ({"min_ms": 9000}, [5]),
    ({"since": NOW + 2, "until": NOW + 4}, [3, 2]),
    ({"run": "other", "min_usd": 0.9}, []),
]


async def test_exchanges_are_found_by_what_a_list_shows(database: Database, counters: CountingCounters) -> None:
    await _store(
        database,
        counters,
        {"route": "/b", "would": NOTHING},
        {"run_id": "other", "cost_usd": 0.75},
        {"client": "bob", "model": "m2", "prompt_tokens": 4990, "completion_tokens": 10},
        {"outcome": "block", "status": 400, "reason": "hallucination_detected"},
        {"status": 502, "duration_ms": 9000.0},
        {"would": "block"},
    )
    assert WANTED == [(wanted, await _found(database, **wanted)) for wanted, _ in WANTED]


async def test_a_page_goes_on_where_the_one_before_ended_also_within_a_moment(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, *({"created_at": NOW} for _ in range(5)))
    search, after, found = ExchangeSearch(database), "", list[list[int]]()
    while len(found) < 4:
        page = await search.page(ExchangeFilters(), 2, after)
        found.append([int(row.id[-1]) for row in page.rows])
        if not (after := page.next):
            break
    assert [[5, 4], [3, 2], [1]] == found


async def test_a_cursor_holds_though_its_exchange_is_gone(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, {}, {}, {})
    page = await ExchangeSearch(database).page(ExchangeFilters(), 10, cursor_of((NOW + 2.5, "gone")))
    assert [2, 1] == [int(row.id[-1]) for row in page.rows]


async def test_a_search_whose_time_is_up_says_how_far_it_has_looked_and_goes_on(
    database: Database, counters: CountingCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.store.exchange_search._FIRST_WINDOW", 2)
    await _store(database, counters, {"model": "rare"}, {}, {}, {})
    search = ExchangeSearch(database, look_s=-1.0)
    first = await search.page(ExchangeFilters(model="rare"), 10)
    second = await search.page(ExchangeFilters(model="rare"), 10, first.next)
    assert ([], NOW + 3) == (first.rows, first.looked_back_to)
    assert [1] == [int(row.id[-1]) for row in second.rows]


async def test_words_are_looked_for_in_what_was_asked_and_answered(database: Database, counters: CountingCounters) -> None:
    await _store(
        database,
        counters,
        {"request_body": '{"messages":[{"content":"Wie hoch ist der KÖLNER Dom?"}]}'.encode(), "answer_body": b'{"text":"157 metres"}'},
        {"request_body": b'{"messages":[{"content":"the dom of Cologne"}]}'},
        {},
    )
    asked = ("kölner dom", "dom", '"of cologne"', '"cologne of"', "kölner 157", 'zebra"')
    assert [[1], [2, 1], [2], [], [1], []] == [await _found(database, text=one) for one in asked]


def _detail(faithfulness: float | None, **claims: int) -> dict[str, Any]:
    verdicts = [{"stage": "claims", "outcome": "warn" if claims.get("contradicted") else "pass"}]
    return {"facts": {"faithfulness": faithfulness, "claims": claims}, "verdicts": verdicts}


async def test_exchanges_are_found_by_policy_upstream_stage_label_and_faithfulness(database: Database, counters: CountingCounters) -> None:
    wanted: list[tuple[dict[str, Any], list[int]]] = [
        ({"policy": "rag"}, [2, 1]),
        ({"policy": "rag@b"}, [2]),
        ({"policy": "ra"}, []),
        ({"upstream": "other"}, [4]),
        ({"stage": "claims"}, [3]),
        ({"stage": "citations"}, []),
        ({"label": "contradicted"}, [3]),
        ({"label": "supported"}, [4, 3]),
        ({"max_faithfulness": 0.5}, [3]),
        ({"outcome": "undecided"}, [2, 1]),
        ({"outcome": "caught", "without_warnings": ["context_usage_high"]}, [5]),
        ({"outcome": "problem", "without_warnings": ["context_usage_high"]}, [5]),
        ({"outcome": "warn", "reasons": ["context_usage_high"]}, [3]),
        ({"upstream": "other", "label": "supported", "min_ms": 1.0}, [4]),
    ]
    await _store(
        database,
        counters,
        {"policy": "rag@a", "outcome": "unsure"},
        {"policy": "rag@b", "outcome": "unchecked"},
        {"policy": "ragged", "detail": _detail(0.25, supported=1, contradicted=3), "outcome": "warn", "reason": "context_usage_high"},
        {"policy": "strict", "upstream": "other", "detail": _detail(1.0, supported=4, contradicted=0), "duration_ms": 5.0},
        {"policy": "closed", "outcome": "block", "reason": "context_usage_high"},
    )
    assert wanted == [(one, await _found(database, **one)) for one, _ in wanted]


async def test_the_least_faithful_of_the_newest_come_first_and_the_page_says_of_how_many(
    database: Database, counters: CountingCounters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.store.exchange_search.SORTED", 4)
    scores = (0.0, 0.9, 0.1, None, 0.5)
    await _store(database, counters, *({"detail": _detail(score)} for score in scores))
    page = await ExchangeSearch(database).least_faithful(ExchangeFilters(), 2)
    assert ([3, 5], 3, NOW + 2, "") == ([int(row.id[-1]) for row in page.rows], page.sorted_of, page.looked_back_to, page.next)


@pytest.mark.parametrize("wanted", [wanted for wanted, _ in WANTED if "run" not in wanted], ids=str)
async def test_a_list_reads_the_index_alone(database: Database, wanted: dict[str, Any]) -> None:
    if not database.is_sqlite:
        pytest.skip("how PostgreSQL goes about it depends on how much there is")
    search = ExchangeSearch(database)
    filters = ExchangeFilters(**wanted)
    query = search._places(filters, _conditions(filters, database.is_sqlite), (NOW, "x"), (NOW - 9, "a"))
    async with database.transaction() as connection:
        sql = str(query.compile(connection.engine.sync_engine, compile_kwargs={"literal_binds": True}))
        plan = [row[-1] for row in (await connection.execute(text(f"EXPLAIN QUERY PLAN {sql}"))).all()]
    own = "INDEX records_would" if wanted.get("outcome") == "would" else "COVERING INDEX records_line"
    assert (1, True) == (len(plan), f"USING {own}" in plan[0]), plan


@pytest.mark.parametrize("wanted", [wanted for wanted, _ in WANTED if {"run", "since"}.isdisjoint(wanted) and wanted], ids=str)
async def test_postgres_knows_of_each_megabyte_what_may_be_in_it(database: Database, wanted: dict[str, Any]) -> None:
    """By its own plan: no row is read that the index says cannot be meant, and none along the line until enough is found."""
    if database.is_sqlite:
        pytest.skip("SQLite has no such index: its windows are looked through")
    search, filters = ExchangeSearch(database), ExchangeFilters(**wanted)
    query = search._looked_at(filters, None).where(*_conditions(filters, False)).order_by(None)
    async with database.transaction() as connection:
        await connection.execute(_FEW_ONLY)
        await connection.execute(
            text("DROP INDEX records_line, records_troubled, records_of_client, records_to_review")
        )  # as good for an empty table
        sql = str(query.compile(connection.engine.sync_engine, compile_kwargs={"literal_binds": True}))
        plan = str((await connection.execute(text(f"EXPLAIN {sql}".replace(":", "\\:")))).all())
        await connection.rollback()
    own = {"would": "records_would"}.get(str(wanted.get("outcome")), "records_ranges")
    assert ["Bitmap Heap Scan", own] == [name for name in ("Bitmap Heap Scan", own) if name in plan], plan


@pytest.mark.parametrize("gives_up", [False, True], ids=["few", "takes too long"])
async def test_what_is_rare_is_asked_for_once_and_paged_as_all_else(
    database: Database, counters: CountingCounters, monkeypatch: pytest.MonkeyPatch, gives_up: bool
) -> None:
    """What takes PostgreSQL too long is looked for in windows, as on SQLite; the store is none that is away for it."""
    monkeypatch.setattr("proxy.store.exchange_search._FIRST_WINDOW", 2)
    if gives_up:
        slow = text("SELECT set_config('statement_timeout', '1ms', true), pg_sleep(0.2)")
        monkeypatch.setattr("proxy.store.exchange_search._FEW_ONLY", slow)
    rare = {"model": "rare"}
    await _store(database, counters, rare, {}, rare, {}, {}, rare, {}, {})
    search, found, after = ExchangeSearch(database, look_s=60.0), list[int](), ""
    while True:
        page = await search.page(ExchangeFilters(model="rare"), 2, after)
        found += [int(row.id[-1]) for row in page.rows]
        assert page.looked_back_to is None
        if not (after := page.next):
            break
    assert [6, 3, 1] == found
    assert database.available


def test_words_are_cut_as_json_writes_them() -> None:
    assert ["a", "b c", "strasse", "\\\\"] == words_of('A "b C" Straße \\')


@pytest.mark.parametrize("cursor", ["gw_1", "~", "now~gw_1"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        place_of(cursor)
