"""The ports in memory, which other tests go by, do what the database does: any sequence of operations ends the same way."""

import asyncio
import itertools
import shutil
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.ports import Clashes, ClashRecord, Quarantine, QuarantineItem
from proxy.ports.review import QuarantineStatus, Scope
from proxy.store.clashes import DatabaseClashes
from proxy.store.quarantine import DatabaseQuarantine
from proxy.testing import MemoryClashes, MemoryQuarantine
from tests.examples import share
from tests.store.conftest import opened

RUNS, HASHES, CLIENTS = ("r1", "r2", "r3"), ("h1", "h2"), ("alice", "bob")
contents = st.tuples(st.sampled_from(CLIENTS), st.sampled_from(RUNS), st.sampled_from(HASHES))
puts = st.tuples(st.just("put"), contents, st.sampled_from(["pending", "rejected"]))
decisions = st.tuples(st.just("decide"), contents, st.tuples(st.sampled_from(["approved", "rejected"]), st.sampled_from(["run", "client"])))
once = settings(max_examples=share(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture])


class Both:
    """The same operations on a store in memory and on a database."""

    def __init__(self, memory: MemoryQuarantine, database: DatabaseQuarantine) -> None:
        self.memory, self.database = memory, database
        self.ids: dict[Any, tuple[str, str]] = {}

    async def put(self, content: tuple[str, str, str], status: QuarantineStatus) -> None:
        client, run, hash_ = content
        item = QuarantineItem(
            client=client, run_id=run, policy="p@1", hash=hash_, kind="user", role="user", type="t", reason="", status=status
        )
        self.ids[content] = (await self.memory.put(item)).id, (await self.database.put(item)).id

    async def decide(self, content: tuple[str, str, str], decision: tuple[QuarantineStatus, Scope]) -> None:
        if content in self.ids:
            (in_memory, in_database), (status, scope) = self.ids[content], decision
            self.memory.decide(in_memory, status, by="ann", scope=scope)
            await self.database.decide(in_database, status, by="ann", scope=scope)

    async def states(self, store: Quarantine) -> list[Any]:
        found = []
        for client, run in itertools.product(CLIENTS, (*RUNS, "never")):
            items = await store.find(HASHES, client=client, run_id=run, policy="p@2")
            found.append({hash_: (item.status, item.decided_by, item.client, item.policy) for hash_, item in items.items()})
        return found


@once
@given(operations=st.lists(st.one_of(puts, decisions), max_size=12))
@example(
    operations=[("put", ("alice", r, "h1"), "pending") for r in RUNS[:2]]
    + [
        ("decide", ("alice", "r1", "h1"), ("approved", "client")),
        ("decide", ("alice", "r2", "h1"), ("rejected", "run")),
        ("put", ("alice", "r3", "h1"), "rejected"),
    ]
)
def test_quarantine(migrated_file: Path, tmp_path: Path, operations: list[Any]) -> None:
    path = tmp_path / "store.db"
    shutil.copy(migrated_file, path)
    clock = itertools.count(1.0)

    async def states() -> tuple[list[Any], list[Any]]:
        async with opened(f"sqlite:///{path}") as database:
            both = Both(MemoryQuarantine(lambda: next(clock)), DatabaseQuarantine(database, clock=lambda: next(clock)))
            for name, content, argument in operations:
                await getattr(both, name)(content, argument)
            return await both.states(both.memory), await both.states(both.database)

    in_memory, in_database = asyncio.run(states())
    assert in_memory == in_database


pairs = st.tuples(st.sampled_from(CLIENTS), st.sampled_from(RUNS), st.sampled_from(["p1", "p2"]))
resolutions = st.sampled_from(["keep_older", "keep_newer", "dismiss"])
clash_operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), pairs, st.sampled_from(["", "keep_newer"])),
        st.tuples(st.just("resolve"), pairs, st.tuples(resolutions, st.sampled_from(CLIENTS), st.sampled_from([None, 0, 1]))),
    ),
    max_size=10,
)


async def clash_states(store: Clashes, operations: list[Any]) -> list[Any]:
    """What is there after them."""
    ids: dict[Any, str] = {}
    for name, pair, argument in operations:
        client, run, hash_ = pair
        if name == "put":
            record = ClashRecord(
                client=client,
                run_id=run,
                policy="p@1",
                pair_hash=hash_,
                type="t",
                topic="",
                strategy="merge",
                status="resolved" if argument else "open",
                resolution=argument,
            )
            ids[pair] = (await store.put(record)).id
        elif pair in ids:
            resolution, by_client, version = argument
            await store.resolve(ids[pair], resolution, client=by_client, by=f"n{version}", version=version)
    found = [await store.find(client=client, run_id=run, policy="p@2") for client, run in itertools.product(CLIENTS, RUNS)]
    unlike = {"id": "", "created_at": 0.0, "seen_at": 0.0, "resolved_at": None}
    return [[msgspec.structs.replace(record, **unlike) for record in records] for records in found]


@once
@given(operations=clash_operations)
def test_clashes(migrated_file: Path, tmp_path: Path, operations: list[Any]) -> None:
    path = tmp_path / "store.db"
    shutil.copy(migrated_file, path)
    clock = itertools.count(1.0)

    async def states() -> tuple[list[Any], list[Any]]:
        async with opened(f"sqlite:///{path}") as database:
            stores = MemoryClashes(lambda: next(clock)), DatabaseClashes(database, clock=lambda: next(clock))
            return await clash_states(stores[0], operations), await clash_states(stores[1], operations)

    in_memory, in_database = asyncio.run(states())
    assert in_memory == in_database
