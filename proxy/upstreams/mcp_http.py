"""The HTTP client of MCP servers, which reads no more of a body than it may, and keeps to ``HTTPS_PROXY`` and its like as upstreams do.
Imported with the MCP client itself.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping

import httpx2
from groundwire_http1 import proxies
from yarl import URL


class _BoundedBody(httpx2.AsyncByteStream):
    """A body that breaks off past `most` bytes."""

    def __init__(self, body: httpx2.AsyncByteStream, most: int) -> None:
        self._body, self._most = body, most

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._body:
            size += len(piece)
            if size > self._most:
                raise httpx2.DecodingError(f"the answer is longer than {self._most} bytes")
            yield piece

    async def aclose(self) -> None:
        """Give it up."""
        await self._body.aclose()


class _BoundedTransport(httpx2.AsyncHTTPTransport):
    """Bounds every body but event streams, whose events the MCP client bounds itself."""

    def __init__(self, most: int, proxy: httpx2.Proxy | None) -> None:
        super().__init__(proxy=proxy)
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """As the base class's."""
        response = await super().handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedBody(response.stream, self._most)
        return response


def bounded_client(url: str, headers: Mapping[str, str], timeout_s: float, most_bytes: int) -> httpx2.AsyncClient:
    """A client for the server at `url`. Raises `proxies.BadProxy`."""
    timeout = httpx2.Timeout(min(10.0, timeout_s), read=max(timeout_s, 300.0))
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_BoundedTransport(most_bytes, _proxy_to(url)))


def _proxy_to(url: str) -> httpx2.Proxy | None:
    """The forward proxy that the environment names for a server."""
    found = proxies.from_environment(URL(url), os.environ)
    if found is None:
        return None
    signed = {"proxy-authorization": found.authorization} if found.authorization else {}
    return httpx2.Proxy(f"http://{found.place}", headers=signed)
