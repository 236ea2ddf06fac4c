"""Draws docs/architecture.svg: the rooms of ``proxy/``, a row for each layer of the import contract in pyproject.toml.

``python -m docs.picture`` writes it, ``--check`` says whether it is up to date (exit status 1). A room's words are its docstring's first
sentence; whatever stands higher may import what stands lower, never the other way round (``lint-imports``).
"""

from __future__ import annotations

import ast
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICTURE = Path(__file__).with_name("architecture.svg")
WIDTH, MARGIN, GAP, LINE = 1040, 20, 10, 16
"""Pixels; `LINE` is one line of words."""
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b2733}.name{font-weight:600}rect{fill:#eef3f8;stroke:#8aa0b5;rx:6}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}rect{fill:#1d2733;stroke:#56697c}}"
)


def layers() -> list[list[str]]:
    """The rooms, top to bottom."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [row.split(" | ") for row in rows]


def words(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = ROOT / "proxy" / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n\n")[0].replace("\n", " ")
    return text.replace("`", "").partition(". ")[0].rstrip(".")


def draw() -> str:
    """The picture."""
    parts, y = [], MARGIN
    for row in layers():
        wide = (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row)
        told = [textwrap.wrap(words(room), int(wide / 7.2)) for room in row]
        high = 30 + LINE * max(map(len, told))
        for i, (room, lines) in enumerate(zip(row, told, strict=True)):
            x = MARGIN + i * (wide + GAP)
            parts.append(f'<rect x="{x:g}" y="{y}" width="{wide:g}" height="{high}"/>')
            parts.append(f'<text class="name" x="{x + 10:g}" y="{y + 20}">{escape(room)}</text>')
            parts += [f'<text x="{x + 10:g}" y="{y + 20 + LINE * (k + 1)}">{escape(line)}</text>' for k, line in enumerate(lines)]
        y += high + GAP
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + MARGIN - GAP}" role="img">'
    return "\n".join([head, "<title>The rooms of proxy/, by layer</title>", f"<style>{STYLE}</style>", *parts, "</svg>\n"])


def main() -> int:
    """Write the picture, or compare it."""
    made = draw()
    if "--check" in sys.argv[1:]:
        return int(not PICTURE.exists() or PICTURE.read_text("utf-8") != made)
    PICTURE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
