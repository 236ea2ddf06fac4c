"""What somebody finds who opens the server's address."""

import aiohttp
import pytest

from proxy.admin.dashboard.entrance import prefers_html
from proxy.testing import completion, reply
from tests.conftest import Start

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


async def test_a_browser_gets_a_page_with_the_addresses_and_the_way_to_the_dashboard(start: Start) -> None:
    async with start(reply(completion())) as proxy, aiohttp.ClientSession() as session:
        async with session.get(proxy.url + "/", headers={"accept": BROWSER}) as response:
            body = await response.text()
        kind, policy = response.headers["content-type"], response.headers["content-security-policy"]
    assert (200, "text/html; charset=utf-8", True) == (response.status, kind, policy.startswith("default-src 'none'"))
    parts = f"<code>{proxy.url}/v1</code>", "without <code>/v1</code>", 'href="/dashboard"'
    assert [] == [part for part in parts if part not in body]


async def test_a_program_gets_json_that_names_no_upstream_and_no_policy(start: Start) -> None:
    async with start(reply(completion())) as proxy, aiohttp.ClientSession() as session, session.get(proxy.url + "/") as response:
        found = await response.json()
        assert f"{proxy.url}/v1" in found["base_urls"]
    assert {"object", "version", "base_urls", "paths"} == set(found)
    assert ("/dashboard", "/ready") == (found["paths"]["dashboard"], found["paths"]["ready"])


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (BROWSER, True),
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("text/html;q=0.5, application/json", False),
        ("text/html;q=x", False),
    ],
)
def test_who_names_html_first_prefers_it(accept: str, expected: bool) -> None:
    assert expected == prefers_html(accept)
