"""The index over facts: what is found, in which order, and word by word."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.knowledge.reading import make_fact
from proxy.models.knowledge.building import build_in_memory
from proxy.models.knowledge.index import KnowledgeIndex, kind_for, make_index, nearest, probe
from proxy.ports.facts import Fact
from proxy.testing import HashEmbedder

FACTS = (
    "The capital of France is Paris.",
    "Die Zugspitze ist der höchste Berg Deutschlands.",
    "El Teide mide 3715 metros.",
    "La Seine traverse Paris.",
    "An inch is 2.54 centimetres.",
)


async def indexed(*facts: Fact | str) -> KnowledgeIndex:
    return await build_in_memory([make_fact("", f, "a.csv") if isinstance(f, str) else f for f in facts], HashEmbedder())


async def found(index: KnowledgeIndex, *texts: str, k: int = 5) -> list[list[str]]:
    vectors = await HashEmbedder().embed(texts)
    return [[hit.fact.statement for hit in hits] for hits in index.search(texts, vectors, k)]


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("Which city is the capital of France?", FACTS[0]),
        ("Wie hoch ist die Zugspitze?", FACTS[1]),
        ("¿Cuántos metros mide el Teide?", FACTS[2]),
        ("Quel fleuve traverse Paris?", FACTS[3]),
        ("inch", FACTS[4]),
    ],
)
async def test_a_text_finds_the_fact_that_says_most_to_it(text: str, fact: str) -> None:
    assert [[fact]] == await found(await indexed(*FACTS), text, k=1)


async def test_scores_fall_from_one_for_the_fact_itself() -> None:
    index = await indexed(*FACTS)
    [hits] = index.search([FACTS[0]], await HashEmbedder().embed([FACTS[0]]), 5)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert 1.0 == pytest.approx(scores[0], abs=1e-3)


async def test_of_equals_the_earlier_fact_comes_first() -> None:
    twins = [make_fact("", "Ada leads the team.", "a.csv", None, float(end)) for end in range(1, 40)]
    index = await indexed(*twins)
    [hits] = index.search(["Ada leads the team."], await HashEmbedder().embed(["Ada leads the team."]), 3)
    assert [fact.id for fact in twins[:3]] == [hit.fact.id for hit in hits]


async def test_nothing_is_found_among_no_facts() -> None:
    index = await indexed()
    assert ([[]], None) == (await found(index, "anything"), index.exact("anything"))


async def test_a_fact_is_found_word_by_word_in_other_marks() -> None:
    index = await indexed(*FACTS, make_fact("Aurora lamp", "It weighs 620 g.", "b.csv"))
    for text in ("the capital of FRANCE is  Paris", "It weighs 620 g", "Aurora lamp: it weighs 620 g."):
        assert index.exact(text) is not None
    for text in ("The capital of France is Lyon.", "Is the capital of France Paris?", "", "."):
        assert index.exact(text) is None


async def test_word_by_word_a_fact_that_holds_comes_before_one_that_is_over() -> None:
    over, holds = (make_fact("", "Ada leads the team.", "a.csv", begin, end) for begin, end in ((0.0, 1.0), (1.0, None)))
    assert holds == (await indexed(over, holds)).exact("Ada leads the team.")
    assert over == (await indexed(over)).exact("Ada leads the team.")


async def test_a_version_goes_by_facts_and_sources_and_embedder() -> None:
    class Other(HashEmbedder):
        name = "hash-65"

    base = [make_fact("", "Water is wet.", "a.csv")]
    versions = {
        (await build_in_memory(base, HashEmbedder())).version,
        (await build_in_memory([make_fact("", "Water is wet.", "b.csv")], HashEmbedder())).version,
        (await build_in_memory([make_fact("", "Water is dry.", "a.csv")], HashEmbedder())).version,
        (await build_in_memory(base, Other())).version,
    }
    assert 4 == len(versions)
    assert (await build_in_memory(base, HashEmbedder())).version in versions


words = st.sampled_from(["paris", "lyon", "berlin", "tower", "river", "lamp", "weighs", "flows", "330", "620", "metres", "grams"])
sentences = st.lists(words, min_size=1, max_size=6).map(" ".join)


@given(st.lists(sentences, min_size=1, max_size=60, unique=True), sentences, st.integers(1, 8))
async def test_a_search_returns_the_best_of_all_facts(statements: list[str], text: str, k: int) -> None:
    index = await indexed(*statements)
    vectors = await HashEmbedder().embed([text])
    few, every = index.search([text], vectors, k)[0], index.search([text], vectors, 1000)[0]
    assert [hit.fact.id for hit in few] == [hit.fact.id for hit in every[:k]]
    assert all(0 <= hit.score <= 1 for hit in every)


@given(st.lists(sentences, max_size=40), sentences)
async def test_coverage_is_the_share_of_the_terms_that_a_fact_has(statements: Sequence[str], text: str) -> None:
    rows, shares = (await indexed(*statements)).coverage(text)
    sharing = [i for i, statement in enumerate(statements) if set(statement.split()) & set(text.split())]
    assert sharing == rows.tolist()
    whole = {i for i in sharing if set(text.split()) <= set(statements[i].split())}
    assert whole == {row for row, share in zip(rows.tolist(), shares, strict=True) if share > 1 - 1e-6}


def test_a_large_index_is_compressed_and_finds_what_a_full_search_finds() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((3000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    asked = vectors[:50] + 0.05 * rng.standard_normal((50, 32)).astype(np.float32)
    flat, compressed = make_index(vectors, "flat"), probe(make_index(vectors, "IVF16,SQ8"))
    assert nearest(flat, asked, 1)[:, 0].tolist() == nearest(compressed, asked, 1)[:, 0].tolist()
    assert ("flat", "IVF512,SQ8") == (kind_for(20_000), kind_for(100_000))


def test_the_same_vectors_give_the_same_index() -> None:
    vectors = np.random.default_rng(5).standard_normal((3000, 16)).astype(np.float32)
    one, other = (probe(make_index(vectors, "IVF16,SQ8")) for _ in range(2))
    assert nearest(one, vectors[:20], 10).tolist() == nearest(other, vectors[:20], 10).tolist()
