"""Pairs of turns written for this project: does what comes later in a chat go against what a user said before?

For clash detection, which asks about two statements and not about a document. ``training/data/judge_turns.tsv.gz``: three or four later
turns share an earlier one; their words, numbers, negations and lengths are alike, so that only the meaning tells the label.
``training/clash_data``: what goes against something said (``-``) and what does not (``+``), most of it proposals for a preference.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED, Example

BLOCKS = Path(__file__).parents[1] / "clash_data"
LANGUAGES = {"german": "de", "spanish": "es", "french": "fr"}
"""Of the files in `BLOCKS` that are not English."""
FILE = Path(__file__).parents[1] / "data" / "judge_turns.tsv.gz"
TURNS = "turns"
"""The source of these examples, and their group."""
TARGETS = {"supported": SUPPORTED, "unsupported": UNSUPPORTED, "contradicted": CONTRADICTED}
_HELD_OUT_PERCENT = 12
"""Of the earlier turns, with all that belongs to them."""


class Row(NamedTuple):
    """A line of the file."""

    group: str
    """Rows with one earlier turn share it."""
    language: str
    kind: str
    """``fact``, ``preference`` or ``instruction`` of the user's, or ``proposal``: the later turn is the assistant's."""
    older: str
    newer: str
    label: str

    @property
    def held_out(self) -> bool:
        """Whether the row is kept from training."""
        return int(hashlib.sha1(self.group.encode(), usedforsecurity=False).hexdigest()[:8], 16) % 100 < _HELD_OUT_PERCENT


def rows(path: Path = FILE) -> list[Row]:
    """All of them. Raises `SystemExit` with a sentence where the file is missing."""
    if not path.exists():
        raise SystemExit(f"{path} is missing: the judge is trained on the pairs of turns in it")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
        return [*(Row(*fields) for fields in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)), *blocks()]


def blocks() -> Iterator[Row]:
    """The pairs of `BLOCKS`."""
    for path in sorted(BLOCKS.glob("*.txt")):
        kind = "fact" if path.stem == "statements" else "proposal"
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            said, *later = [line.strip() for line in block.splitlines() if line.strip()] or [""]
            for line in later:
                label = "contradicted" if line[0] == "-" else "unsupported"
                yield Row(said[3:], LANGUAGES.get(path.stem, "en"), kind, said[3:], line[2:], label)


def training(found: Sequence[Row]) -> list[Example]:
    """Each pair that is not held out, and the other way round where the label stays what it is."""
    return [example for row in found if not row.held_out for example in _both_ways(row)]


def development(found: Sequence[Row]) -> list[Example]:
    """Those that are held out, as they were written."""
    return [_example(row, row.newer, row.older) for row in found if row.held_out]


def _both_ways(row: Row) -> Iterator[Example]:
    """What follows from a turn need not imply it; what goes against it does so both ways, and nothing decides nothing."""
    yield _example(row, row.newer, row.older)
    if row.label != "supported" and row.kind != "proposal":
        yield _example(row, row.older, row.newer)


def _example(row: Row, claim: str, evidence: str) -> Example:
    return Example(claim, evidence, TARGETS[row.label], TURNS, row.language, row.group)
