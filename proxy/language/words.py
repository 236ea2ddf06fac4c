"""The words of a question: which of them say what it is about, and how much of them a passage has. No stemming, so that any language works.

Words that say nothing stand in ``stop_words.toml``, in English, German, Spanish and French, folded.

A word counts as found when it stands in the passage, and in part when its character 4-grams do ("Bevölkerungszahl" in a passage that
says "Bevölkerung"): by the square of the share found, so that chance hits count little. Chinese and Japanese are compared by pairs of
characters. All words weigh the same: weights by length, and by rarity within so few passages, told no more on the training half.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from proxy.language.text import fold

_READ = tomllib.loads(Path(__file__).with_name("stop_words.toml").read_text(encoding="utf-8"))
_LISTS = {name: frozenset(words.split()) for name, words in _READ.items()}
FUNCTION_WORDS = _LISTS["function_words"]
"""Skipped when a question's words are looked for in a passage."""
SUMMARY_FUNCTION_WORDS = _LISTS["summary_function_words"]
"""Left out where sentences are picked for a summary."""
CJK_FUNCTION_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊哪里些什么谁多少几为何怎样如把被从到对也都而着过这那有个請请")
"""Chinese characters that mostly carry grammar; a pair of characters with one of them is not looked for."""
THANKS = _LISTS["thanks"]
"""A message of these and function words alone asks nothing of the passages; with a question mark, in mid-conversation, it may go on."""
INSTRUCTIONS = _LISTS["instructions"]
"""A message that holds one of these, and beside it only `INSTRUCTION_OBJECTS`, is about the text at hand, not about its subject."""
INSTRUCTION_OBJECTS = _LISTS["instruction_objects"]
POINTERS = _LISTS["pointers"]
"""Words by which a question points back at what was said before."""
OPENERS = _LISTS["openers"]
"""A question that starts with one of these goes on from the one before."""
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(r"[\u3400-\u9fff\uf900-\ufaff\u30a0-\u30ff\uac00-\ud7af]+")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
_GRAM = 4
_SHORTEST_IN_PART = 4
"""A shorter word is found whole or not at all."""


def words(text: str) -> list[str]:
    """Folded words in order; a run of Chinese or Japanese characters as overlapping pairs."""
    found: list[str] = []
    for word in _WORD.findall(fold(text)):
        if word.isascii() or not (_CJK.search(word) or _HIRAGANA.search(word)):
            found.append(word)
        else:
            found += (pair for run in _CJK.findall(word) for pair in _pairs(run))
    return found


def content_words(text: str) -> tuple[str, ...]:
    """The words that say what a text is about, each once, in order; single letters are left out."""
    return tuple(dict.fromkeys(word for word in words(text) if not _empty(word)))


def _empty(word: str) -> bool:
    if _CJK.match(word):
        return not CJK_FUNCTION_CHARACTERS.isdisjoint(word)
    return word in FUNCTION_WORDS or (len(word) == 1 and not word.isdigit())


def _pairs(run: str) -> Iterable[str]:
    return (run[i : i + 2] for i in range(max(1, len(run) - 1)))


@lru_cache(maxsize=20_000)
def _grams(word: str) -> frozenset[str]:
    marked = "^" + word
    return frozenset(marked[i : i + _GRAM] for i in range(max(1, len(marked) - _GRAM + 1)))


class Vocabulary:
    """A passage's words and their 4-grams."""

    __slots__ = ("_grams", "_words")

    def __init__(self, text: str) -> None:
        self._words = frozenset(words(text))
        self._grams: frozenset[str] | None = None

    def coverage(self, wanted: Iterable[str]) -> float:
        """Mean share of each of `wanted` (from `content_words`) that is found here, 0 to 1; 0 when there are none."""
        found = [self._share(word) for word in wanted]
        return sum(found) / len(found) if found else 0.0

    def _share(self, word: str) -> float:
        if word in self._words:
            return 1.0
        if len(word) < _SHORTEST_IN_PART or word.isdigit():
            return 0.0
        if self._grams is None:
            self._grams = frozenset().union(*map(_grams, self._words))
        wanted = _grams(word)
        share: float = len(wanted & self._grams) / len(wanted)
        return share * share
