"""Writes the generated tables of the README and of docs/ from the code they describe; with ``--check``, says whether they are up to date.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Tables of measurements are made of what the benchmark wrote into
``results``, those of the reference by `docs.reference`.

    python -m benchmarks.readme [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks import agent_tasks, clean_context_tables, cluster_tables, dashboard_tables, first_minutes, grounding_tables, promise_tables
from docs import charts, openapi, reference

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

TABLES: dict[str, Callable[[], str | None]] = {
    **reference.TABLES,
    "grounding": grounding_tables.readme_table,
    "grounding-languages": grounding_tables.readme_languages,
    **clean_context_tables.TABLES,
    **promise_tables.TABLES,
    **cluster_tables.TABLES,
    "agent-tasks": agent_tasks.table,
    **dashboard_tables.TABLES,
    **first_minutes.TABLES,
}


def pages(root: Path = ROOT) -> list[Path]:
    """The README and every page of docs/."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def filled(text: str) -> str:
    """`text` with every generated table as the code has it now; one of measurements that were not made here stays as it is."""

    def table(block: re.Match[str]) -> str:
        made = TABLES[block[2]]()
        return block[0] if made is None else f"{block[1]}{made}\n{block[3]}"

    return _BLOCK.sub(table, text)


def stale(paths: Iterable[Path]) -> dict[Path, str]:
    """The new text of each page that is not up to date."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    return {path: new for path, text in texts.items() if (new := filled(text)) != text}


def stale_files() -> dict[Path, str]:
    """The same of files that are generated as a whole."""
    made = {openapi.FILE: openapi.text(), **charts.files()}
    return {path: text for path, text in made.items() if not path.is_file() or path.read_text(encoding="utf-8") != text}


def main() -> int:
    found = stale(pages()) | stale_files()
    if "--check" in sys.argv:
        for path in found:
            print(f"{path.relative_to(ROOT)}: what is generated is not up to date; run make docs", file=sys.stderr)
        return 1 if found else 0
    for path, text in found.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
