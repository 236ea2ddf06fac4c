"""What is wrong with a file of facts: said with its place, so that it can be put right."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class FileProblem(Struct, frozen=True):
    """One line of the report."""

    file: str
    """Path inside the folder."""
    line: int
    """1-based, where the row or paragraph begins; 0 for the whole file."""
    problem: str
    kind: Literal["bad", "duplicate", "note"] = "bad"
    """``bad``: something was left out; ``duplicate``: a row says what an earlier one says; ``note``: nothing is missing."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}" if self.line else f"{self.file}: {self.problem}"


def is_broken(text: str) -> bool:
    """Whether it holds bytes that are not of its file's encoding (they were read as lone surrogates)."""
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)
