"""What an upstream, or a client, puts beside an answer or a request so that others act on it: nothing of it goes through."""

from typing import Any

import pytest

from proxy.testing import completion, reply
from tests.conftest import CHAT, Start
from tests.cost import below

ONCE = "retries: {attempts: 0}"
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/v1/models")
ACTING = {
    "set-cookie": "session=x; Path=/",
    "x-accel-redirect": "/internal",
    "x-accel-buffering": "no",
    "clear-site-data": '"*"',
    "refresh": "0; url=http://127.0.0.1:9/",
    "alt-svc": 'h3=":9"',
    "location": "http://127.0.0.1:9/",
    "x-sendfile": "/etc/hosts",
}


@pytest.mark.parametrize("status", [300, 301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", PATHS)
async def test_a_redirect_is_a_502_whoever_asks(start: Start, path: str, status: int) -> None:
    elsewhere = reply(completion("A lie."), status, {"location": "http://127.0.0.1:9/v1/chat/completions"})
    async with start(elsewhere, upstream_options=ONCE) as proxy:
        got = await (proxy.get(path) if path == "/v1/models" else proxy.post(_body(path), path))
    assert (502, 1, None) == (got.status, len(proxy.upstream.calls), got.headers.get("location"))
    assert b"redirects are not followed" in got.body


def _body(path: str) -> dict[str, Any]:
    if path == "/v1/responses":
        return {"model": "m", "input": "Hi"}
    return {"model": "m", "input": "Hi"} if path == "/v1/embeddings" else {**CHAT, "max_tokens": 9}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models"])
async def test_headers_that_act_on_clients_stay_behind(start: Start, path: str) -> None:
    async with start(reply(completion(), headers={**ACTING, "x-request-id": "r1", "retry-after": "3"})) as proxy:
        got = await (proxy.get(path) if path == "/v1/models" else proxy.post())
    assert (200, "r1", "3", []) == (
        got.status,
        got.headers["x-request-id"],
        got.headers["retry-after"],
        [name for name in ACTING if name in got.headers],
    )


@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "", "application/json, text/html", "application/json"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/conversations/c1"])
async def test_a_page_of_the_upstreams_has_no_origin_and_runs_nothing(path: str, kind: str, start: Start) -> None:
    async with start(reply(b"<script>fetch('/dashboard')</script>", headers={"content-type": kind})) as proxy:
        got = await (proxy.post() if path == "/v1/chat/completions" else proxy.get(path))
    shown = None if kind == "application/json" else "sandbox", None if kind == "application/json" else "nosniff"
    assert (200, shown) == (got.status, (got.headers.get("content-security-policy"), got.headers.get("x-content-type-options")))


async def test_a_client_does_not_name_another_method_or_path(start: Start) -> None:
    names = ("x_http_method_override", "x_http_method", "x_method_override", "x_original_url", "x_rewrite_url")
    async with start(reply(completion())) as proxy:
        got = await proxy.post(**dict.fromkeys(names, "DELETE"))
        sent = proxy.upstream.calls[0].headers
    assert (200, []) == (got.status, [name for name in names if name.replace("_", "-") in sent])


@pytest.mark.parametrize("path", ["/v1/chat/completions?_method=DELETE", "/v1/embeddings?a=1&_METHOD=GET"])
async def test_a_query_does_not_name_another_method(start: Start, path: str) -> None:
    async with start(reply(completion())) as proxy:
        got = await proxy.post(CHAT, path)
    assert (400, []) == (got.status, proxy.upstream.calls)


@pytest.mark.parametrize(("method", "path"), [("OPTIONS", "/v1/chat/completions"), ("GET", "/v1/models")])
async def test_a_body_where_the_method_has_none_goes_nowhere(start: Start, method: str, path: str) -> None:
    async with start(reply(completion())) as proxy:
        got = await proxy.request(method, path, b'{"model": "m"}')
    assert (400, []) == (got.status, proxy.upstream.calls)


@pytest.mark.parametrize("key", ["forward", "''"])
async def test_an_unknown_name_on_loopback_is_refused_where_clients_have_no_keys(key: str, start: Start) -> None:
    async with start(api_key=key) as proxy:
        refused = await proxy.post(host="evil.example")
        known = await proxy.post(host="localhost:4000")
    assert (403, 200, 1) == (refused.status, known.status, len(proxy.upstream.calls))


@pytest.mark.cost
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1beta/models/{}:generateContent"])
async def test_a_models_name_has_a_bound(path: str, start: Start) -> None:
    name = "a/" * 10_000 + "a"
    async with start(reply(completion())) as proxy:
        with below(1):
            got = await proxy.post({**_body(path), "contents": [], "model": name}, path.format(name.replace("/", "%2F")))
    assert (400, []) == (got.status, proxy.upstream.calls)
    assert b"at most 512 characters" in got.body
