"""``python -m tests.fuzz [--seconds N] [--seed S] [--target T …]``: fuzz every target for its share of the time; exit 1 for a failure.

Prints executions, executions per second, the slowest input and the failures of each target. A failure is saved into the corpus, made
small: mend its cause, give the file a name that says what it shows, and `tests/fuzz/test_corpus.py` keeps it mended.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections.abc import Callable

from proxy.stages.registry import STAGES
from tests.fuzz import corpus
from tests.fuzz.dialects import APIS, ApiAnswer, ApiRequest, ApiStream
from tests.fuzz.running import Failure, attempt
from tests.fuzz.shrink import shrunk
from tests.fuzz.stage_texts import StageAnswer, StageRequest, StageText
from tests.fuzz.targets import AnswerBody, AnswerStream, ConfigFile, PolicyFile, RequestBody, Target
from tests.fuzz.wire import Wire

TARGETS: dict[str, Callable[[], Target]] = {
    **{target.name: target for target in (RequestBody, AnswerBody, AnswerStream, Wire, PolicyFile, ConfigFile, StageRequest, StageAnswer)},
    **{
        f"{api.name}-{target.kind}": (lambda target=target, api=api: target(api))
        for api in APIS
        for target in (ApiRequest, ApiAnswer, ApiStream)
    },
    **{f"text-{stage.name}": (lambda name=stage.name: StageText(name)) for stage in STAGES},
}


def _clients() -> Target:
    from tests.fuzz.clients import Clients  # what it needs is not everywhere

    return Clients()


APART: dict[str, Callable[[], Target]] = {"clients": _clients}
"""Those that run only where they are named."""


def fuzz(target: Target, seconds: float, rng: random.Random, most: int = 20) -> tuple[int, float, list[Failure]]:
    """Executions, CPU seconds of the slowest, and failures, each kind of them once and at `most` so many."""
    kept = list(corpus.load(target.folder).values()) or [b""]
    failures: dict[str, Failure] = {}
    runs, slowest, end = 0, 0.0, time.monotonic() + seconds
    pool = list(kept)
    while time.monotonic() < end and len(failures) < most:
        data = target.mutate(rng.choice(pool), rng, kept)
        result = attempt(target, data)
        runs, slowest = runs + 1, max(slowest, result.cpu_s)
        if result.failure is None:
            if rng.random() < 0.1:  # mutations of mutations, without a pool that grows
                pool[rng.randrange(len(kept) // 2, len(pool)) if len(pool) > 400 else len(pool) :] = [data]
        elif result.failure.kind not in failures:
            failures[result.failure.kind] = found = result.failure
            began = time.monotonic()
            small = shrunk(data, lambda d, found=found: (again := attempt(target, d).failure) is not None and again.kind == found.kind)
            end += time.monotonic() - began
            print(f"{target.name}: {found.kind}\n{found.traceback}    {corpus.save(target.folder, target.name, small)}", flush=True)
    return runs, slowest, list(failures.values())


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=None, help="of the mutations; without one, the time")
    parser.add_argument(
        "--target", action="append", choices=sorted(TARGETS | APART), help="may stand several times; without it, all but those of clients"
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else time.time_ns() % 2**32
    names = given.target or list(TARGETS)
    print(f"seed {seed}, {given.seconds:g} s for {len(names)} targets", flush=True)
    logging.getLogger("groundwire").addHandler(logging.NullHandler())
    failed = 0
    for name in names:
        target = (TARGETS | APART)[name]()
        try:
            attempt(target, next(iter(corpus.load(target.folder).values()), b""))  # what starts late starts now
            runs, slowest, failures = fuzz(target, given.seconds / len(names), random.Random(f"{seed} {name}"))
        finally:
            target.close()
        failed += len(failures)
        rate = runs / (given.seconds / len(names))
        print(f"{name:19} {runs:8} runs {rate:8.1f}/s   slowest {slowest * 1000:6.0f} ms CPU   {len(failures)} failures", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
