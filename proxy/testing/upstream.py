"""A scripted provider: a real HTTP server on loopback, so that nothing needs patching. It answers from a list of replies (the last one
repeats) and keeps every call it got.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True, frozen=True)
class ReceivedCall:
    """A call that the upstream got."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


ScriptedReply = Callable[[asyncio.StreamWriter, ReceivedCall], Awaitable[None]]


def reply(body: bytes | object, status: int = 200, headers: Mapping[str, str] | None = None) -> ScriptedReply:
    """A whole answer; anything but bytes is sent as JSON."""
    payload = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        fields = {"content-type": "application/json", "content-length": str(len(payload)), **(headers or {})}
        writer.write(_head(status, fields) + payload)
        await writer.drain()

    return write


def stream(chunks: Iterable[bytes], *, wait: Mapping[int, asyncio.Event] | None = None, broken: bool = False) -> ScriptedReply:
    """An event stream in exactly these chunks; before chunk i it waits for ``wait[i]``. `broken` leaves it without its end."""
    pieces = list(chunks)

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(_head(200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"}))
        for i, piece in enumerate(pieces):
            if wait and i in wait:
                await wait[i].wait()
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if broken:
            writer.transport.abort()
        else:
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    return write


def raw(data: bytes, *, close: bool = True) -> ScriptedReply:
    """Exactly these bytes on the connection."""

    async def write(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        writer.write(data)
        await writer.drain()
        if close:
            writer.close()

    return write


async def hang(writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
    """No answer, until the connection is closed."""
    await asyncio.Event().wait()


def completion(text: str = "Hello.", **more: object) -> dict[str, Any]:
    """A chat completion."""
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    return {**head, "choices": [choice], "usage": usage, **more}


def chunk(delta: Mapping[str, object], finish: str | None = None, index: int = 0, **more: object) -> bytes:
    """One event of a streamed completion."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "gpt-4o-2024-08-06"}
    choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


def streamed(words: Sequence[str], finish: str = "stop") -> list[bytes]:
    """The events of a streamed completion that says `words`."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words),
        chunk({}, finish),
        b"data: [DONE]\n\n",
    ]


class ScriptedUpstream:
    """An OpenAI-compatible server that says what it is told to. Use with ``async with``."""

    def __init__(self, *replies: ScriptedReply) -> None:
        self._replies = list(replies)
        self.calls: list[ReceivedCall] = []
        """Every call, in order."""
        self.gone = asyncio.Event()
        """Set when a connection is closed from the other side before its reply has ended."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedUpstream:
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", 0, limit=2**20)
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._server = None

    @property
    def base_url(self) -> str:
        """For an upstream's ``base_url``."""
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def say(self, *replies: ScriptedReply) -> None:
        """Answer the next calls with these; the last one repeats."""
        self._replies = list(replies)

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while (call := await _read_call(reader)) is not None:
                self.calls.append(call)
                answer = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
                await self._answer(answer, reader, writer, call)
                if writer.is_closing():
                    return
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, answer: ScriptedReply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, call: ReceivedCall) -> None:
        """Write the reply, unless the other side closes first."""
        writing = asyncio.ensure_future(answer(writer, call))
        closing = asyncio.ensure_future(_closed(reader))
        try:
            await asyncio.wait({writing, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not writing.done():
                self.gone.set()
                writer.close()
            else:
                writing.result()
        finally:
            for task in (writing, closing):
                task.cancel()
            await asyncio.gather(writing, closing, return_exceptions=True)


async def _closed(reader: asyncio.StreamReader) -> None:
    """Return when the peer has closed. A peer that sends on (HTTP pipelining) is not expected."""
    while not reader.at_eof():  # noqa: ASYNC110 - a stream reader has no event for its end that leaves the data in place
        await asyncio.sleep(0.005)


async def _read_call(reader: asyncio.StreamReader) -> ReceivedCall | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    if "chunked" in headers.get("transfer-encoding", ""):
        body = b""
        while size := int((await reader.readuntil(b"\n")).strip(), 16):
            body += await reader.readexactly(size)
            await reader.readline()
        await reader.readline()
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    return ReceivedCall(method, path, headers, body)


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
