"""The words by which statements speak of columns, states and amounts, read once from ``lexicon.toml``."""

from __future__ import annotations

import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from proxy.grounding.evidence.reading import FUNCTION_WORDS
from proxy.language import stop_words
from proxy.language.names import folded


class State(NamedTuple):
    """What a word says of how something stands."""

    group: str
    which: int


class Lexicon(NamedTuple):
    """What is known of a folded word."""

    concepts: dict[str, frozenset[str]]
    states: dict[str, frozenset[State]]
    words: dict[str, frozenset[str]]
    """Plain lists, by what their words have in common."""


@cache
def lexicon() -> Lexicon:
    """The lists of this project."""
    read = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    concepts: dict[str, set[str]] = {}
    for concept, listed in read["concepts"].items():
        for word in listed.split():
            concepts.setdefault(word, set()).add(concept)
    states: dict[str, set[State]] = {}
    for group, lists in read["states"].items():
        for which, listed in enumerate(lists):
            for word in listed.split():
                states.setdefault(word, set()).add(State(group, which))
    words = {name: frozenset(listed.split()) for name, listed in read["words"].items()}
    words["skipped"] = (words["skipped"] | FUNCTION_WORDS | stop_words.FUNCTION_WORDS) - {"name", "many", "no", "non"}
    return Lexicon(
        {word: frozenset(found) for word, found in concepts.items()}, {word: frozenset(found) for word, found in states.items()}, words
    )


def listed(name: str) -> frozenset[str]:
    """A plain list."""
    return lexicon().words[name]


def concepts_of(words: tuple[str, ...]) -> frozenset[str]:
    """What a column's name or a statement's words are about."""
    known = lexicon().concepts
    return frozenset(concept for word in words for concept in known.get(word, ()))


def states_of(words: tuple[str, ...]) -> frozenset[State]:
    """The states that a value's words name, "not ready" and "notready" alike."""
    known = lexicon().states
    denied = {b for a, b in pairwise(words) if a in listed("denying")}
    joined = [joint for a, b in pairwise(words) for joint in (a + b, f"{a}-{b}")]
    return frozenset(state for word in (*(w for w in words if w not in denied), *joined) for state in known.get(word, ()))


def boolean_of(text: str) -> bool | None:
    """What a cell of a column of yes and no says; of "2/3" whether it is all of them."""
    word = folded(text.strip())
    done, mark, whole = word.partition("/")
    if mark and done.isdigit() and whole.isdigit():
        return done == whole
    return True if word in listed("yes") else False if word in listed("no") else None
