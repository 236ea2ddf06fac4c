"""``python -m tests.golden`` says which golden files would change; with ``--write`` it changes them. Exits with 1 where any differs."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import logging
import sys
import tempfile
from pathlib import Path

from tests.golden.cases import CASES
from tests.golden.files import FILES, path_of
from tests.golden.serving import goldens


async def _made(only: str) -> dict[Path, str]:
    with tempfile.TemporaryDirectory() as folder:
        async with goldens(Path(folder)) as running:
            return {path_of(case): await running.golden(case) for case in CASES if only in case.name}


def _changed(before: str, after: str) -> list[str]:
    """The lines that differ, below the section that they stand in."""
    found: list[str] = []
    heading = shown = ""
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line[2:].startswith(("=== ", "--- ")):
            heading = line[2:]
        if line[0] in "+-":
            if heading != shown:
                found.append(f"    {heading}")
                shown = heading
            found.append(f"      {line[0]} {line[2:][:160]}")
    return found


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the files that differ, and remove those without a case")
    parser.add_argument("--only", default="", metavar="PART", help="just the cases with PART in their name, as block/ or .stream")
    given = parser.parse_args()
    logging.disable()
    made = asyncio.run(_made(given.only))
    there = {path: path.read_text(encoding="utf-8") for path in FILES.rglob("*.txt")}
    new = [path for path in made if path not in there]
    changed = [path for path in made if path in there and there[path] != made[path]]
    gone = [] if given.only else [path for path in there if path not in made]
    for path in changed:
        print(f"changed {path.relative_to(FILES)}", *_changed(there[path], made[path]), sep="\n")
    print(*(f"{word} {path.relative_to(FILES)}" for word, paths in (("new", new), ("gone", gone)) for path in sorted(paths)), sep="\n")
    same = len(made) - len(new) - len(changed)
    print(f"{same} the same, {len(changed)} changed, {len(new)} new, {len(gone)} gone{'; written' if given.write else ''}")
    if given.write:
        for path in (*new, *changed):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        for path in gone:
            path.unlink()
    return 0 if given.write or not (new or changed or gone) else 1


if __name__ == "__main__":
    sys.exit(main())
