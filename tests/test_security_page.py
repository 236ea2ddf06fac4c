"""SECURITY.md's promises name tests that are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def named() -> list[tuple[str, str]]:
    """File and test of every one, with ``…`` standing for the file before it."""
    found, file = [], ""
    for path, test in re.findall(r"`(tests/[\w/]+\.py|…)::(\w+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8")):
        file = file if path == "…" else path
        found.append((file, test))
    return found


def test_every_promise_has_its_test() -> None:
    rows = [line for line in (ROOT / "SECURITY.md").read_text(encoding="utf-8").splitlines() if "::" in line]
    assert len(rows) <= len(named())
    missing = [f"{file}::{test}" for file, test in named() if f"def {test}(" not in (ROOT / file).read_text(encoding="utf-8")]
    assert [] == missing
