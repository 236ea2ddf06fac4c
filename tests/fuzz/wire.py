"""The HTTP client's target: an upstream's bytes on the wire, cut anywhere, held against a second, strict reader of RFC 9112, and h11."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import replace

from tests.fuzz import mutate
from tests.fuzz.targets import cut, rng_of
from tests.upstreams.http1.memory import Outcome, outcome
from tests.upstreams.http1.reference import said

_STATUS = re.compile(rb"(?:HTTP|RTSP|ICE)/1\.[01] ([1-9][0-9]{2})(?: [^\r\n]*)?")
"""llhttp takes its three protocols for one, and whatever stands behind the status."""
_OTHER_PROTOCOL = re.compile(rb"(?:RTSP|ICE)/1")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*+([\t\x20-\x7e\x80-\xff]*)")
_CHUNK = re.compile(rb"([0-9A-Fa-f]+) *(?:;[^\r\n]*)?\r\n")
_SMALL_BYTES = 60_000
"""Below every bound: how it is cut makes no difference."""
HTTP_WORDS = [
    b"\r\n",
    b"\r\n\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.0 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\n",
    b"HTTP/1.1 204 No Content\r\n",
    b"HTTP/1.1 304 Not Modified\r\n",
    b"content-length: 2\r\n",
    b"content-length: 0\r\n",
    b"Content-Length: 5, 5\r\n",
    b"transfer-encoding: chunked\r\n",
    b"transfer-encoding: gzip, chunked\r\n",
    b"connection: close\r\n",
    b"connection: keep-alive\r\n",
    b"connection: upgrade\r\nupgrade: h2c\r\n",
    b"keep-alive: timeout=1\r\n",
    b"content-encoding: gzip\r\n",
    b" folded\r\n",
    b"0\r\n\r\n",
    b"2\r\nok\r\n",
    b"ffffffffffffffff\r\n",
    b"1;a=b\r\nx\r\n",
]


def exact(data: bytes) -> bytes | None:
    """The body, where these bytes are one answer, its interim answers before it, and nothing behind it."""
    while True:
        head, end, data = data.lstrip(b"\r\n").partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        status, headers = _STATUS.fullmatch(first), [_HEADER.fullmatch(line) for line in lines]
        if not end or status is None or not all(headers):
            return None
        if status[1] == b"101":
            return None
        if status[1] >= b"200":
            break
    named = [(header[1].lower(), header[2].strip()) for header in headers if header]
    framing = [(name, value) for name, value in named if name in (b"content-length", b"transfer-encoding")]
    if status[1] in (b"204", b"304"):
        return b"" if not data.strip(b"\r\n") else None
    if len(framing) != 1:
        return None
    name, value = framing[0]
    if name == b"content-length":
        length = int(value.lstrip(b"0")[:20] or b"0") if value.isdigit() else -1
        return data[:length] if 0 <= length <= len(data) and not data[length:].strip(b"\r\n") else None
    return _unchunked(data) if value.lower() == b"chunked" else None


def _unchunked(data: bytes) -> bytes | None:
    body = b""
    while (size := _CHUNK.match(data)) is not None:
        length, data = int(size[1], 16), data[size.end() :]
        if not length:
            trailer, end, rest = (b"\r\n" + data).partition(b"\r\n\r\n")
            lines = trailer.split(b"\r\n")[1:]
            return body if end and not rest.strip(b"\r\n") and all(map(_HEADER.fullmatch, lines)) else None
        if data[length : length + 2] != b"\r\n":
            return None
        body, data = body + data[:length], data[length + 2 :]
    return None


class Wire:
    """An upstream's answer as bytes: it fails as a call may fail, or is read; what is no single answer spoils its connection."""

    name = folder = "wire"

    @staticmethod
    def mutate(data: bytes, rng: random.Random, others: Sequence[bytes]) -> bytes:
        """Bytes, with HTTP's words."""
        return mutate.of_bytes(data, rng, others, HTTP_WORDS)

    def run(self, data: bytes) -> None:
        """Whole, and in pieces."""
        rng = rng_of(data)
        whole, parts = asyncio.run(self._both([data], cut(data, rng)))
        for found in (whole, parts):
            self._check(found, exact(data))
        if not whole.failure and len(data) < _SMALL_BYTES and not _OTHER_PROTOCOL.search(data):
            judged = said(data)
            assert judged is not None, "whole, and none that is to h11"
            assert (judged.status, judged.body) == (whole.status, whole.body), "another answer than h11 reads"
            assert not (whole.kept and judged.behind), "a connection is kept that h11 would not keep"
        if len(data) < _SMALL_BYTES:
            assert replace(whole, kept=False) == replace(parts, kept=False), "another cut gives another answer"

    @staticmethod
    async def _both(*ways: list[bytes]) -> list[Outcome]:
        return [await outcome(way) for way in ways]

    @staticmethod
    def _check(found: Outcome, body: bytes | None) -> None:
        assert not found.kept or body is not None, "a connection is kept after what is no single answer"
        assert not found.kept or found.body == body, "another body than the one that was sent"
        assert found.failure in ("", "BadAnswer", "Broken", "Closed"), f"failed with {found.failure}"
        assert found.failure or found.status >= 200, "an answer without a status"
        assert len(found.headers) <= 128, "too many headers"

    def close(self) -> None:
        """There is nothing to let go of."""
