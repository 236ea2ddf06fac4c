"""Which sentences of the evidence a claim should be judged by.

In: the evidence's sentences and a claim. Out: the positions of the few that a verifier reads, within a budget of characters. Terms
are weighted by how few sentences have them (inverse document frequency, Robertson and Spärck Jones 1976) and sentences are taken
greedily by what they add to the claim's terms that earlier ones lack, so that a claim that joins two facts gets both.
The verifier was trained on what this function returns: a change here asks for a new training.
"""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from proxy.language.names import NameWords, name_words
from proxy.language.quantities import Quantities, read_quantities
from proxy.language.text import split_sentences
from proxy.offloop import LARGE, each

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = NDArray[np.float64]
    Similarity = Sequence[float] | NDArray[np.float32] | NDArray[np.float64]


EVIDENCE_CHARS = 600
"""Characters of evidence for one claim: about 200 tokens, of the verifier's 256."""
_TERM = re.compile(r"\w+")
_STEM_CHARS = 6
"""Words are compared by so many first letters: "founded" and "founding", "Gründung" and "Gründungen"."""
_REPEAT_WEIGHT = 0.15
"""What a term still counts once a chosen sentence has it."""
_COSINE_WEIGHT = 0.3
"""What a sentence's similarity to the claim counts beside its share of the claim's terms; at 0.5 it pushes words of the claim out."""
_DECIMALS = 9
"""Scores that are the same but for the order of a sum are ties, and the earlier sentence wins."""
GAP = " […] "
"""Between sentences that do not follow each other."""


def terms(text: str) -> list[str]:
    """Folded first letters of each word; whole numbers. Diacritics are dropped, so that "Zurich" finds "Zürich"."""
    folded = text.casefold()
    if not folded.isascii():
        folded = unicodedata.normalize("NFKD", folded)
        folded = "".join(c for c in folded if not unicodedata.combining(c))
    words = _TERM.findall(folded) if len(folded) < LARGE else (found[0] for found in each(_TERM.finditer(folded)))  # others go between
    return [word if word[0].isdigit() else word[:_STEM_CHARS] for word in words]


class TermPositions:
    """For each term of some sentences, which of them have it. Made once for a text, however many requests come with it."""

    __slots__ = ("_at", "size")

    def __init__(self, sentences: Sequence[str]) -> None:
        self.size = len(sentences)
        at: dict[str, int | list[int]] = {}
        for i, sentence in enumerate(sentences):
            for term in set(terms(sentence)):
                known = at.get(term)
                if known is None:
                    at[sys.intern(term)] = i  # most stand in one sentence of a message, and in other messages too
                elif isinstance(known, int):
                    at[term] = [known, i]
                else:
                    known.append(i)
        self._at = at

    def of(self, term: str) -> Sequence[int]:
        """The sentences that have it, in order."""
        found = self._at.get(term, ())
        return (found,) if isinstance(found, int) else found


