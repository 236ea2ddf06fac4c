"""Responses of unknown length for clients of HTTP/1.0, which know no chunks: what comes until the connection closes (RFC 9112 section 6.3).

uvicorn sends chunks to everyone. nginx asks so by default.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle


class _AnyLength(int):
    """What is left of a body whose length is not known: nothing is more than it, and it may end at any time."""

    def __lt__(self, other: object) -> bool:
        return False

    def __sub__(self, other: int) -> _AnyLength:
        return self


def until_closed(cycle: RequestResponseCycle) -> None:
    """Let the response be without chunks, and end with the connection."""
    cycle.chunked_encoding = False
    cycle.expected_content_length = _AnyLength()
    cycle.keep_alive = False
