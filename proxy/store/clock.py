"""What time it is, by the store's clock: nodes whose own clocks differ put their rows into one order, and none is too old as it is written.

A machine's clock is its own business up to `MOST_S`: it is kept by NTP, and is asked without a trip. One that is further from the
database's is not asked any more: time then goes on from the database's, as it was last asked, by a clock that nobody sets.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

MAX_SKEW_S = 30.0
"""From here on it is said."""
MOST_S = 60.0
"""From here on the machine's clock is not used."""


class StoreClock:
    """Seconds since the epoch; called as `time.time` is."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` is the machine's."""
        self.own = clock
        self.problem = ""
        """What is wrong with it; "" while it is right."""
        self.now = clock
        """The same as a call of this, without a step more where the machine's is right."""
        self._offset: float | None = None
        """From the monotonic clock, where the machine's is wrong."""
        self._left = (0.0, 0.0)
        """Where the machine's clock stood when it was not used any more, and how far ahead that was; zeros while it never was."""

    def __call__(self) -> float:
        """Now."""
        return self.now()

    def compare(self, theirs: float, asked: float) -> None:
        """The database has answered with `theirs`; `asked` is when it was asked, by `time.monotonic`."""
        answered = time.monotonic()
        ahead_s = self.own() - (answered - asked) / 2 - theirs
        if abs(ahead_s) > MOST_S and self._offset is None:
            self._left = (self.own(), ahead_s)
        self._offset = theirs - (asked + answered) / 2 if abs(ahead_s) > MOST_S else None
        self.now = self.own if self._offset is None else self._theirs
        wrong = abs(ahead_s) > MAX_SKEW_S
        instead = "the store's is used until it is set right" if self._offset is not None else "its records stand at wrong times"
        if wrong and not self.problem:
            log.warning("this machine's clock is %+.0f s from the store's: %s", ahead_s, instead)
        self.problem = f"this machine's clock is {ahead_s:+.0f} s from the store's: {instead}" if wrong else ""

    def corrected(self, moment: float) -> float:
        """A time that this clock has told, as the store's says it: what was begun before the store could be asked has the machine's."""
        until, ahead_s = self._left
        earliest = -math.inf if ahead_s < 0 else self.now()
        return moment - ahead_s if ahead_s and earliest < moment <= until else moment

    def _theirs(self) -> float:
        return time.monotonic() + (self._offset or 0.0)
