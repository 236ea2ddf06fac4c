"""How large each room of `proxy/` and each of `packages/` is, beside the committed table ``tests/size.md``: lines of code (no blanks, comments, docstrings) and files.

    python -m tests.size                     # prints it
    python -m tests.size --check             # fails where a room has grown past the table; `make check` runs this
    python -m tests.size --write REASON      # renews the table; REASON stands beside each room that has grown

A room that shrank needs nothing. One that grew needs its table renewed in the same commit, so that the growth and its reason are in the diff.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "tests" / "size.md"
TOP, DATA, PACKAGES = "(top)", "(data)", "packages/"
"""The rooms of modules that stand in `proxy/` itself, and of rules and words in its TOML files; what a package's name begins with."""
_HEAD = """# Size

Lines of code (no blank lines, comments, docstrings) and files of each room of `proxy/` and of each of `packages/`, as they may be; lines of rules
and words in TOML files count as a room of their own (`(data)`), so that what moves out of code is seen. `python -m tests.size` compares;
`make check` fails where a room has grown past this table, until `python -m tests.size --write REASON` renews it.

| room | lines | files | why it grew last |
| --- | ---: | ---: | --- |
"""
_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


class Size(NamedTuple):
    """Of a room."""

    lines: int
    files: int
    reason: str = ""


def code_lines(source: str) -> int:
    """Lines of a module that hold code."""
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            docstrings |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            found |= set(range(token.start[0], token.end[0] + 1))
    return len(found - docstrings)


def measured(folder: Path) -> dict[str, Size]:
    """Every room below `folder`, the largest first."""
    found: dict[str, Size] = {}
    for path in folder.rglob("*.py"):
        room = path.relative_to(folder).parts[0] if path.parent != folder else TOP
        before = found.get(room, Size(0, 0))
        found[room] = Size(before.lines + code_lines(path.read_text("utf-8")), before.files + 1)
    return dict(sorted(found.items(), key=lambda one: (-one[1].lines, one[0])))


def rooms() -> dict[str, Size]:
    """All that is counted."""
    data = [path.read_text("utf-8").splitlines() for path in (ROOT / "proxy").rglob("*.toml")]
    found = measured(ROOT / "proxy") | {DATA: Size(sum(sum(map(bool, lines)) for lines in data), len(data))}
    return found | {PACKAGES + room: size for room, size in measured(ROOT / "packages").items()}


def read(text: str) -> dict[str, Size]:
    """The rooms of a table."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: Size(int(row[1]), int(row[2]), row[3]) for row in rows if row[1].isdecimal() and row[0] != "all"}


def written(now: Mapping[str, Size], table: Mapping[str, Size], reason: str) -> str:
    """The table anew, with `reason` beside what has grown."""
    rows = [(room, size.lines, size.files, reason if grown(size, table.get(room)) else table[room].reason) for room, size in now.items()]
    rows.append(("all", sum(size.lines for size in now.values()), sum(size.files for size in now.values()), ""))
    return _HEAD + "".join(f"| {room} | {lines} | {files} | {why} |\n" for room, lines, files, why in rows)


def grown(size: Size, before: Size | None) -> bool:
    """Whether a room is larger than the table has it, or not in it."""
    return before is None or size.lines > before.lines or size.files > before.files


def report(now: Mapping[str, Size], table: Mapping[str, Size]) -> Iterator[str]:
    """A line a room."""
    yield f"{'room':18}{'lines':>8}{'':>8}{'files':>7}"
    for room, size in now.items():
        before = table.get(room, Size(0, 0))
        yield f"{room:18}{size.lines:8}{size.lines - before.lines:+8}{size.files:7}{size.files - before.files:+6}"
    lines, files = (sum(column) for column in zip(*((size.lines, size.files) for size in now.values()), strict=True))
    yield f"{'all':18}{lines:8}{lines - sum(size.lines for size in table.values()):+8}{files:7}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, check or renew."""
    options = argparse.ArgumentParser(prog="python -m tests.size", description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--check", action="store_true", help="fail where a room has grown past the table")
    options.add_argument("--write", metavar="REASON", help="renew the table")
    given = options.parse_args(arguments)
    now, table = rooms(), read(TABLE.read_text("utf-8")) if TABLE.exists() else {}
    if given.write is not None:
        TABLE.write_text(written(now, table, given.write.replace("|", "/")), "utf-8")
        return 0
    larger = [room for room, size in now.items() if grown(size, table.get(room))]
    if not given.check or larger:
        print("\n".join(report(now, table)))
    if given.check and larger:
        print(f'larger than tests/size.md has it: {", ".join(larger)}: python -m tests.size --write "why"', file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
