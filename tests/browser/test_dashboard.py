"""The pages in Chromium: how fast they are there, what they tell live, decisions, harm that comes to nothing, and everybody's use of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.browser.conftest import KEY, Case, Fill, MakeSite, nothing, one, some, ten_thousand
from tests.browser.making import EVIL

pytestmark = pytest.mark.browser

MAX_PAINT_MS = 1000.0
MAX_MOVED = 0.1
"""Cumulative layout shift; https://web.dev/articles/cls calls this good."""


@pytest.mark.parametrize(("fill", "name"), [(nothing, "0"), (one, "1"), (ten_thousand, "10000")], ids=["0", "1", "10,000"])
@pytest.mark.parametrize("size", ["desk", "phone"])
def test_the_first_page_is_there_within_a_second_and_nothing_jumps(site: MakeSite, case: Case, fill: Fill, name: str, size: str) -> None:
    done = case("load", url=site(fill).url, phone=size == "phone", shot=f"overview-{name}-{size}")
    found = done["found"]
    print(f"{name} exchanges, {size}: first contentful paint {found['paint']:.0f} ms (worst of five {found['worst']:.0f}), ", end="")
    print(f"layout shift {found['moved']:.4f}, HTML {found['html']:,} bytes")
    assert [] == done["troubles"]
    assert found["paint"] < MAX_PAINT_MS
    assert found["moved"] < MAX_MOVED, found["shifts"]
    assert found["html"] < 100_000
    assert found["overflow"] == 0


@pytest.mark.parametrize("path", ["/dashboard/exchanges", "/dashboard?span=week", "/dashboard/exchanges?verdict=block"])
def test_other_pages_of_a_busy_week_are_there_within_a_second(site: MakeSite, case: Case, path: str) -> None:
    found = case("load", url=site(ten_thousand).url, path=path, rounds=3)["found"]
    print(f"{path} of 10,000: first contentful paint {found['paint']:.0f} ms, layout shift {found['moved']:.4f}")
    assert (True, True) == (found["paint"] < MAX_PAINT_MS, found["moved"] < MAX_MOVED), found


def test_a_new_exchange_shows_up_by_itself(site: MakeSite, case: Case) -> None:
    done = case("live", url=site(nothing, fresh="live").url)
    found = done["found"]
    print(f"shown {found['took']} ms after it was sent")
    assert [] == done["troubles"]
    assert [found["second"], found["first"]] == found["rows"][:2]
    assert ["○\nunchecked\nno check of answers in the policy", "/", "gpt-4o", "200", "9 → 3"] == [
        found["texts"][1],
        *(found["texts"][i].partition("\n")[0] for i in (2, 3, 4, 5)),
    ]
    assert found["moved"] < MAX_MOVED, found["shifts"]
    assert 1 == len(found["legend"])
    assert ("1 new exchange: show it", 3) == (found["fresh"], found["listed"])
    assert found["took"] < 5000


def test_the_servers_address_leads_to_the_dashboard(site: MakeSite, case: Case) -> None:
    running = site(one)
    done = case("front", url=running.url)
    assert [] == done["troubles"]
    assert {
        "title": "Groundwire",
        "bases": [f"{running.url}/v1"],
        "overflow": 0,
        "address": f"{running.url}/dashboard",
    } == done["found"]


def test_parts_of_a_bar_stand_on_each_other(site: MakeSite, case: Case) -> None:
    done = case("stacked", url=site(some).url)
    assert {"ends": [[1, None, 2], [3, 3, None], [7, None, 3]], "legend": ["refused", "with a warning"]} == done["found"]


def test_a_range_that_is_dragged_over_a_chart_is_shown(site: MakeSite, case: Case) -> None:
    done = case("drag", url=site(some).url)
    assert ([], "The time that you chose") == (done["troubles"], done["found"]["shown"])
    assert 5 * 3600 <= done["found"]["seconds"] <= 10 * 3600, "three tenths of a day, in whole hours"


@pytest.mark.parametrize("script", [True, False], ids=["with scripts", "without scripts"])
def test_a_piece_of_context_is_rejected_with_a_reason(site: MakeSite, case: Case, script: bool) -> None:
    done = case("decide", url=site(some, fresh=f"decide {script}").url, script=script)
    found = done["found"]
    assert [] == done["troubles"]
    assert (2, 1, "1") == (found["entries"], found["left"], found["count"])
    assert "Rejected: it stays out of the context." in found["said"]
    assert "rejected by ann" in found["kept"]
    assert "checked against the almanac" in found["kept"]


