"""The dashboard: what waits for a person, what was decided, clashes, and the figures above them."""

import base64
import hashlib
import re

import pytest

from proxy.admin.page import overview
from proxy.admin.review import SHOWN_CHARS
from proxy.metrics import Metrics
from tests.admin.test_clashes import put as put_clashes
from tests.admin.test_quarantine import put as put_items
from tests.conftest import Running, Start

EVIL = "<img src=x onerror=alert(1)>'\" & more"


async def page_of(proxy: Running) -> str:
    answer = await proxy.get("/dashboard")
    assert 200 == answer.status
    return answer.body.decode()


async def test_a_page_without_items_has_neither_lists_nor_script(start: Start) -> None:
    async with start() as proxy:
        page = await page_of(proxy)
    assert not {"<h2>Quarantine</h2>", "<script>"} & set(re.findall(r"<h2>Quarantine</h2>|<script>", page))


async def test_what_waits_is_shown_with_its_content_and_two_buttons(start: Start) -> None:
    async with start() as proxy:
        [item] = await put_items(proxy, {"content": b"The tower is in Berlin."})
        page = await page_of(proxy)
    assert "1 pending, 0 approved, 0 rejected." in page
    assert "<pre>The tower is in Berlin.</pre>" in page
    assert f"data-path='/groundwire/v1/quarantine/{item.id}'" in page
    assert ["approve", "reject"] == re.findall(r"<button value=(\w+)>", page)


async def test_what_was_decided_is_shown_with_who_and_why_and_the_other_button(start: Start) -> None:
    async with start() as proxy:
        [item] = await put_items(proxy, {})
        await proxy.post({"reason": "a typo", "by": "ann"}, f"/groundwire/v1/quarantine/{item.id}/approve")
        page = await page_of(proxy)
    assert "Nothing waits for a decision." in page
    assert re.search(r"<b>approved by ann, [\d-]+ [\d:]+ UTC</b><br>a typo", page)
    assert ["reject"] == re.findall(r"<button value=(\w+)>", page)


async def test_a_clash_is_shown_with_both_statements(start: Start) -> None:
    async with start() as proxy:
        await put_clashes(proxy, {"status": "resolved", "resolution": "keep_newer", "resolved_by": "policy"})
        page = await page_of(proxy)
    assert "<pre>I live in Köln</pre></td><td><pre>I live in Bonn</pre>" in page
    assert ["keep_older", "keep_both", "dismiss"] == re.findall(r"<button value=(\w+)>", page)


@pytest.mark.parametrize("field", ["content", "reason", "source", "type", "client"])
async def test_what_came_from_elsewhere_is_escaped(start: Start, field: str) -> None:
    async with start() as proxy:
        await put_items(proxy, {field: EVIL.encode() if field == "content" else EVIL})
        page = await page_of(proxy)
    assert "<img" not in page
    assert "&lt;img src=x" in page


async def test_a_clashs_words_are_escaped(start: Start) -> None:
    async with start() as proxy:
        await put_clashes(proxy, {"older": {"text": EVIL}, "newer": {"text": EVIL}, "topic": EVIL, "reason": EVIL, "merged": EVIL})
        page = await page_of(proxy)
    assert "<img" not in page


async def test_a_long_content_is_cut(start: Start) -> None:
    async with start() as proxy:
        await put_items(proxy, {"content": b"x" * (SHOWN_CHARS + 1)})
        page = await page_of(proxy)
    assert "x" * SHOWN_CHARS + " …" in page
    assert "x" * (SHOWN_CHARS + 1) not in page


async def test_content_that_is_no_text_does_not_break_the_page(start: Start) -> None:
    async with start() as proxy:
        await put_items(proxy, {"content": b"\xff\xfe"})
        assert "\ufffd\ufffd" in await page_of(proxy)


async def test_the_page_may_run_its_own_script_only(start: Start) -> None:
    async with start() as proxy:
        await put_items(proxy, {})
        answer = await proxy.get("/dashboard")
    (script,) = re.findall(r"<script>(.*?)</script>", answer.body.decode(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = answer.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", f"script-src 'sha256-{digest}'", "connect-src 'self'"} <= set(rules)


def test_the_figures_tell_the_rate_and_the_common_types() -> None:
    metrics = Metrics()
    for name, value in (("checked", 40), ("attempts", 4), ("blocked", 3), ("quarantined", 1), ("alerts", 1)):
        metrics.count(f"poisoning.{name}_count", value)
    metrics.count("poisoning.type_wrong_number_count")
    metrics.count("poisoning.type_wrong_location_count", 3)
    found = metrics.as_json()["poisoning"]
    assert (0.1, {"wrong_location": 3, "wrong_number": 1}) == (found["rate"], found["types"])  # type: ignore[index]
    page = overview([], metrics.as_json())
    assert "4 of 40 new pieces of context were poisoned (10.0%); 3 blocked, 1 quarantined, 0 refused" in page
    assert "most often wrong_location 3, wrong_number 1; 1 alerts" in page


def test_the_figures_tell_who_resolved_clashes() -> None:
    metrics = Metrics()
    for name, value in (("clash.found", 5), ("clash.auto_resolved", 3), ("clash.asked", 2), ("clash.user_resolved", 1)):
        metrics.count(f"{name}_count", value)
    metrics.count("clashes.operator_resolved_count")
    page = overview([], metrics.as_json())
    assert "5 found; 3 resolved by the policy, 1 by users, 1 by operators; users were asked 2 times" in page


def test_without_checks_there_are_no_figures() -> None:
    assert (None, None) == (Metrics().as_json()["poisoning"], Metrics().as_json()["clash"])
