"""What stands between the MCP client and a server: an HTTP client, which reads no more of a body than it may, and keeps to ``HTTPS_PROXY``
and its like as upstreams do; and a look at lists of tools, of which the MCP client would refuse a whole page for one tool.
Imported with the MCP client itself.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import compress
from operator import not_
from types import TracebackType
from typing import Any

import httpx2
from groundwire_http1 import proxies
from mcp.client import Transport
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse
from mcp_types.methods import validate_server_result
from pydantic import ValidationError
from yarl import URL

from proxy.wire.http.encodings import PLAIN


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
    """Bounds every body but event streams, whose events the MCP client bounds itself. A compressed one, which nobody asked for, could stand
    for any number of bytes.
    """

    def __init__(self, most: int, proxy: httpx2.Proxy | None) -> None:
        super().__init__(proxy=proxy)
        self._most = most

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """As the base class's."""
        response = await super().handle_async_request(request)
        if response.headers.get("content-encoding", "").strip().lower() not in PLAIN:
            await response.aclose()
            raise httpx2.DecodingError("the answer is compressed, which was not asked for")
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _BoundedBody(response.stream, self._most)
        return response


def bounded_client(url: str, headers: Mapping[str, str], timeout_s: float, most_bytes: int) -> httpx2.AsyncClient:
    """A client for the server at `url`. Raises `proxies.BadProxy`."""
    timeout = httpx2.Timeout(min(10.0, timeout_s), read=max(timeout_s, 300.0))
    return httpx2.AsyncClient(
        headers={**headers, "accept-encoding": "identity"}, timeout=timeout, transport=_BoundedTransport(most_bytes, _proxy_to(url))
    )


def _proxy_to(url: str) -> httpx2.Proxy | None:
    """The forward proxy that the environment names for a server."""
    found = proxies.from_environment(URL(url), os.environ)
    if found is None:
        return None
    signed = {"proxy-authorization": found.authorization} if found.authorization else {}
    return httpx2.Proxy(f"http://{found.place}", headers=signed)


# ---- lists of tools ----


@asynccontextmanager
async def without_malformed_tools(
    transport: Transport, version: Callable[[], str | None], left_out: Callable[[Sequence[object]], None]
) -> AsyncIterator[Any]:
    """The transport's streams; of a list, tools that break the form of the protocol's `version` are given to `left_out`."""
    async with transport as (reading, writing):
        yield _Messages(reading, version, left_out), writing


class _Messages:
    """Implements `mcp.client.Transport`'s stream of what the server says, over another one."""

    def __init__(self, stream: Any, version: Callable[[], str | None], left_out: Callable[[Sequence[object]], None]) -> None:
        self._stream, self._version, self._left_out = stream, version, left_out

    @property
    def last_context(self) -> Any:
        """The context of who sent the last one, where the stream has it."""
        return getattr(self._stream, "last_context", None)

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return self._look_at(await self._stream.__anext__())

    async def receive(self) -> SessionMessage | Exception:
        """The next one."""
        return self._look_at(await self._stream.receive())

    async def aclose(self) -> None:
        """Read no more."""
        await self._stream.aclose()

    async def __aenter__(self) -> _Messages:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._stream.__aexit__(kind, error, trace)

    def _look_at(self, message: SessionMessage | Exception) -> SessionMessage | Exception:
        answer, version = getattr(message, "message", None), self._version()
        tools = answer.result.get("tools") if isinstance(answer, JSONRPCResponse) else None
        if version is None or not isinstance(answer, JSONRPCResponse) or not isinstance(tools, list):
            return message
        if not _is_taken(answer.result, version):
            taken = [_is_taken({**answer.result, "tools": [tool]}, version) for tool in tools]
            if any(taken):
                self._left_out(list(compress(tools, map(not_, taken))))
                answer.result["tools"] = list(compress(tools, taken))
        return message


def _is_taken(result: Mapping[str, Any], version: str) -> bool:
    with suppress(KeyError):  # of no version that the client knows lists by
        try:
            validate_server_result("tools/list", version, result)
        except ValidationError:
            return False
    return True
