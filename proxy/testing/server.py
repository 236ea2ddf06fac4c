"""uvicorn for tests: the same server, but it ends when it is told to, where uvicorn looks for that ten times a second.

Imported by `proxy.testing.serving` alone, when it is called: uvicorn takes its time to import.
"""

from __future__ import annotations

import asyncio
import socket

import uvicorn

_STEP_S = 0.001


class PromptServer(uvicorn.Server):
    """Ends within a millisecond of `leave`, and as soon as its connections have."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """End."""
        self.should_exit = True
        self._leaving.set()

    async def main_loop(self) -> None:
        """uvicorn's, until `leave`."""
        ticking = asyncio.create_task(super().main_loop())
        leaving = asyncio.create_task(self._leaving.wait())
        await asyncio.wait((ticking, leaving), return_when=asyncio.FIRST_COMPLETED)
        for task in (ticking, leaving):
            task.cancel()
        await asyncio.gather(ticking, leaving, return_exceptions=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What uvicorn's does, without its pauses of a tenth of a second."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                while self.server_state.connections or self.server_state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
                    await asyncio.sleep(_STEP_S)
                for server in self.servers:
                    await server.wait_closed()
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel(msg="Task cancelled, timeout graceful shutdown exceeded")
        await self.lifespan.shutdown()