def test_a_decision_needs_nothing_but_a_keyboard(site: MakeSite, case: Case) -> None:
    done = case("keyboard", url=site(some, fresh="keyboard").url)
    way = done["found"]["way"]
    assert [] == done["troubles"]
    assert "Approved: it goes to the model" in done["found"]["said"]
    assert "Skip to the content" == way[0]["what"]
    assert [] == [step for step in way if not step["outline"]], "focus that cannot be seen"
    named = [step["what"] for step in way if step["inside"]]
    assert ["reason", "scope", "by", "Approve"] == [what for what in named if what in ("reason", "scope", "by", "Approve")]


def test_twenty_findings_are_reviewed_with_a_key_each(site: MakeSite, case: Case) -> None:
    keys = ["r", "w", "r", "s", "w"] * 4
    done = case("review", url=site(some, fresh="review").url, keys=keys)
    found = done["found"]
    print(f"{found['took']:.0f} ms from a key to the next finding")
    assert ([], 20) == (done["troubles"], len(set(found["seen"])))
    assert {("ARTICLE", "solid")} == {(one["tag"], one["outline"]) for one in found["focus"]}
    assert ("Kept: wrong." in found["told"], "Taken back" in found["undone"]) == (True, True)
    assert (found["seen"][-1], found["seen"][-1]) == (found["again"], found["still"])
    assert [8, 7] == [found["kept"].count(word) for word in ("right", "wrong")]
    assert found["took"] < 2000


def test_a_mark_on_an_answer_leads_to_its_evidence(site: MakeSite, case: Case) -> None:
    running = site(some)
    done = case("evidence", url=running.url, record=running.filled["whole"])
    found = done["found"]
    assert ([], True, "claim-4") == (done["troubles"], found["seen"], found["focused"])
    assert "Instead the context says: Paris" in found["told"]


def test_what_means_harm_stays_harmless(site: MakeSite, case: Case) -> None:
    running = site(some)
    paths = _paths(running.filled, hostile=True)
    done = case("harmless", url=running.url, paths=[*paths.values(), f"/dashboard/exchanges?run={quote(EVIL, safe='')}"])
    assert [] == done["troubles"]
    assert {name: {"overflow": 0, "foreign": 0} for name in done["found"]} == done["found"]


def test_axe_finds_nothing_on_any_page_in_light_and_dark_wide_and_narrow(site: MakeSite, case: Case) -> None:
    running = site(some)
    more = {
        "week": "/dashboard?span=week",
        "searched": "/dashboard/exchanges?q=tower&within=7d&status=200",
        "resolved": "/dashboard/clashes?status=resolved",
        "approved": "/dashboard/quarantine?status=approved",
        "overcome": "/dashboard/failures?status=resolved",
        "reviewing": "/dashboard/review?order=unsure&only=claims&done=right&undo=fb_0.1",
    }
    done = case("axe", url=running.url, paths=_paths(running.filled) | more, unfold=True)
    assert ([], []) == (done["troubles"], done["found"])


def test_axe_finds_nothing_on_pages_that_are_empty(site: MakeSite, case: Case) -> None:
    empty = ("", "/exchanges", "/review", "/quarantine", "/clashes", "/failures")
    paths = {f"empty-{path.strip('/') or 'overview'}": f"/dashboard{path}" for path in empty}
    missing = {
        "no-such-run": "/dashboard/runs/nobody",
        "no-such-exchange": "/dashboard/records/gw_0",
        "none": "/dashboard/exchanges?run=nobody",
    }
    done = case("axe", url=site(nothing).url, paths=paths | missing, unfold=True)
    assert [] == done["found"]


def test_axe_finds_nothing_on_the_start_page_and_the_form_that_asks_for_the_key(site: MakeSite, case: Case) -> None:
    done = case("axe", url=site(one, key=KEY).url, paths={"start": "/", "sign-in": "/dashboard"})
    assert [] == done["found"]


def test_signing_in_and_out(site: MakeSite, case: Case) -> None:
    done = case("signing", url=site(one, key=KEY).url, key=KEY)
    found = done["found"]
    assert "This is not the admin key." in found["wrong"]
    assert (True, "", 401) == (found["address"].endswith("/dashboard/exchanges?verdict=pass"), found["script"], found["after"])
    assert [] == [trouble for trouble in done["troubles"] if "401" not in trouble]


def _paths(filled: dict[str, str], *, hostile: bool = False) -> dict[str, Any]:
    record, run = (filled["hostile"], filled["hostile_run"]) if hostile else (filled["whole"], "research-3")
    return {
        "overview": "/dashboard",
        "exchanges": "/dashboard/exchanges",
        "sorted": "/dashboard/exchanges?sort=faithfulness&view=Doubtful",
        "compare": "/dashboard/compare?by=route",
        "record": f"/dashboard/records/{record}",
        "run": f"/dashboard/runs/{quote(run, safe='')}",
        "quarantine": "/dashboard/quarantine",
        "rejected": "/dashboard/quarantine?status=rejected",
        "clashes": "/dashboard/clashes",
        "failures": "/dashboard/failures",
        "review": "/dashboard/review",
    }
