"""Words compared one by one by their vectors."""

import numpy as np
import pytest
from numpy.typing import NDArray

from proxy.models.tools.index import WordIndex, coverage, parts_of, vocabulary

DOCUMENTS = (("search", "hotel"), ("search", "flight"), (), ("hotel",))
WORDS = vocabulary(DOCUMENTS)


def alike(**words: float) -> NDArray[np.float32]:
    """A query of one word with these cosines to the vocabulary."""
    return np.array([[words.get(word, 0.0) for word in WORDS]], np.float32)


def test_a_vocabulary_has_each_word_once() -> None:
    assert ("search", "hotel", "flight") == WORDS


def test_a_document_covers_a_word_as_well_as_its_most_similar_word_does() -> None:
    cover = WordIndex(DOCUMENTS, WORDS).cover(alike(hotel=0.5, search=0.1))
    assert pytest.approx([0.25, 0.01, 0, 0.25]) == cover[0].tolist()


def test_a_word_unlike_all_others_is_the_rarest() -> None:
    index = WordIndex(DOCUMENTS, WORDS)
    rarities = [float(index.rarity(alike(**words))[0]) for words in ({}, {"flight": 1.0}, {"search": 1.0})]
    assert sorted(rarities, reverse=True) == rarities
    assert len(set(rarities)) == 3


def test_rare_words_count_more() -> None:
    cover = np.array([[1, 0], [0, 1]], np.float32)
    assert [0.75, 0.25] == coverage(cover, np.array([3, 1], np.float32)).tolist()


def test_a_query_without_words_is_covered_by_none() -> None:
    nothing = np.zeros((0, len(WORDS)), np.float32)
    index = WordIndex(DOCUMENTS, WORDS)
    assert [0.0] * 4 == coverage(index.cover(nothing), index.rarity(nothing)).tolist()


def test_tools_without_a_word_cover_nothing() -> None:
    assert (1, 2) == WordIndex([(), ()], ()).cover(np.zeros((1, 0), np.float32)).shape


def test_the_words_of_a_segment_are_those_of_the_query() -> None:
    parts = parts_of("Book a hotel in Rome and cancel the flight to Oslo")
    assert ("book", "hotel", "rome", "cancel", "flight", "oslo") == parts.words
    assert ((0, 1, 2), (3, 4, 5)) == parts.words_of_segments


def test_function_words_of_four_languages_are_left_out() -> None:
    assert ("unterkunft", "paris") == parts_of("Ich möchte eine Unterkunft in Paris für mich").words


def test_of_a_long_query_the_longest_words_are_compared_in_their_order() -> None:
    words = [f"{letter * length}" for letter, length in zip("abcdefghijkl", (3, 9, 4, 9, 3, 9, 9, 9, 9, 9, 9, 4), strict=True)]
    assert tuple(word for word in words if len(word) == 9) == parts_of(" ".join(words)).words
