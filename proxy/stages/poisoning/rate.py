"""How much of what comes in is poisoned: a sliding window over the pieces that were checked last, and when it is too much."""

from __future__ import annotations

from collections import deque

WINDOW = 200
"""Pieces that the rate is taken over."""
MIN_PIECES = 20
"""Fewer say nothing about a rate: one bad piece of five is no wave."""


class PoisoningRate:
    """Belongs to one policy of one process, and is its operator's to know: no client's verdict says how much poison others sent."""

    def __init__(self, alert_above: float, window: int = WINDOW) -> None:
        """`alert_above` is the share of poisoned pieces from which on it is too much."""
        self._alert_above = alert_above
        self._last: deque[bool] = deque(maxlen=window)
        self._high = False

    @property
    def rate(self) -> float:
        """Share of the window's pieces that were poisoned; 0 for an empty one."""
        return sum(self._last) / len(self._last) if self._last else 0.0

    @property
    def high(self) -> bool:
        """Whether it is above the mark, with enough pieces to tell."""
        return len(self._last) >= MIN_PIECES and self.rate > self._alert_above

    def add(self, poisoned: bool) -> bool:
        """Count one piece that was checked; True where the rate rises above the mark with it."""
        self._last.append(poisoned)
        was, self._high = self._high, self.high
        return self._high and not was
