"""Makes an environment of what a lock file names, and says what it does meanwhile: a line a step, on a terminal a moving one.

Run by the system's Python, before anything is installed: ``python3 -m requirements.install .venv`` for what `make serve` needs,
``python3 -m requirements.install FOLDER LOCK`` for another lock file, with ``--editable`` for Groundwire itself beside it. A lock file is
complete and carries hashes, so that nothing is resolved; nothing is compiled that is not imported. uv does the work, since pip reads the
list of every release of every package to find a pinned one: the uv on PATH, else the pinned one, fetched like any package. Without it
pip installs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOCK, BUILD_LOCK, UV_LOCK = (ROOT / "requirements" / name for name in ("all.txt", "dev.txt", "uv.txt"))
_PACKAGE = re.compile(r"(?m)^([A-Za-z0-9][\w.-]*)==\S+.*(?:\n[ ]+--hash.*)+")
_COLLECTED = re.compile(r"(?:Collecting|Requirement already satisfied:|Processing|Downloaded) ([\w.-]+)")
_SETTING = re.compile(r"(?m)^(global|install|:env:)\.(index-url|extra-index-url|find-links|trusted-host)='(.*)'$")
"""What pip was told and uv has to be, so that a mirror stays the mirror."""


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


def install(folder: Path, progress: Progress, lock: Path = LOCK, *, editable: bool = True) -> int:
    """Make the environment of `lock`, pip and with `editable` of Groundwire as it stands here; returns the installer's exit status."""
    progress.begin(f"environment in {folder}")
    venv.create(folder, with_pip=False, symlinks=True)
    progress.begin("uv, which installs the rest")
    command = uv(folder)
    build = _pins(BUILD_LOCK, ["setuptools"]) if editable and lock != BUILD_LOCK else []
    wanted = [*_pins(lock), *build, *_pins(UV_LOCK, ["pip"])]
    progress.begin(f"{len(wanted)} packages from the package index")
    with _pinned(wanted) as pinned:
        status = _run([*command, *pinned], len(wanted), progress) if command else 1
        if status:
            progress.more(f"{len(wanted)} packages with pip, since uv could not")
            command = pip(folder)
            status = _run([*command, *pinned], len(wanted), progress)
    if status == 0 and editable:
        progress.begin("groundwire itself, as it stands here")
        status = _run([*command, "--no-deps", "--no-build-isolation", "-e", str(ROOT)], 1, progress)
    progress.end()
    return status


def uv(folder: Path) -> list[str]:
    """The command by which uv installs into `folder`; empty where there is none, and none to be had."""
    python, own = str(folder / "bin" / "python"), folder / "bin" / "uv"
    found = shutil.which("uv")
    if found is None and not own.is_file():
        with _pinned(_pins(UV_LOCK, ["uv"])) as pinned:
            _said([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *pinned])
    if found is None and not own.is_file():
        return []
    told = _told(_said([sys.executable, "-m", "pip", "config", "list"]))
    # As pip does: the best file of all indexes, whichever of them has it. The hashes say that it is the right one.
    return [found or str(own), "pip", "install", "--python", python, "--index-strategy", "unsafe-best-match", *told]


def _pins(path: Path, names: Sequence[str] = ()) -> list[str]:
    return pins(path.read_text(encoding="utf-8"), names)


@contextmanager
def _pinned(wanted: Sequence[str]) -> Iterator[list[str]]:
    """Options that install these pins and nothing else."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write("\n".join(wanted))
        file.flush()
        yield ["--no-deps", "--require-hashes", "-r", file.name]


def _told(config: str) -> list[str]:
    """Options for uv from what ``pip config list`` prints; the environment goes before files."""
    order = ("global", "install", ":env:")
    settings = {name: values for _, name, values in sorted(_SETTING.findall(config), key=lambda found: order.index(found[0]))}
    return [part for name, values in settings.items() for value in values.replace("\\n", " ").split() for part in (f"--{name}", value)]


def pip(folder: Path) -> list[str]:
    """The command by which pip does."""
    python = str(folder / "bin" / "python")
    _said([python, "-m", "ensurepip"])
    return [python, "-m", "pip", "install", "--no-compile", "--disable-pip-version-check", "--no-input", "--progress-bar=off"]


def _said(command: Sequence[str]) -> str:
    """What a command writes to standard output; nothing where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""


def _run(command: Sequence[str], packages: int, progress: Progress) -> int:
    """Run it, and count what it names; its own words are shown where it fails."""
    said, seen = [], 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            said.append(line)
            if packages > 1 and (found := _COLLECTED.match(line.strip())):
                seen += 1
                progress.more(f"{min(seen, packages)} of {packages} packages: {found[1]}")
            elif packages > 1 and line.startswith(("Installing collected packages", "Prepared")):
                progress.more(f"{packages} packages are there: unpacking them")
    if running.returncode:
        progress.end()
        sys.stdout.write("".join(said[-20:]))
    return running.returncode


if __name__ == "__main__":
    options = argparse.ArgumentParser(prog="python3 -m requirements.install")
    options.add_argument("folder", type=Path)
    options.add_argument("lock", type=Path, nargs="?", help="another lock file than that of `make serve`")
    options.add_argument("--editable", action="store_true", help="Groundwire itself, too, as it stands here")
    given = options.parse_args()
    editable = given.editable or given.lock is None
    sys.exit(install(given.folder, Progress(3 + editable), (given.lock or LOCK).resolve(), editable=editable))
