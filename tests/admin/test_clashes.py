"""A person's view of clashes, over HTTP, on the whole application."""

import json
import time
from typing import Any

import msgspec
import pytest

from proxy.ports import ClashRecord
from proxy.store.clashes import DatabaseClashes
from tests.conftest import Answer, Running, Start

PATH = "/groundwire/v1/clashes"
KEY = "server: {admin_key: s3cret}\n"
ADMIN = {"authorization": "Bearer s3cret"}
NEWER = {"resolution": "keep_newer"}


async def put(proxy: Running, *records: dict[str, Any]) -> list[ClashRecord]:
    """What a stage would have put, one second apart."""
    start = time.time() - len(records)
    kept = []
    for number, changes in enumerate(records):
        fields: dict[str, Any] = {
            "client": "alice",
            "run_id": "r",
            "policy": "agent@0123abcd",
            "pair_hash": f"p{number}",
            "type": "CONFLICTING_FACTS",
            "topic": "location",
            "strategy": "ask_user",
            "older": {"text": "I live in Köln", "message": 1},
            "newer": {"text": "I live in Bonn", "message": 3},
            "options": ("Köln", "Bonn", "flexible"),
        }
        store = DatabaseClashes(proxy.app.database, clock=lambda number=number: start + number)  # type: ignore[misc]
        kept.append(await store.put(ClashRecord(**{**fields, **changes})))
    return kept


def error(answer: Answer) -> tuple[int, str, str | None]:
    return answer.status, answer.json["error"]["code"], answer.json["error"]["param"]


async def test_clashes_are_listed_newest_first(start: Start) -> None:
    async with start() as proxy:
        first, second = await put(proxy, {}, {"status": "resolved", "resolution": "keep_newer"})
        listed = (await proxy.get(PATH)).json
        page = (await proxy.get(PATH + "?limit=1")).json
    assert ("list", False, [second.id, first.id]) == (listed["object"], listed["has_more"], [row["id"] for row in listed["data"]])
    assert ([second.id], True) == ([row["id"] for row in page["data"]], page["has_more"])
    assert json.loads(msgspec.json.encode(first)) | {"object": "clash"} == listed["data"][1]


FILTERS = [
    ("?status=open", [2, 0]),
    ("?run_id=s", [1]),
    ("?client=bob", [2]),
    ("?policy=strict", [2]),
    ("?type=DUPLICATE_FACTS", [1]),
    ("?topic=diet&strategy=merge", [1]),
    ("?status=dismissed", []),
]


async def test_the_list_can_be_filtered(start: Start) -> None:
    resolved = {
        "run_id": "s",
        "type": "DUPLICATE_FACTS",
        "topic": "diet",
        "strategy": "merge",
        "status": "resolved",
        "resolution": "merged",
    }
    async with start() as proxy:
        await put(proxy, {}, resolved, {"client": "bob", "policy": "strict"})
        found = {query: [int(row["pair_hash"][1:]) for row in (await proxy.get(PATH + query)).json["data"]] for query, _ in FILTERS}
    assert dict(FILTERS) == found


async def test_a_status_that_cannot_be_is_refused(start: Start) -> None:
    async with start() as proxy:
        assert (400, "invalid_request", "status") == error(await proxy.get(PATH + "?status=pending"))


@pytest.mark.parametrize("resolution", ["keep_older", "keep_newer", "keep_both"])
async def test_a_resolution_counts_for_the_run_from_then_on(start: Start, resolution: str) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {})
        answer = await proxy.post({"resolution": resolution, "reason": "asked her", "by": "Ann"}, f"{PATH}/{clash.id}/resolve")
        shown = (await proxy.get(f"{PATH}/{clash.id}")).json
        (found,) = await DatabaseClashes(proxy.app.database).find(client="alice", run_id="r", policy="agent")
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert (200, answer.json) == (answer.status, shown)
    assert ("resolved", resolution, "asked her", "Ann", 1) == (
        found.status,
        found.resolution,
        found.reason,
        found.resolved_by,
        found.version,
    )
    assert [(1, resolution, "Ann")] == [(d["number"], d["decision"], d["decided_by"]) for d in shown["decisions"]]
    assert 1 == counters["clashes.operator_resolved_count"]


