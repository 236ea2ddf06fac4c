"""The kept corpus: small files, each named for what it shows, in a folder for each kind of input."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.exchanges import recorded

ROOT = Path(__file__).parent.parent / "data" / "fuzz"


def load(folder: str) -> dict[str, bytes]:
    """Every file of a folder, by name; of a folder named for a dialect, its part of the recorded exchanges, too."""
    dialect, _, part = folder.partition("-")
    exchanges = recorded(dialect) if part else []
    parts = {one.name: {"request": one.request, "answer": one.answer, "stream": one.events}[part] for one in exchanges}
    return parts | {path.name: path.read_bytes() for path in sorted((ROOT / folder).glob("*")) if path.is_file()}


def save(folder: str, target: str, data: bytes) -> Path:
    """Keep a failing input, to be given a better name by whoever mends it."""
    path = ROOT / folder / f"found-{target}-{hashlib.sha256(data).hexdigest()[:8]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
