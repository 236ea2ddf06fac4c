"""Table of docs/speed.md, from what ``python -m benchmarks.dashboard_scale`` has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "dashboard_scale.json"


def pages() -> str | None:
    """Each page's time at the server."""
    if not RESULT.exists():
        return None
    found = json.loads(RESULT.read_text("utf-8"))
    lines = ["| page | first load, ms | median, ms | worst, ms |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {name} | {page['first_ms']:.0f} | {page['median_ms']:.0f} | {page['worst_ms']:.0f} |" for name, page in found["pages"].items()
    ]
    load = found["load"][0]
    lines += ["", f"*{found['records']:,} exchanges, SQLite {found['sqlite']}, Python {found['python']}; load of the machine: {load:.0f}.*"]
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str | None]] = {"dashboard-scale": pages}
