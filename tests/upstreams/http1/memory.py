"""One answer, parsed without a socket."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Any

import groundwire_http1 as http1

_LIMITS = http1.Limits(1e6, 1e6, 1e6, 1e6)


class _Wire(asyncio.Transport):
    """Takes everything, sends nothing."""

    def __init__(self, connection: http1.Connection) -> None:
        super().__init__()
        self._connection = connection
        self.closed = False

    def write(self, data: Any) -> None:
        """Nobody reads it."""

    def pause_reading(self) -> None:
        """It never has too much."""

    def resume_reading(self) -> None:
        """It never had."""

    def abort(self) -> None:
        """As the loop would do it: what was fed goes on first."""
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)


@dataclass(slots=True, frozen=True)
class Outcome:
    """Of a call."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    failure: str = ""
    """The name of what was raised."""
    kept: bool = False


async def outcome(pieces: Iterable[bytes], *, bodiless: bool = False, ends: bool = True) -> Outcome:
    """Of an answer that comes in these pieces; where they do not make it whole, the connection `ends`. Raises what is no `Failure`."""
    idle: dict[http1.Connection, None] = {}
    connection = http1.Connection(asyncio.get_running_loop(), _LIMITS, idle, set(), keep=True)
    wire = _Wire(connection)
    connection.connection_made(wire)
    asking = asyncio.ensure_future(connection.ask(b"", b"", None, inf, bodiless=bodiless))
    await asyncio.sleep(0)
    for piece in pieces:
        if not wire.closed:
            connection.data_received(piece)
    if ends and not wire.closed and not connection.complete:
        connection.eof_received()
        wire.abort()
    body = b""
    try:
        await asking
        while piece := await connection.piece():
            body += piece
        connection.release()
    except http1.Failure as failure:
        return Outcome(connection.status, tuple(connection.headers), body, type(failure).__name__)
    finally:
        kept = connection in idle
        connection.abort()
        await asyncio.sleep(0)
    return Outcome(connection.status, tuple(connection.headers), body, kept=kept)
