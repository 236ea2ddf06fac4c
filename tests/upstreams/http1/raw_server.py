"""A server that says exactly the bytes it is told to, whatever HTTP has to say about them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from proxy.ports.upstream import Call
from proxy.upstreams.openai import OpenAIUpstream

GET = Call("GET", "/models", (), b"")
POST = Call("POST", "/chat/completions", (("content-type", "application/json"),), b"{}")
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Heard:
    """What a server has seen."""

    url: str
    connections: int = 0
    received: bytearray = field(default_factory=bytearray)
    """All that came, of all connections."""
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a connection has ended."""

    def hang_up(self) -> None:
        """End every connection."""
        for writer in self.writers:
            writer.close()


@asynccontextmanager
async def talking(talk: Talk, host: str = "127.0.0.1", **options: Any) -> AsyncIterator[Heard]:
    """`talk` has each connection; it is closed when that returns."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        heard.connections += 1
        heard.writers.append(writer)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            heard.ended.set()
            writer.close()

    server = await asyncio.start_server(connected, host, 0, **options)
    name = f"[{host}]" if ":" in host else host
    heard = Heard(f"http://{name}:{server.sockets[0].getsockname()[1]}/v1")
    try:
        yield heard
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def saying(*answers: bytes, close: bool = False) -> AsyncIterator[Heard]:
    """One answer for each request, the last one repeats; `close` ends the connection after each."""
    left = list(answers)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await read_request(reader):
            heard.received += request
            writer.write(left.pop(0) if len(left) > 1 else left[0])
            await writer.drain()
            if close:
                return

    async with talking(talk) as heard:
        yield heard


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Head and body, b"" at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    lowered, body = head.lower(), b""
    if b"\r\ntransfer-encoding: chunked\r\n" in lowered:
        while not body.endswith(b"0\r\n\r\n"):
            body += await reader.readline()
    elif b"\r\ncontent-length: " in lowered:
        body = await reader.readexactly(int(lowered.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0]))
    return head + body


async def said(upstream: OpenAIUpstream, call: Call = POST) -> bytes:
    """The answer's body."""
    answer = await upstream.send(call)
    try:
        return await answer.read()
    finally:
        await answer.close()
