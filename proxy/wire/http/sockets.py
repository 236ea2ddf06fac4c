"""What a server and an application say to each other of a WebSocket beside ASGI's own messages, and how one is answered that is refused.

Also of clients that read nothing of what is written to them: they are let go.
"""

from __future__ import annotations

import asyncio
from typing import Any

from proxy.ledger import Ledger, Party
from proxy.wire.http.asgi import Scope, Send


class WatchesReader(asyncio.Protocol):
    """A connection whose client has to read on: what waits for it, and whoever writes that, would wait for ever."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    party: Party

    def _watch_reader(self, ledger: Ledger) -> None:
        """To be called before anything is written."""
        self.ledger = ledger
        self._reading: asyncio.TimerHandle | None = None
        """Looks whether the client reads, while something waits to be written."""
        self.has_read = False
        """Since that was set."""

    def pause_writing(self) -> None:
        """More waits to be written than the transport likes."""
        super().pause_writing()
        self.watch_reading(anew=True)

    def resume_writing(self) -> None:
        """Most of it is read."""
        super().resume_writing()
        self.has_read = True

    def is_writing(self) -> bool:
        """Whether more comes whatever the client reads."""
        raise NotImplementedError

    def watch_reading(self, *, anew: bool = False) -> None:
        """Something waits to be written."""
        if anew:
            self._stop_watching()
        if self._reading is None:
            self.has_read = False
            self._reading = self.loop.call_later(self.ledger.write_stall_s, self._reads, self.transport.get_write_buffer_size())

    def _stop_watching(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _reads(self, before: int) -> None:
        """It has read on since `before` bytes waited, or it goes."""
        self._reading = None
        left = self.transport.get_write_buffer_size()
        if not left:
            return
        if self.has_read or left < before or self.is_writing():
            self.watch_reading()
            return
        words = f"reads nothing of its answer for {self.ledger.write_stall_s:g} s, and is let go"
        self.ledger.refused("reader_stalled", self.party, words)
        self.transport.abort()


DRAIN = "groundwire.drain"
"""The type of the message that tells the application to end what is under way, and close."""
IDLE = "groundwire.idle"
"""In a scope's extensions: takes whether nothing is under way, so that the connection may make room for another one."""
_OF_THE_HANDSHAKE = frozenset(
    bytes.split(b"connection upgrade accept-encoding content-encoding content-length content-type transfer-encoding idempotency-key")
)
_SOCKETS = b"responses_websockets"


def as_http(scope: Scope, method: str) -> Scope:
    """The scope of a request that is made over the connection: what the handshake said of the client holds for each."""
    headers = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _OF_THE_HANDSHAKE
        and not name.startswith(b"sec-websocket-")
        and not (name == b"openai-beta" and value.startswith(_SOCKETS))
    ]
    headers += [(b"content-type", b"application/json")] if method == "POST" else []
    return {**scope, "type": "http", "method": method, "scheme": "http", "headers": headers, "extensions": {}}


def denying(send: Send) -> Send:
    """Takes an HTTP response's messages, and sends them in the place of the handshake."""

    async def deny(message: dict[str, Any]) -> None:
        await send({**message, "type": message["type"].replace("http.", "websocket.http.")})

    return deny
