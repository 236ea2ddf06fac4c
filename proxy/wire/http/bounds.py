"""uvicorn's HTTP protocol with what it leaves open: how much a client may send before it is read, how slowly, how many at once.

uvicorn collects a request's line, headers and trailers whatever their size, gives trailers out as headers, waits for all for ever, takes
every connection, and waits for ever for a client to read. Here headers, and what behind them is no body, are counted as they come (431),
trailers are dropped, headers and bodies have to make progress (408), so does the reading of what is written (the connection ends), and past
its address's share of the connections (`connections`) a request is a 503, but for those that ask how the server is. RFC 9110 section 15.5,
RFC 6585 section 5.

httptools leaves the body of a request that asks for another protocol unread, as if it were of that. Java's clients ask for HTTP/2 (``h2c``)
with each first request; it is read anew as what it is otherwise (RFC 9110 section 7.8).
"""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from http import HTTPStatus
from typing import Any, Protocol

import httptools
import orjson
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from proxy.ledger import NOBODY, Ledger, Party, Share
from proxy.wire.http.asgi import offer_whole
from proxy.wire.http.sockets import WatchesReader

log = logging.getLogger("groundwire.http")

MAX_HEADER_BYTES = 65_536
"""Request line and headers of one request, as sent."""
MAX_HEADERS = 200
HEADERS_S = 30.0
"""From a request's first byte, or a connection's opening, to the end of its headers."""
BODY_STALL_S = 30.0
"""Within each span of this length a body that is not whole must grow by `MIN_BODY_BYTES`, unless nobody reads it."""
MIN_BODY_BYTES = 8_192
_LARGE_PIECE_BYTES = 4_096
"""Pieces of a body from this size on; of many small ones each would be an object of its own."""
STATE = "groundwire.ledger"
"""In the state that the application's lifespan leaves for its requests: its `Ledger`."""
_ALL = "groundwire.connections"
_MESSAGES_TYPES = {408: "timeout_error", 431: "request_too_large", 503: "overloaded_error"}
HEALTH_PATHS = ("/health", "/ready", "/metrics")
_HEALTH = tuple(path.encode() for path in HEALTH_PATHS)


_SOCKET_PATH = b"/v1/responses"
"""The end of the only path at which a WebSocket is spoken; elsewhere the request is one like any other."""
_MAX_SOCKET_HEADERS, _MAX_SOCKET_HEADER_BYTES = 120, 8_000
"""A handshake is parsed once more, by `websockets`, which takes 128 headers of 8,192 bytes."""
_BODIES = (b"content-length", b"transfer-encoding")


