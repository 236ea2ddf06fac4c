"""A new user's path with a clock: install, first answer, first caught error, first decision, first alert.

    python -m benchmarks.first_minutes [--runs 3] [--cold]
    python -m benchmarks.first_minutes --installed BIN/groundwire

The commands and blocks are README's. A clone of this checkout's HEAD in a temporary folder, `make serve` on a terminal of 80 columns, the
line to paste from the start page, README's Python block with the `openai` client, a wrong answer that comes back with a warning, a decision
through the form of the review queue, and an alert at a webhook of this machine. The provider and the webhook are in
`benchmarks.first_decisions`. Times are without a person's reading and typing. Of the first minute the longest time in which nothing on the
screen moved is measured, too.

The package caches are the machine's own, filled by a run that is not counted; `--cold` gives each run empty ones. The local model is
fetched into an empty folder. `--installed` goes the same way with an environment that is there, from `groundwire init` on, and writes no
results: that is CI's. Goal: the first answer in less than 40 s with warm caches, and never more than 2 s in which nothing moves.
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
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field

from benchmarks import first_decisions as steps

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results" / "first_minutes.json"
GOAL_S, STILL_S, PATIENCE_S = 40.0, 2.0, 600.0
ASKED = 20
"""Exchanges below which a share rings nobody: the default of ``alerts.rules[].min_count``."""
QUICK_S = 2.0
"""``alerts.every_s`` with `--installed`; a person has the default, 30."""
STEPS = {
    "clone": "`git clone`",
    "up": "`make serve`: installed and up",
    "answer": "first answer, by the local model",
    "client": "`pip install openai`, and README's Python block through a provider: `pass`",
    "caught": "first caught error: the same question, a wrong answer, `warn`",
    "decided": "first decision, on the page Review",
    "tested": "alerts written, `groundwire alerts test`, its message at the webhook",
    "alerted": "first alert: restarted, 20 wrong answers, the message at the webhook",
}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STEP = re.compile(r"\[\d/\d\] [^\r\n]*|Groundwire starts with|The local model is at|Groundwire [\d.]+ is up at")
_CURL = re.compile(r"^curl .*$", re.MULTILINE)


class Moment(Struct):
    """When something was seen first."""

    at_s: float
    text: str


class Walk(Struct):
    """One user's way."""

    moments: list[Moment] = field(default_factory=list)
    steps: dict[str, float] = field(default_factory=dict)
    """When each of `STEPS` was done, in seconds since the first command."""
    still_s: float = 0.0
    """The longest time, until the first answer, in which the screen did not change."""
    answer: str = ""
    verdict: str = ""
    cpu_s: float = 0.0
    """Of all that ran for it, the servers' until they were told to stop: what a busy machine does not change."""


