"""Records: written, read, listed, on both databases."""

import math
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete

from proxy.exchange import ContextUse, Facts, Verdict
from proxy.server.handler import new_id
from proxy.store.database import Database
from proxy.store.records import Records, time_of
from proxy.store.tables import records as table
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record


async def test_a_record_comes_back_as_it_was(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters)
    record = make_record(request_body=b'{"messages":[]}', answer_body=b"data: [DONE]\n", stream=True, completion_tokens=None)
    writer.submit(record)
    await writer.flush()
    assert await Records(database).get(record.id) == record
    assert counters == {"records.written": 1}


async def test_what_still_waits_is_found_and_looks_as_it_will_be_stored(database: Database, counters: CountingCounters) -> None:
    writer = RecordWriter(database, counters)
    records = Records(database, writer)
    record = make_record(detail={"verdicts": (Verdict("budget", "pass"),)}, request_body=b'{"api_key":"abc"}', run_id="a\0b")
    writer.submit(record)
    before = await records.get(record.id)
    await writer.flush()
    assert before == await records.get(record.id)
    assert before is not None
    assert before.request_body == b'{"api_key":"[masked]"}'


async def test_an_unknown_id_is_none(database: Database) -> None:
    assert await Records(database).get("gw_\0\ud800") is None


async def test_lists_are_newest_first_and_page_by_id(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, *(make_record(n) for n in range(5)))
    records = Records(database)
    first, more = await records.list(2)
    assert ([r.id[-1] for r in first], more) == (["4", "3"], True)
    rest, more = await records.list(3, first[-1].id)
    assert ([r.id[-1] for r in rest], more) == (["2", "1", "0"], False)
    assert await records.list(3, "gw_00000000") == ([], False)


FILTERS: list[tuple[dict[str, Any], list[int]]] = [
    ({"route": "/b"}, [2]),
    ({"run_id": "other"}, [3]),
    ({"client": "bob"}, [4]),
    ({"outcome": "block"}, [5]),
    ({"since": 1_700_000_004.0}, [5, 4]),
    ({"until": 1_700_000_003.0}, [2, 1]),
    ({"client": "alice", "since": 1_700_000_002.0, "until": 1_700_000_004.0}, [3, 2]),
]


async def test_lists_can_be_filtered(database: Database, counters: CountingCounters) -> None:
    changes: list[dict[str, object]] = [{}, {"route": "/b"}, {"run_id": "other"}, {"client": "bob"}, {"outcome": "block"}]
    await _store(database, counters, *(make_record(n, **change) for n, change in enumerate(changes, 1)))
    found = [(filters, (await Records(database).list(10, **filters))[0]) for filters, _ in FILTERS]
    assert FILTERS == [(filters, [int(r.id[-1]) for r in rows]) for filters, rows in found]


async def test_lists_carry_no_bodies(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, make_record(request_body=b"{}", answer_body=b"{}"))
    (record,), _ = await Records(database).list()
    assert (record.request_body, record.answer_body) == (None, None)


@pytest.mark.parametrize("text", ["Ünïcødé 世界 🙂", "nul\0inside", "lone \ud800 surrogate", "line\nbreak\ttab", "x" * 100_000])
async def test_any_text_can_be_recorded_and_found_again(database: Database, counters: CountingCounters, text: str) -> None:
    await _store(database, counters, make_record(model=text, run_id=text, step_id=text, detail={"text": text, "deep": [{text: text}]}))
    found, _ = await Records(database).list(run_id=text)
    assert [r.id for r in found] == ["gw_00000001"]
    assert counters == {"records.written": 1}
    msgspec.json.encode(found[0])


async def test_text_that_both_databases_take_is_kept_exactly(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, make_record(model="Ünïcødé 世界 🙂\n", detail={"text": "a\0b 世界"}))
    record = await Records(database).get("gw_00000001")
    assert record is not None
    assert (record.model, record.detail) == ("Ünïcødé 世界 🙂\n", {"text": "a\0b 世界"})