class BoundedProtocol(WatchesReader, HttpToolsProtocol):
    """One connection."""

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._header_bytes = self._body_bytes = 0
        self._quiet_bytes = 0
        """Received since the headers, or since the last byte of a body."""
        self._in_headers = True
        """Whether what comes next belongs to a request's line or headers."""
        self._waiting: asyncio.TimerHandle | None = None
        self._refused = False
        """Whether nothing more is read of it as HTTP."""
        self._fed, self._anew = b"", False
        """What the parser has, and whether it has a request that is to be read anew."""
        if _ALL not in app_state:  # of an application without accounts, the server's own
            app_state[_ALL] = Connections(app_state.setdefault(STATE, Ledger()))
        self._all = app_state[_ALL]
        self._watch_reader(app_state[STATE])
        self.party = NOBODY

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client connects."""
        super().connection_made(transport)
        self.party = self.ledger.at(self.client[0]) if self.client else NOBODY
        if not self._all.open(self):
            self._all.note_refusal(self)
            self._refuse(503, "too many connections")
        else:
            self._all.idle(self)
            self._wait(HEADERS_S, self._headers_late)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self.connection_over()
        super().connection_lost(exc)

    def connection_over(self) -> None:
        """Give back what it had."""
        self._stop_waiting()
        self._all.close(self)
        self._stop_watching()

    def set_idle(self, idle: bool) -> None:
        """Whether a connection that is a WebSocket now could make room for another one."""
        if idle:
            self._all.idle(self)
        else:
            self._all.busy(self)

    def _should_upgrade_to_ws(self) -> bool:
        """Whether a request for a WebSocket, which this may be, gets one: else it is answered like any other."""
        headers = self.headers
        if self._refused or self.scope["method"] != "GET" or self.scope["http_version"] != "1.1":
            return False
        if not self.url.partition(b"?")[0].endswith(_SOCKET_PATH) or len(headers) > _MAX_SOCKET_HEADERS:
            return False
        return all(name not in _BODIES and len(name) + len(value) < _MAX_SOCKET_HEADER_BYTES for name, value in headers)

    def _unsupported_upgrade_warning(self) -> None:
        """The answer over HTTP has a line of its own."""
        error = sys.exc_info()[1]
        if not self._anew or not isinstance(error, httptools.HttpParserUpgrade):
            return
        self._anew = False
        line = b"%s %s HTTP/%s" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        headers = [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        behind = self._fed[error.args[0] :]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        self._feed(b"\r\n".join([line, *headers, b"", behind]))

    def handle_websocket_upgrade(self) -> None:
        """From here on it is a WebSocket."""
        from proxy.wire.http.upgrades import BoundedSocket

        self._refused = True
        self._stop_waiting()
        self._stop_watching()
        self.ws_protocol_class = partial(BoundedSocket, http=self)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def give_way(self) -> None:
        """Close it for another one: it has no request."""
        self._refused = True
        self._stop_waiting()
        self.transport.abort()

    def on_response_complete(self) -> None:
        """An answer is whole, if not yet read."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self._all.idle(self)
        if self.transport.get_write_buffer_size():
            self.watch_reading()

    def is_writing(self) -> bool:
        """Whether more comes whatever the client reads."""
        return self.cycle is not None and not self.cycle.response_complete and not self.flow.write_paused

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._in_headers:
            room = max(MAX_HEADER_BYTES - self._header_bytes, 0)
            self._header_bytes += len(data)
            if len(data) > room and not _ends_within(data, room):  # they must end within what there is room for; a body may follow
                self._feed(data[:room])
                if self._in_headers:
                    self._refuse(431, f"the headers are larger than {MAX_HEADER_BYTES} bytes")
                data = data[room:]
        self._quiet_bytes += len(data)
        self._feed(data)
        if self._quiet_bytes > MAX_HEADER_BYTES and not self._in_headers and not self._refused:
            self._refuse(431, f"more than {MAX_HEADER_BYTES} bytes of trailers or chunk extensions")
        if self._waiting is None and not self._refused:  # in the common case the request is whole by now, and nothing has to be waited for
            if not self._in_headers:
                self._wait(BODY_STALL_S, self._body_slow, self._body_bytes)
            elif self._header_bytes:
                self._wait(HEADERS_S, self._headers_late)

    def _feed(self, data: bytes) -> None:
        if not self._refused and not self.transport.is_closing():
            self._fed = data
            super().data_received(data)
            self._fed = b""

    def on_headers_complete(self) -> None:
        """A body may follow."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT" and self._get_upgrade() != b"websocket":
            self._anew = True
            return
        self._in_headers, self._body_bytes = False, 0
        if self._waiting is not None:
            self._stop_waiting()
        if self._refused:
            return
        if len(self.headers) > MAX_HEADERS:
            self._refuse(431, f"more than {MAX_HEADERS} headers")
            return
        self.has_read = True  # who asks anew has most likely read what was answered; if not, the pause of writing tells
        if not self._all.ask(self, health=self.url.startswith(_HEALTH)):
            self._all.note_refusal(self)
            self._refuse(503, "too many connections")
            return
        super().on_headers_complete()
        self._quiet_bytes = 0
        self.headers = self.headers[:]  # uvicorn appends trailers to them: none is a header (RFC 9110 section 6.5.1)

    def on_body(self, body: bytes) -> None:
        """A piece of the body. A large one is kept as it came until it is asked for: uvicorn's bytearray would copy it twice."""
        self._body_bytes += len(body)
        self._quiet_bytes = 0
        if self._refused:
            return
        cycle = self.cycle
        if len(body) >= _LARGE_PIECE_BYTES and not cycle.body:
            cycle.body, body = body, b""  # type: ignore[assignment]
        elif isinstance(cycle.body, bytes):
            cycle.body = bytearray(cycle.body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is whole; another may follow on the connection."""
        if self._anew:
            return
        self._in_headers, self._header_bytes = True, 0
        if self._waiting is not None:
            self._stop_waiting()
        if not self._refused:
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        offer_whole(cycle)
        if cycle.scope["http_version"] == "1.0":
            until_closed(cycle)
        super()._start_asgi_task(cycle, app)

    def _headers_late(self) -> None:
        self._waiting = None
        if self.cycle is not None and not self.cycle.response_complete:  # the next request can wait as long as this one's answer
            self._wait(HEADERS_S, self._headers_late)
        else:
            self._refuse(408, f"no request within {HEADERS_S:g} s")

    def _body_slow(self, before: int) -> None:
        self._waiting = None
        if self.flow.read_paused or self._body_bytes - before >= MIN_BODY_BYTES:  # nobody reads it, or it comes
            self._wait(BODY_STALL_S, self._body_slow, self._body_bytes)
        else:
            self._refuse(408, f"less than {MIN_BODY_BYTES} bytes of the body within {BODY_STALL_S:g} s")

    def _wait(self, seconds: float, then: Any, *arguments: Any) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(seconds, then, *arguments)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _refuse(self, status: int, message: str) -> None:
        """Answer without the application, and end the connection."""
        self._refused = True
        self._stop_waiting()
        if self.transport.is_closing():
            return
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.close()  # bytes of an answer have left
            return
        code = {408: "request_timeout", 431: "request_too_large", 503: "overloaded"}[status]
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error: dict[str, Any] = {"error": {"message": message, "type": kind, "param": None, "code": code}}
        if b"/v1/messages" in getattr(self, "url", b""):  # no dialect has been asked yet: Anthropic's envelope
            error = {"type": "error", "error": {**error["error"], "type": _MESSAGES_TYPES[status]}}
        body = orjson.dumps(error)
        head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        retry = "retry-after: 1\r\n" if status == 503 else ""
        if status != 503:  # the ledger has said so
            log.warning("%s: refused with %d: %s", self.client[0] if self.client else "a client", status, message)
        self.transport.write(f"{head}{retry}connection: close\r\n\r\n".encode() + body)
        self.transport.close()


def _ends_within(data: bytes, room: int) -> bool:
    """Whether headers are seen to end in the first `room` bytes; blank lines in front of a request are no end."""
    return data[0] not in b"\r\n" and data.find(b"\r\n\r\n", 0, room) >= 0


HEALTH_CONNECTIONS = 64
"""Further connections, for questions after the server's health alone."""


class Closable(Protocol):
    """A connection."""

    party: Party

    def give_way(self) -> None:
        """Close it: it has no request."""


class Connections:
    """Of one process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._share, self._reserve = ledger, ledger.connections, Share(HEALTH_CONNECTIONS)
        self._idle: dict[Party, dict[Closable, None]] = {}
        """By who has them, those without a request; the longest idle first."""
        self._shares: dict[Closable, Share] = {}

    def open(self, connection: Closable) -> bool:
        """A client has connected; False where it has to go at once."""
        return self._admit(connection) or self._take(connection, self._reserve)

    def _admit(self, connection: Closable) -> bool:
        """Give it a place among those that may ask for more than the server's health."""
        held = self._shares.get(connection)
        if not self._share.may_take(connection.party):
            self._make_room(connection)
        if not self._take(connection, self._share):
            return False
        if held is not None:
            held.release(connection.party)
        return True

    def ask(self, connection: Closable, *, health: bool) -> bool:
        """It has a request, for the server's `health` or for more; False where it may not ask for that."""
        self.busy(connection)
        return health or self._shares.get(connection) is self._share or self._admit(connection)

    def busy(self, connection: Closable) -> None:
        """It makes no room for another one now."""
        idle = self._idle.get(connection.party)
        if idle is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle[connection.party]

    def close(self, connection: Closable) -> None:
        """It is over; once more does nothing."""
        self.busy(connection)
        if (held := self._shares.pop(connection, None)) is not None:
            held.release(connection.party)

    def idle(self, connection: Closable) -> None:
        """It waits for a request."""
        if connection in self._shares:
            self._idle.setdefault(connection.party, {})[connection] = None

    def note_refusal(self, connection: Closable) -> None:
        """Nothing could make room for it."""
        self._ledger.refused("connection_refused", connection.party, "too many connections")

    def _take(self, connection: Closable, share: Share) -> bool:
        taken = share.take(connection.party)
        if taken:
            self._shares[connection] = share
        return taken

    def _make_room(self, connection: Closable) -> None:
        """Close the longest idle of its own address, or where that has none, and all places are taken, of the one with most."""
        idle = self._idle.get(connection.party)
        if idle is None and not self._share.free and self._idle:
            idle = max(self._idle.values(), key=len)
        oldest = next((one for one in idle or () if one is not connection and self._shares.get(one) is self._share), None)
        if oldest is not None:
            self._ledger.refused("connection_closed", oldest.party, "many connections: the longest idle make room for new ones")
            self.close(oldest)
            oldest.give_way()


class _AnyLength(int):
    """What is left of a body whose length is not known: nothing is more than it, and it may end at any time."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: int) -> _AnyLength:
        return self


def until_closed(cycle: RequestResponseCycle) -> None:
    """Let the response be without chunks, and end with the connection."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _AnyLength()
    cycle.keep_alive = False