class Person:
    """Somebody in a folder, with a terminal and a clock."""

    def __init__(self, folder: Path, serve: list[str], groundwire: Path, environment: Mapping[str, str]) -> None:
        """`serve` is the command that starts the server there; it gets the port."""
        self.folder, self.groundwire, self.environment = folder, groundwire, dict(environment)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._serve = [word.format(port=port) for word in serve]
        self.url = f"http://127.0.0.1:{port}"
        self.walk = Walk()
        self._start = time.monotonic()

    def done(self, step: str, note: str) -> None:
        """One of `STEPS` is over."""
        self.walk.steps[step] = time.monotonic() - self._start
        self.walk.moments.append(Moment(self.walk.steps[step], note))

    @contextmanager
    def serving(self) -> Iterator[str]:
        """The server on a terminal of its own; what stood there until the line to paste. Raises SystemExit where it does not come up."""
        process, terminal = _terminal(self._serve, self.folder, self.environment)
        reader = threading.Thread(target=_drain, args=(terminal,), daemon=True)
        try:
            screen, still = _watch(terminal, self._start, self.walk.moments)
            if not _CURL.search(screen):
                raise SystemExit(f"no server came up:\n{screen[-3000:]}")
            if "answer" not in self.walk.steps:
                self.walk.still_s = still
            reader.start()
            yield screen
        finally:
            os.killpg(process, signal.SIGINT)
            if reader.ident:
                reader.join()
            else:
                _drain(terminal)
            os.waitpid(process, 0)
            os.close(terminal)

    def answered(self, screen: str) -> None:
        """Paste the start page's line."""
        asked, curl = time.monotonic(), _CURL.search(screen)
        assert curl is not None
        got = self._run([*shlex.split(curl[0].strip()), "-sS", "-i"])
        head, _, body = got.replace("\r\n", "\n").partition("\n\n")
        answered_s = time.monotonic() - asked
        self.walk.still_s = max(self.walk.still_s, answered_s)
        verdict = re.search(r"(?im)^x-groundwire-verdict: (.*)$", head)
        self.walk.answer = json.loads(body)["choices"][0]["message"]["content"]
        self.walk.verdict = verdict[1] if verdict else ""
        self.done("answer", f"the answer, {answered_s:.1f} s after it was asked for")

    def caught(self, provider: steps.Provider, python: Path) -> str:
        """README's Python block with a right and a wrong answer, and the wrong one without a stream; the id of that exchange."""
        _expect(("pass", "supported"), steps.ask_streamed(python, self.url))
        self.done("client", "the openai client's verdict of a right answer: pass")
        provider.text = steps.WRONG
        _expect(("warn", "contradicted"), steps.ask_streamed(python, self.url))
        self.done("caught", "the verdict of a wrong one: warn")
        verdict, record_id = steps.ask_whole(self.url)
        _expect("warn", verdict)
        _expect(["contradicted"], steps.recorded_labels(self.url, record_id))
        return record_id

    def decided(self, record_id: str) -> None:
        """Say on the page Review that the finding is right, and see that it is given out as labelled data."""
        notice = steps.decide(self.url, record_id)
        rows = [json.loads(line) for line in self._run([self.groundwire, "feedback", "export"]).splitlines()]
        _expect([(record_id, "contradicted")], [(row["record_id"], row["label"]) for row in rows])
        self.done("decided", f"the review queue says: {notice}")

    def alerted(self, receiver: steps.Receiver, every_s: float | None) -> None:
        """Write alerts into config.yaml, try the channel, start again, ask until a rule rings."""
        self.environment |= steps.add_alerts(self.folder / "config.yaml", receiver.url, every_s)
        self._run([self.groundwire, "check"])
        self._run([self.groundwire, "alerts", "test"])
        receiver.next("test")
        self.done("tested", "the channel works")
        with self.serving():
            for _ in range(ASKED):  # the header of the first may be `pending`: the judge is being loaded
                _expect(["contradicted"], steps.recorded_labels(self.url, steps.ask_whole(self.url)[1]))
            message = receiver.next("firing")
            self.done("alerted", message["text"].partition("\n")[0])

    def _run(self, command: list[str | Path]) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        if done.returncode:
            raise SystemExit(f"{shlex.join(map(str, command))} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
        return done.stdout


def _expect(wanted: object, got: object) -> None:
    if wanted != got:
        raise SystemExit(f"expected {wanted!r}, got {got!r}")


def walk(folder: Path, environment: dict[str, str]) -> Walk:
    """From the clone to the first alert. Raises SystemExit where something is not as README says."""
    home = folder / "groundwire"
    serve = shlex.split(steps.readme_block("sh", "make serve").text.split("\n", 1)[0], comments=True)
    with steps.Provider() as provider, steps.Receiver() as receiver:
        given = {**environment, "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "of-the-scripted-provider"}
        person = Person(home, [*serve, "PORT={port}"], home / ".venv" / "bin" / "groundwire", given)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(home)], check=True)
        person.done("clone", "the clone is there")
        with person.serving() as screen:
            person.done("up", "the server is up")
            person.answered(screen)
            client = folder / "client" / "bin" / "python"
            subprocess.run([sys.executable, "-m", "venv", str(client.parent.parent)], check=True)
            install = [str(client), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "openai"]
            subprocess.run(install, env=environment, check=True)
            person.decided(person.caught(provider, client))
        person.alerted(receiver, None)
    return person.walk


