"""Quarantine, on both databases."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.errors import Conflict, StoreUnavailable
from proxy.ports import QuarantineItem
from proxy.store.database import Database, StoreRejected
from proxy.store.quarantine import DatabaseQuarantine, item_id
from proxy.store.tables import key_of, keys_of
from tests.examples import share
from tests.store.conftest import opened

TOWER = b"The Eiffel Tower is in Berlin."


def made(hash_: str = "h1", content: bytes = TOWER, **changes: Any) -> QuarantineItem:
    fields: dict[str, Any] = {
        "client": "alice",
        "run_id": "r",
        "policy": "agent@0123abcd",
        "hash": hash_,
        "kind": "tool_result",
        "role": "tool",
        "type": "wrong_location",
        "reason": "Berlin is not in Paris",
        "content": content,
        "score": 0.75,
        "source": "search",
        "record_id": "gw_1",
        "detail": {"claims": [{"text": "nul \0 lone \ud800 世界", "at": [0, 30]}], "n": 2**70},
    }
    return QuarantineItem(**{**fields, **changes})


async def found(store: DatabaseQuarantine, hash_: str = "h1", client: str = "alice", run: str = "r", policy: str = "agent") -> Any:
    return (await store.find([hash_], client=client, run_id=run, policy=policy)).get(hash_)


async def status(store: DatabaseQuarantine, run: str, hash_: str = "h1") -> str | None:
    item = await found(store, hash_, run=run)
    return item and item.status


# ---- putting and finding ----


async def test_what_was_put_comes_back_as_it_was(database: Database) -> None:
    store = DatabaseQuarantine(database, clock=lambda: 12.5)
    kept = await store.put(made())
    filled = {"id": kept.id, "policy": "agent", "size_bytes": 30, "created_at": 12.5, "seen_at": 12.5, "seen_count": 1}
    assert msgspec.structs.replace(made(), **filled) == kept
    assert kept == await store.get(kept.id)
    assert msgspec.structs.replace(kept, content=b"") == await found(store)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe\x00", b"\xed\xa0\x80", "Füße 世界 🙂\r\n\t ".encode(), b"x" * 1_000_000])
async def test_content_is_kept_byte_for_byte(database: Database, content: bytes) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made(content=content))
    again = await store.get(kept.id)
    assert (content, len(content)) == (again and again.content, kept.size_bytes)


@settings(max_examples=share(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(contents=st.lists(st.binary(max_size=300), max_size=8, unique=True))
def test_any_bytes_are_kept(migrated_file: Path, tmp_path: Path, contents: list[bytes]) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(migrated_file.read_bytes())

    async def kept() -> list[bytes | None]:
        async with opened(f"sqlite:///{path}") as database:
            store = DatabaseQuarantine(database)
            ids = [(await store.put(made(content.hex(), content))).id for content in contents]
            return [item.content if (item := await store.get(key)) else None for key in ids]

    assert contents == asyncio.run(kept())


@given(first=st.tuples(*[st.text()] * 4), second=st.tuples(*[st.text()] * 4))
@example(first=("ab", "", "p", "h"), second=("a", "b", "p", "h"))
@example(first=("a", "r", "p", "h"), second=("b", "r", "p", "h"))
@example(first=("a", "r", "p@1", "h"), second=("a", "r", "p@2", "h"))
def test_two_contents_have_one_id_only_if_client_run_policy_and_hash_are_the_same(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    names = [(client, run, policy.partition("@")[0], hash_) for client, run, policy, hash_ in (first, second)]
    assert (names[0] == names[1]) == (item_id(*first) == item_id(*second))


async def test_the_first_one_is_kept_as_it_was(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made())
    again = await store.put(made(content=b"other", type="other", reason="other", policy="agent@ffffffff", status="rejected"))
    assert kept == again
    assert [] == await store.trail(kept.id)


async def test_workers_that_put_at_once_keep_one(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseQuarantine(database) for database in (first, second)] * 4
        for number in range(5):
            kept = await asyncio.gather(*(w.put(made(f"h{number}", reason=str(n))) for n, w in enumerate(workers)))
            assert 1 == len({(item.id, item.reason) for item in kept})
        assert 5 == len((await workers[0].list())[0])


async def test_clients_runs_and_policies_are_apart(database: Database) -> None:
    store = DatabaseQuarantine(database)
    await store.put(made())
    others = [
        await found(store, **where) for where in ({"client": "bob"}, {"run": "s"}, {"policy": "strict"}, {"client": "alicer", "run": ""})
    ]
    assert [None] * 4 == others
    mallory = await store.put(made(client="mallory", content=b"hers"))
    assert (b"hers", None) == (mallory.content, await found(store, client="mallory", run="s"))


async def test_an_edit_of_the_policys_file_keeps_what_was_decided(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made(policy="agent@00000000"))
    await store.decide(kept.id, "approved", by="ann")
    assert "approved" == (await found(store, policy="agent@11111111")).status


@pytest.mark.parametrize("place", [0, 399, 400, 2_999])
async def test_thousands_of_hashes_are_looked_through(database: Database, place: int) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made("wanted"))
    hashes = [f"x{i}" for i in range(3_000)]
    hashes[place] = "wanted"
    assert {"wanted": kept.id} == {
        h: i.id for h, i in (await store.find([*hashes, "wanted"], client="alice", run_id="r", policy="agent")).items()
    }


async def test_several_are_found_at_once(database: Database) -> None:
    store = DatabaseQuarantine(database)
    ids = {hash_: (await store.put(made(hash_))).id for hash_ in ("a", "b", "c")}
    items = await store.find(["c", "x", "a", "b"], client="alice", run_id="r", policy="agent")
    assert ids == {hash_: item.id for hash_, item in items.items()}


async def test_nothing_asked_nothing_found(database: Database) -> None:
    assert {} == await DatabaseQuarantine(database).find([], client="alice", run_id="r", policy="agent")


async def test_names_that_no_database_takes_as_text_work(database: Database) -> None:
    store = DatabaseQuarantine(database)
    odd: dict[str, str] = {"client": "c\0\ud800", "run_id": "r" * 5000, "reason": "\0" + "why " * 5000, "source": "s\0"}
    kept = await store.put(made("\ud800", **odd))
    assert kept.id == (await store.find(["\ud800"], client=odd["client"], run_id=odd["run_id"], policy="agent"))["\ud800"].id
    assert {} == await store.find(["\ud800"], client=odd["client"], run_id="r" * 4999, policy="agent")


async def test_a_detail_that_json_cannot_hold_is_refused(database: Database) -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless
    with pytest.raises(StoreRejected):
        await DatabaseQuarantine(database).put(made(detail=endless))


async def test_structs_in_a_detail_become_objects(database: Database) -> None:
    kept = await DatabaseQuarantine(database).put(made(detail={"of": made(detail={}), "other": {1, 2}, "so": object}))
    assert ("alice", [1, 2], True) == (kept.detail["of"]["client"], kept.detail["other"], "object" in kept.detail["so"])


# ---- sightings ----


async def test_putting_it_again_is_counted_once_a_minute(database: Database) -> None:
    times = (1000.0, 1059.0, 1061.0, 1062.0, 5000.0)
    clock = iter(times)
    store = DatabaseQuarantine(database, clock=lambda: next(clock))
    seen = []
    for _ in times:
        item = await store.put(made())
        seen.append((item.seen_count, item.seen_at))
    assert [(1, 1000.0), (1, 1000.0), (2, 1061.0), (2, 1061.0), (3, 5000.0)] == seen


async def test_asking_marks_it_once_an_hour_and_counts_nothing(database: Database) -> None:
    clock = iter((1000.0, 1000.0, 4599.0, 4601.0, 4700.0))
    store = DatabaseQuarantine(database, clock=lambda: next(clock))
    kept = await store.put(made())
    seen = []
    for _ in range(4):
        await found(store)
        item = await store.get(kept.id)
        assert item
        seen.append((item.seen_count, item.seen_at))
    assert [(1, 1000.0), (1, 1000.0), (1, 4601.0), (1, 4601.0)] == seen


@pytest.mark.postgres
@pytest.mark.parametrize("kind", ["postgres"])  # SQLite locks the whole file for writing
async def test_asking_waits_for_nobody_who_is_deciding(url: str, kind: str) -> None:
    async with opened(url) as first, opened(url, timeout_s=1.0) as second:
        store = DatabaseQuarantine(second, clock=lambda: 1e9)
        kept = await DatabaseQuarantine(first, clock=lambda: 1.0).put(made())
        async with first.transaction() as connection:
            await connection.exec_driver_sql("SELECT id FROM quarantine FOR UPDATE")
            assert kept.id == (await found(store)).id


# ---- decisions ----


async def test_a_decision_is_found_from_then_on_and_stands_in_the_trail(database: Database) -> None:
    now = 10.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    kept = await store.put(made())
    now = 20.0
    decided = await store.decide(kept.id, "approved", by="ann", reason="it is a novel")
    fields = {"status": "approved", "decided_at": 20.0, "decided_by": "ann", "decision_reason": "it is a novel", "version": 1}
    assert msgspec.structs.replace(kept, content=b"", **fields) == decided == await found(store)
    item = await store.get(kept.id)
    assert TOWER == (item and item.content)
    assert [(1, "approved", "run", 20.0, "ann", "it is a novel")] == [msgspec.structs.astuple(d) for d in await store.trail(kept.id)]


async def test_a_decision_can_be_changed_and_both_stay_in_the_trail(database: Database) -> None:
    store = DatabaseQuarantine(database, clock=lambda: 5.0)  # a clock that stands still
    kept = await store.put(made())
    await store.decide(kept.id, "approved", by="ann", reason="fine")
    changed = await store.decide(kept.id, "rejected", by="bob", reason="not fine")
    assert changed
    trail = await store.trail(kept.id)
    assert [("approved", "ann", "fine"), ("rejected", "bob", "not fine")] == [(d.decision, d.decided_by, d.reason) for d in trail]
    assert (("rejected", 2), True) == ((changed.status, changed.version), trail[0].decided_at < trail[1].decided_at)


async def test_the_same_decision_again_changes_nothing(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made())
    decided = [await store.decide(kept.id, "rejected", by="ann", reason="false") for _ in range(3)]
    assert decided[0] == decided[1] == decided[2]
    assert 1 == len(await store.trail(kept.id))


async def test_what_is_not_there_cannot_be_decided(database: Database) -> None:
    store = DatabaseQuarantine(database)
    assert (None, None, []) == (await store.decide("qr_none", "approved", by="a"), await store.get("qr_none"), await store.trail("qr_none"))


async def test_people_who_decide_at_once_are_all_in_the_trail(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseQuarantine(database, clock=lambda: 5.0) for database in (first, second)] * 5
        kept = await workers[0].put(made())
        names = [f"p{n}" for n in range(10)]
        await asyncio.gather(*(w.decide(kept.id, "approved" if n % 2 else "rejected", by=names[n]) for n, w in enumerate(workers)))
        trail, item = await workers[0].trail(kept.id), await workers[0].get(kept.id)
        assert item
        assert list(range(1, 11)) == [d.number for d in trail]
        assert sorted({d.decided_at for d in trail}) == [d.decided_at for d in trail]
        assert sorted(names) == sorted(d.decided_by for d in trail)
        assert (trail[-1].decision, trail[-1].decided_by, 10) == (item.status, item.decided_by, item.version)


async def test_a_stage_may_put_it_decided_and_a_person_may_let_it_in(database: Database) -> None:
    store = DatabaseQuarantine(database, clock=lambda: 7.0)
    kept = await store.put(made(status="rejected", decision_reason="the knowledge base says otherwise"))
    assert ("rejected", "policy", 7.0) == (kept.status, kept.decided_by, kept.decided_at)
    approved = await store.decide(kept.id, "approved", by="ann")
    assert "approved" == (approved and approved.status)
    assert [("rejected", "policy"), ("approved", "ann")] == [(d.decision, d.decided_by) for d in await store.trail(kept.id)]


async def test_a_pending_item_takes_no_ones_name(database: Database) -> None:
    kept = await DatabaseQuarantine(database).put(made(decided_by="ann", decision_reason="x", scope="client", version=7, decided_at=3.0))
    assert ("", "", "run", 0, None) == (kept.decided_by, kept.decision_reason, kept.scope, kept.version, kept.decided_at)


# ---- for all of a client's runs ----


async def test_a_decision_for_the_client_goes_to_all_its_runs(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made(run_id="r1"))
    other = await store.put(made(run_id="r2"))
    for stranger in ({"client": "bob"}, {"policy": "strict"}, {"hash_": "h2"}):
        await store.put(made(**stranger))
    await store.decide(kept.id, "approved", by="ann", scope="client")
    assert ["approved", "approved", "approved"] == [await status(store, run) for run in ("r1", "r2", "never seen")]
    strangers = [await found(store, **w) for w in ({"client": "bob"}, {"policy": "strict"}, {"hash_": "h2"})]
    assert ["pending"] * 3 == [item.status for item in strangers]
    assert "approved" == (await store.put(made(run_id="r3"))).status
    assert ["approved"] == [d.decision for d in await store.trail(other.id)]
    assert 3 == len((await store.list(status="pending"))[0])


async def test_a_decision_for_one_run_leaves_the_others(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made(run_id="r1"))
    await store.put(made(run_id="r2"))
    await store.decide(kept.id, "approved", by="ann")
    assert ["approved", "pending", None] == [await status(store, run) for run in ("r1", "r2", "r3")]


async def test_the_newest_decision_counts_whatever_its_scope(database: Database) -> None:
    now = 100.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    first, second = [await store.put(made(run_id=run)) for run in ("r1", "r2")]
    await store.decide(first.id, "approved", by="ann", scope="client")
    now = 50.0  # another machine's clock
    await store.decide(second.id, "rejected", by="bob")
    assert ["approved", "rejected", "approved"] == [await status(store, run) for run in ("r1", "r2", "r3")]
    await store.decide(second.id, "rejected", by="bob", scope="client")
    assert ["rejected", "rejected", "rejected"] == [await status(store, run) for run in ("r1", "r2", "r3")]


async def test_deciding_one_run_anew_leaves_the_clients_decision_in_the_others(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made(run_id="r1"))
    await store.decide(kept.id, "approved", by="ann", scope="client")
    await store.decide(kept.id, "rejected", by="bob")
    assert ["rejected", "approved"] == [await status(store, run) for run in ("r1", "r2")]
    later = await store.put(made(run_id="r2"))
    assert ("approved", "ann") == (later.status, later.decided_by)


async def test_a_persons_decision_for_the_client_comes_before_a_stages_later_one(database: Database) -> None:
    now = 1.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    kept = await store.put(made(run_id="r1"))
    await store.decide(kept.id, "approved", by="ann", scope="client")
    now = 2.0
    later = await store.put(made(run_id="r2", status="rejected"))
    assert ("approved", "ann") == (later.status, later.decided_by)
    assert ["rejected", "approved"] == [d.decision for d in await store.trail(later.id)]


async def test_an_item_put_while_the_client_was_decided_follows_at_its_next_turn(url: str) -> None:
    """As if the decision had not seen the item: what is written down is put back to pending."""
    async with opened(url) as database:
        store = DatabaseQuarantine(database)
        kept = await store.put(made(run_id="r1"))
        late = await store.put(made(run_id="r2"))
        await store.decide(kept.id, "rejected", by="ann", scope="client")
        undone = "UPDATE quarantine SET status = 'pending', scope = 'run', decided_at = NULL, decided_by = '', version = 0 WHERE id = "
        async with database.transaction() as connection:
            await connection.exec_driver_sql(f"{undone}'{late.id}'")
            await connection.exec_driver_sql(f"DELETE FROM decisions WHERE subject = '{late.id}'")
        assert "rejected" == await status(store, "r2")
        item = await store.get(late.id)
        assert ("rejected", "ann", TOWER) == (item and item.status, item and item.decided_by, item and item.content)
        assert ["ann"] == [d.decided_by for d in await store.trail(late.id)]


async def test_runs_put_and_decided_at_once_end_with_one_decision(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseQuarantine(database) for database in (first, second)]
        ids = [(await workers[0].put(made(run_id=f"r{n}"))).id for n in range(4)]
        deciding = [workers[n % 2].decide(ids[n], "approved" if n % 2 else "rejected", by=f"p{n}", scope="client") for n in range(4)]
        putting = [workers[n % 2].put(made(run_id=f"s{n}")) for n in range(4)]
        await asyncio.gather(*deciding, *putting)
        runs = [f"{kind}{n}" for kind in "rs" for n in range(4)] + ["new"]
        assert 1 == len({await status(workers[n % 2], run) for n, run in enumerate(runs)})
        assert [4] * 4 == [len(await workers[0].trail(key)) for key in ids]


# ---- taken back ----


async def take_back(store: DatabaseQuarantine, item: QuarantineItem, by: str = "eve") -> QuarantineItem | None:
    now = await store.get(item.id)
    assert now is not None
    return await store.take_back(item.id, by=by, reason="a mistake", version=now.version)


async def test_a_decision_for_the_client_that_is_taken_back_leaves_each_run_as_it_was(database: Database) -> None:
    store = DatabaseQuarantine(database)
    first, approved, waiting, later = [await store.put(made(run_id=run)) for run in ("r1", "r2", "r3", "r4")]
    await store.decide(first.id, "rejected", by="ann")
    await store.decide(approved.id, "approved", by="ann")
    await store.decide(waiting.id, "rejected", by="bob", scope="client")
    await store.decide(later.id, "approved", by="cem")
    await take_back(store, waiting)
    runs = ("r1", "r2", "r3", "r4", "never seen")
    assert ["rejected", "approved", "pending", "approved", None] == [await status(store, run) for run in runs]
    assert "pending" == (await store.put(made(run_id="r5"))).status
    assert ["approved", "rejected", "pending", "approved"] == [d.decision for d in await store.trail(approved.id)]


async def test_what_was_decided_for_the_client_before_counts_again(database: Database) -> None:
    store = DatabaseQuarantine(database)
    first, second = [await store.put(made(run_id=run)) for run in ("r1", "r2")]
    await store.decide(first.id, "approved", by="ann", scope="client")
    await store.decide(second.id, "rejected", by="bob", scope="client")
    await take_back(store, first)
    assert ["approved", "approved", "approved"] == [await status(store, run) for run in ("r1", "r2", "never seen")]
    await take_back(store, second)  # that was a mistake, too
    assert ["rejected", "rejected", "rejected"] == [await status(store, run) for run in ("r1", "r2", "never seen")]


async def test_what_a_stage_had_decided_counts_again(database: Database) -> None:
    now = 1.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    kept = await store.put(made(run_id="r1"))
    await store.decide(kept.id, "approved", by="ann", scope="client")
    now = 2.0
    await store.put(made(run_id="r2", status="rejected"))
    await take_back(store, kept)
    assert ["pending", "rejected"] == [await status(store, run) for run in ("r1", "r2")]


async def test_a_decision_for_one_run_is_taken_back_there_alone(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept, other = [await store.put(made(run_id=run)) for run in ("r1", "r2")]
    await store.decide(other.id, "approved", by="ann", scope="client")
    await store.decide(kept.id, "rejected", by="bob")
    taken = await take_back(store, kept)
    assert ["approved", "approved"] == [await status(store, run) for run in ("r1", "r2")]
    assert ("run", "eve", "a mistake") == (taken and taken.scope, taken and taken.decided_by, taken and taken.decision_reason)


async def test_what_was_decided_anew_is_not_taken_back(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(made())
    assert (None, "pending") == (
        await store.take_back("qr_none", by="eve", reason="", version=0),
        (await take_back(store, kept) or kept).status,
    )
    with pytest.raises(Conflict, match="nobody has decided on it: it has version 0, not 7"):
        await store.decide(kept.id, "approved", by="ann", version=7)
    await store.decide(kept.id, "approved", by="ann")
    with pytest.raises(Conflict, match="ann has approved it since: it has version 1, not 0"):
        await store.take_back(kept.id, by="eve", reason="", version=0)
    await take_back(store, kept)
    with pytest.raises(Conflict, match="eve has taken a decision on it back: it has version 2, not 1"):
        await store.decide(kept.id, "rejected", by="bob", version=1)


# ---- lists ----


async def test_lists_are_newest_first_in_pages_and_without_contents(database: Database) -> None:
    clock = iter((1.0, 2.0, 3.0))
    store = DatabaseQuarantine(database, clock=lambda: next(clock))
    ids = [(await store.put(made(f"h{n}"))).id for n in range(3)]
    page, more = await store.list(2)
    rest, none = await store.list(2, page[-1].id)
    assert (ids[::-1], True, False) == ([item.id for item in (*page, *rest)], more, none)
    assert [b""] * 3 == [item.content for item in (*page, *rest)]
    assert ([], False) == await store.list(2, "qr_none")


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({"status": "rejected"}, ["b"]),
    ({"status": "pending", "run_id": "r2"}, ["c"]),
    ({"client": "bob"}, ["d"]),
    ({"policy": "strict"}, ["d"]),
    ({"policy": "strict@01234567"}, ["d"]),
    ({"type": "wrong_number"}, ["c", "b"]),
    ({"type": "no_such"}, []),
    ({"status": None, "client": None}, ["d", "c", "b", "a"]),
]


async def test_lists_can_be_filtered(database: Database) -> None:
    now = iter(range(1, 9))
    store = DatabaseQuarantine(database, clock=lambda: next(now))
    await store.put(made("a"))
    await store.put(made("b", type="wrong_number", status="rejected"))
    await store.put(made("c", type="wrong_number", run_id="r2"))
    await store.put(made("d", client="bob", policy="strict@0", run_id="r3"))
    assert FILTERS == [(filters, [item.hash for item in (await store.list(**filters))[0]]) for filters, _ in FILTERS]


async def test_items_are_counted_by_status(database: Database) -> None:
    store = DatabaseQuarantine(database)
    assert {"pending": 0, "approved": 0, "rejected": 0} == await store.counts()
    for hash_ in ("a", "b", "c"):
        kept = await store.put(made(hash_))
    await store.decide(kept.id, "rejected", by="ann")
    assert {"pending": 2, "approved": 0, "rejected": 1} == await store.counts()


# ---- restart, and no store ----


async def test_everything_outlives_a_restart(url: str) -> None:
    async with opened(url) as database:
        store = DatabaseQuarantine(database)
        kept = await store.put(made())
        await store.decide(kept.id, "approved", by="ann", reason="fine", scope="client")
    async with opened(url) as database:
        store = DatabaseQuarantine(database)
        item = await store.get(kept.id)
        assert (TOWER, "approved", "approved") == (item and item.content, item and item.status, await status(store, "later"))
        assert ["fine"] == [d.reason for d in await store.trail(kept.id)]


async def test_without_a_store_it_raises() -> None:
    store = DatabaseQuarantine(Database("sqlite://"))
    for attempt in (
        store.put(made()),
        store.find(["h"], client="a", run_id="r", policy="p"),
        store.decide("qr_1", "approved", by="a"),
        store.get("qr_1"),
        store.trail("qr_1"),
        store.list(),
        store.counts(),
    ):
        with pytest.raises(StoreUnavailable):
            await attempt


async def test_reading_writes_nothing_into_a_store_that_is_locked(migrated_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "locked.db"
    path.write_bytes(migrated_file.read_bytes())
    async with opened(f"sqlite:///{path}", timeout_s=1.0) as database:
        store = DatabaseQuarantine(database)
        kept = await store.put(made())
        shared = await store.put(made("shared"))
        await store.decide(shared.id, "approved", by="ann", scope="client")
        await store.decide(shared.id, "rejected", by="bob")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            assert ["pending", "rejected", "approved"] == [
                await status(store, "r"),
                await status(store, "r", "shared"),
                await status(store, "another", "shared"),
            ]
            with pytest.raises(StoreUnavailable, match="locked"):
                await store.decide(kept.id, "approved", by="ann")
        finally:
            other.execute("ROLLBACK")
            other.close()
        assert "pending" == await status(store, "r")


def test_an_id_is_the_same_however_it_is_made_and_in_every_version() -> None:
    assert key_of("client", "run", "ü\ud800") == keys_of("client", "run")("ü\ud800") == "a4eae159480aeea23f5337a93eee1764"
    assert key_of("x") == keys_of()("x") == "028f0df5b8596fbcd10c9720b7a4784f"
