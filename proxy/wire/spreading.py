"""A text that stands in several parts of an answer, and was changed as a whole: what each part says now.

In: the parts' texts and the text that is to stand in them. Out: as many texts, which joined are the new one. Sentences that were not
changed stay in their parts to the character; of one that was, what is new stands where the first changed character stood.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from proxy.language.text import SentenceSplitter


def spread(parts: Sequence[str], text: str) -> list[str]:
    """`text` over as many parts; time is quadratic in the number of sentences at worst."""
    if len(parts) == 1:
        return [text]
    old, new = _sentences("".join(parts)), _sentences(text)
    spreading, at = _Spreading(parts), 0
    for _, begin, end, start, stop in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        before, after = "".join(old[begin:end]), "".join(new[start:stop])
        spreading.put(at, before, after)
        at += len(before)
    return ["".join(pieces) for pieces in spreading.found]


class _Spreading:
    """Puts pieces of the new text where those of the old one stood."""

    def __init__(self, parts: Sequence[str]) -> None:
        self._ends = list(accumulate(len(part) for part in parts))
        self.found: list[list[str]] = [[] for _ in parts]

    def put(self, at: int, before: str, after: str) -> None:
        """`after` in place of `before`, which stood at character `at`."""
        head = _common(before, after)
        tail = _common(before[head:][::-1], after[head:][::-1])
        while tail and not before[len(before) - tail].isspace():  # the last letters of two words that only end alike
            tail -= 1
        self._keep(at, before[:head])
        changed_end = len(before) - tail
        if middle := after[head : len(after) - tail]:
            place = at + head if head < changed_end else max(at, at + head - 1)
            self.found[self._part(place)].append(middle)
        self._keep(at + changed_end, before[changed_end:])

    def _keep(self, at: int, text: str) -> None:
        while text:
            part = self._part(at)
            length = max(1, self._ends[part] - at)
            self.found[part].append(text[:length])
            at, text = at + length, text[length:]

    def _part(self, at: int) -> int:
        """Which part character `at` is in; the last one for what stands behind all of them."""
        return min(bisect_right(self._ends, at), len(self._ends) - 1)


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _sentences(text: str) -> list[str]:
    splitter = SentenceSplitter()
    return [piece for piece in (*splitter.feed(text), splitter.flush()) if piece]