class Index:
    """The evidence's sentences, ready to be searched for many claims: for each term, the sentences that have it."""

    def __init__(
        self, sentences: Sequence[str], leave_out: Collection[int] = (), *, parts: Sequence[TermPositions] = (), gap_chars: int = 0
    ) -> None:
        """Those at the positions in `leave_out` are never returned: repetitions. `parts` are the terms of all sentences, one after the
        other, where they are known; `gap_chars` counts for each sentence beside its own length.
        """
        self.sentences = sentences
        self._lengths = [len(sentence) + gap_chars for sentence in sentences]
        self._excluded = frozenset(leave_out)
        self._chars = sum(self._lengths) - sum(self._lengths[i] for i in self._excluded)
        self._parts = parts or [TermPositions(sentences)]
        self._starts = list(accumulate((part.size for part in self._parts), initial=0))
        self._positions_of_term: dict[str, NDArray[np.intp]] = {}

    def _positions(self, term: str) -> NDArray[np.intp]:
        """The sentences that have a term, in order."""
        import numpy as np

        found = self._positions_of_term.get(term)
        if found is None:
            places = [start + i for part, start in zip(self._parts, self._starts, strict=False) for i in part.of(term)]
            found = self._positions_of_term[term] = np.array(places, np.intp)
        return found

    def _weight(self, term: str) -> float:
        n, having = len(self.sentences), len(self._positions(term))
        return math.log(1 + (n - having + 0.5) / (having + 0.5))

    def _terms(self, position: int) -> list[str]:
        return sorted(set(terms(self.sentences[position])))

    def best(self, claim: str, similarity: Similarity | None = None, budget_chars: int = EVIDENCE_CHARS) -> list[int]:
        """Positions of the sentences to judge `claim` by, in order of the text; all of them where they fit into the budget.

        `similarity` is the cosine of the claim with each sentence, where there is an embedder.
        """
        return sorted(self.ranked(claim, similarity, budget_chars))

    def ranked(self, claim: str, similarity: Similarity | None = None, budget_chars: int = EVIDENCE_CHARS) -> list[int]:
        """As `best`, in the order in which they were chosen: the most telling first."""
        if self._chars <= budget_chars:
            return [i for i in range(len(self.sentences)) if i not in self._excluded]
        wanted = sorted(set(terms(claim)))
        total = self._total(wanted)
        scores = self.closeness(claim, similarity)
        scores[list(self._excluded)] = -math.inf
        return self._greedy(scores, frozenset(wanted), total, budget_chars, only_shared=similarity is None)

    def closeness(self, claim: str, similarity: Similarity | None = None) -> Scores:
        """``(n,)``: how much each sentence alone says to `claim`."""
        import numpy as np

        scores = self.scores(sorted(set(terms(claim))))
        return scores if similarity is None else scores + _COSINE_WEIGHT * np.asarray(similarity, np.float64)

    def scores(self, wanted: Sequence[str]) -> Scores:
        """``(n,)``: the share of the weight of the terms `wanted` that each sentence has, 0 to 1."""
        import numpy as np

        total = self._total(wanted)
        scores = np.zeros(len(self.sentences))
        for term in wanted:
            scores[self._positions(term)] += self._weight(term) / total
        return scores

    def nearest(self, text: str, most: int) -> list[int]:
        """At most `most` positions that share a term with `text`, the one that shares most first."""
        scores = self.scores(sorted(set(terms(text))))
        order = (-scores.round(_DECIMALS)).argsort(kind="stable")[:most]
        return [i for i in order.tolist() if scores[i] > 0]

    def coverage(self, claim: str, positions: Sequence[int]) -> float:
        """The share of the weight of the claim's terms that the sentences at `positions` have together, 0 to 1."""
        wanted = sorted(set(terms(claim)))
        there = {term for i in positions for term in terms(self.sentences[i])}
        return sum(self._weight(term) for term in wanted if term in there) / self._total(wanted)

    def _total(self, wanted: Sequence[str]) -> float:
        return sum(self._weight(term) for term in wanted) or 1.0

    def _greedy(self, scores: Scores, wanted: frozenset[str], total: float, left: int, *, only_shared: bool) -> list[int]:
        """`scores` is used up: what is chosen, or does not fit any more, becomes minus infinity."""
        import numpy as np

        lengths = np.array(self._lengths)
        chosen: list[int] = []
        seen: set[str] = set()
        while left > 0:
            i = int(scores.round(_DECIMALS).argmax())
            if scores[i] == -math.inf or (only_shared and scores[i] <= 0):
                break
            for at in self._with_neighbour(i, scores, left - self._lengths[i]):
                chosen.append(at)
                scores[at] = -math.inf
                left -= self._lengths[at]
            for term in self._terms(i):
                if term in wanted and term not in seen:
                    seen.add(term)
                    scores[self._positions(term)] -= (1 - _REPEAT_WEIGHT) * self._weight(term) / total
            scores[lengths > left] = -math.inf
        return chosen

    def _with_neighbour(self, i: int, scores: Scores, left: int) -> tuple[int, ...]:
        """A sentence and, where it is short, the one before it: what "it" and "the company" refer to."""
        near = i > 0 and scores[i - 1] != -math.inf and self._lengths[i - 1] <= left // 2
        return (i, i - 1) if near else (i,)

    def joined(self, positions: Sequence[int]) -> str:
        """The sentences at `positions` as one text, gaps marked."""
        out: list[str] = []
        for k, i in enumerate(positions):
            if k:
                out.append(" " if positions[k - 1] == i - 1 else GAP)
            out.append(self.sentences[i].strip())
        return "".join(out)


