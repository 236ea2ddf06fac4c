"""A piece of evidence read once, for all claims that are compared with it: its terms, numbers, dates and the words of its names.

Between the readers (`quantities`, `names`, `retrieval`) and `proxy.grounding.values.consistency`, which asks it.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from proxy.grounding.evidence.retrieval import terms
from proxy.language.names import NameWords, name_words
from proxy.language.quantities import Quantities, read_quantities
from proxy.language.text import split_sentences

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
