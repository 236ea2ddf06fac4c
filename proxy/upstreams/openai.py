"""Any OpenAI-compatible server, spoken to byte for byte over one pooled aiohttp session.

In: a `Call` with the body to send. Out: the server's own status, headers and bytes, errors included; only what is no answer at all
(no connection, no byte in time, a connection that broke) becomes an error of ours. The client library was chosen by measurement:
``python -m benchmarks.http_clients``.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from proxy import __version__
from proxy.config.settings import OpenAISettings
from proxy.errors import ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call, Headers, Reply
from proxy.upstreams.encodings import Decoder, Undecodable

_KEY_HEADERS = frozenset(("authorization", "api-key", "x-api-key", "cookie", "openai-organization", "openai-project"))
"""A client's, which would say whose account it is beside the operator's key."""
_ADDED = frozenset(("user-agent", "accept", "accept-encoding", "content-type"))
"""Headers that aiohttp would add where they are missing."""
_WHOLE_BODY_BYTES = 2**20
_READ_BUFFER_BYTES = 2**18
"""Bytes read ahead of a slow client before the upstream is made to wait."""


class OpenAIUpstream:
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: OpenAISettings) -> None:
        self.name = name
        self._settings = settings
        self._base = settings.base_url.rstrip("/")
        self._where = urlsplit(self._base).netloc.rpartition("@")[2]
        self._own_headers = [(k.lower(), v) for k, v in settings.headers.items()]
        if settings.api_key and settings.api_key != "forward":
            self._own_headers.append(("authorization", f"Bearer {settings.api_key}"))
        self._replaced = frozenset(k for k, _ in self._own_headers) | (frozenset() if settings.api_key == "forward" else _KEY_HEADERS)
        times = settings.timeouts
        # No total: aiohttp's costs a context manager per read. The reply looks at its deadline with every piece.
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=times.connect_s, sock_read=min(times.first_byte_s, times.total_s))
        self._urls: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None

    def catalogue_name(self, model: str) -> str:
        """The model's name with the configured prefix."""
        return self._settings.model_prefix + model

    async def start(self) -> None:
        """Open the session; no connection is made yet."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=75, ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=self._timeout,
            read_bufsize=_READ_BUFFER_BYTES,
            trust_env=False,
        )

    async def stop(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def send(self, call: Call) -> Reply:
        """Make the call once. Raises `UpstreamUnreachable`, `UpstreamTimeout`."""
        if self._session is None:
            raise UpstreamUnreachable(f"upstream {self.name} is not started")
        times = self._settings.timeouts
        deadline = asyncio.get_running_loop().time() + times.total_s
        headers = self._headers(call)
        missing = _ADDED.difference([name for name, _ in headers])
        try:
            response = await self._session.request(
                call.method,
                self._url(call.path),
                data=_payload(call.body),
                headers=headers,
                skip_auto_headers=missing or None,  # where there are none, aiohttp does not look for each
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            raise self.failure(error, connecting=True) from error
        try:
            return _OpenAIReply(self, response, times.between_chunks_s, deadline, decode=not call.raw)
        except Undecodable as error:
            response.close()
            raise self.failure(error, connecting=False) from error

    def _url(self, path: str) -> URL:
        url = self._urls.get(path)
        if url is None:
            url = URL(self._base + path, encoded=True)
            if "?" not in path and len(self._urls) < 256:
                self._urls[path] = url
        return url

    def _headers(self, call: Call) -> list[tuple[str, str]]:
        headers = [item for item in call.headers if item[0] not in self._replaced]
        headers += self._own_headers
        if not call.raw:
            headers.append(("accept-encoding", "identity"))
        if "user-agent" not in [name for name, _ in headers]:
            headers.append(("user-agent", f"groundwire/{__version__}"))
        return headers

    def failure(self, error: Exception, *, connecting: bool) -> ProxyError:
        """The one converter from aiohttp's exceptions to ours."""
        who = f"upstream {self.name} ({self._where})"
        if isinstance(error, Undecodable):
            return UpstreamUnreachable(f"{who}: {error}")
        if isinstance(error, aiohttp.ConnectionTimeoutError):
            return UpstreamTimeout(f"{who}: no connection within {self._settings.timeouts.connect_s:g} s")
        if isinstance(error, TimeoutError):
            times = self._settings.timeouts
            limit = (
                f"no first byte within {times.first_byte_s:g} s" if connecting else f"no further byte within {times.between_chunks_s:g} s"
            )
            return UpstreamTimeout(f"{who}: {limit}")
        if isinstance(error, aiohttp.ClientConnectorError):
            return UpstreamUnreachable(f"{who}: cannot connect: {error.os_error.strerror or type(error.os_error).__name__}")
        if isinstance(error, aiohttp.ClientPayloadError):
            return UpstreamUnreachable(f"{who}: the connection broke before the answer was whole")
        if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError | aiohttp.ClientOSError):
            return UpstreamUnreachable(f"{who}: the connection was closed{' before an answer' if connecting else ' mid-answer'}")
        return UpstreamUnreachable(f"{who}: not a usable HTTP answer ({type(error).__name__})")


