"""Streams, read chunk by chunk: time to the first token, gaps between chunks, and each chunk's way through a proxy.

The stub writes its monotonic clock into every chunk, so a chunk's delay is known by itself, whatever the gaps do.
"""

from __future__ import annotations

import re
import select
import socket
import time
from dataclasses import dataclass, field

from benchmarks.load.generator import BadAnswer

_STAMP = re.compile(rb"t=(\d+)\.? ")
_END = b"data: [DONE]\n\n"
_TIMEOUT_S = 30.0


@dataclass(slots=True)
class Streams:
    """What a reader of some streams saw, in milliseconds."""

    first_token_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    delays_ms: list[float] = field(default_factory=list)
    """From the stub's write of a chunk to its arrival here."""


class _Stream:
    def __init__(self, port: int, request: bytes) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request = request
        self.sent_ns = 0
        self.forget()

    def forget(self) -> None:
        self.data = b""
        self.seen_to = 0
        self.arrivals: list[int] = []
        self.stamps: list[int] = []

    def send(self) -> None:
        self.forget()
        self.sent_ns = time.perf_counter_ns()
        self.sock.sendall(self.request)

    def read(self) -> bool:
        """Take what has come; True at the stream's end."""
        piece = self.sock.recv(65536)
        now = time.perf_counter_ns()
        if not piece:
            raise BadAnswer(f"a stream was closed early: {self.data[-300:]!r}")
        self.data += piece
        for match in _STAMP.finditer(self.data, self.seen_to):
            self.stamps.append(int(match[1]))
            self.arrivals.append(now)
            self.seen_to = match.end()
        return self.data.endswith(b"0\r\n\r\n")

    def add_to(self, seen: Streams, chunks: int) -> None:
        if not self.data.startswith(b"HTTP/1.1 200") or _END not in self.data or len(self.stamps) != chunks:
            raise BadAnswer(f"{len(self.stamps)} of {chunks} chunks: {self.data[:600]!r}")
        seen.first_token_ms.append((self.arrivals[0] - self.sent_ns) / 1e6)
        seen.gaps_ms += [(b - a) / 1e6 for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]
        seen.delays_ms += [(a - s) / 1e6 for a, s in zip(self.arrivals, self.stamps, strict=True)]


def read_streams(port: int, request: bytes, chunks: int, concurrency: int, batches: int) -> Streams:
    """Read `batches` times `concurrency` streams side by side, over kept connections. Raises `BadAnswer`.

    One batch before them opens the connections on both sides of a proxy and is not counted.
    """
    seen, warm_up = Streams(), Streams()
    streams = [_Stream(port, request) for _ in range(concurrency)]
    try:
        for number in range(batches + 1):
            _read_all(streams)
            for stream in streams:
                stream.add_to(seen if number else warm_up, chunks)
    finally:
        for stream in streams:
            stream.sock.close()
    return seen


def _read_all(streams: list[_Stream]) -> None:
    with select.epoll() as epoll:
        running = {stream.sock.fileno(): stream for stream in streams}
        for fd, stream in running.items():
            epoll.register(fd, select.EPOLLIN)
            stream.send()
        while running:
            ready = epoll.poll(_TIMEOUT_S)
            if not ready:
                raise BadAnswer(f"a stream was silent for {_TIMEOUT_S:.0f} s")
            for fd, _ in ready:
                if running[fd].read():
                    epoll.unregister(fd)
                    del running[fd]
