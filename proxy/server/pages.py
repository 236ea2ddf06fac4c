"""``cors:`` in config.yaml: the proxy itself tells browsers which pages may read its answers, with Starlette's middleware."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.middleware.cors import CORSMiddleware

from proxy.wire.http.asgi import Receive, Scope, Send
from proxy.wire.http.whole import offered

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


def is_api(scope: Scope) -> bool:
    """Whether a request is for a route, and not for the operator's pages and paths."""
    return "/v1/" in scope["path"] and not scope["path"].startswith("/groundwire/")


def readable_by(origins: Sequence[str], serve: Serve) -> Serve:
    """`serve` for clients of any kind, with what lets pages of these `origins` read its answers."""
    inner: Any = serve
    pages = CORSMiddleware(inner, origins, allow_methods=("GET", "POST", "DELETE"), allow_headers=("*",), expose_headers=("*",))

    async def in_pieces(scope: Scope, receive: Receive, send: Any) -> None:
        offered(scope)  # taken out: what is written past `send` would lack the headers
        await pages(scope, receive, send)

    return in_pieces
