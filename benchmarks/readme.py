"""Writes the README's tables from the code they describe; with ``--check``, says whether they are up to date.

A table stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``.

    python -m benchmarks.readme [--check]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from proxy.explain import stage_table
from proxy.headers import PREFIX, REQUEST, RESPONSE

README = Path(__file__).parent.parent / "README.md"
_BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def response_table() -> str:
    return "\n".join(["| header | value |", "| --- | --- |", *(f"| `{PREFIX}{h.name}` | {h.meaning} |" for h in RESPONSE)])


def request_table() -> str:
    return "\n".join(["| header | meaning |", "| --- | --- |", *(f"| `{PREFIX}{name}` | {text} |" for name, text in REQUEST.items())])


TABLES = {"response-headers": response_table, "request-headers": request_table, "stages": stage_table}


def filled(text: str) -> str:
    """`text` with every generated table as the code has it now."""
    return _BLOCK.sub(lambda block: f"{block[1]}{TABLES[block[2]]()}\n{block[3]}", text)


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
