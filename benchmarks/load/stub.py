"""The upstream that costs next to nothing: a completion at once, or a stream of chunks at a fixed gap.

Unlike nginx's ``return`` it reads the whole request body before it answers: an early answer makes pooling clients close the
connection under a body they are still writing, and a 204 KB measurement would be one of reconnecting.

Every streamed chunk carries the monotonic clock, in nanoseconds, at which it was written (``t=…`` in its text), so that a
reader on the same machine knows each chunk's way through a proxy and not only the gaps.

    python -m benchmarks.load.stub --port 9000 --chunks 40 --gap-ms 10
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import cast

import uvloop

TEXT = "The stub upstream answers every question with this one sentence, whatever it was asked. " * 4
COMPLETION = (
    '{"id":"chatcmpl-stub","object":"chat.completion","created":1700000000,"model":"gpt-4o","choices":[{"index":0,'
    f'"message":{{"role":"assistant","content":"{TEXT.strip()}"}},"finish_reason":"stop"}}],'
    '"usage":{"prompt_tokens":20,"completion_tokens":60,"total_tokens":80}}'
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(COMPLETION) + COMPLETION
STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENT = '{{"id":"chatcmpl-stub","object":"chat.completion.chunk","created":1700000000,"model":"gpt-4o","choices":[{{"index":0,{}}}]}}'
WORDS_PER_SENTENCE = 8


def _framed(data: str) -> bytes:
    event = f"data: {data}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(event), event)


_OPENING = _framed(_EVENT.format('"delta":{"role":"assistant","content":""},"finish_reason":null'))
_CLOSING = _framed(_EVENT.format('"delta":{},"finish_reason":"stop"')) + _framed("[DONE]") + b"0\r\n\r\n"


class Stub(asyncio.Protocol):
    """One connection; requests come one after the other, as HTTP clients without pipelining send them."""

    def __init__(self, chunks: int, gap_s: float, pause_s: float = 0.0) -> None:
        """`pause_s`: before an answer that is no stream."""
        self.chunks, self.gap_s, self.pause_s = chunks, gap_s, pause_s
        self.head = bytearray()
        self.missing = -1  # body bytes still to come; -1 while the head is incomplete
        self.streamed = False
        self.timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer:
            self.timer.cancel()

    def data_received(self, data: bytes) -> None:
        if self.missing >= 0:
            self.missing -= len(data)
            self.streamed = self.streamed or b'"stream":true' in data
        else:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            if end < 0:
                return
            self.missing = _content_length(bytes(self.head[:end])) - (len(self.head) - end - 4)
            self.streamed = b'"stream":true' in self.head
        if self.missing <= 0:
            self.head.clear()
            self.missing = -1
            self.answer()

    def answer(self) -> None:
        if self.streamed:
            self.transport.write(STREAM_HEAD + _OPENING)
            self.chunk(0, asyncio.get_running_loop().time())
        elif self.pause_s:
            self.timer = asyncio.get_running_loop().call_later(self.pause_s, self.transport.write, ANSWER)
        else:
            self.transport.write(ANSWER)

    def chunk(self, number: int, start: float) -> None:
        if number == self.chunks:
            self.transport.write(_CLOSING)
            return
        stop = "." if number % WORDS_PER_SENTENCE == WORDS_PER_SENTENCE - 1 else ""
        text = f"t={time.perf_counter_ns()}{stop} "
        self.transport.write(_framed(_EVENT.format(f'"delta":{{"content":"{text}"}},"finish_reason":null')))
        due = start + (number + 1) * self.gap_s
        self.timer = asyncio.get_running_loop().call_at(due, self.chunk, number + 1, start)


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


async def serve(port: int, chunks: int, gap_s: float, pause_s: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Stub(chunks, gap_s, pause_s), "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--chunks", type=int, default=40)
    options.add_argument("--gap-ms", type=float, default=10.0)
    options.add_argument("--pause-ms", type=float, default=0.0)
    given = options.parse_args()
    uvloop.run(serve(given.port, given.chunks, given.gap_ms / 1000, given.pause_ms / 1000))
