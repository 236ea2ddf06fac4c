"""The load generator: a closed loop over raw sockets, one thread, every answer checked.

Why not wrk: it "corrects" its latency histogram for requests that a slower server would have received (samples nobody sent), its
percentiles can't be had per request, and without a Lua callback for every answer it knows statuses but no bodies. This loop
costs 8 to 30 µs of CPU a request and, with the stub on the same core, makes 58,000 requests a second (wrk in its place: 71,000), so
every server that needs more than 20 µs is measured at its own limit. The report prints how busy the server's core was.

A latency is the time from the first byte handed to the kernel to the last byte of the answer.
"""

from __future__ import annotations

import gc
import re
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_ANSWER_TIMEOUT_S = 60.0
_LEAST_WAVES = 4  # answers per connection that a window needs, so that the first wave's edges don't make the figure
_LONGEST_S = 30.0


class BadAnswer(Exception):
    """A system answered something else than the stub did: its speed would be worthless."""


@dataclass(slots=True)
class Sample:
    """What one run of the loop saw."""

    latencies_ms: list[float]
    """Of every request, those in flight when the window closed included: leaving them out would favour slow answers."""
    per_second: float
    """Answers that came within the window, over its length."""
    cpu_s: float
    """What the server's CPU clock advanced by for all these requests."""
    seconds: float


@dataclass(slots=True, frozen=True)
class Expected:
    """What a right answer looks like: the stub's own bytes, or at least its text where a gateway writes its JSON anew."""

    length: int
    text: bytes
    exact: bool = True


class _Connection:
    __slots__ = ("buffer", "left", "sock", "started_ns", "total", "writing")

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.buffer = b""
        self.total = 0  # bytes of the whole answer, 0 while its head is incomplete
        self.started_ns = 0
        self.left = memoryview(b"")
        self.writing = False


def request_bytes(path: str, body: bytes, key: str, headers: Mapping[str, str]) -> bytes:
    """One POST as an OpenAI client would send it."""
    extra = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\naccept: application/json\r\n"
        f"authorization: Bearer {key}\r\nuser-agent: benchmark\r\n{extra}content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def closed_loop(
    port: int, request: bytes, expected: Expected, concurrency: int, seconds: float, cpu_s: Callable[[], float] = lambda: 0.0
) -> Sample:
    """Keep `concurrency` requests in flight for `seconds`, longer where a slow server needs that for some answers on every connection.

    A first answer on each connection is not counted: it opens connections behind a proxy. Requests in flight at the end are
    waited for, so that no server works on them while the next one is measured. Raises `BadAnswer`.
    """
    loop = _Loop(port, request, expected, concurrency)
    gc.collect()
    gc.disable()
    try:
        return loop.run(seconds, cpu_s)
    finally:
        gc.enable()
        loop.close()


class _Loop:
    def __init__(self, port: int, request: bytes, expected: Expected, concurrency: int) -> None:
        self.request, self.expected = request, expected
        self.epoll = select.epoll()
        self.connections = {c.sock.fileno(): c for c in (_Connection(port) for _ in range(concurrency))}
        for fd in self.connections:
            self.epoll.register(fd, select.EPOLLIN)
        self.latencies_ns: list[int] = []

    def close(self) -> None:
        self.epoll.close()
        for connection in self.connections.values():
            connection.sock.close()

    def run(self, seconds: float, cpu_s: Callable[[], float]) -> Sample:
        concurrency = len(self.connections)
        self.send_all()
        self.drain(concurrency)
        self.latencies_ns.clear()
        cpu_before = cpu_s()
        start = now = time.perf_counter_ns()
        end, last = start + int(seconds * 1e9), start + int(_LONGEST_S * 1e9)
        self.send_all()
        while now < end or (len(self.latencies_ns) < _LEAST_WAVES * concurrency and now < last):
            for connection in self.answered():
                self.send(connection)
            now = time.perf_counter_ns()
        in_window = len(self.latencies_ns)
        self.drain(concurrency)
        latencies_ms = [ns / 1e6 for ns in self.latencies_ns]
        return Sample(latencies_ms, in_window * 1e9 / (now - start), cpu_s() - cpu_before, (time.perf_counter_ns() - start) / 1e9)

    def send_all(self) -> None:
        for connection in self.connections.values():
            self.send(connection)

    def drain(self, in_flight: int) -> None:
        while in_flight:
            in_flight -= sum(1 for _ in self.answered())

    def answered(self) -> Iterator[_Connection]:
        """Wait for events; yields each connection whose answer is complete, after noting its latency."""
        ready = self.epoll.poll(_ANSWER_TIMEOUT_S)
        if not ready:
            raise BadAnswer(f"no answer within {_ANSWER_TIMEOUT_S:.0f} s")
        for fd, event in ready:
            connection = self.connections[fd]
            if event & select.EPOLLOUT:
                self.write(connection)
            if event & ~select.EPOLLOUT and self.read(connection):
                self.latencies_ns.append(time.perf_counter_ns() - connection.started_ns)
                yield connection

    def send(self, connection: _Connection) -> None:
        connection.left = memoryview(self.request)
        connection.started_ns = time.perf_counter_ns()
        self.write(connection)

    def write(self, connection: _Connection) -> None:
        try:
            while connection.left:
                connection.left = connection.left[connection.sock.send(connection.left) :]
        except BlockingIOError:
            pass
        if bool(connection.left) != connection.writing:
            connection.writing = not connection.writing
            mask = select.EPOLLIN | (select.EPOLLOUT if connection.writing else 0)
            self.epoll.modify(connection.sock.fileno(), mask)

    def read(self, connection: _Connection) -> bool:
        """Take what has come; True once the answer is complete and right."""
        piece = connection.sock.recv(65536)
        if not piece:
            raise BadAnswer(f"the connection was closed after {len(connection.buffer)} bytes of an answer")
        data = connection.buffer = connection.buffer + piece if connection.buffer else piece
        if not connection.total:
            head = data.find(b"\r\n\r\n")
            if head < 0:
                return False
            found = _LENGTH.search(data, 0, head)
            if not found:
                return self.read_chunked(connection, head)
            connection.total = head + 4 + int(found[1])
            if not data.startswith(b"HTTP/1.1 200") or (self.expected.exact and int(found[1]) != self.expected.length):
                raise BadAnswer(repr(data[:600]))
        if len(data) < connection.total:
            return False
        return self.finish(connection)

    def read_chunked(self, connection: _Connection, head: int) -> bool:
        data = connection.buffer
        if not data.startswith(b"HTTP/1.1 200") or b"chunked" not in data[:head].lower():
            raise BadAnswer(repr(data[:600]))
        return data.endswith(b"\r\n0\r\n\r\n") and self.finish(connection)

    def finish(self, connection: _Connection) -> bool:
        if self.expected.text not in connection.buffer:
            raise BadAnswer(repr(connection.buffer[:600]))
        connection.buffer, connection.total = b"", 0
        return True