def walk_installed(groundwire: Path, folder: Path, environment: dict[str, str]) -> Walk:
    """The same with an environment that is there and has the `openai` client, from `groundwire init` on."""
    with steps.Provider() as provider, steps.Receiver() as receiver:
        given = {**environment, "OPENAI_BASE_URL": provider.base_url, "OPENAI_API_KEY": "of-the-scripted-provider"}
        person = Person(folder, [str(groundwire), "serve", "--port", "{port}"], groundwire, given)
        subprocess.run([groundwire, "init"], cwd=folder, env=given, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
        with person.serving() as screen:
            person.done("up", "the server is up")
            person.answered(screen)
            person.decided(person.caught(provider, groundwire.parent / "python"))
        person.alerted(receiver, QUICK_S)
    return person.walk


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
            if not any(moment.text[:5] == name[:5] for moment in moments):
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


def _environment() -> dict[str, str]:
    """Without what `make` and Python would take from here."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "XDG_CACHE_HOME", "MAKEFLAGS")}


def _runs(count: int, cold: bool) -> Iterator[Walk]:
    """Each in folders of its own."""
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as caches:
        for number in range(count):
            with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
                empty = {"PIP_CACHE_DIR": f"{caches}/pip-{number}", "UV_CACHE_DIR": f"{caches}/uv-{number}"} if cold else {}
                before = _cpu_s()
                made = walk(Path(folder), {**_environment(), **empty, "GROUNDWIRE_CACHE": f"{folder}/cache"})
                made.cpu_s = _cpu_s() - before
                yield made


def _cpu_s() -> float:
    """Of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table() -> str | None:
    """For docs/speed.md: each step, and how long it took; None without results."""
    if not RESULTS.exists():
        return None
    found = json.loads(RESULTS.read_text("utf-8"))
    lines, before = ["| step | took | since the first command |", "| --- | ---: | ---: |"], 0.0
    for name, words in STEPS.items():
        at = found["steps"][name]
        lines.append(f"| {words} | {at - before:.1f} s | {at:.0f} s |")
        before = at
    count, machine = len(found["runs"]), f"{found['processors']} processors, with a load of {found['load']:.0f}"
    lines += ["", f"*{f'Median of {count}' if count > 1 else 'One run'}, {machine}; {found['cpu_s']:.0f} s of processor time in all.*"]
    return "\n".join(lines)


def sentence() -> str | None:
    """For README: what a busy machine does not change; None without results."""
    if not RESULTS.exists():
        return None
    cpu_s = json.loads(RESULTS.read_text("utf-8"))["cpu_s"]
    steps_of_it = "[each step](docs/speed.md#the-first-minute-and-a-large-store)"
    return f"A script goes from `git clone` to the first alert in {cpu_s:.0f} s of processor time ({steps_of_it})."


TABLES: dict[str, Callable[[], str | None]] = {"first-minutes": table, "first-minutes-short": sentence}


def _print(made: Walk) -> None:
    for moment in made.moments:
        print(f"  {moment.at_s:6.1f} s  {moment.text}")
    print(f"  verdict {made.verdict!r}: {made.answer[:100]}\n  {made.cpu_s:.1f} s of CPU", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cold", action="store_true", help="empty package caches for every run")
    parser.add_argument("--installed", type=Path, metavar="GROUNDWIRE", help="the command of an environment that is there; no results")
    given = parser.parse_args()
    if given.installed:
        with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
            _print(walk_installed(given.installed.absolute(), Path(folder), _environment()))
        return
    if not given.cold:
        print("filling the caches ...", flush=True)
        list(_runs(1, cold=False))
    walks = []
    for number, made in enumerate(_runs(given.runs, given.cold), 1):
        walks.append(made)
        print(f"\nrun {number}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        _print(made)
    at = {name: statistics.median(made.steps[name] for made in walks) for name in STEPS}
    still_s = statistics.median(made.still_s for made in walks)
    print(f"\nfirst answer after {at['answer']:.1f} s (goal: {GOAL_S:.0f})")
    print(f"at most {still_s:.1f} s in which nothing moved (goal: {STILL_S:.0f})")
    RESULTS.parent.mkdir(exist_ok=True)
    found = {"cold": given.cold, "still_s": still_s, "steps": at, "cpu_s": statistics.median(made.cpu_s for made in walks)}
    found |= {"load": os.getloadavg()[0], "processors": os.cpu_count(), "runs": [made.steps for made in walks]}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
