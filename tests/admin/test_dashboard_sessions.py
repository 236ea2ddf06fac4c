"""Signing in, what a session may do, and what no other site's page can make it do."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.admin.access import CSRF_HEADER, LIFETIME_S, Sessions
from proxy.admin.dashboard.entrance import local
from tests.admin.pages import KEY, WITH_KEY, Browser, Page
from tests.browser import making
from tests.conftest import Running, Start

API = "/groundwire/v1"


async def csrf_of(browser: Browser) -> str:
    return (await browser.page("/dashboard/quarantine")).csrf


async def waiting_item(proxy: Running) -> str:
    """The id of an item that waits for a decision."""
    await making.keep_review(proxy.app.database)
    found = await proxy.get(f"{API}/quarantine?status=pending", authorization=f"Bearer {KEY}")
    return str(found.json["data"][0]["id"])


# ---- signing in ----


LOCKED = ["/dashboard", "/dashboard/exchanges?run=a", "/dashboard/records/gw_1", "/dashboard/figures", "/dashboard/nothing"]


async def test_without_a_session_a_page_asks_for_the_key(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        answers = {path: await browser.get(path) for path in LOCKED}
    pages = {path: Page(answer.body.decode()) for path, answer in answers.items()}
    assert {path: (401, path) for path in LOCKED} == {
        path: (answers[path].status, page.all("input", name="then")[0]["value"]) for path, page in pages.items()
    }
    assert dict.fromkeys(LOCKED, 1) == {path: len(page.all("input", type="password", name="key")) for path, page in pages.items()}


async def test_the_key_opens_a_session_and_leads_back(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        answer = await browser.sign_in(then="/dashboard/exchanges?run=a")
        page = await browser.page()
    assert (303, "/dashboard/exchanges?run=a") == (answer.status, answer.headers["location"])
    assert "Sign out" in page.text


async def test_the_cookie_is_for_this_servers_own_pages_only(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        plain = (await browser.sign_in()).headers["set-cookie"].lower()
        behind = (await browser.post("/dashboard/sign-in", {"key": KEY}, x_forwarded_proto="https")).headers["set-cookie"].lower()
    attributes = set(plain.split("; ")[1:])
    assert {"httponly", "samesite=strict", "path=/", f"max-age={LIFETIME_S}"} == attributes
    assert "secure" in behind.split("; ")


async def test_no_address_carries_the_key(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        by_query = await browser.get(f"/dashboard?key={KEY}")
        answer = await browser.sign_in(then="/dashboard")
    assert (False, 401) == (KEY in answer.headers["location"], by_query.status)


async def test_a_wrong_key_is_refused(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        answer = await browser.sign_in("s3cret-admin-keY")
    assert (401, False) == (answer.status, "set-cookie" in answer.headers)
    assert "This is not the admin key." in answer.body.decode()


async def test_who_guesses_has_to_wait_but_the_right_key_never_does(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        guesses = [await browser.sign_in(f"guess {number}") for number in range(6)]
        right = await browser.sign_in()
    assert ([401] * 5 + [429], 303) == ([guess.status for guess in guesses], right.status)
    assert 1 <= int(guesses[-1].headers["retry-after"]) <= 60


async def test_signing_in_from_another_sites_page_is_refused(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        answer = await browser.post("/dashboard/sign-in", {"key": KEY}, origin="https://evil.example", sec_fetch_site="cross-site")
    assert (403, False) == (answer.status, "set-cookie" in answer.headers)


async def test_signing_out_takes_the_cookie_back(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        await browser.sign_in()
        answer = await browser.post("/dashboard/sign-out", {"csrf": await csrf_of(browser)})
        after = await browser.get()
    assert (303, 401) == (answer.status, after.status)


async def test_the_bearer_key_opens_pages_too(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        answers = [await browser.get("/dashboard", authorization=f"Bearer {key}") for key in (KEY, "wrong")]
    assert [200, 401] == [answer.status for answer in answers]


async def test_every_worker_knows_the_session(start: Start) -> None:
    async with start(config=WITH_KEY) as one, start(config=WITH_KEY) as other, Browser(one) as browser, Browser(other) as there:
        await browser.sign_in()
        there.take(browser.cookie())
        csrf = await csrf_of(browser)
        assert csrf == await csrf_of(there)


async def test_a_loopback_server_without_a_key_asks_for_none(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        page = await browser.page()
        answer = await browser.get("/dashboard/sign-in")
    assert (0, 303) == (page.text.count("Sign out"), answer.status)


async def test_a_name_that_leads_to_a_loopback_server_without_a_key_is_refused(start: Start) -> None:
    async with start() as proxy, Browser(proxy) as browser:
        answer = await browser.get("/dashboard", host="evil.example:4000")
    assert (403, True) == (answer.status, b"loopback name" in answer.body)


# ---- decisions ----


DECISIONS: list[tuple[str, dict[str, str], int]] = [
    ("", {}, 403),
    ("0" * 64, {}, 403),
    ("right", {"origin": "https://evil.example"}, 403),
    ("right", {"origin": "http://127.0.0.1:1"}, 403),
    ("right", {"origin": "null"}, 403),
    ("right", {"sec_fetch_site": "same-site"}, 403),
    ("right", {}, 303),
]


@pytest.mark.parametrize("config", ["", WITH_KEY], ids=["without a key", "with a key"])
async def test_a_decision_needs_the_sessions_token_and_our_own_page(start: Start, config: str) -> None:
    found = []
    async with start(config=config) as proxy, Browser(proxy) as browser:
        item = await waiting_item(proxy)
        if config:
            await browser.sign_in()
        for csrf, headers, _ in DECISIONS:
            token = await csrf_of(browser) if csrf == "right" else csrf
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            answer = await browser.post(f"/dashboard/quarantine/{item}", {"csrf": token, "reason": "r", "decision": "approve"}, **named)
            found.append((csrf, headers, answer.status))
    assert DECISIONS == found


async def test_another_sessions_token_is_refused(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser, Browser(proxy) as other:
        item = await waiting_item(proxy)
        await browser.sign_in()
        await other.sign_in()
        answer = await browser.post(f"/dashboard/quarantine/{item}", {"csrf": await csrf_of(other), "reason": "r", "decision": "approve"})
    assert 403 == answer.status


async def test_a_decision_without_a_session_asks_for_the_key(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        item = await waiting_item(proxy)
        answer = await browser.post(f"/dashboard/quarantine/{item}", {"csrf": "x", "reason": "r", "decision": "approve"})
    assert 401 == answer.status


# ---- the JSON API ----


async def test_a_session_reads_the_api_from_our_own_pages_only(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        before = (await browser.get(f"{API}/records")).status
        await browser.sign_in()
        found = [
            (await browser.get(f"{API}/records", **headers)).status
            for headers in ({}, {"sec_fetch_site": "same-origin"}, {"sec_fetch_site": "cross-site"}, {"origin": "http://127.0.0.1:1"})
        ]
    assert (401, [200, 200, 403, 403]) == (before, found)


@pytest.mark.parametrize(("with_token", "status"), [(False, 403), (True, 200)])
async def test_a_session_decides_through_the_api_with_its_token_in_a_header(start: Start, with_token: bool, status: int) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        item = await waiting_item(proxy)
        await browser.sign_in()
        headers = {CSRF_HEADER: await csrf_of(browser)} if with_token else {}
        sent = {"content-type": "application/json", "origin": proxy.url, **headers}
        answer = await browser._ask("POST", f"{API}/quarantine/{item}/approve", sent, b'{"reason": "checked"}')
    assert status == answer.status


async def test_a_wrong_bearer_key_is_not_made_good_by_a_session(start: Start) -> None:
    async with start(config=WITH_KEY) as proxy, Browser(proxy) as browser:
        await browser.sign_in()
        assert 401 == (await browser.get(f"{API}/records", authorization="Bearer wrong")).status


# ---- the cookie itself ----


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends() -> None:
    clock = Clock()
    sessions = Sessions("key", clock=clock)
    cookie = sessions.issue()
    clock.now += LIFETIME_S - 1
    before = sessions.valid(cookie)
    clock.now += 2
    assert (True, False) == (before, sessions.valid(cookie))


def test_another_admin_key_ends_every_session() -> None:
    cookie = Sessions("old").issue()
    assert (True, False) == (Sessions("old").valid(cookie), Sessions("new").valid(cookie))


@given(st.data())
def test_no_change_of_a_cookie_leaves_it_valid(data: st.DataObject) -> None:
    sessions = Sessions("key")
    cookie = sessions.issue()
    at = data.draw(st.integers(0, len(cookie) - 1))
    other = data.draw(st.text(max_size=3).filter(lambda text: text != cookie[at]))
    assert not sessions.valid(cookie[:at] + other + cookie[at + 1 :])


@given(st.text())
def test_no_text_is_a_session_by_chance(text: str) -> None:
    assert not Sessions("key").valid(text)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/dashboard/exchanges?run=a%2Fb", "/dashboard/exchanges?run=a%2Fb"),
        ("//evil.example/dashboard", "/dashboard"),
        ("/dashboard/\\evil.example", "/dashboard"),
        ("https://evil.example/dashboard", "/dashboard"),
        ("/dashboard.evil.example", "/dashboard"),
        ("/dashboard/x\r\nset-cookie: a=b", "/dashboard"),
        ("/dashboard/sign-out", "/dashboard"),
        ("", "/dashboard"),
    ],
)
def test_signing_in_leads_to_our_own_pages_only(path: str, expected: str) -> None:
    assert expected == local(path)


def test_sessions_differ() -> None:
    made: list[Any] = [Sessions("key").issue() for _ in range(3)]
    assert all(one != other for one, other in pairwise(made))
