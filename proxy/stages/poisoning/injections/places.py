"""Where the first letters of many words and phrases stand in a text, all found in one pass.

In: hints, the beginnings of words or plain marks, and a text. Out: for groups of hints the stretches of text that are worth a closer look.
A regular expression that is tried only there costs nothing in ordinary text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from proxy.offloop import each

AROUND = 320
"""How far from a hint a phrase may begin or end."""
STEP = 100
"""Of a hint's places one in so many characters is kept: the windows around them meet all the same."""

Window = tuple[int, int]


MANY = 40
"""More hints than this are looked for together, so that a text full of them costs no more than a few passes over it."""
MAX_KNOWN = 20_000
"""Words of texts whose hints are remembered, 2 MB of ordinary ones: a text costs its cut at white space, and the words that are new."""
MAX_WORD_CHARS = 64
"""Longer words are not remembered."""
_LONG_CHARS = 2000


class PhraseHints:
    """Hints that can be looked for together. Those that begin with a letter stand only at the beginning of a word."""

    def __init__(self, hints: Iterable[str], also: Mapping[str, tuple[re.Pattern[str] | None, str]]) -> None:
        """`also` are hints that a pattern finds, each with the pattern of a word, no white space in it, of which one stands in whatever it
        matches. Without the first it has no places, and is only told to be there or not.
        """
        every = sorted(set(hints) - set(also))
        self._also = {name: pattern for name, (pattern, _) in also.items()}
        self._also_words = [(name, re.compile(word)) for name, (_, word) in also.items()]
        self._words = _Parts([hint for hint in every if hint.split()[0][0].isalnum()], r"(?<![^\W_])")
        self._marks = _Parts([hint for hint in every if not hint.split()[0][0].isalnum()], "")
        self._any = re.compile(
            "|".join([self._words.pattern.pattern, self._marks.pattern.pattern, *(word for _, word in also.values())])
        ).search
        self._plain: set[str] = set()
        self._known: dict[str, frozenset[str]] = {}

    def present(self, text: str) -> set[str]:
        """The hints that stand in `text`, and perhaps some of which only a word does."""
        new = {piece for word in text.split() for piece in _pieces(word)}.difference(self._plain)
        found: set[str] = set()
        plain: list[str] = []
        for word in each(new):
            hints = self._known.get(word)
            if hints is None:
                hints = self._of_word(word)
                if not hints:
                    plain.append(word)
                elif len(word) <= MAX_WORD_CHARS:
                    self._known[word] = hints
            found |= hints
        if plain:
            self._plain.update(word for word in plain if len(word) <= MAX_WORD_CHARS)
        if len(self._plain) + len(self._known) > MAX_KNOWN:
            self._plain, self._known = set(), {}
        return found

    def _of_word(self, word: str) -> frozenset[str]:
        if self._any(word) is None:
            return frozenset()
        found = {name for parts in (self._words, self._marks) for _, names in parts.of(word) for name in names}
        return frozenset(found.union(name for name, pattern in self._also_words if pattern.search(word) is not None))

    def places(self, text: str, hints: Collection[str]) -> dict[str, list[int]]:
        """Where each of `hints` stands, ascending, thinned out by `STEP`."""
        found: dict[str, list[int]] = {}
        together = {hint for hint in hints if hint[0].isalnum() and hint not in self._also} if len(hints) > MANY else set[str]()
        for at, some in self._words.of(text) if together else ():
            for hint in together.intersection(some):
                start = at - hint.find(_telling(hint))
                places = found.setdefault(hint, [])
                if _begins(text, hint, start) and (not places or start >= places[-1] + STEP):
                    places.append(start)
        for hint in hints:
            if hint not in together and (places := self._places(text, hint)):
                found[hint] = places
        return {hint: places for hint, places in found.items() if places}

    def _places(self, text: str, hint: str) -> list[int]:
        if hint in self._also:
            pattern = self._also[hint]
            return [match.start() for match in pattern.finditer(text)] if pattern is not None else []
        return _all(text, hint)


def _pieces(word: str) -> Iterator[str]:
    """Of a word that is longer than any: pieces that overlap by more than a hint's word, so that none is looked through for long."""
    if len(word) <= _LONG_CHARS:
        yield word
        return
    for start in range(0, len(word), _LONG_CHARS):
        yield word[start : start + _LONG_CHARS + MAX_WORD_CHARS]


class _Parts:
    """The most telling words of hints, and which hints have each."""

    def __init__(self, hints: Sequence[str], behind: str) -> None:
        """`behind` is a pattern of what a hint has before it."""
        begun: dict[str, list[str]] = {}
        for hint in hints:
            begun.setdefault(_telling(hint), []).append(hint)
        self.pattern = re.compile(rf"{behind}(?=({_alternatives(tuple(begun))}))")
        self._names = {part: tuple(hint for p, some in begun.items() if part.startswith(p) for hint in some) for part in begun}

    def of(self, text: str) -> Iterator[tuple[int, Sequence[str]]]:
        """The places of parts in `text`, and the hints that may stand there."""
        for match in self.pattern.finditer(text):
            yield match.start(), self._names[match[1]]


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


def _telling(hint: str) -> str:
    """The longest word of a hint of several."""
    return max(hint.split(), key=len)


def _begins(text: str, hint: str, at: int) -> bool:
    return at >= 0 and text.startswith(hint, at) and not (at and hint[0].isalnum() and text[at - 1].isalnum())


def _all(text: str, hint: str) -> list[int]:
    found, at = list[int](), text.find(hint)
    while at >= 0:
        begins = _begins(text, hint, at)
        if begins:
            found.append(at)
        at = text.find(hint, at + (STEP if begins else 1))
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


def _alternatives(words: tuple[str, ...]) -> str:
    return _pattern(words) or r"(?!)"
