"""uvicorn's WebSocket protocol with what it leaves open, as `proxy.wire.http.bounds` has it for HTTP; imported with the first client.

A message takes its party's room while it comes, and has to make progress; a client that reads nothing is let go; and a server that stops
lets what is under way end: the application is told by a message of type `DRAIN`, and closes. Pings keep what lies between awake, but their
answers are not waited for: a client of one thread answers none while its tool runs. https://www.rfc-editor.org/rfc/rfc6455
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn._types import ASGISendEvent
from uvicorn.config import Config
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame
from websockets.http11 import Request

from proxy.ledger import Holding
from proxy.wire.http.bounds import BODY_STALL_S, MIN_BODY_BYTES, BoundedProtocol, log
from proxy.wire.http.sockets import DRAIN, IDLE, WatchesReader

_CLOSING_S = 2.0
"""For the client's answer to the end of the connection."""
_POLICY, _TRY_LATER = 1008, 1013


class BoundedSocket(WatchesReader, WebSocketsSansIOProtocol):
    """One connection, which has been `http`'s."""

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any], *, http: BoundedProtocol) -> None:
        super().__init__(config, server_state, app_state)
        self._watch_reader(http.ledger)
        self._http, self.party = http, http.party
        self.close_timeout, self.ping_timeout = _CLOSING_S, None
        self._room = Holding(http.ledger)
        """Of a message that is not whole yet."""
        self._room.party = self.party
        self._received_bytes = 0
        """Bytes of it."""
        self._slow: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        self._stop_watching()
        self._whole()
        super().connection_lost(exc)
        self._http.connection_over()

    def is_writing(self) -> bool:
        """Whether more comes whatever the client reads."""
        return self.writable.is_set() and not self.transport.is_closing()

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._received_bytes += len(data)
        if not self._room.take(len(data)):
            self._end(_TRY_LATER, "no room for this message")
            return
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:  # what was HTTP to one parser is none to another
            self.transport.close()
        elif not self.frames and not self.conn.reader.buffer:
            self._whole()
        elif self._slow is None:
            self._slow = self.loop.call_later(BODY_STALL_S, self._look, self._received_bytes)

    def handle_connect(self, event: Request) -> None:
        """A handshake: the application may say when the connection could make room for another one."""
        super().handle_connect(event)
        if not self.handshake_complete:
            extensions: dict[str, Any] = self.scope["extensions"]
            extensions[IDLE] = self._http.set_idle

    async def send(self, message: ASGISendEvent) -> None:
        """A message of the application; a handshake that it refuses is complete, too. Raises `ClientDisconnected`."""
        await self.writable.wait()
        if self.close_sent and self.initial_response is None:  # from here: uvicorn would call that the application's mistake
            raise ClientDisconnected
        await super().send(message)
        self.handshake_complete = self.handshake_complete or self.close_sent
        if self.close_sent:
            self.watch_reading()  # or the rest of it would wait for ever to leave

    def handle_cont(self, event: Frame) -> None:
        """More of a message in several frames; of many small ones each would be an object of its own."""
        if not isinstance(self.frames[0], bytearray):
            self.frames[0] = bytearray(self.frames[0])  # type: ignore[call-overload]
        self.frames[0] += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def shutdown(self) -> None:
        """The server stops."""
        if not self.handshake_complete or self.close_sent:
            super().shutdown()
            return
        drain: Any = {"type": DRAIN}
        self.queue.put_nowait(drain)

    def _look(self, before: int) -> None:
        """Whether a message has come along since `before` bytes of it were there."""
        self._slow = None
        if self.read_paused or self._received_bytes - before >= MIN_BODY_BYTES:
            self._slow = self.loop.call_later(BODY_STALL_S, self._look, self._received_bytes)
        else:
            reason = f"less than {MIN_BODY_BYTES} bytes of a message within {BODY_STALL_S:g} s"
            log.warning("%s: its WebSocket is closed: %s", self.client[0] if self.client else "a client", reason)
            self._end(_POLICY, reason)

    def _whole(self) -> None:
        self._received_bytes = 0
        self._room.release()
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _end(self, code: int, reason: str) -> None:
        self._whole()
        if self.close_sent or self.transport.is_closing():
            return
        self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.fail(code, reason)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()
        self.watch_reading()
