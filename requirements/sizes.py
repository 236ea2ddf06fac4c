"""Megabytes on disk of the plain package and of each extra: ``python -m requirements.sizes [EXTRA ...]``.

Each is installed into an empty environment, as pip does it, bytecode included, in the versions of requirements/all.txt. Out: a row each,
with what it has above the plain package. `all` is every extra but torch's.
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


def megabytes(extra: str = "") -> float:
    """Of Groundwire with `extra` and all that it brings, in 10**6 bytes of disk. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        environment, versions = Path(folder) / "venv", Path(folder) / "versions.txt"
        pins = read_lock(ROOT / "requirements" / "all.txt")
        lines = (f"{pin.name}=={pin.version}" + (f" ; {pin.marker}" if pin.marker else "") for pin in pins)
        versions.write_text("\n".join(lines), encoding="utf-8")
        venv.create(environment, with_pip=False, symlinks=True)
        wanted = f"groundwire[{extra}] @ {ROOT.as_uri()}" if extra else f"groundwire @ {ROOT.as_uri()}"
        command = [*uv(environment), "--quiet", "--compile-bytecode", "--constraint", str(versions), wanted]
        subprocess.run(command, check=True)
        found = {(stat.st_dev, stat.st_ino): stat.st_blocks * 512 for path in environment.rglob("*") if (stat := path.lstat())}
        return sum(found.values()) / 1e6


def main(arguments: Sequence[str]) -> int:
    """Print the table."""
    plain = megabytes()
    print(f"| `pip install` | MB | above the plain |\n| --- | --- | --- |\n| `groundwire` | {plain:.0f} | |")
    for extra in arguments or EXTRAS:
        size = megabytes(extra)
        print(f"| `groundwire[{extra}]` | {size:.0f} | {size - plain:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
