"""A body that takes a while to be sent: large, or in pieces as its client sends them. In a task, as the server may answer earlier."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from groundwire_http1.failures import Unsendable

AT_ONCE_BYTES = 2**20
"""Of a body that is handed to the transport whole: more would hold up the event loop, the more so where it is encrypted."""
_SLICE_BYTES = 2**16


class Writing:
    """Of one request's head and body."""

    __slots__ = ("_clock", "_fail", "_paused", "_resumed", "_task", "_transport", "done")

    def __init__(
        self, transport: asyncio.Transport, clock: Callable[[bool], None], fail: Callable[[Exception], None], *, paused: bool
    ) -> None:
        """`clock` starts the server's time anew, or stops it; `fail` is told what went wrong."""
        self._transport, self._clock, self._fail = transport, clock, fail
        self._paused = paused
        self._resumed: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self.done = False
        """Whether all of it is with the transport."""

    def start(self, head: bytes, body: bytes | AsyncIterator[bytes], length: int | None) -> None:
        """In a task of its own; `length` is of a body in pieces, None where they go as chunks."""
        self._clock(True)
        self._task = asyncio.get_running_loop().create_task(self._write(head, body, length))

    def stop(self) -> None:
        """Leave the rest out."""
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def pause(self) -> None:
        """The transport is full."""
        self._paused = True

    def resume(self) -> None:
        """It has room again."""
        self._paused = False
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)

    async def _write(self, head: bytes, body: bytes | AsyncIterator[bytes], length: int | None) -> None:
        try:
            self._transport.write(head)
            if isinstance(body, bytes):
                await self._slices(body)
            else:
                try:
                    await self._pieces(body, length)
                finally:
                    if (close := getattr(body, "aclose", None)) is not None:
                        await close()
        except Exception as error:
            self._task = None
            self._fail(error)
        else:
            self.done = True
            self._clock(False)

    async def _slices(self, body: bytes) -> None:
        for start in range(0, len(body), _SLICE_BYTES):
            self._transport.write(body[start : start + _SLICE_BYTES])
            await self._drained()

    async def _pieces(self, body: AsyncIterator[bytes], length: int | None) -> None:
        left = length
        async for piece in body:
            if not piece:  # as a chunk it would be the end
                continue
            if left is None:
                self._transport.writelines((b"%x\r\n" % len(piece), piece, b"\r\n"))
            elif (left := left - len(piece)) < 0:
                raise Unsendable("a body longer than its content-length")
            else:
                self._transport.write(piece)
            await self._drained()
        if left is None:
            self._transport.write(b"0\r\n\r\n")
        elif left:
            raise Unsendable("a body shorter than its content-length")

    async def _drained(self) -> None:
        """Let others run; where the server reads too slowly, wait for it."""
        if not self._paused:
            await asyncio.sleep(0)
            return
        self._clock(False)
        self._resumed = asyncio.get_running_loop().create_future()
        try:
            await self._resumed
        finally:
            self._resumed = None
        self._clock(True)
