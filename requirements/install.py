"""Installs what `make serve` needs into an environment, and says what it does meanwhile: a line a step, on a terminal a moving one.

Run by the system's Python, before anything is installed: ``python3 -m requirements.install .venv``. The lock file is complete and carries
hashes, so pip resolves nothing, and compiles nothing that is not imported.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK, BUILD_LOCK = ROOT / "requirements" / "all.txt", ROOT / "requirements" / "dev.txt"
_PACKAGE = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)==\S+.*(?:\n[ ]+--hash.*)+")
_COLLECTED = re.compile(r"(?:Collecting|Requirement already satisfied:|Processing) ([\w.-]+)")


class Progress:
    """What is being done, on a line that is written anew each second; without a terminal a line when it begins."""

    def __init__(self, steps: int) -> None:
        self._steps, self._step, self._said, self._since = steps, 0, "", 0.0
        self._moving = sys.stdout.isatty()
        self._over = threading.Event()
        self._lock = threading.Lock()
        if self._moving:
            threading.Thread(target=self._move, daemon=True).start()

    def begin(self, what: str) -> None:
        """The next step."""
        self.end()
        self._step, self._said, self._since = self._step + 1, what, time.monotonic()
        if self._moving:
            self.write()
        else:
            print(f"[{self._step}/{self._steps}] {what}", flush=True)

    def more(self, what: str) -> None:
        """How far it is."""
        self._said = what

    def write(self) -> None:
        """The line, with the seconds since the step began."""
        with self._lock:
            text = f"[{self._step}/{self._steps}] {self._said}  {time.monotonic() - self._since:.0f} s"
            sys.stdout.write("\r\x1b[K" + text[:79])
            sys.stdout.flush()

    def end(self) -> None:
        """The step is done."""
        if self._moving and self._said:
            self.write()
            sys.stdout.write("\n")
        self._said = ""

    def _move(self) -> None:
        while not self._over.wait(0.5):
            if self._said:
                self.write()


def pins(text: str, names: Sequence[str] = ()) -> list[str]:
    """The pins of a lock file with their hashes, or of it those of `names`."""
    return [found[0] for found in _PACKAGE.finditer(text) if not names or found[1] in names]


def install(folder: Path, progress: Progress) -> int:
    """Make the environment; returns pip's exit status."""
    progress.begin(f"environment in {folder}")
    venv.create(folder, with_pip=True, clear=False, symlinks=True)
    python = str(folder / "bin" / "python")
    wanted = [*pins(LOCK.read_text(encoding="utf-8")), *pins(BUILD_LOCK.read_text(encoding="utf-8"), ["setuptools"])]
    progress.begin(f"{len(wanted)} packages from the package index")
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(wanted))
        file.flush()
        status = _pip(
            [python, "-m", "pip", "install", "--no-deps", "--no-compile", "--require-hashes", "-r", file.name], len(wanted), progress
        )
    if status == 0:
        progress.begin("groundwire itself, as it stands here")
        editable = ["--no-deps", "--no-compile", "--no-build-isolation", "-e", str(ROOT)]
        status = _pip([python, "-m", "pip", "install", *editable], 1, progress)
    progress.end()
    return status


def _pip(command: Sequence[str], packages: int, progress: Progress) -> int:
    """Run it, and count what it names; its own words are shown where it fails."""
    said, seen = [], 0
    with subprocess.Popen(
        [*command, "--disable-pip-version-check", "--no-input", "--progress-bar=off"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            if packages > 1 and (found := _COLLECTED.match(line.strip())):
                seen += 1
                progress.more(f"{min(seen, packages)} of {packages} packages: {found[1]}")
            elif packages > 1 and line.startswith("Installing collected packages"):
                progress.more(f"{packages} packages are there: unpacking them")
    if running.returncode:
        progress.end()
        sys.stdout.write("".join(said[-20:]))
    return running.returncode


if __name__ == "__main__":
    sys.exit(install(Path(sys.argv[1]), Progress(3)))
