"""Retention of what waits for a person, or was decided by one, on both databases."""

import logging
import random
from typing import Any

import pytest

from proxy.ports import ClashRecord, QuarantineItem
from proxy.store.clashes import DatabaseClashes
from proxy.store.database import Database
from proxy.store.memory import DatabaseScratchpad
from proxy.store.quarantine import DatabaseQuarantine
from proxy.store.retention import Retention

_DAY_S = 86_400.0
WHERE = {"client": "alice", "run_id": "r", "policy": "agent"}


def item(hash_: str, content: bytes = b"x", **changes: Any) -> QuarantineItem:
    fields: dict[str, Any] = {
        **WHERE,
        "hash": hash_,
        "kind": "user",
        "role": "user",
        "type": "wrong_number",
        "reason": "",
        "content": content,
    }
    return QuarantineItem(**{**fields, **changes})


async def test_what_was_decided_goes_by_its_last_use_and_what_was_not_stays(database: Database) -> None:
    now = 0.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    ids = {}
    for name in ("pending", "used", "left", "by a stage"):
        ids[name] = (await store.put(item(name, status="rejected" if name == "by a stage" else "pending"))).id
    for name in ("used", "left"):
        await store.decide(ids[name], "approved", by="ann")
    now = 20 * _DAY_S
    await store.find(["used"], **WHERE)
    await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once()
    assert ["pending", "used"] == [name for name, key in ids.items() if await store.get(key)]


async def test_a_clients_decision_lives_as_long_as_any_of_its_runs_uses_it(database: Database) -> None:
    now = 0.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    kept = await store.put(item("h"))
    await store.decide(kept.id, "rejected", by="ann", scope="client")
    now = 20 * _DAY_S
    await store.find(["h"], client="alice", run_id="another", policy="agent")
    await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once()
    found = await store.find(["h"], client="alice", run_id="a third", policy="agent")
    assert "rejected" == found["h"].status


async def test_the_trail_stays_while_its_subject_does_and_until_it_is_old(database: Database) -> None:
    now = 0.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    used, late = [(await store.put(item(name))).id for name in ("used", "late")]
    await store.decide(used, "approved", by="ann")
    now = 20 * _DAY_S
    await store.find(["used"], **WHERE)
    await store.decide(late, "rejected", by="bob")  # never seen again
    now = 40 * _DAY_S
    retention = Retention(database, days=30, clock=lambda: now)
    await retention.run_once()
    assert [True, False] == [await store.get(key) is not None for key in (used, late)]
    assert [1, 1] == [len(await store.trail(key)) for key in (used, late)]
    for day in (90, 91):  # nobody looked for weeks: the clock is believed when it has stayed so for a day
        now = day * _DAY_S
        await retention.run_once()
    assert [0, 0] == [len(await store.trail(key)) for key in (used, late)]


async def test_what_comes_again_after_its_deletion_goes_on_in_its_trail(database: Database) -> None:
    now = 0.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    kept = await store.put(item("h"))
    now = 20 * _DAY_S
    await store.decide(kept.id, "rejected", by="ann")
    now = 40 * _DAY_S
    await Retention(database, days=30, clock=lambda: now).run_once()
    again = await store.put(item("h"))
    assert ("pending", 1) == (again.status, again.version)
    await store.decide(kept.id, "approved", by="bob")
    assert [(1, "ann"), (2, "bob")] == [(d.number, d.decided_by) for d in await store.trail(kept.id)]


async def test_a_clash_goes_by_its_last_use(database: Database) -> None:
    now = 0.0
    store = DatabaseClashes(database, clock=lambda: now)
    for run in ("used", "left"):
        await store.put(ClashRecord(client="a", run_id=run, policy="p", pair_hash="h", type="t", topic="", strategy="merge"))
    now = 20 * _DAY_S
    await store.find(client="a", run_id="used", policy="p")
    await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once()
    assert ["used"] == [record.run_id for record in (await store.list())[0]]


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.slow
async def test_in_a_store_that_is_too_large_everything_else_goes_first(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "proxy.store.retention")
    store = DatabaseQuarantine(database, clock=lambda: 1.0)
    for n in range(50):
        await store.put(item(f"h{n}", noise(n, 20_000)))
    pad = DatabaseScratchpad(database, clock=lambda: 2.0)
    for n in range(1200):
        await pad.put(noise(n, 4_000), client="a", run_id="r")
    retention = Retention(database, days=1e6, max_mb=5)
    assert await retention.run_once() > 0
    assert {"pending": 50, "approved": 0, "rejected": 0} == await store.counts()
    assert [] == caplog.messages


@pytest.mark.slow
async def test_a_flood_of_undecided_content_pushes_nothing_else_out_and_the_log_names_what_goes(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "proxy.store.retention")
    clock = iter(range(10, 9_999))
    pad = DatabaseScratchpad(database, clock=lambda: 1.0)
    archived = await pad.put(b"a prompt refers to it", client="a", run_id="r")
    store = DatabaseQuarantine(database, clock=lambda: next(clock))
    ids = [(await store.put(item(f"h{n}", noise(n, 20_000)))).id for n in range(400)]
    deleted = await Retention(database, days=1e6, max_mb=5).run_once()
    assert 100 < deleted < 400
    assert b"a prompt refers to it" == await pad.get(archived)
    kept, _ = await store.list(1000)
    assert ids[deleted:] == [found.id for found in reversed(kept)]
    assert set(ids[:deleted]) == {key for message in caplog.messages for key in message.rpartition(": ")[2].split(", ")}


async def test_a_store_within_its_limits_keeps_everything(database: Database) -> None:
    store = DatabaseQuarantine(database)
    kept = await store.put(item("h"))
    await store.decide(kept.id, "approved", by="ann")
    assert 0 == await Retention(database, days=30).run_once()
    assert (True, 1) == (await store.get(kept.id) is not None, len(await store.trail(kept.id)))


async def test_what_a_tool_is_held_against_is_kept(database: Database) -> None:
    """Else one that changes while its server is away for longer than the retention would be seen for the first time."""
    now = 0.0
    store = DatabaseQuarantine(database, clock=lambda: now)
    approved = await store.put(item("a", kind="tool", status="approved"))
    await store.put(item("b", status="approved"))
    now = 20 * _DAY_S
    waiting = await store.put(item("c"))
    await Retention(database, days=30, clock=lambda: 40 * _DAY_S).run_once()
    assert [waiting.id, approved.id] == [kept.id for kept in (await store.list())[0]]
