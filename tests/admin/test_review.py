"""The queue of what was flagged or left undecided: on its page as a browser without scripts has it, and over the API."""

import time
from collections.abc import Sequence
from typing import Any

import pytest

from proxy.store.feedback import DatabaseFeedback
from tests.admin.pages import Browser, Page
from tests.browser import making
from tests.conftest import Running, Start

SENTENCES = ("The tower is in Berlin.", "It is red.", "Mail ann@example.org for more.")
LABELS = ("contradicted", "unsure", "unsupported")
REVIEW, API = "/dashboard/review", "/groundwire/v1/review"


def sentences(number: int, labels: Sequence[str] = LABELS, scores: Sequence[float] = (0.02, 0.45, 0.2)) -> list[dict[str, Any]]:
    """Claims of an answer, as the record lists them."""
    entries, at = [], 0
    for label, score, text in zip(labels, scores, SENTENCES, strict=False):
        evidence = {"text": f"Passage {number}: the tower is in Paris.", "source": "towers.md", "kind": "passage"}
        entries.append({"text": text, "span": [at, at + len(text)], "label": label, "score": score, "evidence": evidence})
        at += len(text) + 1
    return entries


async def keep(proxy: Running, *exchanges: dict[str, Any], texts: bool = True) -> list[str]:
    """Exchanges with these verdicts' details, the newest first; returns their ids."""
    made = []
    for number, claims in enumerate(exchanges):
        verdict = {"stage": "claims", "outcome": "warn", "detail": claims}
        detail = {"verdicts": [verdict], "texts": texts}
        made.append(making.record(number, time.time() - 5 - number, outcome="warn", detail=detail))
    await making.keep(proxy.app.database, made)
    return [record.id for record in made]


async def ask(browser: Browser, page: Page, said: str, **more: str) -> Page:
    """Press a button of the form, and follow."""
    fields = {field["name"]: field["value"] for field in page.all("input", type="hidden")} | {"said": said} | more
    answer = await browser.post(REVIEW, fields)
    return await browser.page(answer.headers["location"]) if answer.status == 303 else Page(answer.body.decode())


def sentence_of(page: Page) -> str:
    return next((text for text in SENTENCES if text.removeprefix("Mail ann@example.org") in page.text), "")


