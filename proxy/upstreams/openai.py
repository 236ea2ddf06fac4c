"""Any OpenAI-compatible server, Anthropic's API and Google's, spoken to byte for byte over kept connections.

In: a `Call` with the body to send. Out: the server's own status, headers and bytes, errors included; only what is no answer at all
(no connection, no byte in time, a connection that broke) becomes an error of ours. The client is `groundwire_http1`, chosen by
measurement: ``python -m benchmarks.http_clients``.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import AsyncIterator, Iterator
from urllib.parse import parse_qs, urlencode, urlsplit

import groundwire_http1 as http1
from msgspec.structs import replace

from proxy import __version__
from proxy.config.sections import MODEL, PATHS, decision_api
from proxy.config.settings import AnthropicSettings, GeminiSettings, OpenAISettings
from proxy.errors import ConfigError, ProxyError, UpstreamTimeout, UpstreamUnreachable
from proxy.offloop import Breather
from proxy.ports.upstream import BodyReply, Call, Headers, Reply, header_of, is_event_stream, read_whole
from proxy.wire.gemini.address import COUNT, GENERATE, KEY_HEADER, address_of, without_address, without_keys
from proxy.wire.http.encodings import PLAIN, Decoder, Undecodable

_KEY_HEADERS = frozenset(("authorization", "api-key", "x-api-key", KEY_HEADER, "cookie", "openai-organization", "openai-project"))
"""A client's, which would say whose account it is beside the operator's key."""
_FRAMING = frozenset(("host", "transfer-encoding", "expect"))
"""What the connection says for itself."""
_REPEATABLE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))
"""Methods that may be sent once more over a new connection, when a kept one was closed before an answer (RFC 9110 section 9.2.2)."""
_DELAY = re.compile(rb'"retryDelay"\s*:\s*"(\d{1,9}(?:\.\d{1,9})?)s"')
_MOST_REFUSAL_BYTES = 2**20
EVENTS_SLICE_BYTES = 8192
"""Of a stream, read at once: 4,096 blank events, the shortest there are, take some 30 ms."""


class OpenAIUpstream:
    """Implements `proxy.ports.upstream.Upstream`."""

    def __init__(self, name: str, settings: OpenAISettings) -> None:
        self.name = name
        self._settings = settings
        self._where = urlsplit(settings.base_url).netloc.rpartition("@")[2]
        self._is_google = (urlsplit(settings.base_url).hostname or "").endswith(".googleapis.com")
        own = [(k.lower(), v) for k, v in settings.headers.items()]
        self._host = header_of(own, "host")
        self._keep = not any(k == "connection" and "close" in v.lower() for k, v in own)
        self._own_headers = [(k, v) for k, v in own if k not in _FRAMING and k != "content-length"]
        if settings.api_key and settings.api_key != "forward":
            self._own_headers.append(("authorization", f"Bearer {settings.api_key}"))
        keys = frozenset[str]() if settings.api_key == "forward" else _KEY_HEADERS
        self._own_names = _FRAMING | keys | frozenset(k for k, _ in self._own_headers)
        self._replaced_whole = self._own_names | {"content-length"}
        """Of a call whose body is there."""
        self._pool: http1.Pool | None = None
        api = decision_api(settings.base_url, settings.decisions)
        self._paths = {} if MODEL in api.path else {PATHS[api.shape]: api.path}
        """Where its server has decisions elsewhere than the shape has them."""

    def catalogue_name(self, model: str) -> str:
        """The model's name with the configured prefix."""
        return self._settings.model_prefix + model

    async def start(self) -> None:
        """Make ready; no connection is made yet. Raises `ConfigError`."""
        try:
            origin = http1.Origin(self._settings.base_url, self._host, proxy=self._settings.proxy, environment=os.environ)
        except http1.BadProxy as error:
            raise ConfigError("config.yaml", f"upstreams.{self.name}.proxy", str(error)) from error
        except ValueError as error:
            raise ConfigError("config.yaml", f"upstreams.{self.name}.base_url", f"expected a URL: {error}") from error
        times = self._settings.timeouts
        limits = http1.Limits(times.connect_s, min(times.first_byte_s, times.total_s), times.between_chunks_s)
        self._pool = http1.Pool(origin, limits, keep=self._keep)

    async def stop(self) -> None:
        """Close every connection."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def send(self, call: Call) -> Reply:
        """Make the call once. Raises `UpstreamUnreachable` (a redirect is one), `UpstreamTimeout`, and what the body's iterator raises."""
        pool = self._pool
        if pool is None:
            raise UpstreamUnreachable(f"upstream {self.name} is not started")
        try:
            connection = await self._ask(pool, call)
        except http1.Failure as error:
            raise self.failure(error) from error
        if 300 <= connection.status < 400 and connection.status != 304:
            connection.abort()
            raise self._refuse_redirect(connection)
        if connection.status == 407:
            connection.abort()
            raise _final(UpstreamUnreachable(f"upstream {self.name} ({self._where}): a proxy on the way asks for credentials"))
        try:
            reply = _OpenAIReply(self, connection, decode=not call.raw)
        except Undecodable as error:
            connection.abort()
            raise self.failure(error) from error
        return await _with_delay(reply) if reply.status == 429 and self._is_google and not call.raw else reply

    def _refuse_redirect(self, connection: http1.Connection) -> UpstreamUnreachable:
        """A client that follows a redirect hands its request, and its key, to whoever it names, and shows an answer that nobody read."""
        place = urlsplit(header_of(connection.headers, "location") or "")
        to = f" to {place.scheme}://{place.netloc.rpartition('@')[2]}"[:200] if place.netloc else ""
        why = "redirects are not followed, and not passed on; base_url should name the place itself"
        return _final(UpstreamUnreachable(f"upstream {self.name} ({self._where}) answered with a redirect, {connection.status}{to}: {why}"))

    async def _ask(self, pool: http1.Pool, call: Call) -> http1.Connection:
        """The connection on which the answer has begun. Raises `http1.Failure`."""
        body, length = call.body, None
        headers = self._headers(call)
        if isinstance(body, bytes):
            framing = f"Content-Length: {len(body)}\r\n\r\n"
        elif given := header_of(headers, "content-length"):
            framing, length = "\r\n", int(given) if given.isascii() and given.isdecimal() and len(given) < 20 else -1
        else:
            framing = http1.CHUNKED
        head = pool.origin.head(call.method, self._paths.get(call.path, call.path), headers, framing)
        total_s, bodiless = self._settings.timeouts.total_s, call.method == "HEAD"
        connection = pool.kept()
        if connection is not None:
            try:
                await connection.ask(head, body, length, total_s, bodiless=bodiless)
            except http1.Closed as error:
                pool.forget()
                if not error.stale or call.method not in _REPEATABLE_METHODS or not isinstance(body, bytes):
                    raise
            else:
                return connection
        connection = await pool.connect()
        try:
            await connection.ask(head, body, length, total_s, bodiless=bodiless)
        except http1.Closed as error:
            error.stale = False  # a new connection was not closed before the request
            raise
        return connection

    def _headers(self, call: Call) -> list[tuple[str, str]]:
        replaced = self._replaced_whole if isinstance(call.body, bytes) else self._own_names
        headers = [item for item in call.headers if item[0] not in replaced]
        headers += self._own_headers
        if not call.raw:
            headers.append(("accept-encoding", "identity"))
        if "user-agent" not in [name for name, _ in headers]:
            headers.append(("user-agent", f"groundwire/{__version__}"))
        return headers

    def failure(self, error: Exception) -> ProxyError:
        """The one converter of what goes wrong on a connection to our errors."""
        who, times = f"upstream {self.name} ({self._where})", self._settings.timeouts
        match error:
            case http1.ConnectTimeout():
                return UpstreamTimeout(f"{who}: no connection within {times.connect_s:g} s")
            case http1.Silent(answering=False):
                return UpstreamTimeout(f"{who}: no first byte within {times.first_byte_s:g} s")
            case http1.Silent():
                return UpstreamTimeout(f"{who}: no further byte within {times.between_chunks_s:g} s")
            case http1.Overdue():
                return UpstreamTimeout(f"upstream {self.name}: the answer was not whole within its total time")
            case http1.NotConnected():
                return UpstreamUnreachable(f"{who}: cannot connect: {error}")
            case http1.Broken():
                return UpstreamUnreachable(f"{who}: the connection broke before the answer was whole")
            case http1.Closed(stale=True):
                return UpstreamUnreachable(f"{who}: the connection was closed before an answer")
            case http1.Closed():
                return _final(UpstreamUnreachable(f"{who}: the connection was closed before an answer"))
            case http1.Unsendable():
                return UpstreamUnreachable(f"{who}: the request cannot be sent: {error}")
            case Undecodable():
                return UpstreamUnreachable(f"{who}: {error}")
            case _:
                return UpstreamUnreachable(f"{who}: not a usable HTTP answer ({error})")


