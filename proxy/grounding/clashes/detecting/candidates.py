"""Which pairs of statements are worth judging: those about one thing, and of them only what is new.

In: statements, which of them were paired before, and vectors where there is an embedder. Out: `Pair`s, each of two statements once,
whichever way round they were given. Statements meet by slot, by rare terms and by similarity; a new statement meets a bounded number of
old ones, so a long conversation costs what is new.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.grounding.clashes.detecting.questions import sides
from proxy.grounding.clashes.kinds import Statement, pair_hash
from proxy.grounding.clashes.statements.categories import kinds_in
from proxy.grounding.clashes.statements.plain import IT
from proxy.grounding.clashes.statements.plain_things import whole
from proxy.grounding.clashes.statements.slots import OF_THE_ASSISTANT
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.offloop import each

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

BY_SLOT = 24
"""Old statements of its slot that a new one meets, the latest first."""
BY_WORDS = 6
"""Of those that share a rare term with it."""
BY_SIMILARITY = 6
"""Of those that are alike in meaning."""
MIN_SIMILARITY = 0.3
"""Cosine of the built-in embedding model. Of the pairs that clash in training/statements.tsv 98 of 100 are above, of a wish and a proposal
against it (training/preferences.tsv) 53."""
_COMMON_SHARE = 0.3
"""A term that stands in more of the statements than this says nothing of what one is about."""
_ALWAYS_RARE = 6
"""Statements with a term, up to which it is rare however short the conversation."""
_USER_SIDE = frozenset(("user", "system", "memory"))


class Pair(Struct, frozen=True):
    """Two statements that may clash, in the order of the conversation."""

    older: Statement
    newer: Statement

    @property
    def hash(self) -> str:
        """`proxy.grounding.clashes.kinds.pair_hash`."""
        return pair_hash(self.older.hash, self.newer.hash)


def candidates(statements: Sequence[Statement], *, seen: Collection[str] = (), vectors: Vectors | None = None) -> list[Pair]:
    """The pairs to judge of `statements`, of which no two say the same, in order of the newer statement.

    `seen` are hashes of statements that have been paired with each other before; `vectors` ``(len(statements), d)`` float32 of unit length.
    """
    index = _Index(statements)
    found: dict[str, Pair] = {}
    for i, statement in enumerate(each(statements)):
        if statement.hash in seen:
            continue
        for j in index.near(i, vectors):
            pair = Pair(*in_order(statement, statements[j]))
            found.setdefault(pair.hash, pair)
    return sorted(found.values(), key=lambda pair: (pair.newer.place, pair.older.place))


def in_order(one: Statement, other: Statement) -> tuple[Statement, Statement]:
    """The older and the newer: by their times where both have one, else by their places; what is remembered is older than what is said."""
    if {one.origin, other.origin} == {"user", "memory"} and None in (one.timestamp, other.timestamp):
        return (one, other) if one.origin == "memory" else (other, one)
    if one.timestamp is not None and other.timestamp is not None and one.timestamp != other.timestamp:
        return (one, other) if one.timestamp < other.timestamp else (other, one)
    return (one, other) if one.place <= other.place else (other, one)


def may_meet(one: Statement, other: Statement) -> bool:
    """Whether one may contradict the other at all: said of the same, and both of one world.

    What a user wants is not contradicted by what a passage says of the world; a record's field only by the same record's.
    """
    if one.place == other.place:
        return False
    if {whole(plain.attribute) for plain in one.declares} & {whole(plain.attribute) for plain in other.declares}:
        return True
    if one.subject != other.subject and not ({one.slot, other.slot} <= OF_THE_ASSISTANT and one.slot):
        return False
    fields = [statement.slot.startswith("field:") for statement in (one, other)]
    if any(fields):
        return all(fields)
    sides = {statement.origin in _USER_SIDE for statement in (one, other)}
    wished = any(statement.kind != "fact" for statement in (one, other))
    return len(sides) == 1 or not wished


class _Index:
    """Statements by slot and by rare term."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = statements
        self._terms = [_terms(statement) for statement in statements]
        self._by_slot: dict[tuple[str, str], list[int]] = {}
        self._by_term: dict[str, list[int]] = {}
        self._keys = [_keys(statement) for statement in statements]
        for i in each(range(len(statements))):
            for key in self._keys[i]:
                self._by_slot.setdefault(key, []).append(i)
            for term in self._terms[i]:
                self._by_term.setdefault(term, []).append(i)
        common = max(_ALWAYS_RARE, _COMMON_SHARE * len(statements))
        self._by_term = {term: found for term, found in self._by_term.items() if len(found) <= common}

    def near(self, i: int, vectors: Vectors | None) -> Iterator[int]:
        """Positions of the statements that the one at `i` should be compared with."""
        own = self._statements[i]
        met: set[int] = set()
        ways = (
            (self._same_slot(i), BY_SLOT),
            (self._same_words(i), BY_WORDS),
            (_most_similar(i, (vectors @ vectors[i]).tolist()) if vectors is not None else (), BY_SIMILARITY),
        )
        for positions, most in ways:
            may = (j for j in positions if j != i and j not in met and may_meet(own, self._statements[j]))
            for j in list(islice(may, most)):
                met.add(j)
                yield j

    def _same_slot(self, i: int) -> Iterable[int]:
        return sorted({j for key in self._keys[i] for j in self._by_slot[key]}, reverse=True)

    def _same_words(self, i: int) -> Iterable[int]:
        """By how many rare terms they share; the later first among equals."""
        shared: Counter[int] = Counter()
        for term in self._terms[i]:
            for j in self._by_term.get(term, ()):
                shared[j] += 1
        return sorted(shared, key=lambda j: (shared[j], j), reverse=True)


def _terms(statement: Statement) -> frozenset[str]:
    """What a statement is about: its terms, and the kinds of things that it names, or that its diet leaves out."""
    said = frozenset(term for term in terms(statement.text) if len(term) > 2) - FUNCTION_WORDS
    return said | {f"kind:{kind}" for text in (statement.text, *sides(statement).disliked) for kind in kinds_in(text)}


def _keys(statement: Statement) -> set[tuple[str, str]]:
    """By what a statement meets others: its slots, of a record's field that of the same record only, and what it declares."""
    slots = {(slot.slot, slot.scope if slot.slot.startswith("field:") else "") for slot in statement.slots}
    plain = {
        (one.scope.replace(" ", "_"), "") if one.attribute == IT else (f"plain:{whole(one.attribute)}", one.scope)
        for one in statement.declares
    }
    return slots | plain


def _most_similar(i: int, cosines: Sequence[float]) -> Iterable[int]:
    near = [j for j, cosine in enumerate(cosines) if cosine >= MIN_SIMILARITY and j != i]
    return sorted(near, key=lambda j: (cosines[j], j), reverse=True)
