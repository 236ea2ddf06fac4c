"""BM25 over a few thousand short documents, with the coverage figures that a ranker needs beside it; and a short list by it for the first
question over tools of which nothing is known: which of them are worth a look before all are embedded.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009); the inverse document frequency is Lucene's, which
is never negative. Postings are one pair of arrays ordered by term, so that a query is a few slices and one count.

Of the short list (`shortlist`) come in the views of every tool with their rough vectors (`proxy.ports.Embedder.rough`), and go out the
tools that share most words with the question in turns with those whose rough vectors are nearest to it. Only these are embedded while
somebody waits, and ranked among each other as a catalogue of their own. Pure functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.models.tools.text import ToolText, terms

_K1, _B = 1.2, 0.75
"""The values that Lucene uses."""


class Match(Struct, frozen=True):
    """How a query matches every document; arrays of shape ``(documents,)``, float32."""

    bm25: NDArray[np.float32]
    coverage: NDArray[np.float32]
    """Share of the query's terms that the document has, weighted by inverse document frequency, 0 to 1."""
    covered: NDArray[np.float32]
    """Share of the document's distinct terms that the query has, weighted likewise, 0 to 1."""


class LexicalIndex:
    """An inverted index of documents that are lists of terms."""

    def __init__(self, documents: Sequence[Sequence[str]]) -> None:
        self._size = len(documents)
        lengths = np.array([len(document) for document in documents], np.float32)
        mean = max(1.0, float(lengths.mean())) if self._size else 1.0
        number: dict[str, int] = {}
        lists = [[number.setdefault(term, len(number)) for term in document] for document in documents]
        terms = np.fromiter(chain.from_iterable(lists), np.int64)
        owners = np.repeat(np.arange(self._size), lengths.astype(np.int64))
        pairs, counts = np.unique(terms * max(1, self._size) + owners, return_counts=True)
        self._rows, term_of = pairs % max(1, self._size), pairs // max(1, self._size)
        often = np.bincount(term_of, minlength=len(number))
        idf = [math.log(1 + (self._size - n + 0.5) / (n + 0.5)) for n in often.tolist()]
        rarity = np.array(idf, np.float64)[term_of]
        share = counts + _K1 * (1 - _B + _B * lengths[self._rows] / mean)
        self._weights = (rarity * counts * (_K1 + 1) / share).astype(np.float32)
        self._unknown = math.log(1 + (self._size + 0.5) / 0.5)
        ends = np.cumsum(often).tolist()
        self._slices = {term: (slice(end - n, end), one) for term, n, end, one in zip(number, often.tolist(), ends, idf, strict=True)}
        self._totals = np.bincount(self._rows, rarity, self._size).astype(np.float32) + np.float32(1e-6)

    def match(self, query: Iterable[str]) -> Match:
        """`query`'s terms against every document; a term counts once."""
        distinct = set(query)
        found = sorted((self._slices[term] for term in distinct if term in self._slices), key=lambda item: item[0].start)
        total = sum(idf for _, idf in found) + self._unknown * sum(term not in self._slices for term in distinct)
        shared = self._sum((idf, where) for where, idf in found)
        bm25 = np.zeros(self._size, np.float32)
        if found:
            rows = np.concatenate([self._rows[where] for where, _ in found])
            weights = np.concatenate([self._weights[where] for where, _ in found])
            bm25 = np.bincount(rows, weights, self._size).astype(np.float32)
        return Match(bm25, shared / np.float32(total + 1e-6), shared / self._totals)

    def _sum(self, parts: Iterable[tuple[float, slice]]) -> NDArray[np.float32]:
        """For each document the sum of the given values of its terms."""
        pairs = list(parts)
        if not pairs:
            return np.zeros(self._size, np.float32)
        rows = np.concatenate([self._rows[where] for _, where in pairs])
        values = np.repeat([value for value, _ in pairs], [where.stop - where.start for _, where in pairs])
        return np.bincount(rows, values, self._size).astype(np.float32)


Floats = NDArray[np.float32]

SHORTLIST = 48
"""Tools that are embedded first: a fifth of a second of one core at the most. Of 200 to 4,100 they hold 96 of 100 that are needed, half as
many 93; the whole index's first five hold 60 to 90 (`python -m benchmarks.tools`)."""


class NewTools(Struct, frozen=True):
    """What is known of a set of tools without the model."""

    texts: tuple[ToolText, ...]
    words: LexicalIndex
    rough: Floats
    """``(tools, any)``, of `rough_text`."""


def new_tools(texts: Sequence[ToolText], rough: Floats) -> NewTools:
    """Ready to be searched."""
    return NewTools(tuple(texts), LexicalIndex([text.terms for text in texts]), rough)


def rough_text(text: ToolText) -> str:
    """What of a tool is compared roughly."""
    return f"{text.name} {text.described}"


def shortlist(tools: NewTools, queries: Sequence[str], rough: Floats, most: int = SHORTLIST) -> list[int]:
    """At most `most` positions, ascending. `rough` is of the queries, of which each names as many."""
    orders = []
    for query, vector in zip(queries, rough, strict=True):
        matched = tools.words.match(terms(query)).bm25
        by_words = np.argsort(-matched, kind="stable")
        orders += [by_words[matched[by_words] > 0].tolist(), np.argsort(-(tools.rough @ vector), kind="stable").tolist()]
    found: dict[int, None] = {}
    for at in range(len(tools.texts)):
        for order in orders:
            if at < len(order) and len(found) < most:
                found.setdefault(order[at])
        if len(found) >= most:
            break
    return sorted(found)
