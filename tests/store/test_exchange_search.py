"""Looking for exchanges: by what a list shows, by words, in steps, on both databases."""

from typing import Any

import pytest
from sqlalchemy import text

from proxy.errors import InvalidRequest
from proxy.store.database import Database
from proxy.store.exchange_search import ExchangeFilters, ExchangeSearch, _conditions, cursor_of, place_of, words_of
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


@pytest.mark.parametrize("wanted", [wanted for wanted, _ in WANTED if "run" not in wanted], ids=str)
async def test_a_list_reads_the_index_alone(database: Database, wanted: dict[str, Any]) -> None:
    if not database.is_sqlite:
        pytest.skip("how PostgreSQL goes about it depends on how much there is")
    search = ExchangeSearch(database)
    filters = ExchangeFilters(**wanted)
    query = search._places(filters, _conditions(filters), (NOW, "x"), (NOW - 9, "a"))
    async with database.transaction() as connection:
        sql = str(query.compile(connection.engine.sync_engine, compile_kwargs={"literal_binds": True}))
        plan = [row[-1] for row in (await connection.execute(text(f"EXPLAIN QUERY PLAN {sql}"))).all()]
    assert (1, True) == (len(plan), "USING COVERING INDEX records_line" in plan[0])


def test_words_are_cut_as_json_writes_them() -> None:
    assert ["a", "b c", "strasse", "\\\\"] == words_of('A "b C" Straße \\')


@pytest.mark.parametrize("cursor", ["gw_1", "~", "now~gw_1"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequest):
        place_of(cursor)
