"""The operator's view of what tool calls taught."""

import itertools
import time
from typing import Any

from proxy.observe.metrics import Metrics
from proxy.ports import ToolOutcome
from proxy.store.tool_outcomes import DatabaseToolOutcomes
from tests.conftest import Running, Start

PATH = "/groundwire/v1/tool-outcomes"
KEY = "server: {admin_key: s3cret}\n"
ADMIN = {"authorization": "Bearer s3cret"}


async def learned(proxy: Running, *outcomes: tuple[str, str, str]) -> None:
    """Each is client, tool and query."""
    now = itertools.count(time.time())  # retention deletes what is older than a month
    store = DatabaseToolOutcomes(proxy.app.database, clock=lambda: next(now))
    for client, tool, query in outcomes:
        await store.add([ToolOutcome(f"key-{tool}", tool, query, b"\0\0")], client=client, embedder="e")


async def delete(proxy: Running, query: str, **headers: str) -> tuple[int, Any]:
    async with proxy._session.delete(proxy.url + PATH + query, headers=headers) as response:
        return response.status, await response.json(content_type=None)


async def test_what_was_learned_is_listed_by_client_and_tool(start: Start) -> None:
    async with start() as proxy:
        await learned(proxy, ("alice", "search", "a"), ("alice", "search", "b"), ("bob", "book", "a"))
        listed = (await proxy.get(PATH)).json
        of_alice = (await proxy.get(PATH + "?client=alice")).json
    assert ("list", False) == (listed["object"], listed["has_more"])
    assert [("bob", "book", 1), ("alice", "search", 2)] == [(r["client"], r["tool"], r["count"]) for r in listed["data"]]
    entry = of_alice["data"][0]
    assert ("tool_outcomes", "e", "key-search", 1.0) == (
        entry["object"],
        entry["embedder"],
        entry["tool_key"],
        entry["last"] - entry["first"],
    )


async def test_the_list_comes_in_pages(start: Start) -> None:
    async with start() as proxy:
        await learned(proxy, ("alice", "a", "q"), ("alice", "b", "q"))
        first = (await proxy.get(PATH + "?limit=1")).json
        rest = (await proxy.get(f"{PATH}?limit=1&after={first['data'][0]['id']}")).json
    assert (["b"], True) == ([r["tool"] for r in first["data"]], first["has_more"])
    assert (["a"], False) == ([r["tool"] for r in rest["data"]], rest["has_more"])


async def test_a_clients_outcomes_can_be_deleted_all_or_of_one_tool(start: Start) -> None:
    async with start() as proxy:
        await learned(proxy, ("alice", "a", "q"), ("alice", "b", "q"), ("alice", "b", "r"), ("bob", "a", "q"))
        one = await delete(proxy, "?client=alice&tool=a")
        rest = await delete(proxy, "?client=alice")
        left = (await proxy.get(PATH)).json["data"]
    assert (200, {"object": "tool_outcomes.deleted", "client": "alice", "tool": "a", "deleted": 1}) == one
    assert 2 == rest[1]["deleted"]
    assert ["bob"] == [r["client"] for r in left]


async def test_a_deletion_names_its_client(start: Start) -> None:
    async with start() as proxy:
        status, body = await delete(proxy, "?tool=a")
    assert (400, "client") == (status, body["error"]["param"])


async def test_only_the_operator_sees_and_deletes(start: Start) -> None:
    async with start(config=KEY) as proxy:
        refused = [(await proxy.get(PATH)).status, (await delete(proxy, "?client=a"))[0]]
        allowed = [(await proxy.get(PATH, **ADMIN)).status, (await delete(proxy, "?client=a", **ADMIN))[0]]
    assert ([401, 401], [200, 200]) == (refused, allowed)


# ---- figures ----


def counted(**counts: int) -> Metrics:
    metrics = Metrics()
    for name, value in counts.items():
        metrics.count(f"context.{name}_count", value)
    return metrics


def test_figures_of_tool_selection_are_averages_over_its_requests() -> None:
    metrics = counted(
        tool_rag_requests=4,
        tools_offered=180,
        tools_kept=18,
        tool_tokens_before=14000,
        tool_tokens_kept=1400,
        tool_calls=20,
        tool_calls_found=19,
        confusion_incidents=1,
    )
    expected = {
        "requests": 4,
        "calls": 20,
        "selection_accuracy": 0.95,
        "average_tools_offered": 45.0,
        "average_tools": 4.5,
        "token_savings": 0.9,
        "confusion_incidents": 1,
    }
    assert expected == metrics.as_json()["tool_selection"]


def test_without_a_call_there_is_no_accuracy_and_without_a_selection_no_figure() -> None:
    assert "selection_accuracy" not in (counted(tool_rag_requests=1, tools_offered=45, tools_kept=5).as_json()["tool_selection"] or {})
    assert counted().as_json()["tool_selection"] is None
