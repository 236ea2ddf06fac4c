"""The HTTP client of MCP servers, which reads no more of a body than it may. Imported with the MCP client itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import httpx2


class _Bounded(httpx2.AsyncByteStream):
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

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """As the base class's."""
        response = await super().handle_async_request(request)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _Bounded(response.stream, self._most)
        return response


def bounded_client(headers: Mapping[str, str], timeout_s: float, most_bytes: int) -> httpx2.AsyncClient:
    """A client for one server."""
    timeout = httpx2.Timeout(min(10.0, timeout_s), read=max(timeout_s, 300.0))
    return httpx2.AsyncClient(headers=dict(headers), timeout=timeout, transport=_BoundedTransport(most_bytes))