# ---- reading ----


_STOPS = re.compile(r"[.!?…]{4,}")
NUMERAL = re.compile(r"\d+")
FUNCTION_WORDS = frozenset(
    """
    the a an of in on at to and or is are was were be been by for from with as it its his her their that this has had have not no
    der die das den dem des ein eine einen einem einer und oder ist sind war waren von mit zu im am in auf fur nicht kein es sich wurde
    el la los las un una de del y o es son fue en por con para que se su no lo al le les une et ou est sont etait dans pour avec que qui
    ne pas du au aux sur ce
    """.split()  # noqa: SIM905
)
"""Folded words that say nothing of what a sentence is about."""


class SentenceReading(Struct, frozen=True):
    """One sentence with what it is about."""

    text: str
    terms: frozenset[str]


class EvidenceReading(Struct, frozen=True):
    """A piece of evidence, read once for all claims that it is judged with."""

    text: str
    quantities: Quantities
    numerals: frozenset[str]
    names: NameWords
    terms: tuple[str, ...]
    positions: dict[str, tuple[int, ...]]
    sentences: tuple[SentenceReading, ...]
    years: tuple[int, ...]


@lru_cache(maxsize=64)
def read_evidence(text: str) -> EvidenceReading:
    """`text` made ready to be compared with claims; the last few texts are kept."""
    sentences = [s for s in split_sentences(_STOPS.sub("…", text)) if s.strip()]
    sentence_terms = [terms(sentence) for sentence in sentences]
    found = tuple(term for said in sentence_terms for term in said)
    positions: dict[str, list[int]] = {}
    for i, term in enumerate(found):
        places = positions.setdefault(term, [])
        if len(places) < 8:  # keeps the search for shared runs linear in a text that repeats one word
            places.append(i)
    quantities = read_quantities(text, any_language=True)
    return EvidenceReading(
        text,
        quantities,
        frozenset(NUMERAL.findall(text)),
        name_words(text),
        found,
        {term: tuple(places) for term, places in positions.items()},
        tuple(SentenceReading(s, frozenset(t) - FUNCTION_WORDS) for s, t in zip(sentences, sentence_terms, strict=True)),
        tuple(dict.fromkeys(y for date in quantities.dates for y, _, _ in date.readings if y is not None)),
    )


# ---- what a text speaks of ----

_ENDING = re.compile(r"(?:es|en|ed|er|s|e|n|t)$")
_SUBJECT_CHARS = 5
_ASKING = frozenset(
    """
    who whom what when where why how which does do did can could will would many much wer wen was wann wo wie warum welche quien
    que cuando donde como cual cuanto qui quand ou comment combien quel quelle
    """.split()  # noqa: SIM905
)
"""Words of a question, and auxiliaries, that say nothing of what it is about."""


def words_of(text: str) -> frozenset[str]:
    """What a text speaks of: its terms without their endings."""
    said = (term for term in terms(text) if len(term) > 1 and not term[0].isdigit() and term not in FUNCTION_WORDS and term not in _ASKING)
    return frozenset(_ENDING.sub("", term)[:_SUBJECT_CHARS] if len(term) > 3 else term for term in said)
