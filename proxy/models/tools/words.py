"""Words compared one by one by their embeddings, so that "place to stay" finds a tool for hotels and "Licht" one for lights.

After ColBERT's late interaction (Khattab and Zaharia 2020) with vectors of single words: a tool covers a word of the query as well as the
most alike of its own words does, and a query as well as it covers its words, the rare ones counting more. How rare a word is follows
from all words of the catalogue that are like it, so that it is known for words, and languages, that no tool uses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_SHARPNESS = 8
"""Power of the similarity that says whether two words are one for their rarity: 0.9 counts 0.43, 0.5 next to nothing."""


def vocabulary(documents: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """All words, each once, in order."""
    return tuple(dict.fromkeys(word for document in documents for word in document))


class WordIndex:
    """Documents that are lists of words out of one vocabulary."""

    def __init__(self, documents: Sequence[Sequence[str]], words: Sequence[str]) -> None:
        """`words` are at least the documents' `vocabulary`."""
        position = {word: i for i, word in enumerate(words)}
        held = [sorted({position[word] for word in document}) for document in documents]
        self._filled = np.array([i for i, found in enumerate(held) if found], np.int64)
        self._starts = np.cumsum([0, *(len(found) for found in held if found)])[:-1]
        self._rows = np.array([i for found in held for i in found], np.int64)
        self._size = len(documents)
        self._frequency = np.bincount(self._rows, minlength=len(words)).astype(np.float32)

    def cover(self, alike: Floats) -> Floats:
        """How well each document covers each word of a query: ``(w, documents)``, 0 to 1. `alike` is ``(w, len(words))``, cosines."""
        found = np.zeros((len(alike), self._size), np.float32)
        if len(self._rows) and len(alike):
            found[:, self._filled] = np.maximum.reduceat(np.square(np.maximum(alike, 0))[:, self._rows], self._starts, axis=1)
        return found

    def rarity(self, alike: Floats) -> Floats:
        """Of the query's words, ``(w,)``: the logarithm of how many documents there are to each that has a word like it."""
        found: Floats = np.log1p(self._size / (1 + np.maximum(alike, 0) ** _SHARPNESS @ self._frequency)).astype(np.float32)
        return found


def coverage(cover: Floats, rarity: Floats) -> Floats:
    """Of the whole query: the mean over its words by their rarity, ``(documents,)``; 0 for a query without words."""
    total = float(rarity.sum())
    found: Floats = rarity @ cover / np.float32(total) if total > 0 else np.zeros(cover.shape[1], np.float32)
    return found
