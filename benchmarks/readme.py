"""Writes the README's tables from the code they describe; with ``--check``, says whether they are up to date.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``. Tables of measurements are made of what the benchmark wrote into
``results``.

    python -m benchmarks.readme [--check]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import clean_context_tables, grounding_tables
from proxy.cli.stage_words import stage_table
from proxy.stages.registry import STAGES
from proxy.wire.http.headers import PREFIX, REQUEST, RESPONSE

README = Path(__file__).parent.parent / "README.md"
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def response_table() -> str:
    every = {**RESPONSE} | {header.name: header.meaning for stage in STAGES for header in stage.headers}
    return "\n".join(["| header | value |", "| --- | --- |", *(f"| `{PREFIX}{name}` | {meaning} |" for name, meaning in every.items())])


def request_table() -> str:
    return "\n".join(["| header | meaning |", "| --- | --- |", *(f"| `{PREFIX}{name}` | {text} |" for name, text in REQUEST.items())])


TABLES: dict[str, Callable[[], str | None]] = {
    "response-headers": response_table,
    "request-headers": request_table,
    "stages": stage_table,
    "grounding": grounding_tables.readme_table,
    "grounding-languages": grounding_tables.readme_languages,
    **clean_context_tables.TABLES,
}


def filled(text: str) -> str:
    """`text` with every generated table as the code has it now; one of measurements that were not made here stays as it is."""

    def table(block: re.Match[str]) -> str:
        made = TABLES[block[2]]()
        return block[0] if made is None else f"{block[1]}{made}\n{block[3]}"

    return _BLOCK.sub(table, text)


def main() -> int:
    text = README.read_text(encoding="utf-8")
    new = filled(text)
    if "--check" in sys.argv:
        if new != text:
            print("README.md: the generated tables are not up to date; run make docs", file=sys.stderr)
            return 1
        return 0
    README.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
