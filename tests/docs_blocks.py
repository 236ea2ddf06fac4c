"""The code blocks of README, docs/ and examples/, with where they stand: for the tests that run or check them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INCLUDED = re.compile(r'^ *--8<-- "([^"]+)"\n', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block."""

    page: Path
    line: int
    language: str
    text: str
    """Dedented; files that the site includes are in it."""

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """All that a reader is given as Markdown, but the changelog."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "examples" / "README.md"]


def blocks(*languages: str) -> list[Block]:
    """Those in one of these languages, in the pages' order."""
    return [block for page in pages() for block in _of_page(page) if block.language in languages]


def _of_page(page: Path) -> list[Block]:
    source = page.read_text("utf-8")
    found = []
    for match in _FENCE.finditer(source):
        lines = [line.removeprefix(match[1]) for line in match[3].splitlines()]
        text = _INCLUDED.sub(lambda name: (ROOT / name[1]).read_text("utf-8"), "\n".join([*lines, ""]))
        found.append(Block(page, source.count("\n", 0, match.start()) + 1, match[2], text))
    return found
