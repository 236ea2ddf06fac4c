"""Megabytes on disk of the package, of requirements/plain.txt and of each extra: ``python -m requirements.sizes [EXTRA ...]``.

Each is installed into an empty environment, as pip does it, bytecode included, in the versions of requirements/all.txt. Out: a row each,
with what it has above the package alone. `all` is every extra but torch's. uv, which is fetched into the
environment where PATH has none, is not counted.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from requirements.install import uv
from requirements.pins import ROOT, read_lock

EXTRAS = ("tools", "litellm", "local", "postgres", "mcp", "valkey", "tracing", "all")
_UV = ("bin/uv", "bin/uvx", "lib/*/site-packages/uv", "lib/*/site-packages/uv-*")


def megabytes(extra: str = "") -> float:
    """Of Groundwire with `extra` and all that it brings, in 10**6 bytes of disk. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        environment, versions = Path(folder) / "venv", Path(folder) / "versions.txt"
        pins = read_lock(ROOT / "requirements" / "all.txt")
        lines = (f"{pin.name}=={pin.version}" + (f" ; {pin.marker}" if pin.marker else "") for pin in pins)
        versions.write_text("\n".join(lines), encoding="utf-8")
        wanted = f"groundwire[{extra}] @ {ROOT.as_uri()}" if extra else f"groundwire @ {ROOT.as_uri()}"
        return _installed(environment, ["--constraint", str(versions), wanted])


def plain_megabytes() -> float:
    """The same of what requirements/plain.txt names, with Groundwire and none of its other dependencies. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        lock = ["--require-hashes", "-r", str(ROOT / "requirements" / "plain.txt")]
        return _installed(Path(folder) / "venv", lock, ["--no-deps", f"groundwire @ {ROOT.as_uri()}"])


def _installed(environment: Path, *each: Sequence[str]) -> float:
    """Megabytes of a new environment in which `each` has been installed."""
    venv.create(environment, with_pip=False, symlinks=True)
    for arguments in each:
        subprocess.run([*uv(environment), "--quiet", "--compile-bytecode", *arguments], check=True)
    return disk_megabytes(environment)


def disk_megabytes(environment: Path) -> float:
    """In 10**6 bytes of disk, each file once, without uv."""
    uv_paths = {path for pattern in _UV for path in environment.glob(pattern)}
    files = {
        (stat.st_dev, stat.st_ino): stat.st_blocks * 512
        for path in environment.rglob("*")
        if uv_paths.isdisjoint((path, *path.parents)) and (stat := path.lstat())
    }
    return sum(files.values()) / 1e6


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    plain = megabytes()
    print(f"| `pip install` | MB | above the package |\n| --- | --- | --- |\n| `groundwire` | {plain:.0f} | |")
    print(f"| `-r requirements/plain.txt`, `--no-deps groundwire` | {(lean := plain_megabytes()):.0f} | {lean - plain:.0f} |", flush=True)
    for extra in arguments or EXTRAS:
        size = megabytes(extra)
        print(f"| `groundwire[{extra}]` | {size:.0f} | {size - plain:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
