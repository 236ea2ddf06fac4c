"""Which pairs are worth judging: each once, and only what is new."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.clashes.detector import BY_ATTRIBUTE, candidates, in_order
from proxy.grounding.clashes.kinds import Statement, TextPiece
from proxy.grounding.clashes.reading import as_statement, read_statements


def read(*texts: str) -> list[Statement]:
    return read_statements([TextPiece(text, "user", i) for i, text in enumerate(texts)], "en")


def pairs(statements: list[Statement], **more: object) -> set[tuple[str, str]]:
    return {(pair.older.text, pair.newer.text) for pair in candidates(statements, **more)}  # type: ignore[arg-type]


def test_statements_of_one_attribute_are_a_pair_in_the_order_of_the_conversation() -> None:
    assert pairs(read("I live in Berlin.", "I live in Rome.")) == {("I live in Berlin.", "I live in Rome.")}


def test_statements_of_nothing_in_common_are_none() -> None:
    assert pairs(read("I live in Berlin.", "I don't eat fish.")) == set()


def test_statements_of_two_people_are_none() -> None:
    assert pairs(read("I hate fish.", "My wife loves fish.")) == set()


def test_a_shared_rare_word_makes_a_pair() -> None:
    assert pairs(read("I love spicy food.", "I hate spicy food.")) == {("I love spicy food.", "I hate spicy food.")}


def test_similar_vectors_make_a_pair_without_a_shared_word() -> None:
    vectors = np.array([[1.0, 0.0], [0.9, np.sqrt(1 - 0.81)]], np.float32)
    statements = read("I enjoy hiking.", "I dislike long walks.")
    assert (pairs(statements), pairs(statements, vectors=vectors)) == (set(), {("I enjoy hiking.", "I dislike long walks.")})


def test_the_later_time_makes_the_newer_one() -> None:
    early, late = as_statement("I live in Rome.", timestamp=10.0), as_statement("I live in Oslo.", timestamp=20.0)
    assert in_order(late, early) == (early, late)


def test_statements_that_were_paired_before_cost_nothing() -> None:
    old = read("I live in Berlin.", "I live in Rome.")
    everything = read("I live in Berlin.", "I live in Rome.", "I live in Oslo.")
    assert pairs(everything, seen={s.hash for s in old}) == {
        ("I live in Berlin.", "I live in Oslo."),
        ("I live in Rome.", "I live in Oslo."),
    }


def test_a_new_statement_meets_a_bounded_number_of_old_ones() -> None:
    statements = read(*(f"My budget is {n} euros." for n in range(100, 400)))
    seen = {s.hash for s in statements[:-1]}
    assert len(candidates(statements, seen=seen)) <= BY_ATTRIBUTE + 12


def test_what_it_is_to_be_meets_what_was_said_before() -> None:
    assert pairs(read("Book a table for 7 pm.", "Actually, make it 8 pm.")) == {("Book a table for 7 pm.", "Actually, make it 8 pm.")}


def test_what_a_passage_says_does_not_contradict_what_a_user_wants() -> None:
    found = read_statements([TextPiece("I want a cheap hotel.", "user", 0), TextPiece("The luxury hotel is expensive.", "passage")], "en")
    assert candidates(found) == []


SAID = [
    "I live in Berlin.",
    "I live in Rome.",
    "I love spicy food.",
    "I hate spicy food.",
    "My budget is 500 dollars.",
    "I am vegan.",
    "My wife is vegan.",
    "I eat steak.",
]


@given(st.lists(st.sampled_from(SAID), max_size=8))
def test_every_pair_comes_at_most_once(texts: list[str]) -> None:
    hashes = [pair.hash for pair in candidates(read(*texts))]
    assert len(hashes) == len(set(hashes))


@given(st.lists(st.sampled_from(SAID), max_size=8))
def test_no_statement_is_paired_with_itself(texts: list[str]) -> None:
    assert all(pair.older.place != pair.newer.place for pair in candidates(read(*texts)))


@given(st.lists(st.sampled_from(SAID), max_size=6, unique=True), st.integers(0, 6))
def test_turn_by_turn_the_same_pairs_are_judged_as_at_once(texts: list[str], cut: int) -> None:
    first, everything = read(*texts[:cut]), read(*texts)
    one_by_one = pairs(first) | pairs(everything, seen={s.hash for s in first})
    assert one_by_one == pairs(everything)
