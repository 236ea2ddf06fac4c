"""Answers that web pages of other origins may read: what the upstream grants holds for the proxy's own errors, too.

Nothing is granted by default. A page's preflight carries no key and is passed on; what the upstream then allows is repeated on errors of
the proxy's own for that route, which a page could not read otherwise. With ``cors:`` in config.yaml the proxy answers pages itself
(`with_cors`, Starlette's middleware), and no upstream is told of them: some refuse what a page asks. Specification:
https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from proxy.ports.upstream import Reply, header_of
from proxy.wire.http.asgi import RawHeaders, Receive, Scope, Send, whole_writer

MAX_GRANTS = 1024
ANSWERS_PAGES = "groundwire.pages"
"""In the scope of a request whose answer the proxy itself lets pages read."""
_ALLOWS = "access-control-allow-origin"
_VERSION = re.compile(r"/v1(?:beta|alpha)?/")


class Grants:
    """Which origins the upstreams of one worker's routes have let read their answers."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], bytes] = {}

    async def note(self, route: str, origin: str, sending: Awaitable[Reply]) -> Reply:
        """An upstream's answer to a page of that `origin`."""
        reply = await sending
        allowed = header_of(reply.headers, _ALLOWS)
        if allowed in ("*", origin) and len(self._found) < MAX_GRANTS:
            self._found[route, allowed] = allowed.encode("latin-1", "replace")
        return reply

    def headers(self, route: str, scope: Scope) -> RawHeaders:
        """For an error of the proxy's own."""
        origin = origin_of(scope)
        allowed = self._found.get((route, "*")) or self._found.get((route, origin)) if origin else None
        return [(_ALLOWS.encode(), allowed), (b"vary", b"origin")] if allowed else []


def origin_of(scope: Scope) -> str:
    """The origin of the page that asks; "" for any other client."""
    for name, value in scope["headers"]:
        if name == b"origin":
            return str(value, "latin-1")
    return ""


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks if a page may make a request."""
    return scope["method"] == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in scope["headers"])


Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_api(scope: Scope) -> bool:
    """Whether a request is for a route, and not for the operator's pages and paths."""
    return _VERSION.search(scope["path"]) is not None and not scope["path"].startswith("/groundwire/")


def with_cors(origins: Sequence[str], serve: Serve) -> Serve:
    """`serve` for clients of any kind, with what lets pages of these `origins` read its answers."""
    inner: Any = serve
    pages = CORSMiddleware(inner, origins, allow_methods=("GET", "POST", "DELETE"), allow_headers=("*",), expose_headers=("*",))

    async def in_pieces(scope: Scope, receive: Receive, send: Any) -> None:
        whole_writer(scope)  # taken out: what is written past `send` would lack the headers
        await pages({**scope, ANSWERS_PAGES: True}, receive, send)

    return in_pieces
