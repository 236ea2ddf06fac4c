"""Which pieces of a text stand in another that was made of it, by taking words out and putting words in. Pure functions.

Compared with `difflib` (Ratcliff and Obershelp): sentences without their marks of citation, then the words of each pair of sentences, and
those of what stands between the pairs on both sides.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

_MAX_SENTENCES, _MAX_STEPS = 4000, 1_000_000
"""Of a text, and of one comparison of words (those of the one side times those of the other): some tenths of a second at worst."""
_WORDS, _SENTENCES = re.compile(r"\w+|\s+|[^\w\s]"), re.compile(r"[^.!?。！？\n]*[.!?。！？\n]+\s*|[^.!?。！？\n]+$")
_BRACKETS, _NO_LETTERS = re.compile(r"\[[^\]\n]*\]"), re.compile(r"\W+")
_MIN_SHARED = 0.9
"""Of a piece's letters outside brackets that must have been kept; another sentence in its place may share most of its words."""
Run = tuple[int, int, int]
"""``[start, end)`` of the first text, and where it begins in the second."""


def shared_runs(before: str, after: str) -> list[Run]:
    """The pieces of `before` that stand in `after`, in order."""
    found: list[Run] = []
    reached = 0
    for start, end, at in _matches(before, after):
        if found and (found[-1][1], reached) == (start, at):
            found[-1] = (found[-1][0], end, found[-1][2])
        elif start < end and (at == reached or any(map(str.isalnum, before[start:end]))):  # signs alone only behind what they belong to
            found.append((start, end, at))
        else:
            continue
        reached = at + end - start
    return found


def moved(before: str, start: int, end: int, runs: Sequence[Run]) -> tuple[int, int] | None:
    """Where ``before[start:end]`` stands in the text that the `runs` are shared with; None where it does not."""
    parts = [(max(start, first), min(end, last), at - first) for first, last, at in runs if first < end and start < last]
    kept = sum(len(_letters(before[first:last])) for first, last, _ in parts)
    if not parts or kept < _MIN_SHARED * len(_letters(before[start:end])):
        return None
    return parts[0][0] + parts[0][2], parts[-1][1] + parts[-1][2]


def _letters(text: str) -> str:
    """What stays the same where marks of citation are taken out."""
    return _NO_LETTERS.sub("", _BRACKETS.sub("", text))


def _matches(before: str, after: str) -> Iterator[Run]:
    ours, theirs = _SENTENCES.findall(before), _SENTENCES.findall(after)
    if max(len(ours), len(theirs)) > _MAX_SENTENCES:
        return
    starts, starts_after = _starts(ours), _starts(theirs)
    compared = difflib.SequenceMatcher(None, list(map(_letters, ours)), list(map(_letters, theirs)))
    for tag, i1, i2, j1, j2 in compared.get_opcodes():
        pairs = [(i, i + 1, j, j + 1) for i, j in zip(range(i1, i2), range(j1, j2), strict=True)] if tag == "equal" else [(i1, i2, j1, j2)]
        for first, last, other, other_last in pairs:
            found = _by_words("".join(ours[first:last]), "".join(theirs[other:other_last]))
            yield from ((starts[first] + start, starts[first] + end, starts_after[other] + at) for start, end, at in found)


def _by_words(before: str, after: str) -> list[Run]:
    if before == after:
        return [(0, len(before), 0)]
    ours, theirs = _WORDS.findall(before), _WORDS.findall(after)
    if len(ours) * len(theirs) > _MAX_STEPS:
        return []
    starts, starts_after = _starts(ours), _starts(theirs)
    blocks = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    return [(starts[i], starts[i + size], starts_after[j]) for i, j, size in blocks]


def _starts(pieces: Sequence[str]) -> list[int]:
    """Where each begins, and the last ends."""
    found = [0]
    for piece in pieces:
        found.append(found[-1] + len(piece))
    return found
