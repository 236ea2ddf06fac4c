"""`proxy.grounding.evidence.retrieval`: the same choice as its plain definition, within the budget."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.evidence.retrieval import _REPEAT_WEIGHT, EVIDENCE_CHARS, GAP, Index, terms
from proxy.grounding.evidence.structured import limited

WORDS = [
    "Ada",
    "wrote",
    "the",
    "first",
    "program",
    "in",
    "London",
    "Paris",
    "1843",
    "tower",
    "Zürich",
    "river",
    "engine",
    "of",
    "was",
    "by",
    "notes",
    "Babbage",
    "and",
    "it",
]
SENTENCES = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join), max_size=25)


def plainly(sentences: list[str], claim: str, budget: int) -> list[int]:
    """The definition: at each step the sentence whose terms add most to the claim's, over all sentences."""
    if sum(map(len, sentences)) <= budget:
        return list(range(len(sentences)))
    index = Index(sentences)
    wanted = set(terms(claim))
    total = sum(index._weight(term) for term in wanted) or 1.0
    candidates = {i: wanted & set(terms(sentence)) for i, sentence in enumerate(sentences)}
    chosen, seen, left = [], set(), budget

    def gain(i: int) -> float:
        return round(sum(index._weight(t) * (_REPEAT_WEIGHT if t in seen else 1.0) for t in sorted(candidates[i])) / total, 9)

    while candidates and left > 0:
        i = max(candidates, key=lambda i: (gain(i), -i))
        if not candidates[i]:
            break
        shared = candidates.pop(i)
        if chosen and len(sentences[i]) > left:
            continue
        chosen.append(i)
        seen |= shared
        left -= len(sentences[i])
        if i - 1 in candidates and len(sentences[i - 1]) <= left // 2:
            candidates.pop(i - 1)
            chosen.append(i - 1)
            left -= len(sentences[i - 1])
    return sorted(chosen)


@given(SENTENCES, st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), st.integers(20, 300))
def test_the_choice_is_that_of_the_plain_definition(sentences: list[str], claim: str, budget: int) -> None:
    assert Index(sentences).best(claim, budget_chars=budget) == plainly(sentences, claim, budget)


@given(SENTENCES, st.sampled_from(WORDS), st.integers(60, 300))
def test_sentences_shorter_than_the_budget_stay_within_it(sentences: list[str], claim: str, budget: int) -> None:
    index = Index(sentences)

    chosen = index.best(claim, [0.5] * len(sentences), budget)

    assert sum(len(sentences[i]) for i in chosen) <= budget
    assert chosen == sorted(set(chosen))


def test_all_sentences_are_taken_where_they_fit() -> None:
    assert Index(["One.", "Two.", "Three."]).best("Nothing of it") == [0, 1, 2]


def test_a_claim_that_joins_two_facts_gets_both() -> None:
    filler = [f"Number {i} tells of gardens, birds and rain in some detail." for i in range(60)]
    sentences = [*filler[:20], "Marie Curie was born in Warsaw.", *filler[20:40], "The Nobel Prize came in 1903.", *filler[40:]]

    chosen = Index(sentences).best("Marie Curie, born in Warsaw, got the Nobel Prize in 1903.", budget_chars=200)

    assert {20, 41} <= set(chosen)


def test_the_sentence_before_a_short_one_comes_with_it() -> None:
    sentences = ["The company Siemens is old.", "It was founded in 1847.", *(f"Other matters {i} follow here." for i in range(50))]

    assert Index(sentences).best("Founded in 1847", budget_chars=120)[:2] == [0, 1]


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        ("Die Gründungen in Zurich", "Zürichs Gründung geschah früh."),
        ("El niño nació en Bogota", "En Bogotá nacieron los niños."),
        ("Elle a été élue présidente", "L'élue, presidente du conseil, parla."),
    ],
)
def test_words_are_found_without_accents_and_endings(claim: str, sentence: str) -> None:
    index = Index([*(f"Nichts davon {i} nada de eso rien de cela." for i in range(60)), sentence])

    assert 60 in index.best(claim, budget_chars=200)


def test_similarity_finds_what_shares_no_word() -> None:
    sentences = [*(f"Filler number {i} speaks of rain." for i in range(60)), "Der Turm steht am Fluss."]
    similarity = np.zeros(61)
    similarity[60] = 0.9

    assert 60 not in Index(sentences).best("An iron building near water", budget_chars=100)
    assert 60 in Index(sentences).best("An iron building near water", similarity, 100)


def test_what_is_left_out_is_never_chosen() -> None:
    sentences = ["Paris is large."] * 3

    assert Index(sentences, leave_out=[1, 2]).best("Paris is large") == [0]


def test_gaps_are_marked() -> None:
    assert Index(["A.", "B.", "C."]).joined([0, 2]) == f"A.{GAP}C."


@given(SENTENCES, st.sampled_from(WORDS))
def test_the_same_search_gives_the_same_result(sentences: list[str], claim: str) -> None:
    assert Index(sentences).best(claim, budget_chars=80) == Index(list(sentences)).best(claim, budget_chars=80)


def test_a_long_sentence_leaves_room_for_another() -> None:
    long = "The tower in Zürich " + "and the river by it " * 40
    [first, *_] = pieces = [piece.shown for piece in limited(long, 0, len(long))]
    index = Index([*pieces, "Babbage wrote notes of the engine in 1843."])
    assert len(first) > EVIDENCE_CHARS // 2
    assert {0, len(pieces)} <= set(index.best("Babbage wrote notes in the tower in Zürich"))


@pytest.mark.process
def test_no_evidence_is_indexed_without_numpy() -> None:
    code = "import sys; from proxy.grounding.evidence.gathering import EvidenceBase; EvidenceBase(()); print('numpy' in sys.modules)"
    assert "False\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
