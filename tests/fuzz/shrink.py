"""Makes a failing input small: ever smaller pieces are left out as long as it still fails in the same way.

After A. Zeller and R. Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE TSE 28(2), 2002.
"""

from __future__ import annotations

import time
from collections.abc import Callable


def shrunk(data: bytes, fails: Callable[[bytes], bool], seconds: float = 20.0) -> bytes:
    """The smallest input found in that time for which `fails` holds; it holds for `data`."""
    end, size = time.monotonic() + seconds, max(1, len(data) // 2)
    while size >= 1 and time.monotonic() < end:
        at, before = 0, len(data)
        while at < len(data) and time.monotonic() < end:
            smaller = data[:at] + data[at + size :]
            if fails(smaller):
                data = smaller
            else:
                at += size
        if len(data) == before:
            size //= 2
    return data
