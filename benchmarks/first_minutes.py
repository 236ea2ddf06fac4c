"""A new user's path with a clock: a clone, `make serve`, the line to paste from the start page, an answer.

    python -m benchmarks.first_minutes [--runs 3] [--cold]

The clone is of this checkout's HEAD, in a temporary folder, before a terminal of 80 columns, so that what is timed is what a person sees:
when each step began, and the longest time in which nothing on the screen moved. The package caches are the machine's own, filled by a run
that is not counted; `--cold` gives each run empty ones. The local model is fetched into an empty folder, too. Goal: the first answer in
less than 40 s with warm caches, and never more than 2 s in which nothing moves.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import resource
import select
import shlex
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "first_minutes.json"
GOAL_S, STILL_S, PATIENCE_S = 40.0, 2.0, 600.0
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEP = re.compile(r"\[\d/\d\] [^\r\n]*|Groundwire starts with|The local model is at|Groundwire [\d.]+ is up at")
_CURL = re.compile(r"^curl .*$", re.MULTILINE)


class Moment(Struct):
    """When something was seen first."""

    at_s: float
    said: str


class Walk(Struct):
    """One user's first minute."""

    answer_s: float
    still_s: float
    """The longest time in which the screen did not change."""
    moments: list[Moment]
    answer: str
    verdict: str
    cpu_s: float = 0.0
    """Of all that ran for it, the server's until it was told to stop: what a busy machine does not change."""


def walk(folder: Path, environment: dict[str, str]) -> Walk:
    """From the clone to the answer. Raises SystemExit where no server comes up."""
    start = time.monotonic()
    home = folder / "groundwire"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home)], check=True)
    moments = [Moment(time.monotonic() - start, "the clone is there")]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process, terminal = _terminal(["make", "serve", f"PORT={port}"], home, environment)
    try:
        screen, still = _watch(terminal, start, moments)
        curl = _CURL.search(screen)
        if curl is None:
            raise SystemExit(f"no server came up:\n{screen[-3000:]}")
        asked = time.monotonic()
        got = subprocess.run(
            [*shlex.split(curl[0].strip()), "-sS", "-i"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout
        head, _, body = got.replace("\r\n", "\n").partition("\n\n")
        answered = time.monotonic()
        moments.append(Moment(answered - start, f"the answer, {answered - asked:.1f} s after it was asked for"))
        verdict = re.search(r"(?im)^x-groundwire-verdict: (.*)$", head)
        answer = json.loads(body)["choices"][0]["message"]["content"]
        return Walk(answered - start, max(still, answered - asked), moments, answer, verdict[1] if verdict else "")
    finally:
        os.killpg(process, signal.SIGINT)
        _drain(terminal)
        os.waitpid(process, 0)
        os.close(terminal)


def _terminal(command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int, int]:
    """The command's process, leader of its own group, and the other end of its terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**environment, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"})
    return process, terminal


def _watch(terminal: int, start: float, moments: list[Moment]) -> tuple[str, float]:
    """What stood on the screen until the line to paste was complete, and the longest time in which nothing changed there."""
    shown, still, moved, seen = "", 0.0, time.monotonic(), 0
    while time.monotonic() - start < PATIENCE_S:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            shown += _CONTROL.sub("", os.read(terminal, 65536).decode(errors="replace")).replace("\r\n", "\n")
        except OSError:  # the other end is closed
            break
        still, moved = max(still, time.monotonic() - moved), time.monotonic()
        for found in _STEP.finditer(shown, seen):
            name = re.sub(r"\s+\d+ s$", "", found[0].strip())
            if not any(moment.said[:5] == name[:5] for moment in moments):
                moments.append(Moment(moved - start, name))
        if (curl := _CURL.search(shown)) and "\n" in shown[curl.end() : curl.end() + 1]:
            break
    return shown, still


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 65536):
            pass
    except OSError:
        return


def _runs(count: int, cold: bool) -> Iterator[Walk]:
    """Each in folders of its own; what `make` and Python would take from here is left out."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME", "MAKEFLAGS")}
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as caches:
        for number in range(count):
            with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
                empty = {"PIP_CACHE_DIR": f"{caches}/pip-{number}", "UV_CACHE_DIR": f"{caches}/uv-{number}"} if cold else {}
                before = _cpu_s()
                made = walk(Path(folder), {**kept, **empty, "GROUNDWIRE_CACHE": f"{folder}/cache"})
                made.cpu_s = _cpu_s() - before
                yield made


def _cpu_s() -> float:
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="empty package caches for every run")
    given = parser.parse_args()
    if not given.cold:
        print("filling the caches ...", flush=True)
        list(_runs(1, cold=False))
    walks = []
    for number, made in enumerate(_runs(given.runs, given.cold), 1):
        walks.append(made)
        print(f"\nrun {number}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        for moment in made.moments:
            print(f"  {moment.at_s:6.1f} s  {moment.said}")
        print(f"  verdict {made.verdict!r}: {made.answer[:100]}\n  {made.cpu_s:.1f} s of CPU")
    median: Callable[[list[float]], float] = statistics.median
    answer_s, still_s = median([made.answer_s for made in walks]), median([made.still_s for made in walks])
    print(
        f"\nfirst answer after {answer_s:.1f} s (goal: {GOAL_S:.0f}); at most {still_s:.1f} s in which nothing moved (goal: {STILL_S:.0f})"
    )
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(
        json.dumps({"cold": given.cold, "answer_s": answer_s, "still_s": still_s, "runs": [made.answer_s for made in walks]}, indent=1)
    )


if __name__ == "__main__":
    main()
