"""A set of tools, ready to be searched: FAISS over descriptions, BM25 over words, and the features that relevance is made of.

In: the views of every tool (`proxy.models.tools.text`) with their vectors, and a query with its own. Out: for the few tools that
any search brings up, one row of features each; every other tool is not relevant. A tool's features tell of its family, too: the
tools of one server, or whose names begin alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import faiss
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.models.tools.lexical import LexicalIndex
from proxy.models.tools.text import ToolText, content_words, query_words, segments, spaced, terms
from proxy.models.tools.words import WordIndex, coverage, vocabulary

Floats = NDArray[np.float32]

faiss.omp_set_num_threads(1)  # a search takes less than waking threads does, and they would compete with the requests'

NEAREST = 128
"""Tools that the vector search brings up for the whole query; as many as matter for any `top_k` that shortens a prompt."""
NEAREST_TO_SEGMENT = 16
BEST_BY_WORDS = 64
BEST_BY_LIKE_WORDS = 32
FEATURES = (
    "cosine_name",
    "cosine_description",
    "cosine_best_segment",
    "behind_best_of_segment",
    "behind_best_description",
    "behind_best_name",
    "cosine_standardised",
    "log_rank_by_cosine",
    "bm25_share_of_best",
    "log_bm25",
    "query_coverage",
    "name_coverage_of_query",
    "name_covered",
    "log_rank_by_bm25",
    "best_cosine",
    "any_word_matches",
    "log_query_terms",
    "log_tools",
    "cover",
    "behind_best_cover",
    "log_rank_by_cover",
    "cover_of_best_segment",
    "behind_best_cover_of_segment",
    "cover_by_name",
    "best_covered_word",
    "cover_by_family_name",
    "cosine_of_family",
    "family_behind_best_family",
    "cosine_behind_best_of_family",
    "log_family_size",
)


class Query(Struct, frozen=True):
    """A query with its vectors: ``(d,)`` of the whole, ``(s, d)`` of its segments, ``(w, d)`` of its words."""

    text: str
    vector: Floats
    segments: Floats
    words: Floats
    words_of_segments: tuple[tuple[int, ...], ...] = ()
    """For each segment the positions of its words."""


class QueryParts(NamedTuple):
    """What of a query is embedded beside the whole."""

    segments: list[str]
    words: tuple[str, ...]
    words_of_segments: tuple[tuple[int, ...], ...]


def parts_of(text: str) -> QueryParts:
    """A query's segments and words."""
    words, pieces = query_words(text), segments(text)
    position = {word: i for i, word in enumerate(words)}
    return QueryParts(pieces, words, tuple(tuple(position[w] for w in content_words(p) if w in position) for p in pieces))


class ToolVectors(NamedTuple):
    """Unit length: ``(tools, d)`` of names and of descriptions, ``(words, d)`` of the `vocabulary_of` the tools."""

    names: Floats
    descriptions: Floats
    words: Floats


def vocabulary_of(tools: Sequence[ToolText]) -> tuple[str, ...]:
    """All words that are compared one by one."""
    return vocabulary([*(tool.words for tool in tools), *(_family_words(tool.family) for tool in tools)])


def _family_words(family: str) -> tuple[str, ...]:
    return content_words(spaced(family))


