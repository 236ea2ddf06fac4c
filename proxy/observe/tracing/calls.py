"""One call of an upstream, timed: from its sending, over its retries and fallbacks, to the last byte of the answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from proxy.errors import ProxyError
from proxy.ports.upstream import Call, Reply

CANCELLED = "cancelled"
"""``error.type`` of a call that was given up before its answer was whole: the client left, or a stage took too long."""


class UpstreamCall:
    """What is known of a call, as it becomes known. Times by `time.perf_counter`."""

    __slots__ = ("attempts", "ended", "error", "first_chunk", "method", "path", "span_id", "started", "status", "stream", "upstream")

    def __init__(self, span_id: int, upstream: str, call: Call) -> None:
        self.span_id, self.upstream = span_id, upstream
        self.method, self.path, self.stream = call.method, call.path, call.stream
        self.started, self.ended, self.first_chunk = time.perf_counter(), 0.0, 0.0
        self.status, self.attempts, self.error = 0, 1, ""

    def answered(self, reply: Reply) -> None:
        """Status and headers are there."""
        self.upstream, self.status, self.attempts = reply.upstream, reply.status, reply.attempts
        if reply.status >= 400:
            self.error = str(reply.status)

    def end(self, error: str = "") -> None:
        """It is over; only the first end counts."""
        if not self.ended:
            self.ended = time.perf_counter()
            self.error = error or self.error

    def failed(self, error: BaseException) -> None:
        """It is over, without a whole answer."""
        if isinstance(error, ProxyError):
            self.attempts = max(self.attempts, error.attempts)
            self.end(error.code)
        else:
            self.end(CANCELLED if isinstance(error, asyncio.CancelledError | GeneratorExit) else type(error).__name__)


class TracedReply:
    """Implements `proxy.ports.upstream.Reply`: an upstream's, which notes when its bytes come."""

    __slots__ = ("_call", "_reply", "attempts", "headers", "status", "upstream")

    def __init__(self, reply: Reply, call: UpstreamCall) -> None:
        self._reply, self._call = reply, call
        self.status, self.headers, self.upstream, self.attempts = reply.status, reply.headers, reply.upstream, reply.attempts

    async def read(self) -> bytes:
        """The whole body."""
        try:
            body = await self._reply.read()
        except BaseException as error:
            self._call.failed(error)
            raise
        self._call.end()
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        try:
            async for chunk in self._reply.chunks():
                if not self._call.first_chunk:
                    self._call.first_chunk = time.perf_counter()
                yield chunk
        except BaseException as error:
            self._call.failed(error)
            raise
        self._call.end()

    async def close(self) -> None:
        """Give the connection up; a call whose answer was not read to its end is over now."""
        self._call.end(CANCELLED)
        await self._reply.close()
