"""A person's view of quarantine, over HTTP, on the whole application."""

import base64
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.admin.access import MAX_BODY_BYTES
from proxy.app import App
from proxy.config.settings import load_settings
from proxy.ports import QuarantineItem
from proxy.store.quarantine import DatabaseQuarantine
from proxy.testing import serving
from tests.conftest import Answer, Running, Start

PATH = "/groundwire/v1/quarantine"
KEY = "server: {admin_key: s3cret}\n"
ADMIN = {"authorization": "Bearer s3cret"}
WHY = {"reason": "checked by hand"}


async def put(proxy: Running, *items: dict[str, Any]) -> list[QuarantineItem]:
    """What a stage would have put, one second apart."""
    start = time.time() - len(items)
    kept = []
    for number, changes in enumerate(items):
        fields: dict[str, Any] = {
            "client": "alice",
            "run_id": "r",
            "policy": "agent@0123abcd",
            "hash": f"h{number}",
            "kind": "tool_result",
            "role": "tool",
            "type": "wrong_location",
            "reason": "Berlin",
            "content": b"The tower is in Berlin.",
            "detail": {"claims": ["nul \0"]},
        }
        store = DatabaseQuarantine(proxy.app.database, clock=lambda number=number: start + number)  # type: ignore[misc]
        kept.append(await store.put(QuarantineItem(**{**fields, **changes})))
    return kept


async def status_for_the_stage(proxy: Running, item: QuarantineItem, run: str | None = None) -> str | None:
    """What the proxy goes by on the next turn."""
    found = await DatabaseQuarantine(proxy.app.database).find(
        [item.hash], client=item.client, run_id=run or item.run_id, policy=item.policy
    )
    return found[item.hash].status if found else None


def error(answer: Answer) -> tuple[int, str, str | None]:
    return answer.status, answer.json["error"]["code"], answer.json["error"]["param"]


# ---- reading ----


async def test_items_are_listed_newest_first_without_their_content(start: Start) -> None:
    async with start() as proxy:
        first, second = await put(proxy, {}, {"client": "bob"})
        listed = (await proxy.get(PATH)).json
        page = (await proxy.get(PATH + "?limit=1")).json
        rest = (await proxy.get(f"{PATH}?limit=1&after={second.id}")).json
    assert ("list", False, [second.id, first.id]) == (listed["object"], listed["has_more"], [row["id"] for row in listed["data"]])
    assert ([second.id], True, [first.id], False) == (
        [r["id"] for r in page["data"]],
        page["has_more"],
        [r["id"] for r in rest["data"]],
        rest["has_more"],
    )
    expected = json.loads(msgspec.json.encode(second)) | {"object": "quarantine_item"}
    del expected["content"]
    assert expected == listed["data"][0]


FILTERS = [
    ("?status=pending", [2, 0]),
    ("?status=rejected&type=wrong_number", [1]),
    ("?run_id=s", [1]),
    ("?client=bob", [2]),
    ("?policy=strict", [2]),
    ("?status=approved", []),
]


async def test_the_list_can_be_filtered(start: Start) -> None:
    async with start() as proxy:
        await put(proxy, {}, {"run_id": "s", "type": "wrong_number", "status": "rejected"}, {"client": "bob", "policy": "strict"})
        found = {query: [int(row["hash"][1:]) for row in (await proxy.get(PATH + query)).json["data"]] for query, _ in FILTERS}
    assert dict(FILTERS) == found


@pytest.mark.parametrize(
    ("query", "param"), [("?status=waiting", "status"), ("?limit=0", "limit"), ("?limit=²", "limit"), ("?limit=" + "9" * 5000, "limit")]
)
async def test_a_filter_that_cannot_be_is_refused(start: Start, query: str, param: str) -> None:
    async with start() as proxy:
        assert (400, "invalid_request", param) == error(await proxy.get(PATH + query))


async def test_an_item_is_shown_with_its_content_and_its_trail(start: Start) -> None:
    async with start() as proxy:
        text, binary = await put(proxy, {"content": "Füße\0 世界".encode()}, {"content": b"\xff\x00\xed\xa0\x80"})
        shown = [(await proxy.get(f"{PATH}/{item.id}")).json for item in (text, binary)]
    assert ("Füße\0 世界", False, []) == (shown[0]["content"], "content_base64" in shown[0], shown[0]["decisions"])
    assert (None, b"\xff\x00\xed\xa0\x80") == (shown[1]["content"], base64.b64decode(shown[1]["content_base64"]))


async def test_text_that_is_not_unicode_is_shown_as_far_as_json_can(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {"detail": {"claim": "a \ud800 b", "n": 2**70}})
        shown = (await proxy.get(f"{PATH}/{item.id}")).body
    assert {"claim": "a \ufffd b", "n": 2**70} == json.loads(shown)["detail"]


