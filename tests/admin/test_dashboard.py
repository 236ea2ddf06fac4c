"""The pages, as a browser without scripts gets them: what they show, what they escape, what they say where there is nothing."""

import csv
import io
import json
import re
import time
from typing import Any

import pytest
from msgspec.structs import replace

from proxy.admin.dashboard.lists import EXCHANGES_CUTS, LATEST
from proxy.admin.dashboard.panels import report
from proxy.admin.dashboard.rendering import STATIC, Cut, send_in_parts
from proxy.errors import StoreUnavailable
from proxy.ports import FailureEvent
from proxy.ports.failures import Failure
from proxy.ports.review import ClashRecord, QuarantineItem
from proxy.store.clashes import DatabaseClashes
from proxy.store.failures import DatabaseFailures
from proxy.store.quarantine import DatabaseQuarantine
from tests.admin.pages import PANELS, Browser, Page, risky, rules
from tests.browser import making
from tests.conftest import Running, Start

PAGES = (
    "",
    "/exchanges",
    "/quarantine",
    "/clashes",
    "/runs/research-0",
    "?span=week",
    "?since=2026-01-01T00:00&until=2026-01-02T00:00",
    "/exchanges?verdict=warn&within=1h",
    "/compare?by=route",
)


async def filled(proxy: Running, *more: Any, number: int = 3) -> None:
    """Some exchanges of the last hours, and `more`."""
    await making.keep_many(proxy.app.database, number, over_s=3600.0)
    await making.keep(proxy.app.database, more)


# ---- nothing yet ----


EMPTY = [
    ("", "No exchange yet."),
    ("/exchanges", "No exchange yet."),
    ("/exchanges?run=x", "No exchange is like that."),
    ("/quarantine", "Nothing waits for a decision."),
    ("/quarantine?status=approved", "Nothing is approved."),
    ("/clashes", "No clash is open."),
    ("/failures", "No failure is active."),
    ("/runs/unknown", "No exchange of this run is known."),
]


