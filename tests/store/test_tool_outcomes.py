"""What tool calls taught, on both databases."""

import asyncio
from typing import Any

import pytest

from proxy.errors import StoreUnavailable
from proxy.ports import ToolOutcome
from proxy.store.database import Database
from proxy.store.retention import Retention
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from tests.store.conftest import opened

_DAY_S = 86_400.0


def outcome(query: str = "q", tool: str = "search", **changes: Any) -> ToolOutcome:
    return ToolOutcome(**{"tool_key": f"key-{tool}", "tool_name": tool, "query_hash": query, "vector": b"\x00\xff", **changes})


async def queries(outcomes: DatabaseToolOutcomes, client: str = "alice", **more: Any) -> list[str]:
    return [o.query_hash for o in await outcomes.load(client=client, embedder="e", **more)]


class Ticking:
    """Each call is a second later."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


async def test_an_outcome_comes_back_as_it_was(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=lambda: 5.0)
    await outcomes.add([outcome(weight=-0.5)], client="alice", embedder="e")
    assert await outcomes.load(client="alice", embedder="e") == [outcome(weight=-0.5, created_at=5.0)]


async def test_the_newest_come_first(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=Ticking())
    for query in "abc":
        await outcomes.add([outcome(query)], client="alice", embedder="e")
    assert await queries(outcomes) == ["c", "b", "a"]


async def test_only_the_tools_asked_for_are_loaded(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database)
    await outcomes.add([outcome(tool, tool) for tool in "abc"], client="alice", embedder="e")
    many = [f"key-{n}" for n in range(1200)]
    assert sorted(await queries(outcomes, tool_keys=["key-c", *many, "key-a"])) == ["a", "c"]
    assert await queries(outcomes, tool_keys=[]) == []


async def test_a_later_outcome_of_the_same_query_replaces_the_earlier(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=lambda: 5.0)
    await outcomes.add([outcome(), outcome(vector=b"new"), outcome(vector=b"newer", weight=2.0)], client="alice", embedder="e")
    await outcomes.add([outcome(vector=b"newest")], client="alice", embedder="e")
    assert await outcomes.load(client="alice", embedder="e") == [outcome(vector=b"newest", created_at=5.0)]


async def test_clients_and_embedders_are_apart(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database)
    await outcomes.add([outcome()], client="alice", embedder="e")
    assert [await outcomes.load(client=c, embedder=e) for c, e in (("bob", "e"), ("alice", "f"))] == [[], []]


async def test_a_tool_keeps_its_newest(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, per_tool=2, clock=Ticking())
    for query in "abc":
        await outcomes.add([outcome(query), outcome(query, "other" + query)], client="alice", embedder="e")
    assert await queries(outcomes, tool_keys=["key-search"]) == ["c", "b"]
    assert sorted(set(await queries(outcomes))) == ["a", "b", "c"]


async def test_a_client_keeps_its_newest(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, per_client=2, clock=Ticking())
    await outcomes.add([outcome("of bob")], client="bob", embedder="e")
    for query in "abc":
        await outcomes.add([outcome(query, query)], client="alice", embedder="e")
    assert (await queries(outcomes), await queries(outcomes, "bob")) == (["c", "b"], ["of bob"])


async def test_two_workers_at_once_keep_the_bound(url: str) -> None:
    async with opened(url) as first, opened(url) as second:
        workers = [DatabaseToolOutcomes(d, per_tool=4) for d in (first, second)]
        await asyncio.gather(*(workers[n % 2].add([outcome(str(n))], client="alice", embedder="e") for n in range(20)))
        assert len(await queries(workers[0])) == 4


async def test_the_version_changes_with_every_change_of_the_client(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=lambda: 5.0)
    seen = [await outcomes.version("alice")]
    await outcomes.add([outcome("a"), outcome("b", "other")], client="alice", embedder="e")
    seen.append(await outcomes.version("alice"))
    await outcomes.add([outcome("a")], client="alice", embedder="e")
    seen.append(await outcomes.version("alice"))
    await outcomes.reset("alice", "search")
    seen.append(await outcomes.version("alice"))
    assert (seen[0], len(set(seen)), await outcomes.version("bob")) == (0, 4, 0)


async def test_retention_deletes_what_is_old_and_says_so_in_the_version(database: Database) -> None:
    now = 10 * _DAY_S
    outcomes = DatabaseToolOutcomes(database, clock=lambda: now)
    await outcomes.add([outcome("old")], client="alice", embedder="e")
    now = 30 * _DAY_S
    await outcomes.add([outcome("new")], client="alice", embedder="e")
    before = await outcomes.version("alice")
    assert await Retention(database, days=30, clock=lambda: 45 * _DAY_S).run_once() == 1
    assert await queries(outcomes) == ["new"]
    assert await outcomes.version("alice") > before


async def test_the_summary_counts_by_client_and_tool_the_last_learned_first(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=Ticking())
    for query, tool, client in (("a", "search", "alice"), ("b", "search", "alice"), ("a", "book", "bob")):
        await outcomes.add([outcome(query, tool)], client=client, embedder="e")
    found, more = await outcomes.summary()
    assert [(s.client, s.tool, s.tool_key, s.embedder, s.count, s.last - s.first) for s in found] == [
        ("bob", "book", "key-book", "e", 1, 0.0),
        ("alice", "search", "key-search", "e", 2, 1.0),
    ]
    assert not more


async def test_the_summary_comes_in_pages(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database, clock=Ticking())
    for tool in "abc":
        await outcomes.add([outcome("q", tool)], client="alice", embedder="e")
    first, more = await outcomes.summary(2)
    rest, no_more = await outcomes.summary(2, first[-1].id)
    assert ([s.tool for s in first], more, [s.tool for s in rest], no_more) == (["c", "b"], True, ["a"], False)
    assert await outcomes.summary(2, "unknown", client="alice") == ([], False)


@pytest.mark.parametrize(("tool", "left"), [(None, []), ("search", ["other"]), ("key-other", ["search"]), ("none", ["other", "search"])])
async def test_the_operator_can_reset_a_client_or_one_of_its_tools(database: Database, tool: str | None, left: list[str]) -> None:
    outcomes = DatabaseToolOutcomes(database)
    for client in ("alice", "bob"):
        await outcomes.add([outcome("q", "search"), outcome("q", "other")], client=client, embedder="e")
    assert await outcomes.reset("alice", tool) == 2 - len(left)
    assert sorted(s.tool for s in (await outcomes.summary(client="alice"))[0]) == left
    assert len(await queries(outcomes, "bob")) == 2


async def test_names_that_no_database_takes_as_text_work(database: Database) -> None:
    outcomes = DatabaseToolOutcomes(database)
    await outcomes.add([outcome("q" * 5000, "nul\0 \ud800")], client="nul\0 \ud800", embedder="e")
    assert len(await queries(outcomes, "nul\0 \ud800", tool_keys=["key-nul\0 \ud800"])) == 1


async def test_adding_nothing_writes_nothing() -> None:
    await DatabaseToolOutcomes(Database("sqlite://")).add([], client="a", embedder="e")


async def test_without_a_store_it_raises() -> None:
    with pytest.raises(StoreUnavailable):
        await DatabaseToolOutcomes(Database("sqlite://")).load(client="a", embedder="e")
