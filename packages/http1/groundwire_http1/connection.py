"""One connection: a request at a time, its answer parsed as it arrives.

A request with a small body costs no task, one future for the head and, where the body comes later, one for each wait. One timer serves a
connection as long as it lives: it looks at `_deadline` no later than the shortest of all limits from now, so that a new deadline needs no
new timer.

What could be read in two ways is refused (RFC 9112 sections 6.3 and 11): both lengths, two of one, a transfer coding other than chunked,
folded headers, bare line ends. A connection with bytes behind the answer's end, and any after HEAD, is not kept.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator
from math import inf
from typing import cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from groundwire_http1.failures import BadAnswer, Broken, Closed, Overdue, Silent
from groundwire_http1.limits import Limits
from groundwire_http1.sending import AT_ONCE_BYTES, Writing

Body = bytes | AsyncIterator[bytes]
_READ_BUFFER_BYTES = 2**18
"""Bytes read ahead of a slow reader before the server is made to wait."""
_MAX_QUIET_BYTES = 2**16
"""That come in a row without a byte of a body: a head, a chunk's size line with its extensions, trailers."""
_MAX_HEADERS = 128
_JOINED_BYTES = 2**14
"""Of a body that is copied to its head for one write."""
_LOOKED_AT = frozenset(("content-length", "transfer-encoding", "content-encoding", "keep-alive"))
_KEEP_ALIVE = re.compile(r"\btimeout\s*=\s*\"?([0-9]{1,6})\b", re.I)
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_MAX_NAMES = 512
_names: dict[bytes, str] = {}


def _name(raw: bytes) -> str:
    """A header's name in lower case; those that come again with each answer are decoded once."""
    name = raw.decode("latin-1").lower()
    if len(_names) < _MAX_NAMES and len(raw) <= 64:
        _names[raw] = name
    return name


def _said_goodbye(tls: ssl.SSLObject) -> bool:
    """Whether close_notify came: asyncio, unlike uvloop, tells of an end without it in the same way."""
    try:
        return tls.read(1) == b""
    except ssl.SSLError:  # it would read on
        return False


