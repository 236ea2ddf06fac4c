"""Words that are found again: each place of an answer in which text may stand gets one of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator

WORD = re.compile(r"q[b-df-hj-np-tv-xz]{4}a")
"""As in ``qkrtba``: six letters that no other text has, without a figure that a sentence could be cut at."""
NUMBER = re.compile(r"(?<![0-9])8[0-9]{6}3(?![0-9])")
"""The same as a number, for what a client turns into text."""
_LETTERS = "bcdfghjklmnpqrstvwxz"


class Words:
    """Makes words, each once."""

    def __init__(self, start: int = 0) -> None:
        self._next = start

    def word(self) -> str:
        """The next one."""
        self._next += 1
        number, letters = self._next * 7919 % len(_LETTERS) ** 4, ""
        for _ in range(4):
            number, at = divmod(number, len(_LETTERS))
            letters += _LETTERS[at]
        return f"q{letters}a"

    def number(self) -> int:
        """The next one."""
        self._next += 1
        return 80000003 + 10 * self._next

    def sentence(self) -> str:
        """Of two words."""
        return f"The {self.word()} is {self.word()}."


def marks(text: str) -> Iterator[str]:
    """The words and numbers of this module in a text."""
    yield from WORD.findall(text)
    yield from NUMBER.findall(text)
