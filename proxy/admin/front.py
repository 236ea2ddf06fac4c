"""``GET /``: what somebody finds who opens the server's address: where a client points its ``base_url``, and where the dashboard is.

Open to anybody, so it says nothing that the server's own errors do not say: no upstreams, no policies, no traffic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from starlette.requests import Request
from starlette.responses import Response

from proxy import __version__
from proxy.admin.answers import json_answer
from proxy.admin.dashboard.entrance import HEADERS
from proxy.admin.dashboard.rendering import page

PATHS = {"dashboard": "/dashboard", "health": "/health", "ready": "/ready", "metrics": "/metrics", "api": "/groundwire/v1"}


def front(prefixes: Sequence[str]) -> Callable[[Request], Awaitable[Response]]:
    """The handler; `prefixes` are the routes'."""

    async def answer(request: Request) -> Response:
        addresses = [f"{str(request.base_url).rstrip('/')}{prefix}/v1" for prefix in prefixes]
        if prefers_html(request.headers.get("accept", "")):
            return await page("front.html", None, 200, HEADERS | {"vary": "accept"}, addresses=addresses)
        found = json_answer({"object": "groundwire", "version": __version__, "base_urls": addresses, "paths": PATHS})
        found.headers["vary"] = "accept"
        return found

    return answer


def prefers_html(accept: str) -> bool:
    """Whether HTML comes before JSON in an ``accept`` header; browsers name it first (RFC 9110, section 12.5.1)."""
    kinds: dict[str, float] = {}
    for entry in accept.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = next((p.removeprefix("q=") for p in parameters if p.startswith("q=")), "1")
        kinds.setdefault(name, float(weight) if weight.replace(".", "", 1).isdecimal() else 0.0)
    return kinds.get("text/html", 0.0) > kinds.get("application/json", 0.0)
