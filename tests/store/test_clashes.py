"""Clashes, on both databases."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proxy.errors import StoreUnavailable
from proxy.ports import ClashRecord
from proxy.store.clashes import DatabaseClashes, record_id
from proxy.store.database import Database
from tests.store.conftest import opened

ALICE = {"client": "alice", "run_id": "r", "policy": "agent"}


def made(pair: str = "p1", **changes: Any) -> ClashRecord:
    fields: dict[str, Any] = {
        **ALICE,
        "pair_hash": pair,
        "type": "CONTRADICTORY_PREFERENCES",
        "topic": "budget",
        "strategy": "ask_user",
        "reason": "cheap or luxury",
        "older": {"hash": "a", "message": 1, "start": 0, "end": 20, "text": "I want a cheap hotel"},
        "newer": {"hash": "b", "message": 5, "start": 4, "end": 24, "text": "nul \0 lone \ud800 世界"},
        "options": ("cheap", "luxury", "flexible"),
        "record_id": "gw_1",
        "detail": {"question": "Which one?"},
        "critical": True,
    }
    return ClashRecord(**{**fields, **changes})


async def test_what_was_put_comes_back_as_it_was(database: Database) -> None:
    store = DatabaseClashes(database, clock=lambda: 12.5)
    kept = await store.put(made(policy="agent@0123abcd"))
    assert msgspec.structs.replace(made(), id=kept.id, created_at=12.5, seen_at=12.5) == kept == await store.get(kept.id)
    assert [kept] == await store.find(**ALICE)
    assert [] == await store.trail(kept.id)


@given(first=st.tuples(*[st.text()] * 4), second=st.tuples(*[st.text()] * 4))
@example(first=("ab", "", "p", "h"), second=("a", "b", "p", "h"))
@example(first=("a", "r", "p@1", "h"), second=("a", "r", "p@2", "h"))
def test_two_pairs_have_one_id_only_if_client_run_policy_and_hash_are_the_same(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    names = [(client, run, policy.partition("@")[0], pair) for client, run, policy, pair in (first, second)]
    assert (names[0] == names[1]) == (record_id(*first) == record_id(*second))


async def test_the_first_one_is_kept_as_it_was(database: Database) -> None:
    store = DatabaseClashes(database)
    kept = await store.put(made())
    assert kept == await store.put(made(topic="other", status="resolved", resolution="keep_newer"))


async def test_workers_that_put_at_once_keep_one(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseClashes(database) for database in (first, second)] * 4
        kept = await asyncio.gather(*(w.put(made(topic=str(n))) for n, w in enumerate(workers)))
        assert 1 == len({(record.id, record.topic) for record in kept})


async def test_a_run_has_its_own_clashes_in_their_order(database: Database) -> None:
    clock = iter(range(1, 99))
    store = DatabaseClashes(database, clock=lambda: next(clock))
    for pair in ("z", "a", "m"):
        await store.put(made(pair))
    for other in ({"client": "bob"}, {"run_id": "s"}, {"policy": "strict"}, {"client": "alicer", "run_id": ""}):
        await store.put(made("other", **other))
    assert ["z", "a", "m"] == [record.pair_hash for record in await store.find(**ALICE)]
    assert ["z", "a", "m"] == [record.pair_hash for record in await store.find(**{**ALICE, "policy": "agent@00000000"})]


async def test_of_very_many_clashes_the_newest_are_given(database: Database) -> None:
    clock = iter(range(1, 99))
    store = DatabaseClashes(database, per_run=3, clock=lambda: next(clock))
    for number in range(5):
        await store.put(made(str(number)))
    assert ["2", "3", "4"] == [record.pair_hash for record in await store.find(**ALICE)]


async def test_asking_marks_it_once_an_hour(database: Database) -> None:
    clock = iter((1000.0, 4599.0, 4601.0, 4700.0))
    store = DatabaseClashes(database, clock=lambda: next(clock))
    kept = await store.put(made())
    seen = []
    for _ in range(3):
        await store.find(**ALICE)
        record = await store.get(kept.id)
        seen.append(record and record.seen_at)
    assert [1000.0, 4601.0, 4601.0] == seen


async def test_a_resolution_is_found_from_then_on_and_stands_in_the_trail(database: Database) -> None:
    clock = iter((1.0, 2.0, 3.0))
    store = DatabaseClashes(database, clock=lambda: next(clock))
    kept = await store.put(made())
    merged = "cheap on weekdays, luxury at weekends \ud800\0"
    resolved = await store.resolve(kept.id, "merged", client="alice", by="user", reason="asked", merged=merged, version=kept.version)
    fields = {"status": "resolved", "resolution": "merged", "reason": "asked", "merged": merged, "resolved_by": "user", "resolved_at": 2.0}
    assert msgspec.structs.replace(kept, **fields, version=1) == resolved
    assert [resolved] == await store.find(**ALICE)
    assert [(1, "merged", "run", 2.0, "user", "asked")] == [msgspec.structs.astuple(d) for d in await store.trail(kept.id)]


async def test_a_dismissed_clash_has_no_resolution(database: Database) -> None:
    store = DatabaseClashes(database)
    kept = await store.put(made())
    dismissed = await store.resolve(kept.id, "dismiss", client="alice", by="ann")
    assert dismissed
    assert ("dismissed", "", ["dismiss"]) == (dismissed.status, dismissed.resolution, [d.decision for d in await store.trail(kept.id)])


async def test_a_stage_may_put_it_resolved_and_a_person_may_change_that(database: Database) -> None:
    store = DatabaseClashes(database, clock=lambda: 7.0)
    kept = await store.put(made(status="resolved", resolution="keep_newer", reason="more recent (1 h against 48 h)"))
    assert ("policy", 7.0, 1) == (kept.resolved_by, kept.resolved_at, kept.version)
    await store.resolve(kept.id, "keep_older", by="ann", reason="the newer was a joke")
    trail = [(d.number, d.decision, d.decided_by, d.reason) for d in await store.trail(kept.id)]
    expected = [(1, "keep_newer", "policy", "more recent (1 h against 48 h)"), (2, "keep_older", "ann", "the newer was a joke")]
    assert expected == trail


async def test_a_resolution_that_has_not_seen_the_last_one_changes_nothing(database: Database) -> None:
    store = DatabaseClashes(database)
    kept = await store.put(made())
    by_person = await store.resolve(kept.id, "keep_older", by="ann")
    assert by_person == await store.resolve(kept.id, "keep_newer", client="alice", by="user", version=kept.version)
    assert 1 == len(await store.trail(kept.id))


async def test_the_same_resolution_again_changes_nothing(database: Database) -> None:
    store = DatabaseClashes(database)
    kept = await store.put(made())
    resolved = [await store.resolve(kept.id, "keep_both", by="ann", reason="both hold") for _ in range(2)]
    assert resolved[0] == resolved[1]
    assert 1 == len(await store.trail(kept.id))


async def test_of_workers_that_resolve_what_they_have_read_one_wins(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseClashes(database) for database in (first, second)]
        for pair in ("p1", "p2", "p3"):
            kept = await workers[0].put(made(pair))
            results = await asyncio.gather(
                *(w.resolve(kept.id, "merged", client="alice", by="user", merged=str(n), version=0) for n, w in enumerate(workers))
            )
            assert results[0] == results[1] == await workers[0].get(kept.id)
            assert 1 == len(await workers[0].trail(kept.id))


async def test_a_client_cannot_resolve_anothers(database: Database) -> None:
    store = DatabaseClashes(database)
    kept = await store.put(made())
    assert [None, None] == [await store.resolve(key, "keep_newer", client="bob", by="user") for key in (kept.id, "cl_none")]
    assert kept == await store.get(kept.id)


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["d", "c", "b", "a"]),
    ({"status": "resolved"}, ["b"]),
    ({"run_id": "r2"}, ["c"]),
    ({"client": "bob"}, ["d"]),
    ({"policy": "strict@0"}, ["d"]),
    ({"type": "DUPLICATE_FACTS"}, ["c"]),
    ({"topic": "diet", "strategy": "merge"}, ["b"]),
]


async def test_lists_are_newest_first_and_can_be_filtered(database: Database) -> None:
    clock = iter(range(1, 9))
    store = DatabaseClashes(database, clock=lambda: next(clock))
    await store.put(made("a"))
    await store.put(made("b", topic="diet", strategy="merge", status="resolved", resolution="merged"))
    await store.put(made("c", type="DUPLICATE_FACTS", run_id="r2"))
    await store.put(made("d", client="bob", policy="strict"))
    assert FILTERS == [(filters, [record.pair_hash for record in (await store.list(**filters))[0]]) for filters, _ in FILTERS]


async def test_lists_come_in_pages(database: Database) -> None:
    store = DatabaseClashes(database, clock=lambda: 1.0)  # all at one moment
    ids = {(await store.put(made(str(n)))).id for n in range(3)}
    page, more = await store.list(2)
    rest, none = await store.list(2, page[-1].id)
    assert (ids, 3, True, False) == ({r.id for r in (*page, *rest)}, len(page) + len(rest), more, none)


async def test_everything_outlives_a_restart(url: str) -> None:
    async with opened(url) as database:
        kept = await DatabaseClashes(database).put(made())
        resolved = await DatabaseClashes(database).resolve(kept.id, "keep_newer", by="ann")
    async with opened(url) as database:
        assert [resolved] == await DatabaseClashes(database).find(**ALICE)
        assert ["keep_newer"] == [d.decision for d in await DatabaseClashes(database).trail(kept.id)]


async def test_without_a_store_it_raises() -> None:
    store = DatabaseClashes(Database("sqlite://"))
    for attempt in (store.put(made()), store.find(**ALICE), store.resolve("cl_1", "dismiss", by="a"), store.get("cl_1"), store.list()):
        with pytest.raises(StoreUnavailable):
            await attempt
