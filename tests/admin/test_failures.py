"""A person's view of failure records, over HTTP, on the whole application."""

import json
import time
from typing import Any

import msgspec
import pytest

from proxy.ports import FailureRecord
from proxy.store.failures import DatabaseFailures
from tests.conftest import Answer, Running, Start
from tests.store.test_failures import STEP, event, occurred

PATH = "/groundwire/v1/failures"
KEY = "server: {admin_key: s3cret}\n"
ADMIN = {"authorization": "Bearer s3cret"}


async def happen(proxy: Running, *turns: list[Any], **where: str) -> list[FailureRecord]:
    """What a stage would have told, one second apart; the records of the last turn."""
    start = time.time() - len(turns)
    for number, turn in enumerate(turns):
        store = DatabaseFailures(proxy.app.database, clock=lambda number=number: start + number)  # type: ignore[misc]
        kept = await store.apply(turn, **{**STEP, **where})
    return kept


def error(answer: Answer) -> tuple[int, str, str | None]:
    return answer.status, answer.json["error"]["code"], answer.json["error"]["param"]


def shown(record: FailureRecord) -> dict[str, Any]:
    """As the interface shows it."""
    return {"object": "failure", "failure_id": record.id, **json.loads(msgspec.json.encode(record))}


async def test_failures_are_listed_newest_first_with_all_their_fields(start: Start) -> None:
    async with start() as proxy:
        first, second = await happen(proxy, [occurred("a")], [occurred("b")], [occurred("a", "c2"), occurred("b", "c2")])
        listed = (await proxy.get(PATH)).json
        page = (await proxy.get(PATH + "?limit=1")).json
        rest = (await proxy.get(f"{PATH}?limit=1&after={second.id}")).json
        one = (await proxy.get(f"{PATH}/{first.id}")).json
    assert {"object": "list", "data": [shown(second), shown(first)], "has_more": False} == listed
    assert ([second.id], True, [first.id], False) == (
        [row["id"] for row in page["data"]],
        page["has_more"],
        [row["id"] for row in rest["data"]],
        rest["has_more"],
    )
    assert shown(first) == one


FILTERS = [
    ("", "cba"),
    ("?run_id=r", "ba"),
    ("?run_id=r&status=active", "b"),
    ("?client=bob", "c"),
    ("?policy=strict", "c"),
    ("?severity=low", "b"),
    ("?signal_type=loop&code=same_call", "b"),
    ("?subject=other", "a"),
    ("?status=superseded", ""),
]


async def test_the_list_can_be_filtered(start: Start) -> None:
    async with start() as proxy:
        await happen(proxy, [occurred("a", subject="other"), event("resolved", "a")])
        await happen(proxy, [occurred("b", signal_type="loop", code="same_call", severity="low")])
        await happen(proxy, [occurred("c")], client="bob", run_id="s", policy="strict@00000000")
        found = {query: "".join(row["fingerprint"] for row in (await proxy.get(PATH + query)).json["data"]) for query, _ in FILTERS}
    assert dict(FILTERS) == found


@pytest.mark.parametrize("name", ["status", "signal_type", "severity", "limit"])
async def test_a_filter_that_cannot_be_is_refused(start: Start, name: str) -> None:
    async with start() as proxy:
        assert (400, "invalid_request", name) == error(await proxy.get(f"{PATH}?{name}=open"))


async def test_every_revision_is_shown_the_latest_first(start: Start) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred()], [event("injected")], [event("resolved")])
        listed = (await proxy.get(f"{PATH}/{record.id}/revisions?limit=2")).json
        rest = (await proxy.get(f"{PATH}/{record.id}/revisions?limit=2&after={listed['data'][-1]['id']}")).json
    rows = [*listed["data"], *rest["data"]]
    assert [(3, "resolved", "resolved", 1), (2, "injected", "active", 0), (1, "occurred", "active", 0)] == [
        (row["revision"], row["event"], row["status"], row["helpful_count"]) for row in rows
    ]
    assert (True, False, {("failure.revision", record.id)}) == (
        listed["has_more"],
        rest["has_more"],
        {(row["object"], row["failure_id"]) for row in rows},
    )
    assert 3 == len({row["id"] for row in rows})


@pytest.mark.parametrize(
    ("body", "status"), [({}, "resolved"), ({"status": "resolved"}, "resolved"), ({"status": "superseded"}, "superseded")]
)
async def test_a_person_sets_the_status_and_it_counts_from_then_on(start: Start, body: dict[str, str], status: str) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred()])
        answer = await proxy.post({**body, "reason": "tool repaired", "by": "Ann"}, f"{PATH}/{record.id}/resolve")
        again = await proxy.post({**body, "reason": "tool repaired", "by": "Ann"}, f"{PATH}/{record.id}/resolve")
        found = (await proxy.get(f"{PATH}/{record.id}")).json
        relevant = await DatabaseFailures(proxy.app.database).relevant(client="alice", run_id="r", fingerprints=["f1"], subjects=[])
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert (200, found, found) == (answer.status, answer.json, again.json)
    assert (status, "tool repaired", "Ann", 2) == tuple(found[name] for name in ("status", "reason", "by", "revision"))
    assert ([], 1) == (relevant, counters["failures.operator_resolved_count"])


