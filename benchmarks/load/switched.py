"""Groundwire's command with metrics that SIGUSR1 stops from counting and SIGUSR2 lets count again, to see what counting costs.

    python -m benchmarks.load.switched serve …

One process, switched, and not two: the same code differs by some percent from one process to the next, by where its memory happens to lie.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from proxy.__main__ import main
from proxy.observe.metrics import Metrics
from proxy.observe.metrics.exchanges import UpstreamCounts

COUNTING: tuple[tuple[type, str], ...] = (
    *((Metrics, name) for name in ("count", "exchange")),
    *((UpstreamCounts, name) for name in ("answered", "ended", "failed", "broke", "retried", "fell_back")),
)
_ORIGINAL = {(owner, name): getattr(owner, name) for owner, name in COUNTING}


def nothing(*_: Any) -> None:
    """Stands for every method that counts."""


def switch(number: int, frame: object) -> None:
    """Off or on."""
    for owner, name in COUNTING:
        setattr(owner, name, nothing if number == signal.SIGUSR1 else _ORIGINAL[owner, name])


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, switch)
    signal.signal(signal.SIGUSR2, switch)
    sys.exit(main())
