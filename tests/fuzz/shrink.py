"""Makes a failing input small: ever smaller pieces are left out as long as it still fails in the same way.

After A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002.
"""

from __future__ import annotations

import time
from collections.abc import Callable

MARKS = (b"\n\n", b"\n", b", ", b"")
"""What parts the pieces: events, lines, members of JSON, bytes."""


def shrunk(data: bytes, fails: Callable[[bytes], bool], seconds: float = 20.0) -> bytes:
    """The smallest input found in that time for which `fails` holds; it holds for `data`."""
    end = time.monotonic() + seconds
    for mark in MARKS:
        pieces = data.split(mark) if mark else [data[i : i + 1] for i in range(len(data))]
        data = mark.join(_fewer(pieces, lambda some, mark=mark: fails(mark.join(some)), end))  # type: ignore[misc]
    return data


def _fewer(pieces: list[bytes], fails: Callable[[list[bytes]], bool], end: float) -> list[bytes]:
    size = max(1, len(pieces) // 2)
    while size >= 1 and time.monotonic() < end:
        at, before = 0, len(pieces)
        while at < len(pieces) and time.monotonic() < end:
            smaller = pieces[:at] + pieces[at + size :]
            if fails(smaller):
                pieces = smaller
            else:
                at += size
        if len(pieces) == before:
            size //= 2
    return pieces
