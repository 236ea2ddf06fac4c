"""One run of a target on one input: whether it failed, of what kind the failure is, and what time it took."""

from __future__ import annotations

import re
import time
import traceback
from dataclasses import dataclass

from tests.fuzz.targets import Target

LIMIT_CPU_S = 2.0
"""For one input of at most `tests.fuzz.mutate.MAX_BYTES`. CPU time of all threads: a busy machine makes no failure."""


_VARYING = re.compile(r"[0-9]+|['\"].*", re.S)
"""Of a message: figures, and everything from the first quotation on."""


@dataclass(slots=True, frozen=True)
class Failure:
    """An invariant that does not hold."""

    kind: str
    """The same for inputs that show the same thing: exception, place, message without its figures."""
    traceback: str


@dataclass(slots=True, frozen=True)
class Result:
    """Of one run."""

    cpu_s: float
    failure: Failure | None


def attempt(target: Target, data: bytes) -> Result:
    """Run it."""
    started, failure = time.process_time(), None
    try:
        target.run(data)
    except Exception as error:
        failure = Failure(kind_of(error), "".join(traceback.format_exception(error))[-3000:])
    taken = time.process_time() - started
    if failure is None and taken > LIMIT_CPU_S:
        failure = Failure("too slow", f"{taken:.1f} s CPU for {len(data)} bytes\n")
    return Result(taken, failure)


def kind_of(error: BaseException) -> str:
    """Exception, innermost place in the code, and the beginning of the message without figures and quotations."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages" not in f.filename and "/lib/python" not in f.filename]
    place = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].name}" if frames else ""
    return f"{type(error).__name__} in {place}: {_VARYING.sub('#', str(error))[:60]}"
