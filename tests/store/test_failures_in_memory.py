"""Failure records in memory, which other tests go by, are what the database makes of the same events; telling them again changes nothing."""

import asyncio
import itertools
import shutil
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from proxy.ports import Failures
from proxy.store.failures import DatabaseFailures
from proxy.testing import MemoryFailures
from tests.examples import share
from tests.stages.reflection.kept import known
from tests.store.conftest import opened
from tests.store.test_failures import event, occurred

CLIENTS, RUNS, NAMES, SUBJECTS = ("alice", "bob"), ("r1", "r2"), ("f1", "f2", "f3"), {"f1": "a", "f2": "b", "f3": "a"}
KINDS = ("occurred", "occurred", "progress", "injected", "resolved", "superseded", "reopened", "helpful", "harmful")
events = st.tuples(
    st.sampled_from(NAMES), st.sampled_from(KINDS), st.sampled_from(["c1", "c2", "c3", "c4"]), st.sampled_from(["low", "high"])
)
turns = st.tuples(st.sampled_from(CLIENTS), st.sampled_from(RUNS), st.lists(events, min_size=1, max_size=6))
once = settings(max_examples=share(0.3), suppress_health_check=[HealthCheck.function_scoped_fixture])


async def tell(store: Failures, turn: Any, number: int) -> list[Any]:
    """Let a turn happen; what the store answers."""
    client, run, told = turn
    happened = [
        occurred(name, cause, subject=SUBJECTS[name], severity=severity) if kind == "occurred" else event(kind, name, cause)
        for name, kind, cause, severity in told
    ]
    where = {"client": client, "run_id": run, "policy": "p@1", "step_id": f"s{number}", "record_id": f"gw_{number}"}
    return plain(await store.apply(happened, **where))


async def state(store: Failures) -> list[Any]:
    """All that can be asked."""
    found = []
    for client, run in itertools.product(CLIENTS, (*RUNS, "never", None)):
        asked = {"client": client, "fingerprints": ["f2", "never"], "subjects": ["a"]}
        found += [plain(await store.relevant(run_id=run, **asked)), plain(await store.relevant(run_id=run, **asked, limit=2))]
        if run is not None:
            found.append(plain(await known(store, client=client, run_id=run, fingerprints=NAMES)))
    return found


def plain(records: list[Any]) -> list[Any]:
    """Without the ids, which each store makes in its own way."""
    return [msgspec.structs.replace(record, id="") for record in records]


@once
@given(told=st.lists(turns, max_size=6))
@example(
    told=[
        ("alice", "r1", [("f1", "occurred", "c1", "low"), ("f1", "progress", "c1", "low"), ("f1", "progress", "c2", "low")]),
        ("alice", "r1", [("f1", "occurred", "c2", "low"), ("f1", "progress", "c2", "low")]),
    ]
)
def test_both_say_the_same(migrated_file: Path, tmp_path: Path, told: list[Any]) -> None:
    path = tmp_path / "store.db"
    shutil.copy(migrated_file, path)

    async def both() -> tuple[list[Any], list[Any]]:
        async with opened(f"sqlite:///{path}") as database:
            found = []
            for make in (MemoryFailures, lambda clock: DatabaseFailures(database, clock=clock)):
                store = make(moments())
                found.append([await tell(store, turn, n) for n, turn in enumerate(told)])
                found[-1] += await state(store)
            return found[0], found[1]

    in_memory, in_database = asyncio.run(both())
    assert in_memory == in_database


@once
@given(told=st.lists(turns, max_size=5), repeats=st.lists(st.integers(0, 4), max_size=5))
def test_turns_that_are_told_again_later_change_nothing(migrated_file: Path, tmp_path: Path, told: list[Any], repeats: list[int]) -> None:
    path = tmp_path / "store.db"
    shutil.copy(migrated_file, path)

    async def states() -> list[list[Any]]:
        async with opened(f"sqlite:///{path}") as database:
            found = []
            for store in (MemoryFailures(), DatabaseFailures(database, clock=lambda: 0.0)):
                for number, turn in enumerate(told):
                    await tell(store, turn, number)
                before = await state(store)
                for number in repeats:
                    if number < len(told):
                        await tell(store, told[number], 9)
                for turn in told:  # the whole history, as a client sends it
                    await tell(store, turn, 9)
                found += [before, await state(store)]
            return found

    before, after, before_in_database, after_in_database = asyncio.run(states())
    assert before == after
    assert before_in_database == after_in_database


def moments() -> Any:
    """A clock that says every moment twice."""
    numbers = itertools.count(2)
    return lambda: float(next(numbers) // 2)


async def test_a_person_in_memory_makes_a_revision_too() -> None:
    store = MemoryFailures()
    (kept,) = await store.apply([occurred()], client="a", run_id="r", policy="p", step_id="1", record_id="gw_1")
    for kind in ("resolved", "resolved", "helpful", "helpful"):
        last = store.say(kept.id, kind, by="ann")
    assert ("resolved", 2, "ann", 4) == (last.status, last.helpful_count, last.by, last.revision)
    assert [1, 2, 3, 4] == [one.revision for one in store.revisions[kept.id]]