class ToolIndex:
    """An index of a distinct set of tools. Immutable once made."""

    def __init__(self, tools: Sequence[ToolText], vectors: ToolVectors) -> None:
        self.tools = tuple(tools)
        self.keys = tuple(tool.key for tool in tools)
        self.descriptions = vectors.descriptions
        self._names = vectors.names
        self._nearest = faiss.IndexFlatIP(vectors.descriptions.shape[1])
        self._nearest.add(vectors.descriptions)
        self._words = LexicalIndex([tool.terms for tool in tools])
        self._name_words = LexicalIndex([tool.name_terms for tool in tools])
        known = vocabulary_of(tools)
        self._vocabulary = np.ascontiguousarray(vectors.words.T)
        self._like_words = WordIndex([tool.words for tool in tools], known)
        self._like_name_words = WordIndex([content_words(tool.name) for tool in tools], known)
        families = {family: i for i, family in enumerate(dict.fromkeys(tool.family for tool in tools))}
        self._family = np.array([families[tool.family] for tool in tools], np.int64)
        self._family_size = np.bincount(self._family, minlength=len(families)).astype(np.float32)
        self._like_family_words = WordIndex([_family_words(family) for family in families], known)

    def features(self, query: Query) -> tuple[NDArray[np.int64], Floats]:
        """Positions of the candidates, ascending, and their features ``(candidates, len(FEATURES))``."""
        words = terms(query.text)
        match, name_match = self._words.match(words), self._name_words.match(words)
        scores, positions = self._search(query.vector[None], NEAREST)
        best_of_segment, by_segment = np.zeros(0, np.float32), np.zeros(0, np.int64)
        if len(query.segments):
            segment_scores, segment_positions = self._search(query.segments, NEAREST_TO_SEGMENT)
            best_of_segment, by_segment = segment_scores[:, 0], segment_positions.ravel()
        covers = self._covers(query)
        by_words = np.argsort(-match.bm25, kind="stable")[:BEST_BY_WORDS]
        by_cover = np.argsort(-covers.best, kind="stable")[:BEST_BY_LIKE_WORDS]
        found = positions[0], by_segment, by_words[match.bm25[by_words] > 0], by_cover[covers.best[by_cover] > 0]
        candidates = np.unique(np.concatenate(found))

        described, named = self.descriptions[candidates] @ query.vector, self._names[candidates] @ query.vector
        if len(query.segments):
            to_segments = self.descriptions[candidates] @ query.segments.T
            best, behind = to_segments.max(axis=1), (to_segments - best_of_segment).max(axis=1)
        else:
            best, behind = described, described - scores[0, 0]
        bm25 = match.bm25[candidates]
        columns = (
            named,
            described,
            best,
            behind,
            described - scores[0, 0],
            named - named.max(),
            (described - scores.mean()) / (scores.std() + 1e-3),
            np.log1p(_ranks(described)),
            bm25 / (match.bm25.max() + 1e-6),
            np.log1p(bm25),
            match.coverage[candidates],
            name_match.coverage[candidates],
            name_match.covered[candidates],
            np.log1p(_ranks(bm25)),
            np.full(len(candidates), scores[0, 0]),
            np.full(len(candidates), float(match.bm25.max() > 0)),
            np.full(len(candidates), np.log1p(len(words))),
            np.full(len(candidates), np.log(len(self.tools))),
            *covers.columns(candidates),
            *self._of_family(candidates, described),
        )
        return candidates, np.stack(columns, axis=1).astype(np.float32)

    def _covers(self, query: Query) -> _Covers:
        """How well every tool covers the query's words, and those of its segments."""
        alike = query.words @ self._vocabulary
        cover, rarity = self._like_words.cover(alike), self._like_words.rarity(alike)
        whole = coverage(cover, rarity)
        parts = [coverage(cover[list(part)], rarity[list(part)]) for part in query.words_of_segments if part]
        strongest = (cover * (rarity / (rarity.max() + 1e-6))[:, None]).max(axis=0) if len(cover) else whole
        by_family = self._like_family_words.cover(alike).max(axis=0, initial=0)[self._family]
        return _Covers(whole, np.stack(parts or [whole]), coverage(self._like_name_words.cover(alike), rarity), strongest, by_family)

    def _of_family(self, candidates: NDArray[np.int64], described: Floats) -> tuple[Floats, ...]:
        """Columns about the candidates' families."""
        family = self._family[candidates]
        best = np.full(len(self._family_size), -1, np.float32)
        np.maximum.at(best, family, described)
        return best[family], best[family] - best.max(), described - best[family], np.log(self._family_size[family])

    def _search(self, vectors: Floats, limit: int) -> tuple[Floats, NDArray[np.int64]]:
        """Inner products and positions of the nearest descriptions, best first: ``(len(vectors), limit)``."""
        found: tuple[Floats, NDArray[np.int64]] = self._nearest.search(np.ascontiguousarray(vectors), min(limit, len(self.tools)))
        return found


class _Covers(NamedTuple):
    """For every tool, 0 to 1."""

    whole: Floats
    segments: Floats
    """``(segments, tools)``"""
    by_name: Floats
    strongest: Floats
    """Of one word, the rarer the more."""
    by_family: Floats
    """Of the word that is most like the family's name."""

    @property
    def best(self) -> Floats:
        """Of the query or of any segment."""
        found: Floats = np.maximum(self.whole, self.segments.max(axis=0))
        return found

    def columns(self, candidates: NDArray[np.int64]) -> tuple[Floats, ...]:
        """The candidates' features."""
        whole, parts = self.whole[candidates], self.segments[:, candidates]
        return (
            whole,
            whole - self.whole.max(),
            np.log1p(_ranks(whole)).astype(np.float32),
            parts.max(axis=0),
            (parts - self.segments.max(axis=1, keepdims=True)).max(axis=0),
            self.by_name[candidates],
            self.strongest[candidates],
            self.by_family[candidates],
        )


def _ranks(values: Floats) -> NDArray[np.int64]:
    """0 for the highest; ties in order."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks
