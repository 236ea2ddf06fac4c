"""On a process's PYTHONPATH: its wall clock is ahead by WRONG_CLOCK_S seconds, its monotonic one as it is.

libfaketime would do it for every program, but makes waits of Python's threads wrong, too.
"""

import os
import time

_AHEAD_S = float(os.environ.get("WRONG_CLOCK_S", "0"))
_time, _time_ns = time.time, time.time_ns


def _wrong_time() -> float:
    return _time() + _AHEAD_S


def _wrong_time_ns() -> int:
    return _time_ns() + int(_AHEAD_S * 1e9)


time.time, time.time_ns = _wrong_time, _wrong_time_ns
