"""A piece of evidence with its place, and how a long one is cut: what `pieces`, `tables` and `json_pieces` share."""

from __future__ import annotations

import re

from msgspec import Struct

MAX_PIECE_CHARS = 600
"""A longer sentence, row or value is cut, so that a claim's evidence (`retrieval.EVIDENCE_CHARS`) has room for another beside it."""
_BREAKS = ("; ", ", ", " ")
"""Where a long sentence is cut, the best mark first."""
_HEADING = re.compile(r"#{1,6}[ \t]+\S[^\n]{0,200}|\*\*[^*\n]{1,120}\*\*:?")


class EvidencePiece(Struct, frozen=True):
    """A piece of a text."""

    shown: str
    """What is searched and judged: the piece itself, or a row or object with the names of its columns or fields."""
    start: int
    end: int
    """``text[start:end]`` is where it stands."""
    prose: bool = True
    """Whether `shown` is the text as it stands."""
    opinion: bool = False
    """Whether it is what a user says of something that is not their own: an answer may know better."""
    pasted: bool = False
    """Whether it is material in a user's or the system's message: a note, a list, a table, a quotation, a text."""


def is_heading(shown: str) -> bool:
    """Whether a piece is a heading in Markdown, for what follows it."""
    return _HEADING.fullmatch(shown) is not None


def limited(text: str, start: int, end: int) -> list[EvidencePiece]:
    """``text[start:end]`` without the white space around it, in pieces of at most `MAX_PIECE_CHARS`; none for white space."""
    found = []
    while True:
        inner = text[start:end]
        start += len(inner) - len(inner.lstrip())
        end = start + len(inner.strip())
        if end - start <= MAX_PIECE_CHARS:
            break
        stop = _break(text, start, start + MAX_PIECE_CHARS)
        shown = text[start:stop].rstrip()
        found.append(EvidencePiece(shown, start, start + len(shown)))
        start = stop
    return [*found, EvidencePiece(text[start:end], start, end)] if end > start else found


def _break(text: str, start: int, end: int) -> int:
    """Where to cut before `end`: behind the last good mark in the second half, or hard."""
    for mark in _BREAKS:
        at = text.rfind(mark, start + MAX_PIECE_CHARS // 2, end)
        if at >= 0:
            return at + len(mark)
    return end