async def test_an_empty_page_says_so(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        pages = {path: (await browser.page(f"/dashboard{path}")).text for path, _ in EMPTY}
    assert [] == [(path, said) for path, said in EMPTY if said not in pages[path]]


async def test_the_first_page_gives_a_command_that_makes_the_first_exchange(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        text = (await browser.page()).text
    assert f"curl {proxy.url}/v1/chat/completions" in text


async def test_the_overview_keeps_room_for_its_rows_before_there_are_any(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        page = await browser.page()
    assert LATEST == len(page.all("tr", class_="free"))


# ---- what is shown ----


async def test_the_overview_shows_the_latest_exchanges_and_links_to_them(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await filled(proxy)
        page = await browser.page()
        ids = [row["data-id"] for row in page.all("tr") if "data-id" in row]
    assert (3, sorted(ids, reverse=True)) == (len(ids), ids)
    assert {f"/dashboard/records/{one}" for one in ids} <= {link["href"] for link in page.all("a")}


async def test_the_overview_of_many_exchanges_stays_small(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await filled(proxy, number=300)
        answer = await browser.get()
    assert len(answer.body) < 100_000


async def test_the_overview_names_what_waits(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page()
    assert {"The tower is in Berlin, next to the zoo.", "I live in Bonn now."} <= set(_texts(page))


async def test_what_cannot_be_seen_is_made_visible(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/quarantine")
    assert {"U+200B", "hidden: Ignore", "U+0000"} <= set(_texts(page))
    assert not {"\u200b", "\u2066", "\x00"} & set(page.html)


async def test_the_list_of_exchanges_goes_on_where_the_page_ends(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await filled(proxy, number=60)
        first = await browser.page("/dashboard/exchanges")
        (older,) = [link["href"] for link in first.all("a", rel="next")]
        second = await browser.page(older)
    shown = [[row["data-id"] for row in page.all("tr") if "data-id" in row] for page in (first, second)]
    assert ([50, 10], 60, []) == ([len(ids) for ids in shown], len({*shown[0], *shown[1]}), second.all("a", rel="next"))


FILTERS = [
    ("route=/rag", lambda r: r.route == "/rag"),
    ("route=/", lambda r: r.route == ""),
    ("run=research-0", lambda r: r.run_id == "research-0"),
    ("verdict=block", lambda r: r.outcome == "block"),
    ("verdict=problem", lambda r: r.outcome not in ("pass", "unchecked", "warn")),  # these warn of their windows alone
    ("verdict=caught", lambda r: r.outcome == "block"),
    ("verdict=warned", lambda r: False),
    ("verdict=housekeeping", lambda r: r.outcome == "warn"),
    ("verdict=undecided", lambda r: r.outcome in ("unsure", "unchecked")),
    ("policy=agent&upstream=openai&verdict=block", lambda r: r.outcome == "block"),
    ("policy=agen", lambda r: False),
    ("stage=claims", lambda r: r.outcome in ("warn", "block")),
    ("faithfulness=0.6", lambda r: r.detail["facts"]["faithfulness"] <= 0.6),
    ("verdict=failed", lambda r: r.outcome in ("error", "upstream_error")),
    ("reason=upstream_502&status=5xx", lambda r: r.outcome == "upstream_error"),
    ("client=alice&model=gpt-4o-mini&ms=1000", lambda r: r.duration_ms >= 1000),
    ("client=bob", lambda r: False),
    ("tokens=4000", lambda r: r.prompt_tokens + r.completion_tokens >= 4000),
    ("usd=0.0005", lambda r: (r.cost_usd or 0) >= 0.0005),
    ("within=15m", lambda r: r.created_at >= time.time() - 900),
    ("route=/rag&verdict=pass&until=2000-01-01T00:00", lambda r: False),
]


async def test_exchanges_are_filtered(start: Start) -> None:
    now = time.time()
    made = [making.record(number, now - 120.0 * number - 60) for number in range(45)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        pages = {query: await browser.page(f"/dashboard/exchanges?{query}") for query, _ in FILTERS}
    assert {query: {r.id for r in made if expected(r)} for query, expected in FILTERS} == {
        query: {row["data-id"] for row in page.all("tr") if "data-id" in row} for query, page in pages.items()
    }


async def test_exchanges_are_sorted_by_faithfulness_and_a_view_has_a_name(start: Start) -> None:
    now = time.time()
    made = [making.record(number, now - 120.0 * number - 60) for number in range(20)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/exchanges?sort=faithfulness&view=Look+at+<these>")
        refused = await browser.get("/dashboard/exchanges?sort=cost")
    expected = [r.id for r in sorted(made, key=lambda r: (r.detail["facts"]["faithfulness"], r.id))]
    assert expected == [row["data-id"] for row in page.all("tr") if "data-id" in row]
    assert "The 20 least faithful of the newest 20 exchanges like that with a faithfulness" in page.text
    assert (True, 400) == ("<h1><bdi>Look at &lt;these&gt;</bdi></h1>" in page.html, refused.status)


async def test_two_policies_are_compared_over_the_same_time(start: Start) -> None:
    now = time.time()
    made = [making.record(n, now - 60.0 * n - 60, policy=f"{name}@1", outcome=outcome) for n, (name, outcome) in enumerate(SIDES)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/compare?a=rag&b=strict")
        usual = await browser.page("/dashboard/compare")
        refused = await browser.get("/dashboard/compare?by=client")
    rows = re.findall(r'<th scope="row">([^<]*)</th><td class="n">([^<]*)</td><td class="n">([^<]*)</td>', page.html)
    assert [("Exchanges", "4", "2"), ("Not decided", "50%", "0%"), ("Failed", "0%", "50%")] == rows[:3]
    assert (["rag", "strict"], 400) == ([field["value"] for name in "ab" for field in usual.all("input", name=name)], refused.status)


SIDES = [*[("rag", outcome) for outcome in ("pass", "unsure", "unchecked", "block")], ("strict", "pass"), ("strict", "upstream_error")]


async def test_the_two_that_had_most_exchanges_are_compared_first_and_groundwires_own_answers_are_no_upstream(start: Start) -> None:
    upstreams = ["groundwire", "groundwire", "groundwire", "main", "other", "other"]
    made = [making.record(n, time.time() - 60.0 * n - 60, policy="rag@1", upstream=name) for n, name in enumerate(upstreams)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/compare?by=upstream")
    assert ["other", "main"] == [field["value"] for name in "ab" for field in page.all("input", name=name)]


async def test_the_overview_leads_with_what_nobody_decided_and_hides_what_is_empty(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.admin.dashboard.routes._FIGURES_WAIT_S", 10.0)  # on a busy machine they come by a second request else
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, [making.record(1, time.time() - 60, outcome="unsure")])
        page = await browser.page()
    tiles = [tile["data-tile"] for tile in page.all("div") if "data-tile" in tile]
    hidden = {panel["data-panel"]: "hidden" in panel for panel in page.all("section") if "data-panel" in panel}
    assert ["undecided", "failed", "warned", "refused", "held"] == tiles[:5]
    assert ("tile none", False, True) == (page.all("div", data_tile="held")[0]["class"], hidden["undecided"], hidden["feedback"])


async def test_a_search_that_takes_its_time_lets_what_is_above_its_list_go_first(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/dashboard/exchanges?run=research-0&model=gpt-4o-mini"
    async with start() as proxy, Browser(proxy) as browser:
        await filled(proxy, number=5)
        whole = (await browser.page(path)).html
        monkeypatch.setattr("proxy.admin.dashboard.lists.EXCHANGES_CUTS", tuple(replace(one, wait_s=0.0) for one in EXCHANGES_CUTS))
        late = (await browser.page(path)).html
    above, looking, below = late.partition('<p class="looking" role="status">Looking through the exchanges …</p>')
    assert (True, True) == (bool(looking), '<form method="get" action="/dashboard/exchanges"' in above)
    assert below == whole[whole.index('<section id="found"') :]


async def test_a_search_that_fails_late_says_so_on_its_page() -> None:
    async def failing() -> str:
        raise StoreUnavailable("the store is away")

    nothing = '<main><form></form><section id="found">none</section></main><footer></footer>'
    said = "".join([part async for part in send_in_parts(nothing, failing(), (Cut('<section id="found"', meanwhile="<p>wait</p>"),))])
    assert said.startswith('<main><form></form><section id="found" class="card">'), said
    assert said.endswith("</section></main><footer></footer>")
    assert ("the store is away" in said, "none" in said) == (True, False)


async def test_an_exchange_that_the_provider_failed_is_never_shown_as_passed(start: Start) -> None:
    made = [
        making.record(1, time.time(), status=502, outcome="skipped"),
        making.record(2, time.time(), status=502, outcome="upstream_error"),
    ]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/exchanges")
    badges = [item["class"] for item in page.all("span") if item.get("class", "").startswith("badge ")]
    assert ["badge upstream_error"] * 2 == badges
    assert 2 == len(page.all("span", class_="code wrong"))


async def test_what_a_filter_leaves_out_is_no_news(start: Start) -> None:
    made = [making.record(1, time.time() - 9, model="old"), making.record(2, time.time())]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/exchanges?model=old")
    assert [made[1].id] == [body["data-after"] for body in page.all("footer")]


async def test_words_of_a_question_lead_to_its_exchange(start: Start) -> None:
    made = [making.record(1, time.time()), making.whole(2, time.time())]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        page = await browser.page("/dashboard/exchanges?q=eiffel+%22who+built+it%22")
    assert [made[1].id] == [row["data-id"] for row in page.all("tr") if "data-id" in row]
    assert making.QUESTION in page.text


async def test_a_filtered_list_is_downloaded_for_a_spreadsheet_and_for_a_program(start: Start) -> None:
    made = [making.record(number, time.time() - number, model="=1+1" if number else "m") for number in range(3)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        table = await browser.get("/dashboard/exchanges/export?format=csv&route=/rag")
        lines = await browser.get("/dashboard/exchanges/export?format=jsonl")
        refused = await browser.get("/dashboard/exchanges/export?format=xls")
    (row,) = csv.DictReader(io.StringIO(table.body.decode()))
    assert (made[1].id, "'=1+1", "/rag") == (row["id"], row["model"], row["route"])
    assert [one.id for one in made] == [json.loads(line)["id"] for line in lines.body.splitlines()]
    assert 400 == refused.status


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("a\n@SUM(1)", "a\n'@SUM(1)"),
        ('a;"=1+1;', "a;\"'=1+1;"),
        ("＝1+1", "'＝1+1"),
        ("\tx", "'\tx"),
        ("a; well-known = 1+1", "a; well-known = 1+1"),
    ],
)
async def test_no_part_of_a_text_becomes_a_formula_of_a_spreadsheet(start: Start, said: str, written: str) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, [making.record(1, time.time(), run_id=said)])
        table = await browser.get("/dashboard/exchanges/export?format=csv")
    (row,) = csv.DictReader(io.StringIO(table.body.decode(), newline=""))
    assert written == row["run_id"]


@pytest.mark.parametrize(
    "path",
    [
        "/exchanges?verdict=lost",
        "/exchanges?status=6",
        "/exchanges?usd=-1",
        "/exchanges?after=x",
        "/exchanges?within=2y",
        "/exchanges?since=now",
        "?span=year",
        "/quarantine?status=x",
    ],
)
async def test_a_query_that_makes_no_sense_is_refused_with_a_page(start: Start, path: str) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        answer = await browser.get(f"/dashboard{path}")
    assert (400, True) == (answer.status, "expected" in Page(answer.body.decode()).text)


@pytest.mark.parametrize("path", ["/records/gw_none", "/nothing", "/quarantine/qr_none"])
async def test_what_is_not_there_is_a_page_too(start: Start, path: str) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        answer = await browser.get(f"/dashboard{path}")
    assert (404, True) == (answer.status, b"<h1>Not found</h1>" in answer.body)


async def test_a_store_that_is_away_is_said(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await proxy.app.database.stop()
        answer = await browser.get()
    assert (503, True) == (answer.status, "The store is away" in answer.body.decode())


async def test_shadow_mode_is_told_where_one_looks_with_the_way_to_its_list(start: Start) -> None:
    made = [making.record(i, time.time() - i, would="block" if i < 2 else "nothing") for i in range(5)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        proxy.app._admin = making.admin_with(proxy.app, shadow=("/try",))
        await browser.get("/dashboard/figures")  # the page does not wait for them
        page = await browser.page()
        (link,) = [one["href"] for one in page.all("a") if "verdict=would" in one.get("href", "")]
        listed = await browser.page(link)
    assert "Shadow mode on /try: judged, and left as it is. Would have acted on 2 of 5 exchanges. refused 2 Show them" in page.text
    assert {one.id for one in made[:2]} == {row["data-id"] for row in listed.all("tr") if "data-id" in row}


# ---- one exchange ----


async def record_page(start: Start, record: Any) -> Page:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, [record])
        return await browser.page(f"/dashboard/records/{record.id}")


async def test_an_answers_sentences_lead_to_their_evidence(start: Start) -> None:
    page = await record_page(start, making.whole(1, 1e9))
    marks = {link["href"]: link["class"] for link in page.all("a") if link.get("class", "").startswith("said ")}
    assert {
        "#claim-2": "said supported",
        "#claim-3": "said supported",
        "#claim-4": "said contradicted",
        "#claim-5": "said unsupported",
    } == marks
    assert set(marks) <= {f"#{item.get('id')}" for item in page.all("li")}


async def test_a_verdict_is_told_in_words_too(start: Start) -> None:
    page = await record_page(start, making.whole(1, 1e9))
    assert "✕contradicted: It stands in Berlin." in page.text


async def test_the_request_is_shown_as_it_came_and_as_it_went(start: Start) -> None:
    page = await record_page(start, making.whole(1, 1e9))
    assert "6 messages: 2 as it came, 1 changed, 2 left out, 1 put in." in page.text
    assert ["changed", "kept", "removed", "removed", "added", "kept"] == [
        item["class"] for item in page.all("li") if item.get("class") in ("changed", "kept", "removed", "added")
    ]


async def test_what_a_stage_changed_is_told_in_words_and_the_answer_as_it_left(start: Start) -> None:
    call = {"id": "c1", "name": "search_docs", "arguments": '{"limit": 50}'}
    change = {"stage": "reflection", "what": "told failures", "failures": [{"code": "timeout", "subject": "search_docs", "occurrences": 2}]}
    choices = [{"text": "", "tool_calls": [call]}, {"text": "", "refusal": "I may not."}, {"text": ""}]
    page = await record_page(start, making.record(1, 1e9, detail={"delivered": choices, "changes": [change]}))
    assert "reflection told failures: failures code timeout, subject search_docs, occurrences 2" in page.text
    delivered = page.text.partition("What the client got")[2]
    assert [] == [said for said in ("Tool call search_docs", '{"limit": 50}', "I may not.", "It has no text.") if said not in delivered]


async def test_without_bodies_the_page_says_how_to_keep_them(start: Start) -> None:
    page = await record_page(start, making.record(1, 1e9))
    assert 2 == page.text.count("store: {bodies: true}")
    assert "It stands in Berlin." in page.text


NO_MODEL: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"upstream": "groundwire", "outcome": "warn", "detail": {"delivered": [{"text": "I cannot answer this."}]}},
        ["No model was asked: Groundwire answered itself.", "I cannot answer this.", "Nothing was sent, so nothing was counted."],
    ),
    ({"status": 400, "outcome": "block"}, ["There is no answer.", "The request was refused before a model was asked."]),
]


@pytest.mark.parametrize(("fields", "told"), NO_MODEL, ids=["own answer", "refused"])
async def test_where_no_model_was_asked_the_page_says_so(start: Start, fields: dict[str, Any], told: list[str]) -> None:
    made = making.record(1, 1e9, **({"detail": {}} | fields), completion_tokens=None, request_body=b'{"messages": []}')
    page = await record_page(start, made)
    assert [] == [words for words in (*told, "It did not go upstream.") if words not in page.text]
    assert [] == [words for words in ("was not kept", "A stage changed the answer", "as it came.") if words in page.text]


async def test_where_the_provider_gave_no_answer_the_page_says_so(start: Start) -> None:
    made = making.record(1, 1e9, status=429, outcome="upstream_error", detail={}, completion_tokens=None, request_body=b'{"messages": []}')
    page = await record_page(start, made)
    assert [] == [words for words in ("The provider gave none.", "It went upstream as it came.") if words not in page.text]


async def test_each_stages_time_and_verdict_are_shown(start: Start) -> None:
    page = await record_page(start, making.record(1, 1e9))
    assert {"budget", "claims", "tool_rag"} <= set(_texts(page))
    assert "18 ms" in page.text


async def test_what_the_judge_was_asked_is_told(start: Start) -> None:
    use = {"by": "openai/gpt", "asked": 3, "cached": 1, "calls": 1, "ms": 210.0, "input_tokens": 900, "output_tokens": 20, "usd": 0.02}
    page = await record_page(start, making.record(1, 1e9, detail={"facts": {"judge": use}}))
    assert "openai/gpt: 3 asked, 1 known already, 920 tokens, 210 ms, $0.0200" in page.text


async def test_the_headers_are_those_that_the_answer_had(start: Start) -> None:
    async with start(policy="name: b\ndelivery: hold\nstages: [budget: {window: 4000}]\n") as proxy, Browser(proxy) as browser:
        answer = await proxy.post()
        await proxy.record(answer)
        page = await browser.page(f"/dashboard/records/{answer.headers['x-groundwire-id']}")
    sent = {name.lower(): value for name, value in answer.headers.items() if name.lower().startswith("x-groundwire-")}
    texts = _texts(page)
    shown = {name: texts[texts.index(name) + 1] for name in sent}
    assert {name: value for name, value in sent.items() if "overhead" not in name} == {
        n: v for n, v in shown.items() if "overhead" not in n
    }


@pytest.mark.parametrize(
    "detail", [{}, {"verdicts": 3, "facts": [], "timings_ms": {"x": "y"}, "changes": {}}, {"facts": {"quality": "high", "citations": 7}}]
)
async def test_a_detail_of_another_version_does_not_break_the_page(start: Start, detail: Any) -> None:
    assert "Headers" in (await record_page(start, making.record(1, 1e9, detail=detail, request_body=b"no json", answer_body=b"[1]"))).text


# ---- a run ----


async def test_a_runs_failures_stand_between_its_exchanges(start: Start) -> None:
    now = time.time()
    exchanges = [making.record(number, now - 100 + number, run_id="r/1") for number in (0, 10)]
    failure = {
        "id": "f_1",
        "signal_type": "tool_error",
        "code": "tool_timeout",
        "severity": "HIGH",
        "subject": "search <b>timed</b> out",
        "status": "active",
        "occurrence_count": 3,
        "created_at": now - 95,
        "last_seen_at": now - 91,
        "recommended_adjustment": {"type": "cap_output", "max_results": 3},
    }

    async def failures_of_run(run_id: str) -> list[dict[str, Any]]:
        return [failure] if run_id == "r/1" else []

    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, exchanges)
        proxy.app._admin = making.admin_with(proxy.app, failures_of_run=failures_of_run)
        page = await browser.page("/dashboard/runs/r%2F1")
    kinds = [item["class"].partition(" ")[0] for item in page.all("li") if item.get("class", "").startswith(("exchange ", "failure "))]
    assert ["exchange", "failure", "exchange"] == kinds
    assert "search <b>timed</b> out" in page.text
    assert "Recommended: cap output: max results 3" in page.text


async def test_a_run_tells_what_was_asked_what_was_changed_and_what_was_answered(start: Start) -> None:
    now = time.time()
    told = {"run_id": "r", "question": "How tall is it?", "reason": "context_usage_high"}
    made = [making.record(1, now - 9, answer="calls search", **told), making.record(2, now - 5, answer="330 metres.", **told)]
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, made)
        text = (await browser.page("/dashboard/runs/r")).text
    assert 1 == text.count("Asked: How tall is it?")
    assert text.index("Answered: calls search") < text.index("Answered: 330 metres.")
    assert "Changed: the tools, older messages" in text
    assert "the context window is nearly full" in text


async def test_a_run_is_a_tree_of_turns_stages_and_tools_with_their_times(start: Start) -> None:
    now = time.time()
    answer = json.dumps({"choices": [{"tool_calls": [{"name": "search_documents", "arguments": "{}"}]}]}).encode()
    first = making.record(1, now - 9, run_id="r", duration_ms=1000.0, overhead_ms=100.0, answer_body=answer)
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, [first, making.record(2, now - 5, run_id="r")])
        text = (await browser.page("/dashboard/runs/r")).text
    tree = text[text.index("On the request") : text.index("until the next turn")]
    order = ("budget", "0.65 ms", "The provider 900 ms", "On the answer", "claims", "18 ms", "Tool search_documents", "then 3.0 s")
    assert sorted(order, key=tree.index) == list(order)


async def test_failures_are_listed_and_a_person_resolves_one(start: Start) -> None:
    failure = Failure(
        phase="tool",
        signal_type="tool_error",
        code="timeout",
        severity="high",
        subject="search",
        attempted_action={},
        observed_outcome={},
        recommended_adjustment={"type": "cap_output", "max_results": 3},
        fingerprint="f",
        cause="c",
    )
    async with start() as proxy, Browser(proxy) as browser:
        event = FailureEvent(kind="occurred", fingerprint="f", cause="c", failure=failure)
        store = DatabaseFailures(proxy.app.database)
        await store.apply([event], client="alice", run_id="r", policy="agent", step_id="1", record_id="gw_1")
        page = await browser.page("/dashboard/failures?signal=tool_error&run=r")
        form = page.all("form", class_="decide")[0]["action"]
        fields = {"csrf": page.csrf, "status": "active", "by": "ann", "reason": "fixed"}
        helped = await browser.post(form, fields | {"decision": "helped"})
        answer = await browser.post(form, fields | {"decision": "resolved"})
        refused = await browser.post(form, fields | {"decision": "burn"})
        after = (await browser.page("/dashboard/failures?status=resolved")).text
    assert ("A tool failed" in page.text, "What the agent is told to do: cap output: max results 3" in page.text) == (True, True)
    assert (303, 303, 400) == (helped.status, answer.status, refused.status)
    assert ("A tool failed" in after, "guidance: helped 1 time, harmed 0 times" in after) == (True, True)


# ---- deciding ----


async def test_personal_data_of_what_waits_is_masked_on_the_overview(start: Start) -> None:
    item = QuarantineItem(
        client="ann", run_id="r", policy="agent", hash="h", kind="passage", role="user", type="x", reason="", content=b"ask eve@example.org"
    )
    async with start() as proxy, Browser(proxy) as browser:
        await DatabaseQuarantine(proxy.app.database).put(item)
        overview, queue = (await browser.page()).text, (await browser.page("/dashboard/quarantine")).text
    assert (True, False, True) == ("ask [masked]" in overview, "eve@example.org" in overview, "eve@example.org" in queue)


async def test_a_form_decides_and_the_audit_trail_keeps_the_reason(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/quarantine")
        form = page.all("form", class_="decide")[0]["action"]
        fields = {
            "csrf": page.csrf,
            "reason": "checked by hand",
            "by": "ann",
            "scope": "client",
            "version": "0",
            "decision": "reject",
            "status": "pending",
        }
        answer = await browser.post(form, fields)
        trail = (await proxy.get(form.replace("/dashboard", "/groundwire/v1"))).json["decisions"]
        after = await browser.page(answer.headers["location"])
    undo = f"{form.rpartition('/')[2]}.1"
    assert (303, f"/dashboard/quarantine?status=pending&done=rejected&undo={undo}") == (answer.status, answer.headers["location"])
    assert [("rejected", "client", "ann", "checked by hand")] == [(d["decision"], d["scope"], d["decided_by"], d["reason"]) for d in trail]
    assert "Rejected: it stays out of the context." in after.text


async def test_a_statement_stands_beside_what_it_is_held_against(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        piece, clash = (await browser.page("/dashboard/quarantine")).text, (await browser.page("/dashboard/clashes")).text
    assert "It says" + "The tower is in Berlin, next to the zoo." + "It is held against" + "The Eiffel Tower stands on" in piece
    assert ("Wrong place91% sure" in piece, "Why (91% sure): Berlin, where the fact says Paris" in piece) == (True, True)
    assert "Why they contradict each other (80% sure): one cannot live in two towns" in clash
    assert "Why it is open: they cannot both be true" in clash


async def test_many_pieces_are_decided_at_once_and_the_decision_is_taken_back(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/quarantine")
        items = [box["value"] for box in page.all("input", type="checkbox", name="item")]
        common = {"csrf": page.csrf, "status": "pending", "by": "ann"}
        answer = await browser.post(
            "/dashboard/quarantine/many",
            [*common.items(), ("reason", "all checked"), ("decision", "approve"), *(("item", i) for i in items)],
        )
        after = await browser.page(answer.headers["location"])
        undo = [box["value"] for box in after.all("input", type="hidden", name="item")]
        approved = (await proxy.get("/groundwire/v1/quarantine?status=approved")).json["data"]
        undone = await browser.post("/dashboard/quarantine/undo", [*common.items(), *(("item", i) for i in undo)])
        pending = (await proxy.get("/groundwire/v1/quarantine?status=pending")).json["data"]
        again = await browser.post("/dashboard/quarantine/undo", [*common.items(), *(("item", i) for i in undo)])
    assert (2, 2, 2, 2) == (len(items), len(undo), len(approved), len(pending))
    assert "2 decided. Approved" in after.text
    assert (303, "done=undone" in undone.headers["location"], 409) == (undone.status, True, again.status)


async def test_nothing_selected_is_said(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/quarantine")
        answer = await browser.post("/dashboard/quarantine/many", {"csrf": page.csrf, "decision": "approve", "reason": "x"})
    assert (400, True) == (answer.status, b"nothing is selected" in answer.body)


async def test_a_resolved_clash_is_opened_again(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/clashes")
        form = page.all("form", class_="decide")[0]["action"]
        common = {"csrf": page.csrf, "status": "open", "by": "ann"}
        answer = await browser.post(form, common | {"resolution": "keep_older"})
        after = await browser.page(answer.headers["location"])
        (item,) = [box["value"] for box in after.all("input", type="hidden", name="item")]
        await browser.post("/dashboard/clashes/undo", common | {"item": item})
        found = (await proxy.get(form.replace("/dashboard", "/groundwire/v1"))).json
    assert ("open", "", None) == (found["status"], found["resolution"], found["resolved_at"])
    assert ["keep_older", "reopen"] == [one["decision"] for one in found["decisions"]]


REFUSED = [
    ({"reason": " "}, 400, "give a reason"),
    ({"by": "policy"}, 400, "give a person's name"),
    ({"decision": "burn"}, 400, "choose to approve or to reject"),
    ({"version": "7"}, 409, "it has version"),
    ({"scope": "world"}, 400, "the form is refused"),
]


async def test_a_decision_that_cannot_be_is_refused_on_the_page(start: Start) -> None:
    found = []
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/quarantine?status=rejected")
        form = page.all("form", class_="decide")[0]["action"]
        fields = {"csrf": page.csrf, "reason": "why", "by": "", "scope": "run", "version": "1", "decision": "approve", "status": "rejected"}
        for changes, _, said in REFUSED:
            answer = await browser.post(form, fields | changes)
            found.append((changes, answer.status, said if said in Page(answer.body.decode()).text else "said something else"))
        answer = await browser.post(form, fields | {"status": "<b>"})
    assert REFUSED == found
    assert (303, "/dashboard/quarantine") == (answer.status, answer.headers["location"])


async def test_a_clash_is_resolved_with_a_statement_in_place_of_both(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/clashes")
        form = page.all("form", class_="decide")[0]["action"]
        answer = await browser.post(
            form, {"csrf": page.csrf, "resolution": "merged", "text": "I moved to Bonn.", "by": "ann", "reason": "", "status": "open"}
        )
        found = (await proxy.get(form.replace("/dashboard", "/groundwire/v1"))).json
    assert (303, "merged", "I moved to Bonn.", "ann") == (answer.status, found["resolution"], found["merged"], found["resolved_by"])


async def test_a_clashs_text_counts_only_where_it_is_to_be_put_in_place(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep_review(proxy.app.database)
        page = await browser.page("/dashboard/clashes")
        form = page.all("form", class_="decide")[0]["action"]
        answer = await browser.post(form, {"csrf": page.csrf, "resolution": "keep_newer", "text": "left over", "status": "open"})
        found = (await proxy.get(form.replace("/dashboard", "/groundwire/v1"))).json
    assert (303, "keep_newer", "") == (answer.status, found["resolution"], found["merged"])


# ---- safety ----


async def with_evil(proxy: Running) -> str:
    """Everything that can come from elsewhere is meant to do harm; gives the exchange's id."""
    evil = making.HOSTILE
    record = making.hostile(1, time.time())
    await making.keep(proxy.app.database, [record])
    await DatabaseQuarantine(proxy.app.database).put(
        QuarantineItem(
            client=evil,
            run_id=evil,
            policy=evil,
            hash="h",
            kind=evil,
            role=evil,
            type=evil,
            reason=evil,
            content=evil.encode(),
            source=evil,
            record_id=evil,
        )
    )
    await DatabaseClashes(proxy.app.database).put(
        ClashRecord(
            client=evil,
            run_id=evil,
            policy=evil,
            pair_hash="p",
            type=evil,
            topic=evil,
            strategy=evil,
            older={"text": evil},
            newer={"text": evil},
            reason=evil,
            record_id=evil,
        )
    )
    return record.id


async def test_no_page_runs_or_loads_what_came_from_elsewhere(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        record_id = await with_evil(proxy)
        run = f"/runs/{(await proxy.get(f'/groundwire/v1/records/{record_id}')).json['run_id']}".replace("<", "%3C")
        found = {path: risky(await browser.page(f"/dashboard{path}")) for path in (*PAGES, f"/records/{record_id}", run)}
    assert {path: [] for path in found} == found


async def test_every_page_has_the_strict_headers(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        answers = {path: await browser.get(f"/dashboard{path}") for path in PAGES}
    named = ("default-src", "script-src", "style-src", "base-uri", "frame-ancestors", "require-trusted-types-for")
    strict = ("'none'", "'self'", STATIC.style_source, "'none'", "'none'", "'script'", "nosniff", "same-origin", "no-store")
    assert dict.fromkeys(PAGES, strict) == {
        path: (
            *(rules(answer)[name] for name in named),
            *(answer.headers[name] for name in ("x-content-type-options", "referrer-policy", "cache-control")),
        )
        for path, answer in answers.items()
    }
    assert [] == [path for path, answer in answers.items() if "unsafe" in answer.headers["content-security-policy"]]


async def test_the_pages_files_are_served_under_an_address_of_their_version(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        page = await browser.page()
        paths = [*(link["href"] for link in page.all("link")), *(script["src"] for script in page.all("script") if "src" in script)]
        answers = [await browser.get(path) for path in paths]
        missing = await browser.get("/dashboard/static/x/../../api.py")
    assert {(200, "public, max-age=31536000, immutable", "nosniff")} == {
        (answer.status, answer.headers["cache-control"], answer.headers["x-content-type-options"]) for answer in answers
    }
    assert 404 == missing.status


def test_a_report_without_buckets_has_every_panel() -> None:
    stages = ["poisoning", "clashes", "distraction", "compression", "confusion", "quality"]
    general = ["undecided", "failed", "caught", "housekeeping", "traffic", "latency", "cost", "feedback"]
    assert [*general, *stages] == [panel.name for panel in report([], PANELS).panels]


def _texts(page: Page) -> list[str]:
    """The text of each element that has nothing but text."""
    import re

    return [text for text in re.findall(r">([^<>]+)<", page.html) if text.strip()]


@pytest.mark.parametrize("path", ["", "/exchanges"])
async def test_a_page_that_leaves_in_parts_is_the_page_that_leaves_whole(start: Start, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await filled(proxy, number=5)
        await browser.page()  # the figures are known from here on
        in_time = (EXCHANGES_CUTS[0], *(replace(one, wait_s=60.0) for one in EXCHANGES_CUTS[1:]))
        monkeypatch.setattr("proxy.admin.dashboard.lists.EXCHANGES_CUTS", in_time)
        parts = (await browser.page(f"/dashboard{path}")).html
        monkeypatch.setattr("proxy.admin.dashboard.lists.OVERVIEW_CUTS", ())
        monkeypatch.setattr("proxy.admin.dashboard.lists.EXCHANGES_CUTS", ())
        whole = (await browser.page(f"/dashboard{path}")).html
    assert whole == parts
