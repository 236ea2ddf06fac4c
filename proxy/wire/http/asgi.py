"""The few ASGI moves that the request path needs, without a framework: read a body, answer, notice that the client has left.

Specification: https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, STATUS_LINE, RequestResponseCycle

from proxy.errors import InvalidRequest, Overloaded, ProxyError, RequestTooLarge
from proxy.ledger import Holding
from proxy.wire import sse

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]
Whole = Callable[[int, Sequence[tuple[bytes, bytes]], bytes], bool]
"""Status, headers with the ``content-length``, body -> whether they were written."""

_WATCH_AFTER_S = 0.05
"""Most answers are there sooner; only longer ones pay for a task that listens for the client's leaving."""


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_PASS_AT_ONCE = (b"x-accel-buffering", b"no")
"""Nginx, and what is made of it, holds a response back until some kilobytes have come, unless it is told so."""


class ClientGone(Exception):
    """The client closed its connection before its answer was whole."""


async def read_body(scope: Scope, receive: Receive, limit_bytes: int, room: Holding) -> bytes:
    """The whole request body, which takes `room` as it comes. Raises `RequestTooLarge`, `Overloaded`, `ClientGone`."""
    message = await receive()
    if message["type"] == "http.request" and not (message.get("more_body")):  # the common case: one piece
        body: bytes = message["body"] if "body" in message else b""  # noqa: SIM401 (a call less in each request)
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
        if not room.take(len(body)):
            raise _no_room()
        return body
    return await join_body(body_chunks(scope, receive, limit_bytes, first=message), room)


async def join_body(pieces: AsyncIterator[bytes], room: Holding) -> bytes:
    """All of a body's pieces, which take `room` as they come. Raises `Overloaded`, and what the iterator raises."""
    found = list[bytes]()
    try:
        async for piece in pieces:
            take(room, len(piece))
            found.append(piece)
        return b"".join(found)
    finally:
        found.clear()  # an error's traceback has this frame, until the garbage collector comes by


def take(room: Holding, size: int) -> None:
    """Raises `Overloaded` where there is none."""
    if not room.take(size):
        raise _no_room()


def _no_room() -> Overloaded:
    message = "the server has no room for this body beside those of other requests; try again in a moment"
    return Overloaded(message, headers=(("retry-after", "1"),))


async def body_chunks(scope: Scope, receive: Receive, limit_bytes: int, *, first: dict[str, Any] | None = None) -> AsyncIterator[bytes]:
    """The request body in pieces; `first` is a message already received. Raises `RequestTooLarge` as soon as it is known, `ClientGone`."""
    declared = declared_length(scope)
    if declared > limit_bytes:
        raise _too_large(limit_bytes)
    size = 0
    while True:
        message = first or await receive()
        first = None
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit_bytes:
            raise _too_large(limit_bytes)
        if chunk:
            yield chunk
        if not message.get("more_body", False):
            return