async def test_findings_come_one_at_a_time_with_their_evidence_until_none_is_left(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        (record,) = await keep(proxy, {"claims": sentences(0)})
        page = await browser.page(REVIEW)
        first, seen = page, []
        for said in ("right", "wrong", "wrong"):
            seen.append(sentence_of(page))
            page = await ask(browser, page, said, by="ann")
        found = (await proxy.get("/groundwire/v1/feedback")).json["data"]
        start_again = (await browser.page(REVIEW)).text
    assert "Passage 0: the tower is in Paris." in first.text
    assert SENTENCES == tuple(seen)
    assert ("That was the last one." in page.text, "Nothing waits for a word." in start_again) == (True, True)
    assert [("unsupported", "wrong", ""), ("unsure", "wrong", "unsupported"), ("contradicted", "right", "")] == [
        (one["label"], one["said"], one["expected"]) for one in found
    ]
    assert {(record, "ann", 3)} == {(one["record_id"], one["said_by"], one["record_findings"]) for one in found}


async def test_an_undecided_sentence_that_is_right_is_kept_as_supported(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await keep(proxy, {"claims": sentences(0, ["unsure"], [0.5])})
        await ask(browser, await browser.page(REVIEW), "right")
        (entry,) = (await proxy.get("/groundwire/v1/feedback")).json["data"]
        page = await browser.page(REVIEW)
    assert ("unsure", "wrong", "supported") == (entry["label"], entry["said"], entry["expected"])
    assert "Nobody has said anything of a flag yet." in page.text


async def test_personal_data_that_the_store_masks_is_masked_in_the_queue(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await keep(proxy, {"claims": sentences(0)})
        found = (await proxy.get(API)).body.decode()
        page = await browser.page(f"{REVIEW}?order=unsure")
    assert ("Mail [masked] for more." in found, "ann@example.org" in found + page.text) == (True, False)


async def test_a_finding_without_a_sentence_stands_beside_the_words_of_the_answer(start: Start) -> None:
    verdict = {"stage": "confidence", "outcome": "warn", "code": "overclaimed"}
    made = making.record(0, time.time() - 5, outcome="warn", detail={"verdicts": [verdict]}, answer="It weighs 2.4 kg. Confidence: HIGH")
    async with start() as proxy, Browser(proxy) as browser:
        await making.keep(proxy.app.database, [made])
        page = await browser.page(REVIEW)
    assert "Answered: It weighs 2.4 kg. Confidence: HIGH" in page.text


async def test_what_was_skipped_stays_away_until_the_reviewer_asks_for_it(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser, Browser(proxy) as another:
        await keep(proxy, {"claims": sentences(0)}, {"claims": sentences(1)})
        page, seen = await browser.page(REVIEW), []
        while page.all("button", data_key="s"):
            seen.append(sentence_of(page))
            page = await ask(browser, page, "skip")
        afresh, others = await browser.page(REVIEW), await another.page(REVIEW)
        (again,) = [link["href"] for link in afresh.all("a") if "skipped=1" in link["href"]]
        first = await browser.page(again)
        second = await ask(browser, first, "right")
        said = (await proxy.get("/groundwire/v1/feedback")).json["data"]
    assert [*SENTENCES, *SENTENCES] == seen
    assert ("That was the last one." in page.text, "You skipped what waits." in afresh.text) == (True, True)
    assert [SENTENCES[0], SENTENCES[0], SENTENCES[1]] == [sentence_of(one) for one in (others, first, second)]
    assert ["right"] == [one["said"] for one in said]


async def test_only_the_newest_skips_are_kept(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.admin.dashboard.review._MAX_SKIPPED", 2)
    async with start() as proxy, Browser(proxy) as browser:
        await keep(proxy, {"claims": sentences(0)})
        page = await browser.page(REVIEW)
        for _ in SENTENCES:
            page = await ask(browser, page, "skip")
        afresh = await browser.page(REVIEW)
    assert (SENTENCES[0], True) == (sentence_of(afresh), "No more wait." in afresh.text)


async def test_a_decision_is_taken_back_and_the_finding_is_there_again(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await keep(proxy, {"claims": sentences(0)})
        page = await ask(browser, await browser.page(REVIEW), "right")
        hidden = {field["name"]: field["value"] for field in page.all("input", type="hidden")}
        undo = {name: page.all("input", name=name)[0]["value"] for name in ("csrf", "undo", "item", "order", "only", "after")}
        answer = await browser.post(f"{REVIEW}/undo", undo)
        back = await browser.page(answer.headers["location"])
        after = await ask(browser, back, "wrong")
        (entry,) = (await proxy.get("/groundwire/v1/feedback")).json["data"]
        twice = await browser.post(f"{REVIEW}/undo", undo)
    assert ("Kept: right." in page.text, hidden["item"] != undo["item"]) == (True, True)
    assert ("Taken back" in back.text, SENTENCES[0], SENTENCES[1]) == (True, sentence_of(back), sentence_of(after))
    assert ("wrong", 409) == (entry["said"], twice.status)


async def test_the_first_decision_holds_and_the_second_person_is_told_and_goes_on(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as ann, Browser(proxy) as bob:
        await keep(proxy, {"claims": sentences(0)})
        both = await ann.page(REVIEW), await bob.page(REVIEW)
        await ask(ann, both[0], "right", by="ann")
        page = await ask(bob, both[1], "wrong", by="bob")
        (entry,) = (await proxy.get("/groundwire/v1/feedback")).json["data"]
    assert "ann has called it right since, and that holds." in page.text
    assert ("right", "ann", SENTENCES[1]) == (entry["said"], entry["said_by"], sentence_of(page))


async def test_a_decision_survives_a_restart(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        await keep(proxy, {"claims": sentences(0)})
        await ask(browser, await browser.page(REVIEW), "right", by="ann")
    async with start() as proxy, Browser(proxy) as browser:
        page = await browser.page(REVIEW)
    assert (SENTENCES[1], "21% to 100%" in page.text) == (sentence_of(page), True)


async def test_the_least_certain_come_first_if_asked_for(start: Start) -> None:
    async with start() as proxy:
        await keep(proxy, {"claims": sentences(0)}, {"claims": sentences(1, ["contradicted"], [0.48])})
        found, after = [], ""
        for _ in range(4):
            answer = (await proxy.get(f"{API}?order=unsure&limit=1&after={after}")).json
            found.append((answer["data"][0]["content"]["score"], answer["has_more"]))
            after = answer["data"][0]["id"]
    assert [(0.48, True), (0.45, True), (0.2, True), (0.02, False)] == found


async def test_sorting_goes_on_behind_what_was_sorted(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.admin.feedback.MAX_SORTED", 3)
    async with start() as proxy, Browser(proxy) as browser:
        ids = await keep(proxy, {"claims": sentences(0)}, {"claims": sentences(1, scores=(0.02, 0.2, 0.49))})
        newest = await browser.page(f"{REVIEW}?order=unsure")
        (further,) = [link["href"] for link in newest.all("a", rel="next")]
        older = await browser.page(further)
        second = await ask(browser, older, "skip")
    assert (SENTENCES[1], SENTENCES[2], SENTENCES[1]) == tuple(map(sentence_of, (newest, older, second)))
    shown = [next(field["value"] for field in page.all("input", name="record_id")) for page in (newest, older, second)]
    assert ([ids[0], ids[1], ids[1]], []) == (shown, older.all("a", rel="next"))


async def test_a_word_that_is_sent_twice_is_counted_once(start: Start) -> None:
    async with start() as proxy:
        await keep(proxy, {"claims": sentences(1)})
        one = (await proxy.get(API)).json["data"][0]
        body = {name: one[name] for name in ("record_id", "stage", "place")} | {"said": "wrong"}
        answers = [(await proxy.post(body | more, "/groundwire/v1/feedback")).status for more in ({"version": 0}, {"version": 0}, {})]
        await proxy.post(body | {"said": "right"}, "/groundwire/v1/feedback")
        counters = (await proxy.get("/groundwire/v1/metrics")).json["counters"]
    assert ([200] * 3, 1, 1) == (answers, counters["feedback.wrong_count"], counters["feedback.right_count"])


async def test_the_api_lists_what_waits_page_by_page_and_the_word_takes_it_out(start: Start) -> None:
    async with start() as proxy:
        await keep(proxy, *({"claims": sentences(number)} for number in range(130)))
        found, after, more = [], "", True
        while more:
            answer = (await proxy.get(f"{API}?limit=100&after={after}")).json
            found += answer["data"]
            after, more = answer["data"][-1]["id"], answer["has_more"]
        one = found[7]
        body = {name: one[name] for name in ("record_id", "stage", "place")} | {"said": "wrong", "version": 0}
        kept = (await proxy.post(body, "/groundwire/v1/feedback")).json
        second = await proxy.post(body | {"said": "right"}, "/groundwire/v1/feedback")
        left = [entry["id"] for entry in (await proxy.get(f"{API}?limit=1000")).json["data"]]
        undone = await proxy.post({"version": kept["version"]}, f"/groundwire/v1/feedback/{kept['id']}/undo")
        missing = await proxy.post({"version": kept["version"]}, f"/groundwire/v1/feedback/{kept['id']}/undo")
        back = (await proxy.get(f"{API}?limit=1000&stage=claims")).json["data"]
    assert 390 == len({entry["id"] for entry in found}) == len(found)
    assert (409, "conflict", 200, 404) == (second.status, second.json["error"]["code"], undone.status, missing.status)
    assert ([entry["id"] for entry in found if entry != one], found) == (left, back)


async def test_the_api_refuses_what_it_does_not_know(start: Start) -> None:
    async with start() as proxy:
        statuses = [(await proxy.get(f"{API}?{query}")).status for query in ("order=best", "limit=0", "stage=nobody", "after=gw_none.0")]
        empty = (await proxy.get(API)).json
    assert [400, 400, 200, 200] == statuses
    assert {"object": "list", "data": [], "has_more": False} == empty


async def test_a_queue_without_words_says_why_it_is_empty_and_what_to_set(start: Start) -> None:
    async with start(bodies=False) as proxy, Browser(proxy) as browser:
        before = (await browser.page(REVIEW)).text
        await keep(proxy, {"claims": sentences(0)}, {"claims": sentences(1)}, texts=False)
        after = (await browser.page(REVIEW)).text
        api = (await proxy.get(API)).json
    assert ("there will be nothing to judge" in before, [], False) == (True, api["data"], api["has_more"])
    assert "2 flagged exchanges cannot be judged: their words were not kept. store: {texts: flagged} in config.yaml" in after


async def test_a_stages_other_verdicts_wait_too_and_have_tabs(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        refused = {"stage": "schema", "outcome": "block", "code": "response_mismatch", "message": "age: expected a number"}
        detail = {"verdicts": [{"stage": "claims", "outcome": "warn", "detail": {"claims": sentences(0)}}, refused]}
        await making.keep(proxy.app.database, [making.record(1, time.time() - 5, outcome="block", detail=detail)])
        page = await browser.page(f"{REVIEW}?only=schema")
        tabs = [link["href"] for link in (await browser.page(REVIEW)).all("a") if "only=" in link["href"]]
        after = await ask(browser, page, "wrong", expected="pass")
        (entry,) = (await proxy.get("/groundwire/v1/feedback")).json["data"]
    assert ("age: expected a number" in page.text, "That was the last one." in after.text) == (True, True)
    assert f"{REVIEW}?order=newest&only=schema" in tabs
    assert ("schema", "block", "wrong", "pass") == (entry["stage"], entry["label"], entry["said"], entry["expected"])


async def test_nobody_is_asked_about_housekeeping_nor_about_a_verdict_that_flags_nothing(start: Start) -> None:
    async with start() as proxy:
        full = {"stage": "budget", "outcome": "warn", "code": "context_usage_high"}
        undecided = {"stage": "claims", "outcome": "unsure"}
        verdicts = {"stage": "claims", "outcome": "warn", "detail": {"claims": sentences(0, ["unsure"], [0.5])}}
        made = [[full], [undecided], [full, verdicts]]
        rows = [making.record(n, time.time() - 5, outcome="warn", detail={"verdicts": one, "texts": True}) for n, one in enumerate(made)]
        await making.keep(proxy.app.database, rows)
        found = (await proxy.get(API)).json["data"]
    assert [(rows[2].id, "claims", "unsure")] == [(one["record_id"], one["stage"], one["label"]) for one in found]


async def test_a_word_on_what_nobody_was_asked_about_leaves_the_findings_of_the_exchange_in_the_queue(start: Start) -> None:
    async with start() as proxy:
        (record,) = await keep(proxy, {"claims": sentences(0, ["contradicted"], [0.1])})
        body = {"record_id": record, "stage": "claims", "place": "warn", "said": "right"}
        kept = (await proxy.post(body, "/groundwire/v1/feedback")).json
        left = (await proxy.get(API)).json["data"]
        await proxy.post(body | {"place": left[0]["place"]}, "/groundwire/v1/feedback")
        after = (await proxy.get(API)).json["data"]
    assert (0, ["contradicted"], []) == (kept["record_findings"], [one["label"] for one in left], after)


async def test_the_queue_says_that_it_has_not_looked_at_all_and_goes_on(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.admin.feedback._MAX_LOOKED", 100)
    async with start() as proxy, Browser(proxy) as browser:
        now, full = time.time() - 5, {"stage": "budget", "outcome": "warn", "code": "context_usage_high"}
        quiet = [making.record(n, now - n, outcome="warn", detail={"verdicts": [full], "texts": True}) for n in range(150)]
        flagged = {"stage": "claims", "outcome": "warn", "detail": {"claims": sentences(0)}}
        old = making.record(150, now - 150, outcome="warn", detail={"verdicts": [flagged], "texts": True})
        await making.keep(proxy.app.database, [*quiet, old])
        page = await browser.page(REVIEW)
        (further,) = [link["href"] for link in page.all("a", rel="next")]
        found = await browser.page(further)
    assert ("More than" in page.text, "There are more flagged exchanges than one look goes through." in page.text) == (False, True)
    assert (SENTENCES[0], []) == (sentence_of(found), found.all("a", rel="next"))


async def test_ten_thousand_flagged_exchanges_are_a_page_as_one(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        now = time.time()
        detail = {"verdicts": [{"stage": "claims", "outcome": "warn", "detail": {"claims": sentences(0)}}]}
        await making.keep(proxy.app.database, (making.record(n, now - n, outcome="warn", detail=detail) for n in range(10_000)))
        began = time.perf_counter()
        page = await browser.page(REVIEW)
        sorted_page = await browser.page(f"{REVIEW}?order=unsure")
        took_s = time.perf_counter() - began
    assert ("More than 100 more wait." in page.text, SENTENCES[0], SENTENCES[1]) == (True, sentence_of(page), sentence_of(sorted_page))
    assert took_s < 5.0
    assert len(page.html) < 100_000


async def test_a_decision_needs_the_sessions_token(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        (record,) = await keep(proxy, {"claims": sentences(0)})
        await browser.page(REVIEW)
        fields = {"csrf": "none", "record_id": record, "stage": "claims", "place": "0:0-23", "said": "right", "item": f"{record}.0"}
        answers = [(await browser.post(path, fields)).status for path in (REVIEW, f"{REVIEW}/undo")]
        kept = await DatabaseFeedback(proxy.app.database).list()
    assert ([403, 403], ([], False)) == (answers, kept)


async def test_the_list_of_exchanges_says_what_a_person_said(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        first, _ = await keep(proxy, {"claims": sentences(0)}, {"claims": sentences(1)})
        for place, said in (("0:0-23", "wrong"), ("0:24-34", "right")):
            body = {"record_id": first, "stage": "claims", "place": place, "said": said}
            assert 200 == (await proxy.post(body, "/groundwire/v1/feedback")).status
        text = (await browser.page("/dashboard/exchanges")).text
        counted = (await proxy.get("/metrics")).body.decode()
    assert (1, 0) == (text.count("a person called this wrong"), text.count("a person called this right"))
    assert "groundwire_feedback_wrong_total 1.0" in counted
