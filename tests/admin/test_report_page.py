"""A period's report as one page: what leads it, that it needs nothing else, that no text from outside is markup, and what it advises."""

import re
from typing import Any

import pytest

from proxy.admin.report_page import advice, report_page
from proxy.admin.reports import figures_of
from proxy.exchange import Usage
from proxy.ports.panels import Bucket
from proxy.store.database import Database
from proxy.store.feedback import DatabaseFeedback, Feedback
from proxy.store.figures import DatabaseFigures
from proxy.store.records import Record
from proxy.store.writer import RecordWriter
from tests.store.conftest import CountingCounters, make_record
from tests.stores import opened

NOW = 1_700_000_000.0
DAY = 86_400.0
HOSTILE = '<script>alert("x")</script>'


def price(upstream: str, model: str, usage: Usage) -> float | None:
    return usage.prompt_tokens * 1e-3 if model == "gpt-4o-mini" else None


async def write(database: Database, *records: Record) -> None:
    writer = RecordWriter(database, CountingCounters())
    for record in records:
        writer.submit(record)
    await writer.flush()


async def page(*records: Record, said: tuple[Feedback, ...] = ()) -> tuple[str, str]:
    async with opened("sqlite://") as database:
        await write(database, *records)
        store = DatabaseFeedback(database, clock=lambda: NOW - 5)
        for one in said:
            await store.put(one)
        return await report_page(database, (), NOW - 7 * DAY, NOW, price=price, source="here")


def record(number: int, outcome: str = "pass", **more: Any) -> Record:
    return make_record(number, created_at=NOW - 100 + number, outcome=outcome, **more)


async def test_it_leads_with_what_nobody_could_decide_and_what_failed() -> None:
    text, html = await page(
        record(1),
        record(2, "unsure"),
        record(3, "upstream_error", status=502, reason="upstream_502"),
        record(4, "block"),
        record(5, "unchecked", reason="unchecked_no_context"),
    )
    names = re.findall(r"<dt>(.*?)</dt>", html)
    assert ["Not decided", "Failed", "Caught", "Held"] == names[:4]
    assert ["Not decided: 2 (1 unsure, 0 before, 1 not checked)", "Failed: 1 (provider 1, checks 0)"] == text.splitlines()[1:3]


async def test_what_keeps_a_prompt_in_shape_is_nothing_that_was_caught() -> None:
    full = {"stage": "budget", "outcome": "warn", "code": "context_usage_high"}
    text, html = await page(
        record(1, "warn", reason="context_usage_high", detail={"verdicts": [full]}), record(2, "warn", reason="claims_contradicted")
    )
    assert "Caught: 1 (blocked 0, 0 before)" in text.splitlines()
    assert re.search(r'<span class="vh">caught 1, other 1, </span>', html)


async def test_judged_are_those_of_which_statements_were_judged() -> None:
    seen = {"facts": {"faithfulness": 1.0}}
    text, _ = await page(
        record(1, detail=seen),
        record(2, "warn", detail={"facts": {"faithfulness": 0.2}}),
        record(3, "block", status=400, reason="context_length_exceeded"),
        record(4, "warn", reason="window_unknown"),
        record(5, "unsure"),
    )
    assert "Held: 1 (every statement held, of 2 judged)" in text.splitlines()


async def test_a_days_bar_has_what_was_not_checked_among_what_nobody_decided() -> None:
    _, html = await page(record(1), record(2, "unchecked", reason="unchecked_no_context"))
    assert re.search(r'<span class="vh">held 1, undecided 1, </span>', html)


def counted(before: int, after: int) -> dict[str, Any]:
    """A detail with Groundwire's own counts of the prompt, as it came and as it was sent."""
    return {"facts": {"context_before": {"used_tokens": before}, "context": {"used_tokens": after}}}


async def test_where_stages_put_in_more_than_they_left_out_nothing_is_said_to_be_saved() -> None:
    text, html = await page(
        record(1, model="gpt-4o-mini", detail=counted(100, 300)),
        record(2, model="gpt-4o-mini", detail=counted(100, 50), upstream="other"),
    )
    assert "Saved: -$0.1500 (-150 prompt tokens, -75%)" in text.splitlines()
    assert ["-$0.2000", "$0.0500"] == re.findall(r'<td class="n">(-?\$0\.[025]+)</td></tr>', html)


async def test_what_many_short_prompts_saved_is_at_the_price_of_short_ones() -> None:
    asked: list[Usage] = []
    async with opened("sqlite://") as database:
        await write(database, *(record(i, model="gpt-4o-mini", detail=counted(400, 100)) for i in range(3)))
        await report_page(database, (), NOW - 7 * DAY, NOW, price=lambda _, __, usage: asked.append(usage))
    assert [Usage(900, 0, calls=3)] == asked


async def test_nothing_was_saved_where_the_provider_only_counts_otherwise() -> None:
    text, _ = await page(record(1, prompt_tokens_before=56, prompt_tokens=114, detail=counted(56, 56)))
    assert "Saved: $0.00 (0 prompt tokens, 0%)" in text.splitlines()


async def test_it_needs_nothing_else_and_runs_nothing() -> None:
    _, html = await page(record(1))
    assert [] == re.findall(r"<(?:script|link|img|iframe)\b|(?:href|src)=|url\(|@import", html)
    assert ["light dark", True, True] == [
        *re.findall(r'name="color-scheme" content="(.*?)"', html),
        "prefers-color-scheme: dark" in html,
        "@media print" in html,
    ]


