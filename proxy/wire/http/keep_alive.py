"""Signs of life in a stream: SSE comments while nothing else leaves, so that no client or proxy on the way takes it for dead.

From the moment that the upstream is asked until the response ends, in every delivery. Where nothing has come after a pause, the response
begins as a stream (status 200, its verdict ``pending``): what fails from then on is told by an event. A comment stands between two events,
never in one. Specification: https://html.spec.whatwg.org/multipage/server-sent-events.html#authoring-notes
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from proxy.wire import sse
from proxy.wire.http.asgi import RawHeaders, Responder

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
        left = max(self._since, responder.last_sent) + self._pause_s - self._loop.time()
        if left <= 0 and responder.between_events and (self._beat is None or self._beat.done()):
            self._beat = self._loop.create_task(self._send())
        self._timer = self._loop.call_later(left if left > 0 else self._pause_s, self._look)

    async def _send(self) -> None:
        with suppress(OSError, RuntimeError):  # the response has just ended, or its client has gone: whoever answers learns it, too
            if not self._responder.started:
                self._responder.early = True
                await self._responder.start(200, [*_HEADERS, *self._headers()])
            await self._responder.write(sse.KEEP_ALIVE)