class Connection(asyncio.Protocol):
    """Implements the callbacks of a transport and of `HttpResponseParser`; to its user `ask`, `piece`, `take`, `release`, `abort`."""

    __slots__ = (
        "_between_s",
        "_bodiless",
        "_born_at",
        "_buffered",
        "_deadline",
        "_error",
        "_fields",
        "_first_byte_s",
        "_framed",
        "_full",
        "_gone",
        "_idle",
        "_idle_s",
        "_interim",
        "_keep",
        "_limits",
        "_loop",
        "_open",
        "_overdue_at",
        "_parser",
        "_paused",
        "_pieces",
        "_quiet",
        "_refusal",
        "_timer",
        "_to_end",
        "_transport",
        "_waiter",
        "_writing",
        "complete",
        "encoding",
        "headers",
        "status",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limits: Limits, idle: dict[Connection, None], others: set[Connection], *, keep: bool
    ) -> None:
        """In `idle` it puts itself when it may serve another request, in `others` it stands while it is open."""
        self._loop, self._limits, self._idle, self._open = loop, limits, idle, others
        self._first_byte_s, self._between_s = limits.first_byte_s, limits.between_s
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_spaces_after_chunk_size=True)  # some old servers pad it
        self._waiter: asyncio.Future[None] | None = None
        self._keep, self._gone, self._paused, self._full = keep, False, False, False
        self._deadline = inf
        self._begin(inf, bodiless=False)
        self.complete = True
        """Whether no more is to come, as the answer is whole or nothing was asked for."""

    def _begin(self, overdue_at: float, *, bodiless: bool) -> None:
        self.status = 0
        """Of the answer; 0 before its head is there."""
        self.headers: list[tuple[str, str]] = []
        self._fields: list[tuple[str, str]] = []
        self.encoding = ""
        """The first ``content-encoding``."""
        self._idle_s = self._limits.idle_s
        self._overdue_at, self._bodiless = overdue_at, bodiless
        self._framed = self._to_end = self._interim = self.complete = False
        self._refusal = ""
        self._pieces: list[bytes] = []
        self._quiet = self._buffered = 0
        self._error: Exception | None = None
        self._writing: Writing | None = None

    # ---- for the one who asks ----

    async def ask(self, head: bytes, body: Body, length: int | None, total_s: float, *, bodiless: bool = False) -> None:
        """Send a request and wait for its answer's head. `length` is of a body in pieces: None where they go as chunks.

        The whole answer may take `total_s`. Raises `Failure`, or what the body's iterator raised. Cancelled, or failed, the connection
        is dropped.
        """
        if self._gone:
            raise Closed(stale=True)
        now = self._loop.time()
        self._begin(now + total_s, bodiless=bodiless)
        if isinstance(body, bytes) and len(body) <= AT_ONCE_BYTES:
            if len(body) <= _JOINED_BYTES:
                self._transport.write(head + body)
            else:
                self._transport.writelines((head, body))
            self._deadline = now + self._first_byte_s
        else:
            self._writing = Writing(self._transport, self._clock, self._fail, paused=self._full)
            self._writing.start(head, body, length)
        try:
            while not self.status and self._error is None:
                await self._news()
        except BaseException:
            self.abort()
            raise
        if not self.status and self._error is not None:
            raise self._error

    async def piece(self) -> bytes:
        """What has come of the body, at least a byte; b"" at its end. Raises as `ask` does."""
        while not self._pieces:
            if self.complete:
                return b""
            if self._error is not None:
                raise self._error
            await self._news()
        return self.take()

    def take(self) -> bytes:
        """What has come of the body and was not taken yet."""
        pieces, self._pieces, self._buffered = self._pieces, [], 0
        if self._paused and not self._gone:
            self._paused = False
            self._clock()
            self._transport.resume_reading()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """The answer is complete and taken: keep the connection where it can serve another request, or drop it."""
        now = self._loop.time()
        until = min(now + self._idle_s, self._born_at + self._limits.max_age_s)
        unsent = self._full or (self._writing is not None and not self._writing.done)
        if unsent or self._paused or self._gone or not self._keep or until <= now:
            self.abort()
        else:
            self._deadline = until
            self._idle[self] = None

    def abort(self) -> None:
        """Drop the connection at once."""
        if not self._gone:
            self._leave()
            self._transport.abort()

    def fail(self) -> None:
        """Drop the connection; who waits for its answer is told."""
        self._fail(Broken() if self.status else Closed())

    def fresh(self, now: float) -> bool:
        """Whether a kept connection may still be used."""
        return not self._gone and now < self._deadline

    # ---- inside ----

    async def _news(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _clock(self, stopped: bool = False) -> None:
        """The server's time starts anew, or stands still where it is not the server that is waited for."""
        if stopped or self.complete or self._paused:
            self._deadline = inf
        else:
            self._deadline = self._loop.time() + (self._between_s if self.status else self._first_byte_s)

    def _leave(self) -> None:
        self._gone = True
        self._timer.cancel()
        self._idle.pop(self, None)
        self._open.discard(self)
        if self._writing is not None:
            self._writing.stop()

    def _fail(self, error: Exception) -> None:
        if self._error is None and not self.complete:
            self._error = error
        self.abort()
        self._wake()

    def _tick(self) -> None:
        now = self._loop.time()
        if now < self._deadline:
            self._timer = self._loop.call_at(min(self._deadline, now + self._limits.tick_s), self._tick)
        elif self.complete:
            self.abort()
        else:
            self._fail(Silent(answering=bool(self.status)))

    def _end(self, *, clean: bool) -> None:
        """No more comes from the server."""
        if not self._gone:
            self._leave()
        if not self.complete and self._error is None:
            if clean and self._to_end:
                self.complete = True
            else:
                self._error = Broken() if self.status else Closed(stale=not self._quiet)
        self._wake()

    # ---- of the transport ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)
        self._born_at = self._loop.time()
        self._deadline = self._born_at + self._limits.idle_s  # should nobody come for it
        self._timer = self._loop.call_later(self._limits.tick_s, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed, by whomever."""
        self._end(clean=False)
        del self._parser  # which knows this connection, as its writing does: without circles nothing is left for the garbage collector
        self._writing = None

    def eof_received(self) -> None:
        """The server has said all; over TLS only if it says so itself, as anyone on the way can end a connection (RFC 8446 section 6.1)."""
        tls = self._transport.get_extra_info("ssl_object")
        self._end(clean=tls is None or _said_goodbye(tls))

    def pause_writing(self) -> None:
        """The server reads too slowly."""
        self._full = True
        if self._writing is not None:
            self._writing.pause()

    def resume_writing(self) -> None:
        """It has caught up."""
        self._full = False
        if self._writing is not None:
            self._writing.resume()

    def data_received(self, data: bytes) -> None:
        """Parse it, tell who waits."""
        if self.complete:  # nothing was asked for
            self._keep = False
            self.abort()
            return
        before = self._buffered
        self._quiet += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self._malformed(str(error))
        now = self._loop.time()
        if self._buffered > before:
            self._quiet = 0
        elif self._quiet > _MAX_QUIET_BYTES and not self.complete:
            self._malformed("too many bytes without a body")
        if self.complete or self._gone:
            self._deadline = inf
        elif now > self._overdue_at:
            self._fail(Overdue())
        elif self._buffered > _READ_BUFFER_BYTES:
            self._paused, self._deadline = True, inf
            self._transport.pause_reading()
        else:
            self._deadline = now + (self._between_s if self.status else self._first_byte_s)
        self._wake()

    def _malformed(self, reason: str) -> None:
        self._keep = False
        self._fail(Broken() if self.status else BadAnswer(self._refusal or reason))

    # ---- of the parser ----

    def on_message_begin(self) -> None:
        """Of an answer; behind one it spoils the connection."""
        if self.complete:
            self._keep = False

    def on_status(self, reason: bytes) -> None:
        """Or a part of it."""
        if reason != b"OK" and _CONTROL.search(reason):
            self._refusal = "a control character in the status line"

    def on_header(self, raw: bytes, value: bytes) -> None:
        """Of the head, or a trailer, which nobody looks at."""
        name, text = _names[raw] if raw in _names else _name(raw), value.decode("utf-8", "surrogateescape").rstrip(" \t")
        self._fields.append((name, text))
        if name in _LOOKED_AT and not self.status:
            self._look_at(name, text)

    def _look_at(self, name: str, text: str) -> None:
        if name == "content-encoding":
            self.encoding = self.encoding or text
        elif name == "keep-alive":
            if found := _KEEP_ALIVE.search(text):
                self._idle_s = min(self._idle_s, int(found[1]) - 1.0)
        else:
            if self._framed:
                self._refusal = "two lengths"
            elif name == "transfer-encoding" and text.lower() != "chunked":
                self._refusal = "a transfer coding that was not asked for"
            self._framed = True

    def on_headers_complete(self) -> None:
        """The head, of an interim answer or of the one asked for."""
        if self.complete:
            return
        status, fields = self._parser.get_status_code(), self._fields
        self._fields = []
        if len(fields) > _MAX_HEADERS or (self._quiet > _MAX_QUIET_BYTES and sum(len(n) + len(v) for n, v in fields) > _MAX_QUIET_BYTES):
            self._refusal = "too many headers"
        elif status < 100 or status == 101 or status > 599:
            self._refusal = f"status {status}"
        elif self._parser.get_http_version() not in ("1.1", "1.0"):
            self._refusal = "another version of HTTP"
        if self._refusal:
            self._malformed(self._refusal)
        elif status < 200:
            self._interim, self._framed, self.encoding = True, False, ""
        else:
            self.status, self.headers = status, fields
            self._to_end = not self._framed and status not in (204, 304)
            if self._bodiless:
                self.complete, self._keep = True, False

    def on_body(self, body: bytes) -> None:
        """Some of it."""
        if not self.complete:
            self._pieces.append(body)
            self._buffered += len(body)

    def on_message_complete(self) -> None:
        """Of an interim answer, or of the one asked for."""
        if self._interim:
            self._interim = False
        elif not self.complete:
            self.complete = True
            self._keep = self._keep and self._parser.should_keep_alive()
