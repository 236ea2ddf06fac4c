"""The lexical side of a knowledge base: which facts have a term, in arrays that can be read from disk without being loaded.

Terms are those of grounding (`proxy.grounding.evidence.retrieval.terms`), named by a hash of 64 bits. A fact's score for a text is the
share of the text's terms that it has, weighted by inverse document frequency (Robertson and Spärck Jones 1976), 0 to 1. Function words,
and in a large base terms of more than a tenth of its facts, are left out unless a text has no others.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms

COMMON_SHARE = 0.1
LARGE = 10_000
"""Facts from which on common terms are left out."""
_MAX_TERMS = 64
"""Of one text: the rarest."""


class WordIndex(Struct, frozen=True):
    """An inverted index."""

    names: NDArray[np.uint64]
    """``(terms,)``: hashes, ascending."""
    starts: NDArray[np.int64]
    """``(terms + 1,)``: the facts of term i are ``rows[starts[i]:starts[i + 1]]``."""
    rows: NDArray[np.int32]
    size: int
    """Facts."""

    def coverage(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The facts that share a term with `text`, ascending, and how much of its terms each has, 0 to 1."""
        found, total = self._wanted(text)
        if not found:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        rows = np.concatenate([self.rows[start:end] for start, end, _ in found])
        weights = np.concatenate([np.full(end - start, weight, np.float32) for start, end, weight in found])
        distinct, inverse = np.unique(rows, return_inverse=True)
        shares = np.bincount(inverse, weights, len(distinct)) / total
        return distinct.astype(np.int64), np.minimum(1.0, shares).astype(np.float32)

    def _wanted(self, text: str) -> tuple[list[tuple[int, int, float]], float]:
        """Where the facts of each term stand, with its weight; and the weight of all terms, of those that no fact has, too."""
        said = set(terms(text))
        known = [(self._place(term), term) for term in sorted(said - FUNCTION_WORDS or said)]
        weighed = [(start, end, self._weight(end - start)) for (start, end), _ in known]
        total = sum(weight for _, _, weight in weighed)
        there = sorted((item for item in weighed if item[1] > item[0]), key=lambda item: (item[1] - item[0], item[0]))[:_MAX_TERMS]
        rare = [item for item in there if self.size < LARGE or item[1] - item[0] <= COMMON_SHARE * self.size]
        return rare or there[:1], total or 1.0

    def _place(self, term: str) -> tuple[int, int]:
        name = np.uint64(term_name(term))
        i = int(np.searchsorted(self.names, name))
        if i == len(self.names) or self.names[i] != name:
            return 0, 0
        return int(self.starts[i]), int(self.starts[i + 1])

    def _weight(self, facts: int) -> float:
        return math.log(1 + (self.size - facts + 0.5) / (facts + 0.5))


class WordsBuilder:
    """Takes facts one after another."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._terms, self._rows = array("i"), array("i")
        self._size = 0

    def add(self, text: str) -> None:
        """The next fact's text."""
        for term in set(terms(text)):
            self._terms.append(self._ids.setdefault(term, len(self._ids)))
            self._rows.append(self._size)
        self._size += 1

    def build(self) -> WordIndex:
        """The index."""
        names = np.fromiter(map(term_name, self._ids), np.uint64, len(self._ids))
        order = np.argsort(names, kind="stable")
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        term_of = place[np.frombuffer(self._terms, np.int32)] if self._terms else np.zeros(0, np.int32)
        rows = np.frombuffer(self._rows, np.int32) if self._rows else np.zeros(0, np.int32)
        starts = np.zeros(len(order) + 1, np.int64)
        np.cumsum(np.bincount(term_of, minlength=len(order)), out=starts[1:])
        return WordIndex(names[order], starts, rows[np.argsort(term_of, kind="stable")], self._size)


def term_name(term: str) -> int:
    """A term's hash of 64 bits: among ten million terms two share one once in 370,000 times."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=8).digest(), "little")


def best(rows: NDArray[np.int64], scores: NDArray[np.float32], most: int) -> NDArray[np.int64]:
    """The `most` rows of the highest scores, the earlier of equals first."""
    if len(rows) > most:
        floor = np.partition(scores, len(scores) - most)[len(scores) - most]
        kept = scores >= floor
        rows, scores = rows[kept], scores[kept]
    order: NDArray[np.int64] = rows[np.lexsort((rows, -scores))][:most]
    return order


def value_at(rows: NDArray[np.int64], values: NDArray[np.float32], wanted: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
    """The values of the rows `wanted`, 0 for those that are not in `rows` (ascending)."""
    asked = np.asarray(wanted, np.int64)
    if not len(rows):
        return np.zeros(len(asked), np.float32)
    at = np.minimum(np.searchsorted(rows, asked), len(rows) - 1)
    found: NDArray[np.float32] = np.where(rows[at] == asked, values[at], np.float32(0))
    return found
