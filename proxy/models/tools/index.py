"""A set of tools, ready to be searched: vectors of descriptions, BM25 over words, and the features that relevance is made of.

In: the views of every tool (`proxy.models.tools.words`) with their vectors, and a query with its own. Out: for the few tools that any
search brings up, one row of features each; every other tool is not relevant. A tool's features tell of its family, too: the tools of one
server, or whose names begin alike.

Words are compared one by one by their embeddings, so that "place to stay" finds a tool for hotels and "Licht" one for lights: after
ColBERT's late interaction (Khattab and Zaharia 2020) with vectors of single words. A tool covers a word of the query as well as the most
alike of its own words does, and a query as well as it covers its words, the rare ones counting more. How rare a word is follows from all
words of the catalogue that are like it, so that it is known for words, and languages, that no tool uses.

The probability that a tool is needed comes of its features by a perceptron with one hidden layer, some six hundred numbers in
``tool_relevance.json``, made by ``python -m training.tool_relevance`` (the file says on what data). The features say nothing of which
tool it is, so it serves catalogues that it has never seen.

The vectors of a catalogue's texts that were embedded before come from the store, new ones go there: so another node, or this one after a
restart, answers the first question about a catalogue as an old one does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from proxy.models.tools.words import Floats, LexicalIndex, ToolText, content_words, query_words, segments, spaced, terms
from proxy.offloop import run_in_thread_if_large
from proxy.ports import Embedder, SharedVectors

ROW_COST = 100
"""To copy a row takes about as long as a pass over so many characters."""
Rows = Mapping[str, NDArray[np.float32]]


class CatalogueTexts:
    """Embeds the texts of tools."""

    def __init__(self, embedder: Embedder, shared: SharedVectors | None = None) -> None:
        self._embedder, self._shared = embedder, shared

    async def known(self, texts: Sequence[str]) -> Rows:
        """What the store has of them."""
        if self._shared is None:
            return {}
        found = await self._shared.get(texts)
        return await run_in_thread_if_large(len(found) * ROW_COST, _unpack_rows, found)

    async def unknown(self, texts: Sequence[str], known: Rows) -> int:
        """How many would have to be embedded."""
        return await self._embedder.unknown([text for text in texts if text not in known])

    async def vectors(self, texts: Sequence[str], known: Rows, *, bulk: bool) -> NDArray[np.float32]:
        """``(len(texts), d)``, unit length. Raises `ModelUnavailable`."""
        if self._shared is None:
            return await self._embedder.embed(texts, bulk=bulk)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        made = await self._embedder.embed(missing, bulk=bulk) if missing else ()
        rows, new = await run_in_thread_if_large(len(texts) * ROW_COST, _together, texts, known, missing, made)
        if new:
            self._shared.put(new)
        return rows


def _unpack_rows(found: Mapping[str, bytes]) -> Rows:
    return {text: np.frombuffer(row, "<f4").astype(np.float32) for text, row in found.items()}


def _together(
    texts: Sequence[str], known: Rows, missing: Sequence[str], made: Iterable[NDArray[np.float32]]
) -> tuple[NDArray[np.float32], dict[str, bytes]]:
    """The rows of all texts, and those that were missing as they are kept."""
    new = dict(zip(missing, made, strict=True))
    rows = {**known, **new}
    return np.stack([rows[text] for text in texts]), {text: row.astype("<f4").tobytes() for text, row in new.items()}


NEAREST = 128
"""Tools that the vector search brings up for the whole query; as many as matter for any `top_k` that shortens a prompt."""
NEAREST_TO_SEGMENT = 16
BEST_BY_WORDS = 64
BEST_BY_LIKE_WORDS = 32
FEATURES = tuple(
    """
    cosine_name cosine_description cosine_best_segment behind_best_of_segment behind_best_description behind_best_name
    cosine_standardised log_rank_by_cosine bm25_share_of_best log_bm25 query_coverage name_coverage_of_query name_covered
    log_rank_by_bm25 best_cosine any_word_matches log_query_terms log_tools cover behind_best_cover log_rank_by_cover
    cover_of_best_segment behind_best_cover_of_segment cover_by_name best_covered_word cover_by_family_name cosine_of_family
    family_behind_best_family cosine_behind_best_of_family log_family_size
    """.split()  # noqa: SIM905 - a list of words reads better as words
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
        """Inner products and positions of the nearest descriptions, best first, the earlier of equals first: ``(len(vectors), limit)``."""
        products: Floats = vectors @ self.descriptions.T
        most = min(limit, len(self.tools))
        likeliest = np.sort(np.argpartition(-products, most - 1, axis=1)[:, :most], axis=1)
        order = np.argsort(-np.take_along_axis(products, likeliest, axis=1), axis=1, kind="stable")
        positions = np.take_along_axis(likeliest, order, axis=1)
        return np.take_along_axis(products, positions, axis=1), positions


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
        self._non_empty = np.array([i for i, found in enumerate(held) if found], np.int64)
        self._starts = np.cumsum([0, *(len(found) for found in held if found)])[:-1]
        self._rows = np.array([i for found in held for i in found], np.int64)
        self._size = len(documents)
        self._frequency = np.bincount(self._rows, minlength=len(words)).astype(np.float32)

    def cover(self, alike: Floats) -> Floats:
        """How well each document covers each word of a query: ``(w, documents)``, 0 to 1. `alike` is ``(w, len(words))``, cosines."""
        found = np.zeros((len(alike), self._size), np.float32)
        if len(self._rows) and len(alike):
            found[:, self._non_empty] = np.maximum.reduceat(np.square(np.maximum(alike, 0))[:, self._rows], self._starts, axis=1)
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


WEIGHTS = Path(__file__).with_name("tool_relevance.json")


class RelevanceModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The numbers of the file."""

    source: dict[str, Any]
    """Data, seed, measured calibration error: for people."""
    features: tuple[str, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    hidden: tuple[tuple[float, ...], ...]
    """``(features, units)``"""
    hidden_bias: tuple[float, ...]
    output: tuple[float, ...]
    output_bias: float

    def __post_init__(self) -> None:
        if self.features != FEATURES:
            raise ValueError("trained on other features than the index makes: run python -m training.tool_relevance")


class ToolRelevance:
    """The model as arrays."""

    def __init__(self, model: RelevanceModel) -> None:
        self._mean, self._scale = np.array(model.mean, np.float32), np.array(model.scale, np.float32)
        self._hidden, self._hidden_bias = np.array(model.hidden, np.float32), np.array(model.hidden_bias, np.float32)
        self._output, self._output_bias = np.array(model.output, np.float32), np.float32(model.output_bias)

    def logits(self, features: Floats) -> Floats:
        """``(n, len(FEATURES))`` -> ``(n,)``: the log odds that each tool is needed."""
        units = np.maximum((features - self._mean) / self._scale @ self._hidden + self._hidden_bias, 0)
        found: Floats = units @ self._output + self._output_bias
        return found


@cache
def shipped() -> ToolRelevance:
    """The model in this package."""
    return ToolRelevance(msgspec.json.decode(WEIGHTS.read_bytes(), type=RelevanceModel))


def probability(logits: Floats) -> Floats:
    """The logistic function."""
    found: Floats = np.float32(1) / (np.float32(1) + np.exp(-np.clip(logits, -30, 30)))
    return found
