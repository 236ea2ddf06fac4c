"""Where the first letters of many words and phrases stand in a text, all found in one pass.

In: hints, the beginnings of words or plain marks, and a text. Out: for groups of hints the stretches of text that are worth a closer look.
A regular expression that is tried only there costs nothing in ordinary text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

AROUND = 320
"""How far from a hint a phrase may begin or end."""
STEP = 100
"""Of a hint's places one in so many characters is kept: the windows around them meet all the same."""

Window = tuple[int, int]


class PhraseHints:
    """Hints that can be looked for together. Those that begin with a letter stand only at the beginning of a word."""

    def __init__(self, hints: Iterable[str], also: Mapping[str, re.Pattern[str]]) -> None:
        """`also` are hints that a pattern finds."""
        every = sorted(set(hints) - set(also))
        words = [hint for hint in every if hint[0].isalnum()]
        self._also = also
        self._marks = [hint for hint in every if not hint[0].isalnum()]
        self._words = re.compile(rf"(?<![^\W_])(?=({_alternatives(words)}))")
        self._prefixes = {word: tuple(w for w in words if word.startswith(w)) for word in words}

    def places(self, text: str) -> dict[str, list[int]]:
        """Where each hint stands, ascending, thinned out by `STEP`."""
        found: dict[str, list[int]] = {}
        for match in self._words.finditer(text):
            at = match.start()
            for hint in self._prefixes[match[1]]:
                places = found.setdefault(hint, [])
                if not places or at >= places[-1] + STEP:
                    places.append(at)
        for mark in self._marks:
            if places := _all(text, mark):
                found[mark] = places
        for name, pattern in self._also.items():
            if places := [match.start() for match in pattern.finditer(text)]:
                found[name] = places
        return found


def windows(places: Mapping[str, Sequence[int]], groups: Sequence[Sequence[str]], length: int) -> list[Window]:
    """The stretches of a text of `length` characters around a hint of the first group that hold one of each other group, too."""
    found = _merged(sorted(at for hint in groups[0] for at in places.get(hint, ())), length)
    for group in groups[1:]:
        if not found:
            break
        others = [places[hint] for hint in group if hint in places]
        found = [window for window in found if any(_has(some, window) for some in others)]
    return found


def _has(places: Sequence[int], window: Window) -> bool:
    i = bisect_left(places, window[0])
    return i < len(places) and places[i] < window[1]


def _merged(places: Sequence[int], length: int) -> list[Window]:
    found: list[Window] = []
    for at in places:
        start, end = max(0, at - AROUND), min(length, at + AROUND)
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _all(text: str, mark: str) -> list[int]:
    found, at = list[int](), text.find(mark)
    while at >= 0:
        found.append(at)
        at = text.find(mark, at + STEP)
    return found


def _pattern(words: tuple[str, ...]) -> str:
    """The words as a tree: at each place their common beginnings are read once, and the longest word wins."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[:1], []).append(word[1:])
    optional = "" in by_first
    branches = [re.escape(first) + _pattern(tuple(rest)) for first, rest in sorted(by_first.items()) if first]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if optional else ''}"


def _alternatives(words: Sequence[str]) -> str:
    return _pattern(tuple(words)) or r"(?!)"