def declared_length(scope: Scope) -> int:
    """The ``content-length``, 0 without one. Raises `InvalidRequest`."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            if not value.isdigit():
                raise InvalidRequest("content-length is not a number")
            return int(value)
    return 0


def _too_large(limit_bytes: int) -> RequestTooLarge:
    return RequestTooLarge(f"the body is larger than server.max_body_bytes ({limit_bytes} bytes)")


class Departures:
    """Who is to be listened to, in case its client leaves, once its answer has taken a while: one timer for all of a server's."""

    def __init__(self) -> None:
        self._since: dict[Responder, float] = {}
        """By `loop.time`, the earliest first."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, responder: Responder, loop: asyncio.AbstractEventLoop) -> None:
        """It begins to wait for its answer."""
        self._since[responder] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_WATCH_AFTER_S, self._look)

    def discard(self, responder: Responder) -> None:
        """It is over."""
        self._since.pop(responder, None)

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - _WATCH_AFTER_S / 2
        for responder in [one for one, since in self._since.items() if since <= before]:
            del self._since[responder]
            responder.listen()
        self._timer = loop.call_later(_WATCH_AFTER_S, self._look) if self._since else None


class Responder:
    """Sends one response and knows how far it got; while it lasts, `watch` listens for the client's leaving."""

    def __init__(self, receive: Receive, send: Send, departures: Departures | None = None, at_once: Whole | None = None) -> None:
        """`departures` are shared by all of a server; `at_once` is what the server offers for a response that is whole."""
        self._receive, self._send, self._whole = receive, send, at_once
        self._departures = departures if departures is not None else Departures()
        self._watcher: asyncio.Task[None] | None = None
        self._task: asyncio.Task[Any] | None = None
        self.started = self.ended = self.client_gone = self.early = False
        """`early`: a stream that began before the upstream answered."""
        self.between_events = True
        """Of a stream, whether what has left ends with an event's end."""
        self.last_sent_at = 0.0
        """By the event loop's clock; 0 before the first byte."""
        self.status = 0
        self.before: asyncio.Event | None = None
        """No byte leaves before it is set."""

    def watch(self) -> None:
        """From now on, until the response ends, cancel the current task when the client leaves. The body must have been read."""
        loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(loop)
        self._departures.add(self, loop)

    def listen(self) -> None:
        """From now on."""
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if not self.ended and self._task is not None:
            self.client_gone = True
            self._task.cancel()

    def unwatch(self) -> None:
        """Stop listening."""
        self._departures.discard(self)
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None

    async def start(self, status: int, headers: RawHeaders) -> None:
        """Status and headers; nothing where a stream has begun early."""
        if self.started and self.early:
            return
        if self.before is not None:
            await self.before.wait()
        said = dict(headers)
        if said.get(b"content-type", b"").lower().startswith(b"text/event-stream") and b"content-length" not in said:
            headers = [*headers, _PASS_AT_ONCE]
        self.started, self.status = True, status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def write(self, chunk: bytes) -> None:
        """A piece of the body."""
        if chunk:
            self.last_sent_at = asyncio.get_running_loop().time()
            self.between_events = chunk.endswith(_EVENT_ENDS)
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """The last piece; nothing cancels us any more."""
        self.ended = True
        self.unwatch()
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def whole(self, status: int, headers: RawHeaders, body: bytes) -> None:
        """A complete response. One that is a stream already cannot be: see `KeepAlive`."""
        if self.early:
            await self.end(body)
            return
        if self.before is not None:
            await self.before.wait()
        headers.append((b"content-length", b"%d" % len(body)))
        if self._whole is not None and not self.started and self._whole(status, headers, body):
            self.started = self.ended = True
            self.status = status
            self.unwatch()
            return
        await self.start(status, headers)
        await self.end(body)

    async def error(self, error: ProxyError, headers: RawHeaders, body: bytes) -> None:
        """The error, `body` being its envelope in the client's API."""
        extra = [(k.encode("ascii"), v.encode("ascii")) for k, v in error.headers]
        await self.whole(error.status, [(b"content-type", b"application/json"), *extra, *headers], body)


_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]


class KeepAlive:
    """Of one response; it costs a timer until a pause is over."""

    def __init__(self, responder: Responder, pause_s: float, headers: Callable[[], RawHeaders]) -> None:
        """`headers` are the proxy's own, where the response has to begin before the upstream's."""
        self._responder, self._pause_s, self._headers = responder, pause_s, headers
        self._loop = asyncio.get_running_loop()
        self._beat: asyncio.Task[None] | None = None
        self._since = self._loop.time()
        self._timer = self._loop.call_later(pause_s, self._look)

    def close(self) -> None:
        """No further signs."""
        self._timer.cancel()
        if self._beat is not None:
            self._beat.cancel()

    def _look(self) -> None:
        responder = self._responder
        if responder.ended:
            return
        left = max(self._since, responder.last_sent_at) + self._pause_s - self._loop.time()
        ready = responder.before is None or responder.before.is_set()  # else the answer itself may begin while this waits
        if left <= 0 and ready and responder.between_events and (self._beat is None or self._beat.done()):
            self._beat = self._loop.create_task(self._send())
        self._timer = self._loop.call_later(left if left > 0 else self._pause_s, self._look)

    async def _send(self) -> None:
        with suppress(OSError, RuntimeError):  # the response has just ended, or its client has gone: whoever answers learns it, too
            if not self._responder.started:
                self._responder.early = True
                await self._responder.start(200, [*_HEADERS, *self._headers()])
            await self._responder.write(sse.KEEP_ALIVE)


