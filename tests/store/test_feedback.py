"""What people say of findings, on both databases."""

import asyncio
from typing import Any

import pytest

from proxy.errors import Conflict
from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback, Feedback
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record, opened


def entry(number: int, **changes: Any) -> Feedback:
    fields: dict[str, Any] = {
        "record_id": f"gw_{number}",
        "client": "a",
        "policy": "p",
        "stage": "claims",
        "place": "0:0-9",
        "label": "unsupported",
        "said": "wrong",
    }
    return Feedback(**(fields | changes))


async def test_it_is_kept_and_listed_on_both_databases(database: Database) -> None:
    store = DatabaseFeedback(database, clock=lambda: 12.5)
    first, second = await store.put(entry(1, content={"text": "ä\ud800"})), await store.put(entry(2, said="right"))
    changed = await store.put(entry(1, note="anew"))
    assert (first.id, "anew", {}) == (changed.id, changed.note, changed.content)
    assert {changed.id, second.id} == {one.id for one in (await store.list())[0]}
    assert [changed] == await store.of_records(["gw_1"])


async def test_of_people_on_two_nodes_who_decide_at_once_the_first_one_holds(url: str) -> None:
    async with opened(url) as one, opened(url) as other:
        nodes = [DatabaseFeedback(one), DatabaseFeedback(other)]
        puts = [nodes[n % 2].put(entry(1, said=("right", "wrong")[n % 2], said_by=f"person {n}"), version=0) for n in range(8)]
        came = await asyncio.gather(*puts, return_exceptions=True)
        (kept,), _ = await nodes[1].list()
    refused = [str(found) for found in came if isinstance(found, Conflict)]
    assert ([kept], 7) == ([found for found in came if isinstance(found, Feedback)], len(refused))
    assert {f"{kept.said_by} has called it {kept.said} since, and that holds"} == set(refused)


async def test_the_same_word_of_the_same_person_comes_to_nothing_and_another_needs_the_version(database: Database) -> None:
    store = DatabaseFeedback(database)
    first = await store.put(entry(1, said_by="ann"), version=0)
    again = await store.put(entry(1, said_by="ann"), version=0)
    with pytest.raises(Conflict):
        await store.put(entry(1, said="right", said_by="ann"), version=first.version - 1)
    changed = await store.put(entry(1, said="right", said_by="ann"), version=first.version)
    assert (first, "right") == (again, changed.said)
    assert changed.version > first.version


async def test_a_word_is_taken_back_only_as_long_as_it_is_the_last_one(database: Database) -> None:
    store = DatabaseFeedback(database)
    first = await store.put(entry(1, said_by="ann"))
    second = await store.put(entry(1, said="right", said_by="bob"))
    with pytest.raises(Conflict, match="bob has called it right"):
        await store.take_back(first.id, first.version)
    assert (second, None) == (await store.take_back(first.id, second.version), await store.take_back(first.id, second.version))
    assert [] == (await store.list())[0]


async def test_exchanges_wait_until_all_of_their_findings_are_decided(database: Database) -> None:
    writer, store = RecordWriter(database, CountingCounters()), DatabaseFeedback(database)
    outcomes = ("pass", "warn", "block", "unsure", "unchecked", "error")
    ids = [record.id for number, outcome in enumerate(outcomes) if writer.submit(record := make_record(number, outcome=outcome)) is None]
    await writer.flush()

    async def waiting(limit: int = 10, after: str | None = None) -> tuple[list[str], bool]:
        rows, more = await store.records_to_review(limit, after)
        return [row["id"] for row in rows], more

    assert ([ids[5], ids[3], ids[2], ids[1]], False) == await waiting()
    assert ([ids[2]], True) == await waiting(1, ids[3])
    for place in ("0:0-9", "0:10-19"):
        await store.put(entry(0, record_id=ids[3], place=place, record_findings=2))
        await store.put(entry(0, record_id=ids[2], place=place, record_findings=3))
        await store.put(entry(0, record_id=ids[1], place=place, record_findings=0, label="supported"))  # nobody was asked
    assert ([ids[5], ids[2], ids[1]], False) == await waiting()


async def test_what_waits_is_found_by_an_index_of_flagged_exchanges(url: str) -> None:
    """Whatever the number of others."""
    if not url.startswith("sqlite"):
        pytest.skip("PostgreSQL's plan depends on how many rows there are")
    async with opened(url) as database, database.transaction() as connection:
        query = "EXPLAIN QUERY PLAN SELECT id FROM records WHERE (outcome IN ('unsure', 'warn', 'block', 'error')) ORDER BY created_at DESC, id DESC"
        plan = str((await connection.exec_driver_sql(query)).all())
    assert "records_to_review" in plan


async def test_precision_is_of_flags_and_not_of_what_was_left_undecided(database: Database) -> None:
    store = DatabaseFeedback(database)
    for number, (stage, label, said) in enumerate(
        [
            ("claims", "contradicted", "right"),
            ("claims", "unsupported", "wrong"),
            ("claims", "unsure", "wrong"),
            ("schema", "block", "right"),
        ]
    ):
        await store.put(entry(number, stage=stage, label=label, said=said))
    assert {"claims": (1, 2), "schema": (1, 1)} == await store.by_stage()