async def test_a_person_opens_it_again(start: Start) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred(), event("resolved")])
        answer = await proxy.post({"status": "active"}, f"{PATH}/{record.id}/resolve")
    assert ("active", "reopened", "admin") == tuple(answer.json[name] for name in ("status", "event", "by"))


async def test_a_person_says_what_helped_and_what_harmed(start: Start) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred()])
        for helpful in (True, True, False):
            answer = await proxy.post({"helpful": helpful, "by": "Ann"}, f"{PATH}/{record.id}/feedback")
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert (200, 2, 1, "harmful", "Ann", 4) == (
        answer.status,
        *(answer.json[name] for name in ("helpful_count", "harmful_count", "event", "by", "revision")),
    )
    assert 3 == counters["failures.operator_feedback_count"]


async def test_with_an_idempotency_key_feedback_counts_once(start: Start) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred()])
        answers = [await proxy.post({"helpful": True}, f"{PATH}/{record.id}/feedback", idempotency_key=key) for key in ("x", "x", "y")]
        too_long = await proxy.post({"helpful": True}, f"{PATH}/{record.id}/feedback", idempotency_key="x" * 201)
    assert [1, 1, 2] == [answer.json["helpful_count"] for answer in answers]
    assert (400, "invalid_request", "idempotency-key") == error(too_long)


SOMETHING_ELSE = [
    ("resolve", b"{", None),
    ("resolve", {"status": "open"}, "status"),
    ("resolve", {"by": "policy"}, "by"),
    ("resolve", {"by": " "}, "by"),
    ("resolve", {"reason": "x" * 4001}, "reason"),
    ("resolve", {"why": "x"}, "why"),
    ("feedback", {}, "helpful"),
    ("feedback", {"helpful": "yes"}, "helpful"),
    ("feedback", {"helpful": True, "by": "Policy"}, "by"),
    ("feedback", {"helpful": True, "status": "resolved"}, "status"),
]


async def test_a_body_that_says_something_else_is_refused_and_changes_nothing(start: Start) -> None:
    async with start() as proxy:
        (record,) = await happen(proxy, [occurred()])
        refused = [(path, body, await proxy.post(body, f"{PATH}/{record.id}/{path}")) for path, body, _ in SOMETHING_ELSE]
        assert shown(record) == (await proxy.get(f"{PATH}/{record.id}")).json
    expected = [(path, body, (400, "invalid_request", param)) for path, body, param in SOMETHING_ELSE]
    assert expected == [(path, body, error(answer)) for path, body, answer in refused]


async def test_what_is_not_there_is_not_found(start: Start) -> None:
    async with start() as proxy:
        answers = [await proxy.get(f"{PATH}/fl_none"), await proxy.get(f"{PATH}/fl_none/revisions")]
        answers += [await proxy.post({"helpful": True}, f"{PATH}/fl_none/feedback"), await proxy.post({}, f"{PATH}/fl_none/resolve")]
    assert [(404, "not_found", None)] * 4 == [error(answer) for answer in answers]


async def test_only_the_operator_sees_and_decides(start: Start) -> None:
    async with start(config=KEY) as proxy:
        (record,) = await happen(proxy, [occurred()])
        one = f"{PATH}/{record.id}"
        refused = [(await proxy.get(path)).status for path in (PATH, one, f"{one}/revisions")]
        refused += [(await proxy.post({"helpful": True}, f"{one}/feedback")).status, (await proxy.post({}, f"{one}/resolve")).status]
        text = await proxy.post(b"{}", f"{one}/resolve", content_type="text/plain", **ADMIN)
        assert shown(record) == (await proxy.get(one, **ADMIN)).json
        allowed = await proxy.post({}, f"{one}/resolve", **ADMIN)
    assert ([401] * 5, 400, 200) == (refused, text.status, allowed.status)


async def test_hostile_names_do_not_break_the_answer(start: Start) -> None:
    async with start() as proxy:
        odd = "nul \0 lone \ud800 </script>"
        (record,) = await happen(proxy, [occurred(odd, subject=odd, attempted_action={odd: 2**80})], client=odd, run_id=odd)
        answer = await proxy.get(f"{PATH}/{record.id}")
    assert (200, "nul \ufffd lone \ufffd </script>") == (answer.status, answer.json["subject"])
