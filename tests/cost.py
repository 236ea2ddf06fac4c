"""What long or hostile input may cost, in CPU time: another process on the machine's cores makes no difference to it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def below(seconds: float) -> Iterator[None]:
    """The block takes less than `seconds` of this process's CPU time. Its tests carry the mark `cost`."""
    started = time.process_time()
    yield
    took = time.process_time() - started
    assert took < seconds
