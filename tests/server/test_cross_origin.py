"""Web pages that ask the proxy: preflights, and errors that a page can read."""

from __future__ import annotations

import hashlib

import pytest

from proxy.testing import reply
from tests.conftest import CHAT, Start

KEY = "gw-0123456789abcdef0123456789abcdef"
KEYS = f"keys: [{{name: web, sha256: {hashlib.sha256(KEY.encode()).hexdigest()}}}]\n"
PAGE = "http://localhost:3000"
PREFLIGHT = {"origin": PAGE, "access_control_request_method": "POST", "access_control_request_headers": "authorization"}
GRANTS = {"access-control-allow-origin": "*", "access-control-allow-headers": "*"}


def grant() -> object:
    return reply(b"", headers=GRANTS)


@pytest.mark.parametrize("config", ["", KEYS], ids=["without keys", "with keys"])
async def test_a_preflight_needs_no_key_and_the_upstream_answers_it(config: str, start: Start) -> None:
    async with start(grant(), config=config) as proxy:
        got = await proxy.request("OPTIONS", "/v1/chat/completions", **PREFLIGHT)
    assert (200, "*") == (got.status, got.headers["access-control-allow-origin"])


async def test_other_requests_still_need_one(start: Start) -> None:
    async with start(grant(), config=KEYS) as proxy:
        options = await proxy.request("OPTIONS", "/v1/chat/completions", origin=PAGE)
        posted = await proxy.post(CHAT, origin=PAGE)
    assert (401, 401) == (options.status, posted.status)


async def test_an_error_of_the_proxys_own_can_be_read_by_pages_that_the_upstream_allows(start: Start) -> None:
    async with start(grant(), config=KEYS) as proxy:
        before = await proxy.post({"model": "x"}, origin=PAGE, authorization=f"Bearer {KEY}")
        await proxy.request("OPTIONS", "/v1/chat/completions", **PREFLIGHT)
        after = await proxy.post({"model": "x"}, origin=PAGE, authorization=f"Bearer {KEY}")
        elsewhere = await proxy.post({"model": "x"}, authorization=f"Bearer {KEY}")
    allowed = [got.headers.get("access-control-allow-origin") for got in (before, after, elsewhere)]
    assert ([400, 400, 400], [None, "*", None]) == ([got.status for got in (before, after, elsewhere)], allowed)


@pytest.mark.parametrize(("origins", "allowed"), [("['*']", "*"), (f"['{PAGE}']", PAGE), ("['https://other.example']", None)])
async def test_with_cors_the_proxy_answers_pages_itself(origins: str, allowed: str | None, start: Start) -> None:
    async with start(config=KEYS + f"cors: {{origins: {origins}}}\n") as proxy:
        preflight = await proxy.request("OPTIONS", "/v1/chat/completions", **PREFLIGHT)
        answer = await proxy.post(CHAT, origin=PAGE, authorization=f"Bearer {KEY}")
        error = await proxy.post({"model": "x"}, origin=PAGE, authorization=f"Bearer {KEY}")
        plain = await proxy.post(CHAT, authorization=f"Bearer {KEY}")
        admin = await proxy.get("/groundwire/v1/records", origin=PAGE)
        calls = proxy.upstream.calls
    assert [200 if allowed else 400, 200, 400, 200] == [got.status for got in (preflight, answer, error, plain)]
    found = [got.headers.get("access-control-allow-origin") for got in (preflight, answer, error)]
    assert [allowed] * 3 == found
    assert "access-control-allow-origin" not in admin.headers
    assert ["POST", "POST"] == [call.method for call in calls]


@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent?alt=sse"])
async def test_with_cors_a_page_may_ask_in_the_api_of_gemini(method: str, start: Start) -> None:
    path, body = f"/v1beta/models/gemini-2.5-flash:{method}", {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    async with start(config=KEYS + f"cors: {{origins: ['{PAGE}']}}\n") as proxy:
        preflight = await proxy.request("OPTIONS", path, **PREFLIGHT)
        refused = await proxy.post(body, path, origin=PAGE, x_goog_api_key="wrong")
        calls = proxy.upstream.calls
    assert [(200, PAGE), (401, PAGE)] == [(got.status, got.headers.get("access-control-allow-origin")) for got in (preflight, refused)]
    assert [] == calls


@pytest.mark.parametrize(("config", "told"), [("", True), ("cors: {origins: ['*']}\n", False)])
async def test_an_upstream_hears_of_a_page_where_it_has_to_answer_it(config: str, told: bool, start: Start) -> None:
    """Ollama and Anthropic refuse what comes with an ``origin`` that they do not know."""
    async with start(config=config) as proxy:
        await proxy.post(CHAT, origin=PAGE)
        await proxy.get("/v1/models", origin=PAGE)
        assert [told, told] == ["origin" in call.headers for call in proxy.upstream.calls]


async def test_a_page_may_read_the_scores(start: Start) -> None:
    async with start(config=f"cors: {{origins: ['{PAGE}']}}\n") as proxy:
        got = await proxy.post(CHAT, origin=PAGE)
    assert "*" == got.headers["access-control-expose-headers"]
    assert "x-groundwire-id" in got.headers