@pytest.mark.parametrize("content", [b"", b"\x00\xff", b"<script>alert(1)</script>", b"\xed\xa0\x80\r\n"])
async def test_its_content_can_be_had_byte_for_byte_as_a_download(start: Start, content: bytes) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {"content": content})
        answer = await proxy.get(f"{PATH}/{item.id}/content")
    assert (content, "application/octet-stream") == (answer.body, answer.headers["content-type"])
    names = ("content-disposition", "x-content-type-options", "cache-control")
    assert ["attachment", "nosniff", "no-store"] == [answer.headers[name] for name in names]


# ---- deciding ----


async def test_an_approved_item_is_let_through_and_the_trail_says_who_and_why(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        before = time.time()
        answer = await proxy.post({"reason": "it is fiction", "by": "Ann"}, f"{PATH}/{item.id}/approve")
        shown = (await proxy.get(f"{PATH}/{item.id}")).json
        assert "approved" == await status_for_the_stage(proxy, item)
    assert (200, "approved", "Ann", "it is fiction", 1) == (
        answer.status,
        *(answer.json[name] for name in ("status", "decided_by", "decision_reason", "version")),
    )
    (decision,) = answer.json["decisions"]
    assert ("decision", 1, "approved", "run", "Ann", "it is fiction") == tuple(
        decision[n] for n in ("object", "number", "decision", "scope", "decided_by", "reason")
    )
    assert before <= decision["decided_at"] <= time.time()
    assert ("approved", [decision]) == (shown["status"], shown["decisions"])


async def test_a_decision_can_be_changed_and_both_are_shown(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        await proxy.post(WHY, f"{PATH}/{item.id}/approve")
        answer = await proxy.post({"reason": "it is wrong after all"}, f"{PATH}/{item.id}/reject")
        assert "rejected" == await status_for_the_stage(proxy, item)
    assert ["approved", "rejected"] == [d["decision"] for d in answer.json["decisions"]]
    assert ("rejected", "admin") == (answer.json["status"], answer.json["decided_by"])


async def test_the_same_decision_twice_is_one(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answers = [(await proxy.post(WHY, f"{PATH}/{item.id}/reject")).json for _ in range(2)]
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert answers[0] == answers[1]
    assert 1 == counters["quarantine.rejected_count"]


async def test_who_decides_on_what_has_changed_since_is_told_and_nothing_changes(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        first = await proxy.post({**WHY, "by": "Ann", "version": 0}, f"{PATH}/{item.id}/approve")
        late = await proxy.post({**WHY, "by": "Bob", "version": 0}, f"{PATH}/{item.id}/reject")
        assert "approved" == await status_for_the_stage(proxy, item)
        again = await proxy.post({**WHY, "by": "Bob", "version": first.json["version"]}, f"{PATH}/{item.id}/reject")
    assert (200, (409, "conflict", "version"), 200) == (first.status, error(late), again.status)
    assert "Ann has approved it since: it has version 1, not 0" == late.json["error"]["message"]


async def test_what_a_stage_has_rejected_can_be_approved(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {"status": "rejected"})
        answer = await proxy.post(WHY, f"{PATH}/{item.id}/approve")
    assert [("rejected", "policy"), ("approved", "admin")] == [(d["decision"], d["decided_by"]) for d in answer.json["decisions"]]


async def test_a_decision_for_all_runs_that_is_taken_back_leaves_each_as_it_was(start: Start) -> None:
    async with start() as proxy:
        own, other = await put(proxy, {"hash": "h"}, {"hash": "h", "run_id": "s"})
        await proxy.post(WHY, f"{PATH}/{own.id}/approve")
        await proxy.post({**WHY, "by": "Bob", "scope": "client"}, f"{PATH}/{other.id}/reject")
        answer = await proxy.post({"by": "Ann", "version": 1}, f"{PATH}/{other.id}/undo")
        late = await proxy.post({"by": "Ann", "version": 1}, f"{PATH}/{other.id}/undo")
        runs = [await status_for_the_stage(proxy, own, run=run) for run in ("r", "s", "another")]
    assert (200, "pending", "takes back: rejected by Bob") == (answer.status, *(answer.json[n] for n in ("status", "decision_reason")))
    assert (["approved", "pending", None], (409, "conflict", "version")) == (runs, error(late))


@pytest.mark.parametrize(("scope", "expected"), [("run", None), ("client", "approved")])
async def test_a_decision_goes_as_far_as_its_scope(start: Start, scope: str, expected: str | None) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answer = await proxy.post({**WHY, "scope": scope}, f"{PATH}/{item.id}/approve")
        assert expected == await status_for_the_stage(proxy, item, run="another")
    assert scope == answer.json["scope"]


async def test_a_decision_outlives_the_server(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        await proxy.post(WHY, f"{PATH}/{item.id}/approve")
        again = App(load_settings(Path(proxy.app.settings.folder) / "config.yaml", {}))
        async with serving(again):
            found = await DatabaseQuarantine(again.database).find(["h0"], client="alice", run_id="r", policy="agent")
    assert "approved" == found["h0"].status


async def test_what_waits_is_counted_in_the_figures(start: Start) -> None:
    async with start() as proxy:
        items = await put(proxy, {}, {}, {})
        await proxy.post(WHY, f"{PATH}/{items[0].id}/approve")
        figures = (await proxy.get("/groundwire/v1/metrics")).json
    assert {"pending": 2, "approved": 1, "rejected": 0} == figures["quarantine"]
    assert 1 == figures["counters"]["quarantine.approved_count"]


# ---- what is refused ----


NO_DECISIONS = [
    (b"", None),
    (b"{", None),
    (b'{"reason": "\xff"}', None),
    (b"[]", None),
    ({}, "reason"),
    ({"reason": ""}, "reason"),
    ({"reason": " \n"}, "reason"),
    ({"reason": "x" * 4001}, "reason"),
    ({"reason": 1}, "reason"),
    ({**WHY, "by": ""}, "by"),
    ({**WHY, "by": "Policy "}, "by"),
    ({**WHY, "by": "x" * 201}, "by"),
    ({**WHY, "scope": "world"}, "scope"),
    ({**WHY, "until": 5}, "until"),
]


async def test_a_body_that_is_no_decision_is_refused_and_changes_nothing(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        refused = [(body, (await proxy.post(body, f"{PATH}/{item.id}/approve"))) for body, _ in NO_DECISIONS]
        assert ("pending", []) == (
            await status_for_the_stage(proxy, item),
            (await proxy.get(f"{PATH}/{item.id}")).json["decisions"],
        )
    assert [(body, (400, "invalid_request", param)) for body, param in NO_DECISIONS] == [(body, error(answer)) for body, answer in refused]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp"])
async def test_what_a_form_could_send_is_refused(start: Start, content_type: str) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answer = await proxy.post(b'{"reason": "x"}', f"{PATH}/{item.id}/approve", content_type=content_type)
        assert "pending" == await status_for_the_stage(proxy, item)
    assert (400, "invalid_request", "content-type") == error(answer)


async def test_json_may_name_its_charset(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answer = await proxy.post(b'{"reason": "x"}', f"{PATH}/{item.id}/approve", content_type="Application/JSON; charset=utf-8")
    assert 200 == answer.status


async def test_another_sites_page_is_refused(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answer = await proxy.post(WHY, f"{PATH}/{item.id}/approve", origin="https://evil.example")
        assert "pending" == await status_for_the_stage(proxy, item)
    assert (403, "policy_not_allowed", None) == error(answer)


async def test_a_body_without_end_is_refused(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        answer = await proxy.post(b" " * (MAX_BODY_BYTES + 1), f"{PATH}/{item.id}/approve")
    assert (413, "request_too_large", None) == error(answer)


async def test_what_is_not_there_is_not_found(start: Start) -> None:
    async with start() as proxy:
        answers = [await proxy.get(f"{PATH}/qr_none"), await proxy.get(f"{PATH}/qr_none/content")]
        answers += [await proxy.post(WHY, f"{PATH}/qr_none/{verb}") for verb in ("approve", "reject", "forget")]
        answers += [await proxy.get(f"{PATH}/qr_none/approve")]
    assert [(404, "not_found", None)] * 6 == [error(answer) for answer in answers]


async def test_only_the_operator_sees_and_decides(start: Start) -> None:
    async with start(config=KEY) as proxy:
        (item,) = await put(proxy, {})
        paths = [PATH, f"{PATH}/{item.id}", f"{PATH}/{item.id}/content"]
        refused = [(await proxy.get(path)).status for path in paths]
        refused += [(await proxy.post(WHY, f"{PATH}/{item.id}/{verb}")).status for verb in ("approve", "reject")]
        assert "pending" == await status_for_the_stage(proxy, item)
        allowed = [(await proxy.get(path, **ADMIN)).status for path in paths]
        allowed += [(await proxy.post(WHY, f"{PATH}/{item.id}/{verb}", **ADMIN)).status for verb in ("approve", "reject")]
    assert ([401] * 5, [200] * 5) == (refused, allowed)


async def test_a_store_that_is_away_is_said(start: Start) -> None:
    async with start() as proxy:
        (item,) = await put(proxy, {})
        await proxy.app.database.stop()
        answers = [await proxy.get(PATH), await proxy.post(WHY, f"{PATH}/{item.id}/approve")]
        figures = await proxy.get("/groundwire/v1/metrics")
    assert [(503, "overloaded", None)] * 2 == [error(answer) for answer in answers]
    assert (200, None) == (figures.status, figures.json["quarantine"])