async def test_a_detail_may_hold_the_exchanges_own_types(database: Database, counters: CountingCounters) -> None:
    facts = Facts(context=ContextUse(10, None, True, {"current_query": 10}), citations=(1, 2))
    await _store(database, counters, make_record(detail={"facts": facts, "odd": {1: object}, "nan": float("nan")}))
    record = await Records(database).get("gw_00000001")
    assert record is not None
    assert record.detail["facts"] == msgspec.json.decode(msgspec.json.encode(facts))
    assert record.detail["nan"] is None


async def test_a_detail_that_is_no_json_does_not_lose_the_record(database: Database, counters: CountingCounters) -> None:
    endless: list[object] = []
    endless.append(endless)
    await _store(database, counters, make_record(detail={"endless": endless}))
    assert await Records(database).get("gw_00000001") is not None


async def test_secrets_reach_the_disk_nowhere(database: Database, counters: CountingCounters) -> None:
    key = "sk-proj-abcDEF1234567890abcDEF"
    error = {"message": f"Incorrect API key provided: {key}."}
    await _store(
        database, counters, make_record(detail={"error": error}, request_body=f'{{"k":"{key}"}}'.encode(), answer_body=key.encode())
    )
    assert key not in repr(await Records(database).get("gw_00000001"))


async def test_numbers_no_database_takes_cost_only_themselves(database: Database, counters: CountingCounters) -> None:
    await _store(database, counters, make_record(1, prompt_tokens=10**30), make_record(2))
    found, _ = await Records(database).list()
    assert [(r.id[-1], r.prompt_tokens) for r in found] == [("2", 80), ("1", None)]
    assert counters == {"records.written": 2, "records.write_errors": 1}


async def _store(database: Database, counters: CountingCounters, *records: object) -> None:
    writer = RecordWriter(database, counters)
    for record in records:
        writer.submit(record)  # type: ignore[arg-type]
    await writer.flush()


async def test_what_goes_on_is_listed_only_where_it_is_asked_for(database: Database) -> None:
    writer = RecordWriter(database, CountingCounters())
    writer.start()
    begun = writer.begin(make_record(1, outcome="pending", status=0))
    assert begun is not None
    await begun.wait()
    writer.submit(make_record(2))
    await writer.flush()
    records = Records(database)
    assert ["gw_00000002"] == [one.id for one in (await records.list(10))[0]] == await records.ids(0.0, 10)
    assert ["gw_00000001"] == [one.id for one in (await records.list(10, outcome="pending"))[0]]
    writer.submit(make_record(1, outcome="warn"))
    await writer.stop()
    assert [("gw_00000002", "pass"), ("gw_00000001", "warn")] == [(one.id, one.outcome) for one in (await records.list(10))[0]]


async def test_a_list_goes_on_by_the_time_in_an_id_whose_record_is_gone(database: Database) -> None:
    """So that an index can begin there."""
    times = [1_700_000_000.25, 1_700_000_000.25, 1_700_000_001.0, 1_700_000_002.0, 1_700_000_003.0]
    ids = sorted(new_id(at) for at in times)
    writer = RecordWriter(database, CountingCounters())
    for at, name in zip(times, ids, strict=True):
        writer.submit(make_record(1, id=name, created_at=at))
    await writer.flush()
    async with database.writing() as connection:
        await connection.execute(delete(table).where(table.c.id == ids[3]))
    records = Records(database)
    found = [[one.id for one in (await records.list(10, after))[0]] for after in (ids[4], ids[3], ids[1], "gw_zz", "other")]
    left = [ids[4], *ids[2::-1]]
    assert [left[1:], left[1:], ids[:1], left, left] == found
    assert all(0.0 <= time_of(name) - at < 0.01 for name, at in zip(ids, times, strict=True))
    assert math.inf == time_of("gw_1") == time_of(f"gw_{'z' * 30}")
