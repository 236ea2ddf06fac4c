"""Provenance of weights: ``proxy/models/weights.toml`` read, and compared with the files that are there.

Out: `Weight` rows for the bill of materials, the checksums that differ, and the files of numbers that no row names.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import tomllib
from dataclasses import dataclass
from pathlib import Path

from requirements.pins import ROOT, Pin

TABLE = "proxy/models/weights.toml"
NO_NUMBERS = frozenset({".css", ".html", ".lua", ".js", ".mako", ".md", ".py", ".pyc", ".svg", ".toml", ".txt", ".typed", ".yaml"})
"""Endings of code, text and styles; whatever else lies in proxy/ may be a weight and has to say what it is."""
NUMBERS_IN_CODE = "coefficients.py"
"""How such a module's name ends. Written by training scripts: the one kind of module that is a weight."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One row; the table's head says what the fields mean."""

    file: str
    sha256: str
    made_by: str
    license: str
    made_from: tuple[str, ...] = ()
    package: str = ""
    version: str = ""
    wheel_sha256: str = ""


def read_weights(root: Path = ROOT) -> list[Weight]:
    """Every row. Raises TypeError for a field that there is not."""
    table = tomllib.loads((root / TABLE).read_text(encoding="utf-8"))
    return [Weight(**{**row, "made_from": tuple(row.get("made_from", ()))}) for row in table["weights"]]


def unlisted(root: Path = ROOT) -> list[str]:
    """Files in proxy/ that may be weights and are neither in the table nor excepted there."""
    excepted = tomllib.loads((root / TABLE).read_text(encoding="utf-8")).get("not_weights", {})
    known = {weight.file for weight in read_weights(root)} | set(excepted)
    files = (path for path in sorted((root / "proxy").rglob("*")) if path.is_file())
    candidates = [
        path.relative_to(root).as_posix() for path in files if path.suffix not in NO_NUMBERS or path.name.endswith(NUMBERS_IN_CODE)
    ]
    return [name for name in candidates if name not in known]


def location(weight: Weight, root: Path = ROOT) -> Path | None:
    """Where the file is here; None for one that is only fetched on request, or whose package is not installed."""
    if not weight.package:
        return root / weight.file
    try:
        path = Path(str(importlib.metadata.distribution(weight.package).locate_file(weight.file)))
    except importlib.metadata.PackageNotFoundError:
        return None
    return path


def checksum(path: Path) -> str:
    """SHA-256 in hexadecimal. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def packaged_pins(root: Path = ROOT) -> list[Pin]:
    """The packages that weights are taken from, at the versions of the table: a fetched one is in no lock file."""
    rows = {(weight.package, weight.version) for weight in read_weights(root) if weight.package}
    return [Pin(name, version, TABLE) for name, version in sorted(rows)]