async def test_a_merged_statement_takes_the_place_of_both(start: Start) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {})
        text = "I live in Köln and work in Bonn"
        answer = await proxy.post({"resolution": "merged", "text": text}, f"{PATH}/{clash.id}/resolve")
    assert ("resolved", "merged", text, "admin") == tuple(answer.json[n] for n in ("status", "resolution", "merged", "resolved_by"))


async def test_what_is_no_clash_is_dismissed(start: Start) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {})
        answer = await proxy.post({"resolution": "dismiss", "reason": "two people"}, f"{PATH}/{clash.id}/resolve")
    assert ("dismissed", "", "two people") == tuple(answer.json[n] for n in ("status", "resolution", "reason"))


async def test_a_resolution_can_be_changed_and_both_are_shown(start: Start) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {"status": "resolved", "resolution": "keep_newer", "reason": "more recent"})
        answer = await proxy.post({"resolution": "keep_older"}, f"{PATH}/{clash.id}/resolve")
    assert [("keep_newer", "policy"), ("keep_older", "admin")] == [(d["decision"], d["decided_by"]) for d in answer.json["decisions"]]


async def test_who_resolves_what_has_changed_since_is_told_and_nothing_changes(start: Start) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {})
        path = f"{PATH}/{clash.id}/resolve"
        first = await proxy.post({**NEWER, "by": "Ann", "version": 0}, path)
        late = await proxy.post({"resolution": "keep_older", "by": "Bob", "version": 0}, path)
        twice = await proxy.post({**NEWER, "by": "Ann", "version": 0}, path)
        again = await proxy.post({"resolution": "dismiss", "by": "Bob", "version": 1}, path)
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert (200, (409, "conflict", "version"), 200, 200) == (first.status, error(late), twice.status, again.status)
    assert "Ann has resolved it since: it has version 1, not 0" == late.json["error"]["message"]
    assert ("keep_newer", ["keep_newer", "dismiss"]) == (twice.json["resolution"], [d["decision"] for d in again.json["decisions"]])
    assert 2 == counters["clashes.operator_resolved_count"]


NO_RESOLUTIONS = [
    (b"{", None),
    ({}, "resolution"),
    ({"resolution": "both"}, "resolution"),
    ({"resolution": "merged"}, "text"),
    ({"resolution": "merged", "text": " "}, "text"),
    ({**NEWER, "text": "x"}, "text"),
    ({**NEWER, "by": "policy"}, "by"),
    ({**NEWER, "by": "user"}, "by"),
    ({**NEWER, "reason": "x" * 4001}, "reason"),
    ({**NEWER, "why": "x"}, "why"),
]


async def test_a_body_that_is_no_resolution_is_refused_and_changes_nothing(start: Start) -> None:
    async with start() as proxy:
        (clash,) = await put(proxy, {})
        refused = [(body, await proxy.post(body, f"{PATH}/{clash.id}/resolve")) for body, _ in NO_RESOLUTIONS]
        assert "open" == (await proxy.get(f"{PATH}/{clash.id}")).json["status"]
    assert [(body, (400, "invalid_request", param)) for body, param in NO_RESOLUTIONS] == [
        (body, error(answer)) for body, answer in refused
    ]


async def test_what_is_not_there_is_not_found(start: Start) -> None:
    async with start() as proxy:
        answers = [await proxy.get(f"{PATH}/cl_none"), await proxy.post(NEWER, f"{PATH}/cl_none/resolve")]
    assert [(404, "not_found", None)] * 2 == [error(answer) for answer in answers]


async def test_only_the_operator_sees_and_resolves(start: Start) -> None:
    async with start(config=KEY) as proxy:
        (clash,) = await put(proxy, {})
        refused = [(await proxy.get(PATH)).status, (await proxy.get(f"{PATH}/{clash.id}")).status]
        refused.append((await proxy.post(NEWER, f"{PATH}/{clash.id}/resolve")).status)
        text = await proxy.post(b'{"resolution": "keep_newer"}', f"{PATH}/{clash.id}/resolve", content_type="text/plain", **ADMIN)
        assert "open" == (await proxy.get(f"{PATH}/{clash.id}", **ADMIN)).json["status"]
        allowed = await proxy.post(NEWER, f"{PATH}/{clash.id}/resolve", **ADMIN)
    assert ([401, 401, 401], 400, 200) == (refused, text.status, allowed.status)