async def _with_delay(reply: Reply) -> Reply:
    """Google tells in a refusal's body alone when to ask again: retries, and clients of other APIs, look for it in a header."""
    if header_of(reply.headers, "retry-after"):
        return reply
    try:
        body = await read_whole(reply, _MOST_REFUSAL_BYTES)
    finally:
        await reply.close()
    found = _DELAY.search(body)
    told = [("retry-after", str(math.ceil(float(found[1]))))] if found else []
    return BodyReply(reply.upstream, reply.status, [*reply.headers, *told], body)


def _final(error: UpstreamUnreachable) -> UpstreamUnreachable:
    """An error after which the server, which has read the call, is not asked once more."""
    error.repeatable = False
    return error


_NOTHING: Iterator[bytes] = iter(())


class _OpenAIReply:
    """Implements `proxy.ports.upstream.Reply`."""

    __slots__ = ("_connection", "_decoded_pieces", "_decoder", "_upstream", "attempts", "headers", "status", "upstream")

    def __init__(self, upstream: OpenAIUpstream, connection: http1.Connection, *, decode: bool) -> None:
        """Raises `Undecodable`."""
        self._upstream = upstream
        self._connection: http1.Connection | None = connection
        """None once all of the body was taken: then it may serve another call."""
        encoding = connection.encoding
        self._decoder = Decoder(encoding) if decode and encoding.strip().lower() not in PLAIN else None
        self._decoded_pieces = _NOTHING
        self.status = connection.status
        self.headers: Headers = connection.headers
        if self._decoder is not None:
            self.headers = [item for item in connection.headers if item[0] not in ("content-length", "content-encoding")]
        self.upstream = upstream.name
        self.attempts = 1

    async def read(self) -> bytes:
        """The whole body."""
        connection = self._connection
        if self._decoder is None and connection is not None and connection.complete:  # most answers come in one piece, with their head
            self._connection, body = None, connection.take()
            connection.release()
            return body
        first = await self._piece()
        pieces = [first]
        while piece := await self._piece():
            pieces.append(piece)
        return b"".join(pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; of a stream, which may have thousands of events in what arrives at once, a slice at a time."""
        streams, breather = is_event_stream(self.headers), Breather()
        while piece := await self._piece():
            for start in range(0, len(piece), EVENTS_SLICE_BYTES if streams else len(piece)):
                await breather.yield_if_due()
                yield piece[start : start + EVENTS_SLICE_BYTES] if streams else piece

    async def _piece(self) -> bytes:
        """The next of the body's bytes, decoded; b"" at its end."""
        if self._decoder is None:
            return await self._read_sent()
        try:
            while not (piece := next(self._decoded_pieces, b"")):
                if not (sent := await self._read_sent()):
                    self._decoder.end()
                    return b""
                self._decoded_pieces = self._decoder.pieces(sent)
        except Undecodable as error:
            await self.close()
            raise self._upstream.failure(error) from error
        return piece

    async def _read_sent(self) -> bytes:
        connection = self._connection
        if connection is None:
            return b""
        try:
            piece = await connection.piece()
        except http1.Failure as error:
            raise self._upstream.failure(error) from error
        if connection.complete:
            self._connection = None
            connection.release()
        return piece

    async def close(self) -> None:
        """Give the connection back, or drop it when the body has not ended."""
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.complete:
                connection.release()
            else:
                connection.abort()


VERSION = "2023-06-01"
_CHAT = "/chat/"


class AnthropicUpstream(OpenAIUpstream):
    """Anthropic's API, or a server that speaks it: the same HTTP with another key header.

    The operator's key goes as ``x-api-key``; to the paths that Anthropic has in OpenAI's form (``/chat/completions``) as ``Authorization``.
    A client that sends no ``anthropic-version``, as one of another API does, gets the one that this was written for.
    """

    def __init__(self, name: str, settings: AnthropicSettings) -> None:
        super().__init__(name, settings)
        own = settings.api_key if settings.api_key != "forward" else ""
        self._key = own
        self._own_headers = [(key, value) for key, value in self._own_headers if key != "authorization" or not own]

    def _headers(self, call: Call) -> list[tuple[str, str]]:
        headers = super()._headers(call)
        chat = call.path.startswith(_CHAT)
        if self._key:
            headers.append(("authorization", f"Bearer {self._key}") if chat else ("x-api-key", self._key))
        if not chat and not any(name == "anthropic-version" for name, _ in headers):
            headers.append(("anthropic-version", VERSION))
        return headers


class GeminiUpstream(OpenAIUpstream):
    """Google's API, or a server that speaks it: the model stands in the address, the key in a header of its own."""

    def __init__(self, name: str, settings: GeminiSettings) -> None:
        super().__init__(name, settings)
        self._is_google = True
        own = settings.api_key if settings.api_key != "forward" else ""
        bearer = ("authorization", f"Bearer {own}")
        self._own_headers = [(KEY_HEADER, own) if own and header == bearer else header for header in self._own_headers]

    async def send(self, call: Call) -> Reply:
        """Make the call, of ``generateContent`` at the address of its model. Raises `InvalidRequest` for a name that is no model's."""
        path, _, query = call.path.partition("?")
        if "key" in parse_qs(query, keep_blank_values=True):  # also one of another path than the API's own is in no address
            keys, rest = without_keys(query)
            call = replace(call, path=f"{path}?{urlencode(rest)}" if rest else path, headers=[*call.headers, *keys])
        if path in (GENERATE, COUNT) and isinstance(call.body, bytes):
            model, streams, body = without_address(call.body)
            call = replace(call, path=address_of(path, model, streams=streams), body=body)
        return await super().send(call)