# ---- a whole response in one write: an extension of the ASGI server, which `proxy.wire.http.bounds` offers and `Responder` takes ----
#
# uvicorn writes status and headers when they are told, and the body when that is: two calls of the system, and two wake-ups of whoever
# waits for them. An answer that is there in one piece goes out in one, and what is the same for each (a header's name, whether it is one)
# is looked at once. Where anything is not as usual nothing is written, and the response goes the ordinary way.
# https://asgi.readthedocs.io/en/latest/extensions.html

_WHOLE = "groundwire.whole"
_CONTROLS = bytes(code for code in (*range(32), 127) if code != 9)
"""What no header's value may have in it (RFC 9110 section 5.5)."""
_UNUSUAL = frozenset((b"connection", b"transfer-encoding"))
"""Headers by which the connection goes on in another way."""
_WITHOUT_BODY = (204, 304)
_ONE_PIECE_BYTES = 65_536
"""A longer body is not copied behind the headers."""
_MAX_NAMES = 512
_names: dict[bytes, bytes] = {}


def offer_whole(cycle: RequestResponseCycle) -> None:
    """Let the application answer the request of this cycle so."""
    scope: dict[str, Any] = cycle.scope  # type: ignore[assignment]
    scope["extensions"] = {_WHOLE: partial(write_whole, cycle)}


def whole_writer(scope: dict[str, Any]) -> Whole | None:
    """What the server offers with a request; None where it is another server's.

    It is taken out of the scope, which what is offered refers to: left in, each request would wait for the garbage collector.
    """
    extensions = scope.get("extensions")
    found: Whole | None = extensions.pop(_WHOLE, None) if extensions else None
    return found


def write_whole(cycle: RequestResponseCycle, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
    """Answer the request, as two messages to `cycle.send` would; False, and nothing is done, where that has to decide or to wait."""
    if cycle.response_started or cycle.disconnected or cycle.flow.write_paused or cycle.access_log:
        return False
    if cycle.scope["method"] == "HEAD" or status < 200 or status in _WITHOUT_BODY:
        return False
    pieces = [STATUS_LINE[status]]
    fields = [*cycle.default_headers, *headers]
    for name, value in fields:
        beginning = _names[name] if name in _names else _line_start(name)
        if not beginning:
            return False
        pieces += (beginning, value, b"\r\n")
    told = b"".join([value for _, value in fields])
    if len(told.translate(None, _CONTROLS)) != len(told):
        return False
    pieces.append(b"\r\n" if cycle.keep_alive else b"connection: close\r\n\r\n")
    cycle.response_started = cycle.response_complete = True
    cycle.waiting_for_100_continue = False
    if len(body) <= _ONE_PIECE_BYTES:
        pieces.append(body)
        cycle.transport.write(b"".join(pieces))
    else:
        cycle.transport.write(b"".join(pieces))
        cycle.transport.write(body)
    cycle.message_event.set()
    if not cycle.keep_alive:
        cycle.transport.close()
    cycle.on_response()
    return True


def _line_start(name: bytes) -> bytes:
    """The beginning of a header's line; b"" for a name that is none, or unusual."""
    lower = name.lower()
    if not name or lower in _UNUSUAL or HEADER_RE.search(name):
        return b""
    begun = lower + b": "
    if len(_names) < _MAX_NAMES and len(name) <= 64:  # of those that an upstream may think of, the first ones
        _names[name] = begun
    return begun
