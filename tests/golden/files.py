"""Where golden files stand."""

from __future__ import annotations

from pathlib import Path

from tests.golden.cases import Case

FILES = Path(__file__).parent / "exchanges"


def path_of(case: Case) -> Path:
    """A case's file."""
    return FILES / f"{case.name}.txt"
