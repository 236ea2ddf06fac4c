"""Whether a text has one of some words, of which it is remembered which are none: a text costs its cut at white space, and what is new."""

from __future__ import annotations

from collections.abc import Callable

MAX_KNOWN = 20_000
"""Words that are remembered, some 2 MB."""
MAX_WORD_CHARS = 64
"""Longer ones are not remembered."""


class TellingWords:
    """Words, cut at white space, that `tells` is true of. Threads may share it: at worst a word is looked at again."""

    def __init__(self, tells: Callable[[str], bool]) -> None:
        self._tells = tells
        self._plain: set[str] = set()
        self._telling: set[str] = set()

    def any_in(self, text: str) -> bool:
        """Whether one of them stands in `text`."""
        words = set(text.split()).difference(self._plain)
        if not words or not self._telling.isdisjoint(words):
            return bool(words)
        if len(self._plain) + len(self._telling) > MAX_KNOWN:
            self._plain, self._telling = set(), set()
        for word in words:
            telling = self._tells(word)
            if len(word) <= MAX_WORD_CHARS:
                (self._telling if telling else self._plain).add(word)
            if telling:
                return True
        return False
