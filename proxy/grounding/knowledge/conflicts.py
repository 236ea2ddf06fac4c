"""What a fact has in the place of a claim's own words: the only thing that makes a claim false, however sure a verifier is.

In: a claim, a fact about the same subject, and the numbers, dates, units, names and negations that differ. Out: a `Conflict`, or None. To
be unlike a fact is not to be against it: a claim may say more than the fact, or the same in other words. It is against it only where the
fact has another value of the same kind in the same place of the same statement, or where one of the two has a "not". Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.values.consistency import Difference, words_in_place
from proxy.grounding.values.slots import Slot, slot
from proxy.grounding.values.stated import Kind, StatedValues
from proxy.language.dates import date_agrees
from proxy.language.quantities import read_quantities
from proxy.language.stop_words import FUNCTION_WORDS

ALIGNED = 0.5
"""Share of a claim's words, beside values, that a fact in its language must have so that another value stands in the same place."""
WELL_ALIGNED, MUTUAL = 0.75, 0.4
"""The same, and the share of the fact's words that the claim must have, so that the other value is plain whatever the verifier reads."""
STEM_CHARS = 4
"""Letters that a word shares with another form of it: "hoch" and "höchste"."""
_BEING_SOMEWHERE = """
located situated lies stands found placed liegt steht befindet gelegen ubicada ubicado situada situado encuentra halla queda situe situee
trouve dresse
"""
LOCATIVE = frozenset(terms(_BEING_SOMEWHERE))
"""What says of a place no more than "is in" does."""

_PLACED = re.compile(r"\b(?:in|im|ins|aus|nach|an|am|ans|bei|zum?|vom?)(?: d(?:er|ie|as|en|em))? $", re.I)


class Conflict(Struct, frozen=True):
    """One place in which a claim says something else than a fact."""

    kind: Kind | str
    """``number``, ``date``, ``time``, ``unit``, ``name`` or ``negation``."""
    claim: str
    """The claim's words for it."""
    evidence: str
    """The fact's."""
    plain: bool = False
    """Whether the two say the same in nearly the same words, but for it."""
    shown: float = 0.0
    """The verifier's support of the claim with the fact's words in it, where that shows a conflict (`exchanging`); else 0."""

    @property
    def reason(self) -> str:
        """In words, for the record."""
        return f"{self.kind} {self.claim} (evidence: {self.evidence})"


def conflict_of(
    claim: str, text: str, language: str, found: Sequence[Difference], subject: set[str], *, one_language: bool
) -> Conflict | None:
    """Where `text`, a fact about `subject` (terms), has something else in the place of `claim`; `found` are their differences.

    In two languages only numbers, dates and units can be compared.
    """
    negated = next((one for one in found if one.kind == "negation"), None)
    if negated is not None:
        return Conflict("negation", negated.claim, negated.evidence)
    said, there = set(terms(claim)) - subject, set(terms(text)) - subject
    for one in (*_slots(claim, text, language, one_language=one_language), *_counterparts(claim, language, found)):
        if not one_language or says_the_same(said, there, [one]):
            return one
    return _exchanged_name(claim, text, language) if one_language else None


def _counterparts(claim: str, language: str, found: Sequence[Difference]) -> list[Conflict]:
    """Values that the fact has otherwise; not a date that the claim has as well, beside its own."""
    return [
        Conflict(one.kind, one.claim, one.evidence)
        for one in found
        if one.evidence and (one.kind in ("number", "unit") or (one.kind == "date" and not _has_date(claim, one.evidence, language)))
    ]


def _has_date(claim: str, text: str, language: str) -> bool:
    """Whether the claim tells the date in `text` as well, in part or with more of it."""
    mine, its = read_quantities(claim, language).dates, read_quantities(text, any_language=True).dates
    return any(date_agrees(a, b) or date_agrees(b, a) for a in mine for b in its)


def _slots(claim: str, text: str, language: str, *, one_language: bool) -> list[Conflict]:
    one: Slot | None = slot(claim, [text], StatedValues([text]), language)
    if one is None or not one.placed or (one.aligned < ALIGNED if one_language else one.kind == "name"):
        return []
    plain = one_language and one.aligned >= WELL_ALIGNED and one.mutual >= MUTUAL
    return [Conflict(one.kind, one.claim, one.evidence, plain)]


def says_the_same(said: set[str], there: set[str], found: Sequence[Conflict]) -> bool:
    """Whether what is said beside the values that differ has a word's stem in common, or is nothing at all on one of the two sides."""
    values = {term for one in found for term in (*terms(one.claim), *terms(one.evidence))}
    empty = values | FUNCTION_WORDS | LOCATIVE
    mine, its = ({term[:STEM_CHARS] for term in words - empty if not term[0].isdigit()} for words in (said, there))
    return not mine or not its or not mine.isdisjoint(its)


def _exchanged_name(claim: str, text: str, language: str) -> Conflict | None:
    """The only words that differ, where both are names: "the Baltic Sea" for "the Black Sea".

    In German, where every noun has a capital, only behind a word of place.
    """
    mine, its = words_in_place(claim, text)
    if not mine[:1].isupper() or not its[:1].isupper() or claim.startswith(mine):
        return None
    if language == "de" and _PLACED.search(claim[: claim.find(mine)]) is None:
        return None
    return Conflict("name", mine, its)
