"""A provider without a network, for what is measured without one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from proxy.ports.upstream import Call, Headers


class MemoryUpstream:
    """A provider without a network: implements `proxy.ports.upstream.Upstream`, says `pieces` and keeps its calls where it is to."""

    name = "main"

    def __init__(self, *, pauses: bool = True, keeps: bool = True) -> None:
        """With a turn of the event loop before each piece, or without."""
        self.kind, self.pieces = "application/json", [b"{}"]
        self.calls: list[Call] = []
        self._pauses, self._keeps = pauses, keeps

    def catalogue_name(self, model: str) -> str:
        """The model's own name."""
        return model

    async def start(self) -> None:
        """There is nothing to open."""

    async def stop(self) -> None:
        """There is nothing to close."""

    async def send(self, call: Call) -> MemoryReply:
        """The pieces as they are now."""
        if self._keeps:
            self.calls.append(call)
        return MemoryReply(self.kind, self.pieces, pauses=self._pauses)


class MemoryReply:
    """Its answer. Implements `proxy.ports.upstream.Reply`."""

    status, upstream, attempts = 200, "main", 1

    def __init__(self, kind: str, pieces: Sequence[bytes], *, pauses: bool) -> None:
        self.headers: Headers = [("content-type", kind)]
        self._pieces, self._pauses = pieces, pauses

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join(self._pieces)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Piece by piece."""
        for piece in self._pieces:
            if self._pauses:
                await asyncio.sleep(0)
            yield piece

    async def close(self) -> None:
        """There is nothing to give back."""
