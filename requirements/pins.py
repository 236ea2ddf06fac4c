"""Lock files, as ``make lock`` writes them -> pins: what is installed, under which hashes, on whose behalf.

In: pip's requirements format (pip documentation, "Requirements File Format"), with hashes and uv's ``# via`` comments. Out: `Pin`. Used by
`requirements.audit` and `requirements.sbom`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
OVERRIDES = ("without-torch.txt",)
"""Beside the lock files, but instructions to the resolver: nothing is installed from them."""
OTHER_LOCKS = ("training/grounding/wheels.txt",)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})(?=\s|$)")


class LockError(Exception):
    """A line of a lock file that pins nothing: a range, an address, an option."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One package at one version."""

    name: str
    """Normalised (PEP 503)."""
    version: str
    where: str
    """File and line, for whoever has to change it."""
    hashes: tuple[str, ...] = ()
    """SHA-256 of the files that may be installed; empty where pip would take any."""
    marker: str = ""
    """Where it is installed at all (PEP 508); empty is everywhere."""
    parents: tuple[str, ...] = ()
    """Who asked for it; a file's own requirements stand as ``groundwire``."""


def lock_files(root: Path = ROOT) -> list[Path]:
    """Every file that something is installed from."""
    found = [path for path in sorted((root / "requirements").glob("*.txt")) if path.name not in OVERRIDES]
    return [*found, *(root / name for name in OTHER_LOCKS if (root / name).is_file())]


def read_lock(path: Path, root: Path = ROOT) -> list[Pin]:
    """A lock file's pins, in its order. Raises `LockError`."""
    return [_pin(number, line, comments, path.relative_to(root)) for number, line, comments in _entries(path.read_text(encoding="utf-8"))]


def declared_pins(root: Path = ROOT) -> list[Pin]:
    """The exact versions in pyproject.toml, torch's among them, which no lock file has: pip may take any of their files."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(text) for texts in lists for text in texts]
    exact = [(r.name, s.version) for r in requirements for s in r.specifier if s.operator == "=="]
    return [Pin(canonicalize_name(name), version, "pyproject.toml") for name, version in exact]


def _entries(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, requirement with its options, and the comments that follow it."""
    entry: tuple[int, str, list[str]] | None = None
    continued = False
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("#"):
            if entry:
                entry[2].append(stripped.removeprefix("#").strip())
        elif stripped:
            body = stripped.removesuffix("\\").strip()
            if continued and entry:
                entry = (entry[0], f"{entry[1]} {body}", entry[2])
            else:
                if entry:
                    yield entry
                entry = (number, body, [])
            continued = stripped.endswith("\\")
    if entry:
        yield entry


def _pin(number: int, line: str, comments: list[str], path: Path) -> Pin:
    where = f"{path.as_posix()}:{number}"
    text = _HASH.sub("", line.split(" #")[0]).strip()
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise LockError(f"{where}: not a pin: {text}") from error
    versions = [s.version for s in requirement.specifier if s.operator == "==" and not s.version.endswith(".*")]
    if len(versions) != 1 or len(requirement.specifier) != 1:
        raise LockError(f"{where}: not a pin: {text}")
    marker = str(requirement.marker or "")
    return Pin(canonicalize_name(requirement.name), versions[0], where, tuple(_HASH.findall(line)), marker, _parents(comments))


def _parents(comments: list[str]) -> tuple[str, ...]:
    names = [name for comment in comments if (name := comment.removeprefix("via").strip())]
    return tuple("groundwire" if ":dev" in name or "(" in name or name.startswith("-r ") else canonicalize_name(name) for name in names)
