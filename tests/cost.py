"""What long or hostile input may cost, in CPU time: another process on the machine's cores makes little difference to it.

Limits are in seconds of a machine that runs `_reference` in `REFERENCE_S`. A slower one has as many times longer; what grows with the square of
its input passes a limit by more than that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

REFERENCE_S = 0.033


@contextmanager
def below(seconds: float) -> Iterator[None]:
    """The block takes less than `seconds` of this process's CPU time on the reference machine. Its tests carry the mark `cost`."""
    started = time.process_time()
    yield
    took = time.process_time() - started
    assert took < seconds * slowness()


@cache
def slowness() -> float:
    """How many times longer this machine takes than the reference; at least 1."""
    return max(1.0, min(_reference() for _ in range(3)) / REFERENCE_S)


def _reference() -> float:
    """CPU seconds of a fixed piece of work in the interpreter."""
    started = time.process_time()
    words: dict[str, int] = {}
    for i in range(200_000):
        word = str(i * 7919 % 5003)
        words[word] = words.get(word, 0) + len(word)
    return time.process_time() - started
