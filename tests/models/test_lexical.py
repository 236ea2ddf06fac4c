import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.models.tools.words import LexicalIndex

WORDS = st.lists(st.sampled_from("abcdefgh"), max_size=8)


def test_bm25_is_that_of_the_reference() -> None:
    bm25s = pytest.importorskip("bm25s")
    documents = [["a", "b", "b"], ["b", "c", "d", "d", "e"], ["e"], ["a", "c"]]
    reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    reference.index(documents, show_progress=False)
    ours = LexicalIndex(documents).match(["a", "e"]).bm25
    # bm25s leaves out the factor k1 + 1, which changes no order
    np.testing.assert_allclose(reference.get_scores(["a", "e"]) * 2.2, ours, rtol=1e-5)


def test_coverage_is_whole_when_all_words_are_there() -> None:
    match = LexicalIndex([["a", "b"], ["a", "c", "d"]]).match(["a", "b"])
    assert 1 == pytest.approx(match.coverage[0], abs=1e-5)
    assert 1 == pytest.approx(match.covered[0], abs=1e-5)
    assert match.covered[1] < match.coverage[1] < 1


def test_a_word_that_no_document_has_lowers_coverage() -> None:
    index = LexicalIndex([["a"], ["b"]])
    assert index.match(["a", "zzz"]).coverage[0] < index.match(["a"]).coverage[0]


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_nothing_matches_nothing(documents: list[list[str]]) -> None:
    match = LexicalIndex(documents).match(["a"])
    assert [0.0] * len(documents) == match.bm25.tolist()


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_shares_are_shares_and_order_of_words_does_not_matter(documents: list[list[str]], query: list[str]) -> None:
    index = LexicalIndex(documents)
    match, again = index.match(query), index.match(reversed(query))
    assert (match.bm25 >= 0).all()
    assert ((match.coverage >= 0) & (match.coverage <= 1 + 1e-5)).all()
    assert ((match.covered >= 0) & (match.covered <= 1 + 1e-5)).all()
    assert match.bm25.tolist() == again.bm25.tolist()
