"""A set of tools, ready to be searched: FAISS over descriptions, BM25 over words, and the features that relevance is made of.

In: the views of every tool (`proxy.models.tools.text`) with their vectors, and a query with its own. Out: for the few tools that
either search brings up, one row of features each; every other tool is not relevant.
"""

from __future__ import annotations

from collections.abc import Sequence

import faiss
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.models.tools.lexical import LexicalIndex
from proxy.models.tools.text import ToolText, terms

Floats = NDArray[np.float32]

faiss.omp_set_num_threads(1)  # a search takes less than waking threads does, and they would compete with the requests'

NEAREST = 128
"""Tools that the vector search brings up for the whole query; as many as matter for any `top_k` that shortens a prompt."""
NEAREST_TO_SEGMENT = 16
BEST_BY_WORDS = 64
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
)


class Query(Struct, frozen=True):
    """A query with its vectors: ``(d,)`` of the whole, ``(s, d)`` of its segments."""

    text: str
    vector: Floats
    segments: Floats


class ToolIndex:
    """An index of a distinct set of tools. Immutable once made."""

    def __init__(self, tools: Sequence[ToolText], names: Floats, descriptions: Floats) -> None:
        """`names` and `descriptions` are ``(len(tools), d)``, unit length."""
        self.tools = tuple(tools)
        self.keys = tuple(tool.key for tool in tools)
        self.descriptions = descriptions
        self._names = names
        self._nearest = faiss.IndexFlatIP(descriptions.shape[1])
        self._nearest.add(descriptions)
        self._words = LexicalIndex([tool.terms for tool in tools])
        self._name_words = LexicalIndex([tool.name_terms for tool in tools])

    def features(self, query: Query) -> tuple[NDArray[np.int64], Floats]:
        """Positions of the candidates, ascending, and their features ``(candidates, len(FEATURES))``."""
        words = terms(query.text)
        match, name_match = self._words.match(words), self._name_words.match(words)
        scores, positions = self._search(query.vector[None], NEAREST)
        best_of_segment, by_segment = np.zeros(0, np.float32), np.zeros(0, np.int64)
        if len(query.segments):
            segment_scores, segment_positions = self._search(query.segments, NEAREST_TO_SEGMENT)
            best_of_segment, by_segment = segment_scores[:, 0], segment_positions.ravel()
        by_words = np.argsort(-match.bm25, kind="stable")[:BEST_BY_WORDS]
        candidates = np.unique(np.concatenate([positions[0], by_segment, by_words[match.bm25[by_words] > 0]]))

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
        )
        return candidates, np.stack(columns, axis=1).astype(np.float32)

    def _search(self, vectors: Floats, limit: int) -> tuple[Floats, NDArray[np.int64]]:
        """Inner products and positions of the nearest descriptions, best first: ``(len(vectors), limit)``."""
        found: tuple[Floats, NDArray[np.int64]] = self._nearest.search(np.ascontiguousarray(vectors), min(limit, len(self.tools)))
        return found


def _ranks(values: Floats) -> NDArray[np.int64]:
    """0 for the highest; ties in order."""
    ranks = np.empty(len(values), np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return ranks
