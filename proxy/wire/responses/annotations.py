"""Annotations of a text that was changed: where they point now.

In: an annotation of the API (``url_citation``, ``file_citation``, …) whose offsets count characters of the old text. Out: the same with
those of the new one, or None where what it pointed at is gone. What did not change is told sentence by sentence.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from functools import lru_cache
from typing import Any

from proxy.language.text import split_sentences

_MOST_SENTENCES = 2000
"""Beyond, what lies between the first and the last change counts as changed: the comparison is quadratic at worst."""
Span = tuple[int, int, int]
"""Begin and end in the old text, begin in the new one."""


def moved(annotation: Any, old: str, new: str) -> Any:
    """The annotation of `old` as one of `new`; None where its words have been changed."""
    if not isinstance(annotation, dict):
        return annotation
    start, end, index = (annotation.get(name) for name in ("start_index", "end_index", "index"))
    if isinstance(start, int) and isinstance(end, int):
        span = next((span for span in kept(old, new) if span[0] <= start and end <= span[1]), None)
        if span is None:
            return None
        by = span[2] - span[0]
        return {**annotation, "start_index": start + by, "end_index": end + by}
    if isinstance(index, int) and "filename" in annotation:
        return {**annotation, "index": _place(index, old, new)}
    return annotation


def _place(index: int, old: str, new: str) -> int:
    """A single character's place; where that is gone, the end of what stands before it."""
    before = 0
    for begin, end, start in kept(old, new):
        if begin <= index <= end:
            return start + index - begin
        if end < index:
            before = start + end - begin
    return before


@lru_cache(maxsize=8)
def kept(old: str, new: str) -> tuple[Span, ...]:
    """What of `old` stands in `new` as it was, in order."""
    one, other = split_sentences(old), split_sentences(new)
    if max(len(one), len(other)) > _MOST_SENTENCES:
        return _ends(old, new)
    found: list[Span] = []
    at, start, here, there = 0, 0, 0, 0
    for a, b, size in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks():
        at, here = at + sum(map(len, one[here:a])), a
        start, there = start + sum(map(len, other[there:b])), b
        length = sum(map(len, one[a : a + size]))
        if length:
            found.append((at, at + length, start))
    return tuple(_joined(found))


def _joined(spans: list[Span]) -> list[Span]:
    out: list[Span] = []
    for begin, end, start in spans:
        if out and out[-1][1] == begin and out[-1][2] + out[-1][1] - out[-1][0] == start:
            out[-1] = (out[-1][0], end, out[-1][2])
        else:
            out.append((begin, end, start))
    return out


def _ends(old: str, new: str) -> tuple[Span, ...]:
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    tail = next((i for i in range(shorter - head) if old[-1 - i] != new[-1 - i]), shorter - head)
    return ((0, head, 0), (len(old) - tail, len(old), len(new) - tail))