async def test_what_clients_named_is_no_markup() -> None:
    _, html = await page(record(1, "block", model=HOSTILE, reason=HOSTILE, upstream=HOSTILE, run_id=HOSTILE))
    assert "<script" not in html
    assert "&lt;script&gt;" in html


async def test_a_run_that_a_client_named_is_no_address_of_its_own() -> None:
    text, _ = await page(*(record(i, "error", run_id="1 https://example.com/ 2") for i in range(20)))
    assert "Its time line is at /dashboard/runs/1%20https%3A%2F%2Fexample.com%2F%202." in text


async def test_savings_are_at_the_price_of_each_model_and_what_has_none_is_said() -> None:
    known, unknown = record(1, detail=counted(100, 80)), record(2, model="own-model", detail=counted(100, 80))
    _, html = await page(known, unknown)
    rows = [re.findall(r">([^<>]+)<", row) for row in re.findall(r"<tr>(.*?)</tr>", html) if "openai" in row]
    assert [["20", "$0.0200"], ["20", "–"]] == [row[-2:] for row in rows]


async def test_a_route_without_exchanges_names_those_that_have_some() -> None:
    async with opened("sqlite://") as database:
        await write(database, record(1, route="/rag"), record(2, route=""))
        text, html = await report_page(database, (), NOW - 7 * DAY, NOW, price=price, route="/nope")
        early, _ = await report_page(database, (), NOW - 14 * DAY, NOW - 7 * DAY, price=price, route="/rag")
    assert "No exchanges of route /nope. Routes with exchanges are /, /rag." in text.splitlines()
    assert "No exchanges of route /nope." in html
    assert "No exchanges of route /rag in this time. The last one came on 2023-11-14 22:11." in early.splitlines()


async def test_what_people_said_is_counted_as_precision() -> None:
    given = {"record_id": "gw_1", "client": "a", "policy": "p", "stage": "claims", "label": "warn"}
    said = tuple(Feedback(place=str(i), said="wrong" if i == 0 else "right", **given) for i in range(4))
    _, html = await page(record(1), said=said)
    assert re.search(r"<td><bdi>claims</bdi></td><td class=\"n\">3</td><td class=\"n\">1</td><td class=\"n\">75%</td>", html)


async def test_a_time_without_exchanges_says_so() -> None:
    _, html = await page()
    assert "No exchanges in this time." in html


async def test_a_time_without_exchanges_says_when_the_last_one_came() -> None:
    async with opened("sqlite://") as database:
        await write(database, record(1))
        text, _ = await report_page(database, (), NOW - 14 * DAY, NOW - 7 * DAY, price=price)
    assert re.search(r"^No exchanges in this time\. The last one came on \d{4}-\d\d-\d\d \d\d:\d\d\.$", text.splitlines()[1])


async def test_it_says_what_shadow_mode_would_have_blocked_and_lists_the_newest() -> None:
    plain, _ = await page(record(1))
    text, _ = await page(record(1, would="block", reason="because"), record(2, would="edit"), record(3, would="nothing"))
    lines = [line for line in text.splitlines() if line.startswith(("Shadow", "- 2"))]
    assert ("hadow" in plain, "Shadow mode: would have blocked 1 of 3, edit 1; the newest:", 2) == (False, lines[0], len(lines))
    assert lines[1].endswith("because")


async def test_models_are_counted_one_by_one() -> None:
    async with opened("sqlite://") as database:
        await write(database, record(1), record(2), record(3, model="b", cost_usd=0.5), record(4, upstream=""))
        found = await DatabaseFigures(database).by_model(0.0, NOW)
    assert [("gpt-4o-mini", 2, 160, 14, None), ("b", 1, 80, 7, 0.5)] == [
        (one["model"], one["exchanges"], one["prompt_tokens"], one["completion_tokens"], one["cost_usd"]) for one in found
    ]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdicts": {"pass": 100}, "exchanges": 100, "priced": 100}, []),
        ({"judged": {"pass": 60, "unsure": 40}, "feedback": {"claims:right": 9}}, ["40% of judged answers were left undecided."]),
        ({"judged": {"pass": 10, "unsure": 9}}, []),
        ({"verdicts": {"pass": 60, "unsure": 40}, "judged": {"pass": 60}, "feedback": {"claims:right": 9}}, []),
        ({"feedback": {"claims:right": 5, "claims:wrong": 5}}, ["People called 5 of 10 findings of claims wrong."]),
        ({"feedback": {"claims:right": 2, "claims:wrong": 2}}, []),
        (
            {"verdicts": {"block": 30, "pass": 70}, "exchanges": 100, "feedback": {"claims:right": 9}},
            ["30% of all exchanges were blocked."],
        ),
        ({"verdicts": {"pass": 100, "error": 3}, "exchanges": 103}, ["3 checks could not run."]),
        ({"verdicts": {"pass": 90, "warn": 10}, "exchanges": 100}, ["Nobody has said of a finding whether it is right."]),
    ],
)
def test_it_advises_what_the_figures_show(changes: dict[str, Any], expected: list[str]) -> None:
    now = figures_of(Bucket(start=0.0, seconds=60, **changes)) | {"runs": {"top": []}}
    assert expected == [one.seen for one in advice(now)]