def _payload(body: bytes | AsyncIterator[bytes]) -> Any:
    """What aiohttp takes: it writes bytes in one go, which above a mebibyte would hold up the event loop."""
    return io.BytesIO(body) if isinstance(body, bytes) and len(body) > _WHOLE_BODY_BYTES else body


class _OpenAIReply:
    """Implements `proxy.ports.upstream.Reply`."""

    __slots__ = ("_deadline", "_decoded", "_decoder", "_response", "_upstream", "attempts", "headers", "status", "upstream")

    def __init__(
        self, upstream: OpenAIUpstream, response: aiohttp.ClientResponse, between_s: float, deadline: float, *, decode: bool
    ) -> None:
        """Raises `Undecodable`."""
        self._upstream, self._response, self._deadline = upstream, response, deadline
        encoding = response.headers.get("content-encoding", "identity") if decode else "identity"
        self._decoder = Decoder(encoding) if encoding.lower() not in ("identity", "") else None
        self._decoded: Iterator[bytes] = iter(())
        connection = response.connection
        protocol = connection.protocol if connection is not None else None
        if protocol is not None:  # the body is not here yet: from now on, pauses count
            protocol.read_timeout = between_s
            protocol.start_timeout()

            def ended() -> None:  # what is read of the buffer afterwards would start the clock of an idle connection again
                protocol.read_timeout = None

            response.content.on_eof(ended)
        self.status = response.status
        encoded = ("content-length", "content-encoding") if self._decoder is not None else ()
        self.headers: Headers = [(name, v) for k, v in response.headers.items() if (name := k.lower()) not in encoded]
        self.upstream = upstream.name
        self.attempts = 1

    async def read(self) -> bytes:
        """The whole body."""
        first = await self._piece()
        if self._decoder is None and self._response.content.at_eof():  # most answers come in one piece
            return first
        pieces = [first]
        while piece := await self._piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        while piece := await self._piece():
            yield piece

    async def _piece(self) -> bytes:
        """The next of the body's bytes, decoded; b"" at its end."""
        if self._decoder is None:
            return await self._sent()
        try:
            while not (piece := next(self._decoded, b"")):
                if not (sent := await self._sent()):
                    self._decoder.end()
                    return b""
                self._decoded = self._decoder.pieces(sent)
        except Undecodable as error:
            self._response.close()
            raise self._upstream.failure(error, connecting=False) from error
        return piece

    async def _sent(self) -> bytes:
        try:
            piece = await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            self._response.close()
            raise self._upstream.failure(error, connecting=False) from error
        if piece and asyncio.get_running_loop().time() > self._deadline:  # an upstream that drips on for ever
            self._response.close()
            raise UpstreamTimeout(f"upstream {self.upstream}: the answer was not whole within its total time")
        return piece

    async def close(self) -> None:
        """Give the connection back, or drop it when the body has not ended."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()
